//! A file that appears whole or not at all: written beside its place under a temporary name, renamed at the end.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::PictureError;

/// The file on its way. Dropped before [`PendingFile::finish`], it leaves nothing behind.
pub(crate) struct PendingFile {
    path: PathBuf,
    temporary: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl PendingFile {
    pub fn create(path: &Path) -> Result<Self, PictureError> {
        let name = path.file_name().ok_or_else(|| {
            PictureError::io(path)(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))
        })?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(hidden);
        let file = File::create(&temporary).map_err(PictureError::io(path))?;
        Ok(Self { path: path.to_owned(), temporary, writer: Some(BufWriter::new(file)) })
    }

    pub fn finish(mut self) -> Result<(), PictureError> {
        let writer = self.writer.take().expect("only finish takes the writer, and it consumes the file");
        let done = writer.into_inner().map_err(io::IntoInnerError::into_error);
        done.and_then(|_| fs::rename(&self.temporary, &self.path)).map_err(|source| {
            // The rename did not happen, so the unfinished file is still there; nothing better can be done
            // if removing it fails as well.
            let _ = fs::remove_file(&self.temporary);
            PictureError::io(&self.path)(source)
        })
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().map_or(Ok(0), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
