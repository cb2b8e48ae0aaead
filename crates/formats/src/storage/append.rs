//! A file that grows at the end and can be continued from the state stored in a checkpoint.
//!
//! Invariants: the first `length` bytes are the appended ones, and `hasher` contains their BLAKE3
//! hash. The trailer of the format, if it has one, follows them, so the file is valid after every
//! append. A failed append leaves the file unchanged and may be repeated.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{PendingFile, StorageError, WriteStage, create_new_file, sync_folder};
use crate::error::{Fault, IoError};
use crate::regular::{has_other_names, open_unlinked};
use crate::text::byte_count;

/// State of a growing file: its length without the trailer, and the hash of these bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Length in bytes, without the trailer.
    pub length: u64,
    /// BLAKE3 hash of these bytes, in hexadecimal.
    pub blake3: String,
}

impl Mark {
    /// Returns an error if the file at `path` does not start with the bytes of this state. Writes
    /// nothing.
    pub fn check_file(&self, path: &Path) -> Result<(), IoError> {
        self.open_file(path, OpenOptions::new().read(true)).map(drop).map_err(|fault| fault.in_file(path))
    }

    /// Opens the file and checks its first bytes. Also returns their hash.
    fn open_file(&self, path: &Path, options: &OpenOptions) -> Result<(File, blake3::Hasher), Fault> {
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(Fault::Changed("removed")),
            found => {
                if !found?.is_file() {
                    return Err(Fault::Changed("replaced by something that is not a file"));
                }
            }
        }
        let mut file = open_unlinked(path, options)?;
        if file.metadata()?.len() < self.length {
            return Err(Fault::Changed("shortened"));
        }
        let hasher = hash_prefix(&mut file, self.length)?;
        if hasher.finalize().to_hex().as_str() != self.blake3 {
            return Err(Fault::Changed("changed"));
        }
        Ok((file, hasher))
    }
}

/// File that is open for appending.
pub struct AppendFile {
    path: PathBuf,
    file: File,
    length: u64,
    hasher: blake3::Hasher,
    trailer: &'static [u8],
    /// A sync failed, so the disk may not have all written bytes.
    sync_failed: bool,
}

impl AppendFile {
    /// Starts a new file with `bytes` and syncs its name to disk. An existing file is replaced.
    pub fn create(path: &Path, trailer: &'static [u8], bytes: &[u8]) -> Result<Self, IoError> {
        // An existing file is not truncated: if it is a link, that would change another file.
        let created = create_new_file(path);
        let file = created
            .map_err(|cause| StorageError { stage: WriteStage::Create, bytes: 0, cause }.in_file(path))?;
        let hasher = blake3::Hasher::new();
        let mut started =
            Self { path: path.to_owned(), file, length: 0, hasher, trailer, sync_failed: false };
        started.append(bytes)?;
        sync_folder(path).map_err(|cause| started.error_in(WriteStage::Sync, cause))?;
        Ok(started)
    }

    /// Opens a file to continue at `mark` and truncates it there. Fails if the bytes before `mark`
    /// have changed.
    pub fn reopen(path: &Path, trailer: &'static [u8], mark: &Mark) -> Result<Self, IoError> {
        let opened = mark.open_file(path, OpenOptions::new().read(true).write(true));
        let (file, hasher) = opened.map_err(|fault| fault.in_file(path))?;
        let (path, length) = (path.to_owned(), mark.length);
        let mut reopened = Self { path, file, length, hasher, trailer, sync_failed: false };
        if has_other_names(&reopened.file).map_err(|e| IoError::from_system(&reopened.path, e))? {
            // The other name may be that of a copy, or of a file outside of the folder.
            reopened.rewrite_file()?;
        }
        reopened.restore_end().map_err(|cause| reopened.error_in(WriteStage::Truncate, cause))?;
        Ok(reopened)
    }

    /// Appends `bytes`.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        let whole = [bytes, self.trailer].concat();
        let mut written = 0;
        let outcome = self.file.seek(SeekFrom::Start(self.length)).and_then(|_| {
            while written < whole.len() {
                match self.file.write(&whole[written..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => written += count,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        });
        if let Err(cause) = outcome {
            // Remove the part that was written. If this fails too, resume truncates it.
            let _ = self.restore_end();
            return Err(self.error_in(WriteStage::Write, cause));
        }
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Syncs the file to disk and returns its state.
    pub fn sync(&mut self) -> Result<Mark, IoError> {
        if self.sync_failed {
            self.rewrite_file()?;
        }
        if let Err(cause) = self.file.sync_all() {
            self.sync_failed = true;
            return Err(self.error_in(WriteStage::Sync, cause));
        }
        Ok(Mark { length: self.length, blake3: self.hasher.finalize().to_hex().to_string() })
    }

    /// Reads the bytes so far, without the trailer.
    pub fn read_content(&mut self) -> Result<Vec<u8>, IoError> {
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(0)).and_then(|_| {
            let mut first = (&mut self.file).take(self.length);
            first.read_to_end(&mut bytes)
        });
        read.map_err(|e| IoError::from_system(&self.path, e))?;
        Ok(bytes)
    }

    /// Writes the content to a new file, after a failed sync or if the file has another name.
    ///
    /// After a failed sync, systems such as Linux mark lost data as written. Another sync then
    /// succeeds although the data are not on the disk.
    fn rewrite_file(&mut self) -> Result<(), IoError> {
        let bytes = self.read_content()?;
        let attempt = || {
            if blake3::hash(&bytes) != self.hasher.finalize() {
                let expected = format!("the {} that were written", byte_count(self.length));
                return Err(Fault::malformed("content", "other bytes after a failed write", expected));
            }
            let mut file = PendingFile::create(&self.path).map_err(Fault::Storage)?;
            let written = file.write_all(&bytes).and_then(|()| file.write_all(self.trailer));
            file.take_failure().map_or(Ok(()), |failure| Err(Fault::Storage(failure)))?;
            written?;
            file.sync().and_then(|()| file.rename()).map_err(Fault::Storage)?;
            Ok(open_unlinked(&self.path, OpenOptions::new().read(true).write(true))?)
        };
        self.file = attempt().map_err(|fault| fault.in_file(&self.path))?;
        self.sync_failed = false;
        Ok(())
    }

    /// Writes the trailer after the first `length` bytes and truncates the file behind it.
    ///
    /// The order matters: on a full disk the write fails, and the old trailer is still in the file.
    fn restore_end(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.length))?;
        let trailer_written = self.file.write_all(self.trailer);
        let length = self.length + self.trailer.len() as u64;
        if self.file.metadata()?.len() > length {
            self.file.set_len(length)?;
        }
        trailer_written
    }

    fn error_in(&self, stage: WriteStage, cause: io::Error) -> IoError {
        StorageError { stage, bytes: self.length, cause }.in_file(&self.path)
    }
}

/// Hashes the first `length` bytes.
fn hash_prefix(file: &mut File, length: u64) -> io::Result<blake3::Hasher> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut file.take(length), &mut hasher)?;
    Ok(hasher)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn reopened_file_continues_at_the_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut file = AppendFile::create(&path, b";", b"a\n").unwrap();
        file.append(b"b\n").unwrap();
        let mark = file.sync().unwrap();
        file.append(b"c\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a\nb\nc\n;");
        drop(file);

        let mut file = AppendFile::reopen(&path, b";", &mark).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a\nb\n;");
        assert_eq!(file.read_content().unwrap(), b"a\nb\n");
        file.append(b"d\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a\nb\nd\n;");
        let known = file.sync().unwrap();
        assert_eq!(known.blake3, blake3::hash(b"a\nb\nd\n").to_hex().to_string());
    }

    #[test]
    fn changed_file_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mark = AppendFile::create(&path, b"", b"one\ntwo\n").unwrap().sync().unwrap();
        let reopen_error =
            || AppendFile::reopen(&path, b"", &mark).err().expect("an error").fault.to_string();
        for (content, what) in [("one\ntwx\n", "changed"), ("one\n", "shortened"), ("", "shortened")] {
            fs::write(&path, content).unwrap();
            let expected = "since the checkpoint; restore it, or use resume --force to start it from scratch";
            assert_eq!(reopen_error(), format!("it was {what} {expected}"));
            assert_eq!(fs::read_to_string(&path).unwrap(), content, "the file must not change");
        }
        fs::remove_file(&path).unwrap();
        assert!(reopen_error().starts_with("it was removed since"));
        #[cfg(unix)]
        {
            let elsewhere = folder.path().join("elsewhere");
            fs::write(&elsewhere, "one\ntwo\nthree\n").unwrap();
            std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
            assert!(reopen_error().starts_with("it was replaced by something that is not a file since"));
            AppendFile::create(&path, b"", b"new").unwrap();
            assert_eq!(fs::read(&elsewhere).unwrap(), b"one\ntwo\nthree\n", "a link is not followed");
        }
    }

    /// A copy of a folder may consist of hard links, and a link may be to a foreign file.
    #[test]
    #[cfg(unix)]
    fn continued_file_does_not_change_under_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["rows.csv", "other"].map(|name| folder.path().join(name));
        let mut file = AppendFile::create(&path, b";", b"one\n").unwrap();
        let mark = file.sync().unwrap();
        file.append(b"two\n").unwrap();
        fs::hard_link(&path, &other).unwrap();
        let mut file = AppendFile::reopen(&path, b";", &mark).unwrap();
        file.append(b"three\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\nthree\n;");
        assert_eq!(fs::read_to_string(&other).unwrap(), "one\ntwo\n;");
    }

    #[test]
    fn file_is_rewritten_after_a_failed_sync() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut file = AppendFile::create(&path, b";", b"a").unwrap();
        file.sync_failed = true;
        let mark = file.sync().unwrap();
        file.append(b"b").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mark.length), (b"ab;".to_vec(), 1));
        // Content that differs from the written bytes is an error.
        fs::write(&path, b"xx;").unwrap();
        file.sync_failed = true;
        assert!(file.sync().unwrap_err().to_string().contains("after a failed write"));
    }
}
