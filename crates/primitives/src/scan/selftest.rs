//! Checks of the scan on one device, for `orrery selftest` and the tests. Sums are compared with
//! the reference implementation.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, DeviceKind};

use super::{Scan, ScanKind, ScanStrategy, scan_reference};
use crate::PrimitiveNumber;

/// Strategy with the shortest tiles, so that few numbers already fill rows and pages.
pub const SHORT_TILES: ScanStrategy =
    ScanStrategy { block_size: 64, loads_per_thread: 1, ..ScanStrategy::CANDIDATES[0] };

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: scan {name}"), run };
    vec![
        check("f32", all_lengths::<f32>),
        check("f64", |device| if device.properties().has_f64 { all_lengths::<f64>(device) } else { Ok(()) }),
        check("u32", all_lengths::<u32>),
        check("u64", all_lengths::<u64>),
        check("i32", all_lengths::<i32>),
        check("rows and pages of tiles", rows_and_pages),
        check("rounds within its error bound", rounding_error),
        check("infinities and NaN", infinities_and_nan),
        check("gives the same bits twice", gives_same_bits),
        check("in place, many times", in_place_many_times),
        check("with tiles in shared memory", tiles_in_shared_memory),
        check("gives the same bits with tiles in shared memory", same_bits_in_shared_memory),
    ]
}

/// Numbers whose sums are the same in any order: integers of any magnitude, and floats with small
/// integer values.
trait ScanSample: PrimitiveNumber {
    fn from_random_bits(bits: u64) -> Self;
}

macro_rules! impl_sample {
    ($($kind:ty: $convert:expr),*) => { $(
        impl ScanSample for $kind {
            fn from_random_bits(bits: u64) -> Self {
                $convert(bits)
            }
        }
    )* };
}

// 2^19 numbers below 32 have a sum below 2^24, which is exact in f32.
impl_sample!(f32: |bits| (bits % 63) as f32 - 31.0, f64: |bits| (bits % 63) as f64 - 31.0);
impl_sample!(u32: |bits| bits as u32, u64: |bits| bits, i32: |bits| bits as i32);

fn samples<T: ScanSample>(n: usize) -> Vec<T> {
    (0..n as u64).map(|i| T::from_random_bits(random_bits(i))).collect()
}

fn message(error: DeviceError) -> String {
    error.to_string()
}

fn scan_on_device<T: PrimitiveNumber>(
    scan: &mut Scan<T>,
    device: &Device,
    numbers: &[T],
) -> Result<Vec<T>, String> {
    let mut run = || {
        let (from, to) = (device.upload(numbers)?, device.zeros(numbers.len())?);
        scan.launch(device.queue(), &from, &to)?;
        to.to_vec()
    };
    run().map_err(message)
}

/// Returns an error that names the first sum that differs from the reference.
fn compare<T: PrimitiveNumber>(kind: ScanKind, numbers: &[T], got: &[T]) -> Result<(), String> {
    let mut expected = numbers.to_vec();
    scan_reference(kind, &mut expected);
    match (0..numbers.len()).find(|&i| got[i] != expected[i]) {
        None => Ok(()),
        Some(i) => {
            let (n, name) = (numbers.len(), T::NAME);
            Err(format!("{kind:?} of {n} {name}: sum {i} is {:?}, expected {:?}", got[i], expected[i]))
        }
    }
}

fn all_lengths<T: ScanSample>(device: &Device) -> Result<(), String> {
    let tile = ScanStrategy::default().tile_len::<T>() as usize;
    let mut lengths = vec![0, 1, 2, 3, 5, 9 * tile + 5, 33 * tile];
    let edges = (4..=17).map(|power| 1 << power).chain([tile, 3 * tile]);
    lengths.extend(edges.flat_map(|edge| [edge - 1, edge, edge + 1]));
    let numbers_of_longest = samples::<T>(1 + (1 << 17).max(33 * tile));
    for kind in ScanKind::ALL {
        let mut scan = Scan::new(device, kind).map_err(message)?;
        for numbers in lengths.iter().map(|&n| &numbers_of_longest[..n]) {
            compare(kind, numbers, &scan_on_device(&mut scan, device, numbers)?)?;
        }
    }
    Ok(())
}

fn rows_and_pages(device: &Device) -> Result<(), String> {
    let tile = SHORT_TILES.tile_len::<u64>() as usize;
    for kind in ScanKind::ALL {
        let mut scan = Scan::with_strategy(device, kind, SHORT_TILES).map_err(message)?;
        for n in [31, 32, 33, 1023, 1024, 1025, 2 * 1024 + 33, 3 * 1024 + 1].map(|tiles| tiles * tile - 3) {
            let numbers = samples::<u64>(n);
            compare(kind, &numbers, &scan_on_device(&mut scan, device, &numbers)?)?;
        }
    }
    Ok(())
}

/// Sums x from −1 to 1. Fewer than 48 additions lead to any one sum of 2^19 numbers: 5 among lanes,
/// one for each load, warp, number in a load and page, 5 each in a row and on a page, and 6 in
/// between. Each rounds by at most half of EPSILON Σ|x|.
fn rounding_error(device: &Device) -> Result<(), String> {
    let numbers: Vec<f32> =
        (0..1u64 << 19).map(|i| (random_bits(i) >> 40) as f32 / (1 << 23) as f32 - 1.0).collect();
    for strategy in [ScanStrategy::default(), SHORT_TILES] {
        let mut scan = Scan::with_strategy(device, ScanKind::Inclusive, strategy).map_err(message)?;
        let got = scan_on_device(&mut scan, device, &numbers)?;
        let (mut expected, mut abs_sum) = (0.0, 0.0);
        for (i, (&number, &got)) in numbers.iter().zip(&got).enumerate() {
            expected += f64::from(number);
            abs_sum += f64::from(number.abs());
            let error = (f64::from(got) - expected).abs();
            let limit = 24.0 * f64::from(f32::EPSILON) * abs_sum;
            if error.is_nan() || error > limit {
                return Err(format!(
                    "{strategy:?}: sum {i} has an error of {error:.1e}, expected at most {limit:.1e}"
                ));
            }
        }
    }
    Ok(())
}

/// An infinity or NaN affects the sums after it and none before.
fn infinities_and_nan(device: &Device) -> Result<(), String> {
    let n = 20_000;
    for (kind, own) in [(ScanKind::Inclusive, 0), (ScanKind::Exclusive, 1)] {
        let mut scan = Scan::<f32>::with_strategy(device, kind, SHORT_TILES).map_err(message)?;
        for at in [0, 1, 37, 255, 256, 9_001, n - 1] {
            for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                let mut numbers = vec![1.0; n];
                numbers[at] = special;
                let got = scan_on_device(&mut scan, device, &numbers)?;
                let expected = |i: usize| if i < at + own { (i + 1 - own) as f32 } else { special };
                let is_correct = |i: usize| got[i] == expected(i) || got[i].is_nan() && expected(i).is_nan();
                if let Some(i) = (0..n).find(|&i| !is_correct(i)) {
                    let (got, expected) = (got[i], expected(i));
                    return Err(format!(
                        "{kind:?}, {special} at {at}: sum {i} is {got}, expected {expected}"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn gives_same_bits(device: &Device) -> Result<(), String> {
    let numbers: Vec<f32> = (0..300_000).map(|i| (random_bits(i) >> 40) as f32 * 1e-3 - 5e3).collect();
    for strategy in [ScanStrategy::default(), SHORT_TILES] {
        let mut scan = Scan::with_strategy(device, ScanKind::Exclusive, strategy).map_err(message)?;
        let first = scan_on_device(&mut scan, device, &numbers)?;
        for _ in 0..5 {
            let again = scan_on_device(&mut scan, device, &numbers)?;
            if let Some(i) = (0..first.len()).find(|&i| first[i].to_bits() != again[i].to_bits()) {
                let (first, again) = (first[i], again[i]);
                return Err(format!("{strategy:?}: sum {i} is {again:?}, the first time it was {first:?}"));
            }
        }
    }
    Ok(())
}

/// Long and short scans alternate, without a wait between two of them. The stamp overflows once.
fn in_place_many_times(device: &Device) -> Result<(), String> {
    let mut scan = Scan::<u64>::new(device, ScanKind::Inclusive).map_err(message)?;
    for n in [5_000, 60_000, 3, 60_000, 0, 59_999] {
        scan.stamp = if n == 3 { u32::MAX - 1 } else { scan.stamp };
        let numbers = samples::<u64>(n);
        let mut twice = || -> Result<_, DeviceError> {
            let buffer: Buffer<u64> = device.upload(&numbers)?;
            scan.launch(device.queue(), &buffer, &buffer)?;
            scan.launch(device.queue(), &buffer, &buffer)?;
            buffer.to_vec()
        };
        let got = twice().map_err(message)?;
        let mut once = numbers;
        scan_reference(ScanKind::Inclusive, &mut once);
        compare(ScanKind::Inclusive, &once, &got)?;
    }
    Ok(())
}

/// Lengths around the borders of tiles and rows, also in place.
fn tiles_in_shared_memory(device: &Device) -> Result<(), String> {
    // OpenCL on a CPU compiles slowly. There, the shortest tiles represent all.
    let all = ScanStrategy::CANDIDATES.into_iter().filter(|strategy| strategy.has_tile_in_shared);
    let strategies: Vec<_> = match device.properties().kind {
        DeviceKind::Gpu => all.collect(),
        DeviceKind::Cpu | DeviceKind::Other => {
            all.min_by_key(ScanStrategy::tile_len::<u32>).into_iter().collect()
        }
    };
    for strategy in strategies {
        let tile = strategy.tile_len::<u32>() as usize;
        let mut scan = Scan::with_strategy(device, ScanKind::Exclusive, strategy).map_err(message)?;
        for n in [1, 2, 31, tile - 1, tile, tile + 1, 3 * tile, 33 * tile + 5] {
            let numbers = samples::<u32>(n);
            compare(ScanKind::Exclusive, &numbers, &scan_on_device(&mut scan, device, &numbers)?)
                .map_err(|error| format!("{}: {error}", strategy.name()))?;
            let mut in_place = || -> Result<_, DeviceError> {
                let buffer = device.upload(&numbers)?;
                scan.launch(device.queue(), &buffer, &buffer)?;
                buffer.to_vec()
            };
            let found = in_place().map_err(message)?;
            compare(ScanKind::Exclusive, &numbers, &found)
                .map_err(|error| format!("{}, in place: {error}", strategy.name()))?;
        }
    }
    Ok(())
}

/// The order of additions depends only on the tiles, not on where a block holds its tile.
fn same_bits_in_shared_memory(device: &Device) -> Result<(), String> {
    let numbers: Vec<f32> = (0..300_001).map(|i| (random_bits(i) >> 40) as f32 * 1e-3 - 5e3).collect();
    let [in_registers, in_shared, ..] = ScanStrategy::CANDIDATES;
    let scan_with = |strategy| {
        let mut scan = Scan::with_strategy(device, ScanKind::Inclusive, strategy).map_err(message)?;
        scan_on_device(&mut scan, device, &numbers)
    };
    let (expected, found) = (scan_with(in_registers)?, scan_with(in_shared)?);
    match (0..found.len()).find(|&i| found[i].to_bits() != expected[i].to_bits()) {
        None => Ok(()),
        Some(i) => Err(format!("sum {i} is {:?}, in registers {:?}", found[i], expected[i])),
    }
}
