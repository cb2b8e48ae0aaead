//! Checks of the reads of shared memory on one device, for `orrery selftest` and the tests.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError};

use super::{BankPattern, BankReads, BankRung, LANES, read_reference};
use crate::ladder::check_rungs;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lab: banks {name}"), run };
    vec![check("read every pattern", check_rungs::<BankRung>), check("count cycles", cycle_counts)]
}

/// Compares the sums of a pattern with the reference.
pub fn check_pattern(device: &Device, pattern: BankPattern) -> Result<(), String> {
    for rounds in [0, 1, 2, 5] {
        let run = || -> Result<Vec<u32>, DeviceError> {
            let reads = BankReads::new(device, pattern)?;
            reads.launch(device.queue(), rounds)?;
            reads.sums()
        };
        let found = run().map_err(|error| error.to_string())?;
        let expected = read_reference(&pattern.words(), rounds as usize);
        if let Some(thread) = (0..found.len()).find(|thread| found[*thread] != expected[thread % LANES]) {
            let (found, expected) = (found[thread], expected[thread % LANES]);
            return Err(format!("{rounds} rounds, thread {thread}: got {found}, expected {expected}"));
        }
    }
    Ok(())
}

/// A warp needs at least one cycle per read. On a GPU with 32 banks, a stride of 32 needs at least
/// 32. Both limits hold at any clock rate and any load of the device.
fn cycle_counts(device: &Device) -> Result<(), String> {
    let rounds = 64;
    for pattern in [BankPattern::Stride(1), BankPattern::Stride(32)] {
        let run = || -> Result<Option<f64>, DeviceError> {
            let reads = BankReads::new(device, pattern)?;
            reads.launch(device.queue(), rounds)?;
            reads.cycles_per_read(rounds)
        };
        let Some(cycles) = run().map_err(|error| error.to_string())? else { return Ok(()) };
        // A few reads may still be in flight when the first clock is read.
        let least = 0.95 * pattern.conflict_factor() as f64;
        if cycles.is_nan() || cycles < least {
            return Err(format!("{pattern:?}: {cycles:.2} cycles per read, expected at least {least:.2}"));
        }
    }
    Ok(())
}
