//! Surveys: the runs of all shots of a case of waves, in the folders `shot-N` of one folder.
//!
//! The folder of a survey has the case of all shots in [`SURVEY_FILE`], so that shots which were
//! not started can be computed later. Each shot is a run like any other.

use std::fs;
use std::path::{Path, PathBuf};

use orrery_formats::{Fault, IoError, is_link, read_small_text, write_file_atomically};

use crate::case::{Case, CaseError, CaseSource};
use crate::error::EngineError;
use crate::folder::{Lock, MAX_TEXT_BYTES, Output, Replace, contains_run, create_and_lock, forget_run};
use crate::identity::{Difference, comparable_case, fixed_difference, read_case_file};

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

/// The right to start or resume a survey in its folder, until dropped. The runs of its shots have
/// their own.
pub struct SurveyLock {
    _lock: Lock,
}

/// Creates the folder of a survey and locks it. `ignores_claims` is that of
/// [`Control`](crate::control::Control).
pub fn lock(folder: &Path, ignores_claims: bool) -> Result<SurveyLock, EngineError> {
    Ok(SurveyLock { _lock: create_and_lock(folder, ignores_claims)? })
}

/// Removes the runs of an earlier survey, also of shots that the new one does not have. The caller
/// has the lock of the folder. If another process uses one of the runs, none is removed.
pub fn clear(folder: &Path, ignores_claims: bool, _lock: &SurveyLock) -> Result<(), EngineError> {
    let output_of = |folder: &Path| Output { folder: folder.to_owned(), replace: Replace::Any };
    let own = Some(output_of(folder)).filter(|output| contains_run(&output.folder));
    own.iter().try_for_each(Output::check_locked)?;
    let locked = |(_, path): (u64, PathBuf)| {
        let output = output_of(&path);
        Ok((output.lock(ignores_claims)?, output))
    };
    let shots = list_shots(folder).into_iter().map(locked).collect::<Result<Vec<_>, EngineError>>()?;
    if let Some(output) = own {
        output.clear()?;
        forget_run(folder, None)?;
    }
    for (lock, output) in shots {
        output.clear()?;
        forget_run(&output.folder, Some(lock))?;
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
    orrery_formats::make_folder(folder).map_err(EngineError::Output)?;
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
        return Err(not_a_survey(folder));
    }
    match fixed_difference(&recorded, &given) {
        Some(Difference { found, given }) => {
            Err(EngineError::FixedKey { path: folder.to_owned(), found, given })
        }
        None => Ok(source_of(folder, text)),
    }
}

/// Returns the case of each shot of the survey in `folder`, in ascending order, or `None` if the
/// folder has no case of all shots. Reads no other file.
pub fn recorded_shots(folder: &Path) -> Result<Option<Vec<(u64, Case)>>, EngineError> {
    let Some(text) = read_text(folder)? else { return Ok(None) };
    let label = folder.join(SURVEY_FILE).display().to_string();
    let case = Case::load_from_checkpoint(&text, &label, &[])?;
    let mut shots =
        case.wave().filter(|wave| wave.shot.is_none()).ok_or_else(|| not_a_survey(folder))?.shots();
    shots.sort_unstable();
    let case_of = |shot: u64| {
        let sets = [format!("wave.shot={shot}")];
        Ok((shot, Case::load_from_checkpoint(&text, &label, &sets)?))
    };
    shots.into_iter().map(case_of).collect::<Result<_, EngineError>>().map(Some)
}

/// Compares `case` with that of the run in the folder `run`. Returns the first key that differs and
/// that a resumed run cannot change, with the value in the run and in `case`.
pub fn shot_difference(run: &Path, case: &Case) -> Result<Option<(String, String)>, EngineError> {
    let Some(recorded) = read_case_file(run)? else { return Ok(None) };
    let difference = fixed_difference(&recorded, &comparable_case(case, &recorded));
    Ok(difference.map(|Difference { found, given }| (found, given)))
}

/// Checks that all shots that were started are runs of their case, before the first one is resumed.
pub fn check_shots(runs: &[(Case, PathBuf)]) -> Result<(), EngineError> {
    for (case, path) in runs.iter().filter(|(_, path)| contains_run(path)) {
        if let Some((found, expected)) = shot_difference(path, case)? {
            return Err(EngineError::CaseDiffers { path: path.clone(), found, expected });
        }
    }
    Ok(())
}

fn not_a_survey(folder: &Path) -> EngineError {
    let fault = Fault::malformed("case", "a case of one run", "a case of waves with several shots");
    EngineError::Input(IoError { path: folder.join(SURVEY_FILE), fault })
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
