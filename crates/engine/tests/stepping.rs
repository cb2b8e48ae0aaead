//! Runs that a caller steps and observes, and runs with several steps per batch. Their files have
//! the same bytes as those of a run that is left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::{CASES, MakeCase, assert_same, case, fluid, output_to, plate, temp_folder};
use orrery_engine::case::{Case, Every};
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, Run, run};
use orrery_engine::{EngineError, Moment, Observer, System, Trigger};

const AT_STEPS: &[&str] = &["checkpoint.every=5 steps", "output.record_every=4 steps"];
const BETWEEN_STEPS: &[&str] = &["output.record_every=0.3", "output.image_every=0", "checkpoint.every=0.55"];
const NEVER: &[&str] =
    &["output.record_every=0", "output.snapshot_every=0", "output.image_every=0", "time.end=1.3"];

/// A case, with batches of up to 1000 steps: the steps after which they end.
struct Batches {
    make: MakeCase,
    sets: &'static [&'static str],
    ends: &'static [u64],
}

/// Outputs at steps, between steps and none. 40 bodies are drawn as orbits, which need every step.
const BATCHES: [Batches; 6] = [
    Batches { make: case, sets: AT_STEPS, ends: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] },
    Batches { make: many_bodies, sets: BETWEEN_STEPS, ends: &ENDS_BETWEEN_STEPS },
    Batches { make: case, sets: NEVER, ends: &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] },
    // Snapshots are due at 0.4, 0.8 and 1.2, images every 5 steps.
    Batches { make: plate, sets: AT_STEPS, ends: &[3, 4, 5, 6, 8, 9, 10, 11, 12] },
    Batches { make: plate, sets: BETWEEN_STEPS, ends: &ENDS_BETWEEN_STEPS },
    Batches { make: plate, sets: NEVER, ends: &[10, 11] },
];

/// Rows at 0.3, 0.6, 0.9, 1.2 and 1.5, snapshots at 0.4, 0.8 and 1.2, checkpoints after 0.55 and
/// 1.1. A time within a step ends a batch before the step. Steps are 0.125.
const ENDS_BETWEEN_STEPS: [u64; 10] = [2, 3, 4, 5, 6, 7, 8, 9, 11, 12];

/// Returns a case of bodies that are drawn as a density.
fn many_bodies(sets: &[&str]) -> Case {
    case(&[&["bodies.n=100"], sets].concat())
}

/// Returns a fluid whose structure is not measured.
fn unmeasured_fluid(sets: &[&str]) -> Case {
    fluid(&[&["structure.every=0"], sets].concat())
}

/// Collects at every third step, and counts calls.
#[derive(Default)]
struct Counter {
    collected: Vec<u64>,
    finished: usize,
}

impl Observer for &mut Counter {
    fn observe(&mut self, _moment: &Moment) -> Result<(), EngineError> {
        Ok(())
    }

    fn collect_every(&self) -> Option<u64> {
        Some(3)
    }

    fn collect(&mut self, moment: &Moment) -> Result<(), EngineError> {
        self.collected.push(moment.step);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.finished += 1;
        Ok(())
    }
}

#[test]
fn a_run_that_is_stepped_and_observed_writes_the_same_files() {
    for Batches { make, sets, .. } in BATCHES {
        let dir = temp_folder();
        let (whole, stepped) = (dir.path().join("whole"), dir.path().join("stepped"));
        let case = make(sets);
        run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap();

        let control = Control::default();
        let (mut times, mut steps, mut counter) = (Vec::new(), Vec::new(), Counter::default());
        let mut run = Run::start(&case, &output_to(stepped.clone()), &control, |_| {}).unwrap();
        run.observe(
            Trigger::new(Every::Time(0.5)),
            Box::new(|moment: &Moment| {
                match moment.system {
                    System::Gravity(_) => {
                        assert_eq!(moment.particles()?.len(), moment.system.size().count as usize);
                    }
                    System::Heat(plate) => {
                        assert!(moment.particles().is_err());
                        assert_eq!(plate.column().unwrap().len(), plate.grid().len());
                    }
                    System::Wave(waves) => {
                        assert!(moment.particles().is_err());
                        assert_eq!(waves.column().unwrap().len(), waves.grid().len());
                    }
                    System::Fluid(fluid) => {
                        assert!(moment.particles().is_err());
                        assert_eq!(fluid.particles().unwrap().len(), 108);
                    }
                }
                times.push(moment.time);
                Ok(())
            }),
        );
        run.observe(
            Trigger::new(Every::Steps(4)),
            Box::new(|moment: &Moment| {
                steps.push(moment.step);
                Ok(())
            }),
        );
        run.observe(Trigger::new(Every::Never), Box::new(&mut counter));
        for step in 1..=5 {
            assert!(run.step().unwrap());
            assert_eq!(run.moment().step, step);
        }
        let summary = run.finish().unwrap();
        let end = case.time.end;
        assert_eq!(times, if end == 1.3 { vec![0.0, 0.5, 1.0, 1.3] } else { vec![0.0, 0.5, 1.0, 1.5] });
        assert_eq!(steps, if end == 1.3 { vec![0, 4, 8, 11] } else { vec![0, 4, 8, 12] });
        assert_eq!(counter.collected, if end == 1.3 { vec![3, 6, 9] } else { vec![3, 6, 9, 12] });
        assert_eq!((counter.finished, summary.step), (1, *steps.last().unwrap()));
        assert_same(&whole, &stepped, &sets.join(" "));
    }
}

/// The end of the run and a stop request end the steps. A run that is dropped can be resumed, with
/// other observers or none.
#[test]
fn observers_do_not_disturb_a_resumed_run() {
    for make in CASES {
        let dir = temp_folder();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        let case = make(&[]);
        run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap();

        let control = Control::default();
        let mut observed = Vec::new();
        let mut first = Run::start(&case, &output_to(parts.clone()), &control, |_| {}).unwrap();
        first.observe(Trigger::new(Every::Time(0.3)), Box::new(|_: &Moment| Ok(())));
        while first.step().unwrap() {
            if first.moment().step == 4 {
                control.stop.store(true, Ordering::Relaxed);
            }
        }
        assert_eq!(first.moment().step, 4);
        let summary = first.finish().unwrap();
        assert!(summary.stopped.is_some() && summary.step == 4);

        // Dropped after a step, without a further checkpoint.
        let control = Control::default();
        let request = Resume { folder: &parts, sets: &[], restart_outputs: false };
        let mut second = Run::resume(&request, &control, |_| {}).unwrap();
        assert!(second.step().unwrap() && second.moment().step == 5);
        drop(second);

        let mut third = Run::resume(&request, &control, |_| {}).unwrap();
        third.observe(
            Trigger::new(Every::Time(0.4)),
            Box::new(|moment: &Moment| {
                observed.push((moment.step, moment.time));
                Ok(())
            }),
        );
        while third.step().unwrap() {}
        assert_eq!(third.finish().unwrap().step, 12);
        // From step 4 at 0.5: no call at the start of the resumed run. Step 6 starts at 0.75.
        assert_eq!(observed, [(6, 2.0 * 0.4), (9, 3.0 * 0.4), (12, 1.5)]);
        assert_same(&whole, &parts, "stepped, stopped, dropped and resumed");
    }
}

#[test]
fn an_error_of_an_observer_ends_the_run() {
    for make in CASES {
        let dir = temp_folder();
        let control = Control::default();
        let mut run = Run::start(&make(&[]), &output_to(dir.path().join("run")), &control, |_| {}).unwrap();
        run.observe(
            Trigger::new(Every::Steps(2)),
            Box::new(|moment: &Moment| match moment.step {
                0 => Ok(()),
                step => Err(EngineError::DifferentSnapshots(format!("refused at step {step}"))),
            }),
        );
        assert!(run.step().unwrap());
        assert_eq!(run.step().unwrap_err().to_string(), "refused at step 2");
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_steps_per_batch() {
    for Batches { make, sets, ends } in BATCHES {
        let dir = temp_folder();
        let whole = dir.path().join("whole");
        let case = make(sets);
        run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap();
        for steps in [0, 1, 2, 5, 1000] {
            let folder = dir.path().join(steps.to_string());
            let control = Control { steps_per_batch: Some(steps), ..Control::default() };
            let mut reported = Vec::new();
            let summary = run(&case, &output_to(folder.clone()), &control, |event| {
                if let RunEvent::Step(status) = event {
                    reported.push(status.step);
                }
            });
            let last = summary.unwrap().step;
            assert_same(&whole, &folder, &format!("{} with {steps} steps per batch", sets.join(" ")));
            assert_eq!(reported.last(), Some(&last));
            let longest = reported.iter().zip(std::iter::once(&0).chain(&reported)).map(|(b, a)| b - a).max();
            assert!(longest.unwrap() <= steps.max(1), "{reported:?}");
            if steps == 1000 {
                assert_eq!(reported, ends, "{}", sets.join(" "));
            }
        }
    }
}

/// A stop request ends a run after the batch in progress, and the checkpoint is that of a whole
/// step.
#[test]
fn a_stop_between_batches_resumes_to_the_same_files() {
    for make in [many_bodies, plate, unmeasured_fluid] {
        let dir = temp_folder();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        let case = make(&["output.record_every=0", "output.snapshot_every=0", "output.image_every=0"]);
        run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap();
        let control = Control { steps_per_batch: Some(5), ..Control::default() };
        let stopped = run(&case, &output_to(parts.clone()), &control, |event| {
            if let RunEvent::Step(status) = event {
                control.stop.store(status.step >= 3, Ordering::Relaxed);
            }
        });
        assert_eq!(stopped.unwrap().step, 5);
        assert!(parts.join("checkpoints/checkpoint_000000005.orrery").exists());
        let control = Control { steps_per_batch: Some(4), ..Control::default() };
        let request = Resume { folder: &parts, sets: &[], restart_outputs: false };
        Run::resume(&request, &control, |_| {}).unwrap().finish().unwrap();
        assert_same(&whole, &parts, "stopped and resumed with batches");
        assert_eq!(fs::read_dir(parts.join("checkpoints")).unwrap().count(), 1);
    }
}

/// Runs the case in a pool of threads and returns its folder, which is below `parent`.
fn run_with_threads(case: &Case, parent: &Path, threads: usize) -> PathBuf {
    let folder = parent.join(threads.to_string());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| run(case, &output_to(folder.clone()), &Control::default(), |_| {})).unwrap();
    folder
}

/// With 1, 2, 3 and 8 threads. The grid has several blocks of rows for each thread.
#[test]
fn the_number_of_threads_changes_no_byte_of_a_field() {
    for precision in ["heat.precision=single", "heat.precision=double"] {
        let dir = temp_folder();
        let case = plate(&[precision, "grid.nx=300", "grid.ny=201"]);
        let folder_with = |threads: usize| run_with_threads(&case, dir.path(), threads);
        let one = folder_with(1);
        for threads in [2, 3, 8] {
            assert_same(&one, &folder_with(threads), &format!("{precision} with {threads} threads"));
        }
    }
}

/// A run has as many workers for its output as threads. With one thread it writes itself.
#[test]
fn the_number_of_workers_changes_no_byte() {
    let often = ["output.image_every=1 step", "output.snapshot_every=2 steps", "checkpoint.every=5 steps"];
    for make in CASES.into_iter().chain([many_bodies as MakeCase]) {
        let (dir, case) = (temp_folder(), make(&often));
        let folder_with = |threads: usize| run_with_threads(&case, dir.path(), threads);
        let one = folder_with(1);
        for threads in [2, 8] {
            assert_same(&one, &folder_with(threads), &format!("{} with {threads} workers", case.name));
        }
    }
}
