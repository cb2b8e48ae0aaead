//! Checkpoints of earlier versions: each can still be read and resumed. `golden/` contains one
//! small file per version of the layout. It was written by that version and is never written again.
//! `golden/finished` contains the files of a finished run from before checkpoints named a physics.
//! `golden/raw-waves` has the checkpoint of a run of waves from before seismograms were corrected,
//! and the seismograms of that version at a later end.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{output_to, temp_folder};
use orrery_engine::case::{Case, CaseSource};
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::gravity::Record;
use orrery_engine::provenance::device_text;
use orrery_engine::run::{Resume, resume, run, run_or_resume};
use orrery_fields::wave::TimeDispersion;
use orrery_formats::{Block, Limits, parse_checkpoint, read_checkpoint};
use serde_json::Value;

/// The files with their version, step and time.
const GOLDEN: [(&str, u32, u64, f64); 1] = [("version-1.orrery", 1, 3, 0.375)];

fn golden_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[test]
fn checkpoints_of_every_version_resume() {
    for (name, version, step, time) in GOLDEN {
        let checkpoint = read_checkpoint(&golden_path(name), &Limits::default()).unwrap();
        assert_eq!(checkpoint.version, version);
        let names: Vec<_> = checkpoint.blocks.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[..4], ["mass", "id", "species", "position.x"]);
        assert_eq!(checkpoint.blocks[0].1, Block::Reals(vec![3.0, 4.0, 5.0]));
        assert_eq!(checkpoint.blocks[1].1, Block::Integers(vec![0, 1, 2]));

        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("checkpoints");
        fs::create_dir(&folder).unwrap();
        fs::copy(golden_path(name), folder.join("checkpoint_000000003.orrery")).unwrap();
        let mut from = None;
        // The rows and frames of that run no longer exist, so the outputs are restarted.
        let run = Resume { folder: dir.path(), sets: &[], restart_outputs: true };
        let summary = resume(&run, &Control::default(), |event| {
            if let RunEvent::Resumed { step, time, .. } = event {
                from = Some((step, time));
            }
        });
        let summary = summary.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((from, summary.step), (Some((step, time)), 8), "{name}");
        let (first, last) = &summary.first_and_last;
        let [first, last] = [first, last].map(Record::from_row);
        // The three bodies of Burrau's problem before their first close encounter: the energy is
        // conserved to the order of the integrator.
        assert!((last.total_energy() / first.total_energy() - 1.0).abs() < 1e-3, "{name}: {last:?}");
        assert_same_end(&golden_path(name), &[], dir.path());
    }
}

/// Runs the case of the checkpoint at `path` from its start, with `sets`. Checks that the run in
/// `resumed` has reached the same state. The bits are those of the device that wrote the
/// checkpoint, so nothing is compared on another one. Returns the folder of the whole run.
fn assert_same_end(path: &Path, sets: &[String], resumed: &Path) -> Option<tempfile::TempDir> {
    let header: Value =
        serde_json::from_str(&read_checkpoint(path, &Limits::default()).unwrap().header).unwrap();
    let text = |key: &str| header[key].as_str().unwrap().to_owned();
    if !text("writer").ends_with(&format!(" on {}", device_text(None))) {
        eprintln!("{}: written on another CPU, not compared", path.display());
        return None;
    }
    let case = Case::load_from_checkpoint(&text("case"), "case", sets).unwrap();
    let dir = temp_folder();
    let whole = dir.path().join("run");
    run(&case, &output_to(whole.clone()), &Control::default(), |_| {}).unwrap();
    let columns = |folder: &Path| {
        let files = fs::read_dir(folder.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path());
        let mut blocks = read_checkpoint(&files.max().unwrap(), &Limits::default()).unwrap().blocks;
        // The last frame of the animation, which may have been restarted.
        blocks.retain(|(name, _)| !name.ends_with("frame"));
        blocks
    };
    assert_eq!(columns(&whole), columns(resumed), "{}", path.display());
    Some(dir)
}

/// Compares two tables. Rows of an earlier version are sums in another order. They have few terms
/// of at most 13, each with a rounding error of 1e-15.
fn assert_same_rows(a: &str, b: &str) {
    assert_eq!(a.lines().count(), b.lines().count());
    for (a, b) in a.lines().zip(b.lines()).skip(1) {
        for (x, y) in a.split(',').zip(b.split(',')) {
            let [x, y] = [x, y].map(|number| number.parse::<f64>().unwrap());
            assert!((x - y).abs() <= 1e-14 * x.abs().max(1.0), "{a} differs from {b}");
        }
    }
}

/// The run ended with a shortened step and with output that is due only at an end. The extended run
/// repeats the step and continues the files.
#[test]
fn a_finished_run_of_an_earlier_version_is_extended() {
    let (dir, checkpoint) = (temp_folder(), "checkpoint_000000010.orrery");
    fs::create_dir(dir.path().join("checkpoints")).unwrap();
    for (name, target) in [
        (checkpoint, format!("checkpoints/{checkpoint}")),
        ("conserved.csv", "conserved.csv".to_owned()),
        ("animation.gif", "animation.gif".to_owned()),
    ] {
        fs::copy(golden_path("finished").join(name), dir.path().join(target)).unwrap();
    }
    let sets = ["time.end=0.2".to_owned()];
    let request = Resume { folder: dir.path(), sets: &sets, restart_outputs: false };
    let summary = resume(&request, &Control::default(), |_| {}).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((summary.from, summary.step), (9, 20));
    if let Some(whole) = assert_same_end(&golden_path("finished").join(checkpoint), &sets, dir.path()) {
        let read = |name: &str| [dir.path().join(name), whole.path().join("run").join(name)].map(fs::read);
        // Images look different since then, but the number of frames is the same, and the file
        // continues that of the earlier version.
        let frames = |folder: &Path| {
            let files = fs::read_dir(folder.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path());
            let last = read_checkpoint(&files.max().unwrap(), &Limits::default()).unwrap();
            let header: Value = serde_json::from_str(&last.header).unwrap();
            header["observers"]["pictures"]["animation"]["frames"].as_u64().expect("a number")
        };
        assert_eq!(frames(dir.path()), frames(&whole.path().join("run")));
        let [earlier, resumed] = [golden_path("finished"), dir.path().to_owned()]
            .map(|folder| fs::read(folder.join("animation.gif")).unwrap());
        assert!(resumed.len() > earlier.len() && resumed[..800] == earlier[..800], "animation.gif differs");
        let [a, b] = read("conserved.csv").map(|bytes| String::from_utf8(bytes.unwrap()).unwrap());
        assert_same_rows(&a, &b);
    }
}

/// The case of that run has no `wave.time_dispersion`, so it stays raw although the default is to
/// correct. A new run of the same case has other seismograms.
#[test]
fn waves_of_an_earlier_version_stay_raw() {
    let (dir, checkpoint) = (temp_folder(), "checkpoint_000000040.orrery");
    let folder = dir.path().join("checkpoints");
    fs::create_dir(&folder).unwrap();
    fs::copy(golden_path("raw-waves").join(checkpoint), folder.join(checkpoint)).unwrap();
    let sets = ["time.end=30".to_owned()];
    let request = Resume { folder: dir.path(), sets: &sets, restart_outputs: true };
    let mut warnings = Vec::new();
    let summary = resume(&request, &Control::default(), |event| {
        if let RunEvent::InputWarning(text) = event {
            warnings.push(text.to_owned());
        }
    });
    assert_eq!(summary.unwrap_or_else(|e| panic!("{e}")).step, 60);
    assert!(warnings.iter().any(|text| text.contains("without wave.time_dispersion")), "{warnings:?}");
    let seismograms = |folder: &Path| fs::read(folder.join("seismograms.npy")).unwrap();
    assert_eq!(seismograms(dir.path()), seismograms(&golden_path("raw-waves")));

    let resolved = fs::read_to_string(dir.path().join("case.toml")).unwrap();
    assert!(!resolved.contains("time_dispersion"), "{resolved}");
    // `orrery run CASE --resume` with the case file of the user, which has the default now.
    let source = CaseSource::Text { label: "case".into(), text: resolved, folder: PathBuf::new() };
    let case = Case::load(&source, &[]).unwrap();
    assert_eq!(case.wave().unwrap().time_dispersion, Some(TimeDispersion::Corrected));
    let summary = run_or_resume(&case, dir.path(), &Control::default(), |_| {});
    assert_eq!(summary.unwrap_or_else(|e| panic!("{e}")).from, 60);
    let new = dir.path().join("new");
    run(&case, &output_to(new.clone()), &Control::default(), |_| {}).unwrap();
    assert_ne!(seismograms(&new), seismograms(dir.path()));
    assert!(fs::read_to_string(new.join("case.toml")).unwrap().contains("time_dispersion = \"corrected\""));
}

/// Flips every bit of every byte, and cuts the file at every length.
#[test]
fn every_damage_to_a_checkpoint_is_detected() {
    let whole = fs::read(golden_path("version-1.orrery")).unwrap();
    assert!(parse_checkpoint(&whole).is_ok());
    let mut bytes = whole.clone();
    for index in 0..whole.len() {
        for bit in 0..8 {
            bytes[index] ^= 1 << bit;
            assert!(parse_checkpoint(&bytes).is_err(), "bit {bit} of byte {index}");
            bytes[index] ^= 1 << bit;
        }
        assert!(parse_checkpoint(&whole[..index]).is_err(), "cut at {index}");
    }
}
