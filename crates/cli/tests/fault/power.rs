//! The power is cut: what was not synced may be lost, in the worst way that the system allows.
//!
//! After every call of a run the disk is rebuilt from the shim's log as it may look then, and the run is gone
//! on with there. It must end with the same bytes, and go on from the last checkpoint that was complete.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rayon::prelude::*;

use crate::common::text;
use crate::disk::{Call, Disk, Unsynced};
use crate::scenario::{Fault, FaultScenario, Random};

/// What lies on a disk.
type Files = BTreeMap<PathBuf, Option<Vec<u8>>>;

const EXTREMES: [Unsynced; 4] =
    [Unsynced::Nothing, Unsynced::Names, Unsynced::NamesAndLengths, Unsynced::Everything];

/// A disk after a cut.
struct Cut {
    files: Files,
    /// The last call before it, and what of the unsynced is there.
    when: (usize, Unsynced),
    /// The step of the last checkpoint that was reported as complete.
    saved: u64,
}

/// All disks that differ, after each of the calls made on `folder`.
fn cuts(folder: &Path, start: Disk, calls: &[Call], random_worlds: usize) -> Vec<Cut> {
    let (mut disk, mut found) = (start, BTreeMap::new());
    let (mut named, mut saved) = (0, 0);
    let mut random = Random(calls.len() as u64);
    for (k, call) in calls.iter().enumerate() {
        disk.apply(call);
        match call.kind.as_str() {
            "rename" => named = step_of(&call.new_path).unwrap_or(named),
            // The next sync after a rename is that of its folder.
            "sync" => saved = named,
            _ => {}
        }
        let some = (0..random_worlds.min(1 << disk.unsafe_changes().min(10)))
            .map(|_| Unsynced::SomeNames(random.below(usize::MAX) as u64));
        for unsynced in EXTREMES.into_iter().chain(some) {
            let mut files = disk.after_cut(folder, unsynced);
            files.remove(Path::new("out/.lock"));
            files.remove(Path::new("calls"));
            // Of cuts that leave the same, the last has the most to keep.
            found.insert(files, ((k, unsynced), saved));
        }
    }
    found.into_iter().map(|(files, (when, saved))| Cut { files, when, saved }).collect()
}

/// The step of a checkpoint's file.
fn step_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("checkpoint_")?.strip_suffix(".orrery")?.parse().ok()
}

fn lay_out(files: &Files, disk: &Path) {
    for (name, bytes) in files {
        match bytes {
            None => fs::create_dir(disk.join(name)).expect("a folder"),
            Some(bytes) => fs::write(disk.join(name), bytes).expect("a file"),
        }
    }
}

/// Goes on after each of the cuts.
#[track_caller]
fn none_is_lost(scenario: &FaultScenario, name: &str, cuts: &[Cut]) {
    let began = Instant::now();
    let outcomes = cuts.par_iter().enumerate().map(|(k, cut)| {
        let trial_name = format!("{name}-{k}");
        let trial = scenario.trial(&trial_name);
        lay_out(&cut.files, trial.disk());
        let outcome = trial.complete().and_then(|from| {
            if from >= cut.saved {
                Ok(())
            } else {
                Err(format!("went on after step {from}, {} was saved", cut.saved))
            }
        });
        outcome.map_err(|e| format!("cut after call {} with {:?}: {e}", cut.when.0, cut.when.1))
    });
    let wrong: Vec<String> = outcomes.filter_map(Result::err).collect();
    println!("{name}: {} cuts in {:.0} s, {} lost", cuts.len(), began.elapsed().as_secs_f64(), wrong.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cuts.len(), wrong.join("\n"));
}

/// The folder in which the undisturbed run was watched.
fn watched(scenario: &FaultScenario) -> PathBuf {
    let made = scenario.calls.iter().find(|call| call.kind == "mkdir").expect("a run makes its folder");
    made.path.parent().expect("a parent").to_owned()
}

/// Runs on top of `files` and gives the cuts of that run.
fn cuts_of(
    scenario: &FaultScenario,
    name: &str,
    files: &Files,
    more: &[&str],
    random_worlds: usize,
) -> Vec<Cut> {
    let trial = scenario.trial(name);
    lay_out(files, trial.disk());
    let (run, calls) = trial.run_watched(more, Fault::default());
    assert!(run.status.success(), "{}", text(&run.stderr));
    cuts(trial.disk(), Disk::holding(trial.disk(), files), &calls, random_worlds)
}

/// What the undisturbed run leaves, as files on a disk.
fn finished(scenario: &FaultScenario) -> Files {
    let inside = scenario.expected.iter().map(|(name, bytes)| (Path::new("out").join(name), bytes.clone()));
    std::iter::once((PathBuf::from("out"), None)).chain(inside).collect()
}

#[test]
fn a_power_cut_loses_no_checkpoint() {
    let scenario = FaultScenario::small(&[]);
    let cuts = cuts(&watched(&scenario), Disk::default(), &scenario.calls, 0);
    none_is_lost(&scenario, "run", &cuts);
}

#[test]
fn a_power_cut_while_replacing_or_resuming_loses_nothing() {
    let scenario = FaultScenario::small(&[]);
    none_is_lost(&scenario, "force", &cuts_of(&scenario, "forced", &finished(&scenario), &["--force"], 0));
    // Half way, with a checkpoint to go on from.
    let first = cuts(&watched(&scenario), Disk::default(), &scenario.calls, 0);
    let half_way = first.iter().find(|cut| cut.saved == 2).expect("a checkpoint after step 2");
    none_is_lost(&scenario, "resume", &cuts_of(&scenario, "resumed", &half_way.files, &["--resume"], 0));
}

#[test]
#[ignore = "minutes: every cut of every resumed run, names in any combination"]
fn no_two_power_cuts_lose_a_checkpoint() {
    let scenario = FaultScenario::small(&[]);
    let first = cuts(&watched(&scenario), Disk::default(), &scenario.calls, 4);
    none_is_lost(&scenario, "run", &first);
    none_is_lost(&scenario, "force", &cuts_of(&scenario, "forced", &finished(&scenario), &["--force"], 4));
    for (k, cut) in first.iter().enumerate().step_by(10) {
        let second = cuts_of(&scenario, "resumed", &cut.files, &["--resume"], 1);
        none_is_lost(&scenario, &format!("resume {k}"), &second);
    }
}

/// A run that reports its end has brought everything to the disk, with or without checkpoints.
#[test]
fn a_finished_run_is_on_the_disk() {
    for every in ["checkpoint.every=2 steps", "checkpoint.every=0"] {
        let scenario = FaultScenario::small(&[every]);
        let folder = watched(&scenario);
        let mut disk = Disk::default();
        scenario.calls.iter().for_each(|call| disk.apply(call));
        let found = disk.after_cut(&folder, Unsynced::Nothing);
        for (name, bytes) in finished(&scenario) {
            assert!(found.get(&name) == Some(&bytes), "{every}: {} is not on the disk", name.display());
        }
    }
}
