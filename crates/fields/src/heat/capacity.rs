//! The heat capacity of a plate.

use std::ops::RangeInclusive;

use orrery_model::grid::Grid;
use rayon::prelude::*;

use super::HeatError;
use crate::search::first_rejected;

/// Heat capacity per area of the plate, the c of c ∂u/∂t = ∇·(k ∇u) + s. In a model of a body in
/// three dimensions that is uniform along z it is a heat capacity per volume: density × specific
/// heat, for example 3.45e6 J/(m³ K) for copper.
#[derive(Clone, Debug, PartialEq)]
pub enum HeatCapacity {
    /// The same everywhere.
    Uniform(f64),
    /// One value per node.
    Field(Vec<f64>),
}

/// Accepted heat capacities. The quotient of two of them is a normal number in f32.
pub const HEAT_CAPACITIES: RangeInclusive<f64> = 1e-15..=1e15;

impl HeatCapacity {
    /// Returns the value of a node.
    pub fn at(&self, node: usize) -> f64 {
        match self {
            Self::Uniform(c) => *c,
            Self::Field(values) => values[node],
        }
    }

    /// Fails if a value is not positive or has an unusable size.
    pub(super) fn check(&self, grid: &Grid) -> Result<(), HeatError> {
        match self {
            Self::Uniform(c) if HEAT_CAPACITIES.contains(c) => Ok(()),
            Self::Uniform(c) => Err(HeatError::HeatCapacity { value: *c }),
            Self::Field(values) => match first_rejected(values, |c| HEAT_CAPACITIES.contains(&c)) {
                Some(index) => {
                    let [i, j] = grid.node(index);
                    Err(HeatError::NodeHeatCapacity { value: values[index], i, j })
                }
                None => Ok(()),
            },
        }
    }

    /// Returns a uniform heat capacity in place of a field with equal values.
    pub(super) fn simplified(self) -> Self {
        match self {
            Self::Field(values) if values.par_iter().all(|c| *c == values[0]) => Self::Uniform(values[0]),
            other => other,
        }
    }
}
