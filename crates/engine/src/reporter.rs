//! Reports the events of a run, and waits for storage that failed if the case says so with
//! `output.on_error = "wait"`.

use std::time::{Duration, Instant};

use crate::case::OnError;
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::system::ReportFn;

/// Pause before the first retry. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two retries.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// During a pause, stop requests are checked this often.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The caller of a run: its requests, and the function that gets the events.
pub struct Reporter<'a> {
    control: &'a Control,
    report: Box<ReportFn<'a>>,
    /// Reaction to a storage error.
    on_error: OnError,
    times: RunTimes,
}

/// Wall time of a run by activity.
///
/// A device computes in the background. Steps that it has not finished when an output needs the
/// state count as output.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTimes {
    /// Steps.
    pub steps: Duration,
    /// Images, snapshots, plots and the table.
    pub output: Duration,
    /// Checkpoints.
    pub checkpoints: Duration,
    /// Pauses until the storage worked again.
    pub waiting: Duration,
}

impl<'a> Reporter<'a> {
    pub fn new(
        control: &'a Control,
        on_error: OnError,
        report: impl FnMut(RunEvent<'_>) + Send + 'a,
    ) -> Self {
        Self { control, report: Box::new(report), on_error, times: RunTimes::default() }
    }

    /// Returns the requests of the caller.
    pub fn control(&self) -> &'a Control {
        self.control
    }

    /// Sets the reaction to a storage error, once the case of a resumed run is known.
    pub fn set_on_error(&mut self, on_error: OnError) {
        self.on_error = on_error;
    }

    /// Returns the function that gets the events.
    pub fn report_fn(&mut self) -> &mut ReportFn<'a> {
        self.report.as_mut()
    }

    /// Reports an event.
    pub fn report(&mut self, event: RunEvent<'_>) {
        (self.report)(event);
    }

    /// Returns a timer for [`Reporter::worked_since`]: the time now, and the total pause until now.
    pub fn start_timer(&self) -> (Instant, Duration) {
        (Instant::now(), self.times.waiting)
    }

    /// Returns the time since the timer was started, without the time spent waiting for storage.
    pub fn worked_since(&self, (started, waited): (Instant, Duration)) -> Duration {
        started.elapsed().saturating_sub(self.times.waiting.saturating_sub(waited))
    }

    /// Counts the time since the timer was started as steps, and returns it.
    pub fn count_steps(&mut self, timer: (Instant, Duration)) -> Duration {
        let elapsed = self.worked_since(timer);
        self.times.steps += elapsed;
        elapsed
    }

    /// Counts the time since the timer was started as a checkpoint, and returns it.
    pub fn count_checkpoint(&mut self, timer: (Instant, Duration)) -> Duration {
        let elapsed = self.worked_since(timer);
        self.times.checkpoints += elapsed;
        elapsed
    }

    /// Returns the time spent so far.
    pub fn times(&self) -> RunTimes {
        self.times
    }

    /// Calls `attempt`, which writes output, like [`Reporter::retry`], and counts its time.
    pub fn write_output<T>(
        &mut self,
        mut attempt: impl FnMut() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let timer = self.start_timer();
        let outcome = self.retry(|_| attempt());
        self.times.output += self.worked_since(timer);
        outcome
    }

    /// Calls `attempt`, which may fail because of the storage. With [`OnError::Wait`], repeats it
    /// until it succeeds, and reports each pause and the recovery.
    pub fn retry<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut pause = FIRST_PAUSE;
        let mut waited = false;
        loop {
            match attempt(self) {
                // Do not retry while a stop is requested: the retry loop would never end.
                Err(error)
                    if error.is_storage_error()
                        && self.on_error == OnError::Wait
                        && !self.control.must_stop_waiting() =>
                {
                    self.report(RunEvent::WaitingForStorage { error: &error, pause });
                    self.times.waiting += pause;
                    let until = Instant::now() + pause;
                    while Instant::now() < until && !self.control.must_stop_waiting() {
                        let left = until.saturating_duration_since(Instant::now());
                        std::thread::sleep(POLL_INTERVAL.min(left));
                    }
                    pause = (2 * pause).min(MAX_PAUSE);
                    waited = true;
                }
                outcome => {
                    if waited && outcome.is_ok() {
                        self.report(RunEvent::StorageRecovered);
                    }
                    return outcome;
                }
            }
        }
    }
}
