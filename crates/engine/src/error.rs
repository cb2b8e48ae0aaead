//! What ends a run early, and whose fault it is.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use orrery_device::DeviceError;
use orrery_io::picture::PictureError;
use orrery_io::{Fault, IoError};
use orrery_model::ic::IcError;
use orrery_model::particles::ParticlesError;
use orrery_particles::bodies::NotFinite;

use crate::case::CaseError;

/// Why a run could not start or go on. The message is one line.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The case is wrong.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// A model's parameters are out of range.
    #[error("[bodies]: {0}")]
    Model(#[from] IcError),
    /// The bodies cannot be simulated.
    #[error("{origin}: {source}")]
    Bodies {
        /// The file or model they come from.
        origin: String,
        /// What is wrong with them.
        source: ParticlesError,
    },
    /// A file that was to be read.
    #[error(transparent)]
    Input(IoError),
    /// The file's bodies do not fit into memory.
    #[error("{}: {count} bodies need {needed} of memory, {available} are available", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// How many bodies it holds.
        count: usize,
        /// What they take.
        needed: String,
        /// What there is.
        available: String,
    },
    /// The device has no room for the bodies.
    #[error("{device}: {count} bodies need {needed}, {free} are free")]
    DeviceMemory {
        /// Its label and name.
        device: String,
        /// How many bodies.
        count: usize,
        /// What they take.
        needed: String,
        /// What there is.
        free: String,
    },
    /// There is no such device, or it failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The file's units are not the case's.
    #[error("{}: its units are {found}, the case's {expected}, and one of them has no physical scale; expected units = \"{found}\" in the case", path.display())]
    UnitsMismatch {
        /// The file.
        path: PathBuf,
        /// Its units.
        found: &'static str,
        /// The case's.
        expected: &'static str,
    },
    /// The output folder has something in it.
    #[error("{}: the output directory is not empty, expected a new or empty one", .0.display())]
    OutputNotEmpty(PathBuf),
    /// The output folder has a run in it.
    #[error("{}: it holds a run{}; --force replaces it", path.display(), if *resumable { format!(", which orrery resume {} goes on with", path.display()) } else { " without a checkpoint to go on from".to_owned() })]
    HoldsARun {
        /// The folder.
        path: PathBuf,
        /// Whether it can be gone on with.
        resumable: bool,
    },
    /// The folder of a run to go on with is none.
    #[error("{}: {}, expected the directory of a run", path.display(), if path.exists() { "it is a file" } else { "no such directory" })]
    NotAFolder {
        /// What was given.
        path: PathBuf,
    },
    /// The output folder cannot be used.
    #[error("{}: cannot be used as output directory: {reason}", path.display())]
    OutputFolder {
        /// The folder.
        path: PathBuf,
        /// The system's word.
        reason: String,
    },
    /// A folder without snapshots where some were expected.
    #[error("{}: no snapshots in it, expected .hdf5, .xyz or .npz files", .0.display())]
    NoSnapshots(PathBuf),
    /// Another run writes into the folder.
    #[error("{}: another run{} is writing into it, expected a directory of its own", path.display(), process(owner))]
    Locked {
        /// The folder.
        path: PathBuf,
        /// The process that holds it.
        owner: Option<u32>,
    },
    /// Nothing to go on from.
    #[error("{}: {}, expected a run with a checkpoint", path.display(), match damaged { 0 => "no checkpoint in it".to_owned(), n => format!("all checkpoints ({n}) are damaged") })]
    NoCheckpoint {
        /// The folder.
        path: PathBuf,
        /// How many there were that could not be read.
        damaged: usize,
    },
    /// The run to go on with is another one.
    #[error("{}: the run in it has {found}, the case {expected}; orrery resume goes on with the run as it is, --force replaces it", path.display())]
    CaseDiffers {
        /// The folder.
        path: PathBuf,
        /// The first line of the case that differs, as the run has it.
        found: String,
        /// And as the case in hand has it.
        expected: String,
    },
    /// A file that was to be written.
    #[error(transparent)]
    Output(IoError),
    /// A picture that was to be written.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// A number went wrong on the way.
    #[error("step {step}, time {}: {source}", in_short(*time))]
    NotFinite {
        /// Steps taken.
        step: u64,
        /// Simulated time.
        time: f64,
        /// Which body and number.
        source: NotFinite,
    },
    /// The energy error passed its limit.
    #[error(
        "step {step}, time {}: the energy error is {error:.1e}, expected at most {limit} ([limits] energy_error)",
        in_short(*time)
    )]
    Energy {
        /// Steps taken.
        step: u64,
        /// Simulated time.
        time: f64,
        /// (E − E₀) / |E₀|.
        error: f64,
        /// What was allowed.
        limit: f64,
    },
    /// The wall time is too short for a step.
    #[error("step {step}: no step fits into the wall time, expected at least {} s", needed.as_secs_f64().ceil())]
    NoTime {
        /// Steps taken.
        step: u64,
        /// What a step, its output and a checkpoint may take.
        needed: Duration,
    },
    /// The storage or the device failed, and what remains.
    #[error("{source}; step {step} is saved, orrery resume {} goes on from it", folder.display())]
    Lost {
        /// What failed.
        source: Box<EngineError>,
        /// The step of the last checkpoint.
        step: u64,
        /// The run.
        folder: PathBuf,
    },
    /// What went wrong, and where the bodies of that moment are.
    #[error("{source}; the bodies at that moment are in {}", path.display())]
    PostMortem {
        /// What went wrong.
        source: Box<EngineError>,
        /// The snapshot.
        path: PathBuf,
    },
    /// The adaptive criterion asks for a step that no longer advances time.
    #[error(
        "step {step}, time {}: the adaptive step fell to {dt:e}, expected one that advances time; set a softening, or a larger eta",
        in_short(*time)
    )]
    StepTooShort {
        /// Steps taken.
        step: u64,
        /// Simulated time.
        time: f64,
        /// The step asked for.
        dt: f64,
    },
}

impl EngineError {
    /// Whether the user's input is at fault, rather than the machine or the run.
    pub fn is_mistake(&self) -> bool {
        match self {
            Self::Case(_)
            | Self::Model(_)
            | Self::Bodies { .. }
            | Self::Input(_)
            | Self::Memory { .. }
            | Self::DeviceMemory { .. }
            | Self::UnitsMismatch { .. }
            | Self::OutputNotEmpty(_)
            | Self::NoSnapshots(_)
            | Self::HoldsARun { .. }
            | Self::NotAFolder { .. }
            | Self::Locked { .. }
            | Self::NoCheckpoint { .. }
            | Self::CaseDiffers { .. }
            | Self::OutputFolder { .. } => true,
            Self::Device(error) => is_of_choice(error),
            Self::Output(_) | Self::Picture(PictureError::Io(_)) => self.is_changed_file(),
            Self::Picture(_)
            | Self::NotFinite { .. }
            | Self::Energy { .. }
            | Self::PostMortem { .. }
            | Self::StepTooShort { .. }
            | Self::NoTime { .. }
            | Self::Lost { .. } => false,
        }
    }

    /// Whether a growing file is no longer what a checkpoint saw.
    pub fn is_changed_file(&self) -> bool {
        match self {
            Self::Output(error) | Self::Picture(PictureError::Io(error)) => {
                matches!(error.fault, Fault::Changed(_))
            }
            _ => false,
        }
    }

    /// Whether storage failed, so that waiting may help.
    pub fn is_of_storage(&self) -> bool {
        match self {
            // What is gone does not come back by waiting.
            Self::Output(error) | Self::Picture(PictureError::Io(error)) => {
                error.system_cause().is_some_and(|cause| cause.kind() != std::io::ErrorKind::NotFound)
            }
            _ => false,
        }
    }
}

/// Whether what was asked for is not here, rather than out of order.
pub fn is_of_choice(error: &DeviceError) -> bool {
    matches!(error, DeviceError::BadChoice(_) | DeviceError::NoDevice { .. } | DeviceError::Index { .. })
}

fn process(owner: &Option<u32>) -> String {
    owner.map_or_else(String::new, |id| format!(" (process {id})"))
}

/// No hundred zeros for a time that is far out.
fn in_short(time: f64) -> String {
    if time == 0.0 || (1e-6..1e15).contains(&time.abs()) { time.to_string() } else { format!("{time:e}") }
}
