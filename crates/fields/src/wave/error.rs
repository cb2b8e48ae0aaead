//! Errors of wave problems.

use orrery_cluster::{ClusterError, LinkError};
use orrery_device::DeviceError;
use orrery_model::wave::{VelocityError, WaveGrid, WaveGridError, WaveletError};
use orrery_model::{Precision, format_count};
use thiserror::Error;

use super::problem::VELOCITIES;
use crate::TeamError;

/// Reason why a wave problem cannot be set up or advanced.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum WaveError {
    /// The grid or its sides cannot be used.
    #[error(transparent)]
    Grid(#[from] WaveGridError),
    /// The velocity model cannot be used.
    #[error(transparent)]
    VelocityModel(#[from] VelocityError),
    /// No node is outside of walls.
    #[error(
        "all nodes are in walls, expected regions with velocity = \"wall\" that leave a part of the grid"
    )]
    OnlyWalls,
    /// The order in space does not exist.
    #[error("the order in space is {0}, expected 2, 4, 6 or 8")]
    Order(u32),
    /// The precision is not available for waves.
    #[error("waves have no {} precision, expected single or double", .0.as_str())]
    Precision(Precision),
    /// A field has another number of values than expected.
    #[error("the {field} has {}, expected {expected}", format_count(*found as u64, "value", "values"))]
    Length {
        /// Name of the field, for example "velocity".
        field: String,
        /// Values found.
        found: usize,
        /// Values expected.
        expected: usize,
    },
    /// A uniform velocity is not positive or has an unusable size.
    #[error("the velocity is {value:?}, expected a number from {:e} to {:e}", VELOCITIES.start(), VELOCITIES.end())]
    Velocity {
        /// Value found.
        value: f64,
    },
    /// The velocity of a node is not positive or has an unusable size.
    #[error(
        "the velocity is {value:?} at node ({}, {}, {}), expected a number from {:e} to {:e}",
        node[0], node[1], node[2], VELOCITIES.start(), VELOCITIES.end()
    )]
    NodeVelocity {
        /// Value found.
        value: f64,
        /// i, j and k of the node.
        node: [usize; 3],
    },
    /// A source or a receiver is outside the grid.
    #[error("{kind} {} is at {axis} = {value:?}, expected a position from 0 to {extent:?}", index + 1)]
    Outside {
        /// "source" or "receiver".
        kind: &'static str,
        /// Index of the source or receiver. Messages count from 1.
        index: usize,
        /// "x", "y" or "z".
        axis: &'static str,
        /// Coordinate found.
        value: f64,
        /// Coordinate of the last node.
        extent: f64,
    },
    /// A wavelet cannot be used.
    #[error("the wavelet of source {} cannot be used: {error}", index + 1)]
    Wavelet {
        /// Index of the source. Messages count from 1.
        index: usize,
        /// Reason.
        error: WaveletError,
    },
    /// There are no receivers, and the caller needs seismograms.
    #[error("the problem has 0 receivers, expected at least 1 for seismograms")]
    NoReceivers,
    /// The step is longer than the stability limit, or not positive.
    #[error("the step is {dt:?}, expected a positive step of at most {max:?}, the largest stable one")]
    UnstableStep {
        /// Step found.
        dt: f64,
        /// Largest stable step.
        max: f64,
    },
    /// The step is so short that the coefficients of the slowest node are not normal numbers.
    #[error("the step is {dt:?}, expected at least {min:?} for the smallest velocity")]
    ShortStep {
        /// Step found.
        dt: f64,
        /// Smallest usable step.
        min: f64,
    },
    /// The field cannot advance by this step.
    #[error("the field cannot advance by {}, expected steps of {expected:?}, or one shorter step at the end", describe_steps(*dt, *steps))]
    OtherStep {
        /// Step found.
        dt: f64,
        /// Number of steps.
        steps: u64,
        /// Step of the field.
        expected: f64,
    },
    /// The last step was shortened, so the field has no previous level of the right time.
    #[error("the field ended with a shortened step, expected no further step")]
    Ended,
    /// A stored state has another precision than the problem.
    #[error("the column {column} has {} precision, expected {}", found.as_str(), expected.as_str())]
    StoredPrecision {
        /// Name of the column.
        column: String,
        /// Precision of the state.
        found: Precision,
        /// Precision of the problem.
        expected: Precision,
    },
    /// A column of a stored state is missing.
    #[error("the stored state has no column {0}")]
    MissingColumn(String),
    /// A value of the state is NaN or infinite.
    #[error(
        "u is {value:?} at node ({}, {}, {}), x = {:?}, y = {:?}, z = {:?}, expected a finite number",
        node[0], node[1], node[2], position[0], position[1], position[2]
    )]
    NotFinite {
        /// Value found.
        value: f64,
        /// i, j and k of the node.
        node: [usize; 3],
        /// Coordinates of the node.
        position: [f64; 3],
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The ranks cannot compute the field together.
    #[error(transparent)]
    Team(#[from] TeamError),
}

impl From<ClusterError> for WaveError {
    fn from(error: ClusterError) -> Self {
        Self::Team(error.into())
    }
}

impl From<LinkError> for WaveError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Device(error) => Self::Device(error),
            LinkError::Cluster(error) => error.into(),
        }
    }
}

fn describe_steps(dt: f64, steps: u64) -> String {
    format!("{} of {dt:?}", format_count(steps, "step", "steps"))
}

impl WaveError {
    /// Returns the error for the value of the node `index`.
    pub(super) fn not_finite(grid: &WaveGrid, index: usize, value: f64) -> Self {
        let node = grid.node(index);
        Self::NotFinite { value, node, position: grid.coordinates(node) }
    }
}
