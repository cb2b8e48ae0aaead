//! Time budget of a rung: its number of timed runs.

use std::time::Instant;

use orrery_device::{Device, DeviceError};

use crate::timing::{self, Times};

/// Approximate time for all timed runs of a rung. Unit tests do not check times.
const SECONDS_PER_RUNG: f64 = if cfg!(test) { 0.05 } else { 1.5 };
/// Largest number of timed runs.
const MAX_REPEATS: f64 = if cfg!(test) { 3.0 } else { 20.0 };

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

/// Measures work that waits for the device, with the clock of the host. The first run is not timed.
pub fn time_waiting_rung<E>(mut work: impl FnMut() -> Result<(), E>) -> Result<Times, E> {
    time_prepared_rung(&mut (), |_| Ok(()), |_| work())
}

/// Does the same with a preparation of `state` before each run, which is not timed.
pub fn time_prepared_rung<S, E>(
    state: &mut S,
    mut prepare: impl FnMut(&mut S) -> Result<(), E>,
    mut work: impl FnMut(&mut S) -> Result<(), E>,
) -> Result<Times, E> {
    prepare(state)?;
    work(state)?;
    let mut time_run = || {
        prepare(state)?;
        let start = Instant::now();
        work(state)?;
        Ok(start.elapsed().as_secs_f64())
    };
    let first = time_run()?;
    let mut seconds = vec![first];
    for _ in 1..repeat_count(first) {
        seconds.push(time_run()?);
    }
    Ok(Times::from_seconds(seconds))
}

/// Measures `work` on the CPU.
pub fn time_rung_on_cpu<T>(mut work: impl FnMut() -> T) -> Times {
    let mut run = || drop(std::hint::black_box(work()));
    let run_seconds = timing::time_on_host(1, &mut run).median();
    timing::time_on_host(repeat_count(run_seconds), run)
}
