//! The folder of a run: whether it may be used, whose it is, and what an earlier run left in it.
//!
//! Invariant: nothing is written before the folder is locked, and nothing is removed but what a run made. The
//! lock is the operating system's and ends with the process that holds it, however that ends.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use orrery_io::{IoError, make_folder, remove_files, write_file_atomically};

use crate::case::Case;
use crate::error::EngineError;
use crate::provenance;

/// Where a run writes, and what it may replace there.
#[derive(Clone, Debug)]
pub struct Output {
    /// The folder.
    pub folder: PathBuf,
    /// What may go.
    pub replace: Replace,
}

/// What of an earlier run a new one may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Nothing.
    Nothing,
    /// A run that has nothing but its start, and no checkpoint to go on from.
    Unbegun,
    /// Any run.
    Any,
}

/// Numbered files in a folder of their own: `snapshots/snapshot_000.hdf5`.
pub(crate) struct Series {
    pub folder: &'static str,
    pub prefix: &'static str,
}

pub(crate) const CHECKPOINTS: Series = Series { folder: "checkpoints", prefix: "checkpoint_" };
pub(crate) const SNAPSHOTS: Series = Series { folder: "snapshots", prefix: "snapshot_" };
pub(crate) const IMAGES: Series = Series { folder: "images", prefix: "image_" };
/// Checkpoints come first: none may outlive what it counts on.
const SERIES: [Series; 3] = [CHECKPOINTS, SNAPSHOTS, IMAGES];
/// How the name of a numbered file may end.
const ENDINGS: [&str; 6] = [".orrery", ".orrery.damaged", ".hdf5", ".xyz", ".npz", ".png"];

/// Says that the folder is a run's.
pub(crate) const PROVENANCE: &str = "provenance.txt";
pub(crate) const CASE: &str = "case.toml";
pub(crate) const TABLE: &str = "conserved.csv";
pub(crate) const ANIMATION: &str = "animation.gif";
pub(crate) const ENERGY_SVG: &str = "energy.svg";
pub(crate) const ENERGY_PNG: &str = "energy.png";
pub(crate) const POST_MORTEM: &str = "post-mortem.hdf5";
/// The single files of a run, but for the one that says so.
const MADE: [&str; 6] = [CASE, TABLE, ENERGY_SVG, ENERGY_PNG, ANIMATION, POST_MORTEM];
/// How its text starts.
const RUN_OF: &str = "program: orrery";
/// The line of a run that was being replaced.
const FORFEITED: &str = "replaced: what is left of this run is about to go";
/// Locked while a run writes here; it stays, since removing it would let two runs lock two files.
const LOCK: &str = ".lock";

/// The right to write into a folder, until dropped.
pub(crate) struct Lock(Option<File>);

impl Lock {
    /// Whether the system keeps others out.
    pub fn holds(&self) -> bool {
        self.0.is_some()
    }
}

impl Series {
    /// Whether a run gave this name: prefix, number, ending.
    fn named(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.prefix).unwrap_or_default();
        let ending = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        ending.len() < rest.len() && ENDINGS.contains(&ending)
    }

    /// Its files in a run's folder.
    pub fn files(&self, folder: &Path) -> Vec<PathBuf> {
        files_in(&folder.join(self.folder), |name| self.named(name))
    }
}

impl Output {
    /// Whether a run may write here, without writing anything.
    pub fn check(&self) -> Result<(), EngineError> {
        let folder = &self.folder;
        let wrong =
            |reason: &str| EngineError::OutputFolder { path: folder.clone(), reason: reason.to_owned() };
        match fs::read_dir(folder) {
            Ok(entries) => match entries.flatten().filter(|entry| !is_leftover(&entry.path())).count() {
                0 => Ok(()),
                _ if !holds_a_run(folder) => match self.replace {
                    Replace::Any => Err(wrong("it holds no earlier run that --force could replace")),
                    Replace::Nothing | Replace::Unbegun => Err(EngineError::OutputNotEmpty(folder.clone())),
                },
                _ if self.replace == Replace::Any => Ok(()),
                _ if self.replace == Replace::Unbegun && is_unbegun(folder) => Ok(()),
                _ => {
                    let resumable = !CHECKPOINTS.files(folder).is_empty();
                    Err(EngineError::HoldsARun { path: folder.clone(), resumable })
                }
            },
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotADirectory => {
                let which = if folder.exists() { "it" } else { "a part of its path" };
                Err(wrong(&format!("{which} is a file, expected a directory")))
            }
            Err(e) => Err(wrong(&IoError::from_system(folder, e).fault.to_string())),
        }
    }

    /// A run that replaces another must not remove the snapshot that it starts from.
    pub(crate) fn check_is_not_input(&self, case: &Case) -> Result<(), EngineError> {
        let input = case.bodies_file().and_then(|path| path.canonicalize().ok());
        match (input, self.folder.canonicalize()) {
            (Some(input), Ok(folder)) if input.starts_with(&folder) => Err(EngineError::OutputFolder {
                path: self.folder.clone(),
                reason: "the bodies' file lies in it, expected another directory".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Makes the folder, locks it, and clears an earlier run's files away; other files there are left alone.
    pub(crate) fn claim(&self) -> Result<Lock, EngineError> {
        let folder = &self.folder;
        make_folder(folder).map_err(|e| unusable(folder, e))?;
        let lock = lock(folder)?;
        // Another run may have come and gone since the first look.
        self.check()?;
        // Should this be interrupted: a checkpoint must not outlive what it counts on, and what is left must
        // still be known as a run's, and as one that was to go.
        if holds_a_run(folder) {
            let mark = format!("{RUN_OF} {}\n{FORFEITED}\n", provenance::VERSION);
            write_file_atomically(&folder.join(PROVENANCE), mark.as_bytes())
                .map_err(|e| unusable(folder, e))?;
        }
        for series in SERIES {
            remove_files(&series.files(folder)).map_err(|e| unusable(folder, e))?;
        }
        remove_files(&MADE.map(|name| folder.join(name))).map_err(|e| unusable(folder, e))?;
        clear_unfinished(folder);
        Ok(lock)
    }
}

/// The system would not let the folder be used: the user's mistake, unless it is the disk's.
fn unusable(folder: &Path, error: IoError) -> EngineError {
    if !error.is_bad_path() {
        return EngineError::Output(error);
    }
    let reason = format!("it cannot be written to: {}", error.fault);
    EngineError::OutputFolder { path: folder.to_owned(), reason }
}

/// Whether a run has written its provenance here; nothing else is ever replaced.
fn holds_a_run(folder: &Path) -> bool {
    fs::read_to_string(folder.join(PROVENANCE)).is_ok_and(|text| text.starts_with(RUN_OF))
}

/// Whether the run here has nothing to lose: no checkpoint, and no more than the row and the files of its start.
fn is_unbegun(folder: &Path) -> bool {
    if fs::read_to_string(folder.join(PROVENANCE))
        .is_ok_and(|text| text.lines().any(|line| line == FORFEITED))
    {
        return true;
    }
    let rows = fs::read_to_string(folder.join(TABLE)).map_or(0, |table| table.lines().skip(1).count());
    let most = SERIES.iter().map(|series| series.files(folder).len()).max().unwrap_or(0);
    rows <= 1 && most <= 1 && CHECKPOINTS.files(folder).is_empty()
}

/// Takes the right to write into `folder`, or says who has it.
pub(crate) fn lock(folder: &Path) -> Result<Lock, EngineError> {
    let path = folder.join(LOCK);
    let failed = |e| unusable(folder, IoError::from_system(&path, e));
    if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
        let reason = format!("its {LOCK} is not a file, expected one of an earlier run or none");
        return Err(EngineError::OutputFolder { path: folder.to_owned(), reason });
    }
    let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = opened.map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            // For the one who finds the folder locked; the lock itself needs no content.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            Ok(Lock(Some(file)))
        }
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let _ = file.rewind().and_then(|()| file.take(32).read_to_string(&mut owner));
            Err(EngineError::Locked { path: folder.to_owned(), owner: owner.trim().parse().ok() })
        }
        // A file system without locks; refusing to run there would help no one.
        Err(TryLockError::Error(_)) => Ok(Lock(None)),
    }
}

/// Removes what an interrupted run left half written. The folder must be locked.
pub(crate) fn clear_unfinished(folder: &Path) {
    let folders = SERIES.iter().map(|series| folder.join(series.folder)).chain([folder.to_owned()]);
    for path in folders.flat_map(|folder| files_in(&folder, is_unfinished)) {
        let _ = fs::remove_file(path);
    }
}

/// `.NAME.PID.part`: a file of a run that has not got its name yet.
fn is_unfinished(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part"));
    let Some((name, process)) = inner.and_then(|inner| inner.rsplit_once('.')) else { return false };
    process.parse::<u32>().is_ok()
        && (name == PROVENANCE || MADE.contains(&name) || SERIES.iter().any(|series| series.named(name)))
}

/// What may lie in a folder that counts as empty.
fn is_leftover(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name == LOCK || is_unfinished(name))
}

/// The files in `folder`, none where it is not there, whose names are wanted.
fn files_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| wanted(&entry.file_name().to_string_lossy()));
    named.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_run_gives_are_its_own() {
        for name in ["snapshot_000.hdf5", "snapshot_1234.npz"] {
            assert!(SNAPSHOTS.named(name), "{name}");
        }
        assert!(CHECKPOINTS.named("checkpoint_000000008.orrery.damaged"));
        for name in
            ["snapshot_best.hdf5", "snapshot_.hdf5", "snapshot_001", "snapshot_001.hdf5.bak", "image_000.png"]
        {
            assert!(!SNAPSHOTS.named(name), "{name}");
        }
        assert!(is_unfinished(".case.toml.12.part") && is_unfinished(".image_0003.png.9.part"));
        for name in [".movie.mp4.part", ".movie.mp4.12.part", ".case.toml.part", "case.toml.12.part"] {
            assert!(!is_unfinished(name), "{name}");
        }
    }
}
