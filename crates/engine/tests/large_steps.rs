//! Runs with more than 2^32 steps. The test does not take that many: it changes the step and time
//! in a checkpoint and resumes from there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::{output_to, plate, rewrite_header, temp_folder};
use orrery_engine::case::{Case, CaseSource, find_preset};
use orrery_engine::checkpoint::describe;
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, Summary, resume, run};
use orrery_formats::{Limits, read_snapshot};
use serde_json::json;

/// The step at which 32-bit counters overflow.
const OVERFLOW: u64 = 1 << 32;
/// A power of two, so that all times are exact.
const DT: f64 = 1.0 / 1024.0;

/// Cases that end at step `OVERFLOW + 10`, with a row and a snapshot due at step `OVERFLOW`: one of
/// bodies, and one of a field.
fn long_cases() -> [Case; 2] {
    let sets = [
        format!("time.step={DT}"),
        format!("time.end={}", (OVERFLOW + 10) as f64 * DT),
        "output.record_every=512 steps".to_owned(),
        "output.snapshot_every=4096".to_owned(),
        "output.image_every=0".to_owned(),
        "image.size=64".to_owned(),
    ];
    let of_bodies = [&["time.integrator=leapfrog".to_owned()], &sets[..]].concat();
    let bodies = Case::load(&CaseSource::Preset(find_preset("pythagorean").unwrap()), &of_bodies);
    [bodies.unwrap(), plate(&sets.each_ref().map(String::as_str))]
}

fn stop_after(step: u64, control: &Control, event: &RunEvent<'_>) {
    if let RunEvent::Step(status) = event
        && status.step == step
    {
        control.stop.store(true, Ordering::Relaxed);
    }
}

fn resume_until(folder: &Path, stop_step: u64) -> Summary {
    let control = Control { steps_per_batch: Some(1), ..Control::default() };
    let request = Resume { folder, sets: &[], restart_outputs: false };
    resume(&request, &control, |event| stop_after(stop_step, &control, &event))
        .unwrap_or_else(|e| panic!("{e}"))
}

fn checkpoint_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("checkpoints")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn checkpoint_path(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("checkpoints/checkpoint_{step}.orrery"))
}

#[test]
fn a_run_resumes_and_counts_beyond_32_bits() {
    for case in long_cases() {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        // One step per batch, so that the run stops after exactly five.
        let control = Control { steps_per_batch: Some(1), ..Control::default() };
        let summary =
            run(&case, &output_to(folder.clone()), &control, |event| stop_after(5, &control, &event));
        let (_, checkpoint) = summary.unwrap().stopped.unwrap();

        let start = OVERFLOW - 4;
        rewrite_header(&checkpoint, |header| {
            header["step"] = json!(start);
            header["time"] = json!(start as f64 * DT);
            // The next snapshot is due at 1024 x 4096, which is the time of step 2^32.
            header["observers"]["triggers"][1] = json!(1024);
        });
        fs::rename(&checkpoint, checkpoint_path(&folder, start)).unwrap();

        let summary = resume_until(&folder, OVERFLOW + 3);
        assert_eq!((summary.from, summary.step), (start, OVERFLOW + 3));
        let (_, checkpoint) = summary.stopped.unwrap();
        assert_eq!(checkpoint, checkpoint_path(&folder, OVERFLOW + 3));
        let found = describe(&checkpoint, &Limits::default()).unwrap();
        assert_eq!((found.step, found.time), (OVERFLOW + 3, (OVERFLOW + 3) as f64 * DT));
        assert_eq!(
            checkpoint_names(&folder),
            ["checkpoint_4294967292.orrery", "checkpoint_4294967299.orrery"],
            "the two newest by step"
        );

        let summary = resume_until(&folder, u64::MAX);
        assert_eq!((summary.from, summary.step), (OVERFLOW + 3, OVERFLOW + 10));
        assert!(summary.stopped.is_none());
        assert_eq!(checkpoint_names(&folder), ["checkpoint_4294967306.orrery"]);

        let table = fs::read_to_string(folder.join("conserved.csv")).unwrap();
        let steps: Vec<&str> = table.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
        assert_eq!(steps, ["0", "4294967296", "4294967306"]);
        assert_eq!(fs::read_dir(folder.join("snapshots")).unwrap().count(), 3);
        // The snapshot of a field has no step.
        if case.gravity().is_some() {
            let path = folder.join("snapshots/snapshot_001.hdf5");
            let snapshot = read_snapshot(&path, &Limits::default()).unwrap();
            assert_eq!((snapshot.step, snapshot.time), (OVERFLOW, OVERFLOW as f64 * DT));
        }
    }
}

/// Runs one step and returns the warnings about the number of steps.
fn step_warnings(sets: &[&str]) -> Vec<f64> {
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    let case = Case::load(&CaseSource::Preset(find_preset("pythagorean").unwrap()), &sets).unwrap();
    let (dir, control) = (temp_folder(), Control::default());
    let mut warnings = Vec::new();
    let summary = run(&case, &output_to(dir.path().join("run")), &control, |event| {
        stop_after(2, &control, &event);
        if let RunEvent::ManySteps { steps, .. } = event {
            warnings.push(steps);
        }
    });
    assert_eq!(summary.unwrap().step, 2);
    warnings
}

#[test]
fn very_many_steps_give_one_warning() {
    let output = ["output.record_every=0", "output.snapshot_every=0", "output.image_every=0", "time.end=10"];
    let warnings = |sets: &[&str]| step_warnings(&[&output[..], sets].concat());
    assert!(warnings(&["time.step=1e-8"]).is_empty());
    assert_eq!(warnings(&["time.step=5e-9"]), [2e9]);
    assert!(warnings(&["time.step=\"adaptive\"", "time.eta=1e-6"]).is_empty());
    let adaptive = warnings(&["time.step=\"adaptive\"", "time.eta=1e-12"]);
    assert!(adaptive.len() == 1 && adaptive[0] > 1e10, "{adaptive:?}");
}
