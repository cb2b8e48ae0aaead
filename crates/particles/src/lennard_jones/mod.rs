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
pub mod device;
pub mod ensemble;
mod fluid;
mod forces;
mod host;
mod minimise;
mod neighbours;
pub mod potential;
pub mod rungs;
pub mod sample;
pub mod selftest;
pub mod settings;
pub mod structure;

use thiserror::Error;

pub use device::{DeviceFluid, DeviceFluidError, FluidStrategy};
pub use fluid::{Fluid, minimised};
pub use host::HostFluid;
use host::Motion;
pub use minimise::Minimised;

use ensemble::{Ensemble, rescaling_factor};

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
            self.take_step(dt, step).map_err(|error| Exploded { step, ..error })?;
        }
        Ok(())
    }

    fn take_step(&mut self, dt: f64, step: u64) -> Result<(), Exploded> {
        let h = 0.5 * dt;
        match self.settings().ensemble {
            Ensemble::Nve => self.take_verlet_step(dt),
            Ensemble::Langevin { kt, friction, seed } => {
                let friction = Motion::Friction { decay: libm::exp(-friction * dt), kt, seed, step };
                self.apply(&[Motion::Kick(h), Motion::Drift(h), friction, Motion::Drift(h)])?;
                self.update_forces();
                self.apply(&[Motion::Kick(h)])
            }
            Ensemble::Rescaling { kt, time, seed } => {
                self.take_verlet_step(dt)?;
                let freedom = self.degrees_of_freedom();
                let kinetic = self.motion().0;
                let factor = rescaling_factor(kinetic, kt, freedom, dt / time, seed, step);
                self.apply(&[Motion::Scale(factor)])
            }
        }
    }

    fn take_verlet_step(&mut self, dt: f64) -> Result<(), Exploded> {
        self.apply(&[Motion::Kick(0.5 * dt), Motion::Drift(dt)])?;
        self.update_forces();
        self.apply(&[Motion::Kick(0.5 * dt)])
    }

    /// Returns the number of degrees of freedom, for the temperature.
    pub fn degrees_of_freedom(&self) -> f64 {
        self.settings().ensemble.degrees_of_freedom(self.len(), self.bounds().dimensions)
    }
}

#[cfg(test)]
mod tests;
