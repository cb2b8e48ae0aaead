//! Tests of `bench run` with few bodies and small grids.

use serde_json::Value;

use crate::common::{TestDir, error_of, let_children_be_interrupted};
use crate::devices::{check_80_columns, has_no_device, read_json, stdout_of};

/// Measures a run of 25 steps and returns what is printed, and the results of the JSON file. Checks
/// that no other file is left.
fn measure(dir: &TestDir, case: &str, n: &str, device: &str, more: &[&str]) -> (String, Vec<Value>) {
    let flags = ["bench", "run", "--case", case, "-n", n, "--steps", "25", "--device", device];
    let stdout = stdout_of(dir, &[&flags[..], more, &["--force", "--json", "r.json"]].concat());
    check_80_columns(&stdout);
    let names: Vec<_> = dir.list(".").into_iter().filter(|name| name != "cache").collect();
    assert_eq!(names, ["r.json"]);
    let all = read_json(dir, "r.json");
    assert_eq!(all["device"]["kind"], device);
    let results = all["results"].as_array().unwrap().clone();
    results.iter().for_each(check_times);
    (stdout, results)
}

/// Checks the times of a result: they belong to the same run, and no part is longer than it.
#[track_caller]
fn check_times(row: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{row:#}"));
    let (seconds, forces) = (number(&row["seconds"]), number(&row["force_seconds"]));
    assert!(seconds > 0.0 && forces > 0.0, "{row:#}");
    assert!((number(&row["ratio"]) / (seconds / forces) - 1.0).abs() < 1e-12, "{row:#}");
    let timing = &row["timing"];
    assert_eq!((timing["steps"].as_u64(), &timing["seconds"]), (Some(25), &row["seconds"]), "{row:#}");
    assert!(timing["run_loop"].as_object().unwrap().values().all(|part| number(part) <= seconds), "{row:#}");
    for key in ["startup", "first_startup"] {
        assert!(number(&row[key]) > 0.0, "{key}: {row:#}");
    }
}

#[test]
fn bench_run_measures_every_run_on_the_cpu() {
    let dir = TestDir::new();
    for (case, n, size) in [
        ("galaxy-collision", "200", "200"),
        ("plummer", "1e2", "100"),
        ("few-bodies", "64", "64"),
        ("heat", "33", "33²"),
        ("wave", "40", "40³"),
    ] {
        let (stdout, results) = measure(&dir, case, n, "cpu", &["--threads", "2"]);
        let row = format!("{case:<16} {size:>9}     25 ");
        assert_eq!(stdout.lines().filter(|line| line.starts_with(&row)).count(), 1, "{stdout}");
        // One row of times, and one of parts.
        assert_eq!(stdout.lines().filter(|line| line.starts_with(case)).count(), 2, "{stdout}");
        assert!(stdout.contains("25 steps per run"), "{stdout}");
        assert_eq!(results.len(), 1);
        let row = &results[0];
        assert_eq!((row["run"].as_str(), row["threads"].as_u64()), (Some(case), Some(2)));
        assert!(row["speedup"].is_null());
        // The first and the last image are always drawn.
        assert!(row["timing"]["workers"]["prepare"].as_f64().unwrap() > 0.0);
        assert_eq!(row["timing"]["forces"].is_null(), ["heat", "wave"].contains(&case));
    }
}

#[test]
fn bench_run_compares_one_thread_with_all() {
    let dir = TestDir::new();
    let (stdout, results) = measure(&dir, "threads", "200", "cpu", &["--threads", "3", "--repeats", "2"]);
    assert!(stdout.contains("\nmedian of 2 runs\n"), "{stdout}");
    assert!(stdout.lines().any(|line| line.starts_with("  with 1 thread        200     25 ")), "{stdout}");
    let last = stdout.lines().last().unwrap();
    assert!(last.starts_with("galaxy-collision: 3 threads are "), "{stdout}");
    assert!(last.ends_with(" times as fast as 1"), "{stdout}");
    let threads: Vec<_> = results.iter().map(|row| row["threads"].as_u64().unwrap()).collect();
    assert_eq!(threads, [3, 1]);
    let [all, one] = [&results[0], &results[1]].map(|row| row["seconds"].as_f64().unwrap());
    assert!((results[1]["speedup"].as_f64().unwrap() / (one / all) - 1.0).abs() < 1e-12);
    assert!(results[0]["speedup"].is_null());
    for row in &results {
        let seconds: Vec<_> =
            row["all_seconds"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
        assert_eq!((seconds.len(), row["repeats"].as_u64(), seconds.is_sorted()), (2, Some(2), true));
        assert_eq!(row["all_force_seconds"].as_array().unwrap().len(), 2);
    }
    // A run with one thread has no workers. What they would do counts as waiting.
    assert!(results[1]["timing"]["run_loop"]["output_wait"].as_f64() > Some(0.0));
}

#[test]
fn bench_run_measures_runs_on_a_device() {
    if has_no_device() {
        return;
    }
    let dir = TestDir::new();
    for (case, n) in [("galaxy-collision", "200"), ("few-bodies", "64"), ("heat", "40"), ("wave", "48")] {
        let (stdout, results) = measure(&dir, case, n, "opencl", &["--no-tuned"]);
        assert!(stdout.starts_with("opencl:0 ("), "{stdout}");
        assert_eq!((results.len(), results[0]["timing"]["is_on_device"].as_bool()), (1, Some(true)));
    }
    let message = error_of(&dir, &["bench", "run", "--case", "threads", "--device", "opencl"]);
    assert_eq!(
        message,
        "--case threads: compares numbers of CPU threads, expected --device cpu instead of opencl:0"
    );
}

/// A run that does not fit does not end the measurement of the others.
#[test]
fn runs_that_do_not_fit_are_skipped() {
    let dir = TestDir::new();
    let flags = ["bench", "run", "--case", "heat", "-n", "1e6,33", "--steps", "2", "--device", "cpu"];
    let stdout = stdout_of(&dir, &[&flags[..], &["--json", "r.json"]].concat());
    check_80_columns(&stdout);
    let is_skipped =
        |line: &str| line.starts_with("heat ") && line.contains("skipped: needs 29.1 TiB of memory,");
    assert!(stdout.lines().any(is_skipped), "{stdout}");
    let all = read_json(&dir, "r.json");
    let text = all["results"][0]["skipped"].as_str().unwrap();
    assert!(text.starts_with("needs 29.1 TiB of memory, ") && text.ends_with(" are available"), "{text}");
    assert!(all["results"][0]["seconds"].is_null() && all["results"][1]["seconds"].is_f64());
    assert_eq!(dir.list("."), ["r.json"]);
}

/// Also that no folder is left after an error.
#[test]
fn bench_run_refuses_sizes_that_no_run_has() {
    let dir = TestDir::new();
    for (arguments, message) in [
        (&["--case", "heat", "-n", "2"][..], "-n 2: "),
        (&["--case", "wave", "-n", "20"], "-n 20: [wave]: the layers at x need 32 nodes"),
        (&["--case", "plummer", "-n", "0"], "-n 0 is outside n >= 1"),
        (&["--case", "threads", "--threads", "1"], "--case threads: compares one thread with all, expected"),
        (&["-n", "33"], "-n: bench run has runs of different kinds, expected --case"),
        (&["--case", "galaxy"], "invalid value 'galaxy' for '--case <NAME,...>'"),
        (&["--case", "heat", "--steps", "0"], "invalid value '0' for '--steps <N>': 0 is not in 1..="),
    ] {
        let found = error_of(&dir, &[&["bench", "run", "--device", "cpu"][..], arguments].concat());
        assert!(found.starts_with(message), "{found}");
        assert!(dir.content().is_empty(), "{arguments:?}");
    }
}

/// The process ends by the signal, as other commands do, but removes its files before.
#[cfg(unix)]
#[test]
fn a_signal_ends_bench_run_without_files() {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    let_children_be_interrupted();
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let dir = TestDir::new();
        let mut child = Command::new(env!("CARGO_BIN_EXE_orrery"))
            .args(["bench", "run", "--case", "few-bodies", "-n", "300", "--steps", "1e8", "--device", "cpu"])
            .current_dir(dir.path("."))
            .stdout(Stdio::null())
            .spawn()
            .expect("orrery starts");
        // The untimed or the timed run has started when its table exists.
        let table = format!("bench-run-{}.tmp/run/conserved.csv", child.id());
        let started = Instant::now();
        while !dir.path(&table).exists() {
            let has_ended = child.try_wait().unwrap();
            assert!(has_ended.is_none() && started.elapsed() < Duration::from_secs(300), "{has_ended:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status();
        assert!(sent.unwrap().success());
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        assert_eq!(dir.list("."), [""; 0]);
    }
}
