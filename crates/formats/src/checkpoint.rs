//! Checkpoint files: a header in JSON and named columns of numbers, each block with its hash.
//!
//! ```text
//! magic    8 bytes   "ORRERYCP"
//! version  u32       version of this layout
//! blocks   u32       number of blocks
//! then each block:
//!   name   16 bytes  ASCII, padded with NUL; the first block is "header"
//!   kind   u32       0 bytes, 1 u64, 2 f64, 3 f32 (from version 2)
//!   (zero) u32
//!   length u64       bytes of data
//!   data             little-endian
//!   hash   32 bytes  BLAKE3 of magic, version, blocks, the number of the block (u32)
//!                    and all bytes of the block above
//! ```
//!
//! Hashes cover every byte of the file, so any changed byte is detected. The number of the block is
//! part of the hash, so blocks cannot be swapped. The file ends after the last block. The engine
//! defines the content of the header, which is only text here.

use std::borrow::Cow;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use crate::error::{Fault, IoError};
use crate::limits::Limits;
use crate::regular::open_input;
use crate::storage::{PendingFile, replace_file};
use crate::text::byte_count;

const MAGIC: &[u8; 8] = b"ORRERYCP";
/// Newest version of the layout. This version and all earlier ones can be read. A file gets the
/// lowest version that has all of its kinds of columns, so that older programs read it too.
const VERSION: u32 = 2;
/// First version with columns of f32.
const SINGLES_VERSION: u32 = 2;
const HEADER: &str = "header";
const NAME_BYTES: usize = 16;
/// Largest number of blocks. A larger count means that the file is damaged.
const MAX_BLOCKS: u32 = 1000;
const HASH_BYTES: u64 = blake3::OUT_LEN as u64;
/// Length of name, kind, zero and length of a block.
const DESCRIPTION_BYTES: usize = 32;
/// Bytes read at a time.
const BUFFER_BYTES: usize = 1 << 18;

/// Column of a checkpoint to write.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Bytes.
    Bytes(&'a [u8]),
    /// u64.
    Integers(&'a [u64]),
    /// f64.
    Reals(&'a [f64]),
    /// f32.
    Singles(&'a [f32]),
}

/// Column of a checkpoint that was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Bytes.
    Bytes(Vec<u8>),
    /// u64.
    Integers(Vec<u64>),
    /// f64.
    Reals(Vec<f64>),
    /// f32.
    Singles(Vec<f32>),
}

/// Content of a checkpoint file.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Version of the layout.
    pub version: u32,
    /// Header of the engine, in JSON.
    pub header: String,
    /// Columns with their names.
    pub blocks: Vec<(String, Block)>,
}

impl Block {
    /// Borrows the data as a [`Column`], to write them again.
    pub fn as_column(&self) -> Column<'_> {
        match self {
            Self::Bytes(bytes) => Column::Bytes(bytes),
            Self::Integers(numbers) => Column::Integers(numbers),
            Self::Reals(numbers) => Column::Reals(numbers),
            Self::Singles(numbers) => Column::Singles(numbers),
        }
    }
}

impl Column<'_> {
    /// Copies the data.
    pub fn to_block(&self) -> Block {
        match *self {
            Self::Bytes(bytes) => Block::Bytes(bytes.to_vec()),
            Self::Integers(numbers) => Block::Integers(numbers.to_vec()),
            Self::Reals(numbers) => Block::Reals(numbers.to_vec()),
            Self::Singles(numbers) => Block::Singles(numbers.to_vec()),
        }
    }

    fn kind_code(&self) -> u32 {
        match self {
            Self::Bytes(_) => 0,
            Self::Integers(_) => 1,
            Self::Reals(_) => 2,
            Self::Singles(_) => 3,
        }
    }

    /// Returns the data as little-endian bytes. On little-endian machines this is the memory
    /// itself.
    fn le_bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Bytes(bytes) => Cow::Borrowed(bytes),
            Self::Integers(numbers) if cfg!(target_endian = "little") => bytemuck::cast_slice(numbers).into(),
            Self::Reals(numbers) if cfg!(target_endian = "little") => bytemuck::cast_slice(numbers).into(),
            Self::Singles(numbers) if cfg!(target_endian = "little") => bytemuck::cast_slice(numbers).into(),
            Self::Integers(numbers) => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::Reals(numbers) => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Self::Singles(numbers) => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }
}

/// Writes a checkpoint atomically and syncs it to disk. A column name must be ASCII without NUL and
/// at most 16 bytes long. With any other name, nothing is written.
pub fn write_checkpoint(path: &Path, header: &str, columns: &[(&str, Column)]) -> Result<(), IoError> {
    for (name, _) in columns {
        check_name(name).map_err(|fault| fault.in_file(path))?;
    }
    let has_singles = columns.iter().any(|(_, column)| matches!(column, Column::Singles(_)));
    let version = if has_singles { SINGLES_VERSION } else { 1 };
    replace_file(path, |file| {
        let preamble = preamble_bytes(version, columns.len() as u32 + 1);
        file.write_all(&preamble)?;
        let header = (HEADER, Column::Bytes(header.as_bytes()));
        for (index, (name, column)) in std::iter::once(&header).chain(columns).enumerate() {
            write_block(file, block_hasher(&preamble, index as u32), name, column)?;
        }
        Ok(())
    })
}

/// Checks that `name` fits into its field and is read back unchanged: the first NUL ends it there.
fn check_name(name: &str) -> Result<(), Fault> {
    let location = || format!("block name '{}'", name.escape_debug());
    if name.len() > NAME_BYTES {
        let got = byte_count(name.len() as u64);
        return Err(Fault::malformed(location(), got, format!("at most {NAME_BYTES}")));
    }
    match name.chars().find(|&c| !c.is_ascii() || c == '\0') {
        Some(c) => Err(Fault::malformed(
            location(),
            format!("the character '{}'", c.escape_debug()),
            "ASCII without NUL",
        )),
        None => Ok(()),
    }
}

fn preamble_bytes(version: u32, blocks: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..].copy_from_slice(&blocks.to_le_bytes());
    bytes
}

/// Starts the hash of the block at `index`.
fn block_hasher(preamble: &[u8], index: u32) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(preamble).update(&index.to_le_bytes());
    hasher
}

fn write_block(
    file: &mut PendingFile,
    mut hasher: blake3::Hasher,
    name: &str,
    column: &Column,
) -> Result<(), Fault> {
    let mut description = [0; DESCRIPTION_BYTES];
    description[..name.len()].copy_from_slice(name.as_bytes());
    description[16..20].copy_from_slice(&column.kind_code().to_le_bytes());
    let data = column.le_bytes();
    description[24..].copy_from_slice(&(data.len() as u64).to_le_bytes());
    file.write_all(&description)?;
    // Hashing takes about as long as writing, so two threads do both at the same time.
    let (hash, written) =
        rayon::join(|| hasher.update(&description).update(&data).finalize(), || file.write_all(&data));
    written?;
    file.write_all(hash.as_bytes())?;
    Ok(())
}

/// Reads a checkpoint and verifies all hashes. Memory is bounded by the length of the file.
pub fn read_checkpoint(path: &Path, limits: &Limits) -> Result<Checkpoint, IoError> {
    let attempt = || {
        let (file, length) = open_input(path)?;
        if length > limits.memory {
            return Err(Fault::TooLong { length, limit: limits.memory });
        }
        read_blocks(BufReader::with_capacity(BUFFER_BYTES, file), length)
    };
    attempt().map_err(|fault| fault.in_file(path))
}

/// As [`read_checkpoint`], from bytes in memory.
pub fn parse_checkpoint(bytes: &[u8]) -> Result<Checkpoint, Fault> {
    read_blocks(bytes, bytes.len() as u64)
}

fn read_blocks(mut file: impl Read, mut left: u64) -> Result<Checkpoint, Fault> {
    let mut preamble = [0; 16];
    read_exactly(&mut file, &mut left, &mut preamble, "preamble")?;
    if &preamble[..8] != MAGIC {
        return Err(Fault::malformed("byte 0", "other bytes", "a checkpoint, which starts with ORRERYCP"));
    }
    let [version, count] = [8, 12].map(|at| u32_at(&preamble, at));
    if version > VERSION {
        return Err(Fault::Newer { version, known: VERSION });
    }
    if version == 0 {
        return Err(Fault::malformed("version", "0", format!("1 to {VERSION}")));
    }
    if count == 0 || count > MAX_BLOCKS {
        return Err(Fault::malformed("number of blocks", count.to_string(), format!("1 to {MAX_BLOCKS}")));
    }
    let mut blocks = Vec::new();
    for index in 0..count {
        blocks.push(read_block(&mut file, &mut left, block_hasher(&preamble, index), index)?);
    }
    if left > 0 {
        return Err(Fault::malformed(
            "end",
            format!("{left} more bytes"),
            "the end of the file after the last block",
        ));
    }
    let header = match blocks.remove(0) {
        (name, Block::Bytes(bytes)) if name == HEADER => String::from_utf8(bytes).ok(),
        _ => None,
    };
    let header = header.ok_or_else(|| Fault::malformed("block 0", "another block", "the header"))?;
    Ok(Checkpoint { version, header, blocks })
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

/// Fills `bytes` from the file and updates `left`, the number of bytes left in it.
fn read_exactly(file: &mut impl Read, left: &mut u64, bytes: &mut [u8], location: &str) -> Result<(), Fault> {
    let needed = bytes.len() as u64;
    if needed > *left {
        let got = format!("{} before the end", byte_count(*left));
        return Err(Fault::malformed(location, got, format!("{needed}: the file is truncated")));
    }
    file.read_exact(bytes)?;
    *left -= needed;
    Ok(())
}

fn read_block(
    file: &mut impl Read,
    left: &mut u64,
    mut hasher: blake3::Hasher,
    index: u32,
) -> Result<(String, Block), Fault> {
    let location = format!("block {index}");
    let mut description = [0; DESCRIPTION_BYTES];
    read_exactly(file, left, &mut description, &location)?;
    hasher.update(&description);
    let kind = u32_at(&description, 16);
    let length = u64::from(u32_at(&description, 24)) | u64::from(u32_at(&description, 28)) << 32;
    // Check the length against the file before allocating memory.
    if length.checked_add(HASH_BYTES).is_none_or(|whole| whole > *left) {
        let expected = format!("less than the {} left: the file is damaged or truncated", byte_count(*left));
        return Err(Fault::malformed(location, format!("a length of {}", byte_count(length)), expected));
    }
    let mut data = vec![0; length as usize];
    read_exactly(file, left, &mut data, &location)?;
    hasher.update_rayon(&data);
    let mut hash = [0; HASH_BYTES as usize];
    read_exactly(file, left, &mut hash, &location)?;
    if hasher.finalize() != blake3::Hash::from_bytes(hash) {
        return Err(Fault::malformed(location, "data that do not match the hash", "an intact checkpoint"));
    }
    let name = description[..NAME_BYTES].split(|&b| b == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).into_owned();
    let words = || data.chunks_exact(8).map(|w| [w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]]);
    let block = match kind {
        0 => Block::Bytes(data),
        1 => Block::Integers(words().map(u64::from_le_bytes).collect()),
        2 => Block::Reals(words().map(f64::from_le_bytes).collect()),
        3 => {
            let words = data.chunks_exact(4).map(|w| [w[0], w[1], w[2], w[3]]);
            Block::Singles(words.map(f32::from_le_bytes).collect())
        }
        kind => return Err(Fault::malformed(location, format!("kind {kind}"), "0, 1, 2 or 3")),
    };
    Ok((name, block))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write_small_checkpoint(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("small.orrery");
        let columns = [
            ("reals", Column::Reals(&[1.5, -0.0, f64::NAN])),
            ("integers", Column::Integers(&[u64::MAX, 7])),
            ("bytes", Column::Bytes(b"xyz")),
            ("none", Column::Reals(&[])),
        ];
        write_checkpoint(&path, "{\"step\": 3}", &columns).unwrap();
        path
    }

    #[test]
    fn written_checkpoint_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let read = read_checkpoint(&write_small_checkpoint(folder.path()), &Limits::default()).unwrap();
        assert_eq!((read.version, read.header.as_str()), (1, "{\"step\": 3}"));
        let [reals, integers, bytes, none] = &read.blocks[..] else { panic!("four blocks") };
        let Block::Reals(values) = &reals.1 else { panic!("reals") };
        assert_eq!(
            values.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            [1.5, -0.0, f64::NAN].map(f64::to_bits)
        );
        assert_eq!(integers, &("integers".to_owned(), Block::Integers(vec![u64::MAX, 7])));
        assert_eq!(bytes, &("bytes".to_owned(), Block::Bytes(b"xyz".to_vec())));
        assert_eq!(none.1, Block::Reals(Vec::new()));
    }

    /// A file with columns of f32 has version 2. All others have version 1, which older programs
    /// read.
    #[test]
    fn columns_of_f32_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("field.orrery");
        let values = [1.5f32, -0.0, f32::NAN, f32::MIN_POSITIVE];
        let columns = [("u", Column::Singles(&values)), ("end", Column::Reals(&[2.0]))];
        write_checkpoint(&path, "{}", &columns).unwrap();
        let read = read_checkpoint(&path, &Limits::default()).unwrap();
        let [(name, Block::Singles(found)), end] = &read.blocks[..] else { panic!("two blocks") };
        assert_eq!((read.version, name.as_str()), (2, "u"));
        assert_eq!(found.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), values.map(f32::to_bits));
        assert_eq!(end.1, Block::Reals(vec![2.0]));
        assert_eq!(columns[1].1.to_block(), end.1);
        let older = read_checkpoint(&write_small_checkpoint(folder.path()), &Limits::default()).unwrap();
        assert_eq!(older.version, 1);
    }

    /// The existing checkpoint must remain readable when the next one is refused.
    #[test]
    fn names_that_do_not_fit_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = write_small_checkpoint(folder.path());
        let before = fs::read(&path).unwrap();
        let refused = [
            ("seventeen_letters", "got 17 bytes, expected at most 16"),
            ("a_name_that_is_longer_than_a_description", "got 40 bytes, expected at most 16"),
            ("größe", "got the character 'ö', expected ASCII without NUL"),
            ("mass\0", "got the character '\\0', expected ASCII without NUL"),
        ];
        for (name, why) in refused {
            let columns = [("fits", Column::Bytes(b"x")), (name, Column::Bytes(b"y"))];
            let error = write_checkpoint(&path, "{}", &columns).unwrap_err().to_string();
            let name = name.escape_debug();
            assert_eq!(error, format!("{}: block name '{name}': {why}", path.display()));
            assert_eq!(fs::read(&path).unwrap(), before, "{name}");
        }
        write_checkpoint(&path, "{}", &[("sixteen_letters_", Column::Bytes(b"z"))]).unwrap();
        let read = read_checkpoint(&path, &Limits::default()).unwrap();
        assert_eq!(read.blocks, [("sixteen_letters_".to_owned(), Block::Bytes(b"z".to_vec()))]);
    }

    /// Flips each bit of each byte, truncates at each length, and appends a byte.
    #[test]
    fn all_damage_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let whole = fs::read(write_small_checkpoint(folder.path())).unwrap();
        let assert_rejected = |bytes: &[u8], what: String| {
            let error = parse_checkpoint(bytes).expect_err(&what).to_string();
            assert!(!error.contains('\n'), "{error}");
        };
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                assert_rejected(&bytes, format!("bit {bit} of byte {at}"));
            }
            assert_rejected(&whole[..at], format!("truncated at {at}"));
        }
        assert_rejected(&[&whole[..], b"\0"].concat(), "a byte more".to_owned());
    }

    #[test]
    fn messages_name_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let whole = fs::read(write_small_checkpoint(folder.path())).unwrap();
        let message = |bytes: &[u8]| parse_checkpoint(bytes).unwrap_err().to_string();
        assert_eq!(
            message(b"PK"),
            "preamble: got 2 bytes before the end, expected 16: the file is truncated"
        );
        assert_eq!(
            message(&[0; 40]),
            "byte 0: got other bytes, expected a checkpoint, which starts with ORRERYCP"
        );
        let mut newer = whole.clone();
        newer[8] = 9;
        let expected = "layout version: got 9, expected 1 to 2; a newer version of orrery can read it";
        assert_eq!(message(&newer), expected);
        let mut huge = whole.clone();
        huge[16 + 24 + 7] = 0xff;
        assert!(message(&huge).ends_with("bytes left: the file is damaged or truncated"));
        let mut changed = whole;
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(
            message(&changed),
            "block 4: got data that do not match the hash, expected an intact checkpoint"
        );
    }
}
