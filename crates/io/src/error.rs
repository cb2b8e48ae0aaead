//! What can be wrong with a file, in one line: which file, where in it, what was found, what was expected.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::limits::format_bytes;
use crate::storage::StorageError;

/// A file that could not be read or written.
#[derive(Debug, Error)]
#[error("{}: {fault}", path.display())]
pub struct IoError {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum Fault {
    /// The operating system refused.
    #[error("{}", system_message(.0))]
    System(io::Error),
    /// The disk would not take it.
    #[error(transparent)]
    Storage(StorageError),
    /// No byte in it.
    #[error("the file is empty, expected a snapshot")]
    Empty,
    /// The name does not say in which format to write.
    #[error("unknown extension {got}, expected .hdf5, .h5, .xyz, .extxyz or .npz")]
    UnknownExtension {
        /// The extension with its dot, or what stands for it.
        got: String,
    },
    /// A growing file that is no longer what a checkpoint saw.
    #[error("it was {0} since the checkpoint; put it back, or let resume --force begin it anew")]
    Changed(&'static str),
    /// A checkpoint of a layout that only a later version knows.
    #[error(
        "it has layout version {version}, this program knows 1 to {known}; expected a newer orrery to read it"
    )]
    Newer {
        /// The file's.
        version: u32,
        /// Ours.
        known: u32,
    },
    /// A file that is read whole and is longer than memory may grow.
    #[error("it is {} long, the limit of memory is {}", format_bytes(*length), format_bytes(*limit))]
    TooLong {
        /// Its bytes.
        length: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A column of the wrong length.
    #[error("{place} has {got} entries, expected {expected}")]
    Length {
        /// Which dataset, block or array.
        place: String,
        /// Entries found.
        got: u64,
        /// Entries that the header promises.
        expected: u64,
    },
    /// More bodies than the memory limit has room for.
    #[error("{bodies} bodies need {} of memory, the limit is {}", format_bytes(*needed), format_bytes(*limit))]
    Memory {
        /// Bodies in the file.
        bodies: u64,
        /// Bytes that reading them takes.
        needed: u64,
        /// Bytes that it may take.
        limit: u64,
    },
    /// Anything else that is not as the format has it.
    #[error("{place}: got {got}, expected {expected}")]
    Malformed {
        /// Where: a dataset, a line, a byte.
        place: String,
        /// What was found.
        got: String,
        /// What the format asks for.
        expected: String,
    },
}

impl IoError {
    /// What the operating system said about `path`.
    pub fn from_system(path: &Path, error: io::Error) -> Self {
        Fault::System(error).at(path)
    }

    /// Whether a path that cannot be written to was given, rather than that the storage failed.
    pub fn is_bad_path(&self) -> bool {
        use io::ErrorKind as Kind;
        self.system_cause().is_some_and(|cause| {
            matches!(
                cause.kind(),
                Kind::NotFound
                    | Kind::AlreadyExists
                    | Kind::NotADirectory
                    | Kind::IsADirectory
                    | Kind::PermissionDenied
                    | Kind::ReadOnlyFilesystem
                    | Kind::InvalidFilename
            )
        })
    }

    /// What the operating system refused, where it was the system.
    pub fn system_cause(&self) -> Option<&io::Error> {
        match &self.fault {
            Fault::System(cause) => Some(cause),
            Fault::Storage(error) => Some(&error.cause),
            _ => None,
        }
    }
}

impl Fault {
    /// Names the file.
    pub(crate) fn at(self, path: &Path) -> IoError {
        IoError { path: path.to_owned(), fault: self }
    }

    /// Shorthand for [`Fault::Malformed`].
    pub fn malformed(place: impl Into<String>, got: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Malformed { place: place.into(), got: got.into(), expected: expected.into() }
    }

    /// `Ok` when a column is as long as it should be.
    pub(crate) fn check_length(place: impl Into<String>, got: u64, expected: u64) -> Result<(), Self> {
        if got == expected {
            return Ok(());
        }
        Err(Self::Length { place: place.into(), got, expected })
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

pub(crate) fn system_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::UnexpectedEof => "the file ends too early: it is truncated".to_owned(),
        _ => error.to_string(),
    }
}
