//! Bytes on their way to the disk, and what can stop them.
//!
//! Two kinds of file: one that appears whole or not at all ([`write_file_atomically`]), and one that grows at its end
//! ([`AppendFile`]). Both survive the loss of power: what they have reported as done is on the disk, with its
//! name. A failure names the file, how many bytes had been taken, and the system's word, whatever library
//! stood between.

mod append;
mod pending;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use append::{AppendFile, Mark};
pub(crate) use pending::PendingFile;

use crate::error::{Fault, IoError, system_message};

/// What was being done to a file when the system refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStage {
    /// It was to be made.
    Create,
    /// Bytes were handed over.
    Write,
    /// They were to reach the disk.
    Sync,
    /// The file was to get its name.
    Rename,
    /// The file was to be cut to a length.
    Truncate,
}

impl fmt::Display for WriteStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "created",
            Self::Write => "written",
            Self::Sync => "brought to the disk",
            Self::Rename => "renamed",
            Self::Truncate => "truncated",
        })
    }
}

/// A file that the system would not take.
#[derive(Debug, Error)]
#[error("could not be {stage}{}: {}", after(*stage, *bytes), system_message(cause))]
pub struct StorageError {
    /// What was being done.
    pub stage: WriteStage,
    /// Bytes of the file that had been taken.
    pub bytes: u64,
    /// The system's word.
    pub cause: io::Error,
}

/// A file that is not there yet has no bytes to tell of.
fn after(stage: WriteStage, bytes: u64) -> String {
    if stage == WriteStage::Create { String::new() } else { format!(" after {bytes} bytes") }
}

impl StorageError {
    /// Names the file.
    fn at(self, path: &Path) -> IoError {
        Fault::Storage(self).at(path)
    }
}

/// A new file under `path`, in place of what is there; a link is replaced, not followed.
fn create_in_place(path: &Path) -> io::Result<fs::File> {
    let create = || fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
    match create() {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()
        }
        outcome => outcome,
    }
}

/// Fills a file that appears under its name only when it is complete and on the disk.
pub(crate) fn replace_file(
    path: &Path,
    fill: impl FnOnce(&mut PendingFile) -> Result<(), Fault>,
) -> Result<(), IoError> {
    let attempt = || {
        let mut file = PendingFile::create(path).map_err(Fault::Storage)?;
        let filled = fill(&mut file);
        // The libraries between wrap, reword or drop what the system said; the file has kept it.
        file.failure().map_or(Ok(()), |failure| Err(Fault::Storage(failure)))?;
        filled?;
        file.finish().map_err(Fault::Storage)
    };
    attempt().map_err(|fault: Fault| fault.at(path))
}

/// Writes a file of these bytes; it appears whole or not at all.
pub fn write_file_atomically(path: &Path, bytes: &[u8]) -> Result<(), IoError> {
    replace_file(path, |file| Ok(io::Write::write_all(file, bytes)?))
}

/// Makes a folder, and those above it that are missing; their names are on the disk then.
pub fn make_folder(path: &Path) -> Result<(), IoError> {
    let is_missing = |folder: &&Path| *folder != Path::new("") && !folder.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(path).map_err(|e| IoError::from_system(path, e))?;
    // One that is there may have been made by a process that was killed before it came to this.
    for folder in std::iter::once(path).chain(missing.into_iter().skip(1)) {
        match sync_folder(folder) {
            // One may be allowed to write into a folder and not to read it: then it cannot be synced.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            outcome => outcome.map_err(|cause| unsynced(folder, cause))?,
        }
    }
    Ok(())
}

/// Removes files, none of which need be there. They stay removed.
pub fn remove_files(paths: &[PathBuf]) -> Result<(), IoError> {
    let mut changed = BTreeMap::new();
    for path in paths {
        match fs::remove_file(path) {
            Ok(()) => drop(changed.insert(path.parent(), path)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(IoError::from_system(path, e)),
        }
    }
    changed.into_values().try_for_each(|path| sync_folder(path).map_err(|cause| unsynced(path, cause)))
}

/// A name that may not be on the disk.
fn unsynced(path: &Path, cause: io::Error) -> IoError {
    StorageError { stage: WriteStage::Sync, bytes: 0, cause }.at(path)
}

/// Brings the names in a file's folder to the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if cfg!(not(unix)) {
        // Elsewhere a folder cannot be opened as a file; its names are the system's business.
        return Ok(());
    }
    match fs::File::open(folder)?.sync_all() {
        // Some network file systems keep names safe by themselves and know no such call.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput || e.kind() == io::ErrorKind::Unsupported => Ok(()),
        outcome => outcome,
    }
}
