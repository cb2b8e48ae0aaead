//! Durable writing of files, and the errors it can cause.
//!
//! There are two kinds of files: files written atomically ([`write_file_atomically`]), and files
//! that grow at the end ([`AppendFile`]). Both survive a loss of power: data and file name are on
//! the disk when a call has returned without an error. An error contains the path, the number of
//! bytes written, and the error of the operating system, also if a library wrote the data.

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
use crate::manifest::{self, ListedFile};
use crate::regular::open_input;
use crate::text::byte_count;

/// Operation on a file that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStage {
    /// Creation of the file.
    Create,
    /// Writing of data.
    Write,
    /// Syncing of data to disk.
    Sync,
    /// Renaming to the final name.
    Rename,
    /// Truncation to a length.
    Truncate,
}

impl fmt::Display for WriteStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "created",
            Self::Write => "written",
            Self::Sync => "synced to disk",
            Self::Rename => "renamed",
            Self::Truncate => "truncated",
        })
    }
}

/// Failed write to a file.
#[derive(Debug, Error)]
#[error("could not be {stage}{}: {}", written_bytes(*stage, *bytes), system_message(cause))]
pub struct StorageError {
    /// Operation that failed.
    pub stage: WriteStage,
    /// Number of bytes written before.
    pub bytes: u64,
    /// Error of the operating system.
    pub cause: io::Error,
}

/// Returns the number of written bytes for the message. It is omitted for a file that was not
/// created.
fn written_bytes(stage: WriteStage, bytes: u64) -> String {
    if stage == WriteStage::Create { String::new() } else { format!(" after {}", byte_count(bytes)) }
}

impl StorageError {
    /// Adds the path of the file.
    fn in_file(self, path: &Path) -> IoError {
        Fault::Storage(self).in_file(path)
    }
}

/// Creates a new file at `path` and removes an existing one. A link is replaced and not followed.
pub fn create_new_file(path: &Path) -> io::Result<fs::File> {
    let create = || fs::OpenOptions::new().read(true).write(true).create_new(true).open(path);
    match create() {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()
        }
        outcome => outcome,
    }
}

/// Checks that files can be created in `folder`, with a file of this `name` that is removed again.
/// An existing file or link of that name is removed and not followed.
pub fn check_writable(folder: &Path, name: &str) -> Result<(), IoError> {
    let probe = folder.join(name);
    create_new_file(&probe).map_err(|e| IoError::from_system(&probe, e))?;
    let _ = fs::remove_file(&probe);
    Ok(())
}

/// Writes a file with `fill`. It appears under its name only after it is complete and synced to
/// disk. In the folder of a run it gets its line in the manifest.
pub(crate) fn replace_file(
    path: &Path,
    fill: impl FnOnce(&mut PendingFile) -> Result<(), Fault>,
) -> Result<(), IoError> {
    replace_and_list(path, manifest::listed_file(path), fill)
}

/// As [`replace_file`], without a line in the manifest.
pub(crate) fn replace_unlisted_file(
    path: &Path,
    fill: impl FnOnce(&mut PendingFile) -> Result<(), Fault>,
) -> Result<(), IoError> {
    replace_and_list(path, None, fill)
}

fn replace_and_list(
    path: &Path,
    listed: Option<ListedFile>,
    fill: impl FnOnce(&mut PendingFile) -> Result<(), Fault>,
) -> Result<(), IoError> {
    let in_file = |fault: Fault| fault.in_file(path);
    let write = || {
        let mut file = PendingFile::create(path).map_err(Fault::Storage)?;
        if listed.is_some() {
            file.start_hash();
        }
        let filled = fill(&mut file);
        // Libraries may wrap, change or drop the error of the operating system, so the file stores
        // it.
        file.take_failure().map_or(Ok(()), |failure| Err(Fault::Storage(failure)))?;
        filled?;
        file.sync().map_err(Fault::Storage)?;
        Ok(file)
    };
    let mut file = write().map_err(in_file)?;
    if let Some(listed) = listed {
        let hash = file.hash().map_err(|cause| IoError::from_system(path, cause))?;
        listed.add_whole(file.length(), &hash)?;
    }
    file.rename().map_err(|failure| in_file(Fault::Storage(failure)))
}

/// Writes `bytes` to a file atomically: the complete file appears under its name, or none.
pub fn write_file_atomically(path: &Path, bytes: &[u8]) -> Result<(), IoError> {
    replace_file(path, |file| Ok(io::Write::write_all(file, bytes)?))
}

/// As [`write_file_atomically`], for a file that every checkpoint replaces. It has no line in the
/// manifest. Returns its state for the checkpoint.
pub fn write_unlisted_file(path: &Path, bytes: &[u8]) -> Result<Mark, IoError> {
    replace_unlisted_file(path, |file| Ok(io::Write::write_all(file, bytes)?))?;
    Ok(Mark { length: bytes.len() as u64, blake3: blake3::hash(bytes).to_hex().to_string() })
}

/// Copies a file atomically: the complete copy appears under its name, or none.
pub fn copy_file_atomically(from: &Path, to: &Path) -> Result<(), IoError> {
    let (mut source, _) = open_input(from).map_err(|fault| fault.in_file(from))?;
    replace_file(to, |file| {
        io::copy(&mut source, file)?;
        Ok(())
    })
}

/// Creates a folder and its missing parents, and syncs their names to disk.
pub fn make_folder(path: &Path) -> Result<(), IoError> {
    let is_missing = |folder: &&Path| *folder != Path::new("") && !folder.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(path).map_err(|e| IoError::from_system(path, e))?;
    // The folder is synced even if it exists: the process that created it may have been killed
    // before its own sync.
    for folder in std::iter::once(path).chain(missing.into_iter().skip(1)) {
        match sync_folder(folder) {
            // A folder that can be written but not read cannot be synced.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            outcome => outcome.map_err(|cause| sync_error(folder, cause))?,
        }
    }
    Ok(())
}

/// Removes files and syncs the removal to disk. Missing files are not an error.
pub fn remove_files(paths: &[PathBuf]) -> Result<(), IoError> {
    let mut changed = BTreeMap::new();
    for path in paths {
        match fs::remove_file(path) {
            Ok(()) => drop(changed.insert(path.parent(), path)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(IoError::from_system(path, e)),
        }
    }
    changed.into_values().try_for_each(|path| sync_folder(path).map_err(|cause| sync_error(path, cause)))
}

/// Error for a file name that may not be on the disk.
fn sync_error(path: &Path, cause: io::Error) -> IoError {
    StorageError { stage: WriteStage::Sync, bytes: 0, cause }.in_file(path)
}

/// Syncs the folder of a file, and so the name of the file, to disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    if cfg!(not(unix)) {
        // Other systems cannot open a folder as a file. They store names without a sync.
        return Ok(());
    }
    match fs::File::open(folder)?.sync_all() {
        // Some network file systems do not support this call and store names durably without it.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput || e.kind() == io::ErrorKind::Unsupported => Ok(()),
        outcome => outcome,
    }
}
