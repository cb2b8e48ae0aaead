//! Checkpoints with valid hashes and impossible content are rejected at once, with a message of one
//! line.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::rewrite_header;
use orrery_engine::case::{Case, CaseSource, find_preset};
use orrery_engine::checkpoint::describe;
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Output, Replace, Resume, resume, run};
use orrery_io::Limits;
use serde_json::{Value, json};

/// Runs three bodies and stops after five steps. Returns the path of the checkpoint.
fn run_five_steps(folder: &Path) -> PathBuf {
    let sets = ["time.step=0.01", "time.end=0.1", "image.size=64"].map(str::to_owned);
    let case = Case::load(&CaseSource::Preset(find_preset("pythagorean").unwrap()), &sets).unwrap();
    let control = Control::default();
    let output = Output { folder: folder.to_owned(), replace: Replace::Nothing };
    let summary = run(&case, &output, &control, |event| {
        if let RunEvent::Step(status) = event
            && status.step == 5
        {
            control.stop.store(true, Ordering::Relaxed);
        }
    });
    summary.unwrap().stopped.unwrap().1
}

#[test]
fn impossible_headers_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let checkpoint = run_five_steps(&whole);
    let inner = checkpoint.strip_prefix(&whole).unwrap();
    fs::remove_file(whole.join("checkpoints/checkpoint_000000000.orrery")).unwrap();
    rewrite_header(&checkpoint, |_| {});
    describe(&checkpoint, &Limits::default()).expect("an unchanged checkpoint is accepted");

    let changes: [(&str, Value); 17] = [
        ("/time", json!(1e300)),
        ("/time", json!(-1.0)),
        ("/time", json!(0.055)),
        ("/step", json!(u64::MAX)),
        ("/step", json!(6)),
        ("/bodies", json!(0)),
        ("/bodies", json!(4)),
        ("/solver", json!("fmm\u{1b}[2J")),
        ("/writer", json!("orrery\nerror: forged")),
        ("/provenance", json!([["a\u{7}b", "c"]])),
        ("/observers/triggers/1", json!(u64::MAX)),
        ("/observers/triggers/0", json!(0)),
        ("/observers/snapshots", json!(u64::MAX)),
        ("/observers/pictures/written", json!(u64::MAX)),
        ("/observers/pictures/stride", json!(0)),
        ("/observers/pictures/animation/frames", json!(u64::MAX)),
        ("/case", json!("[bodies]\nmodel = \"pythagorean\"\n[time]\nstep = 1e-300\nend = 1e300\n")),
    ];
    for (pointer, value) in changes {
        let folder = dir.path().join("changed");
        copy_folder(&whole, &folder);
        rewrite_header(&folder.join(inner), |header| {
            *header.pointer_mut(pointer).expect(pointer) = value.clone()
        });
        let message = describe(&folder.join(inner), &Limits::default()).expect_err(pointer).to_string();
        assert!(!message.contains(char::is_control), "{pointer}: {message:?}");
        let mut skipped = 0;
        let run = Resume { folder: &folder, sets: &[], restart_outputs: false };
        let outcome = resume(&run, &Control::default(), |event| {
            skipped += usize::from(matches!(event, RunEvent::DamagedCheckpoint(_)));
        });
        let message = outcome.expect_err(pointer).to_string();
        assert!(
            message.ends_with("all checkpoints (1) are damaged, expected a run with a checkpoint"),
            "{message}"
        );
        assert_eq!(skipped, 1, "{pointer}");
        fs::remove_dir_all(folder).unwrap();
    }

    // A table that is shorter than the checkpoint says.
    let folder = dir.path().join("changed");
    copy_folder(&whole, &folder);
    rewrite_header(&folder.join(inner), |header| {
        header["observers"]["conserved"]["file"]["length"] = json!(40u64 << 30)
    });
    let before = fs::read(folder.join("conserved.csv")).unwrap();
    let run = Resume { folder: &folder, sets: &[], restart_outputs: false };
    let message = resume(&run, &Control::default(), |_| {}).unwrap_err().to_string();
    assert!(message.contains("conserved.csv: it was shortened since the checkpoint"), "{message}");
    assert_eq!(fs::read(folder.join("conserved.csv")).unwrap(), before);
}

/// A checkpoint with the name of a later step would be read as the newest at every resume.
#[test]
fn a_checkpoint_with_the_name_of_another_step_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let checkpoint = run_five_steps(&folder);
    fs::rename(&checkpoint, folder.join("checkpoints/checkpoint_000000009.orrery")).unwrap();
    let mut messages = Vec::new();
    let run = Resume { folder: &folder, sets: &[], restart_outputs: false };
    let summary = resume(&run, &Control::default(), |event| {
        if let RunEvent::DamagedCheckpoint(error) = event {
            messages.push(error.to_string());
        }
    });
    assert_eq!(summary.unwrap().step, 10);
    assert!(messages[0].ends_with("file name: got step 9, expected step 5 as in its header"), "{messages:?}");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
