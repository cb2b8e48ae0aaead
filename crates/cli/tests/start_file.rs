//! Runs that start from a file: a copy of it in the folder of the run, and cosmological snapshots.

use crate::common::{PAIR, TestDir, cosmological_gadget_binary, from_file, gadget_binary, text};

/// Executes a command that succeeds. GADGET binary files have no units, so there may be a warning.
fn execute(dir: &TestDir, arguments: &[&str]) {
    let output = dir.orrery(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
}

#[test]
fn the_start_file_is_kept_in_the_folder_of_the_run() {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    for extension in ["npz", "h5"] {
        dir.stdout_of(&["convert", "pair.xyz", &format!("pair.{extension}")]);
    }
    // Without a known extension, the content decides.
    dir.write("pair.data", dir.bytes("pair.npz"));
    dir.write("old", gadget_binary(3));
    for (file, copy) in [
        ("pair.xyz", "start.xyz"),
        ("pair.npz", "start.npz"),
        ("pair.h5", "start.hdf5"),
        ("pair.data", "start.npz"),
        ("old", "start.gadget"),
    ] {
        dir.write("case.toml", from_file(file));
        let keep = ["output.keep_start=true", "gravity.softening=0.1"];
        let mut arguments = vec!["run", "case.toml", "--quiet", "--force", "--out", "out"];
        keep.iter().for_each(|set| arguments.extend(["--set", set]));
        execute(&dir, &arguments);
        let kept: Vec<_> = dir.list("out").into_iter().filter(|name| name.starts_with("start.")).collect();
        assert_eq!(kept, [copy], "--force removes the copy of the earlier run");
        assert_eq!(dir.bytes(&format!("out/{copy}")), dir.bytes(file));
        // A run from the copy gives the same bits.
        dir.write("again.toml", from_file(&format!("out/{copy}")));
        execute(&dir, &["run", "again.toml", "--quiet", "--force", "--out", "again", "--set", keep[1]]);
        assert_eq!(dir.bytes("again/conserved.csv"), dir.bytes("out/conserved.csv"), "{file}");
    }
    // A model has no file.
    dir.run("figure-eight", "model", &["time.end=0.01", "image.size=64", "output.keep_start=true"]);
    assert!(dir.list("model").iter().all(|name| !name.starts_with("start.")));
}

#[test]
fn a_case_can_start_from_a_cosmological_snapshot() {
    let dir = TestDir::new();
    dir.write("old.dat", cosmological_gadget_binary(7));
    dir.write("case.toml", from_file("old.dat"));
    dir.stdout_of(&["convert", "--cosmological", "physical", "old.dat", "new.npz"]);
    for (word, time) in [("physical", 0.0), ("unchanged", 0.25)] {
        let cosmological = format!("bodies.cosmological={word}");
        let mut arguments = vec!["run", "case.toml", "--quiet", "--out", word];
        for set in [&cosmological, "time.end=1", "time.step=0.25", "gravity.softening=50"] {
            arguments.extend(["--set", set]);
        }
        execute(&dir, &arguments);
        let first = dir.snapshot(&format!("{word}/snapshots/snapshot_000.hdf5"));
        assert_eq!(first.time, time);
        assert!(dir.text(&format!("{word}/case.toml")).contains(&format!("\ncosmological = \"{word}\"\n")));
        if word == "physical" {
            assert_eq!(first.particles, dir.snapshot("new.npz").particles);
        } else {
            assert_eq!(first.particles.position.x[6], 6.0);
        }
    }
    let output = dir.orrery(&["run", "plummer", "--set", "bodies.cosmological=physical"]);
    let message =
        "error: --set bodies.cosmological=physical: key 'cosmological' is for a file, not for plummer\n";
    assert_eq!(text(&output.stderr), message);
}
