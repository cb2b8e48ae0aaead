//! Errors of bodies that move.

use orrery_cluster::{ClusterError, LinkError};
use orrery_device::DeviceError;
use thiserror::Error;

/// A component of the state that is not finite.
#[derive(Clone, Debug, Error, PartialEq)]
#[error(
    "body {id} has {field} = {value}, expected a finite number; bodies may have met without softening, the step may be too long, or one body too far from the others"
)]
pub struct NotFinite {
    /// Id of the body.
    pub id: u64,
    /// Name of the component, for example "position x".
    pub field: &'static str,
    /// NaN or an infinity.
    pub value: f64,
}

/// End of a step, as given to [`Bodies::check_step`](super::Bodies::check_step).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckStamp {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
}

/// Reason why bodies cannot be moved or read.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum BodiesError {
    /// A component of the state is not finite.
    #[error("{source}")]
    NotFinite {
        /// First step after which it was not finite, if steps were checked.
        at: Option<CheckStamp>,
        /// The body and the component.
        source: NotFinite,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Another rank failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// This rank cannot compute with the bits of rank 0.
    #[error(
        "this rank computes with {found} and rank 0 with {expected}, whose last bits differ; use devices and CPUs of \
         one kind"
    )]
    Hardware {
        /// Its device or instruction set.
        found: String,
        /// Device or instruction set of rank 0.
        expected: String,
    },
}

impl From<LinkError> for BodiesError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Device(error) => Self::Device(error),
            LinkError::Cluster(error) => Self::Cluster(error),
        }
    }
}
