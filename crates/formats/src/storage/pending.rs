//! A file that is written atomically: under a temporary name in the same folder, synced to disk,
//! renamed, and its name synced to disk. The bytes can be hashed on their way to the file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{StorageError, WriteStage, create_new_file, sync_folder};

/// File that is being written. If it is dropped before [`PendingFile::rename`], the temporary file
/// is removed.
pub(crate) struct PendingFile {
    path: PathBuf,
    writer: BufWriter<CountingFile>,
    temporary: TemporaryPath,
}

/// Temporary file that is removed on drop. After the rename there is nothing to remove.
struct TemporaryPath(PathBuf);

impl Drop for TemporaryPath {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// File that counts the bytes written and stores the first error.
struct CountingFile {
    file: File,
    position: u64,
    /// Largest position written so far.
    end: u64,
    failure: Option<io::Error>,
    hash: HashState,
}

/// Hash of the bytes written so far.
enum HashState {
    /// Not needed.
    Unused,
    /// That of all bytes.
    Complete(Box<blake3::Hasher>),
    /// Hashed bytes were overwritten, so the file must be read.
    Overwritten,
}

impl PendingFile {
    /// Creates the temporary file for `path`.
    pub fn create(path: &Path) -> Result<Self, StorageError> {
        let failed = |cause| StorageError { stage: WriteStage::Create, bytes: 0, cause };
        let name = path
            .file_name()
            .ok_or_else(|| failed(io::Error::new(io::ErrorKind::InvalidInput, "not a file name")))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(hidden);
        let file = create_new_file(&temporary).map_err(failed)?;
        let counting = CountingFile { file, position: 0, end: 0, failure: None, hash: HashState::Unused };
        let writer = BufWriter::with_capacity(1 << 18, counting);
        Ok(Self { path: path.to_owned(), writer, temporary: TemporaryPath(temporary) })
    }

    /// Returns the first error of the operating system in writing, if any.
    pub fn take_failure(&mut self) -> Option<StorageError> {
        let counting = self.writer.get_mut();
        let cause = counting.failure.take()?;
        Some(StorageError { stage: WriteStage::Write, bytes: counting.end, cause })
    }

    /// Hashes all bytes from now on. Called before the first one.
    pub fn start_hash(&mut self) {
        self.writer.get_mut().hash = HashState::Complete(Box::default());
    }

    /// Returns the length after [`PendingFile::sync`].
    pub fn length(&self) -> u64 {
        self.writer.get_ref().end
    }

    /// Returns the hash of the file after [`PendingFile::sync`].
    ///
    /// The writer of NPZ archives goes back to the headers of its members. Only such a file is read
    /// again, mostly from memory, because it was just written.
    pub fn hash(&mut self) -> io::Result<blake3::Hash> {
        let counting = self.writer.get_mut();
        if let HashState::Complete(hasher) = &counting.hash {
            return Ok(hasher.finalize());
        }
        let mut hasher = blake3::Hasher::new();
        counting.file.seek(SeekFrom::Start(0))?;
        let read = io::copy(&mut (&counting.file).take(counting.end), &mut hasher)?;
        if read == counting.end { Ok(hasher.finalize()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Writes all buffered bytes and syncs the file to disk.
    pub fn sync(&mut self) -> Result<(), StorageError> {
        let flushed = self.writer.flush();
        let counting = self.writer.get_ref();
        let failed = |stage| move |cause| StorageError { stage, bytes: counting.end, cause };
        flushed.map_err(failed(WriteStage::Write))?;
        counting.file.sync_all().map_err(failed(WriteStage::Sync))
    }

    /// Gives the synced file its final name.
    pub fn rename(self) -> Result<(), StorageError> {
        let bytes = self.length();
        let failed = |stage| move |cause| StorageError { stage, bytes, cause };
        fs::rename(&self.temporary.0, &self.path).map_err(failed(WriteStage::Rename))?;
        sync_folder(&self.path).map_err(failed(WriteStage::Sync))
    }
}

impl HashState {
    /// Adds bytes that were written at `position`. `end` is the length of the file before.
    fn add(&mut self, bytes: &[u8], position: u64, end: u64) {
        match self {
            Self::Complete(_) if position != end => *self = Self::Overwritten,
            Self::Complete(hasher) => drop(hasher.update(bytes)),
            Self::Unused | Self::Overwritten => {}
        }
    }
}

impl Write for CountingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.file.write(bytes);
        match &outcome {
            Ok(written) => {
                self.hash.add(&bytes[..*written], self.position, self.end);
                self.position += *written as u64;
                self.end = self.end.max(self.position);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => {
                let copy = e.raw_os_error().map_or_else(|| e.kind().into(), io::Error::from_raw_os_error);
                self.failure.get_or_insert(copy);
            }
        }
        outcome
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for CountingFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = self.file.seek(to)?;
        Ok(self.position)
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Seek for PendingFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.writer.seek(to)
    }
}
