//! The loop: batches of steps with their output and checkpoints, until the end or a stop.

use std::path::PathBuf;
use std::time::Duration;

use super::Run;
use crate::case::{MAX_OUTPUTS_PER_STEP, OnDrift};
use crate::checkpoint::{RunState, StateBeforeEnd};
use crate::control::{RESERVE, RunEvent, Status, StopReason};
use crate::error::EngineError;
use crate::simulation::Moment;
use crate::trigger::time_tolerance;

/// Number of steps above which a run gets a warning. At 1e5 steps per second, which only a few
/// bodies reach, they take three hours.
const MANY_STEPS: f64 = 1e9;

impl Run<'_> {
    /// Returns the time that one more batch of steps and its checkpoint may take: twice the longest
    /// times so far, because the next step may take longer. A checkpoint waits for the output that
    /// workers have not written yet.
    fn needed_time(&self) -> Duration {
        2 * (self.longest_batch + self.longest_save + self.observers.backlog()) + RESERVE
    }

    /// Returns why the run must stop now, if it must.
    pub(super) fn stop_reason(&self) -> Option<StopReason> {
        self.reporter.control().stop_reason(self.needed_time())
    }

    /// Steps until the end of the case or until a stop is due. Returns the reason of the stop and
    /// its checkpoint, or `None` at the end.
    pub(super) fn step_until_end(&mut self) -> Result<Option<(StopReason, PathBuf)>, EngineError> {
        self.observe_start()?;
        while !self.simulation.is_finished() {
            if let Some(reason) = self.stop_reason() {
                return self.stop_at_checkpoint(reason).map(Some);
            }
            self.take_batch_and_report(u64::MAX)?;
        }
        self.reporter.retry(|_| self.observers.observe_all(&self.simulation.moment()))?;
        if self.simulation.moment().step > self.from.0 {
            self.check_limit()?;
        }
        // The last checkpoint marks the run as finished. The earlier ones are no longer needed.
        self.save_checkpoint(0.0)?;
        // A file that cannot be removed does no harm, but a run that waits for storage tries again.
        let _ = self.reporter.retry(|_| self.checkpoints.keep_newest(1));
        Ok(None)
    }

    /// Writes a checkpoint for a stop before the end. Returns an error if the wall time is too
    /// short for a single step: a job script that resumes after every stop would never end.
    fn stop_at_checkpoint(&mut self, reason: StopReason) -> Result<(StopReason, PathBuf), EngineError> {
        let needed = self.needed_time();
        let (step, path) = (self.simulation.moment().step, self.save_checkpoint(0.0)?);
        if reason == StopReason::WallTime && step == self.from.0 && !self.has_observed_within_step {
            return Err(EngineError::WallTimeTooShort { step, needed });
        }
        Ok((reason, path))
    }

    /// Takes up to `most` steps, reports them, and writes a checkpoint if one is due or requested.
    /// Takes no step if a stop is due while outputs within the step are observed.
    pub(super) fn take_batch_and_report(&mut self, most: u64) -> Result<(), EngineError> {
        let Some(next) = self.observe_within_step()? else { return Ok(()) };
        let timer = self.reporter.start_timer();
        let dt = self.take_batch(next, most)?;
        self.check_limit()?;
        let Moment { step, time, .. } = self.simulation.moment();
        let table = &self.observers.table;
        self.reporter.report(RunEvent::Step(Status {
            step,
            time,
            start: self.case.time.known_start(),
            end: self.case.time.end,
            from: self.from,
            elapsed: self.started.elapsed(),
            drift: table.schema().drift.map(|drift| drift.symbol).zip(table.drift()),
        }));
        self.longest_batch = self.longest_batch.max(self.reporter.worked_since(timer));
        // The end of the run has its checkpoint in any case.
        if self.simulation.is_finished() {
            return Ok(());
        }
        let is_requested = self.reporter.control().is_checkpoint_requested();
        if is_requested || self.checkpoints.is_due(&self.simulation.moment(), dt) {
            self.save_checkpoint(dt)?;
        }
        Ok(())
    }

    /// Observes the output times that lie within the next step. Returns the end of this step, or
    /// `None` if a stop is due before the last of them: a step can have thousands. The state does
    /// not change, so a resumed run observes the others.
    fn observe_within_step(&mut self) -> Result<Option<f64>, EngineError> {
        let next = self.simulation.next_time()?;
        let Moment { step, time: now, .. } = self.simulation.moment();
        let (end, dt) = (self.case.time.end, next - now);
        // A run that stopped within its last step has this state from before the first output of
        // the step.
        if next >= end && self.before_end.as_ref().is_none_or(|state| state.step() != step) {
            let (timer, waited) = (self.reporter.start_timer(), self.observers.waited());
            let state = self
                .reporter
                .retry(|_| StateBeforeEnd::capture(&self.simulation.moment(), &mut self.observers))?;
            self.before_end = Some(state);
            self.reporter.count_checkpoint(timer, self.observers.waited() - waited);
        }
        let steps = (end - now) / dt;
        if step == self.from.0 && steps > MANY_STEPS {
            self.reporter.report(RunEvent::ManySteps { steps, dt });
        }
        self.report_many_outputs(dt);
        // An output time this close to the end of the step is observed there.
        let before = next - time_tolerance(next, dt);
        while let Some(time) = self.observers.next_due_time().filter(|due| *due < before) {
            let Self { simulation, observers, reporter, .. } = self;
            let timer = reporter.start_timer();
            simulation.look_ahead(time, &mut |moment| {
                reporter.count_steps(timer);
                reporter.retry(|_| observers.observe_between_steps(moment))
            })?;
            self.longest_batch = self.longest_batch.max(self.reporter.worked_since(timer));
            self.has_observed_within_step = true;
            if self.stop_reason().is_some() && self.observers.next_due_time().is_some_and(|due| due < before)
            {
                return Ok(None);
            }
        }
        Ok(Some(next))
    }

    /// Reports once if very many outputs are due within a step of length `dt`. A case with a fixed
    /// step refuses this, but the length of adaptive steps is not known before the run.
    fn report_many_outputs(&mut self, dt: f64) {
        let Some(interval) = self.observers.shortest_interval() else { return };
        let outputs = dt / interval;
        if outputs > MAX_OUTPUTS_PER_STEP && !self.many_outputs_reported {
            self.many_outputs_reported = true;
            self.reporter.report(RunEvent::ManyOutputs { outputs, interval, dt });
        }
    }

    /// Takes up to `most` steps, until an output is due. `next` is the end of the first one.
    /// Returns the length of the last step.
    fn take_batch(&mut self, next: f64, most: u64) -> Result<f64, EngineError> {
        let end = self.case.time.end;
        let steps = self.batch_steps(most);
        let (end_of_batch, last_dt) = self.simulation.end_of_batch(next, steps);
        if end_of_batch.time >= end || self.observers.is_row_due(end_of_batch, last_dt) {
            self.simulation.request_measure();
        }
        let timer = self.reporter.start_timer();
        let dt = self.simulation.advance(next, steps)?;
        self.batch_length.record(steps, self.reporter.count_steps(timer));
        self.observers.collect(&self.simulation.moment())?;
        self.reporter.retry(|_| {
            self.observers.check_written()?;
            self.observers.observe_step(&self.simulation.moment(), dt)
        })?;
        Ok(dt)
    }

    /// Returns the number of steps until an output or a checkpoint is due, up to `most` and up to
    /// the number that the system and the caller want.
    fn batch_steps(&self, most: u64) -> u64 {
        let Self { simulation, observers, checkpoints, .. } = self;
        let of_caller = self.reporter.control().steps_per_batch;
        let of_system = || simulation.moment().system.steps_per_pass();
        let wanted = match of_caller {
            Some(steps) => steps,
            None => of_system().map_or(1, |steps| self.batch_length.next(steps)),
        };
        let steps = simulation.steps_until_end(most.min(wanted).max(1));
        let steps = observers.steps_until_due(simulation, steps);
        checkpoints.steps_until_due(simulation, steps)
    }

    /// Writes a checkpoint after a step of length `dt` and returns its path.
    pub(super) fn save_checkpoint(&mut self, dt: f64) -> Result<PathBuf, EngineError> {
        let (timer, waited) = (self.reporter.start_timer(), self.observers.waited());
        // Taken before the state is saved: a request during the save asks for a later state.
        let is_requested = self.reporter.control().take_checkpoint_request();
        let Self { case, provenance, simulation, observers, checkpoints, before_end, reporter, .. } = self;
        // The step may no longer be the last one if the run has got another end.
        let (moment, is_finished) = (simulation.moment(), simulation.is_finished());
        let before_end = before_end.as_ref().filter(|state| is_finished || state.step() == moment.step);
        let path = reporter.retry(|_| {
            let (state, blocks) = (observers.sync()?, observers.checkpoint_blocks());
            let state = RunState { case, provenance, moment, observers: state, blocks, before_end };
            checkpoints.save(&state, dt)
        })?;
        let elapsed = self.reporter.count_checkpoint(timer, self.observers.waited() - waited);
        self.longest_save = self.longest_save.max(elapsed);
        let step = self.simulation.moment().step;
        self.reporter.report(RunEvent::CheckpointWritten { path: &path, step, elapsed, is_requested });
        self.check_resolution()?;
        Ok(path)
    }

    /// Reports once if the precision no longer resolves the state, for example because a body
    /// moved far away. The initial state was checked when it was created.
    fn check_resolution(&mut self) -> Result<(), EngineError> {
        let moment = self.simulation.moment();
        if self.resolution_reported || moment.step == 0 {
            return Ok(());
        }
        let warning = moment.system.resolution_warning().map_err(|error| error.at(moment.stamp()))?;
        if let Some(text) = warning {
            let step = moment.step;
            self.resolution_reported = true;
            self.reporter.report(RunEvent::Unresolved { step, text: &text });
        }
        Ok(())
    }

    /// Compares the error of the run with its limit. If it is larger, reports this once or returns
    /// an error, as the case says.
    fn check_limit(&mut self) -> Result<(), EngineError> {
        let table = &self.observers.table;
        let (Some(limit), Some(drift), Some(error)) =
            (self.case.limits.drift, table.schema().drift, table.drift())
        else {
            return Ok(());
        };
        if error.abs() <= limit || self.limit_reported {
            return Ok(());
        }
        let Moment { step, time, .. } = self.simulation.moment();
        match self.case.limits.on_drift {
            OnDrift::Stop => {
                let (title, key) = (drift.title, drift.key);
                Err(EngineError::AboveLimit { step, time, title, key, error, limit })
            }
            OnDrift::Warn => {
                self.limit_reported = true;
                let drift = drift.with_steps(self.case.time.step);
                self.reporter.report(RunEvent::AboveLimit { step, drift, error, limit });
                Ok(())
            }
        }
    }
}
