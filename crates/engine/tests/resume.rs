//! A run that was stopped and resumed writes the same bytes as one that was never stopped. Tested
//! for each physics, integrator, precision and solver, with outputs at and between steps.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::{
    CASES, assert_same, case, folder_content, output_to, plate, rewrite_header, table_of, temp_folder,
};
use orrery_engine::case::{Case, CaseSource, Every};
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{self, Resume, Run, Summary, run, run_or_resume};
use orrery_engine::{EngineError, Moment, Trigger};
use orrery_formats::{AppendFile, Limits};

fn run_whole(case: &Case, folder: PathBuf) -> Summary {
    run(case, &output_to(folder), &Control::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs until `step` is complete, then stops as after a signal.
fn run_until(case: &Case, folder: PathBuf, step: u64) -> Summary {
    let control = Control::default();
    let summary = run(case, &output_to(folder), &control, |event| {
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

fn resume_run(
    folder: &Path,
    restart_outputs: bool,
    control: &Control,
    report: impl FnMut(RunEvent<'_>) + Send,
) -> Result<Summary, EngineError> {
    run::resume(&Resume { folder, sets: &[], restart_outputs }, control, report)
}

fn resume_to_end(folder: &Path) -> Summary {
    resume_run(folder, false, &Control::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"))
}

fn check_resume(sets: &[&str], step: u64) {
    check_case(&case(sets), step, &sets.join(" "));
}

fn check_case(case: &Case, step: u64, label: &str) {
    let dir = temp_folder();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    run_whole(case, whole.clone());
    run_until(case, parts.clone(), step);
    let summary = resume_to_end(&parts);
    assert_eq!((summary.from, summary.stopped.is_none()), (step, true));
    assert_same(&whole, &parts, label);
}

/// Runs or resumes until an observer has seen `count` times, then stops as after a signal. The
/// times are those of images every 0.01.
fn stop_at_image(case: Option<&Case>, folder: &Path, count: usize) -> Summary {
    let control = Control::default();
    let mut run = match case {
        Some(case) => Run::start(case, &output_to(folder.to_owned()), &control, |_| {}),
        None => {
            let resume = Resume { folder, sets: &[], restart_outputs: false };
            Run::resume(&resume, &control, |_| {})
        }
    }
    .unwrap_or_else(|e| panic!("{e}"));
    let mut seen = 0;
    let count_images = |_: &Moment| {
        seen += 1;
        control.stop.fetch_or(seen == count, Ordering::Relaxed);
        Ok(())
    };
    run.observe(Trigger::new(Every::Time(0.01)), Box::new(count_images));
    run.finish().unwrap_or_else(|e| panic!("{e}"))
}

/// A step has 12 or 13 images. A run that stops among them does not draw the others, and a resumed
/// run does. The first step, a later one, the last one, and two stops within one step.
#[test]
fn a_run_stops_within_a_step_and_repeats_the_bytes() {
    let often = ["output.image_every=0.01", "output.record_every=0.03", "output.snapshot_every=0.07"];
    for make in CASES {
        let case = make(&often);
        let dir = temp_folder();
        let whole = dir.path().join("whole");
        run_whole(&case, whole.clone());
        // The observer of a resumed run starts at the start of the step, at 0.38, and sees times of
        // the stopped run again.
        for (stops, step) in
            [(&[(5, 5)][..], 0), (&[(44, 44)], 3), (&[(142, 142)], 11), (&[(44, 44), (10, 48)], 3)]
        {
            let label = format!("{} after {stops:?}", case.name);
            let parts = dir.path().join(&label);
            for (index, &(stop, images)) in stops.iter().enumerate() {
                let summary = stop_at_image(Some(&case).filter(|_| index == 0), &parts, stop);
                assert!(summary.stopped.is_some() && summary.step == step, "{label}: step {}", summary.step);
                let drawn = fs::read_dir(parts.join("images")).unwrap().count();
                assert_eq!(drawn, images, "{label}: images of the stopped run");
            }
            assert_eq!(resume_to_end(&parts).from, step, "{label}");
            assert_same(&whole, &parts, &label);
        }
        // A run that has images of a time cannot end before it. The steps of waves all have the
        // same length, so this end is that of the step.
        if case.wave().is_some() {
            continue;
        }
        let parts = dir.path().join("end");
        stop_at_image(Some(&case), &parts, 44);
        let sets = ["time.end=0.4".to_owned()];
        let run = Resume { folder: &parts, sets: &sets, restart_outputs: false };
        let error = run::resume(&run, &Control::default(), |_| {}).unwrap_err().to_string();
        assert!(error.contains("time.end = 0.4 is not after time 0.43 of step 3"), "{error}");
    }
    let adaptive = case(&[&often[..], &["time.step=adaptive", "time.eta=0.3"]].concat());
    let dir = temp_folder();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    run_whole(&adaptive, whole.clone());
    assert!(stop_at_image(Some(&adaptive), &parts, 40).stopped.is_some());
    resume_to_end(&parts);
    assert_same(&whole, &parts, "adaptive");
}

/// Resumed after every step, in each precision and format.
#[test]
fn resume_repeats_the_bytes_of_a_field() {
    for sets in [&["heat.precision=single", "output.format=vti"][..], &["image.low=0", "image.high=2"]] {
        for step in 1..12 {
            check_case(&plate(sets), step, &format!("{sets:?} after step {step}"));
        }
    }
    check_case(&plate(&["time.start=0.7", "time.step=0.1", "time.end=2"]), 5, "another start");
    // Without fluxes and sources, all images have the range of colours of the first one.
    let text = "grid = { nx = 20, ny = 20, hx = 1 }\nheat.conductivity = 1\ninitial.state = \"hot-spot\"\n\
                time = { step = 0.2, end = 1.9 }\noutput = { record_every = \"1 step\", image_every = 0.3 }\n\
                image.size = 64\n";
    let source = CaseSource::Text { label: "case".into(), text: text.into(), folder: PathBuf::new() };
    let case = Case::load(&source, &[]).unwrap_or_else(|e| panic!("{e}"));
    for step in 1..10 {
        check_case(&case, step, &format!("closed after step {step}"));
    }
}

#[test]
fn resume_repeats_the_bytes_for_each_integrator_precision_and_solver() {
    let solvers = [
        "gravity.solver=direct",
        "gravity.solver=tree",
        // Uses the accelerations of the step before, which are part of the state.
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
                check_resume(&[&integrator, &precision, solver, tree], 5);
            }
        }
    }
}

#[test]
fn resume_repeats_the_bytes_with_adaptive_steps() {
    check_resume(&["time.step=adaptive", "time.eta=0.1", "time.end=0.5"], 4);
    let pairs = ["bodies.n=5", "gravity.softening=0", "time.step=adaptive", "time.eta=0.05", "time.end=0.4"];
    check_resume(&pairs, 3);
    check_resume(&[&pairs[..], &["time.integrator=hermite4"]].concat(), 3);
}

/// Density images, whose scale the first image sets, and other formats.
#[test]
fn resume_repeats_the_bytes_of_density_images_and_other_formats() {
    for format in ["hdf5", "xyz", "npz"] {
        check_resume(&["bodies.n=100", &format!("output.format={format}")], 7);
    }
}

#[test]
fn resume_repeats_the_bytes_without_plots_and_animation() {
    let sets = ["image.animation=none"];
    for make in CASES {
        check_case(&make(&sets), 5, "without plots and animation");
        let dir = temp_folder();
        run_whole(&make(&sets), dir.path().join("run"));
        let content = folder_content(&dir.path().join("run"));
        let images = |path: &PathBuf| path.starts_with("images");
        let drawn = ["svg", "png", "gif"].map(std::ffi::OsStr::new);
        let is_drawn = |path: &&PathBuf| path.extension().is_some_and(|end| drawn.contains(&end));
        let plots: Vec<_> = content.keys().filter(is_drawn).filter(|path| !images(path)).collect();
        assert!(plots.is_empty() && content.keys().any(images), "{plots:?}");
    }
}

/// The schedule of checkpoints affects only the case and the checkpoints.
#[test]
fn checkpoints_do_not_affect_results() {
    let dir = temp_folder();
    let made = |name: &str, every: &str| {
        let folder = dir.path().join(name);
        run_whole(&case(&[&format!("checkpoint.every={every}")]), folder.clone());
        let mut files = folder_content(&folder);
        // These files do not depend on the case text. Snapshots and images contain it.
        files.retain(|path, _| path.ends_with("conserved.csv") || path.ends_with("animation.gif"));
        let snapshots: Vec<_> = (0..5)
            .map(|number| {
                orrery_formats::read_snapshot(
                    &folder.join(format!("snapshots/snapshot_{number:03}.hdf5")),
                    &Limits::default(),
                )
                .unwrap()
            })
            .map(|snapshot| (snapshot.particles, snapshot.time, snapshot.step))
            .collect();
        (files, snapshots, folder.join("checkpoints"))
    };
    let (files, snapshots, folder) = made("never", "0");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "a finished run has one checkpoint");
    for every in ["1 step", "0.3", "10 min"] {
        let (other_files, other_snapshots, folder) = made(every, every);
        assert!(files == other_files && snapshots == other_snapshots, "{every}");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "a finished run keeps only the last checkpoint");
    }
}

/// Stopped and resumed after every step.
#[test]
fn a_stop_after_every_step_does_not_affect_results() {
    for make in CASES {
        let dir = temp_folder();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        let case = make(&["checkpoint.every=5 steps", "checkpoint.keep=1"]);
        run_whole(&case, whole.clone());
        for step in 1..=12 {
            let control = Control::default();
            let summary = run_or_resume(&case, &parts, &control, |event| {
                if let RunEvent::Step(_) = event {
                    control.stop.store(true, Ordering::Relaxed);
                }
            });
            let summary = summary.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!((summary.step, summary.stopped.is_some()), (step, step < 12));
            assert_eq!(fs::read_dir(parts.join("checkpoints")).unwrap().count(), 1, "checkpoint.keep = 1");
        }
        assert_same(&whole, &parts, "twelve stops");
        // A finished run has nothing left to do.
        let again = run_or_resume(&case, &parts, &Control::default(), |event| {
            assert!(!matches!(event, RunEvent::Step(_)))
        });
        assert_eq!(again.unwrap().step, 12);
        assert_same(&whole, &parts, "a resume after the end");
    }
}

#[test]
fn a_damaged_checkpoint_is_reported_and_skipped() {
    for make in CASES {
        let dir = temp_folder();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        let case = make(&["checkpoint.every=3 steps"]);
        run_whole(&case, whole.clone());
        run_until(&case, parts.clone(), 8);
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

        let (mut reports, mut from) = (Vec::new(), None);
        let summary = resume_run(&parts, false, &Control::default(), |event| match event {
            RunEvent::DamagedCheckpoint(error) => reports.push(error.to_string()),
            RunEvent::Resumed { step, .. } => from = Some(step),
            _ => {}
        });
        assert_eq!((summary.unwrap().step, from), (12, Some(6)));
        assert_eq!(reports.len(), 1);
        assert!(reports[0].contains("checkpoint_000000008.orrery: block"), "{reports:?}");
        // Renamed for inspection, and not counted among the checkpoints that are kept.
        assert_eq!(names(&folder), ["checkpoint_000000008.orrery.damaged", "checkpoint_000000012.orrery"]);
        fs::remove_file(folder.join("checkpoint_000000008.orrery.damaged")).unwrap();
        assert_same(&whole, &parts, "after falling back to the older checkpoint");

        // A checkpoint that is too large for the memory limit is not damaged.
        let small = Control { limits: Limits { memory: 1000 }, ..Control::default() };
        let error = resume_run(&parts, false, &small, |_| {}).unwrap_err().to_string();
        assert!(error.ends_with(" KiB long, the memory limit is 1000.0 B"), "{error}");

        // If all checkpoints are damaged, the run cannot be resumed.
        fs::write(folder.join("checkpoint_000000012.orrery"), b"ORRERYCP").unwrap();
        let error = resume_run(&parts, false, &Control::default(), |_| {}).unwrap_err();
        assert!(matches!(error, EngineError::NoCheckpoint { damaged: 1, .. }), "{error}");
        assert!(
            error.to_string().ends_with("all checkpoints (1) are damaged, expected a run with a checkpoint")
        );
    }
}

#[test]
fn a_changed_table_is_rejected_or_restarted() {
    for make in CASES {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_until(&make(&[]), folder.clone(), 6);
        let table = table_of(&folder);
        let first = fs::read_to_string(&table)
            .unwrap()
            .lines()
            .take(2)
            .map(|l| l.to_owned() + "\n")
            .collect::<String>();
        fs::write(&table, "opened and saved by a spreadsheet").unwrap();
        let error = resume_run(&folder, false, &Control::default(), |_| {}).unwrap_err().to_string();
        assert!(error.contains(".csv: it was shortened since the checkpoint; restore it, or use"), "{error}");

        let mut restarted = 0;
        let summary = resume_run(&folder, true, &Control::default(), |event| {
            restarted += usize::from(matches!(event, RunEvent::OutputRestarted { .. }))
        });
        assert_eq!((summary.unwrap().step, restarted), (12, 1));
        let rows = fs::read_to_string(&table).unwrap();
        assert!(rows.starts_with(&first), "the first row is kept");
        assert_eq!(rows.lines().count(), 2 + 6);
        let kept = fs::read_to_string(table.with_extension("csv.changed")).unwrap();
        assert_eq!(kept, "opened and saved by a spreadsheet");
    }
}

/// Tables of versions before headers had units continue with the header that they have. Their
/// columns are the same, and a file with two headers or a replaced one would surprise its readers.
#[test]
fn a_table_without_units_keeps_its_header() {
    let bodies =
        ["units=galactic", "time.step=0.001", "time.end=0.012", "output.snapshot_every=0.0032"].as_slice();
    for (make, sets) in CASES.into_iter().zip([bodies, &["units=si"], &["units=si"]]) {
        let dir = temp_folder();
        let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
        let case = make(sets);
        let expected = run_whole(&case, whole.clone());
        let (_, checkpoint) = run_until(&case, parts.clone(), 6).stopped.unwrap();
        let table = |folder: &Path| fs::read_to_string(folder.join("conserved.csv")).unwrap();
        let without_units = |text: String| {
            let (header, rows) = text.split_once('\n').unwrap();
            let names: Vec<_> = header.split(',').map(|column| column.split(" [").next().unwrap()).collect();
            assert!(header.contains("time ["), "{header}");
            format!("{}\n{rows}", names.join(","))
        };
        // The older version wrote this table, and its length and hash in the checkpoint.
        let old = without_units(table(&parts));
        let mut file = AppendFile::create(&parts.join("conserved.csv"), b"", old.as_bytes()).unwrap();
        let mark = serde_json::to_value(file.sync().unwrap()).unwrap();
        rewrite_header(&checkpoint, |header| header["observers"]["conserved"]["file"] = mark.clone());

        let summary = resume_to_end(&parts);
        assert_eq!(table(&parts), without_units(table(&whole)));
        // Errors are relative to the first row, which is read from the old table.
        assert_eq!(summary.first_and_last, expected.first_and_last);
        // The checkpoint of the resumed run has the old header, too.
        let summary = run::resume(
            &Resume { folder: &parts, sets: &[], restart_outputs: false },
            &Control::default(),
            |event| assert!(!matches!(event, RunEvent::OutputRestarted { .. })),
        );
        assert_eq!(summary.unwrap().step, 12);
    }
}

#[test]
fn a_run_does_not_resume_with_another_case() {
    for make in CASES {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_until(&make(&[]), folder.clone(), 2);
        let before = folder_content(&folder);
        let error =
            run_or_resume(&make(&["time.step=0.25"]), &folder, &Control::default(), |_| {}).unwrap_err();
        assert!(error.is_user_error());
        assert!(
            error.to_string().contains("the run has time.step = 0.125 but the case has time.step = 0.25"),
            "{error}"
        );
        assert_eq!(folder_content(&folder), before);
        // A folder without a run is rejected too.
        let error = resume_run(dir.path(), false, &Control::default(), |_| {}).unwrap_err().to_string();
        assert!(error.ends_with("no checkpoint in it, expected a run with a checkpoint"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written there");
    }
}

/// The file of the initial bodies can be removed, because the checkpoint contains the bodies.
#[test]
fn resume_does_not_need_the_file_of_the_initial_bodies() {
    let dir = temp_folder();
    let start = dir.path().join("start.xyz");
    let bodies =
        "2\nProperties=pos:R:3:vel:R:3:mass:R:1:id:I:1 units=nbody\n-1 0 0 0 -0.5 0 1 5\n1 0 0 0 0.5 0 1 9\n";
    fs::write(&start, bodies).unwrap();
    let text = format!("bodies.file = {start:?}\n[time]\nstep = 0.125\nend = 1\n[image]\nsize = 64\n");
    let source = CaseSource::Text { label: "case".into(), text, folder: PathBuf::new() };
    let case = Case::load(&source, &[]).unwrap();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    run_whole(&case, whole.clone());
    run_until(&case, parts.clone(), 4);
    fs::remove_file(start).unwrap();
    resume_to_end(&parts);
    assert_same(&whole, &parts, "bodies from a file");
}

/// Results without a checkpoint are never replaced. A run that has written only its start is
/// restarted.
#[test]
fn a_run_without_a_checkpoint_is_not_replaced() {
    for make in CASES {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        let case = make(&["checkpoint.every=0"]);
        run_whole(&case, folder.clone());
        fs::remove_dir_all(folder.join("checkpoints")).unwrap();
        let before = folder_content(&folder);
        let error = run_or_resume(&case, &folder, &Control::default(), |_| {}).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("the directory contains a run without a checkpoint; --force replaces it")
        );
        assert!(error.is_user_error() && folder_content(&folder) == before);

        for subfolder in ["snapshots", "images"] {
            for entry in fs::read_dir(folder.join(subfolder)).into_iter().flatten() {
                fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
        fs::write(table_of(&folder), "step,time\n").unwrap();
        let summary = run_or_resume(&case, &folder, &Control::default(), |_| {}).unwrap();
        assert_eq!((summary.from, summary.step), (0, 12));
    }
}

/// Keys that do not affect results may change at a resume.
#[test]
fn keys_that_do_not_affect_results_may_change() {
    let dir = temp_folder();
    let (whole, parts) = (dir.path().join("whole"), dir.path().join("parts"));
    run_whole(&case(&[]), whole.clone());
    run_until(&case(&[]), parts.clone(), 6);
    let sets =
        ["checkpoint.every=2 steps", "limits.energy_error=none", "output.on_error=wait"].map(str::to_owned);
    run::resume(&Resume { folder: &parts, sets: &sets, restart_outputs: false }, &Control::default(), |_| {})
        .unwrap();
    assert!(fs::read_to_string(parts.join("case.toml")).unwrap().contains("every = \"2 steps\""));
    for name in ["conserved.csv", "animation.gif", "snapshots/snapshot_004.hdf5"] {
        assert!(fs::read(whole.join(name)).unwrap() == fs::read(parts.join(name)).unwrap(), "{name}");
    }
}

/// `case.toml` in the folder of a run is a record. An edit is refused if the run cannot follow it,
/// and reported otherwise.
#[test]
fn an_edited_case_file_is_reported() {
    for make in CASES {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_until(&make(&[]), folder.clone(), 2);
        let path = folder.join("case.toml");
        let text = fs::read_to_string(&path).unwrap();
        for (from, to, expected) in [
            (
                "step = 0.125",
                "step = 0.25",
                "the file was edited: it has time.step = 0.25, but the run has time.step = 0.125, which cannot change",
            ),
            (
                "step = 0.125",
                "step = soon",
                "the file was edited after the run wrote it: undo the edit, or remove ",
            ),
        ] {
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let before = folder_content(&folder);
            let error = resume_run(&folder, false, &Control::default(), |_| {}).unwrap_err();
            assert!(error.is_user_error() && error.to_string().contains(expected), "{error}");
            assert_eq!(folder_content(&folder), before);
        }

        fs::write(&path, text.replacen("end = 1.5", "end = 3.0", 1)).unwrap();
        let mut edits = Vec::new();
        let summary = resume_run(&folder, false, &Control::default(), |event| {
            if let RunEvent::CaseFileEdited { found, given, .. } = event {
                edits.push(format!("{found}, {given}"));
            }
        });
        assert_eq!((summary.unwrap().step, edits), (12, vec!["time.end = 1.5, time.end = 3.0".to_owned()]));

        // A comment is no change. A removed file is written again.
        fs::write(&path, format!("# my run\n{text}")).unwrap();
        let refuse = |event: RunEvent<'_>| assert!(!matches!(event, RunEvent::CaseFileEdited { .. }));
        resume_run(&folder, false, &Control::default(), refuse).unwrap();
        fs::remove_file(&path).unwrap();
        resume_run(&folder, false, &Control::default(), refuse).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

/// Missing files are reported. A missing trajectory is an error, see `integrity`.
#[test]
fn missing_snapshots_are_reported() {
    let names = ["snapshot_001.hdf5", "snapshot_001.npy", "snapshot_001.npy"];
    for (make, name) in CASES.into_iter().zip(names) {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_until(&make(&[]), folder.clone(), 8);
        fs::remove_file(folder.join("snapshots").join(name)).unwrap();
        let mut reports = Vec::new();
        let outcome = resume_run(&folder, false, &Control::default(), |event| {
            if let RunEvent::FileDiffers { path, problem } = event {
                reports.push((path.file_name().unwrap().to_owned(), problem.to_owned()));
            }
        });
        assert_eq!(outcome.unwrap().step, 12);
        assert_eq!(reports, [(name.into(), "missing; it is not written again".to_owned())]);
    }
}

/// A wall-time limit ends the waiting for storage. A wall time that is too short for one step is an
/// error and not an orderly stop.
#[test]
fn the_wall_time_ends_the_waiting_for_storage() {
    for make in CASES {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        let deadline_in = |seconds| Control {
            deadline: Some(std::time::Instant::now() + std::time::Duration::from_secs(seconds)),
            ..Control::default()
        };
        let error = run(&make(&[]), &output_to(folder.clone()), &deadline_in(0), |_| {}).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("step 0: the wall time is too short for one step, expected at least "),
            "{error}"
        );
        assert!(!error.is_user_error());

        // A folder has the name of the next image, so writing it fails until someone moves the
        // folder.
        fs::create_dir_all(folder.join("images/image_0001.png/x")).unwrap();
        let sets = ["output.on_error=wait".to_owned()];
        let mut waits = 0;
        let outcome = run::resume(
            &Resume { folder: &folder, sets: &sets, restart_outputs: false },
            &deadline_in(3),
            |event| {
                waits += usize::from(matches!(event, RunEvent::WaitingForStorage { .. }));
            },
        );
        let message = outcome.unwrap_err().to_string();
        assert!(waits >= 1, "{message}");
        assert!(message.contains("image_0001.png: could not be renamed after "), "{message}");
        assert!(
            message.ends_with(&format!(
                "; step 0 is saved, orrery resume {} continues from it",
                folder.display()
            )),
            "{message}"
        );
    }
}
