//! A file that is written atomically: under a temporary name in the same folder, synced to disk,
//! renamed, and its name synced to disk.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{StorageError, WriteStage, create_new_file, sync_folder};

/// File that is being written. If it is dropped before [`PendingFile::finish`], the temporary file
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
        let counting = CountingFile { file, position: 0, end: 0, failure: None };
        let writer = BufWriter::with_capacity(1 << 18, counting);
        Ok(Self { path: path.to_owned(), writer, temporary: TemporaryPath(temporary) })
    }

    /// Returns the first error of the operating system in writing, if any.
    pub fn take_failure(&mut self) -> Option<StorageError> {
        let counting = self.writer.get_mut();
        let cause = counting.failure.take()?;
        Some(StorageError { stage: WriteStage::Write, bytes: counting.end, cause })
    }

    /// Syncs the file to disk and gives it its final name.
    pub fn finish(mut self) -> Result<(), StorageError> {
        let flushed = self.writer.flush();
        let counting = self.writer.get_ref();
        let bytes = counting.end;
        let failed = |stage| move |cause| StorageError { stage, bytes, cause };
        flushed.map_err(failed(WriteStage::Write))?;
        counting.file.sync_all().map_err(failed(WriteStage::Sync))?;
        fs::rename(&self.temporary.0, &self.path).map_err(failed(WriteStage::Rename))?;
        sync_folder(&self.path).map_err(failed(WriteStage::Sync))
    }
}

impl Write for CountingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.file.write(bytes);
        match &outcome {
            Ok(written) => {
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
