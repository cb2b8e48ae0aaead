//! Tests of the pipeline with jobs that are slow, fail or panic.

use std::sync::atomic::{AtomicUsize, Ordering};

use orrery_formats::{Fault, IoError};

use super::*;

/// Numbers of the committed jobs.
type Committed = Arc<Mutex<Vec<usize>>>;

/// A job that takes some time and fails as often as it is told.
struct TestJob {
    number: usize,
    pause: Duration,
    prepare_failures: usize,
    commit_failures: usize,
    committed: Committed,
}

impl TestJob {
    fn new(number: usize, committed: &Committed) -> Self {
        let (pause, committed) = (Duration::ZERO, committed.clone());
        Self { number, pause, prepare_failures: 0, commit_failures: 0, committed }
    }
}

fn storage_error() -> EngineError {
    let fault = Fault::malformed("test", "no space", "space");
    EngineError::Output(IoError { path: "file".into(), fault })
}

fn fail_if_counted(count: &mut usize) -> Result<(), EngineError> {
    if *count == 0 {
        return Ok(());
    }
    *count -= 1;
    Err(storage_error())
}

impl Job for TestJob {
    fn prepare(&mut self) -> Result<(), EngineError> {
        std::thread::sleep(self.pause);
        fail_if_counted(&mut self.prepare_failures)
    }

    fn commit(&mut self) -> Result<(), EngineError> {
        fail_if_counted(&mut self.commit_failures)?;
        self.committed.lock().unwrap().push(self.number);
        Ok(())
    }
}

#[test]
fn jobs_are_committed_in_their_order() {
    for threads in [1, 2, 3, 8] {
        let (mut pipeline, committed) = (Pipeline::new(threads), Committed::default());
        for number in 0..50 {
            let pause = Duration::from_micros((number as u64 * 7919) % 500);
            pipeline.make_room(1).unwrap();
            pipeline.submit(1, Box::new(TestJob { pause, ..TestJob::new(number, &committed) }));
            pipeline.check().unwrap();
        }
        pipeline.drain().unwrap();
        assert_eq!(*committed.lock().unwrap(), (0..50).collect::<Vec<_>>(), "{threads} threads");
    }
}

/// Each attempt reports one failure. Later jobs wait for the failed one.
#[test]
fn a_failed_job_is_tried_again_before_later_ones() {
    for threads in [1, 4] {
        for (prepare_failures, commit_failures) in [(0, 3), (3, 0), (1, 2)] {
            let (mut pipeline, committed) = (Pipeline::new(threads), Committed::default());
            let mut failures = 0;
            for number in 0..6 {
                let job = TestJob::new(number, &committed);
                let job = match number {
                    2 => TestJob { prepare_failures, commit_failures, ..job },
                    _ => job,
                };
                while pipeline.make_room(1).is_err() {
                    failures += 1;
                    assert_eq!(*committed.lock().unwrap(), [0, 1]);
                }
                pipeline.submit(1, Box::new(job));
            }
            while pipeline.drain().is_err() {
                failures += 1;
                assert_eq!(*committed.lock().unwrap(), [0, 1]);
            }
            assert_eq!((failures, &*committed.lock().unwrap()), (3, &vec![0, 1, 2, 3, 4, 5]));
        }
    }
}

#[test]
fn a_check_reports_a_failure_once_per_attempt() {
    let (mut pipeline, committed) = (Pipeline::new(2), Committed::default());
    pipeline.submit(1, Box::new(TestJob { commit_failures: 2, ..TestJob::new(0, &committed) }));
    let mut failures = 0;
    while committed.lock().unwrap().is_empty() {
        failures += usize::from(pipeline.check().is_err());
    }
    assert_eq!(failures, 2);
    pipeline.check().unwrap();
}

/// The disk is slow: a commit waits until the test allows it.
#[test]
fn the_run_waits_while_the_queue_is_full() {
    struct SlowJob(Arc<Mutex<()>>, Arc<AtomicUsize>);
    impl Job for SlowJob {
        fn commit(&mut self) -> Result<(), EngineError> {
            drop(self.0.lock().unwrap());
            self.1.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    }
    for (bytes, most) in [(CAPACITY / 3, 3), (CAPACITY, 1), (2 * CAPACITY, 1), (1, 2 * JOBS_PER_WORKER)] {
        let (disk, count) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
        let mut pipeline = Pipeline::new(2);
        let blocked = disk.lock().unwrap();
        for _ in 0..most {
            pipeline.make_room(bytes).unwrap();
            pipeline.submit(bytes, Box::new(SlowJob(disk.clone(), count.clone())));
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                pipeline.make_room(bytes).unwrap();
                count.load(Ordering::SeqCst)
            });
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished(), "{most} jobs of {bytes} bytes fill the queue");
            assert_eq!(count.load(Ordering::SeqCst), 0);
            drop(blocked);
            assert!(waiting.join().unwrap() >= 1);
        });
        pipeline.drain().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), most);
    }
}

/// Before the time of a job is known, one job waits besides those that keep the workers busy.
#[test]
fn the_first_jobs_do_not_fill_the_queue() {
    struct BlockedJob(Arc<Mutex<()>>);
    impl Job for BlockedJob {
        fn prepare(&mut self) -> Result<(), EngineError> {
            drop(self.0.lock().unwrap());
            Ok(())
        }
        fn commit(&mut self) -> Result<(), EngineError> {
            Ok(())
        }
    }
    let (gate, submitted) = (Arc::new(Mutex::new(())), AtomicUsize::new(0));
    let mut pipeline = Pipeline::new(2);
    let blocked = gate.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..8 {
                pipeline.make_room(1).unwrap();
                pipeline.submit(1, Box::new(BlockedJob(gate.clone())));
                submitted.fetch_add(1, Ordering::SeqCst);
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(submitted.load(Ordering::SeqCst) <= 3);
        drop(blocked);
    });
    assert_eq!(submitted.load(Ordering::SeqCst), 8);
}

/// Slow jobs wait until a worker is free, so that a run that stops does not wait for four of them
/// per worker. Fast jobs fill the queue.
#[test]
fn the_queue_of_slow_jobs_is_short() {
    let queue = |waiting: usize, is_prepared: bool, millis: [u64; 2]| {
        let [prepare, commit] = millis.map(|millis| Duration::from_millis(10 * millis));
        let mut queue = Queue { long_count: 10, times: WorkerTimes { prepare, commit }, ..Queue::default() };
        let job = || Box::new(TestJob::new(0, &Committed::default()));
        let stage = || if is_prepared { Stage::Prepared(job()) } else { Stage::Submitted(job()) };
        queue.entries.extend((0..waiting).map(|_| Entry { bytes: 1, is_short: false, stage: stage() }));
        queue
    };
    let allowed = |is_prepared: bool, millis: [u64; 2]| {
        (0..40).take_while(|&waiting| queue(waiting, is_prepared, millis).allows_more(2)).count()
    };
    // Two workers draw images of 200 ms: one for each waits, and one more.
    assert_eq!(allowed(false, [200, 1]), 3);
    // 300 ms of images of 50 ms.
    assert_eq!(allowed(false, [50, 1]), 13);
    // Snapshots of 200 ms are written one after another.
    assert_eq!(allowed(true, [0, 200]), 2);
    assert_eq!(allowed(true, [200, 10]), 31);
    let Load { preparing, committing } = queue(4, false, [200, 5]).load(2);
    assert_eq!((preparing.as_millis(), committing.as_millis()), (400, 20));
}

#[test]
fn short_jobs_run_in_the_calling_thread() {
    struct ShortJob(Arc<Mutex<Option<std::thread::ThreadId>>>);
    impl Job for ShortJob {
        fn commit(&mut self) -> Result<(), EngineError> {
            *self.0.lock().unwrap() = Some(std::thread::current().id());
            Ok(())
        }
        fn is_short(&self) -> bool {
            true
        }
    }
    let (mut pipeline, thread) = (Pipeline::new(2), Arc::default());
    pipeline.submit(1, Box::new(ShortJob(Arc::clone(&thread))));
    assert_eq!(*thread.lock().unwrap(), Some(std::thread::current().id()));
}

#[test]
fn a_panic_of_a_job_reaches_the_caller() {
    struct PanickingJob;
    impl Job for PanickingJob {
        fn commit(&mut self) -> Result<(), EngineError> {
            panic!("a bug in a job")
        }
    }
    for threads in [1, 2] {
        let mut pipeline = Pipeline::new(threads);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pipeline.submit(1, Box::new(PanickingJob));
            pipeline.drain()
        }));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"a bug in a job"), "{threads} threads");
    }
}
