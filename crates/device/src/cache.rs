//! Cache of compiled kernels on disk.
//!
//! A file has a magic number, its key, the length and BLAKE3 hash of the payload, and the payload.
//! The file name is the key. A file is written under a temporary name and then renamed, so several
//! processes may share the folder.
//!
//! The cache is optional: if the folder is missing or read-only, or an entry is damaged, the kernel
//! is compiled.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Hash of everything that a binary depends on.
pub(crate) type Key = [u8; 32];

const MAGIC: &[u8; 8] = b"ORRKERN1";
const HEADER: usize = 8 + 32 + 8 + 32;

/// Returns the folder for compiled kernels and tuned strategies: `$ORRERY_CACHE_DIR`, else
/// `$XDG_CACHE_HOME/orrery`, else `$HOME/.cache/orrery`. None if none of these variables is set.
pub fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("ORRERY_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|base| base.join("orrery")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache").join("orrery")))
}

fn entry_path(key: &Key) -> Option<PathBuf> {
    Some(cache_folder()?.join("kernels").join(blake3::Hash::from(*key).to_hex().as_str()))
}

/// Returns the binary with this key, if there is one and it is undamaged.
pub(crate) fn read_binary(key: &Key) -> Option<Vec<u8>> {
    decode_entry(fs::read(entry_path(key)?).ok()?, key)
}

/// Writes a binary. A failure is ignored, because the cache is optional.
pub(crate) fn write_binary(key: &Key, binary: &[u8]) {
    let _ = try_write(key, binary);
}

fn try_write(key: &Key, binary: &[u8]) -> Option<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let path = entry_path(key)?;
    fs::create_dir_all(path.parent()?).ok()?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    let written = fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(&encode_entry(key, binary)))
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.ok()
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
