//! Cache of compiled kernels on disk.
//!
//! A file has a magic number, its key, the length and BLAKE3 hash of the payload, and the payload.
//! The file name is the key. A file is written under a temporary name and then renamed, so several
//! processes may share the folder.
//!
//! The cache is optional: if the folder is missing or read-only, or an entry is damaged, the kernel
//! is compiled. A binary is executed, so folders and entries that another user can change are
//! refused ([`CacheFolder`]).

mod access;
mod folder;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

pub use folder::{CacheError, CacheFolder};

/// Hash of everything that a binary depends on.
pub(crate) type Key = [u8; 32];

const MAGIC: &[u8; 8] = b"ORRKERN1";
const HEADER: usize = 8 + 32 + 8 + 32;

/// Largest accepted size of an entry in bytes. Binaries of kernels are far smaller.
const MAX_ENTRY_SIZE: u64 = 1 << 28;

/// Warnings about the cache that are not printed yet, and all earlier ones.
static WARNINGS: Mutex<Warnings> = Mutex::new(Warnings { new: Vec::new(), known: Vec::new() });

struct Warnings {
    new: Vec<String>,
    known: Vec<String>,
}

/// Returns the folder for compiled kernels and tuned strategies: `$ORRERY_CACHE_DIR`, else
/// `$XDG_CACHE_HOME/orrery`, else `$HOME/.cache/orrery`. None if none of these variables is set.
pub fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("ORRERY_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|base| base.join("orrery")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache").join("orrery")))
}

/// Returns the warnings since the last call about kernels on disk that were refused. Each is one
/// line and is returned once per process.
pub fn take_cache_warnings() -> Vec<String> {
    std::mem::take(&mut WARNINGS.lock().unwrap_or_else(PoisonError::into_inner).new)
}

/// Warns about a refused folder or entry. All other errors are ignored, because the cache is
/// optional.
fn warn(error: &CacheError) {
    let CacheError::Refused { .. } = error else { return };
    let text =
        format!("{error}; the kernel is compiled. Remove it, or set ORRERY_CACHE_DIR to another folder");
    let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if !warnings.known.contains(&text) {
        warnings.known.push(text.clone());
        warnings.new.push(text);
    }
}

fn kernel_folder() -> Option<PathBuf> {
    Some(cache_folder()?.join("kernels"))
}

fn entry_name(key: &Key) -> String {
    blake3::Hash::from(*key).to_hex().as_str().to_owned()
}

/// Returns the binary with this key, if there is one, it is undamaged and only this user could have
/// written it.
pub(crate) fn read_binary(key: &Key) -> Option<Vec<u8>> {
    let entry = CacheFolder::open(&kernel_folder()?)
        .and_then(|folder| folder.read(&entry_name(key), MAX_ENTRY_SIZE))
        .inspect_err(warn);
    decode_entry(entry.ok()?, key)
}

/// Writes a binary. A failure is ignored, because the cache is optional.
pub(crate) fn write_binary(key: &Key, binary: &[u8]) {
    let Some(path) = kernel_folder() else { return };
    let written = CacheFolder::create(&path)
        .and_then(|folder| folder.write(&entry_name(key), &encode_entry(key, binary)));
    let _ = written.inspect_err(warn);
}

fn encode_entry(key: &Key, binary: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(HEADER + binary.len());
    entry.extend_from_slice(MAGIC);
    entry.extend_from_slice(key);
    entry.extend_from_slice(&(binary.len() as u64).to_le_bytes());
    entry.extend_from_slice(blake3::hash(binary).as_bytes());
    entry.extend_from_slice(binary);
    entry
}

/// Returns the payload if magic number, key, length and hash are correct.
fn decode_entry(mut entry: Vec<u8>, key: &Key) -> Option<Vec<u8>> {
    let (header, binary) = entry.split_at_checked(HEADER)?;
    let is_valid = header[..8] == *MAGIC
        && header[8..40] == *key
        && header[40..48] == (binary.len() as u64).to_le_bytes()
        && header[48..80] == *blake3::hash(binary).as_bytes();
    is_valid.then(|| entry.split_off(HEADER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_back_with_its_key_only() {
        let key = [7; 32];
        for binary in [&b""[..], b"x", b"a binary of some length"] {
            assert_eq!(decode_entry(encode_entry(&key, binary), &key).as_deref(), Some(binary));
        }
        assert_eq!(decode_entry(encode_entry(&key, b"binary"), &[8; 32]), None);
    }

    #[test]
    fn a_flipped_bit_or_a_wrong_length_is_detected() {
        let key = [7; 32];
        let good = encode_entry(&key, b"binary");
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_entry(bad, &key), None, "bit {bit}");
        }
        for len in 0..good.len() {
            assert_eq!(decode_entry(good[..len].to_vec(), &key), None, "{len} bytes");
        }
        let longer = [&good[..], b"!"].concat();
        assert_eq!(decode_entry(longer, &key), None);
    }
}
