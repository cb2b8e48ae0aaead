//! Reports the events of a run, and waits for storage that failed if the case says so with
//! `output.on_error = "wait"`.

use std::time::{Duration, Instant};

use orrery_cluster::{RankTimes, Traffic};

use crate::case::OnError;
use crate::control::{Control, RunEvent};
use crate::error::EngineError;
use crate::pipeline::WorkerTimes;
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
    created: Instant,
    times: RunTimes,
    /// Times of this rank during steps.
    rank_times: RankTimes,
}

/// Start of an activity.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    started: Instant,
    /// Total pause until then.
    waited: Duration,
    traffic: Traffic,
}

/// Wall time of a run by activity.
///
/// The activities of the run loop, from `steps` to `waiting`, follow one another. A device computes
/// in the background: steps that it has not finished when an output needs the state count as that
/// output.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTimes {
    /// Time before the first step: initial state, device, kernels, first files.
    pub startup: Duration,
    /// Steps.
    pub steps: Duration,
    /// Force evaluations, `None` for a system that has no separate forces.
    pub forces: Option<Duration>,
    /// Whether a device computes. Its forces are in parallel to the run loop. On the CPU they are a
    /// part of the steps.
    pub is_on_device: bool,
    /// Measuring the rows of the table.
    pub table: Duration,
    /// Copying the state for snapshots.
    pub snapshots: Duration,
    /// Copying the data of images.
    pub images: Duration,
    /// Observers of the caller.
    pub observers: Duration,
    /// Waiting for the workers that write the output.
    pub output_wait: Duration,
    /// Plots at the end of the run.
    pub plots: Duration,
    /// Checkpoints.
    pub checkpoints: Duration,
    /// Pauses until the storage worked again.
    pub waiting: Duration,
    /// Time of the workers, in parallel to the run loop.
    pub workers: WorkerTimes,
}

impl RunTimes {
    /// Returns the activities of the run loop with their names. Their sum is the time of the run.
    pub fn activities(&self) -> Vec<(&'static str, Duration)> {
        let mut activities = match self.forces {
            Some(forces) if !self.is_on_device => {
                vec![("forces", forces), ("integration", self.steps.saturating_sub(forces))]
            }
            _ => vec![("steps", self.steps)],
        };
        activities.extend([
            ("table", self.table),
            ("snapshots", self.snapshots),
            ("images", self.images),
            ("observers", self.observers),
            ("output wait", self.output_wait),
            ("plots", self.plots),
            ("checkpoints", self.checkpoints),
            ("storage wait", self.waiting),
        ]);
        activities
    }

    /// Returns the time that the run loop spent on output.
    pub fn output(&self) -> Duration {
        self.table + self.snapshots + self.images + self.observers + self.output_wait + self.plots
    }
}

impl<'a> Reporter<'a> {
    pub fn new(
        control: &'a Control,
        on_error: OnError,
        report: impl FnMut(RunEvent<'_>) + Send + 'a,
    ) -> Self {
        Self {
            control,
            report: Box::new(report),
            on_error,
            created: Instant::now(),
            times: RunTimes::default(),
            rank_times: RankTimes::default(),
        }
    }

    /// Returns the requests of the caller.
    pub fn control(&self) -> &'a Control {
        self.control
    }

    /// Returns the time since the run was set up.
    pub fn age(&self) -> Duration {
        self.created.elapsed()
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

    /// Returns a timer for [`Reporter::worked_since`].
    pub fn start_timer(&self) -> Timer {
        Timer { started: Instant::now(), waited: self.times.waiting, traffic: self.traffic() }
    }

    fn traffic(&self) -> Traffic {
        self.control.ranks.team().transport().traffic()
    }

    /// Returns the time since the timer was started, without the time spent waiting for storage.
    pub fn worked_since(&self, timer: Timer) -> Duration {
        timer.started.elapsed().saturating_sub(self.times.waiting.saturating_sub(timer.waited))
    }

    /// Counts the time since the timer was started as steps, and returns it.
    pub fn count_steps(&mut self, timer: Timer) -> Duration {
        let elapsed = self.worked_since(timer);
        self.rank_times.add(&RankTimes::new(elapsed, &self.traffic().since(&timer.traffic)));
        self.times.steps += elapsed;
        elapsed
    }

    /// Returns the times of rank 0 during its steps.
    pub fn rank_times(&self) -> RankTimes {
        self.rank_times
    }

    /// Counts the time since the timer was started as a checkpoint, except for the time `waited`
    /// for workers. Returns all of it.
    pub fn count_checkpoint(&mut self, timer: Timer, waited: Duration) -> Duration {
        let elapsed = self.worked_since(timer);
        self.times.checkpoints += elapsed.saturating_sub(waited);
        elapsed
    }

    /// Counts the time since the timer was started as plots.
    pub fn count_plots(&mut self, timer: Timer) {
        self.times.plots += self.worked_since(timer);
    }

    /// Returns the time spent so far. That of the observers is not included.
    pub fn times(&self) -> RunTimes {
        self.times
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
