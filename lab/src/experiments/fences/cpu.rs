//! Litmus tests on the CPU: in one thread, where everything is in order, and in two threads with
//! the orderings of Rust's atomics.
//!
//! x86 has total store order (Sewell et al. 2010, "x86-TSO"): a core sees the writes of another in
//! their order, but its own writes wait in a store buffer while later reads go to the cache.
//! Message passing therefore works in hardware, also with relaxed atomics, whose accesses only the
//! compiler may reorder. Store buffering shows with all orderings but SeqCst, which makes the write
//! a locked instruction that empties the store buffer.
//!
//! Cost: the two threads meet before every trial, which takes a few transfers of a cache line
//! between the cores.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use orrery_device::testing::SplitMix64;

use super::{LitmusTest, ORDERS, OutcomeCounts};

const OLD_X: u32 = 1;
const OLD_Y: u32 = 2;
const NEW_X: u32 = 10;
const NEW_Y: u32 = 20;

/// Orderings of the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuOrdering {
    /// Relaxed writes and reads.
    Relaxed,
    /// Release writes and acquire reads.
    ReleaseAcquire,
    /// Sequentially consistent writes and reads.
    SeqCst,
}

impl CpuOrdering {
    /// All orderings.
    pub const ALL: [Self; 3] = [Self::Relaxed, Self::ReleaseAcquire, Self::SeqCst];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relaxed => "Relaxed",
            Self::ReleaseAcquire => "Release/Acquire",
            Self::SeqCst => "SeqCst",
        }
    }

    /// Returns the outcome that the memory model of Rust forbids, if there is one.
    pub fn forbidden(self, test: LitmusTest) -> Option<usize> {
        let is_forbidden = match self {
            Self::Relaxed => false,
            Self::ReleaseAcquire => test != LitmusTest::StoreBuffering,
            Self::SeqCst => true,
        };
        test.forbidden_in_order().filter(|_| is_forbidden)
    }

    fn load(self, variable: &AtomicU32) -> u32 {
        variable.load(match self {
            Self::Relaxed => Ordering::Relaxed,
            Self::ReleaseAcquire => Ordering::Acquire,
            Self::SeqCst => Ordering::SeqCst,
        })
    }

    fn store(self, variable: &AtomicU32, value: u32) {
        let ordering = match self {
            Self::Relaxed => Ordering::Relaxed,
            Self::ReleaseAcquire => Ordering::Release,
            Self::SeqCst => Ordering::SeqCst,
        };
        variable.store(value, ordering);
    }
}

/// Runs trials in one thread, each in a random order of the four accesses that keeps the order of
/// both programs. All outcomes are those of sequential consistency.
pub fn run_in_one_thread(test: LitmusTest, trials: usize) -> OutcomeCounts {
    let mut random = SplitMix64::new(1);
    let mut total = OutcomeCounts::default();
    for _ in 0..trials {
        total.counts[test.outcome_of_order(ORDERS[random.below(ORDERS.len())])] += 1;
    }
    total
}

/// A variable with a cache line to itself. 128 bytes, because x86 prefetches pairs of lines.
#[repr(align(128))]
#[derive(Default)]
struct Line<T>(T);

/// Variables of all trials of a batch, and the values that were read.
struct Batch {
    x: Vec<Line<AtomicU32>>,
    y: Vec<Line<AtomicU32>>,
    x_read: Vec<AtomicU32>,
    y_read: Vec<AtomicU32>,
    /// Trials that each thread has started.
    started: [Line<AtomicUsize>; 2],
}

/// Trials of a batch. Its 512 KiB fit into the L2 cache of a core.
const BATCH: usize = 2048;
/// Rounds in which a thread waits for the other one, which may not run at the same time.
const MAX_WAITS: u32 = 500;

impl Batch {
    fn new(len: usize) -> Self {
        let numbers = || (0..len).map(|_| AtomicU32::new(0)).collect();
        let lines = |value| (0..len).map(|_| Line(AtomicU32::new(value))).collect();
        Self {
            x: lines(OLD_X),
            y: lines(OLD_Y),
            x_read: numbers(),
            y_read: numbers(),
            started: Default::default(),
        }
    }

    /// Waits until both threads have reached `trial`, or for [`MAX_WAITS`] rounds. A thread that is
    /// ahead waits at each trial, so they meet again.
    fn meet(&self, thread: usize, trial: usize) {
        self.started[thread].0.store(trial + 1, Ordering::Release);
        for _ in 0..MAX_WAITS {
            if self.started[1 - thread].0.load(Ordering::Acquire) > trial {
                return;
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
    }

    fn run_first_thread(&self, test: LitmusTest, ordering: CpuOrdering) {
        for trial in 0..self.x.len() {
            let (x, y) = (&self.x[trial].0, &self.y[trial].0);
            self.meet(0, trial);
            ordering.store(x, NEW_X);
            if test == LitmusTest::StoreBuffering {
                self.y_read[trial].store(ordering.load(y), Ordering::Relaxed);
            } else {
                ordering.store(y, NEW_Y);
            }
        }
    }

    fn run_second_thread(&self, test: LitmusTest, ordering: CpuOrdering) {
        for trial in 0..self.x.len() {
            let (x, y) = (&self.x[trial].0, &self.y[trial].0);
            let (x_read, y_read) = (&self.x_read[trial], &self.y_read[trial]);
            self.meet(1, trial);
            match test {
                LitmusTest::Course => {
                    let (a, b) = (ordering.load(x), ordering.load(y));
                    x_read.store(a, Ordering::Relaxed);
                    y_read.store(b, Ordering::Relaxed);
                }
                LitmusTest::MessagePassing => {
                    let (b, a) = (ordering.load(y), ordering.load(x));
                    x_read.store(a, Ordering::Relaxed);
                    y_read.store(b, Ordering::Relaxed);
                }
                LitmusTest::StoreBuffering => {
                    ordering.store(y, NEW_Y);
                    x_read.store(ordering.load(x), Ordering::Relaxed);
                }
            }
        }
    }

    fn add_outcomes(&self, total: &mut OutcomeCounts) {
        for (a, b) in self.x_read.iter().zip(&self.y_read) {
            match (a.load(Ordering::Relaxed), b.load(Ordering::Relaxed)) {
                (a @ (OLD_X | NEW_X), b @ (OLD_Y | NEW_Y)) => {
                    total.counts[usize::from(a == NEW_X) + 2 * usize::from(b == NEW_Y)] += 1;
                }
                _ => total.invalid += 1,
            }
        }
    }
}

/// Runs trials in two threads and counts their outcomes.
pub fn run_in_two_threads(test: LitmusTest, ordering: CpuOrdering, trials: usize) -> OutcomeCounts {
    let mut total = OutcomeCounts::default();
    let mut left = trials;
    while left > 0 {
        let batch = Batch::new(left.min(BATCH));
        std::thread::scope(|scope| {
            scope.spawn(|| batch.run_first_thread(test, ordering));
            batch.run_second_thread(test, ordering);
        });
        batch.add_outcomes(&mut total);
        left -= batch.x.len();
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With 1,000 trials, an outcome that occurs in one of six orders is missing with a probability
    /// of (5/6)^1000.
    #[test]
    fn one_thread_gives_exactly_the_outcomes_in_order() {
        for test in LitmusTest::ALL {
            let counts = run_in_one_thread(test, 1000);
            assert_eq!((counts.trials(), counts.invalid), (1000, 0));
            assert_eq!(counts.counts.map(|count| count > 0), test.sequential_outcomes(), "{test:?}");
        }
    }

    #[test]
    fn two_threads_have_no_forbidden_outcome() {
        for test in LitmusTest::ALL {
            for ordering in CpuOrdering::ALL {
                let counts = run_in_two_threads(test, ordering, 503);
                assert_eq!(counts.trials(), 503);
                let forbidden = ordering.forbidden(test);
                assert_eq!(counts.find_forbidden(forbidden), None, "{test:?} {ordering:?}: {counts:?}");
            }
        }
        let [none, several] = [0, BATCH + 3]
            .map(|trials| run_in_two_threads(LitmusTest::Course, CpuOrdering::Relaxed, trials).trials());
        assert_eq!((none, several), (0, BATCH as u64 + 3));
    }

    /// Release and acquire order the message, but not a write before a later read.
    #[test]
    fn orderings_forbid_what_the_language_says() {
        let count = |ordering: CpuOrdering| {
            LitmusTest::ALL.iter().filter(|test| ordering.forbidden(**test).is_some()).count()
        };
        assert_eq!(CpuOrdering::ALL.map(count), [0, 1, 2]);
        assert_eq!(CpuOrdering::ReleaseAcquire.forbidden(LitmusTest::StoreBuffering), None);
    }
}
