//! What the command can fail with.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orrery_device::DeviceError;
use orrery_engine::EngineError;
use orrery_engine::case::CaseError;
use orrery_io::picture::PictureError;
use orrery_io::{Fault, IoError};
use orrery_lab::LabError;
use orrery_particles::bodies::BodiesError;
use thiserror::Error;

/// Why a command did not do what it was asked. One line.
#[derive(Debug, Error)]
pub enum Failure {
    /// From the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// From bodies or their device.
    #[error(transparent)]
    Bodies(#[from] BodiesError),
    /// A file that was to be read.
    #[error(transparent)]
    Input(IoError),
    /// A file that was to be written.
    #[error("{}: {}", .0.path.display(), unwritable(.0))]
    Output(IoError),
    /// A plot that was to be written.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// A device, or what was to be measured on it.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Something on this machine is not as it should be.
    #[error("{0}")]
    Machine(String),
    /// A flag's value, or flags that contradict each other.
    #[error("{0}")]
    Usage(String),
}

impl Failure {
    /// Whether the user's input is at fault.
    pub fn is_mistake(&self) -> bool {
        match self {
            Self::Engine(error) => error.is_mistake(),
            Self::Input(_) | Self::Usage(_) => true,
            // A name that says no format, or a folder that is not there, is the user's; a full disk is not.
            Self::Output(error) => error.system_cause().is_none() || error.is_bad_path(),
            // A device that is not there was asked for; one that fails was not.
            Self::Lab(LabError::Device(error)) => matches!(
                error,
                DeviceError::NoDevice { .. } | DeviceError::Index { .. } | DeviceError::BadChoice(_)
            ),
            Self::Picture(_) | Self::Lab(_) | Self::Bodies(_) | Self::Machine(_) => false,
        }
    }
}

/// The system speaks of the file; more often its folder is at fault.
fn unwritable(error: &IoError) -> String {
    match error.system_cause() {
        Some(e) if e.kind() == ErrorKind::NotFound && !folder_of(&error.path).exists() => {
            format!(
                "the folder {} does not exist, expected an existing one",
                folder_of(&error.path).display()
            )
        }
        _ => match &error.fault {
            Fault::System(_) => format!("cannot be written: {}", error.fault),
            fault => fault.to_string(),
        },
    }
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Refuses a file that could not be written, before the work for it is done.
pub fn check_output(path: &Path) -> Result<(), Failure> {
    let refuse = |fault: ErrorKind| Err(Failure::Output(IoError::from_system(path, fault.into())));
    if path.is_dir() {
        return Err(Failure::Usage(format!("{}: is a directory, expected a file to write", path.display())));
    }
    match folder_of(path) {
        folder if !folder.exists() => refuse(ErrorKind::NotFound),
        folder if !folder.is_dir() => refuse(ErrorKind::NotADirectory),
        _ => Ok(()),
    }
}

/// The same; `force` lets it replace an existing file.
pub fn check_new_output(path: &Path, force: bool) -> Result<(), Failure> {
    check_output(path)?;
    if path.exists() && !force {
        let path = path.display();
        return Err(Failure::Usage(format!(
            "{path}: exists already, expected a new file; --force replaces it"
        )));
    }
    Ok(())
}

/// Refuses a folder where a snapshot is wanted.
pub fn check_input(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        let path = path.display();
        return Err(Failure::Usage(format!(
            "{path}: is a directory, expected a snapshot file; orrery analyze takes a run's folder"
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
        Self::Lab(error.into())
    }
}
