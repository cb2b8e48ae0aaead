//! A file that appears whole or not at all: written beside its place under a temporary name, brought to the
//! disk, and renamed at the end.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The file on its way. Dropped before [`PendingFile::finish`], it leaves nothing behind.
pub(crate) struct PendingFile {
    path: PathBuf,
    writer: BufWriter<File>,
    temporary: Temporary,
}

/// A name that does not outlive a failure; after the rename there is nothing left to remove.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl PendingFile {
    pub fn create(path: &Path) -> io::Result<Self> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(hidden);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&temporary)?;
        let writer = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { path: path.to_owned(), writer, temporary: Temporary(temporary) })
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.writer.flush()?;
        self.writer.get_ref().sync_all()?;
        fs::rename(&self.temporary.0, &self.path)
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
