//! Differences between the files of two runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use orrery_engine::EngineError;
use orrery_engine::gravity::analysis::snapshots_in;
use orrery_engine::survey;
use orrery_formats::{FieldFormat, IoError};

use super::fluids::TRAJECTORIES;
use super::report::Comparison;
use super::{Rules, compare_files, fluids, tables};
use crate::failure::Failure;

/// Tables in the folder of a run. Each run has one of the first two.
const TABLES: [&str; 5] = ["conserved.csv", "thermo.csv", "rdf.csv", "msd.csv", "diffusion.csv"];

/// Returns true if the folder has the table of a run.
fn has_table(folder: &Path) -> bool {
    TABLES[..2].iter().any(|table| folder.join(table).exists())
}

/// Compares the files of two runs, or those of each shot of two surveys.
pub fn compare_folders(a: &Path, b: &Path, rules: &Rules) -> Result<Vec<Comparison>, Failure> {
    match (survey::is_survey(a), survey::is_survey(b)) {
        (false, false) => compare_runs(a, b, rules),
        (true, true) => compare_surveys(a, b, rules),
        (is_survey, _) => {
            let kind = |is_survey: bool| if is_survey { "a survey" } else { "one run" };
            let [a, b] = [(a, is_survey), (b, !is_survey)]
                .map(|(path, is_survey)| format!("{} is {}", path.display(), kind(is_survey)));
            Err(Failure::Usage(format!("{a} but {b}, expected two surveys or two runs")))
        }
    }
}

fn compare_surveys(a: &Path, b: &Path, rules: &Rules) -> Result<Vec<Comparison>, Failure> {
    let shots_of = |survey| survey::list_shots(survey).into_iter().collect::<BTreeMap<u64, PathBuf>>();
    let (a_shots, b_shots) = (shots_of(a), shots_of(b));
    if a_shots.is_empty() && b_shots.is_empty() {
        let [a, b] = [a, b].map(Path::display);
        return Err(Failure::Usage(format!(
            "{a} and {b} have no shots, expected surveys that were computed"
        )));
    }
    let mut parts = Vec::new();
    for shot in a_shots.keys().chain(b_shots.keys()).collect::<BTreeSet<_>>() {
        match (a_shots.get(shot), b_shots.get(shot)) {
            (Some(a_shot), Some(b_shot)) => parts.extend(compare_runs(a_shot, b_shot, rules)?),
            (Some(a_shot), None) => {
                parts.push(not_compared(a_shot, format!("{} has no such shot", b.display())))
            }
            (None, Some(b_shot)) => {
                parts.push(not_compared(b_shot, format!("{} has no such shot", a.display())))
            }
            (None, None) => {}
        }
    }
    Ok(parts)
}

/// Compares the files of two runs.
fn compare_runs(a: &Path, b: &Path, rules: &Rules) -> Result<Vec<Comparison>, Failure> {
    let (a_files, b_files) = (files_by_name(a)?, files_by_name(b)?);
    let mut parts = Vec::new();
    for (name, path) in &a_files {
        match b_files.get(name) {
            Some(other) => parts.push(match compare_files(path, other, rules) {
                // Seismograms of other lengths do not end the comparison of the other files.
                Err(Failure::Usage(reason)) if path.parent() == Some(a) => not_compared(path, reason),
                part => part?,
            }),
            None => parts.push(only_in_one(path, b)),
        }
    }
    let only_b = b_files.iter().filter(|(name, _)| !a_files.contains_key(*name));
    parts.extend(only_b.map(|(_, path)| only_in_one(path, a)));
    for name in TABLES {
        let (a_file, b_file) = (a.join(name), b.join(name));
        match (a_file.exists(), b_file.exists()) {
            (true, true) => parts.push(tables::compare_tables(&a_file, &b_file, rules)?),
            (true, false) => parts.push(only_in_one(&a_file, b)),
            (false, true) => parts.push(only_in_one(&b_file, a)),
            (false, false) => {}
        }
    }
    let trajectory =
        |folder: &Path| TRAJECTORIES.iter().map(|name| folder.join(name)).find(|path| path.exists());
    match (trajectory(a), trajectory(b)) {
        (Some(a_file), Some(b_file)) => parts.push(fluids::compare_trajectories(&a_file, &b_file, rules)?),
        (Some(a_file), None) => parts.push(only_in_one(&a_file, b)),
        (None, Some(b_file)) => parts.push(only_in_one(&b_file, a)),
        (None, None) => {}
    }
    Ok(parts)
}

/// Returns the snapshots and the results of a run by their names. Snapshots have their names
/// without extension, because two runs may have them in different formats.
fn files_by_name(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let results = results_in(folder)?;
    let snapshots = match snapshots_in(folder) {
        Err(EngineError::NoSnapshots(_)) if has_table(folder) => Vec::new(),
        files => files?,
    };
    let text = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    // A folder without the subfolder of snapshots lists its arrays and its trajectory as snapshots.
    let is_trajectory = |path: &PathBuf| TRAJECTORIES.iter().any(|name| *path == folder.join(name));
    let is_new = |path: &PathBuf| !results.contains(path) && !is_trajectory(path);
    let snapshots = snapshots.into_iter().filter(is_new).map(|path| (text(path.file_stem()), path));
    let mut files: BTreeMap<String, PathBuf> = snapshots.collect();
    files.extend(results.into_iter().map(|path| (text(path.file_name()), path)));
    Ok(files)
}

/// Lists arrays and SEG-Y files in the folder of a run, such as seismograms. The field at the
/// moment of a failure is not a result. A folder that is not of a run has no results.
fn results_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !has_table(folder) && !folder.join("snapshots").is_dir() {
        return Ok(Vec::new());
    }
    let failed = |error| Failure::Input(IoError::from_system(folder, error));
    let mut results = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let format = FieldFormat::from_path(&path).filter(|format| *format != FieldFormat::Png);
        let is_post_mortem = path.file_stem().is_some_and(|stem| stem == "post-mortem");
        if format.is_some() && !is_post_mortem && path.is_file() {
            results.push(path);
        }
    }
    Ok(results)
}

fn only_in_one(path: &Path, other: &Path) -> Comparison {
    not_compared(path, format!("{} has no such file", other.display()))
}

/// Returns the result for a file that differs without a comparison of its values.
fn not_compared(path: &Path, reason: String) -> Comparison {
    Comparison {
        title: path.display().to_string(),
        compared: "nothing".to_owned(),
        notes: vec![reason],
        columns: Vec::new(),
        first: None,
    }
}
