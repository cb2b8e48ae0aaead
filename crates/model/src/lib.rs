//! What is simulated, on the host: bodies, their units, where they come from and what can be measured
//! of them. This room knows no devices and no files.

pub mod analysis;
pub mod ic;
pub mod particles;
pub mod rng;
pub mod units;

pub use particles::{Particle, Particles, Species, Vec3s};
pub use units::{Dimension, Units};
