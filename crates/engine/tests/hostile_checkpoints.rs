//! Checkpoints with valid hashes and impossible content are rejected at once, with a message of one
//! line.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::{CASES, fluid, plate, rewrite_header};
use orrery_engine::case::{Case, CaseSource, find_preset};
use orrery_engine::checkpoint::describe;
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::run::{Output, Replace, Resume, resume, run};
use orrery_formats::{Block, Limits, read_checkpoint, write_checkpoint};
use serde_json::{Value, json};

/// Returns a case of three bodies and ten steps.
fn three_bodies() -> Case {
    let sets = ["time.step=0.01", "time.end=0.1", "image.size=64"].map(str::to_owned);
    Case::load(&CaseSource::Preset(find_preset("pythagorean").unwrap()), &sets).unwrap()
}

/// Runs a case and stops after five steps. Returns the path of the checkpoint.
fn run_five_steps(case: &Case, folder: &Path) -> PathBuf {
    let control = Control::default();
    let output = Output { folder: folder.to_owned(), replace: Replace::Nothing };
    let summary = run(case, &output, &control, |event| {
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
    let of_bodies = [
        ("/bodies", json!(0)),
        ("/observers/pictures/stride", json!(0)),
        ("/case", json!("[bodies]\nmodel = \"pythagorean\"\n[time]\nstep = 1e-300\nend = 1e300\n")),
        ("/case", json!(plate(&[]).to_toml())),
        ("/physics", json!("heat")),
    ];
    check_headers(&three_bodies(), 0.055, &of_bodies);

    let text = plate(&[]).to_toml();
    // A step that is computed from the stability limit could need any amount of memory.
    let without_step = text.replacen("step = 0.125\n", "", 1).replacen("nx = 24", "nx = 1000000", 1);
    let of_a_plate = [
        ("/bodies", json!(383)),
        ("/solver", json!("tree")),
        ("/physics", json!("gravity")),
        ("/observers/pictures/pixels", json!([0, 64])),
        ("/observers/pictures/pixels", json!([64, u32::MAX])),
        ("/observers/pictures/range", json!([1.0, -1.0])),
        ("/observers/pictures/range", json!([0.0, f64::MAX, 1.0])),
        ("/observers/conserved/first/values", json!([1.0])),
        ("/case", json!(text.replacen("nx = 24", "nx = 25", 1))),
        ("/case", json!(text.replacen("nx = 24", "nx = 1000000", 1))),
        ("/case", json!(text.replacen("conductivity = 1.0", "conductivity = 100.0", 1))),
        ("/case", json!(text.replacen("precision = \"double\"", "precision = \"single\"", 1))),
        ("/case", json!(without_step)),
        ("/case", json!(three_bodies().to_toml())),
    ];
    check_headers(&plate(&[]), 0.6, &of_a_plate);
}

/// Checks that a checkpoint of `case` is rejected with each of some changes that apply to every
/// physics, and of those of `changes`. `time` is within a step.
fn check_headers(case: &Case, time: f64, changes: &[(&str, Value)]) {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let checkpoint = run_five_steps(case, &whole);
    let inner = checkpoint.strip_prefix(&whole).unwrap();
    fs::remove_file(whole.join("checkpoints/checkpoint_000000000.orrery")).unwrap();
    rewrite_header(&checkpoint, |_| {});
    describe(&checkpoint, &Limits::default()).expect("an unchanged checkpoint is accepted");

    let common = [
        ("/time", json!(1e300)),
        ("/time", json!(-1.0)),
        ("/time", json!(time)),
        ("/step", json!(u64::MAX)),
        ("/step", json!(6)),
        ("/bodies", json!(4)),
        ("/bodies", json!(u64::MAX)),
        ("/solver", json!("fmm\u{1b}[2J")),
        ("/writer", json!("orrery\nerror: forged")),
        ("/provenance", json!([["a\u{7}b", "c"]])),
        ("/observers/triggers/1", json!(u64::MAX)),
        ("/observers/triggers/0", json!(0)),
        ("/observers/snapshots", json!(u64::MAX)),
        ("/observers/pictures/written", json!(u64::MAX)),
        ("/observers/pictures/animation/frames", json!(u64::MAX)),
    ];
    for (pointer, value) in common.iter().chain(changes) {
        let folder = dir.path().join("changed");
        copy_folder(&whole, &folder);
        rewrite_header(&folder.join(inner), |header| {
            *header.pointer_mut(pointer).expect(pointer) = value.clone();
        });
        let message = describe(&folder.join(inner), &Limits::default())
            .expect_err(&format!("{pointer} = {value}"))
            .to_string();
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

/// Columns of a field with valid hashes that no run can have written, also of the state before the
/// last step.
#[test]
fn impossible_columns_of_a_field_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let case = plate(&[]);
    let stopped = run_five_steps(&case, &dir.path().join("stopped"));
    let output = Output { folder: dir.path().join("finished"), replace: Replace::Nothing };
    run(&case, &output, &Control::default(), |_| {}).unwrap();
    let finished = output.folder.join("checkpoints/checkpoint_000000012.orrery");
    for (path, name) in [(&stopped, "temperature"), (&finished, "temperature"), (&finished, "b.temperature")]
    {
        describe(path, &Limits::default()).unwrap();
        let checkpoint = read_checkpoint(path, &Limits::default()).unwrap();
        let index = checkpoint.blocks.iter().position(|(known, _)| known == name).expect(name);
        let Block::Reals(values) = &checkpoint.blocks[index].1 else { panic!("f64") };
        let with_last = |last: f64| [&values[1..], &[last]].concat();
        for (block, expected) in [
            (Some(Block::Reals(with_last(f64::NAN))), "expected finite numbers"),
            (Some(Block::Reals(with_last(f64::INFINITY))), "expected finite numbers"),
            (Some(Block::Reals(values[1..].to_vec())), "got 383 values, expected one value per node"),
            (Some(Block::Reals(Vec::new())), "got 0 values, expected one value per node"),
            (Some(Block::Singles(vec![1.0; 384])), "expected a column of f64"),
            (Some(Block::Integers(vec![1; 384])), "expected a column of f64"),
            (None, "expected a column of f64"),
        ] {
            let mut blocks = checkpoint.blocks.clone();
            match block {
                Some(block) => blocks[index].1 = block,
                None => drop(blocks.remove(index)),
            }
            let columns: Vec<_> =
                blocks.iter().map(|(name, block)| (name.as_str(), block.as_column())).collect();
            let changed = dir.path().join("changed.orrery");
            write_checkpoint(&changed, &checkpoint.header, &columns).unwrap();
            let message = describe(&changed, &Limits::default()).expect_err(expected).to_string();
            assert!(message.contains(expected) && !message.contains(char::is_control), "{name}: {message}");
        }
    }
}

/// A number of any column that is not finite, also in the sums of observers and in the state before
/// the last step.
#[test]
fn non_finite_numbers_of_any_column_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let changed = dir.path().join("changed.orrery");
    let mut names = Vec::new();
    for (number, case) in CASES.iter().map(|case| case(&[])).enumerate() {
        let folder = dir.path().join(number.to_string());
        let stopped = run_five_steps(&case, &folder.join("stopped"));
        let output = Output { folder: folder.join("finished"), replace: Replace::Nothing };
        run(&case, &output, &Control::default(), |_| {}).unwrap();
        for path in [stopped, output.folder.join("checkpoints/checkpoint_000000012.orrery")] {
            describe(&path, &Limits::default()).unwrap();
            let checkpoint = read_checkpoint(&path, &Limits::default()).unwrap();
            for (index, (name, block)) in checkpoint.blocks.iter().enumerate() {
                let damaged = match block {
                    Block::Reals(values) if !values.is_empty() => {
                        Block::Reals([&values[1..], &[f64::NAN]].concat())
                    }
                    Block::Singles(values) if !values.is_empty() => {
                        Block::Singles([&values[1..], &[f32::INFINITY]].concat())
                    }
                    _ => continue,
                };
                let mut blocks = checkpoint.blocks.clone();
                blocks[index].1 = damaged;
                write_blocks(&changed, &checkpoint.header, &blocks);
                let message = describe(&changed, &Limits::default()).expect_err(name).to_string();
                assert!(message.contains(&format!("block '{name}': got ")), "{message}");
                assert!(message.ends_with(", expected finite numbers"), "{message}");
                names.push(name.clone());
            }
        }
    }
    for name in ["msd_z", "rdf", "msd_squares", "b.msd_z", "trails", "samples"] {
        assert!(names.iter().any(|known| known == name), "{name} was not tested");
    }
}

fn write_blocks(path: &Path, header: &str, blocks: &[(String, Block)]) {
    let columns: Vec<_> = blocks.iter().map(|(name, block)| (name.as_str(), block.as_column())).collect();
    write_checkpoint(path, header, &columns).unwrap();
}

/// Finite numbers that no run can have: negative sums and masses, times after that of the
/// checkpoint, and identifiers that occur twice.
#[test]
fn impossible_numbers_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let changed = dir.path().join("changed.orrery");
    let output = Output { folder: dir.path().join("fluid"), replace: Replace::Nothing };
    run(&fluid(&[]), &output, &Control::default(), |_| {}).unwrap();
    let of_fluid = output.folder.join("checkpoints/checkpoint_000000012.orrery");
    let of_bodies = run_five_steps(&three_bodies(), &dir.path().join("bodies"));
    let replace_first = |value: f64| {
        move |block: &Block| match block {
            Block::Reals(values) => Block::Reals([&[value], &values[1..]].concat()),
            Block::Integers(values) => Block::Integers([&[value as u64], &values[1..]].concat()),
            _ => panic!("numbers"),
        }
    };
    let repeated = |block: &Block| {
        let Block::Integers(values) = block else { panic!("integers") };
        Block::Integers([&values[..1], &values[..values.len() - 1]].concat())
    };
    type Change<'a> = &'a dyn Fn(&Block) -> Block;
    let changes: [(&Path, &str, Change<'_>, &str); 9] = [
        (&of_fluid, "rdf", &replace_first(-1.0), "values that a run can have"),
        (&of_fluid, "msd_squares", &replace_first(-1.0), "values that a run can have"),
        (&of_fluid, "msd_times", &replace_first(0.0), "values that a run can have"),
        (&of_fluid, "msd_counts", &replace_first(1e9), "values that a run can have"),
        (&of_fluid, "msd_origins", &replace_first(1e9), "values that a run can have"),
        (&of_fluid, "msd_origins", &replace_first(-1.0), "values that a run can have"),
        (&of_fluid, "id", &repeated, "different numbers"),
        (&of_bodies, "id", &repeated, "different numbers"),
        (&of_bodies, "mass", &replace_first(-1.0), "masses of at least 0"),
    ];
    for (path, name, change, expected) in changes {
        let checkpoint = read_checkpoint(path, &Limits::default()).unwrap();
        let mut blocks = checkpoint.blocks.clone();
        let index = blocks.iter().position(|(known, _)| known == name).expect(name);
        blocks[index].1 = change(&blocks[index].1);
        write_blocks(&changed, &checkpoint.header, &blocks);
        let message = describe(&changed, &Limits::default()).expect_err(name).to_string();
        assert!(message.ends_with(&format!("expected {expected}")), "{name}: {message}");
    }
    for (path, pointer, value) in [
        (&of_fluid, "/observers/structure/seen", json!(99.0)),
        (&of_fluid, "/observers/structure/trigger", json!(0)),
        (&of_fluid, "/observers/seen/0", json!(99.0)),
        (&of_bodies, "/observers/seen/0", json!(-1.0)),
        (&of_bodies, "/observers/conserved/first/time", json!(1.0)),
        (&of_bodies, "/observers/pictures/half_width", json!(-1.0)),
    ] {
        fs::copy(path, &changed).unwrap();
        rewrite_header(&changed, |header| *header.pointer_mut(pointer).expect(pointer) = value.clone());
        let message = describe(&changed, &Limits::default()).expect_err(pointer).to_string();
        assert!(message.contains("observers: got values out of range"), "{pointer}: {message}");
    }
}

/// A checkpoint with the name of a later step would be read as the newest at every resume.
#[test]
fn a_checkpoint_with_the_name_of_another_step_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run");
    let checkpoint = run_five_steps(&three_bodies(), &folder);
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
