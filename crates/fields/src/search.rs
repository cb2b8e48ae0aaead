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
