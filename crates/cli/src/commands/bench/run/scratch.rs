//! The folder in which `bench run` runs, and the free space of its disk.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orrery_formats::IoError;

use crate::failure::Failure;

/// Folder in the current directory that is removed at the end, also after an error.
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Creates an empty folder. The process id keeps a user's folder from being used.
    pub fn create() -> Result<Self, Failure> {
        let path = PathBuf::from(format!("bench-run-{}.tmp", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(e) => Err(Failure::Output(IoError::from_system(&path, e))),
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the bytes that can be written to its disk. `None` if the system does not report
    /// them.
    pub fn free_bytes(&self) -> Option<u64> {
        free_bytes(&self.0)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // The results do not depend on it. The folder has its purpose in its name.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes a folder of the scratch folder with its content, if it exists.
pub fn remove_folder(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(Failure::Output(IoError::from_system(path, e))),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    // Blocks that a user without privileges may write.
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_path: &Path) -> Option<u64> {
    None
}
