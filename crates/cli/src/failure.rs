//! What the command can fail with.

use orrery_engine::EngineError;
use orrery_engine::case::CaseError;
use orrery_io::IoError;
use orrery_io::picture::PictureError;
use thiserror::Error;

/// Why a command did not do what it was asked. One line.
#[derive(Debug, Error)]
pub enum Failure {
    /// From the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A file that was to be read.
    #[error(transparent)]
    Input(IoError),
    /// A file that was to be written.
    #[error(transparent)]
    Output(IoError),
    /// A plot that was to be written.
    #[error(transparent)]
    Picture(#[from] PictureError),
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
            Self::Output(error) => match &error.fault {
                orrery_io::Fault::System(e) => e.kind() == std::io::ErrorKind::NotFound,
                _ => true,
            },
            Self::Picture(_) => false,
        }
    }
}

impl From<CaseError> for Failure {
    fn from(error: CaseError) -> Self {
        Self::Engine(error.into())
    }
}
