//! GADGET's HDF5 layout, as yt, pynbody and h5py read it.
//!
//! ```text
//! /Header            attributes: NumPart_ThisFile[6], MassTable[6], Time, BoxSize, ...
//! /Units             attributes: UnitLength_in_cm, UnitMass_in_g, UnitVelocity_in_cm_per_s,
//!                                UnitSystem
//! /PartTypeK         K = 0..5, one group per species that has bodies
//!   Coordinates      (n, 3) f64      Velocities   (n, 3) f64
//!   Masses           (n) f64         ParticleIDs  (n) u64
//!   Order            (n) u64: index of each body among all bodies; absent if it is the file order
//! /Orrery            attributes: Step, Keys (the names of the provenance, in order)
//!   Provenance       attributes: one variable-length text per name
//! ```
//!
//! nbody units have no scale in cgs. The file then has 1 cm, 1 g, 1 cm/s, and `UnitSystem` =
//! "nbody". Files of other programs may lack /Units, /Orrery, ids, and masses that are in
//! MassTable. Their columns may be f32 and u32.
//!
//! Nothing outside the file is read. External storage and virtual datasets are rejected, and links
//! of any kind count as absent. Files whose header claims more data than they contain are rejected,
//! too.
//!
//! pynbody reads the units from /Units. yt assumes kpc, 10¹⁰ solar masses and km/s. Other units
//! are an argument of `load`, for example
//! `yt.load(path, unit_base=dict(h5py.File(path)["Units"].attrs))`.

mod chunks;
mod guard;
mod header;
mod read;
mod source;
mod write;

pub use read::read;
pub use write::write;

const UNIT_LENGTH: &str = "UnitLength_in_cm";
const UNIT_MASS: &str = "UnitMass_in_g";
const UNIT_VELOCITY: &str = "UnitVelocity_in_cm_per_s";
const UNIT_SYSTEM: &str = "UnitSystem";
