//! GSD, the format of HOOMD-blue's trajectories, which OVITO and the Python package `gsd` read
//! (<https://gsd.readthedocs.io>). docs/decisions/2026-11-17-gsd-by-hand.md compares with the crate
//! `hoomd-gsd`.
//!
//! # File layer
//!
//! All numbers are little-endian. A file is a header of 256 bytes, a list of names, an index, and
//! chunks of data. An entry of the index has 32 bytes: frame, rows, position of the data, columns,
//! name, type. Entries are sorted by frame and name. The header has the positions of names and
//! index, and the number of entries in the index.
//!
//! # Layout of written files
//!
//! ```text
//! header | names | record, index of 256 entries | frame 0 | ... | record, index of 512 | ...
//! ```
//!
//! - The list of names never changes, because the first frame defines all of them.
//! - The number of entries in the header is the number in use. A frame is complete when the header
//!   counts its entries. Its data and its entries are on the disk before. The 16 bytes of the
//!   header that change are in one sector of the disk, so they are written at once.
//! - A full index is copied to the end of the file, with twice the capacity. The old one remains,
//!   and the record of 32 bytes before the new one contains its position. If frames are removed,
//!   the header refers to the old one again.
//! - Behind the entries in use, an index is zero.
//!
//! # Chunks
//!
//! The schema is `hoomd` 1.4. Its box is centred at the origin, and its numbers are f32. Positions
//! are those relative to the centre of the box, in [-L/2, L/2). Other data are below `log/`, the
//! schema's place for them. [`CHUNK_NAMES`] lists all chunks. A chunk that equals that of frame 0
//! is not repeated.

mod chunks;
mod names;
mod read;
mod write;

use crate::error::Fault;
use crate::text::byte_count;

pub(super) use read::{GsdFrames, read};
pub(crate) use write::hash_frames;
pub(super) use write::{append, remove_frames_from};

const MAGIC: [u8; 8] = 0x65DF_65DF_65DF_65DF_u64.to_le_bytes();
const HEADER_BYTES: u64 = 256;
const ENTRY_BYTES: u64 = 32;
/// Name of this program in the header.
const APPLICATION: &str = "Orrery";
/// Schema of the files.
const SCHEMA: &str = "hoomd";
/// Number of bytes per unit in which the header counts the length of the list of names.
const NAME_UNIT_BYTES: u64 = 64;

/// Names of all chunks of written files. The index of a name is its number in the file.
const CHUNK_NAMES: [&str; 20] = [
    "configuration/step",
    "configuration/dimensions",
    "configuration/box",
    "particles/N",
    "particles/types",
    "particles/typeid",
    "particles/mass",
    "particles/diameter",
    "particles/position",
    "particles/velocity",
    "particles/image",
    "log/particles/orrery/id",
    "log/orrery/time",
    "log/orrery/origin",
    "log/orrery/lengths",
    "log/orrery/periodic",
    "log/orrery/species_mass",
    "log/orrery/species_sigma",
    "log/orrery/units",
    "log/orrery/provenance",
];

/// Returns true if `head` is the start of a GSD file.
pub(super) fn looks_like(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// Type of the values of a chunk, with the code of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueType {
    U8 = 1,
    U16 = 2,
    U32 = 3,
    U64 = 4,
    I8 = 5,
    I16 = 6,
    I32 = 7,
    I64 = 8,
    F32 = 9,
    F64 = 10,
    Character = 11,
}

impl ValueType {
    fn from_code(code: u8) -> Option<Self> {
        use ValueType::{Character, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        let all = [U8, U16, U32, U64, I8, I16, I32, I64, F32, F64, Character];
        all.into_iter().find(|&kind| kind as u8 == code)
    }

    fn bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Character => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// The fields of the header that readers need.
#[derive(Clone, Debug)]
struct Header {
    index_location: u64,
    /// Number of entries in the index, of which the last ones may be empty.
    index_entries: u64,
    names_location: u64,
    /// Length of the list of names in units of 64 bytes.
    names_units: u64,
    /// Major version in the upper 16 bits, minor version in the lower ones.
    schema_version: u32,
    layer_version: u32,
    application: String,
    schema: String,
}

impl Header {
    fn to_bytes(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..24].copy_from_slice(&self.index_bytes());
        bytes[24..32].copy_from_slice(&self.names_location.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.names_units.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.schema_version.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.layer_version.to_le_bytes());
        bytes[48..48 + self.application.len()].copy_from_slice(self.application.as_bytes());
        bytes[112..112 + self.schema.len()].copy_from_slice(self.schema.as_bytes());
        bytes
    }

    /// Returns bytes 8 to 23, which change with every frame.
    fn index_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.index_location.to_le_bytes());
        bytes[8..].copy_from_slice(&self.index_entries.to_le_bytes());
        bytes
    }

    /// Reads a header and checks that index and names are within a file of `file_bytes`.
    fn parse(bytes: &[u8; HEADER_BYTES as usize], file_bytes: u64) -> Result<Self, Fault> {
        if bytes[..8] != MAGIC {
            return Err(Fault::malformed("byte 0", "other bytes", "the signature of a GSD file"));
        }
        let text = |range: std::ops::Range<usize>| {
            let field = &bytes[range];
            let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).into_owned()
        };
        let header = Self {
            index_location: read_u64(bytes, 8),
            index_entries: read_u64(bytes, 16),
            names_location: read_u64(bytes, 24),
            names_units: read_u64(bytes, 32),
            schema_version: read_u32(bytes, 40),
            layer_version: read_u32(bytes, 44),
            application: text(48..112),
            schema: text(112..176),
        };
        let blocks = [
            ("index", header.index_location, header.index_entries, ENTRY_BYTES),
            ("names", header.names_location, header.names_units, NAME_UNIT_BYTES),
        ];
        for (name, location, count, size) in blocks {
            let end = count.checked_mul(size).and_then(|length| length.checked_add(location));
            if end.is_none_or(|end| end > file_bytes) {
                let got = format!("{count} entries at byte {location}");
                let expected = format!("entries within the file of {}", byte_count(file_bytes));
                return Err(Fault::malformed(name, got, expected));
            }
        }
        Ok(header)
    }
}

/// Entry of the index: where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    frame: u64,
    rows: u64,
    location: u64,
    columns: u32,
    name: u16,
    kind: ValueType,
}

impl Entry {
    fn to_bytes(self) -> [u8; ENTRY_BYTES as usize] {
        let mut bytes = [0; ENTRY_BYTES as usize];
        bytes[..8].copy_from_slice(&self.frame.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.rows.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.location.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.columns.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.name.to_le_bytes());
        bytes[30] = self.kind as u8;
        bytes
    }

    /// Reads entry `number` of the index. Returns `None` for an empty one. The data must be within
    /// a file of `file_bytes`.
    fn parse(bytes: &[u8], number: u64, file_bytes: u64) -> Result<Option<Self>, Fault> {
        let location = read_u64(bytes, 16);
        if location == 0 {
            return Ok(None);
        }
        let fault = |got: String, expected: String| {
            Fault::malformed(format!("entry {number} of the index"), got, expected)
        };
        let kind = ValueType::from_code(bytes[30])
            .ok_or_else(|| fault(format!("the type {}", bytes[30]), "a type from 1 to 11".to_owned()))?;
        let entry = Self {
            frame: read_u64(bytes, 0),
            rows: read_u64(bytes, 8),
            location,
            columns: read_u32(bytes, 24),
            name: u16::from_le_bytes([bytes[28], bytes[29]]),
            kind,
        };
        let end = entry.length().and_then(|length| length.checked_add(location));
        if entry.columns == 0 || end.is_none_or(|end| end > file_bytes) {
            let got = format!("{} x {} values at byte {location}", entry.rows, entry.columns);
            return Err(fault(got, format!("values within the file of {}", byte_count(file_bytes))));
        }
        Ok(Some(entry))
    }

    /// Returns the length of the data in bytes, or `None` above 2^64.
    fn length(&self) -> Option<u64> {
        self.rows.checked_mul(u64::from(self.columns))?.checked_mul(self.kind.bytes())
    }

    /// Returns the end of the data. [`Entry::parse`] has checked that it is within the file.
    fn end(&self) -> u64 {
        self.location.saturating_add(self.length().unwrap_or(u64::MAX))
    }
}

fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(value)
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(value)
}
