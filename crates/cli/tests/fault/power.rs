//! Tests of power cuts: unsynced changes may be lost, in the worst way that the system allows.
//!
//! After every call of a run, the disk is rebuilt from the shim's log as it may look at that
//! moment, and the run is resumed on it. The resumed run must start at the last complete checkpoint
//! or later, and end with the same bytes as an undisturbed run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use orrery_device::testing::SplitMix64;
use rayon::prelude::*;

use super::disk::{Call, Disk, Unsynced};
use super::scenario::{Fault, FaultScenario, NO_PLOTS, tested_faults};
use crate::common::text;

/// Content of a disk.
type Files = BTreeMap<PathBuf, Option<Vec<u8>>>;

const EXTREMES: [Unsynced; 4] =
    [Unsynced::Nothing, Unsynced::Names, Unsynced::NamesAndLengths, Unsynced::Everything];

/// A disk after a power cut.
struct Cut {
    files: Files,
    /// Index of the last call before the cut, and the unsynced changes that are on the disk.
    when: (usize, Unsynced),
    /// Step of the last checkpoint that was reported as complete.
    saved: u64,
}

/// Returns all different disks after a cut behind each call on `folder`. `random_count` is the
/// number of random combinations of unsynced names per call.
fn possible_cuts(folder: &Path, start: Disk, calls: &[Call], random_count: usize) -> Vec<Cut> {
    let (mut disk, mut found) = (start, BTreeMap::new());
    let (mut named, mut saved) = (0, 0);
    let mut random = SplitMix64::new(calls.len() as u64);
    for (k, call) in calls.iter().enumerate() {
        disk.apply(call);
        match call.kind.as_str() {
            "rename" => named = checkpoint_step(&call.new_path).unwrap_or(named),
            // The first sync after a rename is that of the folder.
            "sync" => saved = named,
            _ => {}
        }
        let random_cases = (0..random_count.min(1 << disk.unsynced_change_count().min(10)))
            .map(|_| Unsynced::SomeNames(random.below(usize::MAX) as u64));
        for unsynced in EXTREMES.into_iter().chain(random_cases) {
            let mut files = disk.content_after_cut(folder, unsynced);
            files.remove(Path::new("out/.lock"));
            files.remove(Path::new("calls"));
            // Several cuts may give the same files. The last one has the newest checkpoint.
            found.insert(files, ((k, unsynced), saved));
        }
    }
    found.into_iter().map(|(files, (when, saved))| Cut { files, when, saved }).collect()
}

/// Returns the step in the name of a checkpoint file.
fn checkpoint_step(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("checkpoint_")?.strip_suffix(".orrery")?.parse().ok()
}

fn write_files(files: &Files, disk: &Path) {
    for (name, bytes) in files {
        match bytes {
            None => fs::create_dir(disk.join(name)).expect("a folder"),
            Some(bytes) => fs::write(disk.join(name), bytes).expect("a file"),
        }
    }
}

/// Resumes the run after each cut and checks the result.
#[track_caller]
fn check_cuts(scenario: &FaultScenario, name: &str, cuts: &[Cut]) {
    let start = Instant::now();
    let outcomes = cuts.par_iter().enumerate().map(|(k, cut)| {
        let trial_name = format!("{name}-{k}");
        let trial = scenario.trial(&trial_name);
        write_files(&cut.files, trial.disk());
        let outcome = trial.resume_and_compare().and_then(|from| {
            if from >= cut.saved {
                Ok(())
            } else {
                Err(format!("resumed after step {from}, but step {} was saved", cut.saved))
            }
        });
        outcome.map_err(|e| format!("cut after call {} with {:?}: {e}", cut.when.0, cut.when.1))
    });
    let errors: Vec<String> = outcomes.filter_map(Result::err).collect();
    println!(
        "{name}: {} cuts in {:.0} s, {} with errors",
        cuts.len(),
        start.elapsed().as_secs_f64(),
        errors.len()
    );
    assert!(errors.is_empty(), "{} of {}:\n{}", errors.len(), cuts.len(), errors.join("\n"));
}

/// Returns the folder in which the undisturbed run was recorded.
fn recorded_folder(scenario: &FaultScenario) -> PathBuf {
    let made = scenario.calls.iter().find(|call| call.kind == "mkdir").expect("a run makes its folder");
    made.path.parent().expect("a parent").to_owned()
}

/// Starts a run on a disk with `files` and returns the possible cuts of that run.
fn cuts_of_run(
    scenario: &FaultScenario,
    name: &str,
    files: &Files,
    more: &[&str],
    random_count: usize,
) -> Vec<Cut> {
    let trial = scenario.trial(name);
    write_files(files, trial.disk());
    let (run, calls) = trial.run_recorded(more, Fault::default());
    assert!(run.status.success(), "{}", text(&run.stderr));
    possible_cuts(trial.disk(), Disk::with_content(trial.disk(), files), &calls, random_count)
}

/// Returns the files of the undisturbed run as the content of a disk.
fn finished_run(scenario: &FaultScenario) -> Files {
    let inside = scenario.expected.iter().map(|(name, bytes)| (Path::new("out").join(name), bytes.clone()));
    std::iter::once((PathBuf::from("out"), None)).chain(inside).collect()
}

#[test]
fn a_power_cut_loses_no_checkpoint() {
    for scenario in FaultScenario::each_small(&[NO_PLOTS]) {
        let cuts = possible_cuts(&recorded_folder(&scenario), Disk::default(), &scenario.calls, 0);
        check_cuts(&scenario, "run", &tested_faults(cuts, 0, 6));
    }
}

#[test]
fn a_power_cut_while_replacing_or_resuming_loses_no_checkpoint() {
    for scenario in FaultScenario::each_small(&[NO_PLOTS]) {
        let cuts = cuts_of_run(&scenario, "forced", &finished_run(&scenario), &["--force"], 0);
        check_cuts(&scenario, "force", &tested_faults(cuts, 1, 6));
        // A run that was cut after its checkpoint of step 2.
        let first = possible_cuts(&recorded_folder(&scenario), Disk::default(), &scenario.calls, 0);
        let half_way = first.iter().find(|cut| cut.saved == 2).expect("a checkpoint after step 2");
        let cuts = cuts_of_run(&scenario, "resumed", &half_way.files, &["--resume"], 0);
        check_cuts(&scenario, "resume", &tested_faults(cuts, 2, 6));
    }
}

#[test]
#[ignore = "takes minutes: all cuts of resumed runs, with random combinations of names"]
fn two_power_cuts_lose_no_checkpoint() {
    for scenario in FaultScenario::each_small(&[]) {
        let first = possible_cuts(&recorded_folder(&scenario), Disk::default(), &scenario.calls, 4);
        check_cuts(&scenario, "run", &first);
        check_cuts(
            &scenario,
            "force",
            &cuts_of_run(&scenario, "forced", &finished_run(&scenario), &["--force"], 4),
        );
        for (k, cut) in first.iter().enumerate().step_by(10) {
            let second = cuts_of_run(&scenario, "resumed", &cut.files, &["--resume"], 1);
            check_cuts(&scenario, &format!("resume {k}"), &second);
        }
    }
}

/// A run syncs all its files before it reports its end, with or without checkpoints.
#[test]
fn a_finished_run_is_synced_to_the_disk() {
    for every in ["checkpoint.every=2 steps", "checkpoint.every=0"] {
        for scenario in FaultScenario::each_small(&[every]) {
            let folder = recorded_folder(&scenario);
            let mut disk = Disk::default();
            scenario.calls.iter().for_each(|call| disk.apply(call));
            let found = disk.content_after_cut(&folder, Unsynced::Nothing);
            for (name, bytes) in finished_run(&scenario) {
                assert!(found.get(&name) == Some(&bytes), "{every}: {} is not on the disk", name.display());
            }
        }
    }
}
