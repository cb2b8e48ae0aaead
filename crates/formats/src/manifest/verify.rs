//! Comparison of a file with its record.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use super::content::{FileRecord, Part};
use crate::error::Fault;
use crate::fluid;
use crate::hashed::hash_file_unless;
use crate::regular::open_input;
use crate::text::byte_count;

/// Difference between a file and its record.
#[derive(Debug)]
pub enum FileProblem {
    /// The file does not exist.
    Missing,
    /// There is something else with its name, for example a folder or a link.
    NotAFile,
    /// The file has no bytes.
    Empty {
        /// Recorded length.
        expected: u64,
    },
    /// The file is shorter than recorded.
    Truncated {
        /// Length of the file.
        length: u64,
        /// Recorded length.
        expected: u64,
    },
    /// The file is longer than recorded.
    Longer {
        /// Length of the file.
        length: u64,
        /// Recorded length.
        expected: u64,
    },
    /// The file has the recorded length and another hash.
    Changed {
        /// Number of the first changed frame, for a trajectory.
        frame: Option<usize>,
    },
    /// The file cannot be read, or not in its format.
    Unreadable(Fault),
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::NotAFile => f.write_str("replaced by something that is not a file"),
            Self::Empty { expected } => write!(f, "empty, expected {}", byte_count(*expected)),
            Self::Truncated { length, expected } => {
                write!(f, "truncated to {}, expected {expected}", byte_count(*length))
            }
            Self::Longer { length, expected } => {
                write!(f, "longer: {}, expected {expected}", byte_count(*length))
            }
            Self::Changed { frame: None } => f.write_str("changed: its hash is not the recorded one"),
            Self::Changed { frame: Some(frame) } => {
                write!(f, "changed: the hash of frame {frame} is not the recorded one")
            }
            Self::Unreadable(fault) => write!(f, "unreadable: {fault}"),
        }
    }
}

impl FileRecord {
    /// Compares the length of the file at `path`. A trajectory that `may_grow` may have more
    /// frames.
    pub fn compare_length(&self, path: &Path, may_grow: bool) -> Result<(), FileProblem> {
        let found = match fs::symlink_metadata(path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(FileProblem::Missing);
            }
            Err(error) => return Err(FileProblem::Unreadable(Fault::System(error))),
            Ok(found) if !found.is_file() => return Err(FileProblem::NotAFile),
            Ok(found) => found,
        };
        let (length, expected) = (found.len(), self.end());
        match length {
            0 if expected > 0 => Err(FileProblem::Empty { expected }),
            _ if length < expected => Err(FileProblem::Truncated { length, expected }),
            _ if length > expected && !(self.is_trajectory && may_grow) => {
                Err(FileProblem::Longer { length, expected })
            }
            _ => Ok(()),
        }
    }

    /// Compares the content of the file at `path`, which has the recorded length. This reads the
    /// file. Returns false if `is_stopped` returned true before all of it was read.
    pub fn compare_content(&self, path: &Path, is_stopped: &dyn Fn() -> bool) -> Result<bool, FileProblem> {
        let changed = |frame| Err(FileProblem::Changed { frame });
        match self.parts.as_slice() {
            [whole] if !self.is_trajectory => {
                match hash_file_unless(path, is_stopped).map_err(FileProblem::Unreadable)? {
                    None => Ok(false),
                    Some(hash) if hash == whole.hash => Ok(true),
                    Some(_) => changed(None),
                }
            }
            parts => {
                let found = hash_frames(path, parts, is_stopped).map_err(FileProblem::Unreadable)?;
                let Some(found) = found else { return Ok(false) };
                match first_changed_frame(parts, &found) {
                    None => Ok(true),
                    frame => changed(frame),
                }
            }
        }
    }
}

/// First byte, length and hash of a frame.
type HashedFrame = (u64, u64, blake3::Hash);

/// Hashes the frames of a trajectory. Returns `None` as soon as `is_stopped` returns true.
fn hash_frames(
    path: &Path,
    parts: &[Part],
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<Vec<HashedFrame>>, Fault> {
    match fluid::is_gsd(path)? {
        true => fluid::hash_gsd_frames(path, parts.len(), is_stopped),
        false => hash_ranges(path, parts, is_stopped),
    }
}

fn first_changed_frame(parts: &[Part], found: &[HashedFrame]) -> Option<usize> {
    let is_same = |(part, (start, length, hash)): (&Part, &HashedFrame)| {
        (part.start, part.length) == (*start, *length) && hash.to_hex().as_str() == part.hash
    };
    let same = parts.iter().zip(found).take_while(|pair| is_same(*pair)).count();
    (same < parts.len()).then_some(same)
}

/// Returns start, length and hash of the bytes of each part.
fn hash_ranges(
    path: &Path,
    parts: &[Part],
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<Vec<HashedFrame>>, Fault> {
    let (mut file, _) = open_input(path)?;
    let hash = |part: &Part| {
        if is_stopped() {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(part.start))?;
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut (&mut file).take(part.length), &mut hasher)?;
        Ok(Some((part.start, part.length, hasher.finalize())))
    };
    parts.iter().map(hash).collect()
}
