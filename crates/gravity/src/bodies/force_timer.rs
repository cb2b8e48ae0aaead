//! Times of force evaluations on a device, measured with events.
//!
//! An event costs about a microsecond of the host, so only a sample of the evaluations is measured.

use std::collections::VecDeque;
use std::time::Duration;

use orrery_device::{DeviceError, Event, Queue};

/// One of this many evaluations is measured.
const SAMPLE_INTERVAL: u64 = 16;

/// Sampled times of force evaluations.
#[derive(Default)]
pub struct ForceTimer {
    evaluations: u64,
    /// Events before and after measured evaluations that may not be done yet, oldest first.
    pending: VecDeque<(Event, Event)>,
    measured: u64,
    seconds: f64,
}

impl ForceTimer {
    /// Counts an evaluation. Returns the event before it if it is measured.
    pub fn start(&mut self, queue: &Queue) -> Result<Option<Event>, DeviceError> {
        let is_measured = self.evaluations.is_multiple_of(SAMPLE_INTERVAL);
        self.evaluations += 1;
        is_measured.then(|| queue.record()).transpose()
    }

    /// Ends a measured evaluation.
    pub fn end(&mut self, queue: &Queue, start: Event) -> Result<(), DeviceError> {
        self.pending.push_back((start, queue.record()?));
        while let Some((_, end)) = self.pending.front()
            && end.is_done()?
        {
            self.take_oldest();
        }
        Ok(())
    }

    /// Returns the time of all evaluations, extrapolated from the measured ones. Waits for these.
    pub fn total(&mut self) -> Duration {
        while !self.pending.is_empty() {
            self.take_oldest();
        }
        let mean = if self.measured == 0 { 0.0 } else { self.seconds / self.measured as f64 };
        Duration::try_from_secs_f64(mean * self.evaluations as f64).unwrap_or_default()
    }

    /// Adds the oldest measurement. One that fails is ignored: the next use of the queue reports
    /// the error.
    fn take_oldest(&mut self) {
        if let Some((start, end)) = self.pending.pop_front()
            && let Ok(seconds) = end.seconds_since(&start)
        {
            self.seconds += seconds;
            self.measured += 1;
        }
    }
}
