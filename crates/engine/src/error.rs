//! Errors of the engine, and whether the user or the machine caused them.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use orrery_cluster::ClusterError;
use orrery_device::DeviceError;
use orrery_draw::picture::PictureError;
use orrery_fields::TeamError;
use orrery_fields::heat::HeatError;
use orrery_fields::wave::WaveError;
use orrery_formats::{Fault, IoError};
use orrery_model::grid::InitialFieldError;
use orrery_model::ic::IcError;
use orrery_model::particles::ParticlesError;
use orrery_model::{format_count, short_number};

use crate::case::CaseError;
use crate::control::StopReason;
use crate::fluid::FluidError;
use crate::fluid::MinimiseStatus;
use crate::input_files::InputDifference;
use crate::system::Size;

/// Error that prevents a run from starting or continuing. The message is one line.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The case has an error.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// The parameters of a model are out of range.
    #[error("[bodies]: {0}")]
    Model(#[from] IcError),
    /// The bodies cannot be simulated.
    #[error("{origin}: {source}")]
    Bodies {
        /// File or model of the bodies.
        origin: String,
        /// The error of the bodies.
        source: ParticlesError,
    },
    /// The plate cannot be simulated.
    #[error("{origin}: {source}")]
    Heat {
        /// File or section with the values.
        origin: String,
        /// The error of the plate. Boxed, because it is larger than all other variants.
        source: Box<HeatError>,
    },
    /// The waves cannot be simulated.
    #[error("{origin}: {source}")]
    Wave {
        /// File or section with the values.
        origin: String,
        /// The error of the problem. Boxed, because it is larger than all other variants.
        source: Box<WaveError>,
    },
    /// The particles cannot be simulated.
    #[error("{origin}: {source}")]
    Fluid {
        /// File or section with the particles.
        origin: String,
        /// The error of the particles. Boxed, because it is larger than all other variants.
        source: Box<FluidError>,
    },
    /// The device cannot compute this system.
    #[error("{device}: {reason}")]
    DeviceUnsupported {
        /// Label and name of the device.
        device: String,
        /// Property that the device lacks.
        reason: String,
    },
    /// A case has several shots, and a run computes one.
    #[error("the case has the shots {}, expected one of them in wave.shot", join_numbers(.0))]
    ShotMissing(Vec<u64>),
    /// A file has another shape than the grid of a volume.
    #[error("{}: the file has {} values, expected {} as the grid has nodes", path.display(), extents(found), extents(expected))]
    VolumeShape {
        /// Path of the file.
        path: PathBuf,
        /// Values along x, y and z.
        found: [usize; 3],
        /// Nodes along x, y and z.
        expected: [usize; 3],
    },
    /// The bodies of a system that has none were requested.
    #[error("the system has no bodies, its physics is {physics}")]
    NoBodies {
        /// Name of the physics.
        physics: &'static str,
    },
    /// The initial state of a field has a bad parameter.
    #[error("[initial]: {0}")]
    InitialState(InitialFieldError),
    /// A file does not have the shape of the grid.
    #[error("{}: {} x {} {noun}, expected {} x {} as [grid] nodes", path.display(), found[0], found[1], expected[0], expected[1])]
    FieldShape {
        /// Path of the file.
        path: PathBuf,
        /// Values along x and y in the file.
        found: [usize; 2],
        /// Nodes along x and y.
        expected: [usize; 2],
        /// Name of the values, for example "pixels".
        noun: &'static str,
    },
    /// A file does not have one value per node of an edge.
    #[error("{}: {}, expected {nodes}, one per node of the {edge} edge", path.display(), format_count(*found as u64, "value", "values"))]
    ProfileLength {
        /// Path of the file.
        path: PathBuf,
        /// Name of the edge.
        edge: &'static str,
        /// Values in the file.
        found: usize,
        /// Nodes of the edge.
        nodes: usize,
    },
    /// An input file cannot be read.
    #[error(transparent)]
    Input(IoError),
    /// The system in a file does not fit into memory.
    #[error("{}: {} {needed} of memory, {available} are available", path.display(), size.need_text())]
    Memory {
        /// Path of the file.
        path: PathBuf,
        /// Size of the system in the file.
        size: Size,
        /// Memory that they need.
        needed: String,
        /// Memory that is available.
        available: String,
    },
    /// The operating system refuses the memory of the system.
    #[error(
        "{}: {} {needed} of memory, which the operating system refuses; the limits of the job or ulimit -v may be \
         too low",
        path.display(),
        size.need_text()
    )]
    OutOfMemory {
        /// File or section with the size of the system.
        path: PathBuf,
        /// Size of the system.
        size: Size,
        /// Memory that it needs.
        needed: String,
    },
    /// The device does not have enough memory for the system.
    #[error("{device}: {} {needed}, {free} are free", size.need_text())]
    DeviceMemory {
        /// Label and name of the device.
        device: String,
        /// Size of the system.
        size: Size,
        /// Memory that they need.
        needed: String,
        /// Memory that is free.
        free: String,
    },
    /// The device does not exist, or it failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A rank failed, or the ranks cannot compute together.
    #[error("{message}")]
    Ranks {
        /// Reason.
        message: String,
    },
    /// The ranks have read different input files.
    #[error(transparent)]
    InputsDiffer(InputDifference),
    /// The units of the file cannot be converted to those of the case.
    #[error("{}: the units are {found} but the case has {expected}, and one of them has no physical scale; expected units = \"{found}\" in the case", path.display())]
    UnitsMismatch {
        /// Path of the file.
        path: PathBuf,
        /// Units of the file.
        found: &'static str,
        /// Units of the case.
        expected: &'static str,
    },
    /// The time of the file of bodies cannot be the start of the run.
    #[error("{}: the time of the file is {}, expected 0 <= time < time.end = {}; time.start sets another start, --set time.end=... a later end", path.display(), short_number(*time), short_number(*end))]
    StartTime {
        /// Path of the file.
        path: PathBuf,
        /// Time of the file, in the units of the case.
        time: f64,
        /// End of the run.
        end: f64,
    },
    /// The output folder contains files, but no run.
    #[error("{}: the output directory is not empty, expected a new or empty one", .0.display())]
    OutputNotEmpty(PathBuf),
    /// The output folder contains a run.
    #[error("{}: the directory contains a run{} --force replaces it", path.display(), if *resumable { format!("; orrery resume {} continues it,", path.display()) } else { " without a checkpoint;".to_owned() })]
    ContainsRun {
        /// Path of the folder.
        path: PathBuf,
        /// True if the run has a checkpoint to resume from.
        resumable: bool,
    },
    /// The path of the run to resume is not a folder.
    #[error("{}: {}, expected the directory of a run", path.display(), if path.exists() { "it is a file" } else { "no such directory" })]
    NotAFolder {
        /// Path that was given.
        path: PathBuf,
    },
    /// The folder of a survey has shots of an earlier version, which recorded no case of all shots.
    #[error(
        "{}: a survey without its {}; orrery run CASE --resume continues its shots",
        .0.display(), crate::survey::SURVEY_FILE
    )]
    NoSurveyCase(PathBuf),
    /// The output folder cannot be used.
    #[error("{}: cannot be used as output directory: {reason}", path.display())]
    OutputFolder {
        /// Path of the folder.
        path: PathBuf,
        /// Reason, as part of a sentence.
        reason: String,
    },
    /// A folder contains no snapshots.
    #[error("{}: no snapshots in it, expected .hdf5, .xyz, .npz, .npy or .vti files", .0.display())]
    NoSnapshots(PathBuf),
    /// Snapshots that are analysed together have different units or softening lengths.
    #[error("{0}")]
    DifferentSnapshots(String),
    /// Another run is writing to the folder.
    #[error("{}: another run{} is writing to it, expected a directory that no other run uses", path.display(), process_text(owner))]
    Locked {
        /// Path of the folder.
        path: PathBuf,
        /// Id of the process that has locked the folder, if known.
        owner: Option<u32>,
    },
    /// Another run has claimed the folder on a file system without locks.
    #[error(
        "{}: {owner} is writing to it or was killed, and the file system has no locks to find out; \
         expected a directory that no other run uses; if none does, add --no-lock",
        path.display()
    )]
    Claimed {
        /// Path of the folder.
        path: PathBuf,
        /// The process that has claimed the folder, such as `process 12`.
        owner: String,
    },
    /// There is no intact checkpoint to resume from.
    #[error("{}: {}, expected a run with a checkpoint", path.display(), match damaged { 0 => "no checkpoint in it".to_owned(), n => format!("all checkpoints ({n}) are damaged") })]
    NoCheckpoint {
        /// Path of the folder.
        path: PathBuf,
        /// Number of checkpoints that could not be read.
        damaged: usize,
    },
    /// A file that a resumed run reads again is not the one that it started with.
    #[error("{}: {reason}, expected the file that the run started with, because a resumed run reads it again", path.display())]
    ResumeInput {
        /// Path of the file.
        path: PathBuf,
        /// The fault, for example "the file has changed".
        reason: String,
    },
    /// `run --resume` was given another case than that of the run.
    #[error("{}: the run has {found} but the case has {expected}; orrery resume continues the run as it is, --force replaces it", path.display())]
    CaseDiffers {
        /// Path of the folder.
        path: PathBuf,
        /// First line that differs, in the case of the run.
        found: String,
        /// The same line in the case that was given.
        expected: String,
    },
    /// `resume --set` was given a key that a run cannot change.
    #[error("{}: the run has {found} and cannot change to {given}; only time.end, output.on_error and the keys of [checkpoint] and [limits] can change", path.display())]
    FixedKey {
        /// Path of the folder.
        path: PathBuf,
        /// First line that differs, in the case of the run.
        found: String,
        /// The same line after the settings that were given.
        given: String,
    },
    /// `case.toml` in the folder of a run has another value than the run.
    #[error("{}: the file was edited: it has {given}, but the run has {found}, which cannot change; undo the edit, or start a new run with orrery run {} --out DIR", path.display(), path.display())]
    EditedCaseFile {
        /// Path of the file.
        path: PathBuf,
        /// First line that differs, in the case of the run.
        found: String,
        /// The same line in the file.
        given: String,
    },
    /// `case.toml` in the folder of a run is not a case any more.
    #[error("{error}; the file was edited after the run wrote it: undo the edit, or remove {} to resume without it", path.display())]
    UnreadableCaseFile {
        /// Path of the file.
        path: PathBuf,
        /// The error in the file.
        error: CaseError,
    },
    /// The new end of a run is not after the time that it has reached.
    #[error("{}: time.end = {} is not after time {} of step {step}, which the run has reached; expected a later end", path.display(), short_number(*end), short_number(*time))]
    EndIsPast {
        /// Path of the folder.
        path: PathBuf,
        /// The new end.
        end: f64,
        /// Steps completed.
        step: u64,
        /// Simulated time.
        time: f64,
    },
    /// An older version finished the run.
    #[error("{}: the run cannot be extended: an older version finished it at time {} and did not store the state before the last step; expected a run of this version, or a new run whose bodies.file is the last snapshot", path.display(), short_number(*time))]
    NotExtendable {
        /// Path of the folder.
        path: PathBuf,
        /// Simulated time at which the run ended.
        time: f64,
    },
    /// An output file cannot be written.
    #[error(transparent)]
    Output(IoError),
    /// An image or plot cannot be written.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// A value of the state is not finite, for example a position.
    #[error("step {step}, time {}: {found}", short_number(*time))]
    NotFinite {
        /// Steps completed.
        step: u64,
        /// Simulated time.
        time: f64,
        /// The value and where it is, with possible causes.
        found: String,
    },
    /// The error of the run exceeded its limit, for example the energy error.
    #[error(
        "step {step}, time {}: the {title} is {error:.1e}, expected at most {} ([limits] {key})",
        short_number(*time), short_number(*limit)
    )]
    AboveLimit {
        /// Steps completed.
        step: u64,
        /// Simulated time.
        time: f64,
        /// Name of the error, for example "energy error".
        title: &'static str,
        /// Key of the limit, for example `energy_error`.
        key: &'static str,
        /// The error.
        error: f64,
        /// The limit.
        limit: f64,
    },
    /// The run was stopped while the energy of a fluid was minimised. There is no checkpoint yet.
    #[error(
        "stopped {} in the minimisation after {} steps: {status}; nothing was written, and {} starts it again",
        stop_cause(*reason), status.state.steps, stop_remedy(*reason)
    )]
    MinimisationStopped {
        /// Why.
        reason: StopReason,
        /// State of the minimisation.
        status: MinimiseStatus,
    },
    /// The wall time is too short for one step.
    #[error("step {step}: the wall time is too short for one step, expected at least {} s", needed.as_secs_f64().ceil())]
    WallTimeTooShort {
        /// Steps completed.
        step: u64,
        /// Estimated time for a step, its output and a checkpoint.
        needed: Duration,
    },
    /// The storage, a device or a rank failed, and the run can be resumed.
    #[error("{source}; step {step} is saved, orrery resume {} continues from it", folder.display())]
    Recoverable {
        /// The error.
        source: Box<EngineError>,
        /// Step of the last checkpoint.
        step: u64,
        /// Folder of the run.
        folder: PathBuf,
    },
    /// A run failed, and its state at that time was saved for inspection.
    #[error("{source}; the {elements} at that moment are in {}", path.display())]
    PostMortem {
        /// The error.
        source: Box<EngineError>,
        /// Name of the elements of the system, for example "bodies".
        elements: &'static str,
        /// Path of the snapshot.
        path: PathBuf,
    },
    /// The adaptive step is too small to advance the time.
    #[error(
        "step {step}, time {}: the adaptive step fell to {dt:e}, expected one that advances time; set a larger softening or a larger eta",
        short_number(*time)
    )]
    StepTooShort {
        /// Steps completed.
        step: u64,
        /// Simulated time.
        time: f64,
        /// Length of the step.
        dt: f64,
    },
    /// The run would not end with adaptive steps of this length.
    #[error(
        "step {step}, time {}: the adaptive step is {dt:.1e} and would take {steps:.0e} steps to the end, expected at most 2^53; set a larger softening or a larger eta",
        short_number(*time)
    )]
    TooManySteps {
        /// Steps completed.
        step: u64,
        /// Simulated time.
        time: f64,
        /// Length of the step.
        dt: f64,
        /// Number of steps of this length until the end.
        steps: f64,
    },
    /// A quantity of the table is not finite.
    #[error(
        "step {step}, time {}: {quantity} is {value}, expected a finite value; {causes}",
        short_number(*time)
    )]
    QuantityNotFinite {
        /// Steps completed.
        step: u64,
        /// Simulated time.
        time: f64,
        /// Name of the quantity, with an article.
        quantity: &'static str,
        /// Value that was measured.
        value: f64,
        /// Possible causes.
        causes: &'static str,
    },
}

fn stop_cause(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Requested => "by a signal",
        StopReason::WallTime => "at the wall-time limit",
    }
}

fn stop_remedy(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Requested => "the same command",
        StopReason::WallTime => "the same command with a longer wall time",
    }
}

impl EngineError {
    /// Returns true if the message is about a step of a run and names neither the run nor a file.
    pub fn is_of_step(&self) -> bool {
        matches!(
            self,
            Self::NotFinite { .. }
                | Self::AboveLimit { .. }
                | Self::WallTimeTooShort { .. }
                | Self::StepTooShort { .. }
                | Self::TooManySteps { .. }
                | Self::QuantityNotFinite { .. }
                | Self::MinimisationStopped { .. }
        )
    }

    /// Returns true if the input of the user is wrong, and not the machine or the run.
    pub fn is_user_error(&self) -> bool {
        match self {
            Self::Model(IcError::Stopped) => false,
            Self::Case(_)
            | Self::Model(_)
            | Self::Bodies { .. }
            | Self::NoBodies { .. }
            | Self::Fluid { .. }
            | Self::DeviceUnsupported { .. }
            | Self::InitialState(_)
            | Self::FieldShape { .. }
            | Self::VolumeShape { .. }
            | Self::ShotMissing(_)
            | Self::ProfileLength { .. }
            | Self::Input(_)
            | Self::Memory { .. }
            | Self::OutOfMemory { .. }
            | Self::DeviceMemory { .. }
            | Self::InputsDiffer(_)
            | Self::UnitsMismatch { .. }
            | Self::StartTime { .. }
            | Self::OutputNotEmpty(_)
            | Self::NoSnapshots(_)
            | Self::DifferentSnapshots(_)
            | Self::ContainsRun { .. }
            | Self::NotAFolder { .. }
            | Self::NoSurveyCase(_)
            | Self::Locked { .. }
            | Self::Claimed { .. }
            | Self::NoCheckpoint { .. }
            | Self::ResumeInput { .. }
            | Self::CaseDiffers { .. }
            | Self::FixedKey { .. }
            | Self::EditedCaseFile { .. }
            | Self::UnreadableCaseFile { .. }
            | Self::EndIsPast { .. }
            | Self::NotExtendable { .. }
            | Self::OutputFolder { .. } => true,
            Self::Heat { source, .. } => {
                !matches!(**source, HeatError::Device(_) | HeatError::Team(TeamError::Cluster(_)))
            }
            Self::Wave { source, .. } => {
                !matches!(**source, WaveError::Device(_) | WaveError::Team(TeamError::Cluster(_)))
            }
            Self::Device(error) => is_unknown_device(error),
            Self::Output(_) | Self::Picture(PictureError::Io(_)) => self.is_changed_file(),
            Self::Picture(_)
            | Self::Ranks { .. }
            | Self::NotFinite { .. }
            | Self::AboveLimit { .. }
            | Self::PostMortem { .. }
            | Self::StepTooShort { .. }
            | Self::TooManySteps { .. }
            | Self::QuantityNotFinite { .. }
            | Self::WallTimeTooShort { .. }
            | Self::MinimisationStopped { .. }
            | Self::Recoverable { .. } => false,
        }
    }

    /// Returns true if an output file was changed after the checkpoint was written.
    pub fn is_changed_file(&self) -> bool {
        match self {
            Self::Output(error) | Self::Picture(PictureError::Io(error)) => {
                matches!(error.fault, Fault::Changed(_))
            }
            _ => false,
        }
    }

    /// Returns true for a storage error, such as a full disk, that a later attempt may not have.
    pub fn is_storage_error(&self) -> bool {
        match self {
            // A file or folder that was removed does not return by waiting.
            Self::Output(error) | Self::Picture(PictureError::Io(error)) => {
                error.system_cause().is_some_and(|cause| cause.kind() != std::io::ErrorKind::NotFound)
            }
            _ => false,
        }
    }
}

impl From<ClusterError> for EngineError {
    fn from(error: ClusterError) -> Self {
        Self::Ranks { message: error.to_string() }
    }
}

/// Returns true if the requested device does not exist. False if it exists and failed.
pub fn is_unknown_device(error: &DeviceError) -> bool {
    matches!(error, DeviceError::BadChoice(_) | DeviceError::NoDevice { .. } | DeviceError::Index { .. })
}

fn process_text(owner: &Option<u32>) -> String {
    owner.map_or_else(String::new, |id| format!(" (process {id})"))
}

/// Returns for example "1, 2, 3".
fn join_numbers(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns for example "3 x 4 x 5", or "3 x 4" for a plane.
fn extents(counts: &[usize; 3]) -> String {
    let axes = if counts[2] == 1 { 2 } else { 3 };
    counts[..axes].iter().map(usize::to_string).collect::<Vec<_>>().join(" x ")
}
