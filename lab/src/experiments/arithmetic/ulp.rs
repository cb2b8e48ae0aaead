//! Errors in units of the last place.

/// Returns the distance of neighbouring f32 at `exact`, at least that of denormal numbers.
pub fn ulp_of_f32(exact: f64) -> f64 {
    let size = exact.abs().max(f64::from(f32::MIN_POSITIVE));
    2.0f64.powi(exponent(size) - 23)
}

/// Returns the distance of neighbouring f64 at `value`, at least that of the smallest normal
/// numbers.
pub fn ulp_of_f64(value: f64) -> f64 {
    2.0f64.powi(exponent(value.abs().max(1e-290)) - 52)
}

/// Returns the error of an f32 in ulp. Infinite if one of both is not finite and they differ.
pub fn error_of_f32(found: f32, exact: f64) -> f64 {
    match (found.is_finite(), exact.is_finite()) {
        (true, true) => (f64::from(found) - exact).abs() / ulp_of_f32(exact),
        _ if f64::from(found) == exact => 0.0,
        _ => f64::INFINITY,
    }
}

/// Returns the larger one of two errors. NaN is the largest.
pub fn larger_error(one: f64, other: f64) -> f64 {
    if one.is_nan() || one > other { one } else { other }
}

/// Returns the exponent of the largest power of two that is at most `value`, which is normal.
fn exponent(value: f64) -> i32 {
    ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_multiples_of_the_distance_between_neighbours() {
        assert_eq!(ulp_of_f32(1.0), f64::from(f32::EPSILON));
        assert_eq!(ulp_of_f32(1.999), f64::from(f32::EPSILON));
        assert_eq!(ulp_of_f32(-0.999), f64::from(f32::EPSILON) / 2.0);
        assert_eq!(ulp_of_f32(1e-44), 2.0f64.powi(-149));
        assert_eq!(ulp_of_f64(3.0), 2.0 * f64::EPSILON);
        assert_eq!(error_of_f32(1.0 + f32::EPSILON, 1.0), 1.0);
        assert_eq!(error_of_f32(1.0, 1.0 + f64::from(f32::EPSILON) / 4.0), 0.25);
        assert_eq!(error_of_f32(f32::INFINITY, f64::INFINITY), 0.0);
        assert_eq!(error_of_f32(f32::NAN, 1.0), f64::INFINITY);
        assert_eq!(error_of_f32(f32::INFINITY, 1.0), f64::INFINITY);
        assert_eq!(larger_error(1.0, 2.0), 2.0);
        assert_eq!(larger_error(f64::INFINITY, 2.0), f64::INFINITY);
        assert!(larger_error(f64::NAN, 2.0).is_nan() && larger_error(2.0, f64::NAN).is_nan());
    }
}
