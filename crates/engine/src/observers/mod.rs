//! Observers write the output of a run: table, snapshots and images, and the structure of a fluid,
//! each with its trigger. A caller can add others.
//!
//! The observers of every run copy what they need of the state, and workers write it
//! ([`Pipeline`]). Those of a caller are called with the state itself.
//!
//! Invariant: the observers of a caller affect neither the trajectory nor any file of the run, and
//! a checkpoint does not contain them.

mod displacements;
mod pictures;
mod snapshots;
mod structure;
mod table;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use orrery_formats::{Block, MANIFEST_FILE, Manifest, Mark};
use orrery_formats::{Fault, IoError};
use orrery_gravity::settings::StepChoice;
use serde::{Deserialize, Serialize};

pub use pictures::{Drawing, Painter};
pub(crate) use structure::{STRUCTURE_PLOTS, STRUCTURE_TABLES};
pub use table::Table;
pub(crate) use table::check_memory as check_table_memory;

use crate::blocks::Blocks;
use crate::case::{AnimationFormat, Case, Every};
use crate::control::RunEvent;
use crate::error::EngineError;
use crate::folder::{ANIMATION, IMAGES, SNAPSHOTS};
use crate::pipeline::{Job, Pipeline};
use crate::reporter::RunTimes;
use crate::simulation::{MAX_STEPS, Moment, Simulation};
use crate::system::{Schema, Stamp, System};
use crate::trigger::Trigger;

/// Largest plausible number of files of one kind in a checkpoint. A case allows fewer.
const MAX_FILES: u64 = 100_000_000;

/// Reads the state of a run when a trigger fires, for example to write one kind of output.
///
/// A closure that takes a [`Moment`] is an observer too. See
/// [`Run::observe`](crate::run::Run::observe).
pub trait Observer: Send {
    /// Called when the trigger of the observer fires, at the start of a new run and at the end.
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError>;

    /// Returns the number of steps between two calls of [`collect`](Self::collect). `None` if they
    /// are not needed.
    fn collect_every(&self) -> Option<u64> {
        None
    }

    /// Collects data between two calls of [`observe`](Self::observe).
    fn collect(&mut self, _moment: &Moment) -> Result<(), EngineError> {
        Ok(())
    }

    /// Called once, after the last call of [`observe`](Self::observe).
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

impl<F: FnMut(&Moment) -> Result<(), EngineError> + Send> Observer for F {
    fn observe(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self(moment)
    }
}

/// An observer that every run has.
trait Recorder {
    /// Returns about the bytes of a captured output and of its encoded form.
    fn needed_bytes(&self, moment: &Moment) -> u64;

    /// Copies the data of an output. The job writes it.
    fn capture(&mut self, moment: &Moment) -> Result<Box<dyn Job>, EngineError>;
}

/// Locks a file that workers write. A worker that panicked ends the run, so its file is not used
/// again.
fn lock_file<T>(file: &Mutex<T>) -> MutexGuard<'_, T> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When an observer is called.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    trigger: Trigger,
    /// Time of the last call of `observe`.
    last_observed: Option<f64>,
}

/// All observers of a run, each with its schedule.
pub struct Observers<'a> {
    pub table: Table,
    snapshots: snapshots::Snapshots,
    pictures: pictures::Pictures,
    /// Only fluids have it.
    structure: Option<structure::Structure>,
    /// Observers of the caller.
    added: Vec<Box<dyn Observer + 'a>>,
    /// Schedules of table, snapshots, pictures, structure if there is one, and then of the added
    /// observers.
    schedules: Vec<Schedule>,
    /// Jobs of the built-in observers.
    pipeline: Pipeline,
    manifest: Manifest,
    /// Time in which table, snapshots, images and all other observers read the state.
    read_times: [Duration; BUILT_IN + 1],
}

/// Number of observers that every run has.
const BUILT_IN: usize = 3;

/// State of the built-in observers in a checkpoint. Larger data is in the columns from
/// [`Observers::checkpoint_blocks`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    triggers: [u64; BUILT_IN],
    #[serde(rename = "seen")]
    last_observed: [Option<f64>; BUILT_IN],
    #[serde(rename = "conserved")]
    table: table::State,
    snapshots: usize,
    pictures: pictures::State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    structure: Option<structure::State>,
    /// State of the manifest. Earlier versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    manifest: Option<Mark>,
}

/// Opens the manifest of a resumed run at its state in the checkpoint. A run without one gets a new
/// one. If it was changed, it is set aside and restarted, and `report` is called.
pub(crate) fn reopen_manifest(
    folder: &Path,
    state: &State,
    report: &mut dyn FnMut(RunEvent<'_>),
) -> Result<Manifest, EngineError> {
    let Some(mark) = &state.manifest else { return Ok(Manifest::start(folder)) };
    match Manifest::resume(folder, mark).map_err(EngineError::Output) {
        Err(error) if error.is_changed_file() => {
            set_aside_changed(&folder.join(MANIFEST_FILE), report)?;
            Ok(Manifest::start(folder))
        }
        outcome => outcome,
    }
}

impl State {
    /// Returns the state of the manifest.
    pub fn manifest(&self) -> Option<&Mark> {
        self.manifest.as_ref()
    }

    /// Returns the files that grow or that every checkpoint replaces: name, state, and length of a
    /// trailer after the recorded bytes. `schema` is that of the table.
    pub fn growing_files(&self, schema: &Schema) -> Vec<(String, Mark, u64)> {
        let trailer = orrery_draw::picture::GIF_TRAILER_BYTES;
        let mut files = vec![(schema.file.to_owned(), self.table.file.clone(), 0)];
        let animation = self.pictures.animation.iter();
        files.extend(animation.map(|animation| (ANIMATION.to_owned(), animation.file.clone(), trailer)));
        let tables = self.structure.iter().flat_map(|structure| structure.tables());
        files.extend(tables.map(|(name, mark)| (name, mark, 0)));
        files
    }

    /// Returns an error if the table of the schema or the animation were changed after this state
    /// was stored.
    pub fn check_files(&self, folder: &Path, schema: &Schema) -> Result<(), EngineError> {
        self.table.file.check_file(&folder.join(schema.file)).map_err(EngineError::Output)?;
        let Some(animation) = &self.pictures.animation else { return Ok(()) };
        animation.file.check_file(&folder.join(ANIMATION)).map_err(EngineError::Output)
    }

    /// Returns the time of the latest output, which can be within the next step.
    pub fn last_observed(&self) -> Option<f64> {
        let of_structure = self.structure.as_ref().and_then(|structure| structure.last_observed);
        self.last_observed.into_iter().flatten().chain(of_structure).max_by(f64::total_cmp)
    }

    /// Lists the numbered files that were written after this state was stored.
    pub fn later_files(&self, folder: &Path) -> Vec<PathBuf> {
        let mut files = SNAPSHOTS.list_files_from(folder, self.snapshots);
        files.extend(IMAGES.list_files_from(folder, self.pictures.written));
        files
    }

    /// Returns true if a run of `system` can have written this state with these `columns` at
    /// `time`.
    pub fn is_valid(&self, case: &Case, system: &System, columns: &Blocks, time: f64) -> bool {
        let pictures = &self.pictures;
        // A run that stops within a step has written output of times before its end.
        let latest = match case.time.step {
            StepChoice::Fixed(dt) => (time + dt).min(case.time.end).max(time),
            StepChoice::Adaptive { .. } => case.time.end.max(time),
        };
        let is_past = |earlier: f64| is_earlier(earlier, latest);
        let counts = [self.snapshots as u64, pictures.written as u64, pictures.frames()];
        let has_animation = case.image.animation != AnimationFormat::None;
        counts.iter().all(|&count| count <= MAX_FILES)
            && pictures.animation.is_some() == has_animation
            && self.triggers.iter().all(|&position| (1..=MAX_STEPS).contains(&position))
            && self.last_observed.into_iter().flatten().all(is_past)
            && self.table.matches(&system.schema(&case.units), time)
            && self
                .structure
                .as_ref()
                .is_none_or(|structure| structure.is_valid(case, system, columns, latest))
            && system.resumed_painter(case, &pictures.painter, &mut columns.clone()).is_ok()
    }
}

/// Returns true if a state at `time` can contain the time `earlier`.
fn is_earlier(earlier: f64, time: f64) -> bool {
    (0.0..=time * (1.0 + 1e-12)).contains(&earlier)
}

/// Renames a changed file, so that a new one can be written and none is lost. The new name is the
/// first free one of `NAME.changed`, `NAME.changed-2` and so on. A file that was removed needs
/// none.
pub(crate) fn set_aside_changed(
    path: &Path,
    report: &mut dyn FnMut(RunEvent<'_>),
) -> Result<(), EngineError> {
    let failed = |error| EngineError::Output(IoError::from_system(path, error));
    let mut number = 1;
    let kept = loop {
        let mut name = path.as_os_str().to_owned();
        name.push(".changed");
        if number > 1 {
            name.push(format!("-{number}"));
        }
        match fs::symlink_metadata(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => break PathBuf::from(name),
            Err(error) => return Err(failed(error)),
            Ok(_) => number += 1,
        }
    };
    let kept = match fs::rename(path, &kept) {
        Ok(()) => Some(kept),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    report(RunEvent::OutputRestarted { path, kept: kept.as_deref() });
    Ok(())
}

/// Returns a pipeline with as many workers as the run has threads.
fn new_pipeline() -> Pipeline {
    Pipeline::new(rayon::current_num_threads())
}

/// Returns when the built-in observers are called.
fn built_in_schedules(case: &Case) -> [Every; BUILT_IN] {
    [case.output.record_every, case.output.snapshot_every, case.output.image_every]
}

impl<'a> Observers<'a> {
    /// Creates the observers of a new run of `system`, which write to `folder`.
    pub fn new(
        case: &Case,
        system: &System,
        folder: &Path,
        provenance: &[(String, String)],
        manifest: Manifest,
    ) -> Result<Self, EngineError> {
        let schedule = |every| {
            let mut trigger = Trigger::new(every);
            trigger.advance_past(case.time.known_start(), 0.0);
            Schedule { trigger, last_observed: None }
        };
        Ok(Self {
            table: Table::create(case, system, folder)?,
            snapshots: snapshots::Snapshots::create(case, folder, provenance, 0)?,
            pictures: pictures::Pictures::create(case, system, folder, provenance)?,
            structure: structure::Structure::create(case, system, folder),
            added: Vec::new(),
            schedules: built_in_schedules(case)
                .into_iter()
                .chain(structure::Structure::schedule(case))
                .map(schedule)
                .collect(),
            pipeline: new_pipeline(),
            manifest,
            read_times: [Duration::ZERO; BUILT_IN + 1],
        })
    }

    /// Continues the outputs from the state in a checkpoint. A file that was changed since then is
    /// an error. With `restart_outputs` it is set aside and restarted, and `report` is called.
    pub fn resume(
        case: &Case,
        system: &System,
        folder: &Path,
        provenance: &[(String, String)],
        (state, blocks, manifest): (&State, &mut Blocks, Manifest),
        restart_outputs: bool,
        report: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<Self, EngineError> {
        let table = match Table::resume(case, system, folder, &state.table) {
            Err(error) if restart_outputs && error.is_changed_file() => {
                set_aside_changed(&folder.join(system.schema(&case.units).file), report)?;
                Table::restart(case, system, folder, &state.table)?
            }
            outcome => outcome?,
        };
        let resume_pictures = |blocks: &mut Blocks, restart| {
            pictures::Pictures::resume(case, system, folder, provenance, &state.pictures, blocks, restart)
        };
        let pictures = match resume_pictures(&mut blocks.clone(), false) {
            Err(error) if restart_outputs && error.is_changed_file() => {
                set_aside_changed(&folder.join(ANIMATION), report)?;
                resume_pictures(blocks, true)?
            }
            outcome => outcome?,
        };
        let structure = structure::Structure::resume(case, system, folder, state.structure.as_ref(), blocks)?;
        let snapshots = snapshots::Snapshots::create(case, folder, provenance, state.snapshots)?;
        if state.manifest.is_none() {
            for missing in [snapshots.missing_files(), pictures.missing_files()] {
                if let Some(path) = missing.first() {
                    report(RunEvent::MissingFiles { path, count: missing.len() });
                }
            }
        }
        let positions = built_in_schedules(case).into_iter().zip(state.triggers);
        let schedule = |every, position, last_observed| Schedule {
            trigger: Trigger::at_position(every, position),
            last_observed,
        };
        let of_structure = structure::Structure::schedule(case).zip(state.structure.as_ref());
        let schedules = positions
            .zip(state.last_observed)
            .map(|((every, position), last_observed)| schedule(every, position, last_observed))
            .chain(of_structure.map(|(every, state)| schedule(every, state.trigger, state.last_observed)));
        Ok(Self {
            table,
            snapshots,
            pictures,
            structure,
            added: Vec::new(),
            schedules: schedules.collect(),
            pipeline: new_pipeline(),
            manifest,
            read_times: [Duration::ZERO; BUILT_IN + 1],
        })
    }

    /// Removes the frames of a trajectory that were written after `state`. A file that is not a
    /// trajectory of this program is an error. With `restart_outputs` it is set aside, and `report`
    /// is called.
    pub fn remove_later_frames(
        &self,
        state: &State,
        restart_outputs: bool,
        report: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<(), EngineError> {
        match self.snapshots.remove_later_frames(state.last_observed[1]) {
            Err(EngineError::Output(IoError { path, fault: Fault::Malformed { .. } })) if restart_outputs => {
                set_aside_changed(&path, report)
            }
            outcome => outcome,
        }
    }

    /// Adds an observer of the caller to a run that is at `time`.
    pub fn add(&mut self, mut trigger: Trigger, observer: Box<dyn Observer + 'a>, time: f64) {
        trigger.advance_past(time, 0.0);
        self.added.push(observer);
        self.schedules.push(Schedule { trigger, last_observed: None });
    }

    /// Waits for the workers, writes all output to the disk and returns the state for a checkpoint.
    pub fn sync(&mut self) -> Result<State, EngineError> {
        self.pipeline.drain()?;
        let built_in = [0, 1, 2].map(|index| self.schedules[index]);
        Ok(State {
            triggers: built_in.map(|schedule| schedule.trigger.position()),
            last_observed: built_in.map(|schedule| schedule.last_observed),
            table: self.table.sync()?,
            snapshots: self.snapshots.captured_count(),
            pictures: self.pictures.sync()?,
            structure: match &mut self.structure {
                Some(structure) => {
                    let Schedule { trigger, last_observed } = self.schedules[BUILT_IN];
                    Some(structure.sync(trigger.position(), last_observed)?)
                }
                None => None,
            },
            // All files so far have their lines.
            manifest: self.sync_manifest()?,
        })
    }

    /// Writes the manifest to the disk and returns its state.
    pub fn sync_manifest(&self) -> Result<Option<Mark>, EngineError> {
        self.manifest.sync().map_err(EngineError::Output)
    }

    /// Adds a file of the folder that another program wrote to the manifest.
    pub fn list_existing_file(&self, name: &str) -> Result<(), EngineError> {
        self.manifest.add_existing_file(name).map_err(EngineError::Output)
    }

    /// Returns the number of observers before those of the caller.
    fn own_count(&self) -> usize {
        BUILT_IN + usize::from(self.structure.is_some())
    }

    /// Returns the part of the state that is too large for the header of a checkpoint. Called after
    /// [`Observers::sync`].
    pub fn checkpoint_blocks(&self) -> Vec<(String, Block)> {
        let mut blocks = self.pictures.checkpoint_blocks();
        blocks.extend(self.structure.iter().flat_map(|structure| structure.checkpoint_blocks()));
        blocks
    }

    /// Returns the earliest due time of all triggers in simulated time.
    pub fn next_due_time(&self) -> Option<f64> {
        self.schedules.iter().filter_map(|schedule| schedule.trigger.due_time()).min_by(f64::total_cmp)
    }

    /// Returns the shortest interval of all triggers in simulated time.
    pub fn shortest_interval(&self) -> Option<f64> {
        self.schedules.iter().filter_map(|schedule| schedule.trigger.interval()).min_by(f64::total_cmp)
    }

    /// Returns the largest number of steps, up to `most`, that `simulation` can take before an
    /// observer must see its state. No output is due within the first step.
    pub fn steps_until_due(&self, simulation: &Simulation, most: u64) -> u64 {
        let step = simulation.moment().step;
        let of_added = self.added.iter().filter_map(|observer| observer.collect_every());
        let collected = of_added.chain(self.pictures.collect_every()).filter(|&every| every > 0);
        let most = collected.map(|every| every - step % every).fold(most, u64::min);
        self.schedules.iter().fold(most, |most, schedule| simulation.steps_until(&schedule.trigger, most))
    }

    /// Returns true if a row of the table is due at the end of a step of length `dt`.
    pub fn is_row_due(&self, end: Stamp, dt: f64) -> bool {
        self.schedules[0].trigger.is_due(end.step, end.time, dt)
    }

    /// Calls the observers whose trigger fires at the end of a step of length `dt`.
    pub fn observe_step(&mut self, moment: &Moment, dt: f64) -> Result<(), EngineError> {
        self.observe_where(moment, dt, |trigger| trigger.is_due(moment.step, moment.time, dt))
    }

    /// Calls the observers that are due at a time between two steps.
    pub fn observe_between_steps(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.observe_where(moment, 0.0, |trigger| trigger.due_time().is_some_and(|due| due <= moment.time))
    }

    /// Calls all observers, at the start or the end of the run.
    pub fn observe_all(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.observe_where(moment, 0.0, |_| true)
    }

    fn observe_where(
        &mut self,
        moment: &Moment,
        dt: f64,
        due: impl Fn(&Trigger) -> bool,
    ) -> Result<(), EngineError> {
        for index in 0..self.schedules.len() {
            let Schedule { trigger, last_observed } = self.schedules[index];
            if !due(&trigger) {
                continue;
            }
            // No observer gets the same time twice. The end of the run is also the end of the last
            // step, and a run that stopped within its first step resumes at the start.
            if last_observed.is_none_or(|last| last < moment.time) {
                self.observe(index, moment)?;
                self.schedules[index].last_observed = Some(moment.time);
            }
            self.schedules[index].trigger.advance_past(moment.time, dt);
        }
        Ok(())
    }

    /// Calls the observer with the schedule `index`.
    fn observe(&mut self, index: usize, moment: &Moment) -> Result<(), EngineError> {
        let first_added = self.own_count();
        let recorder: &mut dyn Recorder = match (index, &mut self.structure) {
            (0, _) => &mut self.table,
            (1, _) => &mut self.snapshots,
            (2, _) => &mut self.pictures,
            (BUILT_IN, Some(structure)) => structure,
            _ => {
                let started = Instant::now();
                let outcome = self.added[index - first_added].observe(moment);
                self.read_times[BUILT_IN] += started.elapsed();
                return outcome;
            }
        };
        let bytes = recorder.needed_bytes(moment);
        self.pipeline.make_room(bytes)?;
        let started = Instant::now();
        let captured = recorder.capture(moment);
        self.read_times[index.min(BUILT_IN)] += started.elapsed();
        self.pipeline.submit(bytes, captured?);
        Ok(())
    }

    /// Returns about the time until the workers have written all output.
    pub fn backlog(&self) -> Duration {
        self.pipeline.backlog()
    }

    /// Returns the time that the run loop has waited for the workers.
    pub fn waited(&self) -> Duration {
        self.pipeline.waited()
    }

    /// Adds the times of the observers to those of the run.
    pub fn add_times(&self, times: RunTimes) -> RunTimes {
        let [table, snapshots, images, observers] = self.read_times;
        let (output_wait, workers) = (self.pipeline.waited(), self.pipeline.worker_times());
        RunTimes { table, snapshots, images, observers, output_wait, workers, ..times }
    }

    /// Returns the error of an output that a worker could not write. The next call tries it again.
    pub fn check_written(&mut self) -> Result<(), EngineError> {
        self.pipeline.check()
    }

    /// Calls `collect` of the observers that collect data at this step.
    pub fn collect(&mut self, moment: &Moment) -> Result<(), EngineError> {
        let is_due = |every: Option<u64>| every.is_some_and(|every| moment.step.is_multiple_of(every));
        if is_due(self.pictures.collect_every()) {
            self.pictures.collect(moment)?;
        }
        let mut added = self.added.iter_mut().filter(|observer| is_due(observer.collect_every()));
        added.try_for_each(|observer| observer.collect(moment))
    }

    /// Waits until the workers have written all output.
    pub fn drain(&mut self) -> Result<(), EngineError> {
        self.pipeline.drain()
    }

    /// Completes all files.
    pub fn finish(&mut self) -> Result<(), EngineError> {
        self.table.finish()?;
        self.pictures.finish()?;
        if let Some(structure) = &mut self.structure {
            structure.finish()?;
        }
        self.finish_added()
    }

    /// Calls [`Observer::finish`] of the observers of the caller.
    pub fn finish_added(&mut self) -> Result<(), EngineError> {
        self.added.iter_mut().try_for_each(|observer| observer.finish())
    }
}
