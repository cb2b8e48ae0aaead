//! The sort on the device at hand against the plain one: `orrery selftest`, and the tests.

use std::ops::Range;

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError};

use super::{Key, Sort, SortStrategy, sort_bits_reference};

/// Around everything that a warp, a group or a short tile might be.
const LENGTHS: [usize; 16] = [0, 1, 2, 31, 32, 33, 255, 256, 257, 1000, 2047, 2048, 2049, 4095, 4097, 65_537];

/// All of them.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: sort {name}"), run };
    vec![
        check("u32 keys of all lengths", lengths::<u32>),
        check("u64 keys of all lengths", lengths::<u64>),
        check("around tiles and their multiples", around_tiles),
        check("keys equal, ordered, reversed, few, a bit apart", patterns),
        check("some bits of the keys", some_bits),
        check("in several launches, with wide offsets", several_launches),
        check("again and again, and shorter than its capacity", again),
    ]
}

/// A well-mixed number from an index (splitmix64).
fn mixed(index: u64) -> u64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Keys from 64 bits.
trait FromBits: Key {
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

/// Says where the device's result differs from the plain one.
pub(super) fn compare<K: Key>(
    sort: &mut Sort<K>,
    device: &Device,
    keys: &[K],
    bits: Range<u32>,
) -> Result<(), String> {
    // Not the index itself, so that a value lost and replaced by its place is seen.
    let values: Vec<u32> = (0..keys.len()).map(|i| i as u32 ^ 0x8000_0000).collect();
    let mut run = || -> Result<_, DeviceError> {
        let (on_keys, on_values) = (device.upload(keys)?, device.upload(&values)?);
        sort.queue_bits(&on_keys, &on_values, bits.clone())?;
        Ok((on_keys.to_vec()?, on_values.to_vec()?))
    };
    let got = run().map_err(|error| error.to_string())?;
    let (mut right_keys, mut right_values) = (keys.to_vec(), values.clone());
    sort_bits_reference(&mut right_keys, &mut right_values, bits.clone());
    match (0..keys.len()).find(|&i| (got.0[i], got.1[i]) != (right_keys[i], right_values[i])) {
        None => Ok(()),
        Some(i) => Err(format!(
            "{} {} keys by bits {bits:?}: place {i} has ({:x?}, {:x}), expected ({:x?}, {:x})",
            keys.len(),
            K::NAME,
            got.0[i],
            got.1[i],
            right_keys[i],
            right_values[i]
        )),
    }
}

fn sort_of<K: Key>(device: &Device, capacity: usize, strategy: SortStrategy) -> Result<Sort<K>, String> {
    Sort::with_strategy(device, capacity, strategy).map_err(|error| error.to_string())
}

fn random<K: FromBits>(n: usize) -> Vec<K> {
    (0..n as u64).map(|i| K::from_bits(mixed(i))).collect()
}

fn lengths<K: FromBits>(device: &Device) -> Result<(), String> {
    for n in LENGTHS {
        let mut sort = Sort::new(device, n).map_err(|error| error.to_string())?;
        compare(&mut sort, device, &random::<K>(n), 0..K::BITS)?;
    }
    Ok(())
}

fn around_tiles(device: &Device) -> Result<(), String> {
    for strategy in [SortStrategy::SMALL, SortStrategy::LARGE] {
        let tile = strategy.tile() as usize;
        let mut sort = sort_of::<u64>(device, 1 << 17, strategy)?;
        for n in [tile - 1, tile, tile + 1, 3 * tile, 9 * tile + 5, 1 << 17] {
            compare(&mut sort, device, &random(n), 0..64)?;
        }
    }
    Ok(())
}

fn patterns(device: &Device) -> Result<(), String> {
    let n = 10_000;
    let of = |key: &dyn Fn(u64) -> u64| (0..n).map(key).collect::<Vec<u64>>();
    for strategy in [SortStrategy::SMALL, SortStrategy::LARGE] {
        let mut sort = sort_of(device, n as usize, strategy)?;
        for equal in [0, 0x0123_4567_89ab_cdef, u64::MAX] {
            compare(&mut sort, device, &of(&|_| equal), 0..64)?;
        }
        compare(&mut sort, device, &of(&|i| i << 20), 0..64)?;
        compare(&mut sort, device, &of(&|i| (n - i) << 20), 0..64)?;
        compare(&mut sort, device, &of(&|i| mixed(i) % 3), 0..64)?;
        for bit in [0, 7, 8, 31, 32, 63] {
            compare(&mut sort, device, &of(&|i| 0x5555 ^ (mixed(i) & 1) << bit), 0..64)?;
        }
    }
    Ok(())
}

fn some_bits(device: &Device) -> Result<(), String> {
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

/// As beyond 2^29 and 2^32 pairs, at lengths that can be tested.
fn several_launches(device: &Device) -> Result<(), String> {
    for (tiles, is_wide) in [(1, false), (3, true), (4, false)] {
        let strategy = SortStrategy { tiles, is_wide, ..SortStrategy::SMALL };
        let n = 11 * strategy.tile() as usize - 7;
        compare(&mut sort_of(device, n, strategy)?, device, &random::<u64>(n), 0..64)?;
    }
    Ok(())
}

fn again(device: &Device) -> Result<(), String> {
    let mut sort = Sort::new(device, 20_000).map_err(|error| error.to_string())?;
    for n in [20_000, 3, 1500, 20_000, 0, 19_999] {
        compare(&mut sort, device, &random::<u64>(n), 0..64)?;
    }
    let (keys, values) = (device.zeros::<u64>(20_001), device.zeros(20_001));
    match (keys, values) {
        (Ok(keys), Ok(values)) if sort.queue(&keys, &values).is_err() => Ok(()),
        (Ok(_), Ok(_)) => Err("20001 pairs were sorted in room for 20000".to_owned()),
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
    }
}
