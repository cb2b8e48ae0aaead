//! Checkpoints: the complete state of a run, and how a resumed run finds it.
//!
//! Invariants: everything that a checkpoint refers to (rows, frames, snapshots) is on the disk
//! before the checkpoint gets its name. An older checkpoint is removed only after a newer one
//! exists. Random numbers are not part of the state: they depend only on the seeds of the case, and
//! none is drawn after the start.

mod before_end;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use orrery_device::{Device, DeviceChoice};
use orrery_formats::{
    Block, Fault, IoError, Limits, make_folder, read_checkpoint, remove_files, write_checkpoint,
};
use orrery_gravity::settings::StepChoice;
use orrery_model::format_count;
use serde::{Deserialize, Serialize};

use crate::blocks::Blocks;
use crate::case::{Case, CheckpointEvery};
use crate::error::EngineError;
use crate::folder::CHECKPOINTS;
use crate::input_files::InputHashes;
use crate::observers;
use crate::provenance;
use crate::simulation::{Moment, Simulation};
use crate::system::{SavedSystem, Size, Stamp, System};
use crate::trigger::{Trigger, time_tolerance};

use before_end::Restored;
pub(crate) use before_end::StateBeforeEnd;

const SUFFIX: &str = ".orrery";

/// Header of a checkpoint, in JSON. A new field needs a default, so that older files still load.
/// Some names in the file are those of gravity, which was the first physics.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    /// Name of the physics.
    #[serde(default = "first_physics")]
    physics: String,
    /// Program, commit and device that wrote it.
    writer: String,
    /// The resolved case, in TOML.
    case: String,
    /// Provenance of the run, as in its snapshots.
    provenance: Vec<(String, String)>,
    step: u64,
    time: f64,
    /// Number of elements of the state.
    #[serde(rename = "bodies")]
    count: usize,
    /// The method in use, for example `tree`, never `auto`.
    #[serde(rename = "solver")]
    method: String,
    /// The strategy of the device, in JSON. An unreadable strategy is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<String>,
    observers: observers::State,
    /// State before the last step, in the checkpoint of a finished run and of a run that stopped
    /// within that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before_end: Option<before_end::HeaderPart>,
}

/// Returns the physics of checkpoints from before their header named it.
fn first_physics() -> String {
    crate::gravity::NAME.to_owned()
}

/// Summary of a checkpoint.
#[derive(Clone, Debug)]
pub struct Description {
    /// Program, commit and device that wrote it.
    pub writer: String,
    /// Case of the run.
    pub case: Case,
    /// Number of elements of the system, for example bodies.
    pub size: Size,
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Name of the method, for example `tree`.
    pub method: &'static str,
}

/// Reads and checks a whole checkpoint, and returns its summary.
pub fn describe(path: &Path, limits: &Limits) -> Result<Description, EngineError> {
    let LoadedCheckpoint { writer, case, simulation, .. } = read_file(path, limits)?;
    let Moment { step, time, system } = simulation.moment();
    Ok(Description { writer, case, size: system.size(), step, time, method: system.method() })
}

/// A run, read from a checkpoint.
pub(crate) struct LoadedCheckpoint {
    pub path: PathBuf,
    pub writer: String,
    pub case: Case,
    pub provenance: Vec<(String, String)>,
    /// The system is on the host.
    pub simulation: Simulation,
    strategy: Option<String>,
    pub observers: observers::State,
    /// Columns of the observers.
    pub blocks: Blocks,
    /// State before the last step of a finished run. `None` if an older version finished it.
    pub before_end: Option<StateBeforeEnd>,
    /// Newer checkpoints that are damaged.
    damaged: Vec<PathBuf>,
    /// Wall time that reading took.
    pub read_time: Duration,
}

impl LoadedCheckpoint {
    /// Returns the strategy of `device` if this device wrote the checkpoint.
    pub fn recorded_strategy(&self, device: &Device) -> Option<&str> {
        let is_writer = self.writer.ends_with(&format!(" on {}", provenance::device_text(Some(device))));
        self.strategy.as_deref().filter(|_| is_writer)
    }

    /// Sets the number of ranks that will compute the system of `case`.
    pub fn with_ranks(self, case: &Case, ranks: usize) -> Self {
        Self { simulation: self.simulation.map_system(|system| system.with_ranks(case, ranks)), ..self }
    }

    /// Returns the device for a resumed run. `auto` becomes the device that wrote the checkpoint if
    /// it is available: on another device the last bits would differ. Several ranks get the devices
    /// of this kind in turn.
    pub fn resumed_device_choice(&self, choice: DeviceChoice, ranks: usize) -> DeviceChoice {
        let Some((_, before)) = self.writer.split_once(" on ").filter(|_| choice == DeviceChoice::Auto)
        else {
            return choice;
        };
        if before.starts_with("cpu") {
            return DeviceChoice::Cpu;
        }
        let devices = Device::list().devices;
        let same = devices.iter().find(|device| provenance::device_text(Some(device)) == before);
        same.map_or(choice, |device| {
            let index = Some(device.properties().index).filter(|_| ranks == 1);
            DeviceChoice::of_backend(device.properties().backend, index)
        })
    }

    /// Returns this run with the end of `case`. A run at its end goes back to the state before its
    /// last step. The error is for a run that has passed the new end, or that cannot go back.
    pub fn with_end_of(self, folder: &Path, case: &Case) -> Result<Self, EngineError> {
        let (end, Moment { step, time, system }) = (case.time.end, self.simulation.moment());
        let is_past = match case.time.step {
            StepChoice::Fixed(dt) => time >= end - time_tolerance(end, dt),
            StepChoice::Adaptive { .. } => time >= end,
        };
        if is_past {
            return Err(EngineError::EndIsPast { path: folder.to_owned(), end, step, time });
        }
        let case = case.clone();
        if !self.simulation.has_reached_end() {
            // The run has stopped within a step, after output that a run with this end does not
            // have.
            if let Some(time) = self.observers.last_observed().filter(|&time| time > end) {
                return Err(EngineError::EndIsPast { path: folder.to_owned(), end, step, time });
            }
            return Ok(Self { simulation: self.simulation.with_end(end), case, ..self });
        }
        let Some(before_end) = self.before_end else {
            return Err(EngineError::NotExtendable { path: folder.to_owned(), time });
        };
        let Restored { simulation, observers, blocks } = before_end.restore(&self.path, &case, system)?;
        Ok(Self { case, simulation, observers, blocks, before_end: None, ..self })
    }

    /// Renames damaged checkpoints to `NAME.damaged`, so that they are neither counted nor read
    /// again.
    pub fn rename_damaged(&self) {
        for path in &self.damaged {
            let mut new_name = path.clone().into_os_string();
            new_name.push(".damaged");
            let _ = fs::rename(path, new_name);
        }
    }
}

/// Describes the program and device that write checkpoints now.
pub(crate) fn writer_text(device: Option<&Device>) -> String {
    format!("orrery {} ({}) on {}", provenance::VERSION, provenance::COMMIT, provenance::device_text(device))
}

/// State of a run that a checkpoint stores.
pub(crate) struct RunState<'a> {
    pub case: &'a Case,
    pub provenance: &'a [(String, String)],
    pub moment: Moment<'a>,
    pub observers: observers::State,
    /// Columns of the observers.
    pub blocks: Vec<(String, Block)>,
    /// State before the last step of a run that is finished or within that step.
    pub before_end: Option<&'a StateBeforeEnd>,
}

/// The checkpoints of a run: when they are due, and their files.
pub(crate) struct Checkpoints {
    folder: PathBuf,
    every: CheckpointEvery,
    trigger: Trigger,
    keep: usize,
    /// Time of the last checkpoint, or of the start of this process.
    last_save: Instant,
    /// Step of the last checkpoint that this process wrote, and the time of its latest output. The
    /// output grows without a step while a run observes times within the next one.
    saved: Option<(u64, Option<f64>)>,
}

impl Checkpoints {
    /// Prepares the checkpoints of a run in `folder` that is at `moment`.
    pub fn new(case: &Case, folder: &Path, moment: &Moment) -> Result<Self, EngineError> {
        let every = case.checkpoint.every;
        let mut trigger = Trigger::new(every.schedule());
        trigger.advance_past(moment.time, 0.0);
        let folder = folder.join(CHECKPOINTS.folder);
        make_folder(&folder).map_err(EngineError::Output)?;
        let keep = case.checkpoint.keep as usize;
        Ok(Self { folder, every, trigger, keep, last_save: Instant::now(), saved: None })
    }

    /// Returns the step of the last checkpoint that this process wrote.
    pub fn last_saved_step(&self) -> Option<u64> {
        self.saved.map(|(step, _)| step)
    }

    /// Returns true if a checkpoint is due after a step of length `dt`.
    pub fn is_due(&self, moment: &Moment, dt: f64) -> bool {
        match self.every {
            CheckpointEvery::WallClock(interval) => self.last_save.elapsed() >= interval,
            _ => self.trigger.is_due(moment.step, moment.time, dt),
        }
    }

    /// Returns the largest number of steps, up to `most`, that `simulation` can take until a
    /// checkpoint is due.
    pub fn steps_until_due(&self, simulation: &Simulation, most: u64) -> u64 {
        simulation.steps_until(&self.trigger, most)
    }

    /// Writes a checkpoint after a step of length `dt` and removes those beyond `checkpoint.keep`.
    /// The files of the observers must be on the disk already. Returns the path.
    pub fn save(&mut self, state: &RunState<'_>, dt: f64) -> Result<PathBuf, EngineError> {
        let Moment { step, time, .. } = state.moment;
        let path = self.path_of(step);
        let progress = (step, state.observers.last_observed());
        if self.saved != Some(progress) {
            write_file(&path, state)?;
            self.saved = Some(progress);
            // A file that cannot be removed does no harm.
            let _ = self.keep_newest(self.keep);
        }
        self.trigger.advance_past(time, dt);
        self.last_save = Instant::now();
        Ok(path)
    }

    /// Writes a checkpoint of a finished run that is extended, and then removes all later ones.
    /// `state` is the state before the last step.
    ///
    /// This comes before any output file changes: the removed checkpoints need the files as they
    /// were at the old end.
    pub fn save_extended(&mut self, state: &RunState<'_>) -> Result<(), EngineError> {
        let step = state.moment.step;
        write_file(&self.path_of(step), state)?;
        let later = list_by_step(&self.folder).into_iter().filter(|(found, _)| *found > step);
        let later: Vec<_> = later.map(|(_, path)| path).collect();
        remove_files(&later).map_err(EngineError::Output)
    }

    fn path_of(&self, step: u64) -> PathBuf {
        self.folder.join(format!("{}{step:09}{SUFFIX}", CHECKPOINTS.prefix))
    }

    /// Removes all but the newest `count` checkpoints.
    pub fn keep_newest(&self, count: usize) -> Result<(), EngineError> {
        let mut outcome = Ok(());
        for (_, path) in list_by_step(&self.folder).into_iter().skip(count) {
            if let Err(e) = fs::remove_file(&path) {
                outcome = outcome.and(Err(EngineError::Output(IoError::from_system(&path, e))));
            }
        }
        outcome
    }
}

/// Lists the checkpoints in a folder with their steps, newest first.
fn list_by_step(folder: &Path) -> Vec<(u64, PathBuf)> {
    let step_of = |path: &Path| {
        let name = path.file_name()?.to_str()?.strip_prefix(CHECKPOINTS.prefix)?;
        name.strip_suffix(SUFFIX)?.parse::<u64>().ok()
    };
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = files.filter_map(|path| Some((step_of(&path)?, path))).collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found
}

/// Returns true if the run in `folder` has written a checkpoint.
pub(crate) fn exists_in(folder: &Path) -> bool {
    !list_by_step(&folder.join(CHECKPOINTS.folder)).is_empty()
}

/// Reads the newest intact checkpoint of the run in `folder`. Calls `report_damaged` for each newer
/// one that is damaged.
pub(crate) fn load_newest(
    folder: &Path,
    limits: &Limits,
    mut report_damaged: impl FnMut(&EngineError),
) -> Result<LoadedCheckpoint, EngineError> {
    let mut damaged = Vec::new();
    let started = Instant::now();
    for (step, path) in list_by_step(&folder.join(CHECKPOINTS.folder)) {
        let outcome = read_file(&path, limits).and_then(|saved| match saved.simulation.moment().step {
            found if found == step => Ok(saved),
            found => Err(malformed(
                &path,
                "file name",
                format!("step {step}"),
                &format!("step {found} as in its header"),
            )),
        });
        match outcome {
            Ok(saved) => return Ok(LoadedCheckpoint { damaged, read_time: started.elapsed(), ..saved }),
            // The file may be intact: it needs more memory, more rights or a newer program. The
            // user must decide, so older checkpoints are not tried.
            Err(error) if may_be_intact(&error) => return Err(error),
            Err(error) => {
                report_damaged(&error);
                damaged.push(path);
            }
        }
    }
    Err(EngineError::NoCheckpoint { path: folder.to_owned(), damaged: damaged.len() })
}

fn may_be_intact(error: &EngineError) -> bool {
    let error = match error {
        EngineError::Memory { .. } | EngineError::ResumeInput { .. } => return true,
        EngineError::Input(error) => error,
        _ => return false,
    };
    let denied = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::PermissionDenied;
    matches!(error.fault, Fault::TooLong { .. } | Fault::Newer { .. })
        || error.system_cause().is_some_and(denied)
}

fn write_file(path: &Path, state: &RunState<'_>) -> Result<(), EngineError> {
    let Moment { step, time, system } = state.moment;
    let header = Header {
        physics: system.physics().to_owned(),
        writer: writer_text(system.device()),
        case: state.case.to_toml(),
        provenance: state.provenance.to_vec(),
        step,
        time,
        count: system.size().count as usize,
        method: system.method().to_owned(),
        strategy: system.strategy_text(),
        observers: state.observers.clone(),
        before_end: state.before_end.map(StateBeforeEnd::header),
    };
    let header = serde_json::to_string_pretty(&header)
        .map_err(|e| malformed(path, "header", e.to_string(), "numbers that JSON can represent"))?;
    let of_system = system.columns().map_err(|error| error.at(state.moment.stamp()))?;
    let mut columns: Vec<_> =
        of_system.iter().map(|column| (column.name, column.values.as_column())).collect();
    columns.extend(state.blocks.iter().map(|(name, block)| (name.as_str(), block.as_column())));
    let before_end = state.before_end.map(StateBeforeEnd::columns).unwrap_or_default();
    columns.extend(before_end.iter().map(|(name, column)| (name.as_str(), *column)));
    write_checkpoint(path, &header, &columns).map_err(EngineError::Output)
}

fn read_file(path: &Path, limits: &Limits) -> Result<LoadedCheckpoint, EngineError> {
    let malformed = |context: &str, got: String, expected: &str| malformed(path, context, got, expected);
    let checkpoint = read_checkpoint(path, limits).map_err(EngineError::Input)?;
    let header: Header = serde_json::from_str(&checkpoint.header)
        .map_err(|e| malformed("header", e.to_string(), "a checkpoint header"))?;
    let case = Case::load_from_checkpoint(&header.case, &path.display().to_string(), &[])?;
    check_header(&header, &case).map_err(|(got, expected)| malformed("header", got, expected))?;
    let mut blocks = Blocks::new(path, checkpoint.blocks);
    blocks.check_finite()?;
    let columns_before_end = blocks.take_prefixed(before_end::PREFIX);
    let stamp = Stamp { step: header.step, time: header.time };
    let saved = SavedSystem { path, case: &case, count: header.count, method: &header.method, limits, stamp };
    let system = System::restore(&saved, &mut blocks).map_err(|error| {
        // A file that has changed may be the cause.
        check_input_files(&header.provenance, &case, None).err().unwrap_or(error)
    })?;
    check_input_files(&header.provenance, &case, system.input_hashes())?;
    if system.physics() != header.physics {
        return Err(malformed("physics", header.physics, "that of the case"));
    }
    if !header.observers.is_valid(&case, &system, &blocks, header.time) {
        return Err(malformed("observers", "values out of range".to_owned(), "values that a run can have"));
    }
    let before_end = header
        .before_end
        .map(|part| StateBeforeEnd::take(part, columns_before_end, &saved, &system, header.step))
        .transpose()?;
    Ok(LoadedCheckpoint {
        path: path.to_owned(),
        writer: header.writer,
        simulation: Simulation::new(&case, system, header.step, header.time)?,
        case,
        provenance: header.provenance,
        strategy: header.strategy,
        observers: header.observers,
        blocks,
        before_end,
        damaged: Vec::new(),
        read_time: Duration::ZERO,
    })
}

/// Checks that a run of `case` can have written the header. The error contains what was found and
/// what was expected.
fn check_header(header: &Header, case: &Case) -> Result<(), (String, &'static str)> {
    let Header { physics, writer, method, step, time, .. } = header;
    if !Simulation::is_reachable(case, *step, *time) {
        let got = format!("time {time:e} after {}", format_count(*step, "step", "steps"));
        return Err((got, "a time that the case can reach"));
    }
    let texts = header.provenance.iter().flat_map(|(name, _)| name.chars());
    let names = [physics, writer, method].into_iter().flat_map(|name| name.chars());
    if names.chain(texts).any(char::is_control) {
        return Err(("control characters in a name".to_owned(), "text"));
    }
    Ok(())
}

/// Checks that the files that a resumed run reads again have the recorded hashes. `read` are the
/// hashes of the bytes that were read. Other files are hashed now.
fn check_input_files(
    provenance: &[(String, String)],
    case: &Case,
    read: Option<&InputHashes>,
) -> Result<(), EngineError> {
    let inputs = provenance.iter().find(|(name, _)| name == "inputs").map_or("", |(_, text)| text);
    for path in case.files_of_resumed_run() {
        let refused = |reason: String| Err(EngineError::ResumeInput { path: path.clone(), reason });
        // A pipe or a device could be read without end.
        if path.exists() && !path.is_file() {
            return refused("not a regular file".to_owned());
        }
        match provenance::known_hash(&path, read) {
            Err(error) => return refused(error.fault.to_string()),
            Ok(hash) if provenance::recorded_input_hash(inputs, &path) != Some(&hash) => {
                return refused("the file has changed".to_owned());
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

fn malformed(path: &Path, context: &str, got: String, expected: &str) -> EngineError {
    EngineError::Input(IoError { path: path.to_owned(), fault: Fault::malformed(context, got, expected) })
}
