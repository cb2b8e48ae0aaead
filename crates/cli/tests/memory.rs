//! Limits of memory, threads and stacks that a job can have: one line and a documented status.

use std::process::{Command, Output};

use crate::common::{TestDir, error_of, text};

/// Runs a command with a limit of the address space in KiB.
fn run_within(dir: &TestDir, kibibytes: u64, arguments: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("ulimit -v {kibibytes} && exec \"$@\""),
        "sh",
        env!("CARGO_BIN_EXE_orrery"),
    ]);
    command.args(arguments).current_dir(dir.path("")).output().expect("a shell")
}

/// The four physics, each with a system that needs several gigabytes.
const LARGE: [(&str, &[&str]); 4] = [
    ("plummer", &["bodies.n=20000000"]),
    ("sine-decay", &["grid.nx=20000", "grid.ny=20000", "time.step=1e-12", "time.end=2e-12"]),
    ("lj-melt", &["particles.cells=200"]),
    ("salt-dome", &["grid.nx=4000", "grid.nz=4000"]),
];

fn run_arguments<'a>(case: &'a str, sets: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["run", case, "--quiet", "--threads", "2", "--device", "cpu", "--out", "out"];
    sets.iter().for_each(|set| arguments.extend(["--set", set]));
    arguments
}

#[cfg(target_os = "linux")]
#[test]
fn the_address_space_of_a_job_limits_a_case() {
    let dir = TestDir::new();
    for (case, sets) in LARGE {
        let output = run_within(&dir, 700_000, &run_arguments(case, sets));
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{case}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(" of memory, "), "{stderr}");
        assert!(stderr.ends_with("are available\n") && stderr.lines().count() == 1, "{stderr}");
        assert!(!dir.path("out").exists(), "{case}");
    }
}

/// With a limit that the user gives, the operating system decides.
#[cfg(target_os = "linux")]
#[test]
fn refused_memory_is_an_error_of_one_line() {
    let dir = TestDir::new();
    for (case, sets) in LARGE {
        let arguments = [run_arguments(case, sets), vec!["--max-memory", "1000GiB"]].concat();
        let output = run_within(&dir, 700_000, &arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{case}: {stderr}");
        assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{case}: {stderr}");
        assert!(stderr.contains(" of memory, which the operating system refuses; "), "{case}: {stderr}");
        assert!(!dir.path("out").exists(), "{case}");
    }
}

/// For example after memory was refused in the middle of a run.
#[cfg(unix)]
#[test]
fn an_aborted_process_has_status_1() {
    let dir = TestDir::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(["run", "plummer", "--quiet", "--out", "out", "--set", "bodies.n=500", "--set", "time.end=1e4"])
        .current_dir(dir.path(""))
        .spawn()
        .unwrap();
    while !dir.path("out/conserved.csv").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let sent = Command::new("sh").args(["-c", &format!("kill -ABRT {}", child.id())]).status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn impossible_numbers_of_threads_and_stacks_are_refused() {
    let dir = TestDir::new();
    for (name, value, expected) in [
        ("RAYON_NUM_THREADS", "999999", ": this process may use "),
        ("RUST_MIN_STACK", "1", ": expected 2097152 to 1073741824 (2.0 MiB to 1.0 GiB)"),
        ("RUST_MIN_STACK", "1000000000000000000", ": expected 2097152 to 1073741824 (2.0 MiB to 1.0 GiB)"),
    ] {
        for arguments in [&["presets"][..], &["run", "figure-eight", "--quiet", "--out", "out"], &["bench"]] {
            let output = dir.command(arguments).env(name, value).output().unwrap();
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
            assert!(stderr.starts_with(&format!("error: {name}={value}{expected}")), "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
        assert!(dir.content().is_empty());
    }
    // The libraries ignore these.
    for (name, value) in
        [("RAYON_NUM_THREADS", "many"), ("RUST_MIN_STACK", "large"), ("RAYON_NUM_THREADS", "0")]
    {
        let output = dir.command(&["presets"]).env(name, value).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let message = error_of(&dir, &["bench", "direct", "--threads", "4096"]);
    assert!(message.starts_with("--threads 4096: "), "{message}");
}
