//! Prefix sums (scan):  inclusive yᵢ = x₀ + … + xᵢ,  exclusive yᵢ = x₀ + … + xᵢ₋₁  with y₀ = 0.
//!
//! [`scan_reference`] is the definition: it adds from left to right. [`scan_on_cpu`] and [`Scan`]
//! add in another order. It depends only on the index of an element and, on a device, on the
//! strategy. The same numbers therefore give the same bits in every run, whatever follows them.
//! Nothing is ever subtracted, so an infinity or NaN affects only the sums after it.
//!
//! A device reads and writes each number once, in one launch. `scan.cu` describes how a tile gets
//! the sum of the tiles before it without a dependence on timing.

mod cpu;
mod device;
pub mod selftest;

pub use cpu::scan_on_cpu;
pub use device::{Scan, ScanStrategy};

use crate::PrimitiveNumber;

/// Inclusive or exclusive sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanKind {
    /// yᵢ includes xᵢ.
    Inclusive,
    /// yᵢ includes only the numbers before xᵢ, so y₀ = 0.
    Exclusive,
}

impl ScanKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Inclusive, Self::Exclusive];
}

/// Reference implementation: replaces the numbers by their prefix sums, from left to right.
pub fn scan_reference<T: PrimitiveNumber>(kind: ScanKind, numbers: &mut [T]) {
    scan_from(T::ZERO, kind, numbers);
}

/// Replaces the numbers by `before` plus their prefix sums.
fn scan_from<T: PrimitiveNumber>(before: T, kind: ScanKind, numbers: &mut [T]) {
    let mut sum = before;
    for number in numbers {
        let next = sum.plus(*number);
        *number = match kind {
            ScanKind::Inclusive => next,
            ScanKind::Exclusive => sum,
        };
        sum = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_sums_a_few_numbers() {
        let scanned = |kind, mut numbers: Vec<i32>| {
            scan_reference(kind, &mut numbers);
            numbers
        };
        assert_eq!(scanned(ScanKind::Inclusive, vec![3, -1, 4]), [3, 2, 6]);
        assert_eq!(scanned(ScanKind::Exclusive, vec![3, -1, 4]), [0, 3, 2]);
        assert_eq!(scanned(ScanKind::Exclusive, vec![7]), [0]);
        assert_eq!(scanned(ScanKind::Inclusive, vec![]), []);
        assert_eq!(scanned(ScanKind::Inclusive, vec![i32::MAX, 1]), [i32::MAX, i32::MIN]);
    }
}
