//! Surveys: the runs of all shots of a case of waves, in the folders `shot-N` of one folder.
//!
//! The folder of a survey has the case of all shots in [`SURVEY_FILE`], so that shots which were
//! not started can be computed later. Each shot is a run like any other.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_io::{Fault, IoError, is_link, read_small_text, write_file_atomically};

use crate::case::{Case, CaseError, CaseSource};
use crate::error::EngineError;
use crate::folder::{MAX_TEXT_BYTES, Output, Replace, contains_run, forget_run};
use crate::identity::{Difference, fixed_difference};

/// Case of all shots, in the folder of a survey.
pub const SURVEY_FILE: &str = "survey.toml";
const PREFIX: &str = "shot-";

/// Returns the folder of a shot.
pub fn shot_folder(survey: &Path, shot: u64) -> PathBuf {
    survey.join(format!("{PREFIX}{shot}"))
}

/// Lists the shots whose folders contain a run, in ascending order. Links are no shots.
pub fn list_shots(survey: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(survey).into_iter().flatten().flatten();
    let shot_of = |path: &Path| path.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse().ok();
    let folders = entries.filter_map(|entry| Some((shot_of(&entry.path())?, entry.path())));
    // 07 is a number too, and not the name of a shot.
    let is_shot = |(shot, path): &(u64, PathBuf)| {
        *path == shot_folder(survey, *shot) && !is_link(path) && contains_run(path)
    };
    let mut shots: Vec<_> = folders.filter(is_shot).collect();
    shots.sort_unstable();
    shots
}

/// Returns true if the folder is that of a survey, and not of one run.
pub fn is_survey(folder: &Path) -> bool {
    !contains_run(folder) && (folder.join(SURVEY_FILE).is_file() || !list_shots(folder).is_empty())
}

/// Checks that the survey of `case` may write to `folder`. Writes nothing. A run of one shot in the
/// folder itself, and shots that `case` does not have, count as an earlier survey.
pub fn check_usable(folder: &Path, case: &Case, replace: Replace) -> Result<(), EngineError> {
    let shots = case.wave().map(|wave| wave.shots()).unwrap_or_default();
    check_no_links(folder, &shots)?;
    let others = list_shots(folder).into_iter().filter(|(shot, _)| !shots.contains(shot));
    let new = shots.iter().map(|&shot| shot_folder(folder, shot));
    let runs = new.chain(others.map(|(_, path)| path));
    for folder in runs.chain(Some(folder.to_owned()).filter(|folder| contains_run(folder))) {
        let output = Output { folder, replace };
        output.check_usable()?;
        output.check_is_not_input(case)?;
    }
    Ok(())
}

/// Refuses links in the place of shots: their runs would be written elsewhere.
pub fn check_no_links(folder: &Path, shots: &[u64]) -> Result<(), EngineError> {
    match shots.iter().map(|&shot| shot_folder(folder, shot)).find(|path| is_link(path)) {
        None => Ok(()),
        Some(path) => {
            let reason = "it is a symbolic link, expected a directory or nothing".to_owned();
            Err(EngineError::OutputFolder { path, reason })
        }
    }
}

/// Removes the runs of an earlier survey, also of shots that the new one does not have.
/// `ignores_claims` is that of [`Control`](crate::control::Control).
pub fn clear(folder: &Path, ignores_claims: bool) -> Result<(), EngineError> {
    let own = Some(folder.to_owned()).filter(|folder| contains_run(folder));
    for path in own.into_iter().chain(list_shots(folder).into_iter().map(|(_, path)| path)) {
        let lock = Output { folder: path.clone(), replace: Replace::Any }.lock_and_clear(ignores_claims)?;
        forget_run(&path, lock)?;
    }
    Ok(())
}

/// Writes the case of all shots. If the folder has one already, and shots, the new one may differ
/// only in keys that a resumed run may change.
pub fn record_case(folder: &Path, case: &Case) -> Result<(), EngineError> {
    if !list_shots(folder).is_empty()
        && let Some(text) = read_text(folder)?
    {
        let recorded = load_text(folder, text, &[])?;
        if let Some(Difference { found, given }) = fixed_difference(&recorded, &case.with_absolute_paths()) {
            return Err(EngineError::CaseDiffers { path: folder.to_owned(), found, expected: given });
        }
    }
    orrery_io::make_folder(folder).map_err(EngineError::Output)?;
    let text = case.with_absolute_paths().to_toml();
    write_file_atomically(&folder.join(SURVEY_FILE), text.as_bytes()).map_err(EngineError::Output)
}

/// Returns the case of all shots of the survey in `folder` as a source, with `sets` checked: they
/// may change only the keys that a resumed run may change.
pub fn resumed_source(folder: &Path, sets: &[String]) -> Result<CaseSource, EngineError> {
    let Some(text) = read_text(folder)? else {
        return Err(EngineError::NoSurveyCase(folder.to_owned()));
    };
    let recorded = load_text(folder, text.clone(), &[])?;
    let given = load_text(folder, text.clone(), sets)?;
    if given.wave().is_none_or(|wave| wave.shot.is_some()) {
        let fault = Fault::malformed("case", "a case of one run", "a case of waves with several shots");
        return Err(EngineError::Input(IoError { path: folder.join(SURVEY_FILE), fault }));
    }
    match fixed_difference(&recorded, &given) {
        Some(Difference { found, given }) => {
            Err(EngineError::FixedKey { path: folder.to_owned(), found, given })
        }
        None => Ok(source_of(folder, text)),
    }
}

fn read_text(folder: &Path) -> Result<Option<String>, EngineError> {
    match read_small_text(&folder.join(SURVEY_FILE), MAX_TEXT_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(EngineError::Input(error)),
    }
}

fn is_missing(error: &IoError) -> bool {
    error.system_cause().is_some_and(|cause| cause.kind() == std::io::ErrorKind::NotFound)
}

fn load_text(folder: &Path, text: String, sets: &[String]) -> Result<Case, CaseError> {
    Case::load_within(&source_of(folder, text), sets, None)
}

fn source_of(folder: &Path, text: String) -> CaseSource {
    let label = folder.join(SURVEY_FILE).display().to_string();
    CaseSource::Text { label, text, folder: folder.to_owned() }
}
