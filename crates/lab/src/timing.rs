//! Times, and how they are taken.
//!
//! On a device the marks lie in its own queue, so what is timed is the device and not the host's waiting; the
//! queue is filled ahead of it. Short work is timed several at a time: a mark costs about a microsecond.

use std::time::Instant;

use orrery_device::{Device, DeviceError};

/// At least one time, sorted.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Vec<f64>);

impl Times {
    fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self(seconds)
    }

    /// Half took longer.
    pub fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// The shortest.
    pub fn fastest(&self) -> f64 {
        self.0[0]
    }

    /// The longest.
    pub fn slowest(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// How many were taken.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Wall times of `repeats` runs, at least one, after one that is not counted.
pub fn on_host(repeats: usize, mut work: impl FnMut()) -> Times {
    work();
    let one = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    Times::of((0..repeats.max(1)).map(one).collect())
}

/// Marks closer than this are not told apart well.
const SHORTEST: f64 = 5e-4;
/// Runs between two marks at most.
const MOST_TOGETHER: f64 = 50.0;

/// Times of `repeats` runs of what `queue_work` queues on the device's own queue. `expected` is about what
/// one takes: from it follows how many are timed together.
pub fn on_device<E: From<DeviceError>>(
    device: &Device,
    repeats: usize,
    expected: f64,
    mut queue_work: impl FnMut() -> Result<(), E>,
) -> Result<Times, E> {
    let together = (SHORTEST / expected.max(1e-9)).ceil().clamp(1.0, MOST_TOGETHER);
    let queue = device.queue();
    let mut marks = vec![queue.record()?];
    for _ in 0..repeats.max(1) {
        for _ in 0..together as usize {
            queue_work()?;
        }
        marks.push(queue.record()?);
    }
    queue.finish()?;
    let between = |pair: &[_]| -> Result<f64, DeviceError> {
        let [earlier, later] = pair else { unreachable!("windows of two") };
        orrery_device::Event::seconds_since(later, earlier).map(|seconds| seconds / together)
    };
    Ok(Times::of(marks.windows(2).map(between).collect::<Result<_, _>>()?))
}

/// One run, waited for, after one that is not counted.
pub fn once<E: From<DeviceError>>(
    device: &Device,
    mut queue_work: impl FnMut() -> Result<(), E>,
) -> Result<f64, E> {
    queue_work()?;
    on_device(device, 1, 1.0, queue_work).map(|times| times.median())
}

/// Size of the first, careful try.
const FIRST_TRY: usize = 256;

/// The largest size up to `n` at which one run takes no more than about `limit` seconds, and its time there.
/// Found by trying ever larger ones: work grows at most as n², so that no try takes longer than the limit.
pub fn affordable<E>(
    n: usize,
    limit: f64,
    mut try_one: impl FnMut(usize) -> Result<f64, E>,
) -> Result<(usize, f64), E> {
    let mut size = n.min(FIRST_TRY);
    let mut seconds = try_one(size)?;
    while size < n {
        let room = (limit / seconds).sqrt();
        let larger = match n as f64 / size as f64 {
            whole if whole <= room.min(4.0) => n,
            _ if room >= 4.0 => 4 * size,
            _ if room >= 2.0 => 2 * size,
            _ => break,
        };
        size = larger;
        seconds = try_one(size)?;
    }
    Ok((size, seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let times = Times::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((times.fastest(), times.median(), times.slowest(), times.count()), (1.0, 2.0, 3.0, 3));
    }

    #[test]
    fn the_first_run_does_not_count() {
        let mut runs = 0;
        assert_eq!(on_host(4, || runs += 1).count(), 4);
        assert_eq!(runs, 5);
    }

    /// Work of `rate` pairs a second whatever the size.
    fn found(n: usize, rate: f64) -> (usize, f64, f64) {
        let mut spent = 0.0;
        let try_one = |size: usize| {
            let seconds = (size as f64).powi(2) / rate;
            spent += seconds;
            Ok::<_, DeviceError>(seconds)
        };
        let (size, seconds) = affordable(n, 0.5, try_one).unwrap();
        (size, seconds, spent)
    }

    #[test]
    fn slow_work_is_measured_small() {
        assert_eq!(found(65_536, 1e12).0, 65_536);
        assert_eq!(found(1000, 1e12).0, 1000);
        assert_eq!(found(1, 1e12).0, 1);
        // One GPU thread: about ten million pairs a second.
        assert_eq!(found(65_536, 1e7).0, 2048);
        for rate in [1e6, 1e7, 1e8, 1e9, 3e12] {
            let (size, seconds, spent) = found(1_000_003, rate);
            assert!(seconds <= 0.5 && (size == 1_000_003 || seconds > 0.12), "{rate:e}: {size}, {seconds}");
            assert!(spent < 0.85, "{rate:e}: {spent}");
        }
    }
}
