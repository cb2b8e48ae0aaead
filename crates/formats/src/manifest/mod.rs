//! The manifest of a run folder: length and hash of every finished file.
//!
//! `manifest.txt` is text that grows at its end:
//!
//! ```text
//! orrery manifest 1
//! HASH LENGTH NAME          a file that was written as a whole
//! HASH START+LENGTH NAME    a frame that was appended to a trajectory
//! ```
//!
//! HASH is BLAKE3 in hexadecimal. It is computed from the bytes on their way to the file, so no
//! file is read again. NAME is the path below the folder, with `/`. The hash of a frame of a GSD
//! file is that of its index entries and its data.
//!
//! Invariants:
//!
//! - The line of a file is appended before the file gets its name. After a kill, a file that is
//!   there has its line. A last line without its end is ignored.
//! - The last line of a name applies. A frame replaces all earlier frames from its start on.
//! - A file that is written again with the same bytes gets no second line. The lines of a resumed
//!   run are therefore those of a run that was not interrupted.
//! - A checkpoint contains the length and the hash of the manifest ([`Mark`]). A resumed run
//!   truncates it there, because it writes all later files again.
//!
//! Checkpoints have no lines, because they contain their hashes. Tables that grow, the animation
//! and tables that every checkpoint replaces have none either: a checkpoint contains their
//! [`Mark`]. The time of a checkpoint depends on the wall clock, and the lines must not.
//!
//! Every file that [`replace_file`](crate::storage) completes in a folder with an open manifest
//! gets its line there. The writers of the formats do not know the manifest.

mod content;
mod verify;

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use content::{FileRecord, ManifestContent, read_manifest};
pub use verify::FileProblem;

use crate::error::{Fault, IoError};
use crate::hashed::hash_file;
use crate::storage::{AppendFile, Mark};

/// Name of the manifest in the folder of a run.
pub const MANIFEST_FILE: &str = "manifest.txt";
/// First line.
const HEADER: &str = "orrery manifest 1\n";
/// Folder whose files have no lines.
const UNLISTED_FOLDER: &str = "checkpoints";

/// Manifests that are open in this process.
static OPEN: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());

/// The open manifest of a folder. It gets lines until it is dropped.
pub struct Manifest(Arc<Shared>);

struct Shared {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None` until [`Manifest::create_file`].
    file: Option<AppendFile>,
    /// Lines for the file that does not exist yet.
    waiting: String,
    /// Last line of each name.
    last: HashMap<String, String>,
}

/// A file of a folder with an open manifest.
pub(crate) struct ListedFile {
    shared: Arc<Shared>,
    name: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Manifest {
    /// Starts the manifest of a new run. Lines are kept until [`Manifest::create_file`]: the first
    /// file of a folder must be the one that marks it as the folder of a run.
    pub fn start(folder: &Path) -> Self {
        Self::open(folder, State { waiting: HEADER.to_owned(), ..State::default() })
    }

    /// Opens the manifest of a run at the state in a checkpoint and truncates it there. Fails if
    /// these bytes have changed.
    pub fn resume(folder: &Path, mark: &Mark) -> Result<Self, IoError> {
        let path = folder.join(MANIFEST_FILE);
        let mut file = AppendFile::reopen(&path, b"", mark)?;
        let content = file.read_content()?;
        let lines = String::from_utf8_lossy(&content);
        let lines = lines.lines().filter_map(|line| Some((content::name_of_line(line)?, line)));
        let last = lines.map(|(name, line)| (name.to_owned(), format!("{line}\n"))).collect();
        Ok(Self::open(folder, State { file: Some(file), last, ..State::default() }))
    }

    fn open(folder: &Path, state: State) -> Self {
        let shared = Arc::new(Shared { folder: folder.to_owned(), state: Mutex::new(state) });
        let mut open = lock(&OPEN);
        // An attempt that is repeated replaces its manifest.
        open.retain(|other| other.folder != folder);
        open.push(shared.clone());
        Self(shared)
    }

    /// Creates the file of a new manifest with the lines so far. Replaces an existing one.
    pub fn create_file(&self) -> Result<(), IoError> {
        let mut state = lock(&self.0.state);
        if state.file.is_none() {
            let path = self.0.folder.join(MANIFEST_FILE);
            state.file = Some(AppendFile::create(&path, b"", state.waiting.as_bytes())?);
            state.waiting.clear();
        }
        Ok(())
    }

    /// Syncs the manifest to disk and returns its state for a checkpoint.
    pub fn sync(&self) -> Result<Option<Mark>, IoError> {
        lock(&self.0.state).file.as_mut().map(AppendFile::sync).transpose()
    }

    /// Adds the line of a file that another program wrote. This reads the file.
    pub fn add_existing_file(&self, name: &str) -> Result<(), IoError> {
        let path = self.0.folder.join(name);
        let hash = hash_file(&path)?;
        let length = path.metadata().map_err(|error| IoError::from_system(&path, error))?.len();
        ListedFile { shared: self.0.clone(), name: name.to_owned() }.add_line(&hash, &length.to_string())
    }
}

impl Drop for Manifest {
    fn drop(&mut self) {
        lock(&OPEN).retain(|open| !Arc::ptr_eq(open, &self.0));
    }
}

/// Returns the file at `path` if it gets a line in an open manifest.
pub(crate) fn listed_file(path: &Path) -> Option<ListedFile> {
    let open = lock(&OPEN);
    let below = |shared: &&Arc<Shared>| path.strip_prefix(&shared.folder).is_ok();
    let shared = open.iter().filter(below).max_by_key(|shared| shared.folder.as_os_str().len())?;
    let mut parts = Vec::new();
    for part in path.strip_prefix(&shared.folder).ok()?.components() {
        let Component::Normal(part) = part else { return None };
        parts.push(part.to_str()?);
    }
    if parts.first() == Some(&UNLISTED_FOLDER) {
        return None;
    }
    let name = parts.join("/");
    content::is_safe_name(&name).then(|| ListedFile { shared: shared.clone(), name })
}

impl ListedFile {
    /// Adds the line of a whole file.
    pub fn add_whole(&self, length: u64, hash: &blake3::Hash) -> Result<(), IoError> {
        self.add_line(&hash.to_hex(), &length.to_string())
    }

    /// Adds the line of a frame with its first byte and its length.
    pub fn add_frame(&self, start: u64, length: u64, hash: &blake3::Hash) -> Result<(), IoError> {
        self.add_line(&hash.to_hex(), &format!("{start}+{length}"))
    }

    fn add_line(&self, hash: &str, extent: &str) -> Result<(), IoError> {
        let line = format!("{hash} {extent} {}\n", self.name);
        let mut state = lock(&self.shared.state);
        if state.last.get(&self.name) == Some(&line) {
            return Ok(());
        }
        match &mut state.file {
            Some(file) => file.append(line.as_bytes())?,
            None => state.waiting.push_str(&line),
        }
        state.last.insert(self.name.clone(), line);
        Ok(())
    }
}

/// Adds the line of a frame at the end of the trajectory at `path`, if it has a manifest.
pub(crate) fn add_frame(path: &Path, start: u64, length: u64, hash: &blake3::Hasher) -> Result<(), IoError> {
    let file = listed_file(path);
    file.map_or(Ok(()), |file| file.add_frame(start, length, &hash.finalize()))
}

/// Error for a line that a run does not write.
fn malformed_line(path: &Path, number: usize) -> IoError {
    Fault::malformed(format!("line {number}"), "other text", "hash, length and name of a file").in_file(path)
}
