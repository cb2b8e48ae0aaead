//! Tests of very large and very small numbers, settings that are given twice, and outputs that are
//! not regular files.

use crate::common::{PAIR, TestDir, from_file, text};

/// Returns the one-line error of a command that must fail with status 2.
#[track_caller]
fn error_of(dir: &TestDir, arguments: &[&str]) -> String {
    let output = dir.orrery(arguments);
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(2), 1), "{arguments:?}: {stderr}");
    stderr
}

fn pair_case() -> TestDir {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    dir.write("pair.toml", from_file("pair.xyz"));
    dir
}

/// A number such as 1e300 has 300 digits without an exponent.
#[test]
fn extreme_numbers_are_printed_with_exponents() {
    let dir = pair_case();
    for (arguments, expected) in [
        (&["forces", "pair.xyz", "--theta", "1e300"][..], "--theta 1e300 is outside 0 < theta <= 1.2"),
        (&["forces", "pair.xyz", "--softening", "-1e300"], "--softening -1e300 is outside softening >= 0"),
        (&["analyze", "pair.xyz", "--softening", "-1e-300"], "--softening -1e-300 is outside softening >= 0"),
    ] {
        assert_eq!(error_of(&dir, arguments), format!("error: {expected}\n"));
    }
    let stdout = dir.stdout_of(&["forces", "pair.xyz", "--softening", "1e-200"]);
    assert!(stdout.contains("softening: 1e-200 (--softening)\n"), "{stdout}");
    let sets = ["--set", "gravity.softening=1e-200", "--set", "limits.energy_error=1e300"];
    let stdout = dir.stdout_of(&[&["run", "pair.toml", "--out", "out", "-v"][..], &sets].concat());
    assert!(stdout.contains("softening 1e-200\n"), "{stdout}");
    assert!(stdout.contains("above 1e300 for the energy error\n"), "{stdout}");
}

/// Six decimals would print the coordinates of a tiny system as 0.
#[test]
fn tables_show_tiny_and_huge_coordinates() {
    let dir = TestDir::new();
    dir.write("tiny.xyz", PAIR.replace("2 0 0 0 0 0 5", "2e-30 0 0 0 0 0 5e40"));
    let stdout = dir.stdout_of(&["info", "tiny.xyz"]);
    assert!(stdout.contains("\n  x          0.000000 to 2.000000e-30\n"), "{stdout}");
    assert!(stdout.contains("\n  mass       5.000000e40\n"), "{stdout}");
    let stdout = dir.stdout_of(&["analyze", "tiny.xyz"]);
    assert!(stdout.contains("\n    0.000000 2.000000e-30        2 "), "{stdout}");
}

#[test]
fn info_reports_a_time_that_is_not_finite() {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR.replace("units=nbody", "units=nbody Time=nan"));
    let stdout = dir.stdout_of(&["info", "pair.xyz"]);
    assert!(stdout.contains("\n  problem    the time is NaN\n"), "{stdout}");
}

/// Of a flag and `--set` for the same key, one would be ignored.
#[test]
fn a_key_with_two_values_is_refused() {
    let dir = pair_case();
    dir.run("pair.toml", "out", &[]);
    let before = dir.content();
    for (arguments, expected) in [
        (
            &["resume", "out", "--end", "1", "--set", "time.end=2"][..],
            "--end 1 and --set time.end=2: expected only one of them",
        ),
        (
            &["run", "pair.toml", "--precision", "double", "--set", "gravity.precision = single"],
            "--precision double and --set gravity.precision = single: expected only one of them",
        ),
        (
            &["ic", "plummer", "-n", "5", "--set", "n=6", "-o", "a.npz"],
            "-n 5 and --set n=6: expected only one of them",
        ),
        (
            &["ic", "encounter", "--seed", "5", "--set", "first.seed=6", "-o", "a.npz"],
            "--seed 5 and --set first.seed=6: expected only one of them",
        ),
    ] {
        assert_eq!(error_of(&dir, arguments), format!("error: {expected}\n"));
    }
    assert!(dir.content() == before);
}

#[test]
fn negative_numbers_get_the_message_of_their_flag() {
    let dir = pair_case();
    dir.run("pair.toml", "out", &[]);
    for (arguments, expected) in [
        (
            &["ic", "plummer", "--seed", "-1", "-o", "a.npz"][..],
            "invalid value '-1' for '--seed <S>': expected a whole number >= 0",
        ),
        (
            &["run", "pair.toml", "--threads", "-2"],
            "invalid value '-2' for '--threads <N>': expected a whole number >= 0",
        ),
        (
            &["run", "pair.toml", "--wall-time", "-5s"],
            "invalid value '-5s' for '--wall-time <TIME>': expected a time > 0",
        ),
        (
            &["info", "pair.xyz", "--max-memory", "-1GB"],
            "invalid value '-1GB' for '--max-memory <SIZE>': expected a size such as",
        ),
        (
            &["bench", "direct", "-n", "-1"],
            "invalid value '-1' for '-n <N,...>': expected a whole number >= 0",
        ),
    ] {
        let error = error_of(&dir, arguments);
        assert!(error.starts_with(&format!("error: {expected}")), "{error}");
    }
    assert!(error_of(&dir, &["resume", "out", "--end", "-1"]).contains("time.end = -1"));
}

/// Parameters of a model are flags of `ic`. There is no section `[bodies]`.
#[test]
fn ic_names_its_model_in_errors() {
    let dir = TestDir::new();
    let error = error_of(&dir, &["ic", "galaxy", "-n", "100", "--set", "halo_cutoff=1e200", "-o", "a.npz"]);
    assert!(error.starts_with("error: ic galaxy: halo_cutoff = 1e200 is outside 0.01 <="), "{error}");
}

/// Files of a run that were removed or replaced. The messages are true and say what to expect.
#[test]
#[cfg(unix)]
fn removed_parts_of_a_run_are_reported() {
    let dir = pair_case();
    let sets = ["limits.energy_error=none"];
    dir.run("pair.toml", "out", &sets);
    std::fs::remove_file(dir.path("out/snapshots/snapshot_000.hdf5")).unwrap();
    std::fs::remove_file(dir.path("out/conserved.csv")).unwrap();
    let output = dir.orrery(&["resume", "out", "--quiet", "--force", "--end", "0.75"]);
    assert_eq!(
        text(&output.stderr),
        "warning: out/snapshots/snapshot_000.hdf5: missing; it is not written again\n\
         warning: out/conserved.csv: restarted\n"
    );
    dir.run("pair.toml", "images", &sets);
    std::fs::remove_dir_all(dir.path("images/images")).unwrap();
    dir.write("images/images", "");
    let output = dir.orrery(&["resume", "images", "--quiet", "--end", "0.75"]);
    let stderr = text(&output.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines[0], "warning: images/images/image_0000.png: missing; it is not written again");
    let expected = "error: images/images: it is not a directory, expected a directory or nothing";
    assert!(lines[1].starts_with(expected) && lines.len() == 2, "{stderr}");
    std::os::unix::fs::symlink("nowhere", dir.path("dangling")).unwrap();
    let error = error_of(&dir, &["run", "pair.toml", "--quiet", "--out", "dangling"]);
    assert!(error.ends_with("it is not a directory, expected a directory or nothing\n"), "{error}");
}

/// A file is written under another name and then renamed, which would replace a device such as
/// `/dev/full` for all programs. The test uses a named pipe.
#[test]
#[cfg(unix)]
fn outputs_that_are_not_regular_files_are_refused() {
    let dir = pair_case();
    let names = ["pipe.npz", "pipe.json", "pipe.svg", "pipe.toml", "out/conserved.csv"];
    std::fs::create_dir(dir.path("out")).unwrap();
    if !names.iter().all(|name| {
        std::process::Command::new("mkfifo").arg(dir.path(name)).status().is_ok_and(|status| status.success())
    }) {
        eprintln!("skipped: mkfifo(1) is not installed");
        return;
    }
    for (arguments, path) in [
        (&["convert", "pair.xyz", "pipe.npz"][..], "pipe.npz"),
        (&["forces", "pair.xyz", "-o", "pipe.npz"], "pipe.npz"),
        (&["ic", "plummer", "-n", "10", "-o", "pipe.npz"], "pipe.npz"),
        (&["init", "plummer", "-o", "pipe.toml"], "pipe.toml"),
        (&["bench", "direct", "-n", "64", "--repeats", "1", "--json", "pipe.json"], "pipe.json"),
        (&["ladder", "reduce", "-n", "64", "--plot", "pipe.svg"], "pipe.svg"),
        (&["accuracy", "pair.xyz", "--json", "pipe.json"], "pipe.json"),
        (&["run", "pair.toml", "--out", "new", "--json", "pipe.json"], "pipe.json"),
        (&["analyze", "pair.xyz", "-o", "out"], "out/conserved.csv"),
    ] {
        let expected = format!("error: {path}: is not a regular file, expected a file to write\n");
        for flags in [&[][..], &["--force"]] {
            assert_eq!(error_of(&dir, &[arguments, flags].concat()), expected);
        }
    }
    use std::os::unix::fs::FileTypeExt;
    for name in names {
        assert!(std::fs::metadata(dir.path(name)).unwrap().file_type().is_fifo(), "{name}");
    }
    assert!(!dir.path("new").exists());
}
