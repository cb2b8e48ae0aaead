//! Time budget of a rung: its number of timed runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_measure::timing::{self, Times};

use crate::rungs::gravity::ThreadCount;

/// Approximate time for all timed runs of a rung.
const SECONDS_PER_RUNG: f64 = 1.5;
/// The same if the device is the CPU through OpenCL, where compiling the kernels takes most of the
/// time. CPU time on PoCL 3.1 and two busy cores with 1.5 s and the earlier sizes, and with 0.2 s:
/// `reduce` 39 and 19 s, `tree` 63 and 43 s (`time orrery ladder tree --device opencl`, empty
/// caches).
const SECONDS_PER_RUNG_OF_CPU_DEVICE: f64 = 0.2;
/// Longest time of a single run. Slower rungs are measured with smaller problems.
const MAX_RUN_SECONDS: f64 = 0.5;
/// The same if the device is the CPU through OpenCL.
const MAX_RUN_SECONDS_OF_CPU_DEVICE: f64 = 0.1;
/// Whether the device of the ladder is a CPU. A process measures the ladders of one device.
static IS_CPU_DEVICE: AtomicBool = AtomicBool::new(false);
/// Largest number of timed runs. Unit tests do not check times.
const MAX_REPEATS: f64 = if cfg!(test) { 1.0 } else { 20.0 };

/// Number of timed runs of work that has its own budget: one in unit tests.
pub const TEST_REPEATS: Option<usize> = if cfg!(test) { Some(1) } else { None };

/// Sets the time budget of all rungs for ladders on this device.
pub fn set_budget(device: Option<&Device>) {
    IS_CPU_DEVICE.store(device.is_some_and(is_cpu), Ordering::Relaxed);
}

/// Returns the longest time of a single run, in seconds.
pub fn max_run_seconds() -> f64 {
    if has_cpu_device() { MAX_RUN_SECONDS_OF_CPU_DEVICE } else { MAX_RUN_SECONDS }
}

fn has_cpu_device() -> bool {
    IS_CPU_DEVICE.load(Ordering::Relaxed)
}

/// Whether a device is a CPU through OpenCL, such as PoCL.
pub fn is_cpu(device: &Device) -> bool {
    device.properties().kind == DeviceKind::Cpu
}

/// Returns the number of timed runs for a rung whose run takes `run_seconds`.
pub fn repeat_count(run_seconds: f64) -> usize {
    let budget = if has_cpu_device() { SECONDS_PER_RUNG_OF_CPU_DEVICE } else { SECONDS_PER_RUNG };
    (budget / run_seconds).clamp(1.0, MAX_REPEATS) as usize
}

/// Measures the work that `queue_work` adds to the device's default queue.
pub fn time_rung_on_device<E: From<DeviceError>>(
    device: &Device,
    mut queue_work: impl FnMut() -> Result<(), E>,
) -> Result<Times, E> {
    let run_seconds = timing::time_once(device, &mut queue_work)?;
    match repeat_count(run_seconds) {
        1 => Ok(Times::from_seconds(vec![run_seconds])),
        repeats => timing::time_on_device(device, repeats, run_seconds, queue_work),
    }
}

/// Measures `repeats` runs of such work for a point of a sweep.
pub fn time_point(
    device: &Device,
    repeats: usize,
    mut queue_work: impl FnMut() -> Result<(), DeviceError>,
) -> Result<Times, DeviceError> {
    let run_seconds = timing::time_once(device, &mut queue_work)?;
    if cfg!(test) {
        return Ok(Times::from_seconds(vec![run_seconds]));
    }
    timing::time_on_device(device, repeats, run_seconds, queue_work)
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

/// Builds a pool of one thread or of as many threads as the current pool has.
pub fn build_thread_pool(threads: ThreadCount) -> Result<rayon::ThreadPool, MeasureError> {
    let threads = match threads {
        ThreadCount::One => 1,
        ThreadCount::All => rayon::current_num_threads(),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|e| MeasureError::Threads { threads, cause: e.to_string() })
}
