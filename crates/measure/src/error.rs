//! Errors of measurements.

use orrery_cluster::{ClusterError, LinkError};
use orrery_device::{CacheError, DeviceError};
use orrery_fields::heat::HeatError;
use orrery_fields::wave::WaveError;
use orrery_fluids::{DeviceFluidError, Exploded};
use orrery_formats::IoError;
use orrery_gravity::bodies::BodiesError;
use orrery_model::format_count;
use thiserror::Error;

/// Error of a measurement. Its message is one line.
#[derive(Debug, Error)]
pub enum MeasureError {
    /// A device reported an error.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A file could not be written.
    #[error(transparent)]
    File(#[from] IoError),
    /// Another user could have written the folder or file of the tuning.
    #[error("{0}; remove it, or set ORRERY_CACHE_DIR to another folder")]
    RefusedCache(CacheError),
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
    /// Bodies could not be moved.
    #[error(transparent)]
    Bodies(#[from] BodiesError),
    /// A wave could not be computed.
    #[error(transparent)]
    Wave(#[from] WaveError),
    /// A temperature could not be computed.
    #[error(transparent)]
    Heat(#[from] HeatError),
    /// The connection to other ranks failed, or another rank.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
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

impl From<CacheError> for MeasureError {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::System { path, cause } => Self::File(IoError::from_system(&path, cause)),
            refused @ CacheError::Refused { .. } => Self::RefusedCache(refused),
        }
    }
}

impl From<DeviceFluidError> for MeasureError {
    fn from(error: DeviceFluidError) -> Self {
        match error {
            DeviceFluidError::Device(error) => Self::Device(error),
            error => Self::Fluid(error),
        }
    }
}

impl From<LinkError> for MeasureError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Device(error) => Self::Device(error),
            LinkError::Cluster(error) => Self::Cluster(error),
        }
    }
}

impl From<Exploded> for MeasureError {
    fn from(error: Exploded) -> Self {
        Self::Fluid(error.into())
    }
}
