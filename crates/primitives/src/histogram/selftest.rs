//! Every histogram and rung against the plain one, on the device at hand: `orrery selftest`, and the tests.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, DeviceKind};

use super::binned::{self, BinnedHistogram, Bins};
use super::rungs::{RungHistogram, rungs};
use super::{Histogram, histogram_reference};
use crate::reduce::selftest::{lengths, mixed};

/// All of them.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: histogram {name}"), run };
    vec![
        check("of random bytes", |device| bytes(device, |i| mixed(i) as u8)),
        check("of equal bytes", equal_bytes),
        check("of few distinct bytes", |device| bytes(device, |i| 63 + (mixed(i) % 3) as u8)),
        check("of many bytes a thread", many_bytes),
        check("of bytes in few tables", few_tables),
        check("beyond 2^32", carry),
        check("of floats in equal bins", floats),
        check("by every rung of its ladder", ladder),
    ]
}

fn word(error: DeviceError) -> String {
    error.to_string()
}

/// The first bin that is wrong, in words.
fn compare(n: usize, found: &[u64], right: &[u64]) -> Result<(), String> {
    match found.iter().zip(right).position(|(found, right)| found != right) {
        None if found.len() == right.len() => Ok(()),
        None => Err(format!("{} bins, expected {}", found.len(), right.len())),
        Some(bin) => Err(format!("{n} values, bin {bin}: found {}, expected {}", found[bin], right[bin])),
    }
}

fn bytes(device: &Device, value: fn(u64) -> u8) -> Result<(), String> {
    let histogram = Histogram::new(device).map_err(word)?;
    for n in lengths() {
        let data: Vec<u8> = (0..n as u64).map(value).collect();
        let found = device.upload(&data).and_then(|from| histogram.count(&from)).map_err(word)?;
        compare(n, &found, &histogram_reference(&data))?;
    }
    Ok(())
}

fn equal_bytes(device: &Device) -> Result<(), String> {
    let histogram = Histogram::new(device).map_err(word)?;
    for value in [0, 1, 63, 64, 127, 128, 191, 255] {
        for n in [1, 15, 16, 17, 1000, 65_537] {
            let data = vec![value; n];
            let found = device.upload(&data).and_then(|from| histogram.count(&from)).map_err(word)?;
            compare(n, &found, &histogram_reference(&data)).map_err(|word| format!("all {value}: {word}"))?;
        }
    }
    Ok(())
}

/// As where a group has little local memory: lanes meet in a table.
fn few_tables(device: &Device) -> Result<(), String> {
    let histogram = Histogram::with_tables(device, 4).map_err(word)?;
    let n = 50_001;
    for value in [|_| 200, |i| mixed(i) as u8] {
        let data: Vec<u8> = (0..n).map(value).collect();
        let found = device.upload(&data).and_then(|from| histogram.count(&from)).map_err(word)?;
        compare(data.len(), &found, &histogram_reference(&data))?;
    }
    Ok(())
}

/// So many that every thread has several rounds.
fn many_bytes(device: &Device) -> Result<(), String> {
    let histogram = Histogram::new(device).map_err(word)?;
    let n = if device.properties().kind == DeviceKind::Gpu { (1 << 26) + 5 } else { (1 << 22) + 5 };
    for value in [|_| 77, |i: u64| (i >> 4) as u8, |i| (i % 251) as u8] {
        let data: Vec<u8> = (0..n).map(value).collect();
        let found = device.upload(&data).and_then(|from| histogram.count(&from)).map_err(word)?;
        compare(data.len(), &found, &histogram_reference(&data))?;
    }
    Ok(())
}

/// Where counts stand just below what 32 bits hold, as after so many bytes.
fn carry(device: &Device) -> Result<(), String> {
    let histogram = Histogram::new(device).map_err(word)?;
    let mut before = [0; 2 * super::BYTE_BINS];
    (before[2 * 7], before[2 * 7 + 1], before[2 * 200]) = (u32::MAX - 10, 3, u32::MAX - 50_000);
    let data: Vec<u8> = (0..100_000).map(|i| if i % 2 == 0 { 7 } else { 200 }).collect();
    let mut right = histogram_reference(&data);
    right[7] += (3 << 32) + u64::from(u32::MAX - 10);
    right[200] += u64::from(u32::MAX - 50_000);
    device.queue().write(&histogram.counts.words, &before).map_err(word)?;
    let found = device.upload(&data).and_then(|from| histogram.count(&from)).map_err(word)?;
    compare(data.len(), &found, &right)
}

fn floats(device: &Device) -> Result<(), String> {
    for (low, high, count) in [(0.0, 1.0, 1), (-0.3, 0.9, 1000), (0.0, 1e-30, 4096)] {
        let bins = Bins::new(low, high, count).map_err(|error| error.to_string())?;
        let histogram = BinnedHistogram::new(device, bins).map_err(word)?;
        for n in lengths() {
            // A quarter beyond either end, some on edges, some no numbers.
            let value = |i: u64| match mixed(i) % 64 {
                0 => f32::NAN,
                1 => f32::INFINITY,
                2 => high,
                3 => low,
                4..8 => low + (high - low) * ((mixed(i) >> 8) % u64::from(count)) as f32 / count as f32,
                _ => low + (high - low) * (1.5 * (mixed(i) >> 40) as f32 / (1u32 << 24) as f32 - 0.25),
            };
            let data: Vec<f32> = (0..n as u64).map(value).collect();
            let found = device.upload(&data).and_then(|from| histogram.count(&from)).map_err(word)?;
            let right = binned::binned_reference(&bins, &data);
            compare(n, &found, &right)
                .map_err(|word| format!("{count} bins over [{low}, {high}): {word}"))?;
        }
        let equal = vec![low; 10_000];
        let found = device.upload(&equal).and_then(|from| histogram.count(&from)).map_err(word)?;
        compare(equal.len(), &found, &binned::binned_reference(&bins, &equal))?;
    }
    Ok(())
}

fn ladder(device: &Device) -> Result<(), String> {
    for rung in rungs() {
        let named = |word: String| format!("{}: {word}", rung.name);
        let histogram = RungHistogram::new(device, rung.variant).map_err(word)?;
        let to = device.upload(&[1; super::BYTE_BINS]).map_err(word)?;
        for value in [|_| 200, |i| mixed(i) as u8] {
            for n in lengths() {
                let data: Vec<u8> = (0..n as u64).map(value).collect();
                let from = device.upload(&data).map_err(word)?;
                histogram.queue(&from, &to).map_err(word)?;
                compare(n, &to.to_vec().map_err(word)?, &histogram_reference(&data)).map_err(named)?;
            }
        }
    }
    Ok(())
}
