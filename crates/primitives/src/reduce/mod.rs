//! Reduction of n numbers to one:  x₀ ∘ x₁ ∘ … ∘ x₍ₙ₋₁₎  with ∘ one of +, min, max.
//!
//! [`reduce_reference`] is the definition: it combines the numbers from left to right.
//! [`reduce_on_cpu`] and [`Reduce`] use another order. It depends only on n and, on a device, on
//! the number of SMs, so the same numbers give the same bits in every run.
//!
//! Rounding: floats are added in their own precision. A sum of n numbers has an error of at most n
//! ε Σ|x|, where ε is half a unit in the last place. With many partial sums the error is much
//! smaller.
//!
//! NaN: a sum with a NaN is NaN. Min and max ignore NaN. If all numbers are NaN, they return the
//! same as for an empty slice: ∞ and −∞. It is not specified whether they return 0 or −0 if both
//! occur.
//!
//! Cost: a device reads each number once and does one operation with it, so memory bandwidth is the
//! limit. The kernel `reduce.cu` is fast if it keeps enough loads in flight. `orrery ladder reduce`
//! measures the steps that lead to it.

mod device;
pub mod selftest;

pub use device::{Reduce, ReduceStrategy};

use rayon::prelude::*;

use crate::PrimitiveNumber;

/// Operation that combines two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOperation {
    /// Sum. Integers wrap on overflow.
    Sum,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

impl ReduceOperation {
    /// All operations.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Min, Self::Max];

    /// Returns the identity element, which is also the result for an empty slice: 0 for a sum, ∞
    /// for a minimum.
    pub fn identity<T: PrimitiveNumber>(self) -> T {
        match self {
            Self::Sum => T::ZERO,
            Self::Min => T::HIGHEST,
            Self::Max => T::LOWEST,
        }
    }

    /// Combines a partial result with the next number. For min and max, `partial` must not be NaN.
    fn combine<T: PrimitiveNumber>(self, partial: T, next: T) -> T {
        match self {
            Self::Sum => partial.plus(next),
            Self::Min => [partial, next][usize::from(next < partial)],
            Self::Max => [partial, next][usize::from(next > partial)],
        }
    }
}

/// Reference implementation: combines the numbers from left to right.
pub fn reduce_reference<T: PrimitiveNumber>(operation: ReduceOperation, numbers: &[T]) -> T {
    numbers.iter().fold(operation.identity(), |partial, &next| operation.combine(partial, next))
}

/// Numbers per task of the thread pool. The value is fixed, because it determines the order of a
/// sum.
const CHUNK_LEN: usize = 1 << 15;
/// Partial results per chunk: two SIMD registers of 16 f32.
const PARTIAL_RESULTS: usize = 32;

/// Reduces on all CPU cores. The result has the same bits for any number of threads.
pub fn reduce_on_cpu<T: PrimitiveNumber>(operation: ReduceOperation, numbers: &[T]) -> T {
    let chunk_results: Vec<T> = match operation {
        ReduceOperation::Sum => reduce_chunks(numbers, T::ZERO, T::plus),
        ReduceOperation::Min => reduce_chunks(numbers, T::HIGHEST, |a, b| if b < a { b } else { a }),
        ReduceOperation::Max => reduce_chunks(numbers, T::LOWEST, |a, b| if b > a { b } else { a }),
    };
    reduce_reference(operation, &chunk_results)
}

/// Returns the result of each chunk of [`CHUNK_LEN`] numbers. `combine` is a closure, not an
/// [`ReduceOperation`], so that the inner loop is compiled for each operation and vectorised.
fn reduce_chunks<T: PrimitiveNumber>(
    numbers: &[T],
    identity: T,
    combine: impl Fn(T, T) -> T + Copy + Sync,
) -> Vec<T> {
    let reduce_chunk = |chunk: &[T]| {
        let mut partial = [identity; PARTIAL_RESULTS];
        let rows = chunk.chunks_exact(PARTIAL_RESULTS);
        let rest = rows.remainder();
        for row in rows {
            for (partial, &next) in partial.iter_mut().zip(row) {
                *partial = combine(*partial, next);
            }
        }
        partial.iter().chain(rest).fold(identity, |result, &next| combine(result, next))
    };
    numbers.par_chunks(CHUNK_LEN).map(reduce_chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_numbers_give_the_identity_and_one_number_gives_itself() {
        assert_eq!(reduce_reference::<f32>(ReduceOperation::Sum, &[]), 0.0);
        assert_eq!(reduce_reference::<f64>(ReduceOperation::Min, &[]), f64::INFINITY);
        assert_eq!(reduce_reference::<i32>(ReduceOperation::Max, &[]), i32::MIN);
        assert_eq!(reduce_on_cpu::<u32>(ReduceOperation::Min, &[]), u32::MAX);
        for operation in ReduceOperation::ALL {
            assert_eq!(reduce_reference(operation, &[-7]), -7);
            assert_eq!(reduce_on_cpu(operation, &[-7]), -7);
        }
    }

    #[test]
    fn integer_sums_wrap() {
        assert_eq!(reduce_reference(ReduceOperation::Sum, &[u32::MAX, 3]), 2);
        assert_eq!(reduce_on_cpu(ReduceOperation::Sum, &[i32::MAX, 1]), i32::MIN);
        assert_eq!(reduce_on_cpu(ReduceOperation::Sum, &[u64::MAX; 3]), u64::MAX - 2);
    }

    #[test]
    fn nan_propagates_through_sums_but_not_min_or_max() {
        let numbers = [3.0, f64::NAN, -1.0, f64::NAN];
        for reduce in [reduce_reference::<f64>, reduce_on_cpu::<f64>] {
            assert!(reduce(ReduceOperation::Sum, &numbers).is_nan());
            assert_eq!(reduce(ReduceOperation::Min, &numbers), -1.0);
            assert_eq!(reduce(ReduceOperation::Max, &numbers), 3.0);
            assert_eq!(reduce(ReduceOperation::Max, &[f64::NAN]), f64::NEG_INFINITY);
        }
    }

    #[test]
    fn sum_has_the_same_bits_for_any_number_of_threads() {
        let numbers: Vec<f32> = (0..5 * CHUNK_LEN + 77).map(|i| (i as f32).sin()).collect();
        let sum_with_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| reduce_on_cpu(ReduceOperation::Sum, &numbers)).to_bits()
        };
        assert_eq!(sum_with_threads(1), sum_with_threads(2));
        assert_eq!(sum_with_threads(1), sum_with_threads(7));
    }
}
