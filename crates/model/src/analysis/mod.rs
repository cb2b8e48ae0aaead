//! Measurements of a system of bodies, for example its energy or its density profile.
//!
//! Every sum runs over the bodies in their order and is compensated ([`sum`]). A measured drift is
//! then an error of the integrator and not of the measurement.

pub mod energy;
pub mod lagrangian;
pub mod max;
pub mod momentum;
pub mod profile;
pub mod sum;

pub use energy::{kinetic_energy, potential_energy_direct};
pub use lagrangian::{lagrangian_radii, shrinking_sphere_centre};
pub use max::max_or_nan;
pub use momentum::{angular_momentum, centre_of_mass, centre_of_mass_velocity, momentum};
pub use profile::{Shell, density_profile, surface_density_profile};
