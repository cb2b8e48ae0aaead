//! Running sums:  inclusive yᵢ = x₀ + … + xᵢ,  exclusive yᵢ = x₀ + … + xᵢ₋₁,  with y₀ = 0.
//!
//! [`scan_reference`] is the definition, from left to right. [`scan_on_cpu`] and [`Scan`] add in another order, which is fixed by an
//! element's place (and, on a device, the strategy), so that the same numbers give the same bits every time, whatever
//! follows them. Nothing is ever subtracted: an infinity or a NaN spoils what comes after it and nothing before.
//!
//! A device reads and writes every number once, in one launch; `scan.cu` says how tiles learn of the sums before them
//! without the order of additions depending on their timing.

mod cpu;
mod device;
pub mod selftest;

pub use cpu::scan_on_cpu;
pub use device::{Scan, ScanStrategy};

use crate::Number;

/// Whether a sum has its own place's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanKind {
    /// It has.
    Inclusive,
    /// It has only those before: the first sum is 0.
    Exclusive,
}

impl ScanKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Inclusive, Self::Exclusive];
}

/// Puts running sums in the place of the numbers.
pub fn scan_reference<T: Number>(kind: ScanKind, numbers: &mut [T]) {
    after(T::ZERO, kind, numbers);
}

/// The same where `before` is the sum of what came before.
fn after<T: Number>(before: T, kind: ScanKind, numbers: &mut [T]) {
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
    fn of_few() {
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
