//! What a measurement can fail with.

use orrery_device::DeviceError;
use orrery_io::IoError;
use thiserror::Error;

/// Why nothing was measured. One line.
#[derive(Debug, Error)]
pub enum LabError {
    /// From the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A file that was to be written.
    #[error(transparent)]
    File(#[from] IoError),
    /// The operating system refuses a thread.
    #[error("{threads} threads cannot be started: {word}")]
    Threads {
        /// How many were wanted.
        threads: usize,
        /// Its word.
        word: String,
    },
    /// There is nowhere to keep what was found.
    #[error("no cache folder: expected ORRERY_CACHE_DIR, XDG_CACHE_HOME or HOME to name one")]
    NoCache,
}
