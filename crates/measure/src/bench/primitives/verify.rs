//! Comparison of results with the reference implementation.

use std::fmt::Display;

use orrery_primitives::sort::SortKey;

/// Describes the first element where `actual` differs from `expected`. Both have the same length.
pub fn first_difference<T: PartialEq + Display>(actual: &[T], expected: &[T]) -> Option<String> {
    let index = actual.iter().zip(expected).position(|(actual, expected)| actual != expected)?;
    Some(format!("result {index} is {}, expected {}", actual[index], expected[index]))
}

/// Describes the first pair that is wrong for a stable sort of `keys` with their indices as values.
///
/// Every pair must be one of the input pairs and greater than the pair before it. No pair can then
/// appear twice, so none is missing.
pub(super) fn first_unsorted<K: SortKey + Display>(
    keys: &[K],
    sorted_keys: &[K],
    values: &[u32],
) -> Option<String> {
    let pair = |i: usize| (sorted_keys[i], values[i]);
    let is_correct =
        |i: usize| keys.get(values[i] as usize) == Some(&sorted_keys[i]) && (i == 0 || pair(i - 1) < pair(i));
    let index = (0..keys.len()).find(|&i| !is_correct(i))?;
    let expected = "expected an input pair greater than the previous one";
    Some(format!("pair {index} is ({}, {}), {expected}", sorted_keys[index], values[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_difference_gives_index_and_values() {
        assert_eq!(first_difference(&[1, 2, 3], &[1, 2, 3]), None);
        assert_eq!(first_difference(&[1, 5, 3], &[1, 2, 3]).unwrap(), "result 1 is 5, expected 2");
    }

    #[test]
    fn wrong_sorts_are_detected() {
        let keys = [5u32, 3, 5];
        assert_eq!(first_unsorted(&keys, &[3, 5, 5], &[1, 0, 2]), None);
        let out_of_order = first_unsorted(&keys, &[5, 3, 5], &[0, 1, 2]).unwrap();
        assert!(out_of_order.starts_with("pair 1 is (3, 1), "), "{out_of_order}");
        // Not stable, a duplicate pair, the pair of another key, a value that is no index.
        for values in [[1, 2, 0], [1, 0, 0], [0, 1, 2], [1, 0, 9]] {
            assert!(first_unsorted(&keys, &[3, 5, 5], &values).is_some(), "{values:?}");
        }
    }
}
