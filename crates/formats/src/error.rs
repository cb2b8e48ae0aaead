//! Errors in files. Each message is one line: which file, where in it, what was found, what was
//! expected.

use std::io;
use std::path::{Path, PathBuf};

use orrery_model::format_count;
use orrery_model::simulation_box::BoxError;
use thiserror::Error;

use crate::limits::format_bytes;
use crate::storage::StorageError;

/// Error in reading or writing a file.
#[derive(Debug, Error)]
#[error("{}: {fault}", path.display())]
pub struct IoError {
    /// Path of the file.
    pub path: PathBuf,
    /// Cause of the error.
    pub fault: Fault,
}

/// Cause of an error in a file.
#[derive(Debug, Error)]
pub enum Fault {
    /// The operating system reported an error.
    #[error("{}", system_message(.0))]
    System(io::Error),
    /// Writing to the disk failed.
    #[error(transparent)]
    Storage(StorageError),
    /// The file has no bytes.
    #[error("the file is empty, expected a snapshot")]
    Empty,
    /// The extension is not that of a format.
    #[error("unknown extension {got}, expected .hdf5, .h5, .xyz, .extxyz or .npz")]
    UnknownExtension {
        /// Extension with its dot, or `(none)`.
        got: String,
    },
    /// The content of a growing file differs from that at the time of the checkpoint.
    #[error("it was {0} since the checkpoint; restore it, or use resume --force to start it from scratch")]
    Changed(&'static str),
    /// The checkpoint has a layout of a later version.
    #[error("layout version: got {version}, expected 1 to {known}; a newer version of orrery can read it")]
    Newer {
        /// Version of the file.
        version: u32,
        /// Latest version that this program can read.
        known: u32,
    },
    /// The snapshot is cosmological, so its numbers are not physical coordinates.
    #[error(
        "the header is that of a cosmological snapshot ({fields}), expected physical coordinates in open space; \
         orrery convert --cosmological physical FILE NEW.hdf5, or bodies.cosmological = \"physical\" in a case, \
         converts them, and unchanged keeps the numbers"
    )]
    Cosmological {
        /// Header fields with their values.
        fields: String,
    },
    /// The file must fit into memory and is longer than the limit.
    #[error("the file is {} long, the memory limit is {}", format_bytes(*length), format_bytes(*limit))]
    TooLong {
        /// Length in bytes.
        length: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The file should be small and is not.
    #[error("the file is larger than {}, expected a small text file", format_bytes(*limit))]
    TooLarge {
        /// Largest length in bytes.
        limit: u64,
    },
    /// A column has the wrong length.
    #[error("{location} has {}, expected {expected}", format_count(*got, "entry", "entries"))]
    Length {
        /// Name of the dataset, block or array.
        location: String,
        /// Number of entries found.
        got: u64,
        /// Number of entries according to the header.
        expected: u64,
    },
    /// The bodies need more memory than the limit.
    #[error(
        "{} {} of memory, the limit is {}",
        format_count(*bodies, "body needs", "bodies need"),
        format_bytes(*needed),
        format_bytes(*limit)
    )]
    Memory {
        /// Number of bodies in the file.
        bodies: u64,
        /// Bytes needed to read them.
        needed: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The values of a field need more memory than the limit.
    #[error(
        "{} {} of memory, the limit is {}",
        format_count(*values, "value needs", "values need"),
        format_bytes(*needed),
        format_bytes(*limit)
    )]
    ValuesMemory {
        /// Number of values in the file.
        values: u64,
        /// Bytes needed to read them.
        needed: u64,
        /// Limit in bytes.
        limit: u64,
    },
    /// The box of a fluid cannot be used.
    #[error(transparent)]
    Box(BoxError),
    /// Any other violation of the format.
    #[error("{location}: got {got}, expected {expected}")]
    Malformed {
        /// Location in the file, for example a dataset, a line or a byte.
        location: String,
        /// Value found.
        got: String,
        /// Value that the format requires.
        expected: String,
    },
}

impl IoError {
    /// Creates the error for an error of the operating system at `path`.
    pub fn from_system(path: &Path, error: io::Error) -> Self {
        Fault::System(error).in_file(path)
    }

    /// Whether the given path is the cause, and not a failure of the storage.
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

    /// Error of the operating system, if that is the cause.
    pub fn system_cause(&self) -> Option<&io::Error> {
        match &self.fault {
            Fault::System(cause) => Some(cause),
            Fault::Storage(error) => Some(&error.cause),
            _ => None,
        }
    }
}

impl Fault {
    /// Adds the path of the file.
    pub(crate) fn in_file(self, path: &Path) -> IoError {
        IoError { path: path.to_owned(), fault: self }
    }

    /// Creates a [`Fault::Malformed`].
    pub fn malformed(
        location: impl Into<String>,
        got: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Malformed { location: location.into(), got: got.into(), expected: expected.into() }
    }

    /// Checks that a column has the expected length.
    pub(crate) fn check_length(location: impl Into<String>, got: u64, expected: u64) -> Result<(), Self> {
        if got == expected {
            return Ok(());
        }
        Err(Self::Length { location: location.into(), got, expected })
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
        // Only a new folder can find its name in use.
        io::ErrorKind::AlreadyExists => "it is not a directory, expected a directory or nothing".to_owned(),
        io::ErrorKind::UnexpectedEof => "the file ends too early: it is truncated".to_owned(),
        _ => error.to_string(),
    }
}
