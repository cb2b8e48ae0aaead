//! Measurements of bodies and fields, for example the energy or the density profile of bodies.
//!
//! Every sum runs over the bodies or nodes in their order and is compensated ([`sum`]). A measured
//! drift is then an error of the integrator and not of the measurement.

pub mod bins;
pub mod energy;
pub mod field;
pub mod lagrangian;
pub mod max;
pub mod momentum;
pub mod profile;
pub mod sum;
pub mod trace;

pub use bins::{BinnedBodies, Bins, Projection};
pub use energy::{kinetic_energy, potential_energy_direct};
pub use field::{FieldDifference, FieldStatistics, field_integral};
pub use lagrangian::{lagrangian_radii, shrinking_sphere_centre};
pub use max::max_or_nan;
pub use momentum::{angular_momentum, centre_of_mass, centre_of_mass_velocity, momentum};
pub use profile::{Shell, density_profile, surface_density_profile};
pub use trace::{FIRST_BREAK_FRACTION, TraceMeasures};
