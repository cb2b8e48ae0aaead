//! How far forces are from what they should be.

use orrery_model::Vec3s;

/// The distribution of the relative error |a − a'| / |a| over a sample of bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForceErrors {
    /// Half of the bodies have less.
    pub median: f64,
    /// 99% have less.
    pub p99: f64,
    /// 99.99% have less.
    pub p9999: f64,
    /// The largest.
    pub max: f64,
    /// Root of the mean square.
    pub rms: f64,
}

impl ForceErrors {
    /// Of the accelerations `found`, at the indices `sample`, against `right`, one entry a sampled body.
    ///
    /// A body that should feel no force at all is left out: it has no relative error.
    pub fn measure(found: &Vec3s, sample: &[usize], right: &Vec3s) -> Self {
        let norm = |v: [f64; 3]| (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
        let mut errors: Vec<f64> = sample
            .iter()
            .zip(right.iter())
            .filter(|(_, right)| norm(*right) > 0.0)
            .map(|(&i, right)| norm(std::array::from_fn(|c| found.get(i)[c] - right[c])) / norm(right))
            // A force that is no number is as wrong as can be, and must not sort below the right ones.
            .map(|error| if error.is_finite() { error } else { f64::INFINITY })
            .collect();
        errors.sort_by(f64::total_cmp);
        let Some(&max) = errors.last() else { return Self::default() };
        let share = |p: f64| errors[((errors.len() - 1) as f64 * p).round() as usize];
        let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
        Self { median: share(0.5), p99: share(0.99), p9999: share(0.9999), max, rms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_of_known_errors() {
        let n = 10_001;
        let ones = Vec3s { x: vec![1.0; n], ..Vec3s::zeros(n) };
        let mut found = ones.clone();
        (0..n).for_each(|i| found.y[i] = i as f64 / 10_000.0);
        let errors = ForceErrors::measure(&found, &(0..n).collect::<Vec<_>>(), &ones);
        assert_eq!((errors.median, errors.p99, errors.p9999, errors.max), (0.5, 0.99, 0.9999, 1.0));
        assert!((errors.rms - (1.0f64 / 3.0).sqrt()).abs() < 1e-4);
        let nothing = ForceErrors::measure(&found, &[0, 1], &Vec3s::zeros(2));
        assert_eq!(nothing, ForceErrors::default());
    }
}
