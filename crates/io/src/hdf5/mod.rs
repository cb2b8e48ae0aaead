//! GADGET's HDF5 layout, as yt, pynbody and h5py read it.
//!
//! ```text
//! /Header            attributes: NumPart_ThisFile[6], MassTable[6], Time, BoxSize, ...
//! /Units             attributes: UnitLength_in_cm, UnitMass_in_g, UnitVelocity_in_cm_per_s, UnitSystem
//! /PartTypeK         K = 0..5, one group a species that has bodies
//!   Coordinates      (n, 3) f64      Velocities   (n, 3) f64
//!   Masses           (n) f64         ParticleIDs  (n) u64
//!   Order            (n) u64: place of each body among all bodies; left out where the file has that order
//! /Orrery            attributes: Step, Keys (the names of the provenance, in order)
//!   Provenance       attributes: one variable-length text each
//! ```
//!
//! nbody units have no scale in cgs: the file then says 1 cm, 1 g, 1 cm/s, and `UnitSystem` = "nbody".
//! A file of another program may leave out /Units, /Orrery, ids, and masses that stand in MassTable; its
//! columns may be f32 and u32.
//!
//! Nothing outside the file is ever read: external storage and virtual datasets are refused, and a link of
//! any kind counts as absent. The same goes for files that announce more than they can hold.
//!
//! pynbody takes the units from /Units. yt takes kpc, 10¹⁰ solar masses and km/s unless it is told otherwise:
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
