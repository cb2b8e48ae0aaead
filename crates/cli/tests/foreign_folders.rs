//! Folders that somebody else has prepared: links in the place of files and folders of a run.
#![cfg(unix)]

use std::os::unix::fs::symlink;

use crate::common::{PAIR, TestDir, error_of, from_file, text};

/// Returns a directory with a finished run in `out`, and files that are not of the run in `mine`.
fn run_and_own_files() -> TestDir {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    dir.write("pair.toml", from_file("pair.xyz") + "[limits]\nenergy_error = \"none\"\n");
    dir.run("pair.toml", "out", &[]);
    std::fs::create_dir(dir.path("mine")).unwrap();
    for name in
        ["image_0000.png", "snapshot_000.hdf5", "checkpoint_000000000.orrery", "notes.txt", "conserved.csv"]
    {
        dir.write(&format!("mine/{name}"), "mine\n");
    }
    dir
}

#[test]
fn a_linked_subfolder_is_refused_before_anything_changes() {
    let dir = run_and_own_files();
    for name in ["images", "snapshots", "checkpoints"] {
        let (place, aside) = (dir.path(&format!("out/{name}")), dir.path("aside"));
        std::fs::rename(&place, &aside).unwrap();
        symlink(dir.path("mine"), &place).unwrap();
        let before = dir.content();
        let expected = format!(
            "out: cannot be used as output directory: its {name} is a symbolic link, expected a directory or nothing"
        );
        assert_eq!(error_of(&dir, &["run", "pair.toml", "--out", "out", "--force"]), expected);
        assert_eq!(error_of(&dir, &["resume", "out", "--end", "0.75"]), expected);
        assert!(dir.content() == before, "{name}: a file has changed");
        std::fs::remove_file(&place).unwrap();
        std::fs::rename(&aside, &place).unwrap();
    }
    // Without the links the run is replaced.
    assert_eq!(dir.stdout_of(&["run", "pair.toml", "--out", "out", "--force", "--quiet"]), "");
}

/// The command line is in the log, and a shell would execute `$(...)` in a start-up file.
#[test]
fn nothing_is_written_through_a_linked_file() {
    let dir = run_and_own_files();
    dir.write("startup", "mine\n");
    let log = dir.path("out/run.log");
    std::fs::remove_file(&log).unwrap();
    symlink(dir.path("startup"), &log).unwrap();
    let resumed = dir.orrery(&["resume", "out", "--quiet", "--end", "0.75"]);
    let stderr = text(&resumed.stderr);
    assert!(resumed.status.success() && stderr.lines().count() == 1, "{stderr}");
    assert!(stderr.starts_with("warning: out/run.log: "), "{stderr}");
    assert!(stderr.ends_with("lines could not be written: a symbolic link\n"), "{stderr}");
    assert_eq!(dir.text("startup"), "mine\n");

    // A new run removes the link, and writes a file of its own.
    assert_eq!(dir.stdout_of(&["run", "pair.toml", "--out", "out", "--force", "--quiet"]), "");
    assert!(log.symlink_metadata().unwrap().is_file() && dir.text("startup") == "mine\n");

    // The lock is opened before the folder is checked.
    let lock = dir.path("out/.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::hard_link(dir.path("startup"), &lock).unwrap();
    assert_eq!(dir.stdout_of(&["run", "pair.toml", "--out", "out", "--force", "--quiet"]), "");
    assert_eq!(dir.text("startup"), "mine\n");
    std::fs::remove_file(&lock).unwrap();
    symlink(dir.path("absent"), &lock).unwrap();
    let error = error_of(&dir, &["run", "pair.toml", "--out", "out", "--force", "--quiet"]);
    assert!(error.contains("its .lock is not a file"), "{error}");
    assert!(!dir.path("absent").exists());

    // A growing file of a copy that consists of hard links is written again.
    std::fs::remove_file(&lock).unwrap();
    let table = dir.text("out/conserved.csv");
    std::fs::hard_link(dir.path("out/conserved.csv"), dir.path("copy.csv")).unwrap();
    assert_eq!(dir.orrery(&["resume", "out", "--quiet", "--end", "0.75"]).status.code(), Some(0));
    assert!(dir.text("out/conserved.csv") != table && dir.text("copy.csv") == table);
}

#[test]
fn analysis_and_conversion_do_not_follow_links() {
    let dir = run_and_own_files();
    symlink(dir.path("mine"), dir.path("out/analysis")).unwrap();
    let before = dir.content();
    assert_eq!(
        error_of(&dir, &["analyze", "out", "--force"]),
        "out/analysis: is a symbolic link, expected a directory or nothing; --output DIR writes elsewhere"
    );
    assert!(dir.content() == before, "a file has changed");

    symlink(dir.path("absent"), dir.path("new.npz")).unwrap();
    let error = error_of(&dir, &["convert", "pair.xyz", "new.npz"]);
    assert_eq!(error, "new.npz: exists already, expected a new file; --force replaces it");
    dir.stdout_of(&["convert", "pair.xyz", "new.npz", "--force"]);
    assert!(!dir.path("absent").exists() && dir.path("new.npz").symlink_metadata().unwrap().is_file());
}

#[test]
fn a_line_end_in_an_argument_does_not_split_a_line_of_the_log() {
    let dir = run_and_own_files();
    let name = "out\nrm -r x\u{202e}\u{1b}[2J";
    dir.orrery(&["run", "pair.toml", "--out", name, "--quiet"]);
    let log = dir.text(&format!("{name}/run.log"));
    let first = log.lines().next().unwrap();
    assert!(first.ends_with(r"orrery run pair.toml --out $'out\nrm -r x\u202e\x1b[2J' --quiet"), "{first}");
    let is_stamped = |line: &str| line.starts_with("20") && line.contains("Z ");
    assert!(log.lines().all(is_stamped) && !log.contains('\u{1b}'), "{log}");
}

/// A sparse file of 1 TiB would fill the memory, and a pipe would wait for a writer for ever.
#[test]
fn huge_and_special_texts_of_a_run_are_refused_in_one_line() {
    let dir = run_and_own_files();
    let resume = ["resume", "out", "--end", "0.75"];
    let run = ["run", "pair.toml", "--out", "out"];
    let replace = |name: &str, kind: &str| {
        let path = dir.path(name);
        std::fs::remove_file(&path).unwrap();
        match kind {
            "huge" => std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap(),
            _ => assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success()),
        }
    };
    for (kind, case_message, input_message) in [
        (
            "huge",
            "the file is larger than 8.0 MiB, expected a small text file",
            "larger than 8 MiB, expected a case file (TOML text)",
        ),
        (
            "pipe",
            "path: got a device or a pipe, expected a file",
            "is a device or a pipe, expected a case file (TOML text)",
        ),
    ] {
        replace("out/case.toml", kind);
        assert_eq!(error_of_fast(&dir, &resume), format!("out/case.toml: {case_message}"));
        dir.write("copy.toml", "");
        replace("copy.toml", kind);
        assert_eq!(error_of_fast(&dir, &["run", "copy.toml"]), format!("copy.toml: {input_message}"));
        // A folder whose provenance cannot be read is not that of a run.
        replace("out/provenance.txt", kind);
        let error = error_of_fast(&dir, &[&run[..], &["--force"]].concat());
        assert!(error.ends_with("it contains files but no run that --force could replace"), "{error}");
    }
}

/// Returns the message of a command that must end within a minute.
#[track_caller]
fn error_of_fast(dir: &TestDir, arguments: &[&str]) -> String {
    let mut command = dir.command(arguments);
    let output = command.timeout(std::time::Duration::from_secs(60)).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    let message = text(&output.stderr);
    assert_eq!(message.lines().count(), 1, "{message}");
    message.strip_prefix("error: ").expect("an error").trim_end().to_owned()
}

#[test]
fn a_table_that_is_a_pipe_is_not_compared() {
    let dir = run_and_own_files();
    dir.run("pair.toml", "other", &[]);
    let table = dir.path("other/conserved.csv");
    std::fs::remove_file(&table).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&table).status().unwrap().success());
    assert_eq!(
        error_of_fast(&dir, &["compare", "out", "other"]),
        "other/conserved.csv: path: got a device or a pipe, expected a file"
    );
}

/// The name of an input file is text of others, and `provenance.txt` has a line per value.
#[test]
#[cfg(unix)]
fn a_name_of_an_input_file_does_not_split_the_provenance() {
    let dir = TestDir::new();
    let name = "a\nprogram: evil\u{1b}[31m.xyz";
    dir.write(name, PAIR);
    let case = from_file("a\\nprogram: evil\\u001b[31m.xyz");
    dir.write("case.toml", &case);
    dir.run("case.toml", "out", &[]);
    let provenance = dir.text("out/provenance.txt");
    assert_eq!(provenance.matches("\nprogram").count(), 0, "{provenance}");
    assert!(!provenance.contains('\u{1b}'), "{provenance}");
    assert!(provenance.contains("/a\\nprogram: evil\\u001b[31m.xyz\n"), "{provenance}");
    // The recorded hash is still that of this file.
    dir.write(name, PAIR.replace("0 0 0 0 0 0 3 10", "0 0 0 0 0 0 4 10"));
    let output = dir.orrery(&["run", "case.toml", "--quiet", "--out", "out", "--force"]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("has changed since the run that is replaced started from it"), "{stderr}");
}
