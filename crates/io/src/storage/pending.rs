//! A file that appears whole or not at all: written beside its place under a temporary name, brought to the
//! disk, renamed, and its name brought to the disk as well.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{StorageError, WriteStage, create_in_place, sync_folder};

/// The file on its way. Dropped before [`PendingFile::finish`], it leaves nothing behind.
pub(crate) struct PendingFile {
    path: PathBuf,
    writer: BufWriter<Attentive>,
    temporary: Temporary,
}

/// A name that does not outlive a failure; after the rename there is nothing left to remove.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A file that counts what it takes and remembers its first failure.
struct Attentive {
    file: File,
    position: u64,
    /// The furthest byte taken.
    end: u64,
    failure: Option<io::Error>,
}

impl PendingFile {
    pub fn create(path: &Path) -> Result<Self, StorageError> {
        let failed = |cause| StorageError { stage: WriteStage::Create, bytes: 0, cause };
        let name = path
            .file_name()
            .ok_or_else(|| failed(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file")))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(hidden);
        let file = create_in_place(&temporary).map_err(failed)?;
        let attentive = Attentive { file, position: 0, end: 0, failure: None };
        let writer = BufWriter::with_capacity(1 << 18, attentive);
        Ok(Self { path: path.to_owned(), writer, temporary: Temporary(temporary) })
    }

    /// What the system said when it first refused bytes.
    pub fn failure(&mut self) -> Option<StorageError> {
        let attentive = self.writer.get_mut();
        let cause = attentive.failure.take()?;
        Some(StorageError { stage: WriteStage::Write, bytes: attentive.end, cause })
    }

    pub fn finish(mut self) -> Result<(), StorageError> {
        let flushed = self.writer.flush();
        let attentive = self.writer.get_ref();
        let bytes = attentive.end;
        let failed = |stage| move |cause| StorageError { stage, bytes, cause };
        flushed.map_err(failed(WriteStage::Write))?;
        attentive.file.sync_all().map_err(failed(WriteStage::Sync))?;
        fs::rename(&self.temporary.0, &self.path).map_err(failed(WriteStage::Rename))?;
        sync_folder(&self.path).map_err(failed(WriteStage::Sync))
    }
}

impl Write for Attentive {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.file.write(bytes);
        match &outcome {
            Ok(taken) => {
                self.position += *taken as u64;
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

impl Seek for Attentive {
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
