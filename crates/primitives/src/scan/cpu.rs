//! Prefix sums on all CPU cores: the sum of each chunk, the prefix sums of these, then the prefix
//! sums within each chunk.

use rayon::prelude::*;

use super::{ScanKind, scan_from, scan_reference};
use crate::PrimitiveNumber;

/// Numbers per task of the thread pool. The value is fixed, because it determines the order of
/// additions.
const CHUNK_LEN: usize = 1 << 14;

/// Replaces the numbers by their prefix sums, on all CPU cores. The sums have the same bits for any
/// number of threads.
pub fn scan_on_cpu<T: PrimitiveNumber>(kind: ScanKind, numbers: &mut [T]) {
    let sum = |chunk: &[T]| chunk.iter().fold(T::ZERO, |sum, &number| sum.plus(number));
    let mut before: Vec<T> = numbers.par_chunks(CHUNK_LEN).map(sum).collect();
    scan_reference(ScanKind::Exclusive, &mut before);
    numbers.par_chunks_mut(CHUNK_LEN).zip(before).for_each(|(chunk, before)| scan_from(before, kind, chunk));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned<T: PrimitiveNumber>(scan: fn(ScanKind, &mut [T]), kind: ScanKind, numbers: &[T]) -> Vec<T> {
        let mut sums = numbers.to_vec();
        scan(kind, &mut sums);
        sums
    }

    #[test]
    fn cpu_sums_equal_the_reference() {
        for n in [0, 1, 2, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1, 5 * CHUNK_LEN + 77] {
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
    fn sums_have_the_same_bits_for_any_number_of_threads() {
        let numbers: Vec<f32> = (0..5 * CHUNK_LEN + 77).map(|i| (i as f32).sin()).collect();
        let sums_with_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| scanned(scan_on_cpu, ScanKind::Inclusive, &numbers))
        };
        assert!(sums_with_threads(1) == sums_with_threads(2) && sums_with_threads(1) == sums_with_threads(7));
    }
}
