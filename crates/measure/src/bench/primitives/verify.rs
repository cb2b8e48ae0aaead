//! Comparison of results with the reference implementation.

use std::fmt::Display;

use orrery_primitives::sort::Key;
use orrery_primitives::transpose::MatrixShape;
use rayon::prelude::*;

/// Describes the first element where `actual` differs from `expected`. Both have the same length.
pub(super) fn first_difference<T: PartialEq + Display>(actual: &[T], expected: &[T]) -> Option<String> {
    let index = actual.iter().zip(expected).position(|(actual, expected)| actual != expected)?;
    Some(format!("result {index} is {}, expected {}", actual[index], expected[index]))
}

/// Describes the first pair that is wrong for a stable sort of `keys` with their indices as values.
///
/// Every pair must be one of the input pairs and greater than the pair before it. No pair can then
/// appear twice, so none is missing.
pub(super) fn first_unsorted<K: Key + Display>(
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

/// Describes the first element of `to` that is not the element of `from`, a matrix of this shape,
/// with row and column exchanged. Tests all elements in parallel, because matrices have up to 2^28.
pub(super) fn first_not_transposed<T: PartialEq + Display + Sync>(
    shape: MatrixShape,
    from: &[T],
    to: &[T],
) -> Option<String> {
    let expected = |i: usize| &from[i % shape.rows * shape.columns + i / shape.rows];
    let index = (0..to.len()).into_par_iter().find_first(|&i| to[i] != *expected(i))?;
    Some(format!("result {index} is {}, expected {}", to[index], expected(index)))
}

/// Number of rows of a product that are checked.
const CHECKED_ROWS: usize = 16;

/// Describes the first wrong number among those in some rows of `c`, the product of two squares of
/// `side` x `side` whole numbers. All sums are exact.
pub(super) fn first_wrong_product(side: usize, a: &[f32], b: &[f32], c: &[f32]) -> Option<String> {
    let rows = (0..CHECKED_ROWS.min(side)).map(|row| row * side / CHECKED_ROWS.min(side));
    for row in rows {
        let mut expected = vec![0.0; side];
        for (factor, b) in a[row * side..][..side].iter().zip(b.chunks(side)) {
            expected.iter_mut().zip(b).for_each(|(sum, b)| *sum += factor * b);
        }
        let column = (0..side).find(|&column| c[row * side + column] != expected[column]);
        if let Some(column) = column {
            let (found, expected) = (c[row * side + column], expected[column]);
            return Some(format!("row {row}, column {column} is {found}, expected {expected}"));
        }
    }
    None
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
    fn wrong_transposes_are_detected() {
        let shape = MatrixShape { rows: 2, columns: 3 };
        let from = [1, 2, 3, 4, 5, 6];
        assert_eq!(first_not_transposed(shape, &from, &[1, 4, 2, 5, 3, 6]), None);
        let difference = first_not_transposed(shape, &from, &[1, 4, 2, 5, 6, 3]).unwrap();
        assert_eq!(difference, "result 4 is 6, expected 3");
    }

    #[test]
    fn wrong_products_are_detected() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        assert_eq!(first_wrong_product(2, &a, &b, &[19.0, 22.0, 43.0, 50.0]), None);
        let difference = first_wrong_product(2, &a, &b, &[19.0, 22.0, 43.0, f32::NAN]).unwrap();
        assert_eq!(difference, "row 1, column 1 is NaN, expected 50");
        assert_eq!(first_wrong_product(0, &[], &[], &[]), None);
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
