//! The time loop of a run: step, observe, write checkpoints and report, until the end or a stop
//! request.
//!
//! Invariant: output never affects the computation. Checkpoints, stops, resumes, full disks, pauses
//! and the number of steps per batch change neither the trajectory nor any output.

mod setup;
mod time_loop;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

pub use crate::folder::{LOG_FILE, Output, Replace};
pub use crate::pipeline::WorkerTimes;
pub use crate::reporter::RunTimes;
pub use orrery_cluster::RankTimes;

use crate::batch::BatchLength;
use crate::case::Case;
use crate::checkpoint::{self, Checkpoints, StateBeforeEnd};
use crate::control::{Control, RunEvent, StopReason};
use crate::error::EngineError;
use crate::film;
use crate::folder::{FILM, Lock};
use crate::observers::{Observer, Observers};
use crate::reporter::Reporter;
use crate::simulation::{Moment, Simulation};
use crate::system::{Row, Schema, Size, SnapshotLabels, SolutionError};
use crate::trigger::Trigger;

/// Summary of a run that finished or stopped.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The case that was simulated.
    pub case: Case,
    /// Number of elements of the system, for example bodies.
    pub size: Size,
    /// Steps completed since the start of the run.
    pub step: u64,
    /// Step at which this process started: 0, or the step of the checkpoint.
    pub from: u64,
    /// Wall time that this process spent on steps and their output.
    pub elapsed: Duration,
    /// Parts of this time.
    pub times: RunTimes,
    /// Times of each rank since its first step, those of rank 0 without output. Empty for a single
    /// rank.
    pub rank_times: Vec<RankTimes>,
    /// Name of the method, for example `tree`.
    pub method: &'static str,
    /// The method in words, for example "tree forces".
    pub method_text: String,
    /// Columns of `conserved.csv`.
    pub schema: Schema,
    /// First and last row of `conserved.csv`.
    pub first_and_last: (Row, Row),
    /// Differences to known solutions, at the end of a finished run.
    pub solution_errors: Vec<SolutionError>,
    /// Results of this physics by name, for a JSON summary.
    pub details: Map<String, Value>,
    /// Files of the run, each with a description. FOLDER in it stands for the folder of the run.
    pub files: &'static [(&'static str, &'static str)],
    /// True if the run ended before its end time because the system had settled.
    pub is_settled: bool,
    /// Why the run stopped before its end, and the checkpoint to resume from. `None` for a finished
    /// run.
    pub stopped: Option<(StopReason, PathBuf)>,
}

/// Simulates `case` and writes to `output`. `control` can stop the run, and `report` is called on
/// every event.
pub fn run(
    case: &Case,
    output: &Output,
    control: &Control,
    report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    // The scope runs on a thread of the pool. A parallel loop that starts on another thread wakes
    // the pool each time. With nine bodies, that took ten times as long as the step itself.
    rayon::scope(|_| Run::start(case, output, control, report)?.finish())
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
    report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    rayon::scope(|_| Run::resume(run, control, report)?.finish())
}

/// Resumes the run of `case` in `folder` if there is a checkpoint. Otherwise starts the run.
pub fn run_or_resume(
    case: &Case,
    folder: &Path,
    control: &Control,
    report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    run_or_resume_with(case, &Resume { folder, sets: &[], restart_outputs: false }, control, report)
}

/// Does the same as [`run_or_resume`]. Settings of `run` are ignored, because `case` has them.
pub fn run_or_resume_with(
    case: &Case,
    run: &Resume<'_>,
    control: &Control,
    report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    let Resume { folder, restart_outputs, .. } = *run;
    rayon::scope(|_| {
        if checkpoint::exists_in(folder) {
            let run = Resume { folder, sets: &[], restart_outputs };
            return Run::resume_from_checkpoint(&run, Some(case), control, report)?.finish();
        }
        let output = Output { folder: folder.to_owned(), replace: Replace::WithoutProgress };
        Run::start(case, &output, control, report)?.finish()
    })
}

/// Parts of [`Run`] that a new run creates and a resumed run restores.
struct RunParts<'a> {
    case: Case,
    folder: PathBuf,
    provenance: Vec<(String, String)>,
    simulation: Simulation,
    observers: Observers<'a>,
    checkpoints: Checkpoints,
    before_end: Option<StateBeforeEnd>,
    lock: Lock,
}

/// A run in progress, for callers that step it or observe it. [`run()`] and [`resume()`] are for
/// all others.
///
/// The files of the run are the same whether it is stepped from outside or not. A run that is
/// dropped before [`finish`](Self::finish) can be resumed from its last checkpoint.
///
/// ```
/// use orrery_engine::case::{Case, CaseSource, Every};
/// use orrery_engine::control::Control;
/// use orrery_engine::run::{Output, Replace, Run};
/// use orrery_engine::{Moment, Trigger};
///
/// let text = "bodies.model = \"kepler\"\ntime = { step = 0.01, end = 1 }\nimage.size = 64";
/// let source = CaseSource::Text { label: "orbit".into(), text: text.into(), folder: ".".into() };
/// let case = Case::load(&source, &[])?;
/// let folder = tempfile::tempdir()?;
/// let output = Output { folder: folder.path().join("out"), replace: Replace::Nothing };
///
/// let control = Control::default();
/// let mut distances = Vec::new();
/// let mut run = Run::start(&case, &output, &control, |_event| {})?;
/// // Called at the start, every 0.25 time units and at the end.
/// run.observe(
///     Trigger::new(Every::Time(0.25)),
///     Box::new(|moment: &Moment| {
///         let position = &moment.particles()?.position;
///         distances.push((position.x[0] - position.x[1]).hypot(position.y[0] - position.y[1]));
///         Ok(())
///     }),
/// );
/// // The first ten steps one by one, and then all others.
/// while run.moment().step < 10 && run.step()? {}
/// assert_eq!(run.moment().time, 0.1);
/// assert_eq!(run.finish()?.step, 100);
/// assert_eq!(distances.len(), 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Run<'a> {
    case: Case,
    folder: PathBuf,
    provenance: Vec<(String, String)>,
    simulation: Simulation,
    observers: Observers<'a>,
    checkpoints: Checkpoints,
    /// State before the last step, once this step is about to start.
    before_end: Option<StateBeforeEnd>,
    reporter: Reporter<'a>,
    /// Step and simulated time at which this process started.
    from: (u64, f64),
    is_resumed: bool,
    /// Time before the first step.
    startup: Duration,
    started: Instant,
    batch_length: BatchLength,
    /// Longest batch of steps so far, including its output.
    longest_batch: Duration,
    /// Longest time that writing a checkpoint took.
    longest_save: Duration,
    /// True once the error of the run has exceeded its limit and was reported.
    limit_reported: bool,
    /// True once the precision did not resolve the state and this was reported.
    resolution_reported: bool,
    /// True once many outputs within a step were reported.
    many_outputs_reported: bool,
    /// True once this process has observed a time between two steps.
    has_observed_within_step: bool,
    _lock: Lock,
}

impl<'a> Run<'a> {
    /// Returns a new run at the state of its simulation, with no time spent yet.
    fn new(parts: RunParts<'a>, reporter: Reporter<'a>) -> Self {
        let RunParts { case, folder, provenance, simulation, observers, checkpoints, before_end, lock } =
            parts;
        let Moment { step, time, .. } = simulation.moment();
        let startup = reporter.age();
        Self {
            case,
            folder,
            provenance,
            simulation,
            observers,
            checkpoints,
            before_end,
            reporter,
            from: (step, time),
            is_resumed: false,
            startup,
            started: Instant::now(),
            batch_length: BatchLength::default(),
            longest_batch: Duration::ZERO,
            longest_save: Duration::ZERO,
            limit_reported: false,
            resolution_reported: false,
            many_outputs_reported: false,
            has_observed_within_step: false,
            _lock: lock,
        }
    }

    /// Returns the case of the run.
    pub fn case(&self) -> &Case {
        &self.case
    }

    /// Returns the current state.
    pub fn moment(&self) -> Moment<'_> {
        self.simulation.moment()
    }

    /// Adds an observer, which is called at the start of a new run, when `trigger` fires and at the
    /// end. A checkpoint does not contain it, so a resumed run needs it to be added again.
    pub fn observe(&mut self, trigger: Trigger, observer: Box<dyn Observer + 'a>) {
        let time = self.simulation.moment().time;
        self.observers.add(trigger, observer, time);
    }

    /// Takes one step and writes the output and the checkpoint that are due. Returns false and
    /// takes no step if the run is complete or must stop. A stop that is requested during outputs
    /// within the step takes no step either, and the next call returns false.
    /// [`finish`](Self::finish) then completes the files.
    pub fn step(&mut self) -> Result<bool, EngineError> {
        let outcome = rayon::scope(|_| {
            self.observe_start()?;
            let can_step = !self.simulation.is_finished() && self.stop_reason().is_none();
            if can_step {
                self.take_batch_and_report(1)?;
            }
            Ok(can_step)
        });
        outcome.map_err(|error| {
            self.reporter.control().ranks.give_up_after(&error);
            self.add_recovery_info(error)
        })
    }

    /// Steps to the end or to a stop, completes the output and returns the summary.
    pub fn finish(self) -> Result<Summary, EngineError> {
        rayon::scope(|_| self.run_to_end())
    }

    fn run_to_end(mut self) -> Result<Summary, EngineError> {
        let outcome = self.step_until_end();
        if let Err(error) = &outcome {
            self.reporter.control().ranks.give_up_after(error);
        }
        let finished = match outcome {
            // No time is left to draw the plots, and all other files are written. The resumed run
            // will draw them.
            Ok(Some((StopReason::WallTime, _))) => Ok(()),
            Ok(Some((StopReason::Requested, _))) => self.observers.finish_added(),
            // After an error too: the output up to the error is useful. The first error is returned
            // below.
            _ => {
                let moment = self.simulation.moment();
                // The time until the workers are done is counted by the pipeline.
                let drained = self.reporter.retry(|_| self.observers.drain());
                let timer = self.reporter.start_timer();
                let finished = self.reporter.retry(|_| {
                    self.observers.finish()?;
                    if self.case.output.plots {
                        moment.system.draw_results(&self.folder, moment.stamp())?;
                    }
                    self.observers.sync_manifest().map(drop)
                });
                self.reporter.count_plots(timer);
                drained.and(finished)
            }
        };
        let stopped = outcome.map_err(|error| self.add_recovery_info(error))?;
        match finished {
            // The run stopped as requested and has a checkpoint, so a missing plot is only a
            // warning.
            Err(error) if stopped.is_some() => self.reporter.report(RunEvent::OutputFailed(&error)),
            finished => finished.map_err(|error| self.add_recovery_info(error))?,
        }
        if stopped.is_none() {
            // The run is complete without the film, and its images exist.
            let is_stopped = || self.reporter.control().stop.load(Ordering::Relaxed);
            let written = film::write_film(&self.case, &self.folder, &is_stopped).and_then(|is_written| {
                if is_written { self.observers.list_existing_file(FILM) } else { Ok(()) }
            });
            if let Err(error) = written {
                self.reporter.report(RunEvent::OutputFailed(&error));
            }
        }
        self.summary(stopped)
    }

    fn summary(self, stopped: Option<(StopReason, PathBuf)>) -> Result<Summary, EngineError> {
        // The time ends with the last file. The comparison with a known solution is no part of the
        // run.
        let elapsed = self.started.elapsed();
        let (moment, table) = (self.simulation.moment(), &self.observers.table);
        let first_and_last = match table.rows() {
            [] => {
                let row = moment.measure(table.schema())?;
                (row.clone(), row)
            }
            [first, .., last] | [first @ last] => (first.clone(), last.clone()),
        };
        let system = moment.system;
        let times = RunTimes {
            startup: self.startup,
            forces: system.force_time(),
            is_on_device: system.device().is_some(),
            ..self.observers.add_times(self.reporter.times())
        };
        let rank_times = self.reporter.control().ranks.times(self.reporter.rank_times())?;
        let solution_errors = match &stopped {
            Some(_) => Vec::new(),
            None => system.solution_errors(moment.stamp()).map_err(|error| error.at(moment.stamp()))?,
        };
        Ok(Summary {
            solution_errors,
            size: system.size(),
            step: moment.step,
            from: self.from.0,
            elapsed,
            times,
            rank_times,
            method: system.method(),
            method_text: system.method_text(),
            schema: table.schema().clone(),
            details: system.summary_json(&first_and_last.0, &first_and_last.1),
            first_and_last,
            files: system.listed_files(),
            is_settled: stopped.is_none() && !self.simulation.has_reached_end(),
            stopped,
            case: self.case,
        })
    }

    /// Calls the observers at the start of a new run. None of them sees the same time twice, so
    /// further calls do nothing.
    fn observe_start(&mut self) -> Result<(), EngineError> {
        if self.simulation.moment().step == 0 {
            let timer = self.reporter.start_timer();
            self.reporter.retry(|_| self.observers.observe_all(&self.simulation.moment()))?;
            self.longest_batch = self.longest_batch.max(self.reporter.worked_since(timer));
        }
        Ok(())
    }

    /// Adds to `error` how to recover. An error of the storage, a device or a rank gets the step of
    /// the last checkpoint. A non-finite value or an error above its limit gets the path of a
    /// snapshot of the state at that time.
    fn add_recovery_info(&mut self, error: EngineError) -> EngineError {
        if error.is_storage_error() || matches!(error, EngineError::Device(_) | EngineError::Ranks { .. }) {
            let from = self.is_resumed.then_some(self.from.0);
            let (folder, source) = (self.folder.clone(), Box::new(error));
            return match self.checkpoints.last_saved_step().or(from) {
                Some(step) => EngineError::Recoverable { source, step, folder },
                None => *source,
            };
        }
        let (EngineError::NotFinite { step, time, .. }
        | EngineError::QuantityNotFinite { step, time, .. }
        | EngineError::AboveLimit { step, time, .. }) = error
        else {
            return error;
        };
        let system = self.simulation.moment().system;
        let labels = SnapshotLabels { step, time, units: self.case.units, provenance: &self.provenance };
        match system.write_post_mortem(&self.folder, &labels) {
            Some(path) => {
                EngineError::PostMortem { source: Box::new(error), elements: system.size().many, path }
            }
            None => error,
        }
    }
}
