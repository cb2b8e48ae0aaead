//! The time loop of a run: step, observe, write checkpoints and report, until the end or a stop
//! request.
//!
//! Invariant: output never affects the computation. Checkpoints, stops, resumes, full disks and
//! pauses change neither the trajectory nor any output.

mod setup;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orrery_io::Snapshot;

pub use crate::folder::{LOG_FILE, Output, Replace};
pub use crate::observers::Record;

use crate::case::{Case, OnEnergyError};
use crate::checkpoint::{self, Checkpoints, RunState, StateBeforeEnd};
use crate::control::{Control, RESERVE, RunEvent, Status, StopReason};
use crate::error::EngineError;
use crate::folder::{Lock, POST_MORTEM};
use crate::observers::Observers;
use crate::retry::retry_on_storage_error;
use crate::simulation::{Moment, Simulation};
use crate::trigger::time_tolerance;

/// Number of steps above which a run gets a warning. At 1e5 steps per second, which only a few
/// bodies reach, they take three hours.
const MANY_STEPS: f64 = 1e9;

/// Summary of a run that finished or stopped.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The case that was simulated.
    pub case: Case,
    /// Number of bodies.
    pub bodies: usize,
    /// Steps completed since the start of the run.
    pub step: u64,
    /// Step at which this process started: 0, or the step of the checkpoint.
    pub from: u64,
    /// Wall time that this process spent on steps and their output.
    pub elapsed: Duration,
    /// Parts of this time.
    pub times: RunTimes,
    /// Name of the force solver: `direct` or `tree`.
    pub solver: &'static str,
    /// First and last row of `conserved.csv`.
    pub first_and_last: (Record, Record),
    /// Why the run stopped before its end, and the checkpoint to resume from. `None` for a finished
    /// run.
    pub stopped: Option<(StopReason, PathBuf)>,
}

/// Wall time of a run by activity.
///
/// A device computes in the background. Steps that it has not finished when an output needs the
/// bodies count as output.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTimes {
    /// Steps, which are mostly forces.
    pub steps: Duration,
    /// Images, snapshots, plots and the table.
    pub output: Duration,
    /// Checkpoints.
    pub checkpoints: Duration,
    /// Pauses until the storage worked again.
    pub waiting: Duration,
}

/// Simulates `case` and writes to `output`. `control` can stop the run, and `report` is called on
/// every event.
pub fn run(
    case: &Case,
    output: &Output,
    control: &Control,
    mut report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    // The scope runs on a thread of the pool. A parallel loop that starts on another thread wakes
    // the pool each time. With nine bodies, that took ten times as long as the step itself.
    rayon::scope(|_| Run::start(case, output, control, &mut report)?.run_to_end())
}

/// Which run to resume, and how.
#[derive(Clone, Copy, Debug)]
pub struct Resume<'a> {
    /// Folder of the run.
    pub folder: &'a Path,
    /// `KEY=VALUE` settings that replace those of the case, for example `checkpoint.every=1 h`.
    /// `time.end` extends the run. Keys of `[checkpoint]` and `[limits]` and `output.on_error` are
    /// allowed because they do not affect results. All others are refused.
    pub sets: &'a [String],
    /// True to restart the table or animation if it was changed after the checkpoint. Otherwise a
    /// changed file is an error.
    pub restart_outputs: bool,
}

/// Resumes a run from its newest intact checkpoint.
pub fn resume(
    run: &Resume<'_>,
    control: &Control,
    mut report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    rayon::scope(|_| Run::resume_from_checkpoint(run, None, control, &mut report)?.run_to_end())
}

/// Resumes the run of `case` in `folder` if there is a checkpoint. Otherwise starts the run.
pub fn run_or_resume(
    case: &Case,
    folder: &Path,
    control: &Control,
    mut report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    rayon::scope(|_| {
        if checkpoint::exists_in(folder) {
            let run = Resume { folder, sets: &[], restart_outputs: false };
            return Run::resume_from_checkpoint(&run, Some(case), control, &mut report)?.run_to_end();
        }
        let output = Output { folder: folder.to_owned(), replace: Replace::WithoutProgress };
        Run::start(case, &output, control, &mut report)?.run_to_end()
    })
}

/// Function that is called on every event of a run.
type ReportFn<'a> = dyn FnMut(RunEvent<'_>) + Send + 'a;

/// Parts of [`Run`] that a new run creates and a resumed run restores.
struct RunParts {
    case: Case,
    folder: PathBuf,
    provenance: Vec<(String, String)>,
    simulation: Simulation,
    observers: Observers,
    checkpoints: Checkpoints,
    before_end: Option<StateBeforeEnd>,
    lock: Lock,
}

/// State of a run in progress.
struct Run<'a> {
    case: Case,
    folder: PathBuf,
    provenance: Vec<(String, String)>,
    simulation: Simulation,
    observers: Observers,
    checkpoints: Checkpoints,
    /// State before the last step, once this step is about to start.
    before_end: Option<StateBeforeEnd>,
    control: &'a Control,
    report: &'a mut ReportFn<'a>,
    /// Step and simulated time at which this process started.
    from: (u64, f64),
    is_resumed: bool,
    started: Instant,
    /// Longest step so far, including its output.
    longest_step: Duration,
    /// Longest time that writing a checkpoint took.
    longest_save: Duration,
    /// Time spent so far.
    times: RunTimes,
    /// True once the energy error has exceeded its limit and was reported.
    energy_error_reported: bool,
    _lock: Lock,
}

impl<'a> Run<'a> {
    /// Returns a new run at the state of its simulation, with no time spent yet.
    fn new(parts: RunParts, control: &'a Control, report: &'a mut ReportFn<'a>) -> Self {
        let RunParts { case, folder, provenance, simulation, observers, checkpoints, before_end, lock } =
            parts;
        let Moment { step, time, .. } = simulation.moment();
        Self {
            case,
            folder,
            provenance,
            simulation,
            observers,
            checkpoints,
            before_end,
            control,
            report,
            from: (step, time),
            is_resumed: false,
            started: Instant::now(),
            longest_step: Duration::ZERO,
            longest_save: Duration::ZERO,
            times: RunTimes::default(),
            energy_error_reported: false,
            _lock: lock,
        }
    }

    /// Steps to the end or to a stop, completes the output and returns the summary.
    fn run_to_end(mut self) -> Result<Summary, EngineError> {
        let outcome = self.step_until_end();
        let finished = match outcome {
            // No time is left to draw the plots. The resumed run will draw them.
            Ok(Some((StopReason::WallTime, _))) => Ok(()),
            // After an error too: the output up to the error is useful. The first error is returned
            // below.
            _ => self.write_output(|run| run.observers.finish()),
        };
        let stopped = outcome.map_err(|error| self.add_recovery_info(error))?;
        match finished {
            // The run stopped as requested and has a checkpoint, so a missing plot is only a
            // warning.
            Err(error) if stopped.is_some() => (self.report)(RunEvent::OutputFailed(&error)),
            finished => finished.map_err(|error| self.add_recovery_info(error))?,
        }
        let moment = self.simulation.moment();
        let first_and_last = match self.observers.conserved.records() {
            [] => [Record::measure(&moment)?; 2].into(),
            [first, .., last] | [first @ last] => (*first, *last),
        };
        Ok(Summary {
            bodies: moment.bodies.len(),
            step: moment.step,
            from: self.from.0,
            elapsed: self.started.elapsed(),
            times: self.times,
            solver: moment.bodies.solver_name(),
            first_and_last,
            stopped,
            case: self.case,
        })
    }

    /// Steps until the end of the case or until a stop is due. Returns the reason of the stop and
    /// its checkpoint, or `None` at the end.
    fn step_until_end(&mut self) -> Result<Option<(StopReason, PathBuf)>, EngineError> {
        if self.simulation.moment().step == 0 {
            let timer = self.start_timer();
            self.write_output(|run| run.observers.observe_all(&run.simulation.moment()))?;
            self.longest_step = self.worked_since(timer);
        }
        while !self.simulation.is_finished() {
            // Twice the longest times so far, because the next step may take longer.
            let needed = 2 * (self.longest_step + self.longest_save) + RESERVE;
            if let Some(reason) = self.control.stop_reason(needed) {
                return self.stop_at_checkpoint(reason, needed).map(Some);
            }
            self.step_and_report()?;
        }
        self.write_output(|run| run.observers.observe_all(&run.simulation.moment()))?;
        if self.simulation.moment().step > self.from.0 {
            self.check_energy_error()?;
        }
        // The last checkpoint marks the run as finished. The earlier ones are no longer needed.
        self.save_checkpoint(0.0)?;
        // A file that cannot be removed does no harm, but a run that waits for storage tries again.
        let _ = self.retry_on_storage_error(|run| run.checkpoints.keep_newest(1));
        Ok(None)
    }

    /// Writes a checkpoint for a stop before the end. Returns an error if the wall time is too
    /// short for a single step (`needed`): a job script that resumes after every stop would never
    /// end.
    fn stop_at_checkpoint(
        &mut self,
        reason: StopReason,
        needed: Duration,
    ) -> Result<(StopReason, PathBuf), EngineError> {
        let (step, path) = (self.simulation.moment().step, self.save_checkpoint(0.0)?);
        if reason == StopReason::WallTime && step == self.from.0 {
            return Err(EngineError::WallTimeTooShort { step, needed });
        }
        Ok((reason, path))
    }

    /// Takes one step, reports it, and writes a checkpoint if one is due or requested.
    fn step_and_report(&mut self) -> Result<(), EngineError> {
        let timer = self.start_timer();
        let dt = self.take_step()?;
        self.check_energy_error()?;
        let Moment { step, time, .. } = self.simulation.moment();
        (self.report)(RunEvent::Step(Status {
            step,
            time,
            start: self.case.time.known_start(),
            end: self.case.time.end,
            from: self.from,
            elapsed: self.started.elapsed(),
            energy_error: self.observers.conserved.energy_error(),
        }));
        self.longest_step = self.longest_step.max(self.worked_since(timer));
        // The end of the run has its checkpoint in any case.
        if self.simulation.is_finished() {
            return Ok(());
        }
        let is_requested = self.control.is_checkpoint_requested();
        if is_requested || self.checkpoints.is_due(&self.simulation.moment(), dt) {
            self.save_checkpoint(dt)?;
        }
        Ok(())
    }

    /// Takes one step, and observes the output times that lie inside the step. Returns the length
    /// of the step.
    fn take_step(&mut self) -> Result<f64, EngineError> {
        let next = self.simulation.next_time()?;
        if next >= self.case.time.end {
            let state = self.retry_on_storage_error(|run| {
                StateBeforeEnd::capture(&run.simulation.moment(), &mut run.observers)
            })?;
            self.before_end = Some(state);
        }
        let now = self.simulation.moment();
        let (step, dt) = (now.step, next - now.time);
        let steps = (self.case.time.end - now.time) / dt;
        if step == self.from.0 && steps > MANY_STEPS {
            (self.report)(RunEvent::ManySteps { steps, dt });
        }
        // An output time this close to the end of the step is observed there.
        let before = next - time_tolerance(next, dt);
        while let Some(time) = self.observers.next_due_time().filter(|due| *due < before) {
            let timer = self.start_timer();
            let bodies = self.simulation.bodies_at(time)?;
            self.times.steps += self.worked_since(timer);
            self.write_output(|run| {
                run.observers.observe_between_steps(&Moment { step, time, bodies: &bodies })
            })?;
        }
        let timer = self.start_timer();
        self.simulation.advance_to(next)?;
        self.times.steps += self.worked_since(timer);
        self.observers.after_step(&self.simulation.moment())?;
        self.write_output(|run| run.observers.observe_step(&run.simulation.moment(), dt))?;
        Ok(dt)
    }

    /// Writes a checkpoint after a step of length `dt` and returns its path.
    fn save_checkpoint(&mut self, dt: f64) -> Result<PathBuf, EngineError> {
        let timer = self.start_timer();
        // Taken before the state is saved: a request during the save asks for a later state.
        let is_requested = self.control.take_checkpoint_request();
        let path = self.retry_on_storage_error(|run| {
            let observers = run.observers.sync()?;
            let blocks = run.observers.checkpoint_blocks();
            let Run { case, provenance, simulation, checkpoints, before_end, .. } = run;
            let (moment, before_end) = (simulation.moment(), before_end.as_ref());
            checkpoints.save(&RunState { case, provenance, moment, observers, blocks, before_end }, dt)
        })?;
        let elapsed = self.worked_since(timer);
        self.longest_save = self.longest_save.max(elapsed);
        self.times.checkpoints += elapsed;
        let step = self.simulation.moment().step;
        (self.report)(RunEvent::CheckpointWritten { path: &path, step, elapsed, is_requested });
        Ok(path)
    }

    /// Calls `attempt`, which writes output, like [`Run::retry_on_storage_error`], and counts its
    /// time.
    fn write_output<T>(
        &mut self,
        attempt: impl FnMut(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let timer = self.start_timer();
        let outcome = self.retry_on_storage_error(attempt);
        self.times.output += self.worked_since(timer);
        outcome
    }

    /// Returns a timer for [`Run::worked_since`]: the time now, and the total pause until now.
    fn start_timer(&self) -> (Instant, Duration) {
        (Instant::now(), self.times.waiting)
    }

    /// Returns the time since the timer was started, without the time spent waiting for storage.
    fn worked_since(&self, (started, waited): (Instant, Duration)) -> Duration {
        started.elapsed().saturating_sub(self.times.waiting.saturating_sub(waited))
    }

    /// Calls `attempt`, which writes to storage. With `output.on_error = "wait"`, repeats it until
    /// the storage works, and counts the pauses.
    fn retry_on_storage_error<T>(
        &mut self,
        attempt: impl FnMut(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let (on_error, control) = (self.case.output.on_error, self.control);
        let report = |run: &mut Self, event: RunEvent<'_>| {
            if let RunEvent::WaitingForStorage { pause, .. } = &event {
                run.times.waiting += *pause;
            }
            (run.report)(event);
        };
        retry_on_storage_error(self, on_error, control, report, attempt)
    }

    /// Compares the energy error with its limit. If it is larger, reports this once or returns an
    /// error, as `limits.on_energy_error` says.
    fn check_energy_error(&mut self) -> Result<(), EngineError> {
        let Some(limit) = self.case.limits.energy_error else { return Ok(()) };
        let error = self.observers.conserved.energy_error();
        if error.abs() <= limit || self.energy_error_reported {
            return Ok(());
        }
        let Moment { step, time, .. } = self.simulation.moment();
        match self.case.limits.on_energy_error {
            OnEnergyError::Stop => Err(EngineError::Energy { step, time, error, limit }),
            OnEnergyError::Warn => {
                self.energy_error_reported = true;
                (self.report)(RunEvent::EnergyError { step, error, limit });
                Ok(())
            }
        }
    }

    /// Adds to `error` how to recover. A storage or device error gets the step of the last
    /// checkpoint. A non-finite value or a large energy error gets the path of a snapshot of the
    /// bodies at that time.
    fn add_recovery_info(&mut self, error: EngineError) -> EngineError {
        if error.is_storage_error() || matches!(error, EngineError::Device(_)) {
            let from = self.is_resumed.then_some(self.from.0);
            let (folder, source) = (self.folder.clone(), Box::new(error));
            return match self.checkpoints.last_saved_step().or(from) {
                Some(step) => EngineError::Recoverable { source, step, folder },
                None => *source,
            };
        }
        let (EngineError::NotFinite { step, time, .. }
        | EngineError::RecordNotFinite { step, time, .. }
        | EngineError::Energy { step, time, .. }) = error
        else {
            return error;
        };
        let Ok(particles) = self.simulation.moment().bodies.particles_unchecked() else { return error };
        let snapshot =
            Snapshot { particles, time, step, units: self.case.units, provenance: self.provenance.clone() };
        let path = self.folder.join(POST_MORTEM);
        match orrery_io::write_snapshot(&path, &snapshot) {
            Ok(()) => EngineError::PostMortem { source: Box::new(error), path },
            Err(_) => error,
        }
    }
}
