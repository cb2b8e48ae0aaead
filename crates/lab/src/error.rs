//! Errors of measurements.

use orrery_device::DeviceError;
use orrery_io::IoError;
use orrery_model::format_count;
use orrery_particles::lennard_jones::{DeviceFluidError, Exploded};
use thiserror::Error;

/// Error of a measurement. Its message is one line.
#[derive(Debug, Error)]
pub enum LabError {
    /// A device reported an error.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] IoError),
    /// The operating system did not start the threads.
    #[error("cannot start {}: {cause}", format_count(*threads as u64, "thread", "threads"))]
    Threads {
        /// Number of threads requested.
        threads: usize,
        /// Message of the thread pool.
        cause: String,
    },
    /// A fluid could not be moved.
    #[error(transparent)]
    Fluid(DeviceFluidError),
    /// The result of a rung is wrong, for example forces outside their bounds.
    #[error("wrong result of the rung '{rung}': {message}")]
    WrongResult {
        /// Name of the rung.
        rung: String,
        /// The first wrong force or number.
        message: String,
    },
    /// There is no folder for the tuning file.
    #[error("no cache folder: expected ORRERY_CACHE_DIR, XDG_CACHE_HOME or HOME to name one")]
    NoCache,
}

impl From<DeviceFluidError> for LabError {
    fn from(error: DeviceFluidError) -> Self {
        match error {
            DeviceFluidError::Device(error) => Self::Device(error),
            error => Self::Fluid(error),
        }
    }
}

impl From<Exploded> for LabError {
    fn from(error: Exploded) -> Self {
        Self::Fluid(error.into())
    }
}
