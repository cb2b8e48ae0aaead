//! The simulation: bodies, integrator, and the current step and time.
//!
//! Invariant: the trajectory depends on the case alone. An output between two steps uses a copy of
//! the bodies that takes a shorter step. The simulation itself is not touched.

use orrery_model::Particles;
use orrery_particles::bodies::{Bodies, BodiesError, DeviceSetup, Stamp};
use orrery_particles::integrator::adaptive;
use orrery_particles::settings::{GravitySettings, IntegratorChoice, SolverChoice, StepChoice};

use crate::case::Case;
use crate::error::EngineError;
use crate::trigger::time_tolerance;

/// Above 2^53 steps, step counts are no longer exact in f64.
pub const MAX_STEPS: u64 = 1 << 53;

/// Bodies that move under the forces of a case.
#[derive(Debug)]
pub struct Simulation {
    bodies: Bodies,
    integrator: IntegratorChoice,
    choice: StepChoice,
    start: f64,
    end: f64,
    step: u64,
    time: f64,
}

/// State of a simulation at one time.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Bodies at that time.
    pub bodies: &'a Bodies,
}

impl Moment<'_> {
    /// Returns the bodies on the host. Bodies on a device are copied first.
    pub fn particles(&self) -> Result<&Particles, EngineError> {
        self.bodies.particles().map_err(|error| self.to_engine_error(error))
    }

    /// Converts an error of the bodies to an [`EngineError`]. A non-finite value gets the step and
    /// time at which it was found, or those of this moment if they are not known.
    pub fn to_engine_error(&self, error: BodiesError) -> EngineError {
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
    /// Returns the gravity settings of `case`. Some integrators and steps need the direct sum, for
    /// example `hermite4`. For them, `auto` becomes `direct`.
    pub fn gravity_settings(case: &Case) -> GravitySettings {
        let needs_pairs = case.time.integrator == IntegratorChoice::Hermite4
            || (matches!(case.time.step, StepChoice::Adaptive { .. }) && case.gravity.eps == 0.0);
        let solver = if needs_pairs { SolverChoice::Direct } else { case.gravity.solver };
        GravitySettings { solver, ..case.gravity }
    }

    /// Creates a simulation at the start of the case and computes the forces. Without `setup`,
    /// forces are computed on the CPU.
    pub fn new(case: &Case, particles: Particles, setup: Option<&DeviceSetup>) -> Result<Self, EngineError> {
        let bodies = Bodies::new(particles, &Self::gravity_settings(case), setup);
        let start = case.time.known_start();
        let bodies = bodies.map_err(|error| start_error(error, start))?;
        Ok(Self::restore(case, bodies, 0, start))
    }

    /// Creates a simulation from bodies that are at `time` after `step` steps.
    pub fn restore(case: &Case, bodies: Bodies, step: u64, time: f64) -> Self {
        let (integrator, choice) = (case.time.integrator, case.time.step);
        let (start, end) = (case.time.known_start(), case.time.end);
        Self { bodies, integrator, choice, start, end, step, time }
    }

    /// Returns the simulation with another end.
    pub fn with_end(self, end: f64) -> Self {
        Self { end, ..self }
    }

    /// Moves bodies from the host to a device.
    pub fn move_to_device(self, setup: &DeviceSetup) -> Result<Self, EngineError> {
        Ok(Self {
            bodies: self.bodies.moved_to(setup).map_err(|error| start_error(error, self.time))?,
            ..self
        })
    }

    /// Returns true if a run of `case` can be at `time` after `step` steps.
    pub fn is_reachable(case: &Case, step: u64, time: f64) -> bool {
        let (start, end) = (case.time.known_start(), case.time.end);
        step <= MAX_STEPS
            && (start..=end).contains(&time)
            && match case.time.step {
                StepChoice::Fixed(dt) => time == end || time == start + step as f64 * dt,
                StepChoice::Adaptive { .. } => true,
            }
    }

    /// Returns the current state.
    pub fn moment(&self) -> Moment<'_> {
        Moment { step: self.step, time: self.time, bodies: &self.bodies }
    }

    /// Returns true at the end of the run.
    pub fn is_finished(&self) -> bool {
        self.time >= self.end
    }

    /// Returns the time at which the next step ends. It is never later than the end of the run.
    pub fn next_time(&self) -> Result<f64, EngineError> {
        let (next, dt) = match self.choice {
            // A product, not a sum, so rounding errors do not accumulate over a million steps.
            StepChoice::Fixed(dt) => (self.start + (self.step + 1) as f64 * dt, dt),
            StepChoice::Adaptive { eta } => {
                let dt = adaptive::step_length(&self.bodies, eta)
                    .map_err(|error| self.moment().to_engine_error(error))?;
                let (step, time) = (self.step, self.time);
                if time + dt <= time || dt.is_nan() {
                    return Err(EngineError::StepTooShort { step, time, dt });
                }
                // Near time 0, every step advances the time, however short it is.
                let steps = (self.end - time) / dt;
                if steps > MAX_STEPS as f64 {
                    return Err(EngineError::TooManySteps { step, time, dt, steps });
                }
                (self.time + dt, dt)
            }
        };
        // A tiny last step would cost as much as a full one, so the step before it ends at the end
        // of the run.
        Ok(if next >= self.end - time_tolerance(self.end, dt) { self.end } else { next })
    }

    /// Takes the step that ends at `next`, the value from [`Simulation::next_time`].
    pub fn advance_to(&mut self, next: f64) -> Result<(), EngineError> {
        let dt = match self.choice {
            // All full steps have exactly the length `dt`. Only the last step may be shorter.
            StepChoice::Fixed(dt)
                if next < self.end || (next - self.time - dt).abs() <= time_tolerance(next, dt) =>
            {
                dt
            }
            _ => next - self.time,
        };
        let moved = self.integrator.step(&mut self.bodies, dt);
        self.step += 1;
        self.time = next;
        let checked = moved.and_then(|()| self.bodies.check_step(Stamp { step: self.step, time: next }));
        checked.map_err(|error| self.moment().to_engine_error(error))
    }

    /// Returns an error if a position, velocity or acceleration is not finite.
    pub fn check_finite(&self) -> Result<(), EngineError> {
        self.bodies.check_finite().map_err(|error| self.moment().to_engine_error(error))
    }

    /// Returns the bodies at `time`, which lies between now and the end of the next step. The
    /// simulation itself does not change.
    pub fn bodies_at(&self, time: f64) -> Result<Bodies, EngineError> {
        let ahead = self.bodies.try_clone().and_then(|mut ahead| {
            self.integrator.step(&mut ahead, time - self.time)?;
            Ok(ahead)
        });
        ahead.map_err(|error| self.moment().to_engine_error(error))
    }
}

/// Converts an error that occurred before the first step.
pub(crate) fn start_error(error: BodiesError, time: f64) -> EngineError {
    match error {
        BodiesError::NotFinite { source, .. } => EngineError::NotFinite { step: 0, time, source },
        BodiesError::Device(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CaseSource;

    fn kepler_case(dt: f64, end: f64) -> Case {
        let text = format!("bodies.model = \"kepler\"\n[time]\nstep = {dt:?}\nend = {end:?}\n");
        let text = format!("{text}[output]\nrecord_every = 0\n[checkpoint]\nevery = 0\n");
        let source = CaseSource::Text { label: "case".into(), text, folder: Default::default() };
        Case::load(&source, &[]).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Rounding puts the last full step one unit in the last place before the end. The first row
    /// has few steps. In the others this difference is more than 1e-9 steps.
    #[test]
    fn long_runs_end_without_a_tiny_extra_step() {
        for (dt, steps, end) in [
            (0.1, 3, 0.3),
            (0.3, 10_000_000_001, 3_000_000_000.3),
            (0.7, 10_000_000_003, 7_000_000_002.1),
            (0.0013, 10_000_000_003, 13_000_000.003_9),
        ] {
            let case = kepler_case(dt, end);
            let (limits, stop) = (Default::default(), Default::default());
            let particles =
                crate::start::initial_bodies(&case, &limits, &stop, &mut |_| {}).unwrap().particles;
            let bodies = Simulation::new(&case, particles, None).unwrap().bodies;
            let start = steps - 2;
            let mut simulation = Simulation::restore(&case, bodies, start, start as f64 * dt);
            while !simulation.is_finished() {
                let next = simulation.next_time().unwrap();
                simulation.advance_to(next).unwrap();
            }
            assert_eq!((simulation.step, simulation.time), (steps, end), "steps of {dt}");
        }
    }
}
