//! The time at which a run starts: that of its file of bodies, or `time.start`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::{assert_same, output_to, temp_folder, without_hashes};
use orrery_engine::EngineError;
use orrery_engine::case::{Case, CaseSource};
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Output, Replace, Resume, Summary, resume, run, run_or_resume};
use orrery_formats::Limits;

/// Two bodies at time 1, and a case that starts from them.
fn case_from_file(folder: &Path, sets: &[&str]) -> Result<Case, EngineError> {
    let path = folder.join("start.xyz");
    let bodies = "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody Time=1\n\
                  -1 0 0 0 -0.5 0 1 5\n1 0 0 0 0.5 0 1 9\n";
    fs::write(&path, bodies).unwrap();
    let text = format!(
        "bodies.file = {path:?}\n[time]\nstep = 0.125\nend = 2\n[image]\nsize = 64\n\
         [output]\nrecord_every = \"1 step\"\nsnapshot_every = 0.3\nimage_every = \"3 steps\"\n"
    );
    let source = CaseSource::Text { label: "case".into(), text, folder: PathBuf::new() };
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    Ok(Case::load(&source, &sets)?)
}

fn run_case(case: &Case, folder: &Path) -> Result<(Summary, Option<f64>), EngineError> {
    let mut reported = None;
    let summary = run(case, &output_to(folder.to_owned()), &Control::default(), |event| {
        if let RunEvent::StartTime { file_time, .. } = event {
            reported = Some(file_time);
        }
    })?;
    Ok((summary, reported))
}

fn snapshot_times(folder: &Path) -> Vec<f64> {
    let count = fs::read_dir(folder.join("snapshots")).unwrap().count();
    (0..count)
        .map(|number| folder.join(format!("snapshots/snapshot_{number:03}.hdf5")))
        .map(|path| orrery_formats::read_snapshot(&path, &Limits::default()).unwrap().time)
        .collect()
}

/// Output is due at multiples of its interval, as in a run that starts at 0.
#[test]
fn a_run_starts_at_the_time_of_its_file() {
    let dir = temp_folder();
    let folder = dir.path().join("run");
    let (summary, file_time) = run_case(&case_from_file(dir.path(), &[]).unwrap(), &folder).unwrap();
    assert_eq!((summary.step, file_time, summary.case.time.start), (8, Some(1.0), Some(1.0)));
    let (first, last) = summary.first_and_last;
    assert_eq!((first.step, first.time, last.step, last.time), (0, 1.0, 8, 2.0));
    assert_eq!(snapshot_times(&folder), [1.0, 4.0 * 0.3, 5.0 * 0.3, 6.0 * 0.3, 2.0]);
    assert!(fs::read_to_string(folder.join("case.toml")).unwrap().contains("\nstart = 1.0\nend = 2.0\n"));

    // The case does not contain the start, and `run --resume` extends the run all the same.
    let case = case_from_file(dir.path(), &["time.end=2.3"]).unwrap();
    let summary = run_or_resume(&case, &folder, &Control::default(), |_| {}).unwrap();
    assert_eq!((summary.step, summary.first_and_last.1.time), (11, 2.3));
}

#[test]
fn the_case_can_set_another_start() {
    let dir = temp_folder();
    let case = case_from_file(dir.path(), &["time.start=0", "output.snapshot_every=0"]).unwrap();
    let (summary, file_time) = run_case(&case, &dir.path().join("run")).unwrap();
    assert_eq!((summary.step, file_time, summary.first_and_last.0.time), (16, Some(1.0), 0.0));
    assert_eq!(snapshot_times(&dir.path().join("run")), [0.0, 2.0]);
}

#[test]
fn a_file_at_or_after_the_end_is_refused() {
    let dir = temp_folder();
    let case = case_from_file(dir.path(), &["time.end=1"]).unwrap();
    let error = run_case(&case, &dir.path().join("run")).unwrap_err();
    let expected = "start.xyz: the time of the file is 1, expected 0 <= time < time.end = 1; time.start sets";
    assert!(error.is_user_error() && error.to_string().contains(expected), "{error}");
    assert!(!dir.path().join("run").exists());
}

/// Steps that f64 cannot represent, from a start that it cannot represent either.
#[test]
fn a_run_with_a_start_resumes_and_extends_to_the_same_bytes() {
    let dir = temp_folder();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    let sets = ["time.start=0.7", "time.step=0.1", "output.snapshot_every=0"];
    run_case(&case_from_file(dir.path(), &sets).unwrap(), &whole).unwrap();
    let control = Control::default();
    let case = case_from_file(dir.path(), &sets).unwrap();
    let stopped = run(&case, &output_to(parts.clone()), &control, |event| {
        if let RunEvent::Step(status) = event
            && status.step == 5
        {
            control.stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(stopped.unwrap().stopped.is_some());
    let resume_with = |set: Option<&str>| {
        let sets: Vec<String> = set.into_iter().map(str::to_owned).collect();
        resume(&Resume { folder: &parts, sets: &sets, restart_outputs: false }, &Control::default(), |_| {})
    };
    resume_with(None).unwrap();
    assert_same(&whole, &parts, "resumed");

    let error = resume_with(Some("time.start=0")).unwrap_err();
    assert!(error.to_string().contains("the run has time.start = 0.7 and cannot change to time.start = 0"));

    let longer = dir.path().join("longer");
    run_case(&case_from_file(dir.path(), &[&sets[..], &["time.end=2.45"]].concat()).unwrap(), &longer)
        .unwrap();
    resume_with(Some("time.end=2.45")).unwrap();
    for name in ["conserved.csv", "animation.gif", "case.toml", "checkpoints/checkpoint_000000018.orrery"] {
        let [a, b] = [&longer, &parts]
            .map(|folder| without_hashes(Path::new(name), &fs::read(folder.join(name)).unwrap()));
        assert!(a == b, "{name}");
    }
}

/// Replacing a run removes its files, so the run must not start from one of them.
#[test]
fn a_run_does_not_replace_the_folder_of_its_input_file() {
    let dir = temp_folder();
    let folder = dir.path().join("run");
    run_case(&case_from_file(dir.path(), &[]).unwrap(), &folder).unwrap();
    let input = folder.join("snapshots/snapshot_000.hdf5");
    let case = case_from_file(dir.path(), &[&format!("bodies.file={}", input.display())]).unwrap();
    assert_eq!((case.input_files(), case.snapshot_file()), (vec![input.clone()], Some(input.clone())));
    let output = Output { folder, replace: Replace::Any };
    let error = run(&case, &output, &Control::default(), |_| {}).unwrap_err();
    let expected = format!("it contains the input file {}, expected another directory", input.display());
    assert!(error.is_user_error() && error.to_string().ends_with(&expected), "{error}");
    assert!(input.exists());
}
