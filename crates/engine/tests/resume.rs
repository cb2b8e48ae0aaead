//! A run that was stopped and resumed leaves, byte for byte, what one leaves that was never stopped: for each
//! integrator, precision and solver, with outputs on and between the steps.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use common::{assert_same, case, content, room, to};
use orrery_engine::EngineError;
use orrery_engine::case::{Case, CaseSource};
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{self, Resume, Summary, run, run_or_resume};
use orrery_io::Limits;

fn undisturbed(case: &Case, folder: PathBuf) -> Summary {
    run(case, &to(folder), &Control::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs until `step` is done, then stops as a signal would have it.
fn stopped(case: &Case, folder: PathBuf, step: u64) -> Summary {
    let control = Control::default();
    let summary = run(case, &to(folder), &control, |event| {
        if let RunEvent::Step(status) = event
            && status.step == step
        {
            control.stop.store(true, Ordering::Relaxed);
        }
    });
    let summary = summary.unwrap_or_else(|e| panic!("{e}"));
    assert!(summary.stopped.is_some() && summary.step == step);
    summary
}

fn resume(
    folder: &Path,
    restart_outputs: bool,
    control: &Control,
    report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    run::resume(&Resume { folder, sets: &[], restart_outputs }, control, report)
}

fn resumed(folder: &Path) -> Summary {
    resume(folder, false, &Control::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

fn check(sets: &[&str], step: u64) {
    let room = room();
    let (whole, parts) = (room.path().join("whole"), room.path().join("parts"));
    let case = case(sets);
    undisturbed(&case, whole.clone());
    stopped(&case, parts.clone(), step);
    let summary = resumed(&parts);
    assert_eq!((summary.from, summary.stopped.is_none()), (step, true));
    assert_same(&whole, &parts, &sets.join(" "));
}

#[test]
fn each_integrator_precision_and_solver() {
    let solvers = [
        "gravity.solver=direct",
        "gravity.solver=tree",
        // Reads the accelerations of the step before: they are part of the state.
        "gravity.acceptance=relative",
    ];
    for integrator in ["leapfrog", "yoshida4", "yoshida6", "blanes-moan4", "hermite4"] {
        for precision in ["single", "mixed", "double"] {
            for solver in
                solvers.iter().filter(|solver| integrator != "hermite4" || solver.contains("direct"))
            {
                let integrator = format!("time.integrator={integrator}");
                let precision = format!("gravity.precision={precision}");
                let tree = if solver.contains("relative") { "gravity.solver=tree" } else { solver };
                check(&[&integrator, &precision, solver, tree], 5);
            }
        }
    }
}

#[test]
fn adaptive_steps_with_and_without_softening() {
    check(&["time.step=adaptive", "time.eta=0.1", "time.end=0.5"], 4);
    let pairs = ["bodies.n=5", "gravity.softening=0", "time.step=adaptive", "time.eta=0.05", "time.end=0.4"];
    check(&pairs, 3);
    check(&[&pairs[..], &["time.integrator=hermite4"]].concat(), 3);
}

/// Density pictures, whose scale the first one fixed, and other formats.
#[test]
fn more_bodies_and_other_formats() {
    for format in ["hdf5", "xyz", "npz"] {
        check(&["bodies.n=100", &format!("output.format={format}")], 7);
    }
}

/// Turning checkpoints on changes nothing but the case and the checkpoints.
#[test]
fn checkpoints_change_no_bit() {
    let room = room();
    let made = |name: &str, every: &str| {
        let folder = room.path().join(name);
        undisturbed(&case(&[&format!("checkpoint.every={every}")]), folder.clone());
        let mut files = content(&folder);
        // These say what the case says; snapshots and pictures carry it.
        files.retain(|path, _| path.ends_with("conserved.csv") || path.ends_with("animation.gif"));
        let snapshots: Vec<_> = (0..5)
            .map(|k| {
                orrery_io::read_snapshot(
                    &folder.join(format!("snapshots/snapshot_{k:03}.hdf5")),
                    &Limits::default(),
                )
                .unwrap()
            })
            .map(|snapshot| (snapshot.particles, snapshot.time, snapshot.step))
            .collect();
        (files, snapshots, folder.join("checkpoints"))
    };
    let (files, snapshots, folder) = made("never", "0");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "that it is over is always known");
    for every in ["1 step", "0.3", "10 min"] {
        let (other_files, other_snapshots, folder) = made(every, every);
        assert!(files == other_files && snapshots == other_snapshots, "{every}");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "of a finished run the last is kept");
    }
}

/// Stopped again and again, after every step.
#[test]
fn many_stops_are_as_good_as_none() {
    let room = room();
    let (whole, parts) = (room.path().join("whole"), room.path().join("parts"));
    let case = case(&["checkpoint.every=5 steps", "checkpoint.keep=1"]);
    undisturbed(&case, whole.clone());
    for step in 1..=12 {
        let control = Control::default();
        let summary = run_or_resume(&case, &parts, &control, |event| {
            if let RunEvent::Step(_) = event {
                control.stop.store(true, Ordering::Relaxed);
            }
        });
        let summary = summary.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((summary.step, summary.stopped.is_some()), (step, step < 12));
        assert_eq!(fs::read_dir(parts.join("checkpoints")).unwrap().count(), 1, "as many as asked for");
    }
    assert_same(&whole, &parts, "twelve stops");
    // And once it is finished, there is nothing to do.
    let again = run_or_resume(&case, &parts, &Control::default(), |event| {
        assert!(!matches!(event, RunEvent::Step(_)))
    });
    assert_eq!(again.unwrap().step, 12);
    assert_same(&whole, &parts, "a resume after the end");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_with_a_word() {
    let room = room();
    let (whole, parts) = (room.path().join("whole"), room.path().join("parts"));
    let case = case(&["checkpoint.every=3 steps"]);
    undisturbed(&case, whole.clone());
    stopped(&case, parts.clone(), 8);
    let names = |folder: &Path| {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let folder = parts.join("checkpoints");
    assert_eq!(names(&folder), ["checkpoint_000000006.orrery", "checkpoint_000000008.orrery"]);
    let newest = folder.join("checkpoint_000000008.orrery");
    let mut bytes = fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&newest, &bytes).unwrap();

    let (mut words, mut from) = (Vec::new(), None);
    let summary = resume(&parts, false, &Control::default(), |event| match event {
        RunEvent::DamagedCheckpoint(error) => words.push(error.to_string()),
        RunEvent::Resumed { step, .. } => from = Some(step),
        _ => {}
    });
    assert_eq!((summary.unwrap().step, from), (12, Some(6)));
    assert_eq!(words.len(), 1);
    assert!(words[0].contains("checkpoint_000000008.orrery: block"), "{words:?}");
    // Set aside for whoever wants to know why; never counted among those that are kept.
    assert_eq!(names(&folder), ["checkpoint_000000008.orrery.damaged", "checkpoint_000000012.orrery"]);
    fs::remove_file(folder.join("checkpoint_000000008.orrery.damaged")).unwrap();
    assert_same(&whole, &parts, "after a fall-back");

    // One that is only too large for the memory allowed is not damaged.
    let small = Control { limits: Limits { memory: 1000 }, ..Control::default() };
    let error = resume(&parts, false, &small, |_| {}).unwrap_err().to_string();
    assert!(error.ends_with(" KiB long, the limit of memory is 1000.0 B"), "{error}");

    // With all of them damaged there is nothing left to go on from.
    fs::write(folder.join("checkpoint_000000012.orrery"), b"ORRERYCP").unwrap();
    let error = resume(&parts, false, &Control::default(), |_| {}).unwrap_err();
    assert!(matches!(error, EngineError::NoCheckpoint { damaged: 1, .. }), "{error}");
    assert!(error.to_string().ends_with("all checkpoints (1) are damaged, expected a run with a checkpoint"));
}

#[test]
fn a_changed_table_is_refused_or_begun_anew() {
    let room = room();
    let folder = room.path().join("run");
    stopped(&case(&[]), folder.clone(), 6);
    let table = folder.join("conserved.csv");
    let first =
        fs::read_to_string(&table).unwrap().lines().take(2).map(|l| l.to_owned() + "\n").collect::<String>();
    fs::write(&table, "opened and saved by a spreadsheet").unwrap();
    let error = resume(&folder, false, &Control::default(), |_| {}).unwrap_err().to_string();
    assert!(
        error.contains("conserved.csv: it was shortened since the checkpoint; put it back, or let"),
        "{error}"
    );

    let mut anew = 0;
    let summary = resume(&folder, true, &Control::default(), |event| {
        anew += usize::from(matches!(event, RunEvent::OutputRestarted(_)))
    });
    assert_eq!((summary.unwrap().step, anew), (12, 1));
    let rows = fs::read_to_string(&table).unwrap();
    assert!(rows.starts_with(&first), "the row that energies are measured against is kept");
    assert_eq!(rows.lines().count(), 2 + 6);
    let kept = fs::read_to_string(folder.join("conserved.csv.changed")).unwrap();
    assert_eq!(kept, "opened and saved by a spreadsheet");
}

#[test]
fn another_case_is_not_gone_on_with() {
    let room = room();
    let folder = room.path().join("run");
    stopped(&case(&[]), folder.clone(), 2);
    let before = content(&folder);
    let error = run_or_resume(&case(&["time.end=3"]), &folder, &Control::default(), |_| {}).unwrap_err();
    assert!(error.is_user_error());
    assert!(
        error.to_string().contains("the run has time.end = 1.5 but the case has time.end = 3"),
        "{error}"
    );
    assert_eq!(content(&folder), before);
    // Nor is a folder taken for a run that holds none.
    let error = resume(room.path(), false, &Control::default(), |_| {}).unwrap_err().to_string();
    assert!(error.ends_with("no checkpoint in it, expected a run with a checkpoint"), "{error}");
    assert_eq!(fs::read_dir(room.path()).unwrap().count(), 1, "nothing was written there");
}

/// The file that the bodies came from may be gone; the checkpoint has them.
#[test]
fn the_first_file_is_not_needed_again() {
    let room = room();
    let start = room.path().join("start.xyz");
    let bodies =
        "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n-1 0 0 0 -0.5 0 1 5\n1 0 0 0 0.5 0 1 9\n";
    fs::write(&start, bodies).unwrap();
    let text = format!("bodies.file = {start:?}\n[time]\nstep = 0.125\nend = 1\n[image]\nsize = 64\n");
    let source = CaseSource::Text { label: "case".into(), text, folder: PathBuf::new() };
    let case = Case::load(&source, &[]).unwrap();
    let (whole, parts) = (room.path().join("whole"), room.path().join("parts"));
    undisturbed(&case, whole.clone());
    stopped(&case, parts.clone(), 4);
    fs::remove_file(start).unwrap();
    resumed(&parts);
    assert_same(&whole, &parts, "bodies from a file");
}

/// Without a checkpoint nothing that was computed is replaced; what has only just begun is started again.
#[test]
fn a_run_without_a_checkpoint_is_kept() {
    let room = room();
    let folder = room.path().join("run");
    let case = case(&["checkpoint.every=0"]);
    undisturbed(&case, folder.clone());
    fs::remove_dir_all(folder.join("checkpoints")).unwrap();
    let before = content(&folder);
    let error = run_or_resume(&case, &folder, &Control::default(), |_| {}).unwrap_err();
    assert!(
        error.to_string().ends_with("the directory contains a run without a checkpoint; --force replaces it")
    );
    assert!(error.is_user_error() && content(&folder) == before);

    for folder_of_more in ["snapshots", "images"] {
        for entry in fs::read_dir(folder.join(folder_of_more)).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    fs::write(folder.join("conserved.csv"), "step,time\n").unwrap();
    let summary = run_or_resume(&case, &folder, &Control::default(), |_| {}).unwrap();
    assert_eq!((summary.from, summary.step), (0, 12));
}

/// When to save and what to allow may change on the way; what is computed may not.
#[test]
fn harmless_keys_may_change() {
    let room = room();
    let (whole, parts) = (room.path().join("whole"), room.path().join("parts"));
    undisturbed(&case(&[]), whole.clone());
    stopped(&case(&[]), parts.clone(), 6);
    let sets =
        ["checkpoint.every=2 steps", "limits.energy_error=none", "output.on_error=wait"].map(str::to_owned);
    run::resume(&Resume { folder: &parts, sets: &sets, restart_outputs: false }, &Control::default(), |_| {})
        .unwrap();
    assert!(fs::read_to_string(parts.join("case.toml")).unwrap().contains("every = \"2 steps\""));
    for name in ["conserved.csv", "animation.gif", "snapshots/snapshot_004.hdf5", "energy.png"] {
        assert!(fs::read(whole.join(name)).unwrap() == fs::read(parts.join(name)).unwrap(), "{name}");
    }
}

/// What is lost of the files before is said.
#[test]
fn missing_snapshots_are_noticed() {
    let room = room();
    let folder = room.path().join("run");
    stopped(&case(&[]), folder.clone(), 8);
    fs::remove_file(folder.join("snapshots/snapshot_001.hdf5")).unwrap();
    let mut words = Vec::new();
    let outcome = resume(&folder, false, &Control::default(), |event| {
        if let RunEvent::MissingFiles { path, count } = event {
            words.push((path.file_name().unwrap().to_owned(), count));
        }
    });
    assert_eq!(outcome.unwrap().step, 12);
    assert_eq!(words, [("snapshot_001.hdf5".into(), 1)]);
}

/// The clock is kept while waiting, and a wall time that no step fits into is no stop in good order.
#[test]
fn the_wall_time_ends_waiting_and_is_not_tried_for_ever() {
    let room = room();
    let folder = room.path().join("run");
    let soon = |seconds| Control {
        deadline: Some(std::time::Instant::now() + std::time::Duration::from_secs(seconds)),
        ..Control::default()
    };
    let error = run(&case(&[]), &to(folder.clone()), &soon(0), |_| {}).unwrap_err();
    assert!(
        error.to_string().starts_with("step 0: the wall time is too short for one step, expected at least "),
        "{error}"
    );
    assert!(!error.is_user_error());

    // A folder in the way of the next picture: the storage fails until someone moves it.
    fs::create_dir_all(folder.join("images/image_0001.png/x")).unwrap();
    let sets = ["output.on_error=wait".to_owned()];
    let mut waits = 0;
    let outcome =
        run::resume(&Resume { folder: &folder, sets: &sets, restart_outputs: false }, &soon(3), |event| {
            waits += usize::from(matches!(event, RunEvent::WaitingForStorage { .. }));
        });
    let said = outcome.unwrap_err().to_string();
    assert!(waits >= 1, "{said}");
    assert!(said.contains("image_0001.png: could not be renamed after "), "{said}");
    assert!(
        said.ends_with(&format!("; step 0 is saved, orrery resume {} continues from it", folder.display())),
        "{said}"
    );
}
