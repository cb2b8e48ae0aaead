//! Tests of `run.log` and `--verbose`.

use crate::common::{PAIR, TestDir, from_file, text};

/// Returns the lines of a log without their time stamps, which must be there and must not decrease.
#[track_caller]
fn log_lines(dir: &TestDir, folder: &str) -> Vec<String> {
    let log = dir.text(&format!("{folder}/run.log"));
    assert!(log.ends_with('\n'), "{log}");
    let pattern = "0000-00-00T00:00:00Z ";
    let mut last_stamp = String::new();
    let without_stamp = |line: &str| {
        let (stamp, rest) = line.split_at_checked(pattern.len()).unwrap_or_else(|| panic!("{line}"));
        let shape: String = stamp.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, pattern, "{line}");
        assert!(*stamp >= *last_stamp, "{line} after {last_stamp}");
        last_stamp = stamp.to_owned();
        rest.to_owned()
    };
    log.lines().map(without_stamp).collect()
}

/// Panics unless each text is the start of a line, in this order.
#[track_caller]
fn assert_in_order(lines: &[String], starts: &[&str]) {
    let mut rest = lines.iter();
    for start in starts {
        assert!(rest.any(|line| line.starts_with(start)), "{start}: not there or not in order: {lines:#?}");
    }
}

fn pair_case() -> TestDir {
    let dir = TestDir::new();
    dir.write("pair.xyz", PAIR);
    dir.write("pair.toml", from_file("pair.xyz") + "[limits]\nenergy_error = \"none\"\n");
    dir
}

#[test]
fn everything_printed_is_in_the_log() {
    let dir = pair_case();
    let output = dir.orrery(&["run", "pair.toml", "--out", "out", "--verbose"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = [text(&output.stdout), text(&output.stderr)].concat();
    let lines = log_lines(&dir, "out");
    assert!(lines[0].starts_with("orrery "), "{}", lines[0]);
    assert!(lines[0].ends_with(": orrery run pair.toml --out out --verbose"), "{}", lines[0]);
    let missing: Vec<&str> =
        printed.lines().filter(|line| !line.is_empty() && !lines.iter().any(|l| l == line)).collect();
    assert!(missing.is_empty(), "{missing:#?} in {lines:#?}");
    assert_eq!(lines.len(), 1 + printed.lines().filter(|line| !line.is_empty()).count(), "{lines:#?}");

    // Without --verbose the details are only in the log. With --quiet or --json -, all text is.
    for (flags, is_silent) in [(&[][..], false), (&["--quiet"], true), (&["--json", "-"], true)] {
        let stdout = dir.stdout_of(&[&["run", "pair.toml", "--out", "out", "--force"], flags].concat());
        assert!(!stdout.contains("solver: ") && !stdout.contains("checkpoint after step"), "{stdout}");
        assert_eq!(stdout.contains("device: "), !is_silent, "{stdout}");
        assert_eq!(log_lines(&dir, "out").len(), lines.len(), "{flags:?}");
    }
}

#[test]
fn verbose_prints_setup_checkpoints_and_times() {
    let dir = pair_case();
    let sets = ["--set", "limits.energy_error=0.5", "--set", "gravity.softening=0.25"];
    let run =
        ["run", "pair.toml", "--out", "out", "-v", "--device", "cpu", "--set", "checkpoint.every=1 step"];
    let stdout = dir.stdout_of(&[&run[..], &sets].concat());
    let lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
    assert_in_order(
        &lines,
        &[
            "start: t = 0",
            "device: cpu (",
            "solver: direct, 2 bodies, mixed precision, softening 0.25",
            "steps: 2 steps of 0.25 to t = 0.5",
            "memory: about 900.0 B",
            "limits: a warning above 0.5 for the energy error",
            "checkpoint after step 0: out/checkpoints/checkpoint_000000000.orrery, written in ",
            "checkpoint after step 1: ",
            "checkpoint after step 2: ",
            "2 bodies, 2 steps (direct forces)",
            "time   ",
            "forces   ",
            "table   ",
            "checkpoints   ",
            "before the run   ",
        ],
    );
    let times = lines.iter().find(|line| line.starts_with("time   ")).unwrap();
    assert!(times.ends_with(" steps/s"), "{times}");
    let output = dir.orrery(&["run", "pair.toml", "-v", "-q"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("'--verbose' cannot be used with '--quiet'"), "{stderr}");
}

#[test]
fn a_resumed_run_appends_to_the_log_and_a_replaced_one_starts_it() {
    let dir = pair_case();
    dir.run("pair.toml", "out", &[]);
    let first = log_lines(&dir, "out");
    dir.stdout_of(&["resume", "out", "--quiet", "--end", "0.75"]);
    let lines = log_lines(&dir, "out");
    assert_eq!(lines[..first.len()], first);
    assert!(lines[first.len()].ends_with(": orrery resume out --quiet --end 0.75"), "{lines:#?}");
    assert_in_order(
        &lines[first.len()..],
        &[
            "pair: resuming after step ",
            "pair: the end changes from t = 0.5 to t = 0.75",
            "device: ",
            "2 bodies, ",
        ],
    );
    // A changed file gives a warning. It is in the log too.
    dir.write("pair.xyz", PAIR.replace("5 20", "6 20"));
    dir.orrery(&["run", "pair.toml", "--out", "out", "--resume", "--set", "time.end=0.75"]);
    let warned = log_lines(&dir, "out");
    assert!(
        warned.iter().any(|line| line.starts_with("warning: ") && line.contains("has changed")),
        "{warned:#?}"
    );
    assert!(warned.last().unwrap().starts_with("out: already finished at step 3"), "{warned:#?}");
    dir.orrery(&["run", "pair.toml", "--out", "out", "--force"]);
    assert_eq!(log_lines(&dir, "out").len(), first.len() + 1);
}

/// An error of the run is the last line of the log. A refused command writes nothing.
#[test]
fn errors_of_the_run_are_in_the_log() {
    let dir = pair_case();
    let stop = ["--set", "limits.energy_error=1e-300", "--set", "limits.on_energy_error=stop"];
    let output = dir.orrery(&[&["run", "pair.toml", "--out", "out"][..], &stop].concat());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let lines = log_lines(&dir, "out");
    assert_eq!(lines.last().unwrap(), stderr.trim_end());
    assert!(stderr.starts_with("error: "), "{stderr}");

    let before = dir.content();
    for arguments in [
        &["run", "pair.toml", "--out", "out"][..],
        &["resume", "out", "--set", "gravity.softening=1"],
        &["resume", "out", "--end", "-1"],
        &["run", "pair.toml", "--out", "out", "--resume", "--set", "time.step=0.125"],
    ] {
        let output = dir.orrery(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(dir.content() == before, "{arguments:?} changed a file");
    }
}

/// A failed write to standard output is reported on standard error, and is in the log.
#[test]
#[cfg(target_os = "linux")]
fn failed_output_is_in_the_log() {
    let dir = pair_case();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.current_dir(dir.path("")).args(["run", "pair.toml", "--out", "out"]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(command.stdout(full).output().unwrap().status.code(), Some(1));
    let lines = log_lines(&dir, "out");
    assert!(lines.last().unwrap().starts_with("error: standard output: cannot be written"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("device: ")), "{lines:#?}");
}

/// A run continues without its log.
#[test]
#[cfg(unix)]
fn a_log_that_is_no_file_gives_a_warning() {
    let dir = pair_case();
    dir.run("pair.toml", "out", &[]);
    let log = dir.path("out/run.log");
    let resume = ["resume", "out", "--quiet", "--end"];
    let warning = "warning: out/run.log: ";
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let output = dir.orrery(&[&resume[..], &["0.75"]].concat());
    let stderr = text(&output.stderr);
    assert!(
        output.status.success() && stderr.starts_with(warning) && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert!(stderr.ends_with(" lines could not be written: not a regular file\n"), "{stderr}");
    // A new run needs this name. A directory there is refused before anything is removed.
    let output = dir.orrery(&["run", "pair.toml", "--out", "out", "--force"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let expected = "error: out: cannot be used as output directory: its run.log is a directory, expected a file or nothing\n";
    assert_eq!(stderr, expected);
    assert!(dir.path("out/conserved.csv").exists());
    // A named pipe would block the program.
    std::fs::remove_dir(&log).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&log).status();
    if made.is_ok_and(|status| status.success()) {
        let output = dir.orrery(&[&resume[..], &["1"]].concat());
        let stderr = text(&output.stderr);
        assert!(output.status.success() && stderr.starts_with(warning), "{stderr}");
    }
}
