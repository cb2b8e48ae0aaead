//! Lennard-Jones fluids, as a [`System`](crate::System).
//!
//! `start` builds the particles of a case and `begin` the system that starts with them. `columns`
//! reads them from checkpoints, `record` describes the table, and `painter` draws images.

mod begin;
mod columns;
mod handover;
mod minimisation;
mod painter;
mod record;
mod start;
mod system;
mod warnings;

pub(crate) use begin::{plan, start};
pub use minimisation::MinimiseStatus;
pub(crate) use record::{diffusion_unit, length_unit};
pub use start::FluidError;
pub use system::FluidSystem;

use crate::system::Size;

/// Name of this physics.
pub(crate) const NAME: &str = "lennard_jones";
/// Name of the table of thermodynamic quantities.
pub(crate) const TABLE: &str = "thermo.csv";
/// Names of the plots of the table, without extension.
pub(crate) const PLOTS: [&str; 3] = ["thermo-temperature", "thermo-energy", "thermo-pressure"];
/// Particles at which a run failed.
pub(crate) const POST_MORTEM: &str = "post-mortem.gsd";

/// Bytes per particle on the host: the state with its sorted copy, neighbour lists, and copies that
/// are written. The melt has about 70 neighbours of 4 bytes within cutoff and skin.
const BYTES_PER_PARTICLE: u64 = 1000;

/// Returns about the bytes that a run needs on the host.
pub(crate) fn host_bytes(particles: u64) -> u64 {
    particles.saturating_mul(BYTES_PER_PARTICLE)
}

/// Returns a number of particles.
pub(crate) fn particle_count(count: u64) -> Size {
    Size { count, one: "particle", many: "particles" }
}

#[cfg(test)]
mod tests;
