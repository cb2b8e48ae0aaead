//! Checks of the histograms on one device, for `orrery selftest` and the tests. Every histogram and
//! rung is compared with the reference implementation.

use orrery_device::check::Check;
use orrery_device::testing::random_bits;
use orrery_device::{Device, DeviceError, DeviceKind};

use super::binned::{self, BinnedHistogram, FloatBins};
use super::letters::{
    COURSE_TEXT, LETTER_BINS, LetterCounting, LetterHistogram, LetterRung, letters_reference,
};
use super::rungs::{HistogramRung, HistogramVariant, RungHistogram};
use super::wide::{WIDE_BINS, WideHistogram, wide_reference};
use super::{Histogram, HistogramStrategy, histogram_reference};
use crate::ladder::check_rungs;
use crate::primitives::edge_lengths;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("primitives: histogram {name}"), run };
    vec![
        check("of random bytes", |device| compare_bytes(device, |i| random_bits(i) as u8)),
        check("of equal bytes", equal_bytes),
        check("of few distinct bytes", |device| compare_bytes(device, |i| 63 + (random_bits(i) % 3) as u8)),
        check("of many bytes per thread", many_bytes),
        check("of bytes in few tables", few_tables),
        check("beyond 2^32", carry_into_high_word),
        check("of floats in equal bins", compare_floats),
        check("by every rung of its ladder", check_rungs::<HistogramRung>),
        check("of letters by every rung", check_rungs::<LetterRung>),
        check("of 65,536 bins", compare_wide),
    ]
}

fn message(error: DeviceError) -> String {
    error.to_string()
}

/// Returns an error that names the first wrong bin.
fn compare(n: usize, found: &[u64], expected: &[u64]) -> Result<(), String> {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        None if found.len() == expected.len() => Ok(()),
        None => Err(format!("{} bins, expected {}", found.len(), expected.len())),
        Some(bin) => Err(format!("{n} values, bin {bin}: found {}, expected {}", found[bin], expected[bin])),
    }
}

fn compare_bytes(device: &Device, value: fn(u64) -> u8) -> Result<(), String> {
    let histogram = Histogram::new(device).map_err(message)?;
    for n in edge_lengths() {
        let data: Vec<u8> = (0..n as u64).map(value).collect();
        let found =
            device.upload(&data).and_then(|from| histogram.count(device.queue(), &from)).map_err(message)?;
        compare(n, &found, &histogram_reference(&data))?;
    }
    Ok(())
}

fn equal_bytes(device: &Device) -> Result<(), String> {
    let histogram = Histogram::new(device).map_err(message)?;
    for value in [0, 1, 63, 64, 127, 128, 191, 255] {
        for n in [1, 15, 16, 17, 1000, 65_537] {
            let data = vec![value; n];
            let found = device
                .upload(&data)
                .and_then(|from| histogram.count(device.queue(), &from))
                .map_err(message)?;
            compare(n, &found, &histogram_reference(&data))
                .map_err(|error| format!("all {value}: {error}"))?;
        }
    }
    Ok(())
}

/// Four tables, as on a device with little shared memory: several lanes share a table. On a GPU
/// also the candidates of the tuner. OpenCL on a CPU compiles slowly.
fn few_tables(device: &Device) -> Result<(), String> {
    let is_gpu = device.properties().kind == DeviceKind::Gpu;
    let candidates = if is_gpu { &HistogramStrategy::CANDIDATES[..] } else { &[] };
    for strategy in [HistogramStrategy { tables: 4 }].iter().chain(candidates) {
        let histogram = Histogram::with_strategy(device, *strategy).map_err(message)?;
        for value in [|_| 200, |i| random_bits(i) as u8] {
            let data: Vec<u8> = (0..50_001).map(value).collect();
            let found = device
                .upload(&data)
                .and_then(|from| histogram.count(device.queue(), &from))
                .map_err(message)?;
            compare(data.len(), &found, &histogram_reference(&data))
                .map_err(|error| format!("{}: {error}", strategy.name()))?;
        }
    }
    Ok(())
}

/// Enough bytes that every thread has several rounds of loads.
fn many_bytes(device: &Device) -> Result<(), String> {
    let histogram = Histogram::new(device).map_err(message)?;
    let n = if device.properties().kind == DeviceKind::Gpu { (1 << 26) + 5 } else { (1 << 22) + 5 };
    for value in [|_| 77, |i: u64| (i >> 4) as u8, |i| (i % 251) as u8] {
        let data: Vec<u8> = (0..n).map(value).collect();
        let found =
            device.upload(&data).and_then(|from| histogram.count(device.queue(), &from)).map_err(message)?;
        compare(data.len(), &found, &histogram_reference(&data))?;
    }
    Ok(())
}

/// Starts from counts just below 2^32, as if that many bytes had been counted before.
fn carry_into_high_word(device: &Device) -> Result<(), String> {
    let histogram = Histogram::new(device).map_err(message)?;
    let mut before = [0; 2 * super::BYTE_BINS];
    (before[2 * 7], before[2 * 7 + 1], before[2 * 200]) = (u32::MAX - 10, 3, u32::MAX - 50_000);
    let data: Vec<u8> = (0..100_000).map(|i| if i % 2 == 0 { 7 } else { 200 }).collect();
    let mut expected = histogram_reference(&data);
    expected[7] += (3 << 32) + u64::from(u32::MAX - 10);
    expected[200] += u64::from(u32::MAX - 50_000);
    device.queue().write(&histogram.counts.words, &before).map_err(message)?;
    let found =
        device.upload(&data).and_then(|from| histogram.count(device.queue(), &from)).map_err(message)?;
    compare(data.len(), &found, &expected)
}

fn compare_floats(device: &Device) -> Result<(), String> {
    for (low, high, count) in [(0.0, 1.0, 1), (-0.3, 0.9, 1000), (0.0, 1e-30, 4096)] {
        let bins = FloatBins::new(low, high, count).map_err(|error| error.to_string())?;
        let histogram = BinnedHistogram::new(device, bins).map_err(message)?;
        for n in edge_lengths() {
            // A sixth of the values beyond either end, some on edges, some NaN.
            let value = |i: u64| match random_bits(i) % 64 {
                0 => f32::NAN,
                1 => f32::INFINITY,
                2 => high,
                3 => low,
                4..8 => low + (high - low) * ((random_bits(i) >> 8) % u64::from(count)) as f32 / count as f32,
                _ => low + (high - low) * (1.5 * (random_bits(i) >> 40) as f32 / (1u32 << 24) as f32 - 0.25),
            };
            let data: Vec<f32> = (0..n as u64).map(value).collect();
            let found = device
                .upload(&data)
                .and_then(|from| histogram.count(device.queue(), &from))
                .map_err(message)?;
            let expected = binned::binned_reference(&bins, &data);
            compare(n, &found, &expected)
                .map_err(|error| format!("{count} bins over [{low}, {high}): {error}"))?;
        }
        let equal = vec![low; 10_000];
        let found =
            device.upload(&equal).and_then(|from| histogram.count(device.queue(), &from)).map_err(message)?;
        compare(equal.len(), &found, &binned::binned_reference(&bins, &equal))?;
    }
    Ok(())
}

/// Compares the counts of an algorithm for bytes with the reference.
pub fn check_variant(device: &Device, variant: HistogramVariant) -> Result<(), String> {
    let histogram = RungHistogram::new(device, variant).map_err(message)?;
    let to = device.upload(&[1; super::BYTE_BINS]).map_err(message)?;
    for value in [|_| 200, |i| random_bits(i) as u8] {
        for n in edge_lengths() {
            let data: Vec<u8> = (0..n as u64).map(value).collect();
            let from = device.upload(&data).map_err(message)?;
            histogram.launch(device.queue(), &from, &to).map_err(message)?;
            compare(n, &to.to_vec().map_err(message)?, &histogram_reference(&data))?;
        }
    }
    Ok(())
}

/// Returns an error that names the first bin that no order of racing reads and writes can give.
/// Each write stores one more than a value that was read, so a count is at most the number of
/// increments, and at least 1 after the first.
fn check_racy(n: usize, found: &[u64], exact: &[u64]) -> Result<(), String> {
    let is_possible = |bin: &usize| (exact[*bin].min(1)..=exact[*bin]).contains(&found[*bin]);
    match (0..exact.len()).find(|bin| !is_possible(bin)) {
        None => Ok(()),
        Some(bin) => {
            let (found, exact) = (found[bin], exact[bin]);
            Err(format!("{n} letters, bin {bin}: found {found}, expected at most {exact}, at least 1 if any"))
        }
    }
}

/// Counts the sentence of the course, texts of random bytes and equal letters.
pub fn check_letters(device: &Device, rung: &LetterRung) -> Result<(), String> {
    let mut texts = vec![COURSE_TEXT.to_vec()];
    for n in [0, 1, 2, 255, 256, 257, 65_537] {
        texts.push((0..n).map(|i| random_bits(i) as u8).collect());
        texts.push((0..n).map(|i| b'a' + (random_bits(i) % 26) as u8).collect());
        texts.push(vec![b'z'; n as usize]);
    }
    // A GPU has more threads than the texts above have letters. In this one a thread of an H200 has
    // 15 or 16.
    if device.properties().kind == DeviceKind::Gpu {
        texts.push((0..(1 << 22) + 5).map(|i| b'a' + (random_bits(i) % 27) as u8).collect());
    }
    let to = device.upload(&[1; LETTER_BINS]).map_err(message)?;
    let histogram = LetterHistogram::new(device, rung.partition, rung.counting).map_err(message)?;
    for text in &texts {
        let from = device.upload(text).map_err(message)?;
        histogram.launch(device.queue(), &from, &to).map_err(message)?;
        let (found, exact) = (to.to_vec().map_err(message)?, letters_reference(text));
        // A single letter has no one to race with.
        if rung.counting == LetterCounting::Racy && text.len() > 1 {
            check_racy(text.len(), &found, &exact)?;
        } else {
            compare(text.len(), &found, &exact)?;
        }
    }
    Ok(())
}

/// Values on both sides of the limit of private bins, and all of them on either side.
fn compare_wide(device: &Device) -> Result<(), String> {
    let to = device.upload(&vec![1; WIDE_BINS]).map_err(message)?;
    for private_bins in [0, 1, 1000] {
        let histogram = WideHistogram::new(device, private_bins).map_err(message)?;
        for (n, bits) in [(0, 16), (1, 16), (1023, 11), (1025, 11), (100_001, 16), (100_001, 9)] {
            let data: Vec<u16> = (0..n).map(|i| (random_bits(i) % (1 << bits)) as u16).collect();
            let from = device.upload(&data).map_err(message)?;
            histogram.launch(device.queue(), &from, &to).map_err(message)?;
            compare(data.len(), &to.to_vec().map_err(message)?, &wide_reference(&data))
                .map_err(|error| format!("{private_bins} private bins: {error}"))?;
        }
    }
    Ok(())
}
