//! Intervals of the host and of a device on one clock.
//!
//! An event has a time stamp of the device. The clock of the host and that of the device are
//! compared once: the host records an event in an idle queue and waits for it. The event happened
//! between both calls, so its time on the clock of the host is known to half of that time, about
//! 10 µs. Later events are timed relative to it.

use std::time::Instant;

use orrery_device::{DeviceError, Event, Queue};

use crate::ladder::{TimelineLane, TimelineSpan};

/// Number of comparisons of the clocks. The one with the shortest wait counts.
const COMPARISONS: usize = 8;

/// Clock of host and device, in seconds since its start.
#[derive(Debug)]
pub struct SharedClock {
    start: Instant,
    origin: Event,
    /// Time of `origin`.
    origin_seconds: f64,
}

impl SharedClock {
    /// Waits for the queue and compares the clocks.
    pub fn new(queue: &Queue) -> Result<Self, DeviceError> {
        queue.finish()?;
        let start = Instant::now();
        let compare = || -> Result<(f64, f64, Event), DeviceError> {
            let before = start.elapsed().as_secs_f64();
            let event = queue.record()?;
            event.wait()?;
            let after = start.elapsed().as_secs_f64();
            Ok((after - before, 0.5 * (before + after), event))
        };
        let mut best = compare()?;
        for _ in 1..COMPARISONS {
            let next = compare()?;
            if next.0 < best.0 {
                best = next;
            }
        }
        let (_, origin_seconds, origin) = best;
        Ok(Self { start, origin, origin_seconds })
    }

    /// Returns the current time.
    pub fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Waits for an event of the same device and returns its time.
    pub fn time_of(&self, event: &Event) -> Result<f64, DeviceError> {
        Ok(self.origin_seconds + event.seconds_since(&self.origin)?)
    }
}

/// Records calls of the host and the work that they queue. Without a clock it records nothing.
#[derive(Debug, Default)]
pub struct SpanRecorder {
    clock: Option<SharedClock>,
    calls: Vec<TimelineSpan>,
    work: Vec<QueuedWork>,
}

/// Work in a queue, between two events.
#[derive(Debug)]
struct QueuedWork {
    lane: usize,
    label: String,
    start: Event,
    end: Event,
}

impl SpanRecorder {
    /// Starts to record, with a clock that is compared in `queue`.
    pub fn new(queue: &Queue) -> Result<Self, DeviceError> {
        Ok(Self { clock: Some(SharedClock::new(queue)?), ..Self::default() })
    }

    /// Makes a call that adds work to `queue`, and records both under `label`. `lane` is the index
    /// of the queue.
    pub fn record(
        &mut self,
        lane: usize,
        queue: &Queue,
        label: &str,
        call: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let Some(clock) = &self.clock else { return call() };
        let (begin, start) = (clock.now(), queue.record()?);
        call()?;
        let end = queue.record()?;
        self.calls.push(TimelineSpan { label: label.to_owned(), start: begin, end: clock.now() });
        self.work.push(QueuedWork { lane, label: label.to_owned(), start, end });
        Ok(())
    }

    /// Records a call of the host that adds no work.
    pub fn record_call<T>(&mut self, label: &str, call: impl FnOnce() -> T) -> T {
        let Some(clock) = &self.clock else { return call() };
        let start = clock.now();
        let result = call();
        self.calls.push(TimelineSpan { label: label.to_owned(), start, end: clock.now() });
        result
    }

    /// Waits for the work and returns a lane of the host and one for each queue. The first span
    /// starts at 0. A span of a queue starts when the work before it is done, so it includes the
    /// wait for a copy engine that another queue uses.
    pub fn into_lanes(self, queue_names: &[String]) -> Result<Vec<TimelineLane>, DeviceError> {
        let mut lanes = vec![TimelineLane { name: "host".to_owned(), spans: self.calls }];
        for (lane, name) in queue_names.iter().enumerate() {
            let mut spans = Vec::new();
            for work in self.work.iter().filter(|work| work.lane == lane) {
                let Some(clock) = &self.clock else { continue };
                let (start, end) = (clock.time_of(&work.start)?, clock.time_of(&work.end)?);
                spans.push(TimelineSpan { label: work.label.clone(), start, end: end.max(start) });
            }
            lanes.push(TimelineLane { name: name.clone(), spans });
        }
        start_at_zero(&mut lanes);
        Ok(lanes)
    }
}

/// Moves all spans so that the first one starts at 0.
pub fn start_at_zero(lanes: &mut [TimelineLane]) {
    let starts = lanes.iter().flat_map(|lane| &lane.spans).map(|span| span.start);
    let first = starts.fold(f64::INFINITY, f64::min);
    for span in lanes.iter_mut().flat_map(|lane| &mut lane.spans) {
        span.start -= first;
        span.end -= first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_start_at_zero_and_keep_their_lengths() {
        let span = |start, end| TimelineSpan { label: String::new(), start, end };
        let mut lanes = [
            TimelineLane { name: String::new(), spans: vec![span(3.0, 4.0)] },
            TimelineLane { name: String::new(), spans: vec![span(2.5, 2.75), span(5.0, 7.0)] },
        ];
        start_at_zero(&mut lanes);
        assert_eq!((lanes[0].spans[0].start, lanes[0].spans[0].end), (0.5, 1.5));
        assert_eq!((lanes[1].spans[0].start, lanes[1].spans[1].end), (0.0, 4.5));
        start_at_zero(&mut []);
    }

    /// The device works after the call that queues it, and before the end of a wait for it.
    #[test]
    fn work_of_the_device_lies_between_the_calls_of_the_host() {
        for device in orrery_device::testing::test_devices() {
            let (queue, buffer) = (device.queue(), device.zeros::<u32>(1 << 20).unwrap());
            let mut pinned = device.pinned(1 << 20).unwrap();
            let mut recorder = SpanRecorder::new(queue).unwrap();
            recorder.record(0, queue, "copy", || queue.read_async(&buffer, &mut pinned).map(drop)).unwrap();
            recorder.record_call("wait", || queue.finish()).unwrap();
            let lanes = recorder.into_lanes(&["queue".to_owned()]).unwrap();
            let [host, on_device] = &lanes[..] else { panic!("{lanes:?}") };
            let (calls, copy) = (&host.spans, &on_device.spans[0]);
            assert_eq!((calls.len(), on_device.spans.len()), (2, 1));
            assert!(calls[0].start <= calls[0].end && calls[0].end <= calls[1].start, "{lanes:?}");
            assert!(copy.start <= copy.end, "{lanes:?}");
            // The clocks agree to about 10 µs, or much worse on a machine with more work than
            // cores. A comparison with the wrong origin would be off by the time since the start.
            assert!(copy.end <= calls[1].end + 0.1 && copy.start >= -0.1, "{lanes:?}");
        }
    }
}
