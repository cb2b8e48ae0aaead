//! Tests of failing storage: a full disk, an exceeded quota or I/O errors from any call, short
//! writes, and runs that wait until the storage works again.

use std::sync::Mutex;
use std::time::Instant;

use orrery_device::testing::is_soak;
use rayon::prelude::*;

use super::disk::{Call, Disk};
use super::scenario::{
    Content, Fault, FaultScenario, NO_PLOTS, SMALL_CASES, Trial, first_difference, tested_faults,
};
use crate::common::text;

const FAILURES: [&str; 3] = ["ENOSPC", "EDQUOT", "EIO"];

/// Returns the system's message for a failure.
fn system_message(failure: &str) -> &'static str {
    match failure {
        "ENOSPC" => "No space left on device",
        "EDQUOT" => "Disk quota exceeded",
        _ => "Input/output error",
    }
}

/// Returns the numbers of all calls up to the last successful one. Later calls only look for files
/// that do not exist.
fn call_numbers(scenario: &FaultScenario) -> std::ops::RangeInclusive<usize> {
    let last = scenario.calls.iter().rev().find(|call| call.number > 0 && call.result >= 0);
    1..=last.expect("a run writes files").number
}

/// Checks all faults in parallel and reports all errors.
#[track_caller]
fn check_all(faults: Vec<Fault>, check: impl Fn(Fault) -> Result<(), String> + Sync) {
    let (start, count) = (Instant::now(), faults.len());
    let outcomes: Vec<_> =
        faults.into_par_iter().map(|fault| check(fault).map_err(|e| format!("{fault:?}: {e}"))).collect();
    let errors: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    println!(
        "{count} disturbed runs in {:.0} s, {} with errors",
        start.elapsed().as_secs_f64(),
        errors.len()
    );
    assert!(errors.is_empty(), "{} of {count}:\n{}", errors.len(), errors.join("\n"));
}

/// Runs with storage that fails from call `at`. The run must print an error of one line, all files
/// with their final name must be complete, and the resumed run must give the same bytes.
fn check_failed_run(scenario: &FaultScenario, fault: Fault) -> Result<(), String> {
    let name = format!("{}-{}-{}", fault.action, fault.at, fault.times);
    let trial = scenario.trial(&name);
    let (run, calls) = trial.run_recorded(&["--quiet"], fault);
    let stderr = text(&run.stderr);
    if run.status.code() != Some(1) {
        return Err(format!("{}, expected status 1: {stderr}", run.status));
    }
    check_message(&stderr, &trial, fault, &calls)?;
    check_complete(&trial.content())?;
    trial.resume_and_compare().map(drop)
}

/// Checks that the message is one line with the file, the number of bytes written and the system's
/// message.
fn check_message(stderr: &str, trial: &Trial<'_>, fault: Fault, calls: &[Call]) -> Result<(), String> {
    // The content of the lock is not needed, and a file that cannot be removed rarely matters.
    let lock = calls.iter().find(|call| call.path.ends_with(".lock")).map(|call| call.fd);
    let is_refused = |call: &&Call| call.number >= fault.at && call.result < 0;
    let refused = calls.iter().filter(is_refused).find(|call| call.kind != "unlink" && Some(call.fd) != lock);
    // Creating a file or a folder writes no bytes.
    let needs_bytes = refused.is_some_and(|call| call.kind != "open" && call.kind != "mkdir");
    let out = trial.out().display().to_string();
    let has_bytes = stderr.contains(" bytes: ");
    let is_expected = stderr.starts_with(&format!("error: {out}"))
        && stderr.trim_end().lines().count() == 1
        && stderr.contains(system_message(fault.action))
        && (has_bytes || !needs_bytes);
    if is_expected {
        Ok(())
    } else {
        Err(format!("expected a file, bytes and the cause in one line: {stderr}"))
    }
}

/// Checks that all files with their final name are complete.
fn check_complete(content: &Content) -> Result<(), String> {
    let named = content.iter().filter_map(|(name, bytes)| Some((name, bytes.as_ref()?)));
    for (name, bytes) in named.filter(|(name, _)| !name.ends_with(".part")) {
        let is_complete = match name.rsplit('.').next() {
            Some("png") => bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82"),
            Some("svg") => bytes.ends_with(b"</svg>\n") || bytes.ends_with(b"</svg>"),
            Some(extension @ ("hdf5" | "npy")) => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let copy = folder.path().join("snapshot").with_extension(extension);
                std::fs::write(&copy, bytes).expect("a copy");
                let limits = orrery_formats::Limits::default();
                match extension {
                    "npy" => orrery_formats::read_field_npy(&copy, &limits).is_ok(),
                    _ => orrery_formats::read_snapshot(&copy, &limits).is_ok(),
                }
            }
            // These files grow during the run. They are empty if the run ended while it created
            // them.
            Some("gif") => bytes.is_empty() || bytes.ends_with(b";"),
            Some("csv") => bytes.is_empty() || bytes.ends_with(b"\n"),
            Some("orrery") => orrery_formats::parse_checkpoint(bytes).is_ok(),
            _ => true,
        };
        if !is_complete {
            return Err(format!("{name} has its final name and is incomplete"));
        }
    }
    Ok(())
}

fn faults_at_each_call(
    scenario: &FaultScenario,
    times: usize,
    failures: impl Fn(usize) -> Vec<&'static str>,
) -> Vec<Fault> {
    let faults = |at| failures(at).into_iter().map(move |what| Fault { action: what, at, times, kind: None });
    call_numbers(scenario).flat_map(faults).collect()
}

#[test]
fn a_failing_disk_ends_the_run_with_complete_files() {
    for (number, case) in SMALL_CASES.iter().enumerate() {
        // Plots of one physics. They are written in the same way.
        let scenario = FaultScenario::small(case, if number == 0 { &[] } else { &[NO_PLOTS] });
        println!(
            "{} storage calls, {} of them writes",
            scenario.call_count(None),
            scenario.call_count(Some("write"))
        );
        // One failure per call, in turn. All three failures at each call take three times as long.
        let faults = faults_at_each_call(&scenario, 0, |at| vec![FAILURES[at / 3 % 3]]);
        check_all(tested_faults(faults, 2, 3), |fault| check_failed_run(&scenario, fault));
    }
}

/// With a full disk or an exceeded quota, writes fail and all other calls succeed.
#[test]
fn a_full_disk_leaves_complete_files() {
    for scenario in FaultScenario::each_small(&[NO_PLOTS]) {
        let faults = (1..=scenario.call_count(Some("write"))).map(|at| Fault {
            action: FAILURES[at / 3 % 2],
            at,
            times: 0,
            kind: Some("write"),
        });
        check_all(tested_faults(faults, 0, 3), |fault| check_failed_run(&scenario, fault));
    }
}

#[test]
#[ignore = "takes a minute"]
fn each_failure_at_each_call_ends_the_run_with_complete_files() {
    for scenario in FaultScenario::each_small(&[]) {
        let faults = faults_at_each_call(&scenario, 0, |_| FAILURES.to_vec());
        check_all(faults, |fault| check_failed_run(&scenario, fault));
    }
}

/// After a single failed call, the run either finishes with the correct files or ends with an error
/// and can be resumed.
#[test]
fn a_single_failure_is_never_ignored() {
    for scenario in FaultScenario::each_small(&[NO_PLOTS]) {
        let faults = faults_at_each_call(&scenario, 1, |at| vec![FAILURES[at / 3 % 3]]);
        check_all(tested_faults(faults, 1, 3), |fault| {
            let name = format!("once-{}", fault.at);
            let trial = scenario.trial(&name);
            let run = trial.run(&["--quiet"], fault);
            check_complete(&trial.content())?;
            let stderr = text(&run.stderr);
            if !run.status.success() {
                let is_expected = run.status.code() == Some(1)
                    && stderr.starts_with("error: ")
                    && stderr.lines().count() == 1;
                if !is_expected || !stderr.contains(system_message(fault.action)) {
                    return Err(format!("{}: {stderr}", run.status));
                }
            } else {
                // A file that could not be removed does not matter until the run is resumed.
                let found = trial.content();
                let expected_files: Content =
                    found.into_iter().filter(|(name, _)| scenario.expected.contains_key(name)).collect();
                first_difference(&expected_files, &scenario.expected).map_or(Ok(()), Err)?;
            }
            trial.resume_and_compare().map(drop)
        });
    }
}

#[test]
fn a_short_write_has_no_effect() {
    for scenario in FaultScenario::each_small(&[NO_PLOTS]) {
        let faults = (1..=scenario.call_count(Some("write"))).map(|at| Fault {
            action: "SHORT",
            at,
            times: 1,
            kind: Some("write"),
        });
        let mut faults = tested_faults(faults, 1, 3);
        faults.push(Fault { action: "SHORT", at: 1, times: 0, kind: None });
        check_all(faults, |fault| {
            let name = format!("short-{}-{}", fault.at, fault.times);
            let trial = scenario.trial(&name);
            let run = trial.run(&["--quiet"], fault);
            if !run.status.success() || !run.stderr.is_empty() {
                return Err(format!("{}: {}", run.status, text(&run.stderr)));
            }
            first_difference(&trial.content(), &scenario.expected).map_or(Ok(()), Err)
        });
    }
}

/// Runs that wait sleep for seconds, so many of them run at a time.
fn with_many_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(12).build().expect("threads").install(work)
}

/// One to three consecutive failures, at calls spread over the run.
#[test]
fn a_waiting_run_finishes_after_the_failure() {
    for scenario in FaultScenario::each_small(&["output.on_error=wait", NO_PLOTS]) {
        let stride = if is_soak() { 5 } else { 11 };
        println!("every {stride}th of {} calls", call_numbers(&scenario).end());
        let faults = call_numbers(&scenario).step_by(stride).enumerate().map(|(k, at)| {
            let (what, times) = (FAILURES[k % 3], 1 + k / 3 % 3);
            Fault { action: what, at, times, kind: None }
        });
        let faults: Vec<Fault> = faults.collect();
        let waiting_count = Mutex::new(0);
        with_many_threads(|| {
            check_all(faults, |fault| {
                let name = format!("wait-{}", fault.at);
                let trial = scenario.trial(&name);
                let (run, calls) = trial.run_recorded(&["--quiet"], fault);
                let stderr = text(&run.stderr);
                if !run.status.success() {
                    return Err(format!("{}: {stderr}", run.status));
                }
                let out = trial.out().display().to_string();
                let is_expected = |line: &str| {
                    line == format!("{out}: storage works again, the run continues")
                        || line.starts_with(&format!("waiting: {out}"))
                            && line.contains(system_message(fault.action))
                            && line.contains("; next attempt in ")
                };
                if !stderr.lines().all(is_expected) {
                    return Err(format!("expected the cause of waiting: {stderr}"));
                }
                *waiting_count.lock().expect("no panic") += usize::from(!stderr.is_empty());
                check_syncs(&calls);
                first_difference(&trial.content(), &scenario.expected).map_or(Ok(()), Err)
            });
        });
        let waiting_count = waiting_count.into_inner().expect("no panic");
        println!("{waiting_count} runs had to wait");
        // Failed searches for missing files are harmless. Most other calls are not.
        assert!(
            2 * waiting_count > call_numbers(&scenario).end() / stride,
            "only {waiting_count} runs waited"
        );
    }
}

/// After a failed sync the system may have dropped the bytes, so the file is written again and not
/// only synced again.
#[test]
fn a_file_is_written_again_after_a_failed_sync() {
    for scenario in FaultScenario::each_small(&["output.on_error=wait", NO_PLOTS]) {
        let faults = (1..=scenario.call_count(Some("sync"))).map(|at| Fault {
            action: "EIO",
            at,
            times: 1,
            kind: Some("sync"),
        });
        let faults = tested_faults(faults, 2, 3);
        with_many_threads(|| {
            check_all(faults, |fault| {
                let name = format!("sync-{}", fault.at);
                let trial = scenario.trial(&name);
                let (run, calls) = trial.run_recorded(&[], fault);
                let stderr = text(&run.stderr);
                if !run.status.success()
                    || !stderr.contains("waiting: ")
                    || !stderr.contains("storage works again")
                {
                    return Err(format!("{}: {stderr}", run.status));
                }
                check_syncs(&calls);
                first_difference(&trial.content(), &scenario.expected).map_or(Ok(()), Err)
            });
        });
    }
}

/// Panics if a file is synced again after a failed sync.
fn check_syncs(calls: &[Call]) {
    let mut disk = Disk::default();
    calls.iter().for_each(|call| disk.apply(call));
}
