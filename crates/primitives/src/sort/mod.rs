//! Sort of pairs of a key and a value, by key.
//!
//! The sort is ascending and stable: pairs with equal keys keep their order. There is exactly one
//! such result, so it has the same bits on the CPU and on every device.
//!
//! A device sorts by digits of 8 bits, lowest digit first (LSD radix sort). `histogram.cu` reads
//! the keys once and counts the digits of all passes. Each pass then reads and writes the pairs
//! once (`pass.cu`; Adinets & Merrill 2022, arXiv:2206.01784). For u64 keys that is 8 passes of 24
//! bytes per pair.

mod cpu;
mod device;
pub mod selftest;

use std::ops::Range;

use orrery_device::Element;

pub use cpu::sort_on_cpu;
pub use device::{Sort, SortStrategy};

/// Type of a sort key: u32 or u64.
pub trait SortKey: Element + Ord + Into<u64> {
    /// Name of the type in the kernel dialect, for example `ulong` for u64.
    const NAME: &'static str;
    /// Number of bits.
    const BITS: u32;
}

impl SortKey for u32 {
    const NAME: &'static str = "uint";
    const BITS: u32 = 32;
}

impl SortKey for u64 {
    const NAME: &'static str = "ulong";
    const BITS: u32 = 64;
}

/// Reference implementation: sorts by the keys. `values[i]` stays with `keys[i]`. Panics if the
/// lengths differ.
pub fn sort_reference<K: SortKey>(keys: &mut [K], values: &mut [u32]) {
    sort_bits_reference(keys, values, 0..K::BITS);
}

/// Reference implementation: sorts only by the given bits of the keys, for example 8..16. Panics if
/// the lengths differ.
pub fn sort_bits_reference<K: SortKey>(keys: &mut [K], values: &mut [u32], bits: Range<u32>) {
    assert_eq!(keys.len(), values.len(), "one value per key");
    let mut pairs: Vec<(K, u32)> = keys.iter().copied().zip(values.iter().copied()).collect();
    pairs.sort_by_key(|pair| key_bits(pair.0, &bits));
    for (i, pair) in pairs.into_iter().enumerate() {
        (keys[i], values[i]) = pair;
    }
}

/// Returns the given bits of a key as a number.
fn key_bits<K: SortKey>(key: K, bits: &Range<u32>) -> u64 {
    let end = bits.end.min(K::BITS);
    if bits.start >= end { 0 } else { key.into() << (64 - end) >> (64 - end + bits.start) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_keeps_the_order_of_equal_keys() {
        let (mut keys, mut values) = ([3u32, 1, 3, 0, 1], [10, 11, 12, 13, 14]);
        sort_reference(&mut keys, &mut values);
        assert_eq!((keys, values), ([0, 1, 1, 3, 3], [13, 11, 14, 10, 12]));
    }

    #[test]
    fn key_bits_are_shifted_to_bit_0() {
        assert_eq!(key_bits(0xabcd_u32, &(4..12)), 0xbc);
        assert_eq!(key_bits(u64::MAX, &(0..64)), u64::MAX);
        assert_eq!(key_bits(u64::MAX, &(63..64)), 1);
        assert_eq!(key_bits(u32::MAX, &(8..200)), 0xff_ffff);
        assert_eq!(key_bits(u32::MAX, &(32..40)), 0);
        assert_eq!(key_bits(u64::MAX, &(64..64)), 0);
    }
}
