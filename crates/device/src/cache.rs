//! Compiled kernels on the disk.
//!
//! A file is a magic word, its key, the payload's length and BLAKE3 hash, and the payload; its name is the
//! key. It appears whole (a temporary name, then a rename), so that several processes may share the folder.
//! The cache is a convenience: a folder that is missing or read-only, and an entry that is damaged, only
//! cost a compilation.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a binary depends on, hashed.
pub(crate) type Key = [u8; 32];

const MAGIC: &[u8; 8] = b"ORRKERN1";
const HEADER: usize = 8 + 32 + 8 + 32;

/// Where this user's compiled kernels and tuned choices are kept: `$ORRERY_CACHE_DIR`, else
/// `$XDG_CACHE_HOME/orrery`, else `$HOME/.cache/orrery`.
pub fn cache_folder() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("ORRERY_CACHE_DIR")
        .or_else(|| folder("XDG_CACHE_HOME").map(|base| base.join("orrery")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache").join("orrery")))
}

fn path(key: &Key) -> Option<PathBuf> {
    Some(cache_folder()?.join("kernels").join(blake3::Hash::from(*key).to_hex().as_str()))
}

/// The binary under this key, if there is one and it is whole.
pub(crate) fn read(key: &Key) -> Option<Vec<u8>> {
    payload(fs::read(path(key)?).ok()?, key)
}

/// Keeps a binary; a disk that does not want it is no reason to fail.
pub(crate) fn write(key: &Key, binary: &[u8]) {
    let _ = try_write(key, binary);
}

fn try_write(key: &Key, binary: &[u8]) -> Option<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let path = path(key)?;
    fs::create_dir_all(path.parent()?).ok()?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    let whole = fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(&entry(key, binary)))
        .and_then(|()| fs::rename(&temporary, &path));
    if whole.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    whole.ok()
}

fn entry(key: &Key, binary: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(HEADER + binary.len());
    entry.extend_from_slice(MAGIC);
    entry.extend_from_slice(key);
    entry.extend_from_slice(&(binary.len() as u64).to_le_bytes());
    entry.extend_from_slice(blake3::hash(binary).as_bytes());
    entry.extend_from_slice(binary);
    entry
}

fn payload(mut entry: Vec<u8>, key: &Key) -> Option<Vec<u8>> {
    let (header, binary) = entry.split_at_checked(HEADER)?;
    let whole = header[..8] == *MAGIC
        && header[8..40] == *key
        && header[40..48] == (binary.len() as u64).to_le_bytes()
        && header[48..80] == *blake3::hash(binary).as_bytes();
    whole.then(|| entry.split_off(HEADER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_back() {
        let key = [7; 32];
        for binary in [&b""[..], b"x", b"a binary of some length"] {
            assert_eq!(payload(entry(&key, binary), &key).as_deref(), Some(binary));
        }
        assert_eq!(payload(entry(&key, b"binary"), &[8; 32]), None);
    }

    #[test]
    fn every_flipped_bit_and_every_other_length_is_seen() {
        let key = [7; 32];
        let good = entry(&key, b"binary");
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(payload(bad, &key), None, "bit {bit}");
        }
        for len in 0..good.len() {
            assert_eq!(payload(good[..len].to_vec(), &key), None, "{len} bytes");
        }
        let longer = [&good[..], b"!"].concat();
        assert_eq!(payload(longer, &key), None);
    }
}
