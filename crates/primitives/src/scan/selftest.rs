//! Running sums on the device at hand against the plain ones: `orrery selftest`, and the tests.

use orrery_device::check::Check;
use orrery_device::{Buffer, Device, DeviceError};

use super::{Scan, ScanKind, ScanStrategy, scan_reference};
use crate::Number;

/// Tiles so short that few numbers make rows and pages of them.
pub const SHORT: ScanStrategy = ScanStrategy { threads: 64, loads: 1 };

/// All of them.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: scan {name}"), run };
    vec![
        check("f32", lengths::<f32>),
        check("f64", |device| if device.properties().has_f64 { lengths::<f64>(device) } else { Ok(()) }),
        check("u32", lengths::<u32>),
        check("u64", lengths::<u64>),
        check("i32", lengths::<i32>),
        check("rows and pages of tiles", pages),
        check("rounds as little as it should", rounding),
        check("infinities and NaN", infinities),
        check("gives the same bits twice", same_bits),
        check("in place, again and again", again),
    ]
}

/// A well-mixed number from an index (splitmix64).
fn mixed(index: u64) -> u64 {
    let mut z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Numbers whose sums are the same in any order: whole ones of any size, and floats that are small and whole.
trait Sample: Number {
    fn of(bits: u64) -> Self;
}

macro_rules! sample {
    ($($kind:ty: $of:expr),*) => { $(
        impl Sample for $kind {
            fn of(bits: u64) -> Self {
                $of(bits)
            }
        }
    )* };
}

// 2^19 numbers below 32 sum to less than 2^24: exact in f32.
sample!(f32: |bits| (bits % 63) as f32 - 31.0, f64: |bits| (bits % 63) as f64 - 31.0);
sample!(u32: |bits| bits as u32, u64: |bits| bits, i32: |bits| bits as i32);

fn samples<T: Sample>(n: usize) -> Vec<T> {
    (0..n as u64).map(|i| T::of(mixed(i))).collect()
}

fn in_words(error: DeviceError) -> String {
    error.to_string()
}

fn scanned<T: Number>(scan: &mut Scan<T>, device: &Device, numbers: &[T]) -> Result<Vec<T>, String> {
    let mut run = || {
        let (from, to) = (device.upload(numbers)?, device.zeros(numbers.len())?);
        scan.queue(&from, &to)?;
        to.to_vec()
    };
    run().map_err(in_words)
}

/// Says where sums differ from the plain ones.
fn compare<T: Number>(kind: ScanKind, numbers: &[T], got: &[T]) -> Result<(), String> {
    let mut right = numbers.to_vec();
    scan_reference(kind, &mut right);
    match (0..numbers.len()).find(|&i| got[i] != right[i]) {
        None => Ok(()),
        Some(i) => {
            let (n, name) = (numbers.len(), T::NAME);
            Err(format!("{kind:?} of {n} {name}: place {i} has {:?}, expected {:?}", got[i], right[i]))
        }
    }
}

fn lengths<T: Sample>(device: &Device) -> Result<(), String> {
    let tile = ScanStrategy::default().tile::<T>() as usize;
    let mut lengths = vec![0, 1, 2, 3, 5, 9 * tile + 5, 33 * tile];
    let edges = (4..=17).map(|power| 1 << power).chain([tile, 3 * tile]);
    lengths.extend(edges.flat_map(|edge| [edge - 1, edge, edge + 1]));
    let most = samples::<T>(1 + (1 << 17).max(33 * tile));
    for kind in ScanKind::ALL {
        let mut scan = Scan::new(device, kind).map_err(in_words)?;
        for numbers in lengths.iter().map(|&n| &most[..n]) {
            compare(kind, numbers, &scanned(&mut scan, device, numbers)?)?;
        }
    }
    Ok(())
}

fn pages(device: &Device) -> Result<(), String> {
    let tile = SHORT.tile::<u64>() as usize;
    for kind in ScanKind::ALL {
        let mut scan = Scan::with_strategy(device, kind, SHORT).map_err(in_words)?;
        for n in [31, 32, 33, 1023, 1024, 1025, 2 * 1024 + 33, 3 * 1024 + 1].map(|tiles| tiles * tile - 3) {
            let numbers = samples::<u64>(n);
            compare(kind, &numbers, &scanned(&mut scan, device, &numbers)?)?;
        }
    }
    Ok(())
}

/// x from −1 to 1: on the way to any one sum of so many there are fewer than 48 additions (5 among lanes, as many as
/// loads, warps, numbers in a load and pages, 5 each in a row and on a page, and 6 between), and each of them rounds by
/// half of EPSILON Σ|x| at most.
fn rounding(device: &Device) -> Result<(), String> {
    let numbers: Vec<f32> =
        (0..1u64 << 19).map(|i| (mixed(i) >> 40) as f32 / (1 << 23) as f32 - 1.0).collect();
    for strategy in [ScanStrategy::default(), SHORT] {
        let mut scan = Scan::with_strategy(device, ScanKind::Inclusive, strategy).map_err(in_words)?;
        let got = scanned(&mut scan, device, &numbers)?;
        let (mut right, mut sizes) = (0.0, 0.0);
        for (i, (&number, &got)) in numbers.iter().zip(&got).enumerate() {
            right += f64::from(number);
            sizes += f64::from(number.abs());
            let error = (f64::from(got) - right).abs();
            let most = 24.0 * f64::from(f32::EPSILON) * sizes;
            if error.is_nan() || error > most {
                return Err(format!(
                    "{strategy:?}: place {i} is off by {error:.1e}, expected {most:.1e} at most"
                ));
            }
        }
    }
    Ok(())
}

/// They spoil what comes after and nothing before.
fn infinities(device: &Device) -> Result<(), String> {
    let n = 20_000;
    for (kind, own) in [(ScanKind::Inclusive, 0), (ScanKind::Exclusive, 1)] {
        let mut scan = Scan::<f32>::with_strategy(device, kind, SHORT).map_err(in_words)?;
        for at in [0, 1, 37, 255, 256, 9_001, n - 1] {
            for odd in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                let mut numbers = vec![1.0; n];
                numbers[at] = odd;
                let got = scanned(&mut scan, device, &numbers)?;
                let right = |i: usize| if i < at + own { (i + 1 - own) as f32 } else { odd };
                let is_right = |i: usize| got[i] == right(i) || got[i].is_nan() && right(i).is_nan();
                if let Some(i) = (0..n).find(|&i| !is_right(i)) {
                    let (got, right) = (got[i], right(i));
                    return Err(format!("{kind:?}, {odd} at {at}: place {i} has {got}, expected {right}"));
                }
            }
        }
    }
    Ok(())
}

fn same_bits(device: &Device) -> Result<(), String> {
    let numbers: Vec<f32> = (0..300_000).map(|i| (mixed(i) >> 40) as f32 * 1e-3 - 5e3).collect();
    for strategy in [ScanStrategy::default(), SHORT] {
        let mut scan = Scan::with_strategy(device, ScanKind::Exclusive, strategy).map_err(in_words)?;
        let first = scanned(&mut scan, device, &numbers)?;
        for _ in 0..5 {
            let again = scanned(&mut scan, device, &numbers)?;
            if let Some(i) = (0..first.len()).find(|&i| first[i].to_bits() != again[i].to_bits()) {
                let (first, again) = (first[i], again[i]);
                return Err(format!("{strategy:?}: place {i} has {again:?}, the first time {first:?}"));
            }
        }
    }
    Ok(())
}

/// Longer and shorter by turns, with nothing waited for between two scans, and past the last stamp.
fn again(device: &Device) -> Result<(), String> {
    let mut scan = Scan::<u64>::new(device, ScanKind::Inclusive).map_err(in_words)?;
    for n in [5_000, 60_000, 3, 60_000, 0, 59_999] {
        scan.stamp = if n == 3 { u32::MAX - 1 } else { scan.stamp };
        let numbers = samples::<u64>(n);
        let mut twice = || -> Result<_, DeviceError> {
            let buffer: Buffer<u64> = device.upload(&numbers)?;
            scan.queue(&buffer, &buffer)?;
            scan.queue(&buffer, &buffer)?;
            buffer.to_vec()
        };
        let got = twice().map_err(in_words)?;
        let mut once = numbers;
        scan_reference(ScanKind::Inclusive, &mut once);
        compare(ScanKind::Inclusive, &once, &got)?;
    }
    Ok(())
}
