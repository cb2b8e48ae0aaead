//! `check`.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use orrery_engine::case::Case;
use orrery_engine::integrity::{FolderCheck, check_folder};
use orrery_engine::survey;
use orrery_formats::{Limits, format_bytes};
use orrery_model::format_count;

use super::Ending;
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::print::{eprint_line, print_line};

/// Compares the files of runs with their records.
pub fn check(arguments: &CheckArgs) -> Result<Ending, Failure> {
    let limits = arguments.memory.limits();
    let mut ending = Ending::Done;
    for folder in &arguments.folders {
        let found = match survey::is_survey(folder) {
            true => check_survey(folder, &limits),
            false => check_run(folder, &limits)?,
        };
        if found == Ending::Different {
            ending = found;
        }
    }
    Ok(ending)
}

/// Checks all shots of a survey: those that its case has, and those that are there. An error in one
/// of them does not keep the others from being checked.
fn check_survey(folder: &Path, limits: &Limits) -> Ending {
    let is_different = Cell::new(false);
    let different = |line: String| {
        print_line!("{line}");
        is_different.set(true);
    };
    let recorded = survey::recorded_shots(folder).unwrap_or_else(|error| {
        different(error.to_string());
        Some(Vec::new())
    });
    if recorded.is_none() {
        let (folder, name) = (folder.display(), survey::SURVEY_FILE);
        eprint_line!("note: {folder}: no {name} in it, so shots that were removed are not found");
    }
    let found: BTreeMap<u64, PathBuf> = survey::list_shots(folder).into_iter().collect();
    let recorded: BTreeMap<u64, Case> = recorded.into_iter().flatten().collect();
    let mut is_case_compared = false;
    let shots: BTreeSet<u64> = found.keys().chain(recorded.keys()).copied().collect();
    for shot in shots {
        let Some(run) = found.get(&shot) else {
            let path = survey::shot_folder(folder, shot);
            let reason = "no run in it: it was not started, or it was removed";
            different(format!("{}: {reason}", path.display()));
            continue;
        };
        match check_run(run, limits) {
            Ok(Ending::Done) => {}
            Ok(_) => is_different.set(true),
            Err(error) => different(error.to_string()),
        }
        let Some(case) = recorded.get(&shot).filter(|_| !is_case_compared) else { continue };
        // All shots have the same case, so one line says enough.
        if let Ok(Some((in_run, in_survey))) = survey::shot_difference(run, case) {
            is_case_compared = true;
            let path = folder.join(survey::SURVEY_FILE);
            different(format!(
                "{}: changed: it has {in_survey}, but the run of shot {shot} has {in_run}",
                path.display()
            ));
        }
    }
    if is_different.get() { Ending::Different } else { Ending::Done }
}

fn check_run(folder: &Path, limits: &Limits) -> Result<Ending, Failure> {
    let FolderCheck { step, is_finished, files, bytes, checkpoints, differences, unlisted, notes } =
        check_folder(folder, limits)?;
    for note in &notes {
        eprint_line!("note: {note}");
    }
    for difference in &differences {
        print_line!("{}: {}", difference.path.display(), difference.problem);
    }
    let state = if is_finished { "finished" } else { "not finished" };
    let checkpoints = format_count(checkpoints as u64, "checkpoint", "checkpoints");
    let outcome = match differences.len() {
        0 if unlisted > 0 => "the listed files are intact".to_owned(),
        0 => "intact".to_owned(),
        1 => "1 file differs".to_owned(),
        count => format!("{count} files differ"),
    };
    print_line!(
        "{}: step {step}, {state}, {checkpoints}, {} ({}): {outcome}",
        folder.display(),
        format_count(files as u64, "file", "files"),
        format_bytes(bytes)
    );
    Ok(if differences.is_empty() { Ending::Done } else { Ending::Different })
}
