//! Histograms:  h(b) = #{i : xᵢ = b}  for bytes, or the number of floats in each of several equal
//! bins ([`binned`]). Counts are u64 and exact, so every order of counting gives the same result.
//! [`letters`] and [`wide`] are for the ladder: the course's histogram of letters, and one with too
//! many bins for shared memory.
//!
//! Bytes arrive at memory bandwidth, and each increments a counter. On a device, speed is limited
//! by the counters: where they are stored, and whether two threads increment the same one
//! ([`rungs`] measures the steps). The production kernel (`bytes.cu`) gives each lane of a warp its
//! own table in shared memory. It is therefore as fast for equal bytes as for random ones: 3.5 and
//! 3.3 TB/s for 2^28 bytes on an H200 (copy: 4.2 TB/s).

pub mod binned;
mod device;
pub mod letters;
mod part_counts;
pub mod rungs;
pub mod selftest;
pub mod wide;

pub use device::{Histogram, HistogramStrategy};

use rayon::prelude::*;

/// Number of bins of a histogram of bytes: one per value.
pub const BYTE_BINS: usize = 256;

/// Reference implementation: counts one byte after the other.
pub fn histogram_reference(values: &[u8]) -> [u64; BYTE_BINS] {
    let mut counts = [0; BYTE_BINS];
    for &value in values {
        counts[usize::from(value)] += 1;
    }
    counts
}

/// Bytes per task of the thread pool. Below 2^32, so that u32 counters suffice.
const CHUNK_LEN: usize = 1 << 20;
/// Tables that neighbouring bytes use in turn. Increments for equal neighbours then do not wait for
/// each other.
const TABLES: usize = 4;

/// Counts on all CPU cores.
pub fn histogram_on_cpu(values: &[u8]) -> [u64; BYTE_BINS] {
    let count_chunk = |chunk: &[u8]| {
        let mut tables = [[0u32; BYTE_BINS]; TABLES];
        for row in chunk.chunks(TABLES) {
            for (table, &value) in tables.iter_mut().zip(row) {
                table[usize::from(value)] += 1;
            }
        }
        std::array::from_fn(|bin| tables.iter().map(|table| u64::from(table[bin])).sum())
    };
    let sum = |a: [u64; BYTE_BINS], b: [u64; BYTE_BINS]| std::array::from_fn(|bin| a[bin] + b[bin]);
    values.par_chunks(CHUNK_LEN).map(count_chunk).reduce(|| [0; BYTE_BINS], sum)
}

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_counts_a_few_bytes() {
        let counts = histogram_reference(b"hello");
        assert_eq!((counts[usize::from(b'l')], counts[usize::from(b'h')], counts[0]), (2, 1, 0));
        assert_eq!(histogram_reference(&[]), [0; BYTE_BINS]);
    }

    #[test]
    fn cpu_counts_equal_the_reference() {
        for n in [0, 1, 3, 4, 5, CHUNK_LEN - 1, 2 * CHUNK_LEN + 7] {
            let values: Vec<u8> = (0..n).map(|i| ((i * i) >> 3) as u8).collect();
            assert_eq!(histogram_on_cpu(&values), histogram_reference(&values), "n = {n}");
        }
    }
}
