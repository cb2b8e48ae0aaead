//! What can happen to bodies on their way.

use orrery_device::DeviceError;
use thiserror::Error;

/// A number that is no number any more.
#[derive(Clone, Debug, Error, PartialEq)]
#[error(
    "body {id} has {field} = {value}, expected a finite number; bodies may have met without softening, the step may be too long, or one body too far from the others"
)]
pub struct NotFinite {
    /// The body.
    pub id: u64,
    /// Which of its numbers.
    pub field: &'static str,
    /// What was found.
    pub value: f64,
}

/// The end of a step, as [`Bodies::check_step`](super::Bodies::check_step) is told it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamp {
    /// Steps completed.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
}

/// Why bodies cannot go on, or cannot be looked at.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum BodiesError {
    /// Numbers went wrong.
    #[error("{source}")]
    NotFinite {
        /// The first step after which they were wrong, where steps were checked.
        at: Option<Stamp>,
        /// Which body and number.
        source: NotFinite,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
