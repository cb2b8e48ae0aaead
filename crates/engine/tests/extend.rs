//! A finished run that is extended has the results of a run with the later end from the start.
//! Tested for each physics and integrator, for fixed and adaptive steps, and for steps that the end
//! cuts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::{
    CASES, MakeCase, case, folder_content, output_to, plate, rewrite_header, table_of, temp_folder,
    without_hashes,
};
use orrery_device::DeviceChoice;
use orrery_device::testing::test_devices_with_f64;
use orrery_engine::EngineError;
use orrery_engine::case::{Case, CaseSource};
use orrery_engine::compute_device::DeviceRequest;
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, Summary, resume, run, run_or_resume};
use orrery_formats::Limits;
use orrery_model::short_number;

const INTEGRATORS: [&str; 5] = ["leapfrog", "yoshida4", "yoshida6", "blanes-moan4", "hermite4"];

fn on_device(choice: DeviceChoice) -> Control {
    Control { device: DeviceRequest { choice, ..DeviceRequest::default() }, ..Control::default() }
}

fn run_whole(case: &Case, folder: &Path, control: &Control) -> Summary {
    run(case, &output_to(folder.to_owned()), control, |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

fn extend(folder: &Path, end: &str, control: &Control) -> Result<Summary, EngineError> {
    let sets = [format!("time.end={end}")];
    resume(&Resume { folder, sets: &sets, restart_outputs: false }, control, |_| {})
}

/// Returns the chunks of a PNG file without its texts, in which the provenance is.
fn png_without_texts(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut chunks, mut rest) = (Vec::new(), &bytes[8..]);
    while rest.len() >= 12 {
        let length = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        let (chunk, others) = rest.split_at(12 + length);
        if !chunk[4..8].ends_with(b"Xt") {
            chunks.push(chunk);
        }
        rest = others;
    }
    chunks
}

/// Returns the lines of a trajectory without those that contain the provenance.
fn frames_without_comments(bytes: &[u8]) -> Vec<&[u8]> {
    let is_comment = |line: &&[u8]| line.windows(11).any(|part| part == b"Properties=");
    bytes.split(|&byte| byte == b'\n').filter(|line| !is_comment(line)).collect()
}

/// Asserts that two runs have the same files with the same bytes. Snapshots and images from before
/// an extension record the end of that time in their provenance, so their content is compared.
fn assert_same_results(a: &Path, b: &Path, label: &str) {
    let [files_a, files_b]: [BTreeMap<PathBuf, Vec<u8>>; 2] = [a, b].map(folder_content);
    assert_eq!(files_a.keys().collect::<Vec<_>>(), files_b.keys().collect::<Vec<_>>(), "{label}");
    let differs = |(name, bytes): &(&PathBuf, &Vec<u8>)| {
        without_hashes(name, bytes) != without_hashes(name, &files_b[*name])
    };
    for (name, bytes) in files_a.iter().filter(differs) {
        if name.starts_with("images") {
            let same = png_without_texts(bytes) == png_without_texts(&files_b[name]);
            assert!(same, "{label}: the pixels of {} differ", name.display());
        } else if name.ends_with("trajectory.xyz") {
            let same = frames_without_comments(bytes) == frames_without_comments(&files_b[name]);
            assert!(same, "{label}: the particles of {} differ", name.display());
        } else {
            assert!(name.starts_with("snapshots"), "{label}: {} differs", name.display());
            let [a, b] = [a, b].map(|folder| {
                let found = orrery_formats::read_snapshot(&folder.join(name), &Limits::default()).unwrap();
                (found.particles, found.time, found.step)
            });
            assert!(a == b, "{label}: the bodies of {} differ", name.display());
        }
    }
}

/// Compares a run to the last of `ends` with one that ends at the first and is extended to each of
/// the others.
fn check_extension(sets: &[&str], ends: &[&str], control: &Control) {
    check_extension_of(case, sets, ends, control);
}

fn check_extension_of(make: MakeCase, sets: &[&str], ends: &[&str], control: &Control) {
    let dir = temp_folder();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    let case_to = |end: &str| make(&[sets, &[&format!("time.end={end}")]].concat());
    let label = format!("{sets:?} {ends:?}");
    run_whole(&case_to(ends[ends.len() - 1]), &whole, control);
    run_whole(&case_to(ends[0]), &parts, control);
    for end in &ends[1..] {
        let summary = extend(&parts, end, control).unwrap_or_else(|e| panic!("{label}: {e}"));
        assert!(summary.stopped.is_none());
    }
    assert_same_results(&whole, &parts, &label);
}

/// Ends that a step of 0.125 reaches exactly, almost, and not. Rows, images and snapshots are due
/// at some of them and not at others.
#[test]
fn extended_runs_have_the_same_results_for_each_integrator() {
    for integrator in INTEGRATORS {
        let integrator = format!("time.integrator={integrator}");
        for ends in [["0.5", "0.8", "1.15", "1.3"], ["0.55", "0.56", "0.625", "1.25"]] {
            check_extension(&[&integrator], &ends, &Control::default());
        }
    }
}

/// The product of step and step length is not the end: 3 x 0.1 is 0.30000000000000004.
#[test]
fn extended_runs_have_the_same_results_when_times_are_rounded() {
    let outputs = ["time.step=0.1", "output.snapshot_every=0", "output.image_every=0"];
    for make in CASES {
        let check = |sets: &[&str], ends: &[&str]| check_extension_of(make, sets, ends, &Control::default());
        check(&outputs, &["0.3", "0.6", "0.7", "1.1"]);
        check(&["time.step=0.1", "output.snapshot_every=0.3"], &["0.3", "0.9"]);
        check(&["output.record_every=3 steps"], &["0.125", "0.2", "0.375", "1"]);
    }
    for make in [case, plate] {
        let sets = ["time.start=0.7", "time.step=0.1"];
        check_extension_of(make, &sets, &["1.5", "2", "2.45", "2.7"], &Control::default());
    }
}

#[test]
fn extended_runs_have_the_same_results_with_adaptive_steps() {
    let ends = ["0.15", "0.2", "0.33", "0.5"];
    check_extension(&["time.step=adaptive", "time.eta=0.1"], &ends, &Control::default());
    let pairs = ["bodies.n=5", "gravity.softening=0", "time.step=adaptive", "time.eta=0.05"];
    for integrator in INTEGRATORS {
        let integrator = format!("time.integrator={integrator}");
        check_extension(&[&pairs[..], &[&integrator]].concat(), &ends, &Control::default());
    }
}

/// Density images, the tree and its relative criterion, which uses the accelerations of the step
/// before.
#[test]
fn extended_runs_have_the_same_results_with_trees_and_density_images() {
    for acceptance in ["gravity.acceptance=geometric", "gravity.acceptance=relative"] {
        let sets = ["bodies.n=100", "gravity.solver=tree", acceptance];
        check_extension(&sets, &["0.5", "0.55", "0.8"], &Control::default());
    }
}

#[test]
fn extended_runs_have_the_same_results_on_each_device() {
    for device in test_devices_with_f64() {
        let control = on_device(device.label().parse().unwrap());
        for precision in ["heat.precision=single", "heat.precision=double"] {
            check_extension_of(plate, &[precision], &["0.4", "0.5", "0.55", "0.7"], &control);
        }
        for integrator in INTEGRATORS {
            let integrator = format!("time.integrator={integrator}");
            check_extension(&[&integrator], &["0.4", "0.5", "0.55", "0.7"], &control);
        }
        check_extension(&["time.step=adaptive", "time.eta=0.1"], &["0.1", "0.15", "0.3", "0.4"], &control);
        // The relative criterion uses the accelerations of the step before.
        let tree = ["bodies.n=100", "gravity.solver=tree", "gravity.acceptance=relative"];
        check_extension(&tree, &["0.4", "0.45", "0.5", "0.7"], &control);
    }
}

/// The ends of the test for bodies, in each precision and with batches of several lengths.
#[test]
fn extended_fields_have_the_same_results() {
    let quiet = ["output.record_every=0", "output.snapshot_every=0", "output.image_every=0"];
    for precision in ["heat.precision=single", "heat.precision=double"] {
        for ends in [["0.5", "0.8", "1.15", "1.3"], ["0.55", "0.56", "0.625", "1.25"]] {
            for steps_per_batch in [None, Some(1), Some(3)] {
                let control = Control { steps_per_batch, ..Control::default() };
                check_extension_of(plate, &[precision], &ends, &control);
                check_extension_of(plate, &[&quiet[..], &[precision]].concat(), &ends, &control);
            }
        }
    }
}

/// A plate without sources settles. A run with any later end would settle at the same step, so a
/// later end changes only the case.
#[test]
fn a_settled_run_stays_finished_with_a_later_end() {
    let text = "grid = { nx = 9, ny = 9, hx = 1 }\nheat = { conductivity = 1, stop_range = 0.25, stop_every = 4 }\n\
                initial.state = \"hot-spot\"\ntime = { step = 0.2, end = 60 }\n\
                output = { record_every = 0.7, snapshot_every = 1.5 }\nimage.size = 64\n";
    let source = CaseSource::Text { label: "case".into(), text: text.into(), folder: PathBuf::new() };
    let case_to = |end: &str| Case::load(&source, &[format!("time.end={end}")]).unwrap();
    let dir = temp_folder();
    let [whole, late, early, cut] = ["whole", "late", "early", "cut"].map(|name| dir.path().join(name));
    let settled = run_whole(&case_to("80"), &whole, &Control::default());
    let (step, time) = (settled.step, settled.first_and_last.1.time);
    assert!(settled.is_settled && settled.stopped.is_none() && step.is_multiple_of(4), "step {step}");
    assert!(time > 1.0 && time < 60.0, "{time}");

    // Resumed, with the end of the run and with others.
    run_whole(&case_to("60"), &late, &Control::default());
    let before = folder_content(&late);
    let request = Resume { folder: &late, sets: &[], restart_outputs: false };
    let mut reported = None;
    let again = resume(&request, &Control::default(), |event| match event {
        RunEvent::Resumed { is_finished, .. } => reported = Some(is_finished),
        RunEvent::Step(_) => panic!("a settled run takes no step"),
        _ => {}
    });
    let again = again.unwrap();
    assert_eq!((again.step, again.is_settled, reported), (step, true, Some(true)));
    assert_eq!(folder_content(&late), before);
    for end in ["70", "65", "80"] {
        let summary = extend(&late, end, &Control::default()).unwrap();
        assert_eq!((summary.from, summary.step, summary.is_settled), (step, step, true));
    }
    assert_same_results(&whole, &late, "settled, then extended");
    let error = extend(&late, "1", &Control::default()).unwrap_err();
    assert!(error.to_string().contains("is not after time "), "{error}");

    // Ended before it settled, and by the end within the step after which it settles.
    for (folder, end) in [(&early, 0.5 * time), (&cut, time - 0.1)] {
        assert!(!run_whole(&case_to(&end.to_string()), folder, &Control::default()).is_settled);
        assert!(extend(folder, "80", &Control::default()).unwrap().is_settled);
        assert_same_results(&whole, folder, &format!("ended at {end}, then settled"));
    }
}

/// A run that is stopped before its end can get a later or an earlier end.
#[test]
fn the_end_of_an_unfinished_run_can_change() {
    for make in CASES {
        for end in ["2", "0.9"] {
            let dir = temp_folder();
            let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
            run_whole(&make(&[&format!("time.end={end}")]), &whole, &Control::default());
            let control = Control::default();
            let stopped = run(&make(&[]), &output_to(parts.clone()), &control, |event| {
                if let RunEvent::Step(status) = event
                    && status.step == 6
                {
                    control.stop.store(true, Ordering::Relaxed);
                }
            });
            assert!(stopped.unwrap().stopped.is_some());
            extend(&parts, end, &Control::default()).unwrap();
            assert_same_results(&whole, &parts, end);
        }
    }
}

/// The outputs that exist only because the run ended are gone while an extended run is not
/// finished.
#[test]
fn the_output_of_the_old_end_is_removed() {
    let dir = temp_folder();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    let stop_after = |step: u64, control: &Control, event: RunEvent<'_>| {
        if let RunEvent::Step(status) = event
            && status.step == step
        {
            control.stop.store(true, Ordering::Relaxed);
        }
    };
    let sets = ["output.snapshot_every=0", "output.image_every=0", "output.record_every=5 steps"];
    let case_to = |end: &str| case(&[&sets[..], &[&format!("time.end={end}")]].concat());
    let control = Control::default();
    run(&case_to("1.5"), &output_to(whole.clone()), &control, |event| stop_after(8, &control, event))
        .unwrap();
    run_whole(&case_to("0.9"), &parts, &Control::default());
    assert!(parts.join("snapshots/snapshot_001.hdf5").exists());
    let control = Control::default();
    let sets = ["time.end=1.5".to_owned()];
    let request = Resume { folder: &parts, sets: &sets, restart_outputs: false };
    resume(&request, &control, |event| stop_after(8, &control, event)).unwrap();
    // Checkpoints of earlier steps depend on when the processes started.
    for folder in [&whole, &parts] {
        for name in ["checkpoint_000000000.orrery", "checkpoint_000000007.orrery"] {
            let _ = fs::remove_file(folder.join("checkpoints").join(name));
        }
    }
    assert_same_results(&whole, &parts, "both stopped after step 8");
}

#[test]
fn a_refused_extension_changes_nothing() {
    for make in CASES {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        let case = make(&["time.end=0.9"]);
        run_whole(&case, &folder, &Control::default());
        // The last step of waves is complete, so their end is later.
        let end = short_number(case.time.end);
        let refused = |sets: &[&str], expected: &str| {
            let before = folder_content(&folder);
            let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
            let request = Resume { folder: &folder, sets: &sets, restart_outputs: false };
            let error = resume(&request, &Control::default(), |_| {}).unwrap_err();
            assert!(error.is_user_error() && error.to_string().contains(expected), "{error}");
            assert_eq!(folder_content(&folder), before, "{error}");
        };
        refused(
            &["time.end=0.5"],
            &format!("time.end = 0.5 is not after time {end} of step 8, which the run has reached"),
        );
        refused(
            &["time.end=1", "time.step=0.25"],
            "the run has time.step = 0.125 and cannot change to time.step = 0.25",
        );
        refused(&["time.end=-1"], "time.end = -1");

        // A changed table: the rows cannot be removed from it.
        let table = table_of(&folder);
        let rows = fs::read_to_string(&table).unwrap();
        fs::write(&table, rows.replacen("0,0e0", "0,1e0", 1)).unwrap();
        refused(&["time.end=2"], ".csv: it was changed since the checkpoint");
        fs::write(&table, rows).unwrap();

        // A checkpoint from before the state was stored. It still resumes as a finished run.
        let checkpoint = folder.join("checkpoints/checkpoint_000000008.orrery");
        rewrite_header(&checkpoint, |header| drop(header.as_object_mut().unwrap().remove("before_end")));
        let expected = format!("the run cannot be extended: an older version finished it at time {end}");
        refused(&["time.end=2"], &expected);
        let request = Resume { folder: &folder, sets: &[], restart_outputs: false };
        assert_eq!(resume(&request, &Control::default(), |_| {}).unwrap().step, 8);
    }
}

/// `run --resume` extends a run if only the end of the case has changed.
#[test]
fn a_case_with_a_later_end_extends_the_run() {
    for make in CASES {
        let dir = temp_folder();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        run_whole(&make(&["time.end=1"]), &whole, &Control::default());
        let case = make(&["time.end=0.6"]);
        run_whole(&case, &parts, &Control::default());
        let mut ends = None;
        run_or_resume(&make(&["time.end=1"]), &parts, &Control::default(), |event| {
            if let RunEvent::EndChanged { case, before } = event {
                ends = Some((before, case.time.end));
            }
        })
        .unwrap();
        assert_eq!(ends, Some((case.time.end, 1.0)));
        assert_same_results(&whole, &parts, "run --resume");
    }
}

/// A finished run that is resumed without a new end keeps the state that an extension needs.
#[test]
fn a_finished_run_can_be_extended_after_a_resume() {
    for make in CASES {
        let dir = temp_folder();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        run_whole(&make(&["time.end=1"]), &whole, &Control::default());
        run_whole(&make(&["time.end=0.6"]), &parts, &Control::default());
        let request = Resume { folder: &parts, sets: &[], restart_outputs: false };
        resume(&request, &Control::default(), |_| {}).unwrap();
        extend(&parts, "1", &Control::default()).unwrap();
        assert_same_results(&whole, &parts, "resumed, then extended");
    }
}
