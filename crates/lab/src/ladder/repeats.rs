//! Time budget of a rung: its number of timed runs.

use orrery_device::{Device, DeviceError};

use crate::timing::{self, Times};

/// Approximate time for all timed runs of a rung.
const SECONDS_PER_RUNG: f64 = 1.5;
/// Largest number of timed runs.
const MAX_REPEATS: f64 = 20.0;

/// Returns the number of timed runs for a rung whose run takes `run_seconds`.
pub fn repeat_count(run_seconds: f64) -> usize {
    (SECONDS_PER_RUNG / run_seconds).clamp(1.0, MAX_REPEATS) as usize
}

/// Measures the work that `queue_work` adds to the device's default queue.
pub fn time_rung_on_device(
    device: &Device,
    mut queue_work: impl FnMut() -> Result<(), DeviceError>,
) -> Result<Times, DeviceError> {
    let run_seconds = timing::time_once(device, &mut queue_work)?;
    timing::time_on_device(device, repeat_count(run_seconds), run_seconds, queue_work)
}

/// Measures `work` on the CPU.
pub fn time_rung_on_cpu<T>(mut work: impl FnMut() -> T) -> Times {
    let mut run = || drop(std::hint::black_box(work()));
    let run_seconds = timing::time_on_host(1, &mut run).median();
    timing::time_on_host(repeat_count(run_seconds), run)
}
