//! Output in worker threads, while the run computes further steps.
//!
//! The run loop submits jobs, which contain copies of the state. A job is prepared by any worker,
//! several jobs at a time: this renders and encodes. Then it is committed: this writes files.
//!
//! Invariants: jobs are committed one after another, in the order in which they were submitted. So
//! at any time the files are those of a run without workers, at an earlier step. After
//! [`Pipeline::drain`] all jobs are committed. The jobs that wait have at most [`CAPACITY`] bytes
//! and take about [`MAX_BACKLOG`], or there are only as many as keep the workers busy. So a run
//! that stops does not wait long for its output. A job that failed stays first in the queue until a
//! later attempt succeeds.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::EngineError;

/// Largest number of workers. Each of them may need the memory of one image.
const MAX_WORKERS: usize = 16;
/// Largest number of jobs that wait for one worker.
const JOBS_PER_WORKER: usize = 4;
/// Largest number of bytes of all jobs that wait. A single job may have more.
const CAPACITY: u64 = 512 << 20;
/// Longest time that the jobs that wait may take, as far as it is known.
const MAX_BACKLOG: Duration = Duration::from_millis(300);

/// Work that writes output.
pub trait Job: Send {
    /// Computes what does not depend on earlier jobs. After an error it may be called again.
    fn prepare(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Writes the files. After an error it may be called again.
    fn commit(&mut self) -> Result<(), EngineError>;

    /// Returns true if the job takes less time than waking a worker, for example for one row of a
    /// table. It then runs in the calling thread if no other job waits.
    fn is_short(&self) -> bool {
        false
    }
}

/// Queue of jobs with its workers. Without workers, jobs run at once in the calling thread.
pub struct Pipeline {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Time that the calling thread has waited for workers.
    waited: Duration,
}

/// Time that the jobs took in all workers, which may be longer than the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerTimes {
    /// Drawing and encoding.
    pub prepare: Duration,
    /// Writing files.
    pub commit: Duration,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Notified when a worker may have work.
    has_work: Condvar,
    /// Notified when a job was prepared, was committed or failed.
    has_result: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Jobs in the order of submission.
    entries: VecDeque<Entry>,
    /// Number of the first entry.
    first: u64,
    bytes: u64,
    /// Committed jobs without [`Job::is_short`].
    long_count: u64,
    is_committing: bool,
    /// Error of the first entry, until the caller takes it.
    failure: Option<EngineError>,
    /// True from a failure until the caller tries again. No job is committed meanwhile.
    is_halted: bool,
    is_closed: bool,
    /// Payload of a panic in a job, which ends the run.
    panic: Option<Box<dyn Any + Send>>,
    times: WorkerTimes,
}

struct Entry {
    bytes: u64,
    is_short: bool,
    stage: Stage,
}

enum Stage {
    Submitted(Box<dyn Job>),
    /// A worker has the job.
    InWork,
    Prepared(Box<dyn Job>),
    /// [`Job::prepare`] failed.
    Failed(Box<dyn Job>, EngineError),
}

impl Pipeline {
    /// Creates a pipeline with a worker per thread of the run. A run with one thread gets none.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            has_work: Condvar::new(),
            has_result: Condvar::new(),
        });
        let count = if threads > 1 { threads.min(MAX_WORKERS) } else { 0 };
        let start = |index: usize| {
            let shared = shared.clone();
            std::thread::Builder::new().name(format!("output-{index}")).spawn(move || shared.work())
        };
        // A system that allows no further thread still gets its output, in the calling thread.
        let workers = (0..count).map_while(|index| start(index).ok()).collect();
        Self { shared, workers, waited: Duration::ZERO }
    }

    /// Adds a job that holds `bytes` bytes of data. It must be possible: see
    /// [`Pipeline::make_room`].
    pub fn submit(&mut self, bytes: u64, job: Box<dyn Job>) {
        let mut queue = self.shared.lock();
        let is_short = job.is_short();
        let runs_here = self.workers.is_empty() || (is_short && queue.entries.is_empty());
        queue.entries.push_back(Entry { bytes, is_short, stage: Stage::Submitted(job) });
        queue.bytes += bytes;
        if !runs_here {
            drop(queue);
            self.shared.has_work.notify_one();
            return;
        }
        let started = Instant::now();
        let mut has_worked = true;
        while has_worked && !queue.entries.is_empty() {
            (queue, has_worked) = self.shared.work_once(queue);
        }
        drop(queue);
        self.waited += started.elapsed();
    }

    /// Waits until a job with `bytes` bytes may be submitted. An error is that of an earlier job,
    /// which the next call tries again.
    pub fn make_room(&mut self, bytes: u64) -> Result<(), EngineError> {
        let workers = self.workers.len().max(1);
        let most = JOBS_PER_WORKER * workers;
        self.settle(|queue| {
            queue.entries.is_empty()
                || (queue.bytes.saturating_add(bytes) <= CAPACITY
                    && queue.entries.len() < most
                    && queue.allows_more(workers))
        })
    }

    /// Waits until all jobs are committed. An error is that of the first remaining job, which the
    /// next call tries again.
    pub fn drain(&mut self) -> Result<(), EngineError> {
        self.settle(|queue| queue.entries.is_empty())
    }

    /// Returns the error of a job that failed since the last call, without waiting for others. If
    /// the last call returned an error, waits for the result of another attempt.
    pub fn check(&mut self) -> Result<(), EngineError> {
        let halted_at = {
            let queue = self.shared.lock();
            (queue.is_halted && queue.failure.is_none()).then_some(queue.first)
        };
        self.settle(|queue| halted_at.is_none_or(|first| queue.first > first))
    }

    /// Returns the time that the calling thread has waited for workers, or has worked itself.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns about the time until all jobs are committed, from the mean time of the jobs so far.
    pub fn backlog(&self) -> Duration {
        let Load { preparing, committing } = self.shared.lock().load(self.workers.len().max(1));
        preparing + committing
    }

    /// Returns the time that the jobs took.
    pub fn worker_times(&self) -> WorkerTimes {
        self.shared.lock().times
    }

    /// Waits until `is_done` holds or a job fails. Halted jobs are tried again.
    fn settle(&mut self, is_done: impl Fn(&Queue) -> bool) -> Result<(), EngineError> {
        let started = Instant::now();
        let mut queue = self.shared.lock();
        if queue.is_halted && queue.failure.is_none() {
            queue.is_halted = false;
            self.shared.has_work.notify_all();
        }
        let outcome = loop {
            if let Some(payload) = queue.panic.take() {
                drop(queue);
                resume_unwind(payload);
            }
            if let Some(error) = queue.failure.take() {
                break Err(error);
            }
            if is_done(&queue) {
                break Ok(());
            }
            if self.workers.is_empty() {
                queue = self.shared.work_once(queue).0;
                continue;
            }
            queue = self.shared.has_result.wait(queue).unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        self.waited += started.elapsed();
        outcome
    }
}

impl Drop for Pipeline {
    /// Ends the workers. Jobs that were not committed are dropped: the run was stopped by an error.
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.is_closed = true;
        drop(queue);
        self.shared.has_work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has already printed its message.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// Locks the queue. No thread panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the pipeline is closed.
    fn work(&self) {
        let mut queue = self.lock();
        while !queue.is_closed {
            let has_worked;
            (queue, has_worked) = self.work_once(queue);
            if !has_worked && !queue.is_closed {
                queue = self.has_work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Commits the first job if it is prepared, or else prepares a job. Returns false if there is
    /// nothing to do.
    fn work_once<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> (MutexGuard<'a, Queue>, bool) {
        if let Some(job) = queue.take_first_to_commit() {
            drop(queue);
            return (self.commit(job), true);
        }
        if queue.failure.is_some() {
            self.has_result.notify_all();
        }
        if let Some((number, job)) = queue.take_next_to_prepare() {
            drop(queue);
            return (self.prepare(number, job), true);
        }
        (queue, false)
    }

    /// Calls a function of a job. A panic is an error that no attempt can repair, and the calling
    /// thread of the run panics with it.
    fn catch_panic(&self, call: impl FnOnce() -> Result<(), EngineError>) -> Option<Result<(), EngineError>> {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(outcome) => Some(outcome),
            Err(payload) => {
                let mut queue = self.lock();
                queue.panic = Some(payload);
                queue.is_halted = true;
                self.has_result.notify_all();
                None
            }
        }
    }

    fn commit(&self, mut job: Box<dyn Job>) -> MutexGuard<'_, Queue> {
        let started = Instant::now();
        let Some(outcome) = self.catch_panic(|| job.commit()) else { return self.lock() };
        let elapsed = started.elapsed();
        let mut queue = self.lock();
        queue.times.commit += elapsed;
        queue.is_committing = false;
        match outcome {
            Ok(()) => {
                if let Some(entry) = queue.entries.pop_front() {
                    queue.bytes -= entry.bytes;
                    queue.long_count += u64::from(!entry.is_short);
                }
                queue.first += 1;
            }
            Err(error) => {
                queue.entries[0].stage = Stage::Prepared(job);
                queue.fail(error);
            }
        }
        self.has_result.notify_all();
        self.has_work.notify_one();
        queue
    }

    fn prepare(&self, number: u64, mut job: Box<dyn Job>) -> MutexGuard<'_, Queue> {
        let started = Instant::now();
        let Some(outcome) = self.catch_panic(|| job.prepare()) else { return self.lock() };
        let elapsed = started.elapsed();
        let mut queue = self.lock();
        queue.times.prepare += elapsed;
        let index = (number - queue.first) as usize;
        queue.entries[index].stage = match outcome {
            Ok(()) => Stage::Prepared(job),
            Err(error) => Stage::Failed(job, error),
        };
        self.has_result.notify_all();
        queue
    }
}

/// About the time that the waiting jobs take.
struct Load {
    /// In all workers at the same time.
    preparing: Duration,
    /// One after the other.
    committing: Duration,
}

impl Queue {
    /// Returns the number of waiting jobs that are not short, and of those that are not prepared.
    fn long_jobs(&self) -> (usize, usize) {
        let long = |skipped| self.entries.iter().skip(skipped).filter(|entry| !entry.is_short);
        let unprepared = long(usize::from(self.is_committing));
        let unprepared = unprepared.filter(|entry| !matches!(entry.stage, Stage::Prepared(_)));
        (long(0).count(), unprepared.count())
    }

    /// Returns the load of this number of workers, from the mean times of the jobs so far. Short
    /// jobs count as nothing.
    fn load(&self, workers: usize) -> Load {
        let (waiting, unprepared) = self.long_jobs();
        let of_jobs = |total: Duration, rounds: usize| {
            let mean = total.as_secs_f64() / self.long_count.max(1) as f64;
            Duration::try_from_secs_f64(mean * rounds as f64).unwrap_or_default()
        };
        Load {
            preparing: of_jobs(self.times.prepare, unprepared.div_ceil(workers)),
            committing: of_jobs(self.times.commit, waiting),
        }
    }

    /// Returns true if a further job may wait. There are always enough to keep the workers busy:
    /// one per worker and one that waits, or one that is committed and one that waits.
    fn allows_more(&self, workers: usize) -> bool {
        let (waiting, unprepared) = self.long_jobs();
        let Load { preparing, committing } = self.load(workers);
        let is_known = self.long_count > 0;
        (waiting <= 1 || committing <= MAX_BACKLOG)
            && (unprepared <= workers || (is_known && preparing <= MAX_BACKLOG))
    }

    fn fail(&mut self, error: EngineError) {
        self.failure = Some(error);
        self.is_halted = true;
    }

    /// Takes the first job if it can be committed now. The error of a job that could not be
    /// prepared is reported when the job is the first one, and it is then prepared again.
    fn take_first_to_commit(&mut self) -> Option<Box<dyn Job>> {
        if self.is_halted || self.is_committing {
            return None;
        }
        let entry = self.entries.front_mut()?;
        match std::mem::replace(&mut entry.stage, Stage::InWork) {
            Stage::Prepared(job) => {
                self.is_committing = true;
                Some(job)
            }
            Stage::Failed(job, error) => {
                entry.stage = Stage::Submitted(job);
                self.fail(error);
                None
            }
            other => {
                entry.stage = other;
                None
            }
        }
    }

    /// Takes the first job that is not prepared, with its number.
    fn take_next_to_prepare(&mut self) -> Option<(u64, Box<dyn Job>)> {
        if self.is_halted {
            return None;
        }
        let (first, entries) = (self.first, &mut self.entries);
        let index = entries.iter().position(|entry| matches!(entry.stage, Stage::Submitted(_)))?;
        match std::mem::replace(&mut entries[index].stage, Stage::InWork) {
            Stage::Submitted(job) => Some((first + index as u64, job)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
