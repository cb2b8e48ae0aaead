//! Range, mean and integral of a field, and the difference of two fields.
//!
//! Values are in the order of [`crate::grid`]: x varies fastest.

use super::max_or_nan;
use super::sum::compensated_sum;

/// Measurements of the finite values of a field. They are NaN if no value is finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldStatistics {
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Mean over the nodes. Every node has the same weight.
    pub mean: f64,
    /// Standard deviation over the nodes, √(Σ (u − mean)² / n).
    pub deviation: f64,
    /// Number of values that are NaN or infinite.
    pub non_finite: usize,
}

impl FieldStatistics {
    /// Measures the finite values.
    ///
    /// ```
    /// use orrery_model::analysis::FieldStatistics;
    ///
    /// let found = FieldStatistics::measure(&[1.0, 3.0, f64::NAN]);
    /// assert_eq!((found.min, found.max, found.mean, found.deviation), (1.0, 3.0, 2.0, 1.0));
    /// assert_eq!(found.non_finite, 1);
    /// ```
    pub fn measure(values: &[f64]) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let count = finite().count();
        let n = count as f64;
        let mean = compensated_sum(finite()) / n;
        let squares = compensated_sum(finite().map(|value| (value - mean) * (value - mean)));
        Self {
            min: finite().reduce(f64::min).unwrap_or(f64::NAN),
            max: finite().reduce(f64::max).unwrap_or(f64::NAN),
            mean,
            deviation: (squares / n).sqrt(),
            non_finite: values.len() - count,
        }
    }

    /// Returns the root mean square over the nodes, √(mean² + deviation²).
    pub fn rms(&self) -> f64 {
        self.mean.hypot(self.deviation)
    }

    /// Returns the value with the largest size.
    pub fn largest(&self) -> f64 {
        if self.max.abs() >= self.min.abs() { self.max } else { self.min }
    }
}

/// Returns the integral of a field with rows of `nx` nodes over its rectangle, by the trapezoidal
/// rule: nodes on an edge count half, and corners a quarter. Nodes on a periodic edge count in
/// full. `is_periodic` is that of x and y.
///
/// For a temperature it is the heat content, as in the table of a run.
pub fn field_integral(values: &[f64], nx: usize, spacing: [f64; 2], is_periodic: [bool; 2]) -> f64 {
    let sum_along = |terms: &mut dyn Iterator<Item = f64>, ends: f64, is_periodic: bool| {
        compensated_sum(terms) - if is_periodic { 0.0 } else { 0.5 * ends }
    };
    let row_sum = |row: &[f64]| sum_along(&mut row.iter().copied(), row[0] + row[nx - 1], is_periodic[0]);
    let ends = row_sum(&values[..nx]) + row_sum(&values[values.len() - nx..]);
    sum_along(&mut values.chunks_exact(nx).map(row_sum), ends, is_periodic[1]) * spacing[0] * spacing[1]
}

/// Difference of two fields with the same nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldDifference {
    /// Number of nodes whose bits differ.
    pub count: usize,
    /// Largest absolute difference, NaN if a value is NaN.
    pub largest: f64,
    /// Index of the node with the largest difference.
    pub index: usize,
    /// Root mean square of the differences of all nodes. Like `largest` if that is not finite.
    pub rms: f64,
    /// Difference of the largest and the smallest finite value of both fields.
    pub range: f64,
}

impl FieldDifference {
    /// Compares two fields of the same length. Returns `None` if all bits are equal.
    pub fn measure(a: &[f64], b: &[f64]) -> Option<Self> {
        assert_eq!(a.len(), b.len(), "fields with the same nodes");
        let differences =
            || a.iter().zip(b).map(|(a, b)| if a.to_bits() == b.to_bits() { 0.0 } else { (a - b).abs() });
        let count = a.iter().zip(b).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
        if count == 0 {
            return None;
        }
        let largest = differences().fold(0.0, max_or_nan);
        let is_largest = |difference: f64| difference == largest || (difference.is_nan() && largest.is_nan());
        let index = differences().position(is_largest).unwrap_or(0);
        let mean_square =
            || compensated_sum(differences().map(|d| (d / largest) * (d / largest))) / a.len() as f64;
        // Dividing by the largest difference avoids overflow and underflow of the squares.
        let rms = if largest.is_finite() && largest > 0.0 { largest * mean_square().sqrt() } else { largest };
        let [a, b] = [a, b].map(FieldStatistics::measure);
        Some(Self { count, largest, index, rms, range: a.max.max(b.max) - a.min.min(b.min) })
    }

    /// Returns the largest difference relative to the range of both fields.
    pub fn relative(&self) -> f64 {
        if self.largest == 0.0 { 0.0 } else { self.largest / self.range }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_finite_values() {
        let found = FieldStatistics::measure(&[2.0, f64::INFINITY, 4.0, 4.0, 6.0, f64::NAN]);
        assert_eq!((found.min, found.max, found.mean, found.non_finite), (2.0, 6.0, 4.0, 2));
        assert_eq!(found.deviation, 2f64.sqrt());
        // The squares are 4, 16, 16 and 36.
        assert!((found.rms() - 18f64.sqrt()).abs() < 4.0 * f64::EPSILON, "{}", found.rms());
        assert_eq!(found.largest(), 6.0);
        assert_eq!(FieldStatistics::measure(&[2.0, -3.0]).largest(), -3.0);
        let found = FieldStatistics::measure(&[f64::NAN]);
        assert!(found.min.is_nan() && found.mean.is_nan() && found.deviation.is_nan());
        assert_eq!(found.non_finite, 1);
    }

    /// The trapezoidal rule is exact for u = 1 + x + 2 y + x y.
    #[test]
    fn integral_of_a_bilinear_field_is_exact() {
        let (nx, ny, spacing) = (5, 3, [0.5, 0.25]);
        let value = |k: usize| {
            let (x, y) = ((k % nx) as f64 * spacing[0], (k / nx) as f64 * spacing[1]);
            1.0 + x + 2.0 * y + x * y
        };
        let values: Vec<f64> = (0..nx * ny).map(value).collect();
        // Width 2, height 0.5: 1 + 1 + 0.5 + 0.25.
        let expected = 1.0 + 1.0 + 2.0 * 0.5 * 0.5 * 2.0 / 2.0 + 0.25;
        assert_eq!(field_integral(&values, nx, spacing, [false; 2]), expected);
        let all: f64 = values.iter().sum();
        assert_eq!(field_integral(&values, nx, spacing, [true; 2]), 0.125 * all);
        // A line has no area.
        assert_eq!(field_integral(&[1.0, 2.0], 2, [1.0; 2], [false; 2]), 0.0);
        assert_eq!(field_integral(&[1.0, 2.0], 1, [1.0; 2], [false; 2]), 0.0);
    }

    #[test]
    fn differences_have_their_node_and_their_size() {
        let a = [0.0, 1.0, 2.0, 4.0];
        assert_eq!(FieldDifference::measure(&a, &a), None);
        let found = FieldDifference::measure(&a, &[0.0, 1.5, 2.0, 4.5]).unwrap();
        assert_eq!((found.count, found.largest, found.index), (2, 0.5, 1));
        assert_eq!((found.rms, found.range), (0.125f64.sqrt(), 4.5));
        assert_eq!(found.relative(), 0.5 / 4.5);
        // 0 and -0 have different bits and no difference.
        let found = FieldDifference::measure(&[0.0], &[-0.0]).unwrap();
        assert_eq!((found.count, found.largest, found.rms, found.relative()), (1, 0.0, 0.0, 0.0));
        let found = FieldDifference::measure(&[1.0, f64::NAN, 3.0], &[2.0, f64::NAN, 3.0]).unwrap();
        assert_eq!((found.count, found.largest), (1, 1.0));
        let found = FieldDifference::measure(&[1.0, f64::NAN], &[2.0, 0.0]).unwrap();
        assert!(found.largest.is_nan() && found.rms.is_nan() && found.relative().is_nan());
        assert_eq!(found.index, 1);
        let found = FieldDifference::measure(&[1e200, 0.0], &[-1e200, 0.0]).unwrap();
        assert_eq!((found.largest, found.rms), (2e200, 2e200 * 0.5f64.sqrt()));
    }
}
