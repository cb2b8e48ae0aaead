//! Errors of measurements.

use orrery_device::DeviceError;
use orrery_io::IoError;
use orrery_model::format_count;
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
    /// There is no folder for the tuning file.
    #[error("no cache folder: expected ORRERY_CACHE_DIR, XDG_CACHE_HOME or HOME to name one")]
    NoCache,
}
