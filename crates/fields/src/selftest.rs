//! Parts of self-tests that all equations share.

use orrery_device::testing::SplitMix64;
use orrery_device::{Device, DeviceError};

use crate::Scalar;

/// Runs a check in f64, if the device has f64.
pub(crate) fn with_f64(device: &Device, run: fn(&Device) -> Result<(), String>) -> Result<(), String> {
    if device.properties().has_f64 { run(device) } else { Ok(()) }
}

/// Returns the message of an error.
pub(crate) fn message(error: DeviceError) -> String {
    error.to_string()
}

/// Returns `n` random numbers between `low` and `high`.
pub(crate) fn random_numbers(random: &mut SplitMix64, n: usize, [low, high]: [f64; 2]) -> Vec<f64> {
    let fraction = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
    (0..n).map(|_| low + (high - low) * fraction(random.next_bits())).collect()
}

/// Fails if two arrays differ in a bit. `place` describes the place of an index, for example its
/// node.
pub(crate) fn compare_bits<R: Scalar>(
    name: &str,
    found: &[R],
    expected: &[R],
    place: impl Fn(usize) -> String,
) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{name}: got {} values, expected {}", found.len(), expected.len()));
    }
    let bits = |value: R| value.to_f64().to_bits();
    match (0..expected.len()).find(|&index| bits(found[index]) != bits(expected[index])) {
        Some(index) => {
            let (found, expected) = (found[index], expected[index]);
            Err(format!("{name}: {} is {found}, expected {expected}", place(index)))
        }
        None => Ok(()),
    }
}
