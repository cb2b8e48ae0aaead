//! Many numbers made one:  x₀ ∘ x₁ ∘ … ∘ x₍ₙ₋₁₎  with ∘ one of +, min, max.
//!
//! [`reduce_reference`] is the definition, from left to right. [`reduce_on_cpu`] and [`Reduce`] take the numbers in another order, which is
//! fixed by their count (and the device), so that the same numbers give the same bits every time. Floats are added in
//! their own precision: a sum of n errs by n ε Σ|x| at most, with ε half a unit in the last place, and by far less
//! where many partial sums share the work.
//!
//! NaN: a sum with one is NaN; the smallest and the largest pass over it, and over nothing but NaN they are what they
//! are over nothing: ∞ and −∞. Which of 0 and −0 they give is not promised.
//!
//! A device reads every number once and does next to nothing with it: the roof is the memory's bandwidth, and the
//! kernel's only art is to keep enough loads under way (see `reduce.cu`; [`rungs`] tells the way there).

mod device;
pub mod rungs;
pub mod selftest;

pub use device::Reduce;

use rayon::prelude::*;

use crate::Number;

/// What is done with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Their sum; whole numbers wrap.
    Sum,
    /// The smaller.
    Min,
    /// The larger.
    Max,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Min, Self::Max];

    /// What it gives for no numbers at all.
    pub fn of_nothing<T: Number>(self) -> T {
        match self {
            Self::Sum => T::ZERO,
            Self::Min => T::HIGHEST,
            Self::Max => T::LOWEST,
        }
    }

    /// Of two, of which `so_far` is no NaN unless this is a sum.
    fn of<T: Number>(self, so_far: T, next: T) -> T {
        match self {
            Self::Sum => so_far.plus(next),
            Self::Min => [so_far, next][usize::from(next < so_far)],
            Self::Max => [so_far, next][usize::from(next > so_far)],
        }
    }
}

/// From left to right: what a reduction means.
pub fn reduce_reference<T: Number>(operation: Operation, numbers: &[T]) -> T {
    numbers.iter().fold(operation.of_nothing(), |so_far, &next| operation.of(so_far, next))
}

/// Numbers that one thread takes at a time. Fixed, as it decides the order of a sum.
const BLOCK_SIZE: usize = 1 << 15;
/// Partial results side by side in a block: what two of the widest registers hold.
const SIDE_BY_SIDE: usize = 32;

/// On all cores; the same bits with any number of them.
pub fn reduce_on_cpu<T: Number>(operation: Operation, numbers: &[T]) -> T {
    let parts: Vec<T> = match operation {
        Operation::Sum => blocks(numbers, T::ZERO, T::plus),
        Operation::Min => blocks(numbers, T::HIGHEST, |a, b| if b < a { b } else { a }),
        Operation::Max => blocks(numbers, T::LOWEST, |a, b| if b > a { b } else { a }),
    };
    reduce_reference(operation, &parts)
}

/// The result of each block.
fn blocks<T: Number>(numbers: &[T], nothing: T, of: impl Fn(T, T) -> T + Copy + Sync) -> Vec<T> {
    let block = |block: &[T]| {
        let mut parts = [nothing; SIDE_BY_SIDE];
        let rows = block.chunks_exact(SIDE_BY_SIDE);
        let rest = rows.remainder();
        for row in rows {
            for (part, &next) in parts.iter_mut().zip(row) {
                *part = of(*part, next);
            }
        }
        parts.iter().chain(rest).fold(nothing, |so_far, &next| of(so_far, next))
    };
    numbers.par_chunks(BLOCK_SIZE).map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_and_of_one() {
        assert_eq!(reduce_reference::<f32>(Operation::Sum, &[]), 0.0);
        assert_eq!(reduce_reference::<f64>(Operation::Min, &[]), f64::INFINITY);
        assert_eq!(reduce_reference::<i32>(Operation::Max, &[]), i32::MIN);
        assert_eq!(reduce_on_cpu::<u32>(Operation::Min, &[]), u32::MAX);
        for operation in Operation::ALL {
            assert_eq!(reduce_reference(operation, &[-7]), -7);
            assert_eq!(reduce_on_cpu(operation, &[-7]), -7);
        }
    }

    #[test]
    fn whole_numbers_wrap() {
        assert_eq!(reduce_reference(Operation::Sum, &[u32::MAX, 3]), 2);
        assert_eq!(reduce_on_cpu(Operation::Sum, &[i32::MAX, 1]), i32::MIN);
        assert_eq!(reduce_on_cpu(Operation::Sum, &[u64::MAX; 3]), u64::MAX - 2);
    }

    #[test]
    fn nan_spoils_sums_only() {
        let numbers = [3.0, f64::NAN, -1.0, f64::NAN];
        for reduce in [reduce_reference::<f64>, reduce_on_cpu::<f64>] {
            assert!(reduce(Operation::Sum, &numbers).is_nan());
            assert_eq!(reduce(Operation::Min, &numbers), -1.0);
            assert_eq!(reduce(Operation::Max, &numbers), 3.0);
            assert_eq!(reduce(Operation::Max, &[f64::NAN]), f64::NEG_INFINITY);
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let numbers: Vec<f32> = (0..5 * BLOCK_SIZE + 77).map(|i| (i as f32).sin()).collect();
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| reduce_on_cpu(Operation::Sum, &numbers)).to_bits()
        };
        assert_eq!(with(1), with(2));
        assert_eq!(with(1), with(7));
    }
}
