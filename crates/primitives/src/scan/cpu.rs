//! Running sums on all cores: the sum of each block, the sums before each block, then each block by itself.

use rayon::prelude::*;

use super::{ScanKind, after, scan_reference};
use crate::Number;

/// Numbers that one thread takes at a time. Fixed, as it decides the order of additions.
const BLOCK_SIZE: usize = 1 << 14;

/// [`super::scan_reference`] on all cores; the same bits with any number of them.
pub fn scan_on_cpu<T: Number>(kind: ScanKind, numbers: &mut [T]) {
    let sum = |block: &[T]| block.iter().fold(T::ZERO, |sum, &number| sum.plus(number));
    let mut before: Vec<T> = numbers.par_chunks(BLOCK_SIZE).map(sum).collect();
    scan_reference(ScanKind::Exclusive, &mut before);
    numbers.par_chunks_mut(BLOCK_SIZE).zip(before).for_each(|(block, before)| after(before, kind, block));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned<T: Number>(scan: fn(ScanKind, &mut [T]), kind: ScanKind, numbers: &[T]) -> Vec<T> {
        let mut sums = numbers.to_vec();
        scan(kind, &mut sums);
        sums
    }

    #[test]
    fn agrees_with_the_plain_one() {
        for n in [0, 1, 2, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 5 * BLOCK_SIZE + 77] {
            let numbers: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
            for kind in ScanKind::ALL {
                assert!(
                    scanned(scan_on_cpu, kind, &numbers) == scanned(scan_reference, kind, &numbers),
                    "{n}, {kind:?}"
                );
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let numbers: Vec<f32> = (0..5 * BLOCK_SIZE + 77).map(|i| (i as f32).sin()).collect();
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| scanned(scan_on_cpu, ScanKind::Inclusive, &numbers))
        };
        assert!(with(1) == with(2) && with(1) == with(7));
    }
}
