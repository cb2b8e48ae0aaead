//! Errors of the commands.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orrery_cluster::ClusterError;
use orrery_device::DeviceError;
use orrery_draw::picture::PictureError;
use orrery_engine::EngineError;
use orrery_engine::case::CaseError;
use orrery_formats::{Fault, IoError};
use orrery_gravity::bodies::BodiesError;
use orrery_measure::MeasureError;
use thiserror::Error;

/// Error of a command. Its message is one line.
#[derive(Debug, Error)]
pub enum Failure {
    /// Error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Error of a run, with the directory of the run.
    #[error("{run}: {source}")]
    Run {
        /// Directory of the run, quoted for a shell.
        run: String,
        /// The error.
        source: Box<EngineError>,
    },
    /// Error of the bodies or their device.
    #[error(transparent)]
    Bodies(#[from] BodiesError),
    /// A file could not be read.
    #[error(transparent)]
    Input(IoError),
    /// A file could not be written.
    #[error("{}: {}", .0.path.display(), write_error_cause(.0))]
    Output(IoError),
    /// A plot could not be written.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// A device or a measurement failed.
    #[error(transparent)]
    Measure(#[from] MeasureError),
    /// This machine failed, such as a self-test or a process that does not start.
    #[error("{0}")]
    Machine(String),
    /// The connection to other ranks failed, or another rank.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The value of a flag is invalid, or flags contradict each other.
    #[error("{0}")]
    Usage(String),
}

impl Failure {
    /// Whether the user's input caused the error. Such errors have exit status 2.
    pub fn is_mistake(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_user_error(),
            Self::Run { source, .. } => source.is_user_error(),
            Self::Input(_) | Self::Usage(_) | Self::Cluster(ClusterError::Switch { .. }) => true,
            // The user gave an unknown file extension or a missing folder. A full disk is not the
            // user's mistake.
            Self::Output(error) => error.system_cause().is_none() || error.is_bad_path(),
            // The user requested a device that does not exist. A device that fails is not the
            // user's mistake.
            Self::Measure(MeasureError::Device(error)) => matches!(
                error,
                DeviceError::NoDevice { .. } | DeviceError::Index { .. } | DeviceError::BadChoice(_)
            ),
            Self::Picture(_) | Self::Measure(_) | Self::Bodies(_) | Self::Cluster(_) | Self::Machine(_) => {
                false
            }
        }
    }

    /// Returns the exit status of a command that failed.
    pub fn exit_status(&self) -> u8 {
        if self.is_mistake() { 2 } else { 1 }
    }
}

/// Returns the cause of a write error. The system names the file even if its folder is missing, so
/// that case gets a message about the folder.
fn write_error_cause(error: &IoError) -> String {
    match error.system_cause() {
        Some(e) if e.kind() == ErrorKind::NotFound && !parent_folder(&error.path).exists() => {
            format!(
                "the folder {} does not exist, expected an existing one",
                parent_folder(&error.path).display()
            )
        }
        _ => match &error.fault {
            Fault::System(_) => format!("cannot be written: {}", error.fault),
            fault => fault.to_string(),
        },
    }
}

fn parent_folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Refuses an output path whose folder does not exist, before any work is done.
pub fn check_output(path: &Path) -> Result<(), Failure> {
    let refuse = |fault: ErrorKind| Err(Failure::Output(IoError::from_system(path, fault.into())));
    if path.is_dir() {
        return Err(Failure::Usage(format!("{}: is a directory, expected a file to write", path.display())));
    }
    match parent_folder(path) {
        folder if !folder.exists() => refuse(ErrorKind::NotFound),
        folder if !folder.is_dir() => refuse(ErrorKind::NotADirectory),
        _ => Ok(()),
    }
}

/// Does the same as [`check_output`] and also refuses an existing file, unless `force` is set.
pub fn check_new_output(path: &Path, force: bool) -> Result<(), Failure> {
    check_output(path)?;
    check_new_file(path, force)
}

/// Refuses an existing file, unless `force` is set, and everything else that is not a regular file.
/// The folder of a new file need not exist.
pub fn check_new_file(path: &Path, force: bool) -> Result<(), Failure> {
    // A link is replaced and not followed, so one to nothing counts as a file.
    let Ok(found) = path.metadata().or_else(|_| path.symlink_metadata()) else { return Ok(()) };
    let path = path.display();
    if !found.is_file() && !found.is_symlink() {
        // A new file would replace the device, also for all other programs.
        return Err(Failure::Usage(format!("{path}: is not a regular file, expected a file to write")));
    }
    if !force {
        let message = format!("{path}: exists already, expected a new file; --force replaces it");
        return Err(Failure::Usage(message));
    }
    Ok(())
}

/// Refuses a folder where a snapshot file is expected.
pub fn check_input(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        let path = path.display();
        return Err(Failure::Usage(format!(
            "{path}: is a directory, expected a snapshot file; orrery analyze reads the directory of a run, orrery check compares its files"
        )));
    }
    Ok(())
}

impl From<CaseError> for Failure {
    fn from(error: CaseError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::Measure(error.into())
    }
}
