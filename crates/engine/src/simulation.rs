//! A simulation: a system, the current step and time.
//!
//! Invariant: the trajectory depends on the case alone. An output between two steps reads the
//! system after a shorter step, which does not change the simulation. Several steps at once give
//! the same bits as one after the other.

use std::sync::Arc;

use orrery_gravity::bodies::PendingBins;
use orrery_gravity::settings::StepChoice;
use orrery_model::analysis::{BinnedBodies, Projection};
use orrery_model::{Particles, Vec3s};

use crate::case::Case;
use crate::error::EngineError;
use crate::system::{Row, Schema, Stamp, System, SystemError};
use crate::trigger::{Trigger, time_tolerance};

/// Above 2^53 steps, step counts are no longer exact in f64.
pub const MAX_STEPS: u64 = 1 << 53;

/// A system that moves through the time of a case.
#[derive(Debug)]
pub struct Simulation {
    system: System,
    choice: StepChoice,
    start: f64,
    end: f64,
    step: u64,
    time: f64,
    /// True if the system has settled, so that the run ends before its end time.
    is_settled: bool,
}

/// State of a simulation at one time.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// The system at that time.
    pub system: &'a System,
}

impl Moment<'_> {
    /// Returns step and time.
    pub fn stamp(&self) -> Stamp {
        Stamp { step: self.step, time: self.time }
    }

    /// Returns the bodies on the host. Bodies on a device are copied first. A system without bodies
    /// is an error.
    pub fn particles(&self) -> Result<&Particles, EngineError> {
        match self.system {
            System::Gravity(system) => system.particles().map_err(|error| error.at(self.stamp())),
            other => Err(EngineError::NoBodies { physics: other.physics() }),
        }
    }

    /// Returns the positions of the bodies on the host. From a device only these are copied. A
    /// system without bodies is an error.
    pub fn positions(&self) -> Result<&Vec3s, EngineError> {
        match self.system {
            System::Gravity(system) => system.positions().map_err(|error| error.at(self.stamp())),
            other => Err(EngineError::NoBodies { physics: other.physics() }),
        }
    }

    /// Bins the bodies for a picture, on their device. Returns `None` if they are on the host. A
    /// system without bodies is an error.
    pub(crate) fn bins_on_device(
        &self,
        bodies: &Arc<BinnedBodies>,
        layers: usize,
        projection: &Projection,
    ) -> Result<Option<PendingBins>, EngineError> {
        match self.system {
            System::Gravity(system) => system
                .bodies()
                .bins_on_device(bodies, layers, projection)
                .map_err(|error| SystemError::from(error).at(self.stamp())),
            other => Err(EngineError::NoBodies { physics: other.physics() }),
        }
    }

    /// Measures the quantities of `schema`, which is that of the system. Returns an error if one is
    /// not finite.
    pub fn measure(&self, schema: &Schema) -> Result<Row, EngineError> {
        let values = self.system.measure().map_err(|error| error.at(self.stamp()))?;
        let row = Row { step: self.step, time: self.time, values };
        schema.check_finite(&row)?;
        Ok(row)
    }
}

impl Simulation {
    /// Creates a simulation from a system that is at `time` after `step` steps.
    pub fn new(case: &Case, system: System, step: u64, time: f64) -> Result<Self, EngineError> {
        let (start, end, choice) = (case.time.known_start(), case.time.end, case.time.step);
        let mut simulation = Self { system, choice, start, end, step, time, is_settled: false };
        simulation.check_settled()?;
        Ok(simulation)
    }

    /// Returns the simulation with another end.
    pub fn with_end(self, end: f64) -> Self {
        Self { end, ..self }
    }

    /// Replaces the system by the same system with other properties.
    pub fn map_system(self, map: impl FnOnce(System) -> System) -> Self {
        Self { system: map(self.system), ..self }
    }

    /// Replaces the system by the same system on another device.
    pub fn try_map_system(
        self,
        map: impl FnOnce(System) -> Result<System, SystemError>,
    ) -> Result<Self, EngineError> {
        let now = self.moment().stamp();
        Ok(Self { system: map(self.system).map_err(|error| error.at(now))?, ..self })
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
        Moment { step: self.step, time: self.time, system: &self.system }
    }

    /// Returns true if the run is complete: at its end time, or because the system has settled.
    pub fn is_finished(&self) -> bool {
        self.has_reached_end() || self.is_settled
    }

    /// Returns true at the end time of the run.
    pub fn has_reached_end(&self) -> bool {
        self.time >= self.end
    }

    /// Returns the time at which the next step ends. It is never later than the end of the run.
    pub fn next_time(&self) -> Result<f64, EngineError> {
        let (next, dt) = match self.choice {
            StepChoice::Fixed(dt) => (self.fixed_time(1, dt), dt),
            StepChoice::Adaptive { eta } => {
                let dt = self.system.adaptive_step(eta).map_err(|error| error.at(self.moment().stamp()))?;
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

    /// Returns the time after `steps` more steps of the fixed length `dt`. It is a product, not a
    /// sum, so rounding errors do not accumulate over a million steps.
    fn fixed_time(&self, steps: u64, dt: f64) -> f64 {
        self.start + (self.step + steps) as f64 * dt
    }

    /// Returns the largest number of steps, up to `most`, that end before the end of the run and
    /// before the system must be checked. It is at least 1. Adaptive steps are taken one by one.
    pub fn steps_until_end(&self, most: u64) -> u64 {
        let StepChoice::Fixed(dt) = self.choice else { return 1 };
        let most = match self.system.settling_check_every() {
            Some(every) => most.min(every - self.step % every),
            None => most,
        };
        let end = self.end - time_tolerance(self.end, dt);
        self.steps_while(most, (self.end - self.time) / dt, |steps| self.fixed_time(steps, dt) < end)
    }

    /// Returns the largest number of steps, up to `most`, after which `trigger` may fire and before
    /// which it does not. A due time within a step ends the batch before that step. It is at least
    /// 1: no due time lies within the next step.
    pub fn steps_until(&self, trigger: &Trigger, most: u64) -> u64 {
        let StepChoice::Fixed(dt) = self.choice else { return 1 };
        let most = trigger.steps_until_due(self.step).map_or(most, |steps| most.min(steps));
        let Some(due) = trigger.due_time() else { return most };
        self.steps_while(most, (due - self.time) / dt, |steps| {
            let time = self.fixed_time(steps, dt);
            time - time_tolerance(time, dt) <= due
        })
    }

    /// Returns the largest number of steps from 1 to `most` that `allows` accepts. All smaller ones
    /// are accepted too. `estimate` is about this number.
    fn steps_while(&self, most: u64, estimate: f64, allows: impl Fn(u64) -> bool) -> u64 {
        let mut steps = (estimate.max(0.0) as u64).saturating_add(1).clamp(1, most.max(1));
        while steps > 1 && !allows(steps) {
            steps -= 1;
        }
        steps
    }

    /// Takes `steps` steps, a number that [`Simulation::steps_until_end`] allows. `next` is the
    /// value from [`Simulation::next_time`], the end of the first one. Returns the length of the
    /// last one.
    pub fn advance(&mut self, next: f64, steps: u64) -> Result<f64, EngineError> {
        let (first, now) = (self.step, self.time);
        let dt = match self.choice {
            // All full steps have exactly the length `dt`. Only the last step may be shorter.
            StepChoice::Fixed(dt)
                if next < self.end || (next - now - dt).abs() <= time_tolerance(next, dt) =>
            {
                dt
            }
            _ => next - now,
        };
        let start = self.start;
        let end_of = |k: u64| match k {
            0 => Stamp { step: first, time: now },
            1 => Stamp { step: first + 1, time: next },
            _ => Stamp { step: first + k, time: start + (first + k) as f64 * dt },
        };
        let advanced = self.system.advance(dt, steps, &end_of);
        Stamp { step: self.step, time: self.time } = end_of(steps);
        advanced.map_err(|error| error.at(self.moment().stamp()))?;
        self.check_settled()?;
        Ok(self.time - end_of(steps - 1).time)
    }

    /// Announces that the state after the next call of [`Simulation::advance`] will be measured.
    pub fn request_measure(&mut self) {
        self.system.request_measure();
    }

    /// Returns the end of the last of `steps` steps and its length. `next` is the value from
    /// [`Simulation::next_time`].
    pub fn end_of_batch(&self, next: f64, steps: u64) -> (Stamp, f64) {
        let time_after = |count: u64| match (count, self.choice) {
            (0, _) => self.time,
            (1, _) | (_, StepChoice::Adaptive { .. }) => next,
            (_, StepChoice::Fixed(dt)) => self.fixed_time(count, dt),
        };
        let time = time_after(steps);
        (Stamp { step: self.step + steps, time }, time - time_after(steps - 1))
    }

    /// Checks whether the system has settled, if this is the time of such a check.
    fn check_settled(&mut self) -> Result<(), EngineError> {
        if let Some(every) = self.system.settling_check_every()
            && self.step > 0
            && self.step.is_multiple_of(every)
        {
            self.is_settled = self.system.is_settled().map_err(|error| error.at(self.moment().stamp()))?;
        }
        Ok(())
    }

    /// Calls `observe` with the state at `time`, which lies between now and the end of the next
    /// step. The simulation itself does not change.
    pub fn look_ahead(
        &mut self,
        time: f64,
        observe: &mut dyn FnMut(&Moment) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let now = self.moment().stamp();
        let mut observe_system = |system: &System| observe(&Moment { step: now.step, time, system });
        self.system.look_ahead(time - now.time, &mut observe_system).map_err(|error| error.at(now))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{CaseSource, Every};
    use crate::compute_device::ComputeDevice;
    use crate::control::Control;

    fn kepler_case(dt: f64, end: f64) -> Case {
        let text = format!("bodies.model = \"kepler\"\n[time]\nstep = {dt:?}\nend = {end:?}\n");
        let text = format!("{text}[output]\nrecord_every = 0\n[checkpoint]\nevery = 0\n");
        let source = CaseSource::Text { label: "case".into(), text, folder: Default::default() };
        Case::load(&source, &[]).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Returns the simulation of a case with steps of `dt`, as if it had taken `step` steps.
    fn simulation_at(dt: f64, end: f64, step: u64) -> Simulation {
        let (case, cpu) = (kepler_case(dt, end), ComputeDevice { device: None, reason: None });
        let (case, system) = System::start(&case, cpu, &Control::default(), &mut |_| {}).unwrap();
        Simulation::new(&case, system, step, step as f64 * dt).unwrap()
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
            for batch in [1, 2, 5] {
                let mut simulation = simulation_at(dt, end, steps - 3);
                while !simulation.is_finished() {
                    let next = simulation.next_time().unwrap();
                    let count = simulation.steps_until_end(batch);
                    simulation.advance(next, count).unwrap();
                }
                assert_eq!(
                    (simulation.step, simulation.time),
                    (steps, end),
                    "steps of {dt}, {batch} at once"
                );
            }
        }
    }

    /// Compares the batch until a trigger fires with single steps, each of which is checked.
    #[test]
    fn batches_end_where_single_steps_find_an_output() {
        for (every, dt) in [
            (Every::Steps(7), 0.1),
            (Every::Time(0.1), 0.005),
            (Every::Time(0.7), 0.01),
            (Every::Time(0.25), 0.1),
            (Every::Time(0.03), 0.1),
            (Every::Never, 0.1),
        ] {
            for step in [0, 3, 1_000_003, (1 << 32) + 1, (1 << 40) + 5] {
                let simulation = simulation_at(dt, (step as f64 + 1e4) * dt, step);
                let mut trigger = Trigger::new(every);
                trigger.advance_past(simulation.time, dt);
                // Outputs within the next step are looked ahead to before the batch.
                let next = simulation.fixed_time(1, dt);
                while let Some(due) = trigger.due_time()
                    && due < next - time_tolerance(next, dt)
                {
                    trigger.advance_past(due, 0.0);
                }
                let is_event = |steps: u64| {
                    let (time, after) =
                        (simulation.fixed_time(steps, dt), simulation.fixed_time(steps + 1, dt));
                    let within = after - time_tolerance(after, dt);
                    trigger.is_due(step + steps, time, dt)
                        || trigger.due_time().is_some_and(|due| due < within)
                };
                let expected = (1..200).find(|&steps| is_event(steps)).unwrap_or(200);
                assert_eq!(simulation.steps_until(&trigger, 200), expected, "{every:?} {dt} {step}");
            }
        }
    }
}
