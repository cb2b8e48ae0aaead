//! Errors of a system that is simulated.

use orrery_cluster::ClusterError;
use orrery_device::DeviceError;
use thiserror::Error;

use crate::error::EngineError;
use crate::input_files::InputDifference;

/// End of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamp {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
}

/// Reason why a system cannot be advanced or read.
#[derive(Clone, Debug, Error)]
pub enum SystemError {
    /// A value of the state is not finite.
    #[error("{found}")]
    NotFinite {
        /// First step after which it was not finite, if known.
        at: Option<Stamp>,
        /// The value and where it is, with possible causes.
        found: String,
    },
    /// Kernels were queued on a device and nothing happened.
    #[error("{device}: kernels have no effect")]
    Stalled {
        /// Title of the device.
        device: String,
    },
    /// The device failed.
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
    InputsDiffer(#[from] InputDifference),
}

impl From<ClusterError> for SystemError {
    fn from(error: ClusterError) -> Self {
        Self::Ranks { message: error.to_string() }
    }
}

impl SystemError {
    /// Converts to an error of the engine. A non-finite value gets the step and time at which it
    /// was found, or else those of `now`.
    pub fn at(self, now: Stamp) -> EngineError {
        match self {
            Self::NotFinite { at, found } => {
                let Stamp { step, time } = at.unwrap_or(now);
                EngineError::NotFinite { step, time, found }
            }
            Self::Stalled { device } => {
                EngineError::DeviceUnsupported { device, reason: "kernels have no effect".to_owned() }
            }
            Self::Device(error) => error.into(),
            Self::Ranks { message } => EngineError::Ranks { message },
            Self::InputsDiffer(difference) => EngineError::InputsDiffer(difference),
        }
    }
}
