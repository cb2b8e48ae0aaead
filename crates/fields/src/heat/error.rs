//! Errors of heat problems.

use orrery_cluster::{ClusterError, LinkError};
use orrery_device::DeviceError;
use orrery_model::grid::{Grid, GridError};
use orrery_model::{Precision, format_count};
use thiserror::Error;

use super::capacity::HEAT_CAPACITIES;
use super::problem::CONDUCTIVITIES;
use crate::TeamError;

/// Reason why a heat problem cannot be set up or advanced.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum HeatError {
    /// The grid or its boundaries cannot be used.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// A field has another number of values than the grid has nodes.
    #[error("the {field} has {}, expected {expected} for {nx} x {ny} nodes", format_count(*found as u64, "value", "values"))]
    Length {
        /// Name of the field, for example "initial state".
        field: &'static str,
        /// Values found.
        found: usize,
        /// Nodes of the grid.
        expected: usize,
        /// Nodes along x.
        nx: usize,
        /// Nodes along y.
        ny: usize,
    },
    /// A value of a field is not finite in the precision of the problem.
    #[error(
        "the {field} is {value:?} at node ({i}, {j}), x = {x:?}, y = {y:?}, expected a finite number in {} precision",
        precision.as_str()
    )]
    NotFinite {
        /// Name of the field, for example "source".
        field: &'static str,
        /// Value found.
        value: f64,
        /// Column of the node.
        i: usize,
        /// Row of the node.
        j: usize,
        /// Coordinate of the node.
        x: f64,
        /// Coordinate of the node.
        y: f64,
        /// Precision of the problem.
        precision: Precision,
    },
    /// A uniform conductivity is not positive or has an unusable size.
    #[error("the conductivity is {value:?}, expected a number from {:e} to {:e}", CONDUCTIVITIES.start(), CONDUCTIVITIES.end())]
    Conductivity {
        /// Value found.
        value: f64,
    },
    /// The conductivity of a node is not positive or has an unusable size.
    #[error(
        "the conductivity is {value:?} at node ({i}, {j}), expected a number from {:e} to {:e}",
        CONDUCTIVITIES.start(), CONDUCTIVITIES.end()
    )]
    NodeConductivity {
        /// Value found.
        value: f64,
        /// Column of the node.
        i: usize,
        /// Row of the node.
        j: usize,
    },
    /// A uniform heat capacity is not positive or has an unusable size.
    #[error("the heat capacity is {value:?}, expected a number from {:e} to {:e}", HEAT_CAPACITIES.start(), HEAT_CAPACITIES.end())]
    HeatCapacity {
        /// Value found.
        value: f64,
    },
    /// The heat capacity of a node is not positive or has an unusable size.
    #[error(
        "the heat capacity is {value:?} at node ({i}, {j}), expected a number from {:e} to {:e}",
        HEAT_CAPACITIES.start(), HEAT_CAPACITIES.end()
    )]
    NodeHeatCapacity {
        /// Value found.
        value: f64,
        /// Column of the node.
        i: usize,
        /// Row of the node.
        j: usize,
    },
    /// A stored state has another precision than the problem.
    #[error("the stored state has {} precision, expected {}", found.as_str(), expected.as_str())]
    StoredPrecision {
        /// Precision of the state.
        found: Precision,
        /// Precision of the problem.
        expected: Precision,
    },
    /// The precision is not available for fields.
    #[error("heat has no {} precision, expected single or double", .0.as_str())]
    Precision(Precision),
    /// The step is longer than the stability limit, or not positive.
    #[error("the step is {dt:?}, expected a positive step of at most {max:?}, the largest stable one")]
    UnstableStep {
        /// Step found.
        dt: f64,
        /// Largest stable step.
        max: f64,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The ranks cannot compute the field together.
    #[error(transparent)]
    Team(#[from] TeamError),
}

impl From<ClusterError> for HeatError {
    fn from(error: ClusterError) -> Self {
        Self::Team(error.into())
    }
}

impl From<LinkError> for HeatError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Device(error) => Self::Device(error),
            LinkError::Cluster(error) => error.into(),
        }
    }
}

impl HeatError {
    /// Returns the error for the value of a node.
    pub(super) fn not_finite(
        field: &'static str,
        grid: &Grid,
        index: usize,
        value: f64,
        precision: Precision,
    ) -> Self {
        let ([i, j], [x, y]) = (grid.node(index), grid.coordinates(index));
        Self::NotFinite { field, value, i, j, x, y, precision }
    }
}
