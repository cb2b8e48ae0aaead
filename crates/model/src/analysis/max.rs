//! Maximum that propagates NaN.

/// Returns the larger of two numbers, or NaN if one of them is NaN.
///
/// `f64::max` ignores NaN: a largest error computed with it is 0 if every error is NaN, and every
/// check of that error passes. Use this function for a maximum that decides a check:
///
/// ```
/// use orrery_model::analysis::max_or_nan;
///
/// let errors = [1e-3, f64::NAN, 2e-3];
/// assert_eq!(errors.into_iter().fold(0.0, f64::max), 2e-3);
/// assert!(errors.into_iter().fold(0.0, max_or_nan).is_nan());
/// ```
pub fn max_or_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_propagates_from_either_side() {
        for nan in [f64::NAN, -f64::NAN] {
            assert!(max_or_nan(nan, 1.0).is_nan() && max_or_nan(1.0, nan).is_nan());
            assert!(max_or_nan(nan, f64::INFINITY).is_nan() && max_or_nan(f64::INFINITY, nan).is_nan());
        }
        assert_eq!((max_or_nan(1.0, 2.0), max_or_nan(2.0, 1.0), max_or_nan(-1.0, -2.0)), (2.0, 2.0, -1.0));
    }
}
