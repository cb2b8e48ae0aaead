//! Minimum, maximum and heat content of a field.
//!
//! Rows are measured one by one, on the host or on a device, and added from the first one to the
//! last one, so the result does not depend on the ranks that own them.

use super::Plate;
use crate::Scalar;
use crate::pixels::{larger, smaller};

/// Measures of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldMeasures {
    /// Smallest value. NaN if a value is NaN.
    pub min: f64,
    /// Largest value. NaN if a value is NaN.
    pub max: f64,
    /// Heat content: the sum of c u w_x w_y hx hy, where w is 1/2 on edges that are not periodic.
    pub heat_content: f64,
}

impl FieldMeasures {
    /// Measures of no nodes.
    pub(super) const NONE: Self = Self { min: f64::INFINITY, max: f64::NEG_INFINITY, heat_content: 0.0 };

    /// Adds the measures of rows, the first of which is row `first` of the plate. Their heat
    /// contents are sums of u w_x, divided by c_min/c of each node.
    pub(super) fn with_rows<R>(mut self, plate: &Plate<R>, first: usize, rows: &[Self]) -> Self {
        for (j, row) in (first..).zip(rows) {
            let is_edge = !plate.boundaries.is_periodic_in_y() && (j == 0 || j == plate.grid.ny - 1);
            self.min = smaller(self.min, row.min);
            self.max = larger(self.max, row.max);
            self.heat_content += if is_edge { 0.5 } else { 1.0 } * row.heat_content;
        }
        self
    }

    /// Multiplies the sum of all rows by the area of a cell and c_min.
    pub(super) fn scaled<R>(self, plate: &Plate<R>) -> Self {
        let factor = plate.grid.hx * plate.grid.hy * plate.heat_capacity;
        Self { heat_content: self.heat_content * factor, ..self }
    }

    /// Returns minimum, maximum and heat content.
    pub(super) fn to_array(self) -> [f64; 3] {
        [self.min, self.max, self.heat_content]
    }

    /// Returns the measures with the numbers of [`Self::to_array`].
    pub(super) fn from_array([min, max, heat_content]: [f64; 3]) -> Self {
        Self { min, max, heat_content }
    }
}

/// Partial results per row: two registers of eight f64.
const PARTIAL_RESULTS: usize = 16;

/// Returns minimum, maximum and the sum of `heat(i, u)` w_x of a row.
pub(super) fn measures_of_row<R: Scalar>(
    row: &[R],
    is_periodic: bool,
    heat: impl Fn(usize, R) -> f64,
) -> FieldMeasures {
    let (mut sums, mut min, mut max) =
        ([0.0; PARTIAL_RESULTS], [row[0]; PARTIAL_RESULTS], [row[0]; PARTIAL_RESULTS]);
    let chunks = row.chunks_exact(PARTIAL_RESULTS);
    let rest = chunks.remainder();
    for (number, chunk) in chunks.enumerate() {
        for k in 0..PARTIAL_RESULTS {
            sums[k] += heat(number * PARTIAL_RESULTS + k, chunk[k]);
            min[k] = if chunk[k] < min[k] { chunk[k] } else { min[k] };
            max[k] = if chunk[k] > max[k] { chunk[k] } else { max[k] };
        }
    }
    let rest_heat = (row.len() - rest.len()..).zip(rest).map(|(i, u)| heat(i, *u));
    let mut sum = sums.iter().sum::<f64>() + rest_heat.sum::<f64>();
    if sum.is_nan() {
        // Comparisons with NaN are false, so the loop above may have missed it.
        return FieldMeasures { min: f64::NAN, max: f64::NAN, heat_content: f64::NAN };
    }
    if !is_periodic {
        let last = row.len() - 1;
        sum -= 0.5 * (heat(0, row[0]) + heat(last, row[last]));
    }
    let smaller = |a: f64, b: &R| a.min(b.to_f64());
    let larger = |a: f64, b: &R| a.max(b.to_f64());
    FieldMeasures {
        min: min.iter().chain(rest).fold(f64::INFINITY, smaller),
        max: max.iter().chain(rest).fold(f64::NEG_INFINITY, larger),
        heat_content: sum,
    }
}
