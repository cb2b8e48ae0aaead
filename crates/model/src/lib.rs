//! The simulated system on the host: bodies and their units, initial conditions, and analysis.
//!
//! [`Particles`] stores the bodies as a structure of arrays in f64. [`ic`] generates them, for
//! example as a Plummer sphere or a disc galaxy. [`analysis`] measures energies, momenta,
//! Lagrangian radii and density profiles. [`units`] converts between unit systems, [`rng`] gives
//! reproducible random numbers, and [`Precision`] names the arithmetic of a computation. [`grid`]
//! describes rectangular grids and the conditions on their edges, and [`wave`] grids, velocities
//! and wavelets of acoustic waves. [`fluid`] has particles in a box ([`simulation_box`]). This
//! crate uses neither devices nor files.

pub mod analysis;
mod counts;
pub mod fluid;
pub mod grid;
pub mod ic;
pub mod particles;
mod precision;
pub mod rng;
pub mod simulation_box;
pub mod units;
pub mod wave;

pub use counts::{format_count, four_digits, short_number, whole_number};
pub use particles::{Particle, Particles, Species, Vec3s};
pub use precision::Precision;
pub use units::{Dimension, ShownUnit, UnitNames, Units};
