//! A file that grows at its end, and can be taken up again where a checkpoint saw it.
//!
//! Invariants: the first `length` bytes are those that were appended, and their BLAKE3 hash is known without
//! reading them again; after them stands the trailer, if the format has one, so that the file is valid after
//! every append. An append that fails leaves the file as it was and may be tried again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{PendingFile, StorageError, WriteStage, create_in_place, sync_folder};
use crate::error::{Fault, IoError};

/// How far a growing file was: its length without trailer, and what its bytes hash to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Bytes, the trailer not counted.
    pub length: u64,
    /// Their BLAKE3 hash, in hexadecimal.
    pub blake3: String,
}

/// The file, open at its end.
pub struct AppendFile {
    path: PathBuf,
    file: File,
    length: u64,
    hasher: blake3::Hasher,
    trailer: &'static [u8],
    /// A sync failed: what the system holds may not be what the disk has.
    suspect: bool,
}

impl AppendFile {
    /// Begins a file with `bytes`, in place of one that is there; its name is on the disk then.
    pub fn create(path: &Path, trailer: &'static [u8], bytes: &[u8]) -> Result<Self, IoError> {
        // Not emptied in place: a link would lead to someone else's file.
        let created = create_in_place(path);
        let file =
            created.map_err(|cause| StorageError { stage: WriteStage::Create, bytes: 0, cause }.at(path))?;
        let hasher = blake3::Hasher::new();
        let mut begun = Self { path: path.to_owned(), file, length: 0, hasher, trailer, suspect: false };
        begun.append(bytes)?;
        sync_folder(path).map_err(|cause| begun.failed(WriteStage::Sync, cause))?;
        Ok(begun)
    }

    /// Takes a file up at `mark`: what came later is cut off. Refused if what came before is not what it was.
    pub fn reopen(path: &Path, trailer: &'static [u8], mark: &Mark) -> Result<Self, IoError> {
        let attempt = || {
            let found = match fs::symlink_metadata(path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(Fault::Changed("removed")),
                found => found?,
            };
            if !found.is_file() {
                return Err(Fault::Changed("replaced by what is no file"));
            }
            if found.len() < mark.length {
                return Err(Fault::Changed("shortened"));
            }
            let mut file = OpenOptions::new().read(true).write(true).open(path)?;
            let hasher = hash_of_first(&mut file, mark.length)?;
            if hasher.finalize().to_hex().as_str() != mark.blake3 {
                return Err(Fault::Changed("changed"));
            }
            Ok((file, hasher))
        };
        let (file, hasher) = attempt().map_err(|fault| fault.at(path))?;
        let (path, length) = (path.to_owned(), mark.length);
        let mut reopened = Self { path, file, length, hasher, trailer, suspect: false };
        reopened.restore().map_err(|cause| reopened.failed(WriteStage::Truncate, cause))?;
        Ok(reopened)
    }

    /// Puts `bytes` at the end.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), IoError> {
        let whole = [bytes, self.trailer].concat();
        let mut taken = 0;
        let outcome = self.file.seek(SeekFrom::Start(self.length)).and_then(|_| {
            while taken < whole.len() {
                match self.file.write(&whole[taken..]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(more) => taken += more,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(())
        });
        if let Err(cause) = outcome {
            // The half that was taken goes away again; if even that fails, a resume cuts it off.
            let _ = self.restore();
            return Err(self.failed(WriteStage::Write, cause));
        }
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Brings everything to the disk and tells how far it is.
    pub fn sync(&mut self) -> Result<Mark, IoError> {
        if self.suspect {
            self.write_anew()?;
        }
        if let Err(cause) = self.file.sync_all() {
            self.suspect = true;
            return Err(self.failed(WriteStage::Sync, cause));
        }
        Ok(Mark { length: self.length, blake3: self.hasher.finalize().to_hex().to_string() })
    }

    /// The bytes so far, the trailer not counted.
    pub fn read_content(&mut self) -> Result<Vec<u8>, IoError> {
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(0)).and_then(|_| {
            let mut first = (&mut self.file).take(self.length);
            first.read_to_end(&mut bytes)
        });
        read.map_err(|e| IoError::from_system(&self.path, e))?;
        Ok(bytes)
    }

    /// After a failed sync the system may take lost bytes for written ones (as Linux does), so that a further
    /// sync means nothing: the bytes go to a new file.
    fn write_anew(&mut self) -> Result<(), IoError> {
        let bytes = self.read_content()?;
        let attempt = || {
            if blake3::hash(&bytes) != self.hasher.finalize() {
                let expected = format!("the {} bytes that were written", self.length);
                return Err(Fault::malformed("content", "other bytes after a failed write", expected));
            }
            let mut file = PendingFile::create(&self.path).map_err(Fault::Storage)?;
            let written = file.write_all(&bytes).and_then(|()| file.write_all(self.trailer));
            file.failure().map_or(Ok(()), |failure| Err(Fault::Storage(failure)))?;
            written?;
            file.finish().map_err(Fault::Storage)?;
            Ok(OpenOptions::new().read(true).write(true).open(&self.path)?)
        };
        self.file = attempt().map_err(|fault| fault.at(&self.path))?;
        self.suspect = false;
        Ok(())
    }

    /// Puts the trailer behind the first `length` bytes and cuts off what follows. In this order: where no
    /// byte is taken any more, the old trailer still stands there.
    fn restore(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.length))?;
        let ended = self.file.write_all(self.trailer);
        let length = self.length + self.trailer.len() as u64;
        if self.file.metadata()?.len() > length {
            self.file.set_len(length)?;
        }
        ended
    }

    fn failed(&self, stage: WriteStage, cause: io::Error) -> IoError {
        StorageError { stage, bytes: self.length, cause }.at(&self.path)
    }
}

/// The hash of the first `length` bytes.
fn hash_of_first(file: &mut File, length: u64) -> io::Result<blake3::Hasher> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut file.take(length), &mut hasher)?;
    Ok(hasher)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_taken_up_where_it_was_marked() {
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
    fn a_changed_file_is_not_taken_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mark = AppendFile::create(&path, b"", b"one\ntwo\n").unwrap().sync().unwrap();
        let refused = || AppendFile::reopen(&path, b"", &mark).err().expect("refused").fault.to_string();
        for (content, what) in [("one\ntwx\n", "changed"), ("one\n", "shortened"), ("", "shortened")] {
            fs::write(&path, content).unwrap();
            let expected = "since the checkpoint; put it back, or let resume --force begin it anew";
            assert_eq!(refused(), format!("it was {what} {expected}"));
            assert_eq!(fs::read_to_string(&path).unwrap(), content, "left as it is");
        }
        fs::remove_file(&path).unwrap();
        assert!(refused().starts_with("it was removed since"));
        #[cfg(unix)]
        {
            let elsewhere = folder.path().join("elsewhere");
            fs::write(&elsewhere, "one\ntwo\nthree\n").unwrap();
            std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
            assert!(refused().starts_with("it was replaced by what is no file since"));
            AppendFile::create(&path, b"", b"new").unwrap();
            assert_eq!(fs::read(&elsewhere).unwrap(), b"one\ntwo\nthree\n", "a link is not followed");
        }
    }

    #[test]
    fn a_suspect_file_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut file = AppendFile::create(&path, b";", b"a").unwrap();
        file.suspect = true;
        let mark = file.sync().unwrap();
        file.append(b"b").unwrap();
        assert_eq!((fs::read(&path).unwrap(), mark.length), (b"ab;".to_vec(), 1));
        // What is not what was written is not passed off as such.
        fs::write(&path, b"xx;").unwrap();
        file.suspect = true;
        assert!(file.sync().unwrap_err().to_string().contains("after a failed write"));
    }
}
