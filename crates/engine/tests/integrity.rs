//! Files of a run that were changed: `check_folder` and a resumed run report each of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::common::{
    CASES, assert_same, fluid, folder_content, output_to, remove_manifest, rewrite_header, table_of,
    temp_folder,
};
use orrery_engine::case::Case;
use orrery_engine::control::{Control, RunEvent};
use orrery_engine::integrity::check_folder;
use orrery_engine::run::{Resume, resume, run};
use orrery_formats::{Limits, MANIFEST_FILE};

/// Runs to the end, or stops after a step.
fn run_to(case: &Case, folder: &Path, step: Option<u64>) {
    let control = Control::default();
    let report = |event: RunEvent<'_>| {
        if let RunEvent::Step(status) = event
            && Some(status.step) == step
        {
            control.stop.store(true, Ordering::Relaxed);
        }
    };
    run(case, &output_to(folder.to_owned()), &control, report).unwrap_or_else(|e| panic!("{e}"));
}

/// Returns name and problem of each file that a check finds.
fn checked(folder: &Path) -> Vec<(String, String)> {
    let found = check_folder(folder, &Limits::unbounded()).unwrap_or_else(|e| panic!("{e}"));
    let name = |path: &PathBuf| path.strip_prefix(folder).unwrap().display().to_string();
    found.differences.iter().map(|found| (name(&found.path), found.problem.clone())).collect()
}

/// Resumes a run and returns name and problem of each file that it reports.
fn resumed(folder: &Path) -> Vec<(String, String)> {
    let mut reports = Vec::new();
    let request = Resume { folder, sets: &[], restart_outputs: false };
    let outcome = resume(&request, &Control::default(), |event| match event {
        RunEvent::FileDiffers { path, problem } => {
            reports.push((path.strip_prefix(folder).unwrap().display().to_string(), problem.to_owned()));
        }
        RunEvent::NoManifest { .. } => reports.push((String::new(), "no manifest".to_owned())),
        _ => {}
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
    reports
}

/// Returns a file of snapshots, an image, and both with the first half of their bytes.
fn snapshots_and_image(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = ["snapshots/snapshot_001.hdf5", "snapshots/snapshot_001.npy", "trajectory.xyz"];
    let snapshot = names.into_iter().find(|name| folder.join(name).exists()).unwrap();
    let files = [snapshot, "images/image_0001.png"].into_iter();
    files.map(|name| (name.to_owned(), fs::read(folder.join(name)).unwrap())).collect()
}

/// All files of a run are intact, at its end and after a stop. Files of the user do not matter.
#[test]
fn files_of_a_run_are_intact() {
    for make in CASES {
        let dir = temp_folder();
        for (name, step) in [("stopped", Some(7)), ("finished", None)] {
            let folder = dir.path().join(name);
            run_to(&make(&["output.plots=true"]), &folder, step);
            fs::write(folder.join("notes.txt"), "my notes").unwrap();
            assert_eq!(checked(&folder), []);
            let found = check_folder(&folder, &Limits::unbounded()).unwrap();
            assert_eq!((found.is_finished, found.notes.len()), (step.is_none(), 0));
            assert!(found.files > 8 && found.bytes > 5000, "{found:?}");
        }
        // A stop does not wait for plots. The resumed run draws them.
        let is_plot = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "svg");
        let plots_in =
            |name: &str| folder_content(&dir.path().join(name)).into_keys().filter(is_plot).count();
        assert!(plots_in("stopped") == 0 && plots_in("finished") > 0);
        assert_eq!(resumed(&dir.path().join("stopped")), []);
        assert_same(&dir.path().join("finished"), &dir.path().join("stopped"), "resumed");
        assert_eq!(checked(&dir.path().join("stopped")), []);
    }
}

/// Snapshots and images that are empty, truncated, changed, longer or missing are reported by a
/// check and by a resumed run, and the run continues.
#[test]
fn each_changed_file_is_reported() {
    for make in CASES {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_to(&make(&[]), &folder, Some(7));
        let before = folder_content(&folder);
        for (name, bytes) in snapshots_and_image(&folder) {
            let mut changed = bytes.clone();
            changed[bytes.len() / 2] ^= 1;
            let n = bytes.len();
            // A trajectory may be longer: a run that was killed leaves frames after its checkpoint.
            let longer = (!name.starts_with("traj")).then(|| [&bytes[..], b"x"].concat());
            let damages = [
                (Some(Vec::new()), format!("empty, expected {n} bytes")),
                (Some(bytes[..n / 2].to_vec()), format!("truncated to {} bytes, expected {n}", n / 2)),
                (Some(changed), "changed: ".to_owned()),
                (longer, format!("longer: {} bytes, expected {n}", n + 1)),
            ];
            for (damaged, expected) in damages.into_iter().filter(|(damaged, _)| damaged.is_some()) {
                fs::write(folder.join(&name), damaged.unwrap()).unwrap();
                let [(found, problem)] = &checked(&folder)[..] else { panic!("{name}: {expected}") };
                assert!(*found == name && problem.starts_with(&expected), "{name}: {problem}, {expected}");
            }
            if name.starts_with("traj") {
                let mut changed = bytes.clone();
                changed[n / 2] ^= 1;
                trajectory_is_restarted_on_request(&folder, &name, Some(&bytes[..n / 2]), "shortened");
                restore(&folder, &before);
                trajectory_is_restarted_on_request(&folder, &name, Some(&changed), "changed");
                restore(&folder, &before);
                trajectory_is_restarted_on_request(&folder, &name, Some(&[]), "shortened");
                restore(&folder, &before);
                trajectory_is_restarted_on_request(&folder, &name, None, "removed");
                restore(&folder, &before);
            }
            fs::remove_file(folder.join(&name)).unwrap();
            assert_eq!(checked(&folder), [(name.clone(), "missing".to_owned())]);
            if !name.starts_with("traj") {
                fs::write(folder.join(&name), &bytes[..n / 2]).unwrap();
                let problem = format!("truncated to {} bytes, expected {n}; it is not written again", n / 2);
                assert_eq!(resumed(&folder), [(name.clone(), problem)]);
            }
            restore(&folder, &before);
        }
    }
}

/// Writes the files of a run again.
fn restore(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    fs::remove_dir_all(folder).unwrap();
    for (path, bytes) in files {
        fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), bytes).unwrap();
    }
}

/// A run does not append to a trajectory that lost frames, because the file would then look whole.
/// On request the file is set aside and started from scratch, and no earlier one is replaced.
fn trajectory_is_restarted_on_request(folder: &Path, name: &str, damaged: Option<&[u8]>, what: &str) {
    let path = folder.join(name);
    match damaged {
        Some(bytes) => fs::write(&path, bytes).unwrap(),
        None => fs::remove_file(&path).unwrap(),
    }
    let before = folder_content(folder);
    let resume_with = |restart_outputs| {
        let mut restarted = Vec::new();
        let request = Resume { folder, sets: &[], restart_outputs };
        let outcome = resume(&request, &Control::default(), |event| {
            if let RunEvent::OutputRestarted { path, kept } = event {
                restarted.push((path.to_owned(), kept.map(Path::to_owned)));
            }
        });
        (outcome.map(|summary| summary.step), restarted)
    };
    let error = resume_with(false).0.unwrap_err();
    let expected = format!("{name}: it was {what} since the checkpoint; restore it, or use resume --force");
    assert!(error.is_user_error() && error.to_string().contains(&expected), "{error}, expected {expected}");
    assert_eq!(folder_content(folder), before, "{expected}: a refused resume changes nothing");

    let kept = [".changed", ".changed-2"].map(|suffix| folder.join(format!("{name}{suffix}")));
    fs::write(&kept[0], "an earlier file").unwrap();
    let (step, restarted) = resume_with(true);
    assert_eq!(step.unwrap(), 12);
    assert_eq!(restarted, [(path, damaged.map(|_| kept[1].clone()))]);
    assert_eq!(fs::read(&kept[0]).unwrap(), b"an earlier file");
    assert_eq!(fs::read(&kept[1]).ok().as_deref(), damaged);
    assert_eq!(checked(folder), []);
}

/// A GSD file that is not readable is set aside, too.
#[test]
fn a_gsd_trajectory_of_other_bytes_is_set_aside() {
    let dir = temp_folder();
    let folder = dir.path().join("run");
    run_to(&fluid(&["output.format=gsd"]), &folder, Some(7));
    let name = "trajectory.gsd";
    let (length, files) = (fs::read(folder.join(name)).unwrap().len(), folder_content(&folder));
    for (damaged, what) in [(vec![7; length], "changed"), (vec![7; 100], "shortened")] {
        trajectory_is_restarted_on_request(&folder, name, Some(&damaged), what);
        restore(&folder, &files);
    }
    // Without a manifest, the file is read only when it is continued.
    for entry in fs::read_dir(folder.join("checkpoints")).unwrap() {
        rewrite_header(&entry.unwrap().path(), remove_manifest);
    }
    fs::write(folder.join(name), [7; 1000]).unwrap();
    let request = |restart_outputs| Resume { folder: &folder, sets: &[], restart_outputs };
    assert!(resume(&request(false), &Control::default(), |_| {}).is_err());
    assert_eq!(resume(&request(true), &Control::default(), |_| {}).unwrap().step, 12);
    assert_eq!(fs::read(folder.join("trajectory.gsd.changed")).unwrap(), [7; 1000]);
}

/// Tables that grow, the animation and checkpoints are compared too.
#[test]
fn growing_files_and_checkpoints_are_compared() {
    for make in CASES {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_to(&make(&["checkpoint.every=2 steps"]), &folder, None);
        let table = table_of(&folder);
        let older = folder.join("checkpoints/checkpoint_000000001.orrery");
        let newest = folder.join("checkpoints/checkpoint_000000012.orrery");
        fs::copy(&newest, &older).unwrap();
        for path in [&table, &folder.join("animation.gif"), &older] {
            let whole = fs::read(path).unwrap();
            let name = path.strip_prefix(&folder).unwrap().display().to_string();
            for at in [10, whole.len() / 2] {
                let mut changed = whole.clone();
                changed[at] ^= 1;
                fs::write(path, changed).unwrap();
                let found = checked(&folder);
                assert!(found.len() == 1 && found[0].0 == name, "{name}: {found:?}");
            }
            fs::write(path, [&whole[..], b"1\n"].concat()).unwrap();
            assert_eq!(checked(&folder).len(), 1, "{name}");
            fs::write(path, &whole[..whole.len() / 2]).unwrap();
            assert_eq!(checked(&folder).len(), 1, "{name}");
            fs::write(path, whole).unwrap();
        }
        assert_eq!(checked(&folder), []);
    }
}

/// A run of an earlier version has no manifest. It is resumed with a note, and its later files are
/// listed.
#[test]
fn a_run_without_a_manifest_is_resumed() {
    for make in CASES {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_to(&make(&[]), &folder, Some(7));
        for entry in fs::read_dir(folder.join("checkpoints")).unwrap() {
            rewrite_header(&entry.unwrap().path(), remove_manifest);
        }
        fs::remove_file(folder.join(MANIFEST_FILE)).unwrap();
        let notes = check_folder(&folder, &Limits::unbounded()).unwrap().notes;
        assert!(notes.len() == 1 && notes[0].contains("written without a manifest"), "{notes:?}");
        assert_eq!(resumed(&folder), [(String::new(), "no manifest".to_owned())]);
        assert_eq!(checked(&folder), []);
        assert!(fs::read_to_string(folder.join(MANIFEST_FILE)).unwrap().contains(" images/image_0002.png\n"));
    }
}

/// A manifest that was changed or removed is reported, and a new one is started.
#[test]
fn a_changed_manifest_is_reported() {
    let end = "since the checkpoint; the files before it are not checked";
    for (content, expected) in [
        (Some("orrery manifest 1\n"), format!("shortened {end}")),
        (None, "missing; the files before the checkpoint are not checked".to_owned()),
    ] {
        let dir = temp_folder();
        let folder = dir.path().join("run");
        run_to(&CASES[0](&[]), &folder, Some(7));
        match content {
            Some(text) => fs::write(folder.join(MANIFEST_FILE), text).unwrap(),
            None => fs::remove_file(folder.join(MANIFEST_FILE)).unwrap(),
        }
        let expected = [(MANIFEST_FILE.to_owned(), expected)];
        assert_eq!(checked(&folder), expected);
        assert_eq!(resumed(&folder), expected);
        // The new manifest does not have the earlier snapshots and images.
        let found = check_folder(&folder, &Limits::unbounded()).unwrap();
        assert_eq!((found.differences.len(), found.unlisted), (0, 5));
        let end = ": 5 files in snapshots and images without a line in the manifest, not checked";
        assert!(found.notes.len() == 1 && found.notes[0].ends_with(end), "{:?}", found.notes);
    }
}
