//! Checkpoints whose hashes fit and whose content no run could have left: refused in one line, at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use orrery_engine::case::{Case, CaseSource, find_preset};
use orrery_engine::checkpoint::describe;
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Output, Replace, Resume, resume, run};
use orrery_io::{Limits, read_checkpoint, write_checkpoint};
use serde_json::{Value, json};

/// A run of three bodies that was stopped after five steps.
fn stopped(folder: &Path) -> PathBuf {
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

/// Writes the checkpoint again with `change` made to its header, so that all hashes fit.
fn forge(path: &Path, change: impl Fn(&mut Value)) {
    let checkpoint = read_checkpoint(path, &Limits::default()).unwrap();
    let mut header: Value = serde_json::from_str(&checkpoint.header).unwrap();
    change(&mut header);
    let columns: Vec<_> =
        checkpoint.blocks.iter().map(|(name, block)| (name.as_str(), block.column())).collect();
    write_checkpoint(path, &header.to_string(), &columns).unwrap();
}

#[test]
fn what_no_run_has_is_refused() {
    let room = tempfile::tempdir().unwrap();
    let whole = room.path().join("whole");
    let checkpoint = stopped(&whole);
    let inner = checkpoint.strip_prefix(&whole).unwrap();
    fs::remove_file(whole.join("checkpoints/checkpoint_000000000.orrery")).unwrap();
    forge(&checkpoint, |_| {});
    describe(&checkpoint, &Limits::default()).expect("what is not changed is taken");

    let forgeries: [(&str, Value); 17] = [
        ("/time", json!(1e300)),
        ("/time", json!(-1.0)),
        ("/time", json!(0.055)),
        ("/step", json!(u64::MAX)),
        ("/step", json!(6)),
        ("/bodies", json!(0)),
        ("/bodies", json!(4)),
        ("/solver", json!("fmm\u{1b}[2J")),
        ("/writer", json!("orrery\nerror: all is lost")),
        ("/provenance", json!([["a\u{7}b", "c"]])),
        ("/observers/triggers/1", json!(u64::MAX)),
        ("/observers/triggers/0", json!(0)),
        ("/observers/snapshots", json!(u64::MAX)),
        ("/observers/pictures/written", json!(u64::MAX)),
        ("/observers/pictures/stride", json!(0)),
        ("/observers/pictures/animation/frames", json!(u64::MAX)),
        ("/case", json!("[bodies]\nmodel = \"pythagorean\"\n[time]\nstep = 1e-300\nend = 1e300\n")),
    ];
    for (setup, value) in forgeries {
        let folder = room.path().join("forged");
        copy(&whole, &folder);
        forge(&folder.join(inner), |header| *header.pointer_mut(setup).expect(setup) = value.clone());
        let said = describe(&folder.join(inner), &Limits::default()).expect_err(setup).to_string();
        assert!(!said.contains(char::is_control), "{setup}: {said:?}");
        let mut passed_over = 0;
        let run = Resume { folder: &folder, sets: &[], restart_outputs: false };
        let outcome = resume(&run, &Control::default(), |event| {
            passed_over += usize::from(matches!(event, RunEvent::DamagedCheckpoint(_)));
        });
        let said = outcome.expect_err(setup).to_string();
        assert!(
            said.ends_with("all checkpoints (1) are damaged, expected a run with a checkpoint"),
            "{said}"
        );
        assert_eq!(passed_over, 1, "{setup}");
        fs::remove_dir_all(folder).unwrap();
    }

    // A table that is said to be longer than it is.
    let folder = room.path().join("forged");
    copy(&whole, &folder);
    forge(&folder.join(inner), |header| {
        header["observers"]["conserved"]["file"]["length"] = json!(40u64 << 30)
    });
    let before = fs::read(folder.join("conserved.csv")).unwrap();
    let run = Resume { folder: &folder, sets: &[], restart_outputs: false };
    let said = resume(&run, &Control::default(), |_| {}).unwrap_err().to_string();
    assert!(said.contains("conserved.csv: it was shortened since the checkpoint"), "{said}");
    assert_eq!(fs::read(folder.join("conserved.csv")).unwrap(), before);
}

/// One that bears another step's name would be taken for the newest again and again.
#[test]
fn a_name_must_fit() {
    let room = tempfile::tempdir().unwrap();
    let folder = room.path().join("run");
    let checkpoint = stopped(&folder);
    fs::rename(&checkpoint, folder.join("checkpoints/checkpoint_000000009.orrery")).unwrap();
    let mut words = Vec::new();
    let run = Resume { folder: &folder, sets: &[], restart_outputs: false };
    let summary = resume(&run, &Control::default(), |event| {
        if let RunEvent::DamagedCheckpoint(error) = event {
            words.push(error.to_string());
        }
    });
    assert_eq!(summary.unwrap().step, 10);
    assert!(words[0].ends_with("file name: got step 9, expected step 5 as in its header"), "{words:?}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
