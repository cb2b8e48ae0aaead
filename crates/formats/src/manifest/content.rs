//! Reader of a manifest.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::{HEADER, MANIFEST_FILE, malformed_line};
use crate::error::{Fault, IoError};
use crate::limits::Limits;
use crate::regular::open_input;
use crate::storage::Mark;

/// Length of a hash in hexadecimal.
const HASH_DIGITS: usize = 64;

/// Bytes of a file and their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub start: u64,
    pub length: u64,
    /// BLAKE3 in hexadecimal.
    pub hash: String,
}

/// Length and hash of a file, or of each frame of a trajectory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    pub(super) parts: Vec<Part>,
    pub(super) is_trajectory: bool,
}

impl FileRecord {
    /// Returns the number of bytes with a hash.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.length).sum()
    }

    /// Returns the length of the file.
    pub(super) fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.start + part.length)
    }

    fn add(&mut self, line: Line<'_>) {
        let Line { start, length, hash, .. } = line;
        self.is_trajectory = start.is_some();
        let start = start.unwrap_or(0);
        self.parts.retain(|part| part.start < start);
        self.parts.push(Part { start, length, hash: hash.to_owned() });
    }
}

/// The files of a manifest.
#[derive(Clone, Debug, Default)]
pub struct ManifestContent {
    /// Files according to the lines that the checkpoint covers.
    pub covered: BTreeMap<String, FileRecord>,
    /// Files with lines after the checkpoint, in the order of these lines. A file may have several.
    pub later: Vec<(String, FileRecord)>,
}

impl ManifestContent {
    /// Adds the files that are only listed after the checkpoint, such as the plots at the end of a
    /// run.
    pub fn cover_later_files(&mut self) {
        let Self { covered, later } = self;
        let (known, new) =
            std::mem::take(later).into_iter().partition(|(name, _)| covered.contains_key(name));
        *later = known;
        let new: Vec<(String, FileRecord)> = new;
        // The last line of a name applies.
        covered.extend(new);
    }
}

/// A line of a manifest.
struct Line<'a> {
    name: &'a str,
    /// First byte of a frame. `None` for a whole file.
    start: Option<u64>,
    length: u64,
    hash: &'a str,
}

/// Returns true for a name that cannot lead out of the folder of a run and has no control
/// characters.
pub(super) fn is_safe_name(name: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    name.split('/').all(is_plain) && !name.contains(|c: char| c.is_control() || c == '\\' || c == ':')
}

fn parse_line(line: &str) -> Option<Line<'_>> {
    let (hash, rest) = line.split_once(' ')?;
    let (extent, name) = rest.split_once(' ')?;
    let is_hash = hash.len() == HASH_DIGITS && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let (start, length) = match extent.split_once('+') {
        Some((start, length)) => (Some(start.parse().ok()?), length.parse().ok()?),
        None => (None, extent.parse().ok()?),
    };
    start.unwrap_or(0u64).checked_add(length)?;
    (is_hash && is_safe_name(name)).then_some(Line { name, start, length, hash })
}

/// Returns the name in a line.
pub(super) fn name_of_line(line: &str) -> Option<&str> {
    parse_line(line).map(|line| line.name)
}

/// Reads the manifest of the run in `folder`. `mark` is the state in its checkpoint. The bytes
/// before it must not have changed. Of the lines after it, those up to the first malformed one are
/// read.
pub fn read_manifest(folder: &Path, mark: &Mark, limits: &Limits) -> Result<ManifestContent, IoError> {
    let path = folder.join(MANIFEST_FILE);
    let in_file = |fault: Fault| fault.in_file(&path);
    mark.check_file(&path)?;
    let (file, _) = open_input(&path).map_err(in_file)?;
    let mut text = String::new();
    let read = file.take(limits.memory).read_to_string(&mut text);
    let length = read.map_err(|error| IoError::from_system(&path, error))? as u64;
    if length < mark.length {
        return Err(in_file(Fault::TooLong { length: mark.length, limit: limits.memory }));
    }
    let (covered, later) = text.split_at_checked(mark.length as usize).unwrap_or_default();
    let covered = covered
        .strip_prefix(HEADER)
        .ok_or_else(|| in_file(Fault::malformed("line 1", "other text", HEADER.trim_end())))?;
    let mut content = ManifestContent::default();
    for (index, line) in covered.lines().enumerate() {
        let line = parse_line(line).ok_or_else(|| malformed_line(&path, index + 2))?;
        let empty = FileRecord { parts: Vec::new(), is_trajectory: false };
        content.covered.entry(line.name.to_owned()).or_insert(empty).add(line);
    }
    // A process that was killed leaves a line without its end.
    let complete = later.rfind('\n').map_or("", |end| &later[..end]);
    for line in complete.lines().map_while(parse_line) {
        let name = line.name.to_owned();
        let mut record = FileRecord { parts: Vec::new(), is_trajectory: false };
        record.add(line);
        content.later.push((name, record));
    }
    Ok(content)
}
