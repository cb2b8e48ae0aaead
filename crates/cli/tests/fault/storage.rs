//! A disk that is full, over quota or broken from any call on; short writes; waiting for it to come back.

use std::sync::Mutex;
use std::time::Instant;

use rayon::prelude::*;

use crate::common::text;
use crate::disk::{Call, Disk};
use crate::scenario::{Content, Fault, FaultScenario, Trial, difference};

const FAILURES: [&str; 3] = ["ENOSPC", "EDQUOT", "EIO"];

/// What the system says for each.
fn words(failure: &str) -> &'static str {
    match failure {
        "ENOSPC" => "No space left on device",
        "EDQUOT" => "Disk quota exceeded",
        _ => "Input/output error",
    }
}

/// The numbers of all calls up to the last that does something; those after it look for files that are not there.
fn calls(scenario: &FaultScenario) -> std::ops::RangeInclusive<usize> {
    let last = scenario.calls.iter().rev().find(|call| call.number > 0 && call.result >= 0);
    1..=last.expect("a run stores something").number
}

/// All disturbances in parallel; what went wrong with any.
#[track_caller]
fn none_goes_wrong(faults: Vec<Fault>, check: impl Fn(Fault) -> Result<(), String> + Sync) {
    let (began, count) = (Instant::now(), faults.len());
    let outcomes: Vec<_> =
        faults.into_par_iter().map(|fault| check(fault).map_err(|e| format!("{fault:?}: {e}"))).collect();
    let wrong: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    println!("{count} disturbed runs in {:.0} s, {} went wrong", began.elapsed().as_secs_f64(), wrong.len());
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// From call `at` on nothing works: the run says so in a line, what has its name is whole, and once the disk is
/// back the run goes on to the same bytes.
fn fails_in_good_order(scenario: &FaultScenario, fault: Fault) -> Result<(), String> {
    let name = format!("{}-{}-{}", fault.what, fault.at, fault.times);
    let trial = scenario.trial(&name);
    let (run, calls) = trial.run_watched(&["--quiet"], fault);
    let said = text(&run.stderr);
    if run.status.code() != Some(1) {
        return Err(format!("{}, expected status 1: {said}", run.status));
    }
    check_message(&said, &trial, fault, &calls)?;
    check_whole(&trial.content())?;
    trial.complete().map(drop)
}

/// One line: the file, how many bytes of it were taken, and the system's word.
fn check_message(said: &str, trial: &Trial<'_>, fault: Fault, calls: &[Call]) -> Result<(), String> {
    // What the lock holds nobody needs, and a file that cannot be removed is mostly in nobody's way.
    let lock = calls.iter().find(|call| call.path.ends_with(".lock")).map(|call| call.fd);
    let is_refused = |call: &&Call| call.number >= fault.at && call.result < 0;
    let refused = calls.iter().filter(is_refused).find(|call| call.kind != "unlink" && Some(call.fd) != lock);
    // Making a file or a folder has no bytes to tell.
    let needs_bytes = refused.is_some_and(|call| call.kind != "open" && call.kind != "mkdir");
    let out = trial.out().display().to_string();
    let has_bytes = said.contains(" bytes: ");
    let is_good = said.starts_with(&format!("error: {out}"))
        && said.trim_end().lines().count() == 1
        && said.contains(words(fault.what))
        && (has_bytes || !needs_bytes);
    if is_good { Ok(()) } else { Err(format!("expected a file, bytes and the cause in one line: {said}")) }
}

/// Whatever has its final name can be read to its end.
fn check_whole(content: &Content) -> Result<(), String> {
    let named = content.iter().filter_map(|(name, bytes)| Some((name, bytes.as_ref()?)));
    for (name, bytes) in named.filter(|(name, _)| !name.ends_with(".part")) {
        let is_whole = match name.rsplit('.').next() {
            Some("png") => bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.ends_with(b"IEND\xaeB`\x82"),
            Some("svg") => bytes.ends_with(b"</svg>\n") || bytes.ends_with(b"</svg>"),
            Some("hdf5") => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                let copy = folder.path().join("snapshot.hdf5");
                std::fs::write(&copy, bytes).expect("a copy");
                orrery_io::read_snapshot(&copy, &orrery_io::Limits::default()).is_ok()
            }
            // These grow; a run that ended while it began one leaves it empty.
            Some("gif") => bytes.is_empty() || bytes.ends_with(b";"),
            Some("csv") => bytes.is_empty() || bytes.ends_with(b"\n"),
            Some("orrery") => orrery_io::parse_checkpoint(bytes).is_ok(),
            _ => true,
        };
        if !is_whole {
            return Err(format!("{name} has its name and is not whole"));
        }
    }
    Ok(())
}

fn at_each_call(
    scenario: &FaultScenario,
    times: usize,
    failures: impl Fn(usize) -> Vec<&'static str>,
) -> Vec<Fault> {
    let faults = |at| failures(at).into_iter().map(move |what| Fault { what, at, times, kind: None });
    calls(scenario).flat_map(faults).collect()
}

#[test]
fn a_failing_disk_ends_the_run_in_good_order() {
    let scenario = FaultScenario::small(&[]);
    println!("{} storage calls, {} of them writes", scenario.count(None), scenario.count(Some("write")));
    // Each call once, the failures in turn; all of them at each call take three times as long.
    let faults = at_each_call(&scenario, 0, |at| vec![FAILURES[at % 3]]);
    none_goes_wrong(faults, |fault| fails_in_good_order(&scenario, fault));
}

/// A disk that is full, or a quota that is used up: nothing is taken any more, all else works.
#[test]
fn a_full_disk_leaves_whole_files() {
    let scenario = FaultScenario::small(&[]);
    let faults = (1..=scenario.count(Some("write")))
        .map(|at| Fault { what: FAILURES[at % 2], at, times: 0, kind: Some("write") })
        .collect();
    none_goes_wrong(faults, |fault| fails_in_good_order(&scenario, fault));
}

#[test]
#[ignore = "a minute"]
fn each_failure_at_each_call_ends_the_run_in_good_order() {
    let scenario = FaultScenario::small(&[]);
    let faults = at_each_call(&scenario, 0, |_| FAILURES.to_vec());
    none_goes_wrong(faults, |fault| fails_in_good_order(&scenario, fault));
}

/// A single failed call: either it did not matter, or the run ended with an error and goes on.
#[test]
fn a_single_failure_is_never_passed_over() {
    let scenario = FaultScenario::small(&[]);
    let faults = at_each_call(&scenario, 1, |at| vec![FAILURES[(at + 1) % 3]]);
    none_goes_wrong(faults, |fault| {
        let name = format!("once-{}", fault.at);
        let trial = scenario.trial(&name);
        let run = trial.run(&["--quiet"], fault);
        check_whole(&trial.content())?;
        let said = text(&run.stderr);
        if !run.status.success() {
            let is_good =
                run.status.code() == Some(1) && said.starts_with("error: ") && said.lines().count() == 1;
            if !is_good || !said.contains(words(fault.what)) {
                return Err(format!("{}: {said}", run.status));
            }
        } else {
            // A file that could not be removed is in nobody's way, until the run is gone on with.
            let found = trial.content();
            let kept: Content =
                found.into_iter().filter(|(name, _)| scenario.expected.contains_key(name)).collect();
            difference(&kept, &scenario.expected).map_or(Ok(()), Err)?;
        }
        trial.complete().map(drop)
    });
}

#[test]
fn a_short_write_has_no_effect() {
    let scenario = FaultScenario::small(&[]);
    let mut faults: Vec<Fault> = (1..=scenario.count(Some("write")))
        .map(|at| Fault { what: "SHORT", at, times: 1, kind: Some("write") })
        .collect();
    faults.push(Fault { what: "SHORT", at: 1, times: 0, kind: None });
    none_goes_wrong(faults, |fault| {
        let name = format!("short-{}-{}", fault.at, fault.times);
        let trial = scenario.trial(&name);
        let run = trial.run(&["--quiet"], fault);
        if !run.status.success() || !run.stderr.is_empty() {
            return Err(format!("{}: {}", run.status, text(&run.stderr)));
        }
        difference(&trial.content(), &scenario.expected).map_or(Ok(()), Err)
    });
}

/// Runs that wait sleep for seconds: many at a time.
fn with_many_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(12).build().expect("threads").install(work)
}

/// One to three failures in a row, at calls all over the run.
#[test]
fn a_run_that_waits_gets_through() {
    let scenario = FaultScenario::small(&["output.on_error=wait"]);
    let stride = 5;
    println!("every {stride}th of {} calls", calls(&scenario).end());
    let faults = calls(&scenario).step_by(stride).enumerate().map(|(k, at)| {
        let (what, times) = (FAILURES[k % 3], 1 + k / 3 % 3);
        Fault { what, at, times, kind: None }
    });
    let faults: Vec<Fault> = faults.collect();
    let waited = Mutex::new(0);
    with_many_threads(|| {
        none_goes_wrong(faults, |fault| {
            let name = format!("wait-{}", fault.at);
            let trial = scenario.trial(&name);
            let (run, calls) = trial.run_watched(&["--quiet"], fault);
            let said = text(&run.stderr);
            if !run.status.success() {
                return Err(format!("{}: {said}", run.status));
            }
            let out = trial.out().display().to_string();
            let is_good = |line: &str| {
                line == "written after all, going on"
                    || line.starts_with(&format!("waiting: {out}"))
                        && line.contains(words(fault.what))
                        && line.contains("; the next attempt is in ")
            };
            if !said.lines().all(is_good) {
                return Err(format!("expected what it waits for: {said}"));
            }
            *waited.lock().expect("no panic") += usize::from(!said.is_empty());
            check_syncs(&calls);
            difference(&trial.content(), &scenario.expected).map_or(Ok(()), Err)
        });
    });
    let waited = waited.into_inner().expect("no panic");
    println!("{waited} runs had to wait");
    // Looking for files that are not there may fail without harm; most calls may not.
    assert!(2 * waited > calls(&scenario).end() / stride, "only {waited} runs waited");
}

/// A file whose sync failed is written anew, never synced again: the system may have dropped its bytes.
#[test]
fn a_failed_sync_is_not_trusted_afterwards() {
    let scenario = FaultScenario::small(&["output.on_error=wait"]);
    let faults =
        (1..=scenario.count(Some("sync"))).map(|at| Fault { what: "EIO", at, times: 1, kind: Some("sync") });
    let faults: Vec<Fault> = faults.collect();
    with_many_threads(|| {
        none_goes_wrong(faults, |fault| {
            let name = format!("sync-{}", fault.at);
            let trial = scenario.trial(&name);
            let (run, calls) = trial.run_watched(&[], fault);
            let said = text(&run.stderr);
            if !run.status.success() || !said.contains("waiting: ") || !said.contains("written after all") {
                return Err(format!("{}: {said}", run.status));
            }
            check_syncs(&calls);
            difference(&trial.content(), &scenario.expected).map_or(Ok(()), Err)
        });
    });
}

/// Panics where a sync after a failed one is trusted.
fn check_syncs(calls: &[Call]) {
    let mut disk = Disk::default();
    calls.iter().for_each(|call| disk.apply(call));
}
