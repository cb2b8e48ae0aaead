//! The folder of a run: whether it may be used, whose it is, and what an earlier run left in it.
//!
//! Invariant: nothing is written before the folder is locked, and nothing is removed but what a run made. The
//! lock is the operating system's and ends with the process that holds it, however that ends.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use orrery_io::{IoError, make_folder, remove_files};

use crate::case::Case;
use crate::error::EngineError;

/// Where a run writes, and whether it may replace what is there.
#[derive(Clone, Debug)]
pub struct Output {
    /// The folder.
    pub folder: PathBuf,
    /// Whether an earlier run's files there may be replaced.
    pub force: bool,
}

/// Says that the folder is a run's.
const PROVENANCE: &str = "provenance.txt";
/// The other files that a run makes there.
const MADE: [&str; 6] =
    ["case.toml", "conserved.csv", "energy.svg", "energy.png", "animation.gif", "post-mortem.hdf5"];
/// The folders of numbered files that it makes there, and how their names start; checkpoints come first.
const SERIES: [(&str, &str); 3] =
    [("checkpoints", "checkpoint_"), ("snapshots", "snapshot_"), ("images", "image_")];
/// Locked while a run writes here; it stays, since removing it would let two runs lock two files.
const LOCK: &str = ".lock";

/// The right to write into a folder, until dropped.
pub struct Lock(#[allow(dead_code, reason = "held, not read: closing it gives the lock back")] Option<File>);

impl Output {
    /// Whether a run may write here, without writing anything.
    pub fn check(&self) -> Result<(), EngineError> {
        let folder = &self.folder;
        let wrong = |reason: String| EngineError::OutputFolder { path: folder.clone(), reason };
        match fs::read_dir(folder) {
            Ok(entries) => match entries.flatten().filter(|entry| !is_leftover(&entry.path())).count() {
                0 => Ok(()),
                _ if !self.force => Err(EngineError::OutputNotEmpty(folder.clone())),
                _ if holds_a_run(folder) => Ok(()),
                _ => {
                    Err(wrong("it holds no earlier run that --force could replace, expected one".to_owned()))
                }
            },
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotADirectory => {
                let which = if folder.exists() { "it" } else { "a part of its path" };
                Err(wrong(format!("{which} is a file, expected a directory")))
            }
            Err(e) => Err(wrong(IoError::system(folder, e).fault.to_string())),
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
        // still be known as a run's, so that its provenance stays until the next one takes its place.
        let files: Vec<PathBuf> = MADE.into_iter().map(|name| folder.join(name)).collect();
        for (name, prefix) in SERIES {
            let series = files_in(&folder.join(name), |name| name.starts_with(prefix));
            remove_files(&series).map_err(|e| unusable(folder, e))?;
        }
        remove_files(&files).map_err(|e| unusable(folder, e))?;
        clear_unfinished(folder);
        Ok(lock)
    }
}

/// The system would not let the folder be used: the user's mistake, unless it is the disk's.
fn unusable(folder: &Path, error: IoError) -> EngineError {
    if !error.is_wrong_place() {
        return EngineError::Output(error);
    }
    let reason = format!("it cannot be made or cleared: {}", error.fault);
    EngineError::OutputFolder { path: folder.to_owned(), reason }
}

/// Whether a run has written its provenance here; nothing else is ever replaced.
pub(crate) fn holds_a_run(folder: &Path) -> bool {
    fs::read_to_string(folder.join(PROVENANCE)).is_ok_and(|text| text.starts_with("program: orrery"))
}

/// Takes the right to write into `folder`, or says who has it.
pub(crate) fn lock(folder: &Path) -> Result<Lock, EngineError> {
    let path = folder.join(LOCK);
    let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    let mut file = opened.map_err(|e| unusable(folder, IoError::system(&path, e)))?;
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
    let folders = SERIES.iter().map(|(name, _)| folder.join(name)).chain([folder.to_owned()]);
    for path in folders.flat_map(|folder| files_in(&folder, is_unfinished)) {
        let _ = fs::remove_file(path);
    }
}

/// `.NAME.PID.part`: a file that has not got its name yet.
fn is_unfinished(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(".part")
}

/// What may lie in a folder that counts as empty.
fn is_leftover(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name == LOCK || is_unfinished(name))
}

/// The files in `folder`, none where it is not there, whose names are wanted.
pub(crate) fn files_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| wanted(&entry.file_name().to_string_lossy()));
    named.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}
