//! Lennard-Jones fluids: particles with the pair potential u(r) = 4 ε ((σ/r)¹² − (σ/r)⁶) in a box.
//!
//! m dv/dt = Σ −∇u is integrated with velocity Verlet (Swope et al. 1982). Pairs within the cutoff
//! come from neighbour lists (Verlet 1967) that are built from cells.
//!
//! Positions are fractions of the box in fixed point ([`orrery_model::simulation_box`]), and forces
//! are sums of integers ([`arithmetic`]). Results therefore do not depend on the order of
//! neighbours, on threads, on the instruction set, or on when lists are built.

pub mod arithmetic;
pub mod brute_force;
mod cells;
mod command;
pub mod device;
pub mod ensemble;
mod fluid;
mod follow;
mod forces;
mod host;
mod minimise;
mod neighbours;
pub mod potential;
mod rank;
pub mod sample;
pub mod selftest;
pub mod settings;
mod slab;
mod steps;
pub mod structure;
pub mod sums;
mod team;

use thiserror::Error;

pub use device::{DeviceFluid, DeviceFluidError, FluidStrategy, UnsupportedFluid};
pub use fluid::Fluid;
pub use follow::follow;
use host::FluidMotion;
pub use host::HostFluid;
pub use minimise::{MinimiseEnd, MinimiseLimits, MinimiseState, Minimiser};
pub use team::FluidTeam;

use settings::FluidSettings;
use steps::{Stepping, take_step};

/// Sums over all particles, in the units of the case.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FluidMeasures {
    /// Potential energy of all pairs, without corrections for pairs beyond the cutoff.
    pub potential: f64,
    /// Σ r · f over all pairs.
    pub virial: f64,
    /// ½ Σ m v².
    pub kinetic: f64,
    /// Σ m v.
    pub momentum: [f64; 3],
}

/// A particle that would move much farther in a step than its neighbours are away.
#[derive(Clone, Debug, Error, PartialEq)]
#[error(
    "particle {id} has the velocity {velocity:.3e} along {} after step {step}, and would move beyond its neighbours \
     in one step; the step may be too long, or particles may overlap at the start",
    ["x", "y", "z"][*axis]
)]
pub struct Exploded {
    /// Identifier of the particle.
    pub id: u64,
    /// Its velocity along the axis.
    pub velocity: f64,
    /// Axis: 0 for x, 1 for y, 2 for z.
    pub axis: usize,
    /// Number of steps before the one that failed.
    pub step: u64,
}

impl HostFluid {
    /// Takes `steps` steps of length `dt`. `first` is the number of steps before, which selects the
    /// random numbers of a thermostat.
    pub fn advance(&mut self, dt: f64, first: u64, steps: u64) -> Result<(), Exploded> {
        for step in first..first + steps {
            take_step(self, dt, step).map_err(|error| Exploded { step, ..error })?;
        }
        Ok(())
    }

    /// Returns the number of degrees of freedom, for the temperature.
    pub fn degrees_of_freedom(&self) -> f64 {
        self.settings().ensemble.degrees_of_freedom(self.len(), self.bounds().dimensions)
    }
}

impl Stepping for HostFluid {
    type Error = Exploded;

    fn settings(&self) -> &FluidSettings {
        self.settings()
    }

    fn degrees_of_freedom(&self) -> f64 {
        self.degrees_of_freedom()
    }

    fn apply(&mut self, motions: &[FluidMotion]) -> Result<(), Exploded> {
        self.apply(motions)
    }

    fn update_forces(&mut self) -> Result<(), Exploded> {
        self.update_forces();
        Ok(())
    }

    fn kinetic_energy(&self) -> Result<f64, Exploded> {
        Ok(self.motion().0)
    }
}

#[cfg(test)]
mod range_tests;
#[cfg(test)]
mod tests;
