//! Values of all nodes, as files store them.

use orrery_model::Precision;
use rayon::prelude::*;

use crate::search::first_rejected;

/// Values of all nodes in the precision of the state.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldColumn {
    /// f32.
    Single(Vec<f32>),
    /// f64.
    Double(Vec<f64>),
}

impl FieldColumn {
    /// Returns the precision.
    pub fn precision(&self) -> Precision {
        match self {
            Self::Single(_) => Precision::Single,
            Self::Double(_) => Precision::Double,
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Single(values) => values.len(),
            Self::Double(values) => values.len(),
        }
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values in f64.
    pub(crate) fn into_f64(self) -> Vec<f64> {
        match self {
            Self::Single(values) => values.into_par_iter().map(f64::from).collect(),
            Self::Double(values) => values,
        }
    }

    /// Returns the index of the first value that is NaN or infinite, and the value.
    pub(crate) fn first_not_finite(&self) -> Option<(usize, f64)> {
        match self {
            Self::Single(values) => {
                first_rejected(values, f32::is_finite).map(|index| (index, values[index].into()))
            }
            Self::Double(values) => {
                first_rejected(values, f64::is_finite).map(|index| (index, values[index]))
            }
        }
    }
}

/// A named column of a state, as checkpoints store it.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedColumn {
    /// Name, for example "u" or "psi_x_min".
    pub name: String,
    /// The values.
    pub values: FieldColumn,
}
