//! A trajectory that is open for a change at its end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::error::Fault;
use crate::regular::{has_other_names, open_input, open_unlinked};
use crate::storage::{StorageError, WriteStage, replace_unlisted_file};

/// File with at least one byte, open for reading and writing.
pub(super) struct TrajectoryFile {
    file: File,
    length: u64,
}

impl TrajectoryFile {
    /// Opens a file. Returns `None` if it does not exist or is empty. A link is not followed. A
    /// file with another name is copied first: that may be the name of a copy, or of a file outside
    /// of the folder.
    pub fn open(path: &Path) -> Result<Option<Self>, Fault> {
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => {
                if !found?.is_file() {
                    let got = "something that is not a file";
                    return Err(Fault::malformed("path", got, "a trajectory or nothing"));
                }
            }
        }
        let open = || open_unlinked(path, OpenOptions::new().read(true).write(true));
        let mut file = open()?;
        let length = file.metadata()?.len();
        if length > 0 && has_other_names(&file)? {
            let copied = replace_unlisted_file(path, |copy| Ok(io::copy(&mut file, copy).map(drop)?));
            copied.map_err(|error| error.fault)?;
            file = open()?;
        }
        Ok((length > 0).then_some(Self { file, length }))
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` with the bytes from `offset` on.
    pub fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), Fault> {
        self.file.seek(SeekFrom::Start(offset))?;
        Ok(self.file.read_exact(buffer)?)
    }

    /// Returns a reader of the bytes from `offset` on.
    pub fn reader_at(&mut self, offset: u64) -> Result<io::BufReader<&File>, Fault> {
        self.file.seek(SeekFrom::Start(offset))?;
        Ok(io::BufReader::with_capacity(1 << 18, &self.file))
    }

    /// Overwrites bytes within the file.
    pub fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        let written = self.file.seek(SeekFrom::Start(offset)).and_then(|_| self.file.write_all(bytes));
        written.map_err(|cause| self.fault(WriteStage::Write, cause))
    }

    /// Writes at the end of the file, and adds these bytes to `hasher`. If this fails, the file is
    /// truncated to its length before.
    pub fn append(
        &mut self,
        hasher: &mut blake3::Hasher,
        write: impl FnOnce(&mut dyn Write) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let end = self.file.seek(SeekFrom::End(0))?;
        let mut sink = BufWriter::with_capacity(1 << 18, HashedSink { sink: &self.file, hasher });
        let written = write(&mut sink).and_then(|()| Ok(sink.flush()?));
        // Without this, dropping the buffer would write the rest of it.
        drop(sink.into_parts());
        match written {
            Ok(()) => {
                self.length = self.file.stream_position()?;
                Ok(())
            }
            Err(fault) => {
                let bytes = self.file.stream_position().unwrap_or(end);
                // If this fails too, the next call for this file truncates it.
                let _ = self.file.set_len(end);
                match fault {
                    Fault::System(cause) => {
                        Err(Fault::Storage(StorageError { stage: WriteStage::Write, bytes, cause }))
                    }
                    other => Err(other),
                }
            }
        }
    }

    /// Truncates the file.
    pub fn truncate(&mut self, length: u64) -> Result<(), Fault> {
        self.file.set_len(length).map_err(|cause| self.fault(WriteStage::Truncate, cause))?;
        self.length = length;
        Ok(())
    }

    /// Syncs the file to disk.
    pub fn sync(&mut self) -> Result<(), Fault> {
        self.file.sync_all().map_err(|cause| self.fault(WriteStage::Sync, cause))
    }

    /// Opens a file for reading only.
    pub fn open_read_only(path: &Path) -> Result<Self, Fault> {
        let (file, length) = open_input(path)?;
        Ok(Self { file, length })
    }

    /// Adds the bytes from `start` up to `end` to `hasher`.
    pub fn hash_range(&mut self, start: u64, end: u64, hasher: &mut blake3::Hasher) -> Result<(), Fault> {
        self.file.seek(SeekFrom::Start(start))?;
        io::copy(&mut (&self.file).take(end.saturating_sub(start)), hasher)?;
        Ok(())
    }

    fn fault(&self, stage: WriteStage, cause: io::Error) -> Fault {
        Fault::Storage(StorageError { stage, bytes: self.length, cause })
    }
}

/// Sink that hashes the bytes written to it.
pub(super) struct HashedSink<'a, W> {
    pub sink: W,
    pub hasher: &'a mut blake3::Hasher,
}

impl<W: Write> Write for HashedSink<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
