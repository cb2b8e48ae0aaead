//! Tests of failures of `run.log`. The log is no part of the results, so no failure of it may end a
//! run or change another file.

use rayon::prelude::*;

use super::scenario::{Fault, FaultScenario, SmallCase, Trial, first_difference};
use crate::common::text;

/// Number of calls on the log that are disturbed. A run opens it and then writes about 15 times.
const CALLS: usize = 18;

/// Returns the lines of the log without time stamps. Panics if a line has none.
fn log_lines(trial: &Trial<'_>) -> Vec<String> {
    let text = std::fs::read_to_string(trial.out().join("run.log")).expect("a log");
    assert!(text.ends_with('\n'), "{text}");
    let stamped = |line: &str| match line.split_at_checked(21) {
        Some((stamp, line)) if stamp.ends_with("Z ") => line.to_owned(),
        _ => panic!("no time stamp: {line}"),
    };
    text.lines().map(stamped).collect()
}

/// Runs the scenario with a fault at each call on the log, and checks each trial.
fn check_each(
    scenario: &FaultScenario,
    action: &'static str,
    times: usize,
    check: impl Fn(&Trial<'_>, &str) + Sync,
) {
    (1..=CALLS).into_par_iter().for_each(|at| {
        let name = format!("log-{action}-{times}-{at}");
        let trial = scenario.trial(&name);
        let fault = Fault { action, at, times, kind: Some("log") };
        let run = trial.run(&["--quiet"], fault);
        let stderr = text(&run.stderr);
        assert_eq!(run.status.code(), Some(0), "{fault:?}: {stderr}");
        assert_eq!(first_difference(&trial.content(), &scenario.expected), None, "{fault:?}");
        check(&trial, &stderr);
    });
}

#[test]
fn a_log_that_cannot_be_written_does_not_end_the_run() {
    for (_, scenario) in FaultScenario::each_with_log() {
        let warned = std::sync::atomic::AtomicUsize::new(0);
        check_each(&scenario, "ENOSPC", 0, |trial, stderr| {
            let path = trial.out().join("run.log").display().to_string();
            if stderr.is_empty() {
                return;
            }
            warned.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            assert!(stderr.starts_with(&format!("warning: {path}: ")), "{stderr}");
            assert!(
                stderr.ends_with("could not be written: No space left on device (os error 28)\n"),
                "{stderr}"
            );
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        });
        // The last of the numbers are beyond the last call of some runs.
        assert!(warned.into_inner() > CALLS / 2);
    }
}

/// The lines of a failed or short write are written with the next line.
#[test]
fn a_single_failure_loses_no_line_of_the_log() {
    for (SmallCase { setup, summary, .. }, scenario) in FaultScenario::each_with_log() {
        for action in ["ENOSPC", "SHORT"] {
            check_each(&scenario, action, 1, |trial, stderr| {
                assert_eq!(stderr, "");
                let lines = log_lines(trial);
                assert!(lines[0].contains(": orrery run "), "{lines:#?}");
                let is_there = |start: &str| lines.iter().any(|line| line.starts_with(start));
                for start in
                    ["device: ", setup, "checkpoint after step 0: ", "checkpoint after step 6: ", summary]
                {
                    assert!(is_there(start), "{start} in {lines:#?}");
                }
            });
        }
    }
}

#[test]
fn a_run_that_was_killed_inside_its_log_is_resumed() {
    for (_, scenario) in FaultScenario::each_with_log() {
        (1..=CALLS).into_par_iter().for_each(|at| {
            let name = format!("log-kill-{at}");
            let trial = scenario.trial(&name);
            trial.run(&["--quiet"], Fault { action: "KILL", at, times: 1, kind: Some("log") });
            trial.resume_and_compare().unwrap();
        });
    }
}
