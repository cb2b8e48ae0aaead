//! The folder of a run: checks before use, the lock, and the files of an earlier run.
//!
//! Invariants: nothing is written before the folder is locked, and only files of a run are removed.

mod lock;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orrery_formats::{
    Fault, Format, IoError, MANIFEST_FILE, is_link, make_folder, read_small_text, remove_files,
    write_file_atomically,
};

use self::lock::{CLAIM, LOCK};
pub(crate) use self::lock::{Lock, lock_folder};
use crate::case::Case;
use crate::error::EngineError;
use crate::observers;
use crate::provenance;
use crate::system::{PLOTS, POST_MORTEMS, RESULTS, TABLES};

/// Where a run writes, and which earlier run it may replace there.
#[derive(Clone, Debug)]
pub struct Output {
    /// Folder of the run.
    pub folder: PathBuf,
    /// Which earlier run may be replaced.
    pub replace: Replace,
}

/// Which earlier run in the folder a new run may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// None.
    Nothing,
    /// A run that has written only its start and has no checkpoint.
    WithoutProgress,
    /// Any run.
    Any,
}

/// Numbered files in a subfolder, such as `snapshots/snapshot_000.hdf5`.
pub(crate) struct Series {
    pub folder: &'static str,
    pub prefix: &'static str,
}

pub(crate) const CHECKPOINTS: Series = Series { folder: "checkpoints", prefix: "checkpoint_" };
pub(crate) const SNAPSHOTS: Series = Series { folder: "snapshots", prefix: "snapshot_" };
pub(crate) const IMAGES: Series = Series { folder: "images", prefix: "image_" };
/// Checkpoints come first, because they are removed first: a checkpoint needs the files of its run.
const SERIES: [Series; 3] = [CHECKPOINTS, SNAPSHOTS, IMAGES];
/// Suffixes of numbered files.
const SUFFIXES: [&str; 8] = [".orrery", ".orrery.damaged", ".hdf5", ".xyz", ".npz", ".npy", ".vti", ".png"];

/// Largest length of the texts of a run that are read whole, and of a case. The resolved form of a
/// case has all defaults and is refused if it is longer.
pub(crate) const MAX_TEXT_BYTES: u64 = 8 << 20;
/// Marks the folder as the folder of a run.
pub(crate) const PROVENANCE: &str = "provenance.txt";
pub(crate) const CASE: &str = "case.toml";
pub(crate) const ANIMATION: &str = "animation.gif";
/// Film of the images, which a run writes at its end.
pub(crate) const FILM: &str = "animation.mp4";
/// Messages of the commands that simulated the run. The commands write it, a run only removes it.
pub const LOG_FILE: &str = "run.log";
/// Formats of the file of bodies.
const START_FORMATS: [Format; 4] =
    [Format::GadgetHdf5, Format::GadgetBinary, Format::ExtendedXyz, Format::Npz];
/// First words of `PROVENANCE`.
const RUN_MARK: &str = "program: orrery";
/// Line in `PROVENANCE` while a run is being replaced.
const BEING_REPLACED: &str = "replaced: what is left of this run is about to go";
/// Returns the names of the plots that a run draws at its end.
fn plot_files() -> impl Iterator<Item = String> {
    PLOTS.iter().flat_map(|name| ["svg", "png"].map(|extension| format!("{name}.{extension}")))
}

/// Returns the names of the files of a run that are not numbered, without `PROVENANCE`.
fn run_files() -> impl Iterator<Item = String> {
    let others = [CASE, MANIFEST_FILE, ANIMATION, FILM, LOG_FILE]
        .into_iter()
        .chain(TABLES)
        .chain(POST_MORTEMS)
        .chain(RESULTS)
        .map(str::to_owned);
    let start_files = START_FORMATS.map(|format| start_file_name(format).to_owned());
    others.chain(plot_files()).chain(start_files)
}

/// Returns the name of the copy of the file of bodies, see `output.keep_start`.
pub(crate) fn start_file_name(format: Format) -> &'static str {
    match format {
        Format::GadgetHdf5 => "start.hdf5",
        Format::GadgetBinary => "start.gadget",
        Format::ExtendedXyz => "start.xyz",
        Format::Npz => "start.npz",
    }
}

impl Series {
    /// Returns true if a file of this series can have this name: prefix, number, suffix.
    fn matches_name(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.prefix).unwrap_or_default();
        let suffix = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        suffix.len() < rest.len() && SUFFIXES.contains(&suffix)
    }

    /// Lists the files of this series in the folder of a run.
    pub fn list_files(&self, folder: &Path) -> Vec<PathBuf> {
        files_in(&folder.join(self.folder), |name| self.matches_name(name))
    }

    /// Lists the files of this series with the number `first` or a larger one.
    pub fn list_files_from(&self, folder: &Path, first: usize) -> Vec<PathBuf> {
        let number_of = |name: &str| {
            let rest = name.strip_prefix(self.prefix)?;
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
        };
        files_in(&folder.join(self.folder), |name| {
            self.matches_name(name) && number_of(name).is_some_and(|number| number >= first)
        })
    }
}

impl Output {
    /// Checks that a run may write to the folder. Writes nothing.
    pub fn check_usable(&self) -> Result<(), EngineError> {
        let folder = &self.folder;
        let refused =
            |reason: &str| EngineError::OutputFolder { path: folder.clone(), reason: reason.to_owned() };
        match fs::read_dir(folder) {
            Ok(entries) => match entries.flatten().filter(|entry| !is_leftover(&entry.path())).count() {
                0 => Ok(()),
                _ if !contains_run(folder) => match self.replace {
                    Replace::Any => Err(refused("it contains files but no run that --force could replace")),
                    Replace::Nothing | Replace::WithoutProgress => {
                        Err(EngineError::OutputNotEmpty(folder.clone()))
                    }
                },
                _ if self.replace == Replace::Any => check_no_links(folder),
                _ if self.replace == Replace::WithoutProgress && has_no_progress(folder) => {
                    check_no_links(folder)
                }
                _ => {
                    let resumable = !CHECKPOINTS.list_files(folder).is_empty();
                    Err(EngineError::ContainsRun { path: folder.clone(), resumable })
                }
            },
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotADirectory => {
                let which = if folder.exists() { "it" } else { "a part of its path" };
                Err(refused(&format!("{which} is a file, expected a directory")))
            }
            Err(e) => Err(refused(&IoError::from_system(folder, e).fault.to_string())),
        }
    }

    /// Checks that the run does not remove a file that it starts from.
    pub(crate) fn check_is_not_input(&self, case: &Case) -> Result<(), EngineError> {
        let Ok(folder) = self.folder.canonicalize() else { return Ok(()) };
        let is_inside = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path.starts_with(&folder));
        match case.input_files().into_iter().find(is_inside) {
            Some(input) => Err(EngineError::OutputFolder {
                path: self.folder.clone(),
                reason: format!("it contains the input file {}, expected another directory", input.display()),
            }),
            None => Ok(()),
        }
    }

    /// Creates and locks the folder, and checks that a run can write to it. Removes nothing.
    /// `ignores_claims` is that of [`lock_folder`].
    pub(crate) fn lock(&self, ignores_claims: bool) -> Result<Lock, EngineError> {
        let lock = create_and_lock(&self.folder, ignores_claims)?;
        // Another run may have used the folder since the first check.
        self.check_locked()?;
        Ok(lock)
    }

    /// Checks that a run can write to the folder, which is locked.
    pub(crate) fn check_locked(&self) -> Result<(), EngineError> {
        self.check_usable()?;
        check_writable(&self.folder)
    }

    /// Removes the files of an earlier run. Other files stay. The folder is locked and was checked.
    pub(crate) fn clear(&self) -> Result<(), EngineError> {
        let folder = &self.folder;
        // The removal may be interrupted. The remaining files must then still be recognised as a
        // run that was being replaced, and a checkpoint must not remain without the files that it
        // needs.
        if contains_run(folder) {
            let mark = format!("{RUN_MARK} {}\n{BEING_REPLACED}\n", provenance::VERSION);
            write_file_atomically(&folder.join(PROVENANCE), mark.as_bytes())
                .map_err(|e| folder_error(folder, e))?;
        }
        // From here on an error is one of the storage: files of the earlier run are gone.
        for series in SERIES {
            remove_files(&series.list_files(folder)).map_err(EngineError::Output)?;
        }
        let files: Vec<_> = run_files().map(|name| folder.join(name)).collect();
        remove_files(&files).map_err(EngineError::Output)?;
        remove_unfinished_files(folder);
        Ok(())
    }
}

/// Creates a folder and locks it.
pub(crate) fn create_and_lock(folder: &Path, ignores_claims: bool) -> Result<Lock, EngineError> {
    make_folder(folder).map_err(|e| folder_error(folder, e))?;
    lock_folder(folder, ignores_claims)
}

/// Removes the last files of a run that was cleared, and its folders where they are empty. The
/// folder is then no longer that of a run. It is removed if it is empty, unless `lock` is `None`:
/// then the caller keeps its lock.
pub(crate) fn forget_run(folder: &Path, lock: Option<Lock>) -> Result<(), EngineError> {
    remove_files(&[folder.join(PROVENANCE)]).map_err(EngineError::Output)?;
    for series in SERIES {
        let _ = fs::remove_dir(folder.join(series.folder));
    }
    let Some(lock) = lock else { return Ok(()) };
    drop(lock);
    // The lock stays where files of the user stay.
    let is_empty = fs::read_dir(folder)
        .is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == LOCK)));
    if is_empty {
        let _ = fs::remove_file(folder.join(LOCK)).and_then(|()| fs::remove_dir(folder));
    }
    Ok(())
}

/// Checks that no subfolder of a run is a link. Files would be written and removed elsewhere.
pub(crate) fn check_no_links(folder: &Path) -> Result<(), EngineError> {
    match SERIES.iter().find(|series| is_link(&folder.join(series.folder))) {
        Some(Series { folder: name, .. }) => Err(EngineError::OutputFolder {
            path: folder.to_owned(),
            reason: format!("its {name} is a symbolic link, expected a directory or nothing"),
        }),
        None => Ok(()),
    }
}

/// Checks that a run can write to all existing parts of the folder, before a file is removed.
fn check_writable(folder: &Path) -> Result<(), EngineError> {
    let refused = |name: &str, reason: &str| {
        let reason = format!("its {name} is {reason} or nothing");
        Err(EngineError::OutputFolder { path: folder.to_owned(), reason })
    };
    check_no_links(folder)?;
    for name in run_files().chain([PROVENANCE.to_owned()]) {
        if folder.join(&name).is_dir() {
            return refused(&name, "a directory, expected a file");
        }
    }
    for series in SERIES {
        let path = folder.join(series.folder);
        if !path.is_dir() {
            if fs::symlink_metadata(&path).is_ok() {
                return refused(series.folder, "a file, expected a directory");
            }
            continue;
        }
        // A name of an unfinished file: if this process is killed here, a later run removes it.
        let probe = format!(".{}0{}.{}.part", series.prefix, SUFFIXES[0], std::process::id());
        orrery_formats::check_writable(&path, &probe).map_err(|e| folder_error(&path, e))?;
    }
    Ok(())
}

/// Converts a system error for the folder. A path that cannot be used is an error of the user.
/// Others, such as a full disk, are storage errors.
fn folder_error(folder: &Path, error: IoError) -> EngineError {
    if !error.is_bad_path() {
        return EngineError::Output(error);
    }
    let reason = format!("it cannot be written to: {}", error.fault);
    EngineError::OutputFolder { path: folder.to_owned(), reason }
}

/// Returns true if a run has written its provenance to `folder`. Only such a folder is ever
/// replaced.
pub(crate) fn contains_run(folder: &Path) -> bool {
    read_provenance(folder).is_some()
}

/// Returns the text of `PROVENANCE` if a run has written it.
fn read_provenance(folder: &Path) -> Option<String> {
    let text = read_small_text(&folder.join(PROVENANCE), MAX_TEXT_BYTES).ok()?;
    text.starts_with(RUN_MARK).then_some(text)
}

/// Returns the text `inputs` in the provenance of the run in `folder`, if there is one.
pub(crate) fn recorded_inputs(folder: &Path) -> Option<String> {
    read_provenance(folder)?.lines().find_map(|line| line.strip_prefix("inputs: ")).map(str::to_owned)
}

/// Returns true if the run in `folder` has computed nothing yet. It then has no checkpoint and at
/// most the first row and the first numbered files. A run that was being replaced counts too.
fn has_no_progress(folder: &Path) -> bool {
    if read_provenance(folder).is_some_and(|text| text.lines().any(|line| line == BEING_REPLACED)) {
        return true;
    }
    // A table of a run with progress may be longer than this.
    let rows_of = |name| match read_small_text(&folder.join(name), MAX_TEXT_BYTES) {
        Ok(table) => table.lines().skip(1).count(),
        Err(IoError { fault: Fault::TooLarge { .. }, .. }) => usize::MAX,
        Err(_) => 0,
    };
    let rows = TABLES.into_iter().map(rows_of).max().unwrap_or(0);
    let largest_series = SERIES.iter().map(|series| series.list_files(folder).len()).max().unwrap_or(0);
    rows <= 1 && largest_series <= 1 && CHECKPOINTS.list_files(folder).is_empty()
}

/// Removes the files of a finished run that exist only because it ended. `state` is the state of
/// the observers before the last step.
pub(crate) fn remove_output_of_end(folder: &Path, state: &observers::State) -> Result<(), EngineError> {
    let mut files = state.later_files(folder);
    files.extend(plot_files().chain([FILM.to_owned()]).map(|name| folder.join(name)));
    remove_files(&files).map_err(EngineError::Output)
}

/// Removes files that an interrupted run did not complete. The folder must be locked.
pub(crate) fn remove_unfinished_files(folder: &Path) {
    let folders = SERIES.iter().map(|series| folder.join(series.folder)).chain([folder.to_owned()]);
    for path in folders.flat_map(|folder| files_in(&folder, is_unfinished)) {
        let _ = fs::remove_file(path);
    }
}

/// Returns true for `.NAME.PID.part`: a file of a run that was not completed and renamed to `NAME`.
fn is_unfinished(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part"));
    let Some((name, process)) = inner.and_then(|inner| inner.rsplit_once('.')) else { return false };
    process.parse::<u32>().is_ok()
        && (name == PROVENANCE
            || CLAIM.strip_prefix('.') == Some(name)
            || run_files().any(|known| known == name)
            || SERIES.iter().any(|series| series.matches_name(name)))
}

/// Returns true for files that may be in a folder that counts as empty.
fn is_leftover(path: &Path) -> bool {
    path.file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name == LOCK || name == CLAIM || is_unfinished(name))
}

/// Lists the files in `folder` whose names are `wanted`. A folder that does not exist has none.
fn files_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| wanted(&entry.file_name().to_string_lossy()));
    // A link is one of the files, and only the link is removed.
    named.map(|entry| entry.path()).filter(|path| path.is_file() || is_link(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_run_writes_are_recognised() {
        for name in ["snapshot_000.hdf5", "snapshot_1234.npz", "snapshot_000.npy", "snapshot_000.vti"] {
            assert!(SNAPSHOTS.matches_name(name), "{name}");
        }
        assert!(CHECKPOINTS.matches_name("checkpoint_000000008.orrery.damaged"));
        for name in
            ["snapshot_best.hdf5", "snapshot_.hdf5", "snapshot_001", "snapshot_001.hdf5.bak", "image_000.png"]
        {
            assert!(!SNAPSHOTS.matches_name(name), "{name}");
        }
        assert!(is_unfinished(".case.toml.12.part") && is_unfinished(".image_0003.png.9.part"));
        for name in [".movie.mp4.part", ".movie.mp4.12.part", ".case.toml.part", "case.toml.12.part"] {
            assert!(!is_unfinished(name), "{name}");
        }
    }
}
