//! Time steps on the CPU, for all particles or for the part of one rank.

use super::Exploded;
use super::ensemble::{Ensemble, rescaling_factor};
use super::host::FluidMotion;
use super::settings::FluidSettings;

/// Operations of which steps consist.
pub(super) trait Stepping {
    /// Reason why a step fails.
    type Error: From<Exploded>;

    /// Returns the settings.
    fn settings(&self) -> &FluidSettings;

    /// Returns the number of degrees of freedom of all particles.
    fn degrees_of_freedom(&self) -> f64;

    /// Applies operations to the particles, in this order. Fails if a particle moves by more than
    /// the largest step. The error names the first such particle in the user's order.
    fn apply(&mut self, motions: &[FluidMotion]) -> Result<(), Self::Error>;

    /// Computes the forces at the current positions.
    fn update_forces(&mut self) -> Result<(), Self::Error>;

    /// Returns the kinetic energy of all particles.
    fn kinetic_energy(&self) -> Result<f64, Self::Error>;
}

/// Takes a step of length `dt`. `step` is the number of steps before, which selects the random
/// numbers of a thermostat.
pub(super) fn take_step<F: Stepping>(fluid: &mut F, dt: f64, step: u64) -> Result<(), F::Error> {
    let h = 0.5 * dt;
    match fluid.settings().ensemble {
        Ensemble::Nve => take_verlet_step(fluid, dt),
        Ensemble::Langevin { kt, friction, seed } => {
            let friction = FluidMotion::Friction { decay: libm::exp(-friction * dt), kt, seed, step };
            fluid.apply(&[FluidMotion::Kick(h), FluidMotion::Drift(h), friction, FluidMotion::Drift(h)])?;
            fluid.update_forces()?;
            fluid.apply(&[FluidMotion::Kick(h)])
        }
        Ensemble::Rescaling { kt, time, seed } => {
            take_verlet_step(fluid, dt)?;
            let (freedom, kinetic) = (fluid.degrees_of_freedom(), fluid.kinetic_energy()?);
            let factor = rescaling_factor(kinetic, kt, freedom, dt / time, seed, step);
            fluid.apply(&[FluidMotion::Scale(factor)])
        }
    }
}

fn take_verlet_step<F: Stepping>(fluid: &mut F, dt: f64) -> Result<(), F::Error> {
    fluid.apply(&[FluidMotion::Kick(0.5 * dt), FluidMotion::Drift(dt)])?;
    fluid.update_forces()?;
    fluid.apply(&[FluidMotion::Kick(0.5 * dt)])
}
