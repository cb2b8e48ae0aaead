//! Bodies moving in time.
//!
//! Invariant: the trajectory is a function of the case alone. An output between two steps is made from a copy
//! that takes a shorter step; the simulation itself goes on as if no one had looked.

use orrery_model::Particles;
use orrery_particles::bodies::{Bodies, BodiesError, DeviceSetup, Stamp};
use orrery_particles::integrator::adaptive;
use orrery_particles::settings::{GravitySettings, IntegratorChoice, SolverChoice, StepChoice};

use crate::case::Case;
use crate::error::EngineError;
use crate::trigger::SAME_TIME;

/// Beyond so many steps, time + step is time again.
pub const MOST_STEPS: u64 = 1 << 53;

/// A running simulation.
#[derive(Debug)]
pub struct Simulation {
    bodies: Bodies,
    integrator: IntegratorChoice,
    choice: StepChoice,
    end: f64,
    step: u64,
    time: f64,
}

/// The state at a time that someone looks at.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// The bodies.
    pub bodies: &'a Bodies,
}

impl Moment<'_> {
    /// The bodies on the host.
    pub fn particles(&self) -> Result<&Particles, EngineError> {
        self.bodies.particles().map_err(|error| self.failed(error))
    }

    /// The error as of this moment, unless it knows of an earlier one.
    pub fn failed(&self, error: BodiesError) -> EngineError {
        match error {
            BodiesError::NotFinite { at, source } => {
                let Stamp { step, time } = at.unwrap_or(Stamp { step: self.step, time: self.time });
                EngineError::NotFinite { step, time, source }
            }
            BodiesError::Device(error) => error.into(),
        }
    }
}

impl Simulation {
    /// The case's gravity; where the integrator or the step needs all pairs, `auto` means them.
    pub fn gravity(case: &Case) -> GravitySettings {
        let needs_pairs = case.time.integrator == IntegratorChoice::Hermite4
            || (matches!(case.time.step, StepChoice::Adaptive { .. }) && case.gravity.eps == 0.0);
        let solver = if needs_pairs { SolverChoice::Direct } else { case.gravity.solver };
        GravitySettings { solver, ..case.gravity }
    }

    /// Sets the bodies up under the case's forces in `place`, `None` being the processor.
    pub fn new(case: &Case, particles: Particles, setup: Option<&DeviceSetup>) -> Result<Self, EngineError> {
        let bodies = Bodies::new(particles, &Self::gravity(case), setup);
        Ok(Self::restore(case, bodies.map_err(first_failure)?, 0, 0.0))
    }

    /// Goes on with bodies that are at `time` after `step` steps.
    pub fn restore(case: &Case, bodies: Bodies, step: u64, time: f64) -> Self {
        let (integrator, choice, end) = (case.time.integrator, case.time.step, case.time.end);
        Self { bodies, integrator, choice, end, step, time }
    }

    /// Brings bodies that are on the host to a device.
    pub fn moved_to(self, setup: &DeviceSetup) -> Result<Self, EngineError> {
        Ok(Self { bodies: self.bodies.moved_to(setup).map_err(first_failure)?, ..self })
    }

    /// Whether a run can be at `time` after `step` steps.
    pub fn can_be_at(case: &Case, step: u64, time: f64) -> bool {
        let end = case.time.end;
        step <= MOST_STEPS
            && (0.0..=end).contains(&time)
            && match case.time.step {
                StepChoice::Fixed(dt) => time == end || time == step as f64 * dt,
                StepChoice::Adaptive { .. } => true,
            }
    }

    /// The present state.
    pub fn moment(&self) -> Moment<'_> {
        Moment { step: self.step, time: self.time, bodies: &self.bodies }
    }

    /// Whether the end is reached.
    pub fn is_over(&self) -> bool {
        self.time >= self.end
    }

    /// The time at which the next step ends, never beyond the end of the run.
    pub fn next_time(&self) -> Result<f64, EngineError> {
        let (next, dt) = match self.choice {
            // The product, not the sum: rounding does not add up over a million steps.
            StepChoice::Fixed(dt) => ((self.step + 1) as f64 * dt, dt),
            StepChoice::Adaptive { eta } => {
                let dt =
                    adaptive::step_length(&self.bodies, eta).map_err(|error| self.moment().failed(error))?;
                if self.time + dt <= self.time || dt.is_nan() {
                    return Err(EngineError::StepTooShort { step: self.step, time: self.time, dt });
                }
                (self.time + dt, dt)
            }
        };
        // A last sliver of a step would cost as much as a whole one.
        Ok(if next >= self.end - SAME_TIME * dt { self.end } else { next })
    }

    /// Takes the step that ends at `next`, which [`Simulation::next_time`] gave.
    pub fn advance(&mut self, next: f64) -> Result<(), EngineError> {
        let dt = match self.choice {
            // All whole steps are equally long; only the last may be cut.
            StepChoice::Fixed(dt) if next < self.end || (next - self.time - dt).abs() <= SAME_TIME * dt => dt,
            _ => next - self.time,
        };
        let moved = self.integrator.step(&mut self.bodies, dt);
        self.step += 1;
        self.time = next;
        let checked = moved.and_then(|()| self.bodies.check_step(Stamp { step: self.step, time: next }));
        checked.map_err(|error| self.moment().failed(error))
    }

    /// Whether all numbers still are numbers.
    pub fn check_finite(&self) -> Result<(), EngineError> {
        self.bodies.check_finite().map_err(|error| self.moment().failed(error))
    }

    /// The bodies at `time`, between now and the next step's end, without disturbing the simulation.
    pub fn bodies_at(&self, time: f64) -> Result<Bodies, EngineError> {
        let ahead = self.bodies.try_clone().and_then(|mut ahead| {
            self.integrator.step(&mut ahead, time - self.time)?;
            Ok(ahead)
        });
        ahead.map_err(|error| self.moment().failed(error))
    }
}

/// Before the first step.
pub(crate) fn first_failure(error: BodiesError) -> EngineError {
    match error {
        BodiesError::NotFinite { source, .. } => EngineError::NotFinite { step: 0, time: 0.0, source },
        BodiesError::Device(error) => error.into(),
    }
}
