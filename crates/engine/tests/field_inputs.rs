//! The case and the input files of a field that is resumed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::{CASES, assert_same, folder_content, output_to, plate, temp_folder};
use orrery_engine::EngineError;
use orrery_engine::case::{Case, CaseSource};
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Resume, Summary, resume, run, run_or_resume};
use orrery_formats::FieldValues;
use orrery_model::grid::Grid;

fn run_until(case: &Case, folder: PathBuf, step: u64) {
    let control = Control { steps_per_batch: Some(1), ..Control::default() };
    let summary = run(case, &output_to(folder), &control, |event| {
        if matches!(&event, RunEvent::Step(status) if status.step == step) {
            control.stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(summary.unwrap_or_else(|e| panic!("{e}")).stopped.is_some());
}

fn resume_run(folder: &Path, report: impl FnMut(RunEvent<'_>) + Send) -> Result<Summary, EngineError> {
    resume(&Resume { folder, sets: &[], restart_outputs: false }, &Control::default(), report)
}

/// A case of a plate with all its properties in files.
fn plate_of_files(folder: &Path) -> Case {
    let grid = Grid { nx: 6, ny: 5, hx: 1.0, hy: 1.0 };
    let values = |first: f64| (0..30).map(|k| first + 0.01 * f64::from(k)).collect::<Vec<_>>();
    for (name, first) in [("initial", 1.0), ("conductivity", 0.5), ("source", 0.0)] {
        let path = folder.join(format!("{name}.npy"));
        orrery_formats::write_field_npy(&path, &grid, FieldValues::Double(&values(first))).unwrap();
    }
    let text = "grid = { nx = 6, ny = 5, hx = 1 }\n[heat]\nconductivity_file = \"conductivity.npy\"\n\
                source_file = \"source.npy\"\n[initial]\nfile = \"initial.npy\"\n\
                [time]\nstep = 0.125\nend = 1\n\
                [output]\nrecord_every = \"1 step\"\n[image]\nsize = 64\n";
    let source = CaseSource::Text { label: "case".into(), text: text.into(), folder: folder.to_owned() };
    Case::load(&source, &[]).unwrap_or_else(|e| panic!("{e}"))
}

/// The checkpoint of a field has its temperatures alone. Other files are read again, so they must
/// be the same. A file that is not is no damage of the checkpoint.
#[test]
fn a_resumed_field_needs_its_properties_and_not_its_initial_state() {
    let dir = temp_folder();
    let case = plate_of_files(dir.path());
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap();
    run_until(&case, parts.clone(), 4);
    fs::remove_file(dir.path().join("initial.npy")).unwrap();
    let before = folder_content(&parts);
    let refused = |name: &str, expected: &str| {
        let report = |event: RunEvent<'_>| assert!(!matches!(event, RunEvent::DamagedCheckpoint(_)));
        let error = resume_run(&parts, report).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with(&dir.path().join(name).display().to_string()), "{message}");
        assert!(error.is_user_error() && message.contains(expected), "{message}");
        assert!(message.contains("expected the file that the run started with"), "{message}");
        assert_eq!(folder_content(&parts), before, "{message}");
    };
    for name in ["conductivity.npy", "source.npy"] {
        let path = dir.path().join(name);
        let bytes = fs::read(&path).unwrap();
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        fs::write(&path, changed).unwrap();
        refused(name, ": the file has changed, ");
        fs::remove_file(&path).unwrap();
        refused(name, ": no such file or directory, ");
        fs::create_dir(&path).unwrap();
        refused(name, ": not a regular file, ");
        fs::remove_dir(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    resume_run(&parts, |_| {}).unwrap();
    assert_same(&whole, &parts, "properties from files");
}

/// A folder with a run of one physics, and a case of another.
#[test]
fn a_run_does_not_resume_with_another_physics() {
    for (make, other, expected) in [
        (CASES[0], CASES[1], "the run has the physics gravity but the case has the physics heat; "),
        (CASES[1], CASES[0], "the run has the physics heat but the case has the physics gravity; "),
    ] {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_until(&make(&[]), folder.clone(), 2);
        let before = folder_content(&folder);
        let error = run_or_resume(&other(&[]), &folder, &Control::default(), |_| {}).unwrap_err();
        assert!(error.is_user_error() && error.to_string().contains(expected), "{error}");
        assert_eq!(folder_content(&folder), before);
    }
}

/// Cases of a field differ in their number of keys.
#[test]
fn regions_that_differ_are_named() {
    let dir = temp_folder();
    let folder = dir.path().join("run");
    run_until(&plate(&[]), folder.clone(), 2);
    let path = folder.join("case.toml");
    let text = fs::read_to_string(&path).unwrap();
    let region = "\n[[heat.region]]\nshape = \"disc\"\nx = 1.0\ny = 1.0\nradius = 2.0\nsource = 1.0\n";
    let last = text.find("[[heat.region]]").unwrap();
    let end = last + text[last..].find("\n\n").unwrap();
    for (edited, expected) in [
        (
            text.replacen("source = 0.3", "source = 0.4", 1),
            "it has heat.region[1].source = 0.4, but the run has heat.region[1].source = 0.3",
        ),
        (
            [&text[..end], "\n", region, &text[end..]].concat(),
            "it has heat.region[2].shape = \"disc\", but the run has no heat.region[2].shape",
        ),
        (
            [&text[..last], &text[end..]].concat(),
            "it has no heat.region[1].shape, but the run has heat.region[1].shape = \"disc\"",
        ),
        (
            text.replacen("source = 0.3\n", "", 1),
            "it has no heat.region[1].source, but the run has heat.region[1].source = 0.3",
        ),
        (
            text.replacen("step = 0.125\n", "", 1),
            "missing key 'step' in [time], expected the step of the run",
        ),
    ] {
        assert_ne!(edited, text, "{expected}");
        fs::write(&path, edited).unwrap();
        let error = resume_run(&folder, |_| {}).unwrap_err();
        assert!(error.is_user_error() && error.to_string().contains(expected), "{error}");
    }
}
