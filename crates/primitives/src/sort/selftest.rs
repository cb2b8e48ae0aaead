//! Checks of the sort on one device, for `orrery selftest` and the tests. Results are compared with
//! the reference implementation.

use std::ops::Range;

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Device, DeviceError};

use super::{Sort, SortKey, SortStrategy, sort_bits_reference};

/// Lengths around the sizes of a warp, a block and a short tile.
const LENGTHS: [usize; 16] = [0, 1, 2, 31, 32, 33, 255, 256, 257, 1000, 2047, 2048, 2049, 4095, 4097, 65_537];

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: sort {name}"), run };
    vec![
        check("u32 keys of all lengths", all_lengths::<u32>),
        check("u64 keys of all lengths", all_lengths::<u64>),
        check("around tiles and their multiples", around_tiles),
        check("keys equal, ordered, reversed, few, one bit apart", key_patterns),
        check("selected bits of the keys", selected_bits),
        check("in several launches, with wide offsets", several_launches),
        check("many times, and shorter than its capacity", many_times),
    ]
}

/// Keys that can be made from 64 random bits.
trait FromBits: SortKey {
    fn from_bits(bits: u64) -> Self;
}

impl FromBits for u32 {
    fn from_bits(bits: u64) -> Self {
        (bits >> 32) as Self
    }
}

impl FromBits for u64 {
    fn from_bits(bits: u64) -> Self {
        bits
    }
}

/// Sorts on the device. Returns an error that names the first pair that differs from the reference.
pub(super) fn compare<K: SortKey>(
    sort: &mut Sort<K>,
    device: &Device,
    keys: &[K],
    bits: Range<u32>,
) -> Result<(), String> {
    // Not the index itself, so that a value replaced by its index is detected.
    let values: Vec<u32> = (0..keys.len()).map(|i| i as u32 ^ 0x8000_0000).collect();
    let mut run = || -> Result<_, DeviceError> {
        let (device_keys, device_values) = (device.upload(keys)?, device.upload(&values)?);
        sort.launch_bits(device.queue(), &device_keys, &device_values, bits.clone())?;
        Ok((device_keys.to_vec()?, device_values.to_vec()?))
    };
    let got = run().map_err(|error| error.to_string())?;
    let (mut expected_keys, mut expected_values) = (keys.to_vec(), values.clone());
    sort_bits_reference(&mut expected_keys, &mut expected_values, bits.clone());
    match (0..keys.len()).find(|&i| (got.0[i], got.1[i]) != (expected_keys[i], expected_values[i])) {
        None => Ok(()),
        Some(i) => Err(format!(
            "{} {} keys by bits {bits:?}: pair {i} is ({:x?}, {:x}), expected ({:x?}, {:x})",
            keys.len(),
            K::NAME,
            got.0[i],
            got.1[i],
            expected_keys[i],
            expected_values[i]
        )),
    }
}

fn sort_of<K: SortKey>(device: &Device, capacity: usize, strategy: SortStrategy) -> Result<Sort<K>, String> {
    Sort::with_strategy(device, capacity, strategy).map_err(|error| error.to_string())
}

fn random<K: FromBits>(n: usize) -> Vec<K> {
    (0..n as u64).map(|i| K::from_bits(random_bits(i))).collect()
}

fn all_lengths<K: FromBits>(device: &Device) -> Result<(), String> {
    for n in LENGTHS {
        let mut sort = Sort::new(device, n).map_err(|error| error.to_string())?;
        compare(&mut sort, device, &random::<K>(n), 0..K::BITS)?;
    }
    Ok(())
}

fn around_tiles(device: &Device) -> Result<(), String> {
    for strategy in SortStrategy::CANDIDATES {
        let tile = strategy.tile_len() as usize;
        let mut sort = sort_of::<u64>(device, 1 << 17, strategy)?;
        for n in [tile - 1, tile, tile + 1, 3 * tile, 9 * tile + 5, 1 << 17] {
            compare(&mut sort, device, &random(n), 0..64)?;
        }
    }
    Ok(())
}

fn key_patterns(device: &Device) -> Result<(), String> {
    let n = 10_000;
    let of = |key: &dyn Fn(u64) -> u64| (0..n).map(key).collect::<Vec<u64>>();
    for strategy in [SortStrategy::SMALL, SortStrategy::LARGE] {
        let mut sort = sort_of(device, n as usize, strategy)?;
        for equal in [0, 0x0123_4567_89ab_cdef, u64::MAX] {
            compare(&mut sort, device, &of(&|_| equal), 0..64)?;
        }
        compare(&mut sort, device, &of(&|i| i << 20), 0..64)?;
        compare(&mut sort, device, &of(&|i| (n - i) << 20), 0..64)?;
        compare(&mut sort, device, &of(&|i| random_bits(i) % 3), 0..64)?;
        for bit in [0, 7, 8, 31, 32, 63] {
            compare(&mut sort, device, &of(&|i| 0x5555 ^ (random_bits(i) & 1) << bit), 0..64)?;
        }
    }
    Ok(())
}

fn selected_bits(device: &Device) -> Result<(), String> {
    let mut wide = sort_of(device, 5000, SortStrategy::SMALL)?;
    for bits in [0..0, 0..1, 63..64, 0..63, 15..64, 3..20, 60..64, 0..200] {
        compare(&mut wide, device, &random::<u64>(5000), bits)?;
    }
    let mut narrow = sort_of(device, 5000, SortStrategy::SMALL)?;
    for bits in [0..30, 31..32, 5..12] {
        compare(&mut narrow, device, &random::<u32>(5000), bits)?;
    }
    Ok(())
}

/// Several launches and 64-bit offsets, as for more than 2^29 and 2^32 pairs, at lengths that can
/// be tested.
fn several_launches(device: &Device) -> Result<(), String> {
    for (max_tiles_per_launch, has_wide_offsets) in [(1, false), (3, true), (4, false)] {
        let strategy = SortStrategy { max_tiles_per_launch, has_wide_offsets, ..SortStrategy::SMALL };
        let n = 11 * strategy.tile_len() as usize - 7;
        compare(&mut sort_of(device, n, strategy)?, device, &random::<u64>(n), 0..64)?;
    }
    Ok(())
}

fn many_times(device: &Device) -> Result<(), String> {
    let mut sort = Sort::new(device, 20_000).map_err(|error| error.to_string())?;
    for n in [20_000, 3, 1500, 20_000, 0, 19_999] {
        compare(&mut sort, device, &random::<u64>(n), 0..64)?;
    }
    let (keys, values) = (device.zeros::<u64>(20_001), device.zeros(20_001));
    match (keys, values) {
        (Ok(keys), Ok(values)) if sort.launch(device.queue(), &keys, &values).is_err() => Ok(()),
        (Ok(_), Ok(_)) => Err("20001 pairs were accepted by a sort with a capacity of 20000".to_owned()),
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
    }
}
