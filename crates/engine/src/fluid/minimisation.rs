//! Minimisation of the energy at the start of a run: on the CPU of rank 0, before there is a
//! folder.

use std::time::{Duration, Instant};

use orrery_fluids::settings::FluidSettings;
use orrery_fluids::{MinimiseEnd, MinimiseLimits, MinimiseState, Minimiser};
use orrery_model::fluid::FluidParticles;
use orrery_model::four_digits;

use super::FluidError;
use crate::case::FluidCase;
use crate::control::{Control, RESERVE, RunEvent, StopReason};
use crate::error::EngineError;

/// Time between two reports. The energy of a report takes as long as a step.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// Time between two checks of the requests to stop.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Moves particles to a minimum of the energy. Velocities do not change. `refused` makes the error
/// of a minimisation that does not converge.
pub(super) fn minimised(
    mut particles: FluidParticles,
    fluid: &FluidCase,
    settings: &FluidSettings,
    control: &Control,
    report: &mut dyn FnMut(RunEvent<'_>),
    refused: &dyn Fn(FluidError) -> EngineError,
) -> Result<FluidParticles, EngineError> {
    let limits = MinimiseLimits { largest_force: fluid.minimise_force, steps: fluid.minimise_steps };
    let velocity = std::mem::take(&mut particles.velocity);
    particles.velocity = orrery_model::Vec3s::zeros(velocity.len());
    let started = Instant::now();
    let mut minimiser = Minimiser::new(particles, settings, limits);
    let status = |state: MinimiseState| MinimiseStatus { state, elapsed: started.elapsed() };
    report(RunEvent::Minimising(status(minimiser.state())));
    let (mut checked, mut reported) = (None::<Instant>, Instant::now());
    let mut stopped = None;
    let end = minimiser.run(&mut |minimiser| {
        if checked.is_none_or(|checked| checked.elapsed() >= CHECK_EVERY) {
            checked = Some(Instant::now());
            stopped = control.stop_reason(RESERVE);
        }
        if reported.elapsed() >= REPORT_EVERY {
            report(RunEvent::Minimising(status(minimiser.state())));
            reported = Instant::now();
        }
        stopped.is_none()
    });
    let end = end.map_err(|exploded| refused(FluidError::Minimisation(exploded.to_string())))?;
    let status = status(minimiser.state());
    match (end, stopped) {
        (MinimiseEnd::Converged, _) => report(RunEvent::Minimised(status)),
        (MinimiseEnd::Stopped, reason) => {
            let reason = reason.unwrap_or(StopReason::Requested);
            return Err(EngineError::MinimisationStopped { reason, status });
        }
        (MinimiseEnd::StepLimit, _) => {
            let (state, expected) = (status.state, fluid.minimise_force);
            return Err(refused(FluidError::NotMinimised { state, expected }));
        }
    }
    Ok(FluidParticles { velocity, ..minimiser.into_particles() })
}

/// Progress of a minimisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinimiseStatus {
    /// Steps, energy and largest force.
    pub state: MinimiseState,
    /// Wall time since its start.
    pub elapsed: Duration,
}

impl std::fmt::Display for MinimiseStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MinimiseState { energy, largest_force, .. } = self.state;
        let [energy, force] = [energy, largest_force].map(four_digits);
        write!(f, "energy per particle {energy} epsilon, largest force {force} epsilon/sigma")
    }
}
