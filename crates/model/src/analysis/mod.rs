//! What can be measured of a system of bodies.
//!
//! Every sum runs over the bodies in their order and is compensated ([`sum`]), so a measured drift is the
//! integrator's and not the measurement's.

pub mod energy;
pub mod lagrangian;
pub mod momentum;
pub mod profile;
pub mod sum;

pub use energy::{kinetic_energy, potential_energy_direct};
pub use lagrangian::{lagrangian_radii, shrinking_sphere_centre};
pub use momentum::{angular_momentum, centre_of_mass, centre_of_mass_velocity, momentum};
pub use profile::{Shell, density_profile, surface_density_profile};
