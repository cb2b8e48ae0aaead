//! Tests of the pipeline with jobs that are slow, fail or panic.

use std::sync::atomic::{AtomicUsize, Ordering};

use orrery_io::{Fault, IoError};

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

/// Jobs that take 0.2 s wait until a worker is free, so that a run that stops does not wait for
/// four of them per worker. Fast jobs fill the queue.
#[test]
fn the_queue_of_slow_jobs_is_short() {
    for (threads, pause, least, most) in [(2, 200, 3, 4), (2, 1, 4, 2 * JOBS_PER_WORKER), (4, 200, 5, 7)] {
        let (mut pipeline, committed) = (Pipeline::new(threads), Committed::default());
        let mut longest = 0;
        for number in 0..24 {
            pipeline.make_room(1).unwrap();
            let pause = Duration::from_millis(pause);
            pipeline.submit(1, Box::new(TestJob { pause, ..TestJob::new(number, &committed) }));
            longest = longest.max(number + 1 - committed.lock().unwrap().len());
        }
        assert!((least..=most).contains(&longest), "{threads} threads, {pause} ms: {longest} jobs waited");
        let left = pipeline.backlog();
        assert!(pause < 100 || left >= Duration::from_millis(100), "{left:?}");
        let started = Instant::now();
        pipeline.drain().unwrap();
        assert_eq!(committed.lock().unwrap().len(), 24);
        // Two rounds of the slow jobs at most. Other processes can take the CPU for some time.
        assert!(started.elapsed() < Duration::from_millis(700), "{threads}: {:?}", started.elapsed());
    }
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
