//! The number of steps between two checks of the caller's requests.
//!
//! A step of a small system may take microseconds, and several steps at once may be faster. A batch
//! takes as many steps as fit into [`BATCH_TIME`], so that the caller does not wait for long.

use std::time::Duration;

/// Time that a batch should take. A stop request is answered within about this time.
const BATCH_TIME: Duration = Duration::from_millis(50);
/// A batch has at most this many times the steps of the one before: the first steps of a process
/// may be faster or slower than the others.
const MAX_GROWTH: u64 = 4;

/// Length of the next batch, from the measured time of the last one.
#[derive(Clone, Copy, Debug)]
pub struct BatchLength {
    steps: u64,
}

impl Default for BatchLength {
    fn default() -> Self {
        Self { steps: 1 }
    }
}

impl BatchLength {
    /// Returns the number of steps of the next batch, for a system that takes `steps_per_pass`. It
    /// is a multiple of this number if it is larger.
    pub fn next(&self, steps_per_pass: u64) -> u64 {
        let pass = steps_per_pass.max(1);
        if self.steps > pass { self.steps - self.steps % pass } else { self.steps.max(1) }
    }

    /// Records that `steps` steps took `elapsed`.
    pub fn record(&mut self, steps: u64, elapsed: Duration) {
        let per_step = elapsed.as_secs_f64() / steps.max(1) as f64;
        let fitting = (BATCH_TIME.as_secs_f64() / per_step) as u64;
        // A batch that an output has cut short says nothing about longer ones.
        self.steps = fitting.clamp(1, self.steps.max(steps).saturating_mul(MAX_GROWTH));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_approach_their_time() {
        let mut length = BatchLength::default();
        let mut lengths = Vec::new();
        for _ in 0..7 {
            let steps = length.next(8);
            lengths.push(steps);
            length.record(steps, Duration::from_micros(100 * steps));
        }
        assert_eq!(lengths, [1, 4, 16, 64, 256, 496, 496], "500 steps take 50 ms");
        length.record(496, Duration::from_secs(10));
        assert_eq!(length.next(8), 2, "the system became slower");
        length.record(2, Duration::from_secs(10));
        assert_eq!(length.next(8), 1);
    }

    #[test]
    fn batches_that_are_cut_short_do_not_shrink_the_next_one() {
        let mut length = BatchLength { steps: 400 };
        length.record(3, Duration::from_micros(300));
        assert_eq!(length.next(1), 500);
        length.record(1, Duration::ZERO);
        assert_eq!(length.next(1), 2000, "a time of 0 does not give an endless batch");
    }
}
