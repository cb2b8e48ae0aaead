//! Search in the values of all nodes.

use rayon::prelude::*;

/// Returns the index of the first value that is not accepted.
///
/// Each chunk is tested as a whole, without an early exit, so that the test is vectorised.
pub(crate) fn first_rejected<T: Copy + Sync>(
    values: &[T],
    is_accepted: impl Fn(T) -> bool + Sync,
) -> Option<usize> {
    const CHUNK: usize = 1 << 14;
    let rejects = |chunk: &[T]| !chunk.iter().fold(true, |accepted, &value| accepted & is_accepted(value));
    let chunk = values.par_chunks(CHUNK).position_first(rejects)?;
    let start = chunk * CHUNK;
    values[start..].iter().position(|&value| !is_accepted(value)).map(|offset| start + offset)
}

#[cfg(test)]
mod tests {
    use super::first_rejected;

    #[test]
    fn the_first_of_several_values_is_found() {
        let mut values = vec![1.0f32; 100_000];
        assert_eq!(first_rejected(&values, f32::is_finite), None);
        for index in [99_999, 70_000, 16_384, 16_383, 0] {
            values[index] = f32::NAN;
            assert_eq!(first_rejected(&values, f32::is_finite), Some(index));
        }
        assert_eq!(first_rejected(&[], f32::is_finite), None);
    }
}
