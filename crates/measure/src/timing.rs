//! Timing of work on the host and on devices.
//!
//! On a device, events in the device's queue mark the start and end of the work. The host fills the
//! queue ahead of the device, so host delays are not part of the time. An event costs about a
//! microsecond, so short work is timed several runs at a time.

use std::time::Instant;

use orrery_device::{Device, DeviceError};

/// Run times in seconds, sorted ascending. There is at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Vec<f64>);

impl Times {
    /// Sorts `seconds`, which must not be empty.
    pub fn from_seconds(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self(seconds)
    }

    /// Returns the times of one of `parts` equal parts of a run.
    pub fn divided_by(mut self, parts: f64) -> Self {
        self.0.iter_mut().for_each(|seconds| *seconds /= parts);
        self
    }

    /// Returns the median. Of an even number of times it is the upper one of the middle two.
    pub fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// Returns the shortest time.
    pub fn fastest(&self) -> f64 {
        self.0[0]
    }

    /// Returns the longest time.
    pub fn slowest(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// Returns the number of timed runs.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Measures the wall-clock times of `repeats` runs, at least one, after one untimed run.
///
/// ```
/// use orrery_measure::timing::time_on_host;
///
/// let numbers = vec![1.0f64; 1000];
/// let times = time_on_host(5, || {
///     std::hint::black_box(numbers.iter().sum::<f64>());
/// });
/// assert_eq!(times.count(), 5);
/// assert!(times.fastest() <= times.median() && times.median() <= times.slowest());
/// ```
pub fn time_on_host(repeats: usize, mut work: impl FnMut()) -> Times {
    work();
    let time_run = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    Times::from_seconds((0..repeats.max(1)).map(time_run).collect())
}

/// Events closer together than this, in seconds, give inaccurate times.
const MIN_EVENT_DISTANCE: f64 = 5e-4;
/// Largest number of runs between two events.
const MAX_RUNS_PER_EVENT: f64 = 50.0;

/// Measures `repeats` runs of the work that `queue_work` adds to the device's default queue.
/// `expected_seconds` is the approximate time of one run. It determines how many runs lie between
/// two events.
pub fn time_on_device<E: From<DeviceError>>(
    device: &Device,
    repeats: usize,
    expected_seconds: f64,
    mut queue_work: impl FnMut() -> Result<(), E>,
) -> Result<Times, E> {
    let runs_per_event =
        (MIN_EVENT_DISTANCE / expected_seconds.max(1e-9)).ceil().clamp(1.0, MAX_RUNS_PER_EVENT);
    let queue = device.queue();
    let mut events = vec![queue.record()?];
    for _ in 0..repeats.max(1) {
        for _ in 0..runs_per_event as usize {
            queue_work()?;
        }
        events.push(queue.record()?);
    }
    queue.finish()?;
    let seconds_per_run = |pair: &[_]| -> Result<f64, DeviceError> {
        let [earlier, later] = pair else { unreachable!("windows of two") };
        orrery_device::Event::seconds_since(later, earlier).map(|seconds| seconds / runs_per_event)
    };
    Ok(Times::from_seconds(events.windows(2).map(seconds_per_run).collect::<Result<_, _>>()?))
}

/// Measures a single run on a device, after one untimed run, and waits for it.
pub fn time_once<E: From<DeviceError>>(
    device: &Device,
    mut queue_work: impl FnMut() -> Result<(), E>,
) -> Result<f64, E> {
    queue_work()?;
    time_on_device(device, 1, 1.0, queue_work).map(|times| times.median())
}

/// First problem size that [`largest_affordable_size`] tries.
const FIRST_SIZE: usize = 256;

/// Returns the largest size up to `n` at which one run takes at most about `limit_seconds`, and its
/// time.
///
/// Tries increasing sizes. The work may grow at most as n², so no try takes longer than the limit.
/// For example, a kernel that computes 1e7 pairs per second is measured with 2,048 bodies under a
/// limit of 0.5 s.
pub fn largest_affordable_size<E>(
    n: usize,
    limit_seconds: f64,
    mut time_size: impl FnMut(usize) -> Result<f64, E>,
) -> Result<(usize, f64), E> {
    let mut size = n.min(FIRST_SIZE);
    let mut seconds = time_size(size)?;
    while size < n {
        let max_factor = (limit_seconds / seconds).sqrt();
        let larger = match n as f64 / size as f64 {
            to_n if to_n <= max_factor.min(4.0) => n,
            _ if max_factor >= 4.0 => 4 * size,
            _ if max_factor >= 2.0 => 2 * size,
            _ => break,
        };
        size = larger;
        seconds = time_size(size)?;
    }
    Ok((size, seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_of_the_sorted_times() {
        let times = Times::from_seconds(vec![3.0, 1.0, 2.0]);
        assert_eq!((times.fastest(), times.median(), times.slowest(), times.count()), (1.0, 2.0, 3.0, 3));
    }

    #[test]
    fn first_run_is_not_timed() {
        let mut runs = 0;
        assert_eq!(time_on_host(4, || runs += 1).count(), 4);
        assert_eq!(runs, 5);
    }

    /// Returns the size found for work of `rate` pairs per second, its time, and the time of all
    /// tries.
    fn size_at_rate(n: usize, rate: f64) -> (usize, f64, f64) {
        let mut total = 0.0;
        let time_size = |size: usize| {
            let seconds = (size as f64).powi(2) / rate;
            total += seconds;
            Ok::<_, DeviceError>(seconds)
        };
        let (size, seconds) = largest_affordable_size(n, 0.5, time_size).unwrap();
        (size, seconds, total)
    }

    #[test]
    fn slow_work_is_measured_at_a_smaller_size() {
        assert_eq!(size_at_rate(65_536, 1e12).0, 65_536);
        assert_eq!(size_at_rate(1000, 1e12).0, 1000);
        assert_eq!(size_at_rate(1, 1e12).0, 1);
        // A single GPU thread computes about ten million pairs per second.
        assert_eq!(size_at_rate(65_536, 1e7).0, 2048);
        for rate in [1e6, 1e7, 1e8, 1e9, 3e12] {
            let (size, seconds, total) = size_at_rate(1_000_003, rate);
            assert!(seconds <= 0.5 && (size == 1_000_003 || seconds > 0.12), "{rate:e}: {size}, {seconds}");
            assert!(total < 0.85, "{rate:e}: {total}");
        }
    }
}
