//! Tests of a kill while a finished run is extended.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use orrery_formats::{MANIFEST_FILE, parse_checkpoint};
use rayon::prelude::*;
use serde_json::Value;

use super::scenario::{
    Content, Fault, FaultScenario, NO_PLOTS, SMALL_CASES, SmallCase, Trial, first_difference, run_to_end,
    tested_faults,
};
use crate::common::text;

/// Runs to the early end. The end of the scenario is later.
fn run_to_early_end(case: &SmallCase, trial: &Trial<'_>) {
    let run = trial.run(&["--quiet", "--set", case.early_end], Fault::default());
    assert!(run.status.success(), "{}", text(&run.stderr));
}

/// Returns the files without the bytes of snapshots and images. Those from before the extension
/// have another end in their provenance, and therefore other hashes in manifest and checkpoint.
fn without_provenance(content: &Content) -> Content {
    let comparable = |name: &str, bytes: &[u8]| {
        if name.starts_with("snapshots/") || name.starts_with("images/") {
            return None;
        }
        Some(match name {
            MANIFEST_FILE => names_in_manifest(bytes),
            name if name.ends_with(".orrery") => checkpoint_without_manifest(bytes),
            _ => bytes.to_vec(),
        })
    };
    let part = |(name, bytes): (&String, &Option<Vec<u8>>)| {
        (name.clone(), bytes.as_ref().and_then(|bytes| comparable(name, bytes)))
    };
    content.iter().map(part).collect()
}

fn names_in_manifest(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    // The case of an extended run has a line for each end.
    let names: BTreeSet<_> = text.lines().map(|line| line.rsplit(' ').next()).collect();
    format!("{names:?}").into_bytes()
}

fn checkpoint_without_manifest(bytes: &[u8]) -> Vec<u8> {
    let checkpoint = parse_checkpoint(bytes).expect("a checkpoint");
    let mut header: Value = serde_json::from_str(&checkpoint.header).expect("JSON");
    for part in ["/observers", "/before_end/observers"] {
        if let Some(Value::Object(observers)) = header.pointer_mut(part) {
            observers.remove("manifest").expect("the state of a manifest");
        }
    }
    format!("{header} {:?}", checkpoint.blocks).into_bytes()
}

/// Writes the files of a run to the output folder of a trial.
fn write_run(finished: &Content, trial: &Trial<'_>) {
    fs::create_dir(trial.out()).expect("a new folder");
    for (name, bytes) in finished {
        let path = trial.out().join(name);
        match bytes {
            None => fs::create_dir(path).expect("a new folder"),
            Some(bytes) => fs::write(path, bytes).expect("a new file"),
        }
    }
}

/// Kills the extension of the run `finished` in one storage call and extends again. With an odd
/// number, the run is resumed without an end first: it must then be finished at one of the two
/// ends.
fn check_killed_extension(scenario: &FaultScenario, finished: &Content, at: usize) -> Result<(), String> {
    let name = format!("extension-{at}");
    let trial = scenario.trial(&name);
    write_run(finished, &trial);
    trial.run(&["--resume"], Fault { action: "KILL", at, times: 1, kind: None });
    let mut resume = Command::new(env!("CARGO_BIN_EXE_orrery"));
    resume.arg("resume").arg(trial.out()).args(["--threads", "1"]);
    for (is_needed, command) in
        [(at % 2 == 1, &mut resume), (true, &mut trial.command(&["--resume"], Fault::default()))]
    {
        let run = is_needed.then(|| run_to_end(command));
        if let Some(run) = run.filter(|run| !run.status.success()) {
            return Err(format!("call {at}: {}: {}", run.status, text(&run.stderr)));
        }
    }
    let [found, expected] = [&trial.content(), &scenario.expected].map(without_provenance);
    first_difference(&found, &expected).map_or(Ok(()), |difference| Err(format!("call {at}: {difference}")))
}

#[test]
fn a_kill_during_an_extension_does_not_affect_results() {
    for case in &SMALL_CASES {
        let scenario = FaultScenario::small(case, &[NO_PLOTS]);
        let trial = scenario.trial("recorded extension");
        run_to_early_end(case, &trial);
        let finished = trial.content();
        let (run, calls) = trial.run_recorded(&["--resume"], Fault::default());
        assert!(run.status.success(), "{}", text(&run.stderr));
        let count = calls.iter().filter(|call| call.number > 0).count();
        assert!(count > 20, "{count} storage calls");
        let errors: Vec<String> = tested_faults(1..=count, 0, 4)
            .into_par_iter()
            .filter_map(|at| check_killed_extension(&scenario, &finished, at).err())
            .collect();
        assert!(errors.is_empty(), "{} of {count}:\n{}", errors.len(), errors.join("\n"));
    }
}
