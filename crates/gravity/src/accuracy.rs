//! Errors of computed forces against reference forces.

use orrery_model::analysis::max_or_nan;
use orrery_model::{Precision, Vec3s};
use rayon::prelude::*;

use crate::solver::ForceProblem;

/// Distribution of the relative error |a − a'| / |a| over a sample of bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForceErrors {
    /// Median.
    pub median: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.99th percentile.
    pub p9999: f64,
    /// Maximum.
    pub max: f64,
    /// Root mean square.
    pub rms: f64,
}

impl ForceErrors {
    /// Compares accelerations with a reference.
    ///
    /// `computed` has one entry per body, `sample` contains indices of bodies, and `reference` has
    /// one entry per sampled body. For example, `reference.get(0)` belongs to the body `sample[0]`.
    /// A body whose reference acceleration is zero has no relative error and is skipped. A
    /// non-finite error counts as infinite.
    pub fn measure(computed: &Vec3s, sample: &[usize], reference: &Vec3s) -> Self {
        let mut errors: Vec<f64> = sample
            .iter()
            .zip(reference.iter())
            // A NaN in the reference is an error as well.
            .filter(|(_, expected)| norm(*expected) != 0.0)
            .map(|(&i, expected)| {
                norm(std::array::from_fn(|c| computed.get(i)[c] - expected[c])) / norm(expected)
            })
            // NaN must not sort below finite errors.
            .map(|error| if error.is_finite() { error } else { f64::INFINITY })
            .collect();
        errors.sort_by(f64::total_cmp);
        let Some(&max) = errors.last() else { return Self::default() };
        let percentile = |p: f64| errors[((errors.len() - 1) as f64 * p).round() as usize];
        let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
        Self { median: percentile(0.5), p99: percentile(0.99), p9999: percentile(0.9999), max, rms }
    }
}

fn norm(v: [f64; 3]) -> f64 {
    (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt()
}

/// Returns the largest |x − x'| / |x'|, or |x| where x' is 0. The result is NaN if any number is
/// NaN, and 0 for empty slices. Both slices have one entry per body.
pub(crate) fn largest_relative_error(computed: &[f64], reference: &[f64]) -> f64 {
    assert_eq!(computed.len(), reference.len());
    let error = |(x, expected): (&f64, &f64)| {
        if *expected == 0.0 { x.abs() } else { ((x - expected) / expected).abs() }
    };
    computed.iter().zip(reference).map(error).fold(0.0, max_or_nan)
}

/// Upper bounds of the error |a − a'| of every body, for checks of solvers.
///
/// They are proportional to the sum of all pair forces without their signs, S_i = Σ_j |a_ij|. A
/// relative error has no upper bound, because the forces on a body may cancel.
#[derive(Clone, Debug)]
pub struct ErrorBounds {
    /// Bound of each body, in the order of the bodies.
    pub of_body: Vec<f64>,
}

impl ErrorBounds {
    /// Returns the bounds of a tree walk, whose cells have errors of at most `truncation` times the
    /// forces of their bodies. For a direct sum, and for a walk that opens every cell, `truncation`
    /// is 0 and only rounding remains. With u the unit roundoff, ρ² = r² + eps², and L the extent
    /// of the system:
    ///
    /// - n additions and 16 operations per pair round to (n + 16) u S_i.
    /// - Coordinates relative to a centre have errors of up to u L / 2, so a distance has an error
    ///   of up to d = √3 u L. A pair force changes by at most 2 G m d / ρ³, and 3 includes the next
    ///   order. In mixed precision most blocks are much smaller than L, but none is larger.
    pub fn new(problem: &ForceProblem, precision: Precision, truncation: f64) -> Self {
        let n = problem.mass.len();
        let unit_roundoff = match precision {
            Precision::Single | Precision::Mixed => 2f64.powi(-24),
            Precision::Double => 2f64.powi(-53),
        };
        let extent = |column: &[f64]| {
            let (low, high) =
                (column.iter().copied().reduce(f64::min), column.iter().copied().reduce(max_or_nan));
            high.unwrap_or(0.0) - low.unwrap_or(0.0)
        };
        let Vec3s { x, y, z } = problem.position;
        let largest_extent = [x, y, z].map(|column| extent(column)).into_iter().fold(0.0, max_or_nan);
        let distance_error = 3f64.sqrt() * unit_roundoff * largest_extent;
        let bound_of_body = |i: usize| {
            let (mut force_sum, mut gradient_sum) = (0.0, 0.0);
            for j in (0..n).filter(|&j| j != i) {
                let (xi, xj) = (problem.position.get(i), problem.position.get(j));
                let r = norm(std::array::from_fn(|c| xj[c] - xi[c]));
                let rho = (r * r + problem.eps * problem.eps).sqrt();
                if rho > 0.0 {
                    let gradient = problem.g * problem.mass[j] / rho / rho / rho;
                    force_sum += gradient * r;
                    gradient_sum += gradient;
                }
            }
            let rounding = (n + 16) as f64 * unit_roundoff;
            (rounding + truncation) * force_sum + 3.0 * distance_error * gradient_sum
        };
        Self { of_body: (0..n).into_par_iter().map(bound_of_body).collect() }
    }

    /// Returns the largest |a − a'| in units of the bound. It is at most 1 for correct forces, and
    /// NaN if any component is NaN.
    pub fn largest_error(&self, computed: &Vec3s, reference: &Vec3s) -> f64 {
        assert_eq!((computed.len(), reference.len()), (self.of_body.len(), self.of_body.len()));
        let forces = computed.iter().zip(reference.iter()).zip(&self.of_body);
        forces
            .map(|((found, expected), bound)| {
                let error = norm(std::array::from_fn(|c| found[c] - expected[c]));
                if error == 0.0 { 0.0 } else { error / bound }
            })
            .fold(0.0, max_or_nan)
    }
}

/// Returns copies of `vectors` with one NaN each, in the first, a middle and the last body and in
/// every column. Checks must refuse all of them.
#[cfg(test)]
pub(crate) fn with_one_nan(vectors: &Vec3s) -> Vec<Vec3s> {
    let mut copies = Vec::new();
    for i in [0, vectors.len() / 2, vectors.len() - 1] {
        for c in 0..3 {
            // The sign matters to `total_cmp`. 0 / 0 on x86-64 is a NaN with a negative sign.
            for nan in [f64::NAN, -f64::NAN] {
                let (mut copy, mut vector) = (vectors.clone(), vectors.get(i));
                vector[c] = nan;
                copy.set(i, vector);
                copies.push(copy);
            }
        }
    }
    copies
}

/// As [`with_one_nan`], for one column of numbers.
#[cfg(test)]
pub(crate) fn column_with_one_nan(column: &[f64]) -> Vec<Vec<f64>> {
    let vectors = Vec3s { x: column.to_vec(), ..Vec3s::zeros(column.len()) };
    with_one_nan(&vectors).into_iter().map(|copy| copy.x).filter(|x| x.iter().any(|x| x.is_nan())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_uniform_errors_are_exact() {
        let n = 10_001;
        let reference = Vec3s { x: vec![1.0; n], ..Vec3s::zeros(n) };
        let mut computed = reference.clone();
        (0..n).for_each(|i| computed.y[i] = i as f64 / 10_000.0);
        let errors = ForceErrors::measure(&computed, &(0..n).collect::<Vec<_>>(), &reference);
        assert_eq!((errors.median, errors.p99, errors.p9999, errors.max), (0.5, 0.99, 0.9999, 1.0));
        assert!((errors.rms - (1.0f64 / 3.0).sqrt()).abs() < 1e-4);
    }

    #[test]
    fn bodies_without_a_force_are_skipped() {
        let computed = Vec3s { x: vec![1.0; 2], ..Vec3s::zeros(2) };
        let errors = ForceErrors::measure(&computed, &[0, 1], &Vec3s::zeros(2));
        assert_eq!(errors, ForceErrors::default());
    }

    #[test]
    fn a_nan_counts_as_an_infinite_error() {
        let reference = Vec3s { x: vec![1.0; 3], ..Vec3s::zeros(3) };
        let computed = Vec3s { x: vec![1.0, f64::NAN, 1.0], ..Vec3s::zeros(3) };
        let errors = ForceErrors::measure(&computed, &[0, 1, 2], &reference);
        assert_eq!((errors.median, errors.max), (0.0, f64::INFINITY));
        for with_nan in with_one_nan(&reference) {
            for (computed, reference) in [(&with_nan, &reference), (&reference, &with_nan)] {
                let errors = ForceErrors::measure(computed, &[0, 1, 2], reference);
                assert_eq!((errors.max, errors.rms), (f64::INFINITY, f64::INFINITY));
            }
        }
    }

    #[test]
    fn a_nan_propagates_through_relative_errors() {
        let potential = [-1.0, 0.0, -2.0];
        assert_eq!(largest_relative_error(&[-1.5, 0.25, -2.0], &potential), 0.5);
        for with_nan in column_with_one_nan(&potential) {
            assert!(largest_relative_error(&with_nan, &potential).is_nan());
            assert!(largest_relative_error(&potential, &with_nan).is_nan());
        }
    }

    /// Two bodies of mass 1 at distance 2: the pair force is 1/4.
    #[test]
    fn error_bounds_are_those_of_the_pair() {
        let position = Vec3s { x: vec![-1.0, 1.0], ..Vec3s::zeros(2) };
        let problem =
            ForceProblem { position: &position, mass: &[1.0, 1.0], g: 1.0, eps: 0.0, with_potential: false };
        let u = 2f64.powi(-53);
        let exact = Vec3s { x: vec![0.25, -0.25], ..Vec3s::zeros(2) };
        let mut wrong = exact.clone();
        wrong.y[1] = 0.01;
        for (truncation, bound) in [(0.0, 18.0 * u * 0.25 + 3.0 * 3f64.sqrt() * 2.0 * u / 8.0), (0.1, 0.025)]
        {
            let bounds = ErrorBounds::new(&problem, Precision::Double, truncation);
            assert_eq!(bounds.largest_error(&exact, &exact), 0.0);
            let found = bounds.largest_error(&wrong, &exact);
            assert!((found * bound / 0.01 - 1.0).abs() < 1e-9, "{found}");
            for with_nan in with_one_nan(&exact) {
                assert!(bounds.largest_error(&with_nan, &exact).is_nan());
            }
        }
    }
}
