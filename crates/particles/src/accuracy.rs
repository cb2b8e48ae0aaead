//! Errors of computed forces against reference forces.

use orrery_model::Vec3s;

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
        let norm = |v: [f64; 3]| (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
        let mut errors: Vec<f64> = sample
            .iter()
            .zip(reference.iter())
            .filter(|(_, expected)| norm(*expected) > 0.0)
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
    }
}
