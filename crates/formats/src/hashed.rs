//! Files that are hashed while they are read.
//!
//! A hash that is computed by a second read can be that of other bytes: the file may have changed,
//! or a cache may have been refreshed. These readers return the hash of the bytes that they parsed.
//! BLAKE3 runs on all threads, on blocks of 1 MiB.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

use crate::error::{Fault, IoError};
use crate::regular::open_input;

/// Bytes that are read and hashed at a time.
const BLOCK_BYTES: usize = 1 << 20;
/// Bytes from which several threads hash a block faster than one.
const PARALLEL_BYTES: usize = 1 << 17;

/// A regular file that is read from its start to its end, and hashed.
pub(crate) struct HashedFile {
    file: File,
    length: u64,
    hasher: blake3::Hasher,
    block: Vec<u8>,
    /// Bytes of the block that are filled, and those that the reader has taken.
    filled: usize,
    taken: usize,
}

impl HashedFile {
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let (file, length) = open_input(path)?;
        let block_bytes = length.clamp(1, BLOCK_BYTES as u64) as usize;
        let (hasher, block) = (blake3::Hasher::new(), vec![0; block_bytes]);
        Ok(Self { file, length, hasher, block, filled: 0, taken: 0 })
    }

    /// Returns the length of the file when it was opened.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Skips `count` bytes, or the rest of the file if there are fewer.
    pub fn skip(&mut self, count: u64) -> io::Result<()> {
        io::copy(&mut self.take(count), &mut io::sink()).map(drop)
    }

    /// Reads the rest of the file. Returns the hash of all bytes, in hexadecimal.
    pub fn finish(self) -> io::Result<String> {
        Ok(self.finish_unless(&|| false)?.unwrap_or_default())
    }

    /// Does the same. Returns `None` as soon as `is_stopped` returns true.
    fn finish_unless(mut self, is_stopped: &dyn Fn() -> bool) -> io::Result<Option<String>> {
        loop {
            match self.fill_buf()?.len() {
                0 => return Ok(Some(self.hasher.finalize().to_hex().to_string())),
                _ if is_stopped() => return Ok(None),
                count => self.consume(count),
            }
        }
    }
}

impl BufRead for HashedFile {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
            self.filled = self.file.read(&mut self.block)?;
            let bytes = &self.block[..self.filled];
            match bytes.len() {
                ..PARALLEL_BYTES => self.hasher.update(bytes),
                _ => self.hasher.update_rayon(bytes),
            };
        }
        Ok(&self.block[self.taken..self.filled])
    }

    fn consume(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.filled);
    }
}

impl Read for HashedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut available = self.fill_buf()?;
        let count = available.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

/// Calls `read` with a file. Returns its result and the hash of the whole file, in hexadecimal.
pub(crate) fn read_hashed<T>(
    path: &Path,
    read: impl FnOnce(&mut HashedFile) -> Result<T, Fault>,
) -> Result<(T, String), IoError> {
    let read_all = || {
        let mut file = HashedFile::open(path)?;
        let value = read(&mut file)?;
        Ok((value, file.finish()?))
    };
    read_all().map_err(|fault: Fault| fault.in_file(path))
}

/// Does the same as [`hash_file`]. Returns `None` as soon as `is_stopped` returns true.
pub(crate) fn hash_file_unless(path: &Path, is_stopped: &dyn Fn() -> bool) -> Result<Option<String>, Fault> {
    Ok(HashedFile::open(path)?.finish_unless(is_stopped)?)
}

/// Returns the BLAKE3 hash of a regular file, in hexadecimal.
pub fn hash_file(path: &Path) -> Result<String, IoError> {
    read_hashed(path, |_| Ok(())).map(|((), hash)| hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads of any length give the bytes of the file, and the hash has those that were skipped and
    /// those after the last read.
    #[test]
    fn the_hash_is_that_of_all_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        for length in [0, 1, PARALLEL_BYTES - 1, PARALLEL_BYTES, BLOCK_BYTES, 2 * BLOCK_BYTES + 77] {
            let bytes: Vec<u8> = (0..length).map(|k| (k * k / 7) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let expected = blake3::hash(&bytes).to_hex().to_string();
            assert_eq!(hash_file(&path).unwrap(), expected, "{length} bytes");

            let (skipped, taken) = (length / 3, length / 2);
            let (part, hash) = read_hashed(&path, |file| {
                assert_eq!(file.length(), length as u64);
                file.skip(skipped as u64)?;
                let mut part = vec![0; taken];
                file.read_exact(&mut part)?;
                Ok(part)
            })
            .unwrap();
            assert!(part == bytes[skipped..][..taken] && hash == expected, "{length} bytes");
        }
    }

    #[test]
    fn only_regular_files_are_read() {
        let error = hash_file(Path::new("/")).unwrap_err().to_string();
        assert_eq!(error, "/: path: got a directory, expected a file");
    }
}
