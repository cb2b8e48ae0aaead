//! `orrery check`.

use std::fs;

use crate::common::{TestDir, error_of, text};

/// One step of nine bodies with two snapshots.
const SETS: [&str; 4] = ["bodies.n=9", "time.step=0.01", "time.end=0.02", "output.snapshot_every=1 step"];

#[test]
fn check_lists_each_file_that_differs() {
    let dir = TestDir::new();
    for out in ["out/shot-1", "out/shot-10", "out/shot-2"] {
        dir.run("plummer", out, &SETS);
    }
    let intact = dir.stdout_of(&["check", "out/shot-1"]);
    assert!(intact.starts_with("out/shot-1: step 2, finished, 1 checkpoint, "), "{intact}");
    assert!(intact.ends_with("): intact\n") && intact.lines().count() == 1, "{intact}");
    fs::write(dir.path("out/shot-2/snapshots/snapshot_001.hdf5"), "").unwrap();
    fs::remove_file(dir.path("out/shot-2/energy.svg")).unwrap();
    let output = dir.orrery(&["check", "out"]);
    let note = "note: out: no survey.toml in it, so shots that were removed are not found\n".to_owned();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), note));
    let lines = text(&output.stdout);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[0].starts_with("out/shot-1: ") && lines[0].ends_with(": intact"), "{lines:?}");
    assert_eq!(lines[1], "out/shot-2/energy.svg: missing");
    assert!(lines[2].starts_with("out/shot-2/snapshots/snapshot_001.hdf5: empty, expected "), "{lines:?}");
    assert!(lines[3].ends_with(": 2 files differ"), "{lines:?}");
    assert!(lines[4].starts_with("out/shot-10: ") && lines.len() == 5, "{lines:?}");

    let output = dir.orrery(&["resume", "out/shot-2", "--quiet"]);
    assert!(output.status.success());
    let expected = "warning: out/shot-2/snapshots/snapshot_001.hdf5: empty, expected ";
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with(expected) && stderr.ends_with("; it is not written again\n"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(dir.path("out/shot-2/energy.svg").exists(), "a plot is drawn again");
}

#[test]
fn check_refuses_folders_without_a_run() {
    let dir = TestDir::new();
    dir.write("file", "");
    fs::create_dir(dir.path("empty")).unwrap();
    assert!(error_of(&dir, &["check", "file"]).starts_with("file: "));
    assert!(error_of(&dir, &["check", "empty"]).starts_with("empty: "));
}
