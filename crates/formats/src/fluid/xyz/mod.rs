//! Trajectories as extended XYZ: text that ASE, OVITO and MDAnalysis read. [`crate::xyz`] describes
//! the format.
//!
//! # Layout of a frame
//!
//! ```text
//! 2
//! Properties=species:S:1:pos:R:3:velo:R:3:masses:R:1:id:I:1:image:I:3:Z:I:1
//!     Lattice="4 0 0 0 5 0 0 0 6" Origin="0 0 0" pbc="T T T" dimensions=3 Time=0.5 Step=10 ...
//! A 1 2.5 3 0.5 0 0 1 0 0 0 0 1
//! A 3.5 0.25 1 -0.5 0 0 1 1 0 -1 0 1
//! ```
//!
//! - `pos` is within the box. `image` is the number of box lengths to add for unwrapped
//!   coordinates.
//! - An open box has `pbc="F F F"`. Its `Lattice` is the box of the fractions, which is several
//!   times larger than the fluid. In two dimensions `pbc` is `"T T F"`, and z and its length are 0
//!   and 1.
//! - `units` names the system of units, and keys such as `unit_length` the unit of each quantity.
//! - `species_names`, `species_masses` and `species_diameters` list all species.
//! - `Z` is the atomic number, for ASE, see `elements.rs`.
//! - The first frame contains the provenance.
//!
//! Numbers read back to the same bits. The end of the frames that remain is found from the end of
//! the file, so an append does not read the whole file.
//!
//! # Reading
//!
//! Only `pos` is required. A file without `Properties` has the columns `species:S:1:pos:R:3`. The
//! box is open if there is no `Lattice`.

mod read;
mod write;

pub(super) use read::{XyzFrames, is_trajectory, read};
pub(super) use write::{append, remove_frames_from};

/// Columns of written files.
const PROPERTIES: &str = "species:S:1:pos:R:3:velo:R:3:masses:R:1:id:I:1:image:I:3:Z:I:1";
