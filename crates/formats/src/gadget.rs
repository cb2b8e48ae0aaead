//! GADGET's binary snapshots, formats 1 and 2 (Springel 2005, and the GADGET-2 user guide, section
//! 6).
//!
//! A file is a sequence of Fortran records: length (u32), data, the same length again. The first
//! record is the header of 256 bytes. POS, VEL and ID follow. MASS follows if the mass table in the
//! header has a zero for a species with bodies. Format 2 puts a record of 8 bytes with a label of
//! four letters before each block, and blocks may come in any order.
//!
//! GADGET-4 has another header for N types: u64 counts[N], u64 totals[N], f64 masses[N], f64 time,
//! redshift and box size, i32 number of files, and in some versions two more integers (`io_header`
//! in its `snap_io.h`). N follows from the length of the record, 24 N + 32 or 24 N + 48.
//!
//! Reals are f32 or f64 and ids are u32 or u64, according to the length of the record. The byte
//! order is the one in which the first length is 256 or 8.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use orrery_model::{Particles, Species, Units, Vec3s, format_count};

use crate::cosmology::{Comoving, Conversion, CosmologyFields, Exponents};
use crate::error::Fault;
use crate::limits::{COLUMN_BYTES, Limits};
use crate::regular::open_input;
use crate::snapshot::Snapshot;
use crate::text::{self, byte_count};

const HEADER_BYTES: u32 = 256;
/// Largest number of types of particles in a file. Programs use up to 9.
pub const MAX_TYPES: usize = 32;
const LABEL_BYTES: u32 = 8;
/// Bytes per body: its columns, and its entry of the MASS block until all blocks are read.
const BODY_BYTES: u64 = COLUMN_BYTES + 8;
/// Largest number of blocks to search for the required ones. GADGET defines fewer than 50.
const MAX_BLOCKS: usize = 1000;
/// Bytes decoded at a time, a multiple of 8.
const WINDOW_BYTES: usize = 1 << 16;

/// Returns true if `head` can be the start of a GADGET binary file.
pub fn looks_like(head: &[u8]) -> bool {
    head.first_chunk::<4>().is_some_and(|&first| byte_order(first).is_some())
}

/// Returns two flags: the bytes are swapped (big-endian), and blocks have labels (format 2).
fn byte_order(first: [u8; 4]) -> Option<(bool, bool)> {
    let little = u32::from_le_bytes(first);
    let big = u32::from_be_bytes(first);
    match (little, big) {
        (HEADER_BYTES, _) => Some((false, false)),
        (_, HEADER_BYTES) => Some((true, false)),
        (LABEL_BYTES, _) => Some((false, true)),
        (_, LABEL_BYTES) => Some((true, true)),
        _ if types_of_gadget_4(little.into()).is_some() => Some((false, false)),
        _ if types_of_gadget_4(big.into()).is_some() => Some((true, false)),
        _ => None,
    }
}

/// Returns the number of types of a header of GADGET-4 with this length.
fn types_of_gadget_4(length: u64) -> Option<usize> {
    let types = |rest: u64| length.checked_sub(rest).filter(|types| types % 24 == 0).map(|bytes| bytes / 24);
    let types = types(32).or_else(|| types(48))? as usize;
    (1..=MAX_TYPES).contains(&types).then_some(types)
}

/// Reads the file at `path`.
pub fn read(path: &Path, limits: &Limits, comoving: Comoving) -> Result<Snapshot, Fault> {
    let mut records = Records::open(path)?;
    let header = Header::read(&mut records)?;
    let treatment = header.cosmology.treatment(comoving)?;
    let (mut bodies, own_masses) = read_blocks(&mut records, &header, limits)?;
    let mut own_masses = own_masses.into_iter();
    for (kind, &count) in header.counts.iter().enumerate() {
        let (species, shared) = (species_of_type(kind), header.mass_table[kind]);
        for _ in 0..count {
            bodies.species.push(species);
            bodies.mass.push(if shared == 0.0 { own_masses.next().unwrap_or(0.0) } else { shared });
        }
    }
    if let Some(conversion) = treatment.conversion {
        convert_to_physical(&mut bodies, conversion);
    }
    let time = treatment.time(header.time);
    let mut provenance = treatment.notes;
    provenance.extend(other_types_note(&header.counts));
    provenance.push((text::ASSUMED_UNITS.0.to_owned(), text::ASSUMED_UNITS.1.to_owned()));
    Ok(Snapshot { particles: bodies, time, step: 0, units: Units::Galactic, provenance })
}

fn convert_to_physical(bodies: &mut Particles, conversion: Conversion) {
    let Particles { position, velocity, mass, .. } = bodies;
    for (columns, exponents) in [(position, Exponents::POSITION), (velocity, Exponents::VELOCITY)] {
        let factor = conversion.factor(exponents);
        for column in [&mut columns.x, &mut columns.y, &mut columns.z] {
            column.iter_mut().for_each(|value| *value *= factor);
        }
    }
    let factor = conversion.factor(Exponents::MASS);
    mass.iter_mut().for_each(|mass| *mass *= factor);
}

/// Reads positions, velocities and ids, and the masses of the MASS block. Other blocks are skipped.
fn read_blocks(
    records: &mut Records,
    header: &Header,
    limits: &Limits,
) -> Result<(Particles, Vec<f64>), Fault> {
    let n = total_count(&header.counts)?;
    let own = header.mass_table.iter().zip(&header.counts).filter(|(mass, _)| **mass == 0.0);
    let mass_count = own.map(|(_, &count)| count).sum::<u64>();
    let mut bodies = Particles::default();
    let mut own_masses = Vec::new();
    let mut unlabelled = ["POS ", "VEL ", "ID  ", "MASS"].into_iter();
    let is_incomplete = |bodies: &Particles, masses: &[f64]| {
        bodies.position.is_empty()
            || bodies.velocity.is_empty()
            || bodies.id.is_empty()
            || (mass_count > 0 && masses.is_empty())
    };
    let mut blocks = 0;
    while n > 0 && is_incomplete(&bodies, &own_masses) {
        blocks += 1;
        if blocks > MAX_BLOCKS {
            let location = format!("first {MAX_BLOCKS} blocks");
            return Err(Fault::malformed(location, "not all required blocks", "POS, VEL, ID and MASS"));
        }
        let missing = || Fault::malformed("end of file", "no further block", "POS, VEL, ID and MASS");
        let label = match records.next_label()? {
            Label::Named(label) => label,
            Label::Unnamed => unlabelled.next().ok_or_else(missing)?.to_owned(),
            Label::EndOfFile => return Err(missing()),
        };
        let name = label.trim_end();
        let (count, seen) = match name {
            "POS" => (3 * n, !bodies.position.is_empty()),
            "VEL" => (3 * n, !bodies.velocity.is_empty()),
            "ID" => (n, !bodies.id.is_empty()),
            "MASS" if mass_count > 0 => (mass_count, !own_masses.is_empty()),
            _ => {
                records.skip_record()?;
                continue;
            }
        };
        if seen {
            return Err(Fault::malformed(format!("block {name}"), "a second one", "each block once"));
        }
        let block = records.open_numbers(name, count)?;
        // The file is long enough for this block, so the number of bodies is plausible.
        if bodies.mass.capacity() == 0 {
            bodies = limits.allocate_bodies(n, BODY_BYTES, 0)?;
        }
        match name {
            "POS" => records.read_vectors(&block, &mut bodies.position)?,
            "VEL" => records.read_vectors(&block, &mut bodies.velocity)?,
            "ID" => records.read_words(&block, |word| bodies.id.push(word))?,
            _ => {
                own_masses.reserve_exact(mass_count as usize);
                records.read_reals(&block, |mass| own_masses.push(mass))?;
            }
        }
        records.end_record(name, block.length)?;
    }
    Ok((bodies, own_masses))
}

/// Returns the number of bodies of all types, for which the length of a block is below 2^64.
fn total_count(counts: &[u64]) -> Result<u64, Fault> {
    let n = counts.iter().fold(0u64, |n, &count| n.saturating_add(count));
    if n > 1 << 58 {
        return Err(Fault::malformed("block HEAD", format!("{n} bodies"), "at most 2^58"));
    }
    Ok(n)
}

struct Header {
    /// Number of bodies of each type.
    counts: Vec<u64>,
    mass_table: Vec<f64>,
    time: f64,
    cosmology: CosmologyFields,
}

impl Header {
    fn read(records: &mut Records) -> Result<Self, Fault> {
        records.next_label()?;
        let length = records.next_length("HEAD")?;
        let types = types_of_gadget_4(length);
        if types.is_none() && length != u64::from(HEADER_BYTES) {
            let location = format!("block HEAD at byte {}", records.offset);
            let expected =
                format!("{}, or 24 N + 32 or 24 N + 48 for N types", byte_count(HEADER_BYTES.into()));
            return Err(Fault::malformed(location, byte_count(length), expected));
        }
        let bytes = records.read_content("HEAD", length)?;
        if let Some(types) = types {
            return Self::parse_gadget_4(&bytes, types, records.swapped);
        }
        let swapped = records.swapped;
        let int = |k: usize| u64::from(u32_at(&bytes, k, swapped));
        let real = |k: usize| f64::from_bits(u64_at(&bytes, k, swapped));
        let files = int(124);
        if files > 1 {
            return Err(Fault::malformed("block HEAD", format!("{files} files"), "1 file per snapshot"));
        }
        let [counts, totals] = [0, 96].map(|start| (0..6).map(|k| int(start + 4 * k)).collect::<Vec<_>>());
        check_totals("block HEAD", &totals, &counts)?;
        Ok(Self {
            counts,
            mass_table: (0..6).map(|k| real(24 + 8 * k)).collect(),
            time: real(72),
            cosmology: CosmologyFields {
                flag: None,
                time: Some(real(72)),
                redshift: Some(real(80)),
                box_size: Some(real(128)),
                omega0: Some(real(136)),
                hubble: Some(real(152)),
            },
        })
    }

    /// Reads a header of GADGET-4 with this number of types.
    fn parse_gadget_4(bytes: &[u8], types: usize, swapped: bool) -> Result<Self, Fault> {
        let column = |start: usize| (0..types).map(move |k| u64_at(bytes, start + 8 * k, swapped));
        let [counts, totals] = [0, 8 * types].map(|start| column(start).collect::<Vec<u64>>());
        let real = |k: usize| f64::from_bits(u64_at(bytes, 24 * types + 8 * k, swapped));
        let files = u32_at(bytes, 24 * types + 24, swapped);
        if files > 1 {
            return Err(Fault::malformed("block HEAD", format!("{files} files"), "1 file per snapshot"));
        }
        check_totals("block HEAD", &totals, &counts)?;
        let (time, redshift, box_size) = (real(0), Some(real(1)), Some(real(2)));
        let cosmology =
            CosmologyFields { flag: None, time: Some(time), redshift, box_size, omega0: None, hubble: None };
        Ok(Self { counts, mass_table: column(16 * types).map(f64::from_bits).collect(), time, cosmology })
    }
}

/// Returns the species of a type. Types from 6 on are collisionless, as the neutrinos of SWIFT.
pub fn species_of_type(kind: usize) -> Species {
    Species::ALL.get(kind).copied().unwrap_or(Species::Halo)
}

/// Returns the note about bodies of types that have no species.
pub fn other_types_note(counts: &[u64]) -> Option<(String, String)> {
    let others = counts.iter().enumerate().skip(Species::ALL.len()).filter(|(_, count)| **count > 0);
    let list: Vec<String> = others
        .map(|(kind, &count)| format!("{} of type {kind}", format_count(count, "body", "bodies")))
        .collect();
    let text = format!("{} read as halo, a collisionless species", list.join(", "));
    (!list.is_empty()).then(|| (text::OTHER_TYPES.to_owned(), text))
}

/// Returns an error if the snapshot has more bodies than this file, as a part of a snapshot in
/// several files has. Some programs leave the totals at 0.
pub fn check_totals(location: &str, totals: &[u64], counts: &[u64]) -> Result<(), Fault> {
    match totals.iter().zip(counts).position(|(total, count)| total > count) {
        None => Ok(()),
        Some(k) => {
            let got = format!("{} of type {k}", format_count(totals[k], "body", "bodies"));
            let expected = format!("the {} of this file: 1 file per snapshot", counts[k]);
            Err(Fault::malformed(location, got, expected))
        }
    }
}

enum Label {
    Named(String),
    Unnamed,
    EndOfFile,
}

/// Reader of the sequence of records. It tracks the offset in the file for messages.
struct Records {
    file: BufReader<File>,
    file_bytes: u64,
    offset: u64,
    swapped: bool,
    labelled: bool,
}

impl Records {
    fn open(path: &Path) -> Result<Self, Fault> {
        let (file, file_bytes) = open_input(path)?;
        let mut file = BufReader::new(file);
        let mut first = [0; 4];
        file.read_exact(&mut first)?;
        file.seek(SeekFrom::Start(0))?;
        let (swapped, labelled) = byte_order(first).ok_or_else(|| {
            let [a, b, c, d] = first;
            let got = format!("the bytes {a:02x} {b:02x} {c:02x} {d:02x}");
            Fault::malformed("byte 0", got, "the length of a record of 256 bytes, or of 8 (format 2)")
        })?;
        Ok(Self { file, file_bytes, offset: 0, swapped, labelled })
    }

    /// Reads the label of the next record.
    fn next_label(&mut self) -> Result<Label, Fault> {
        if self.offset == self.file_bytes {
            return Ok(Label::EndOfFile);
        }
        if !self.labelled {
            return Ok(Label::Unnamed);
        }
        let bytes = self.read_record("label", LABEL_BYTES)?;
        Ok(Label::Named(String::from_utf8_lossy(&bytes[..4]).into_owned()))
    }

    /// Reads the length of the next record and checks that the file is long enough for it.
    fn next_length(&mut self, name: &str) -> Result<u64, Fault> {
        let length = u64::from(self.read_marker()?);
        let left = self.file_bytes - self.offset;
        if length + 4 > left {
            let location = format!("block {name} at byte {}", self.offset);
            let got = format!("a length of {}", byte_count(length));
            return Err(Fault::malformed(
                location,
                got,
                format!("at most the {} left in the file", byte_count(left)),
            ));
        }
        Ok(length)
    }

    /// Reads the length before or after a record.
    fn read_marker(&mut self) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        self.file.read_exact(&mut bytes)?;
        self.offset += 4;
        Ok(u32_at(&bytes, 0, self.swapped))
    }

    /// Checks that the length after the record equals the one before it.
    fn end_record(&mut self, name: &str, length: u64) -> Result<(), Fault> {
        let end = u64::from(self.read_marker()?);
        if end == length {
            return Ok(());
        }
        let location = format!("end of block {name} at byte {}", self.offset - 4);
        let expected = format!("{length} as at the start of the block");
        Err(Fault::malformed(location, format!("length {end}"), expected))
    }

    /// Reads a record of exactly `length` bytes.
    fn read_record(&mut self, name: &str, length: u32) -> Result<Vec<u8>, Fault> {
        let length = u64::from(length);
        self.expect_length(name, |got| got == length, || byte_count(length))?;
        self.read_content(name, length)
    }

    /// Reads the rest of a record of `length` bytes, whose first length was read.
    fn read_content(&mut self, name: &str, length: u64) -> Result<Vec<u8>, Fault> {
        let mut bytes = vec![0; length as usize];
        self.file.read_exact(&mut bytes)?;
        self.offset += length;
        self.end_record(name, length)?;
        Ok(bytes)
    }

    /// Reads the length of the next record and checks that `fits` accepts it.
    fn expect_length(
        &mut self,
        name: &str,
        fits: impl Fn(u64) -> bool,
        expected: impl Fn() -> String,
    ) -> Result<u64, Fault> {
        let length = self.next_length(name)?;
        if !fits(length) {
            let location = format!("block {name} at byte {}", self.offset);
            return Err(Fault::malformed(location, byte_count(length), expected()));
        }
        Ok(length)
    }

    fn skip_record(&mut self) -> Result<(), Fault> {
        let length = self.next_length("(skipped)")?;
        self.file.seek_relative(length as i64)?;
        self.offset += length;
        self.end_record("(skipped)", length)
    }

    /// Starts a record of `n` numbers.
    fn open_numbers(&mut self, name: &str, n: u64) -> Result<Numbers, Fault> {
        let length = self.expect_length(
            name,
            |length| length == 4 * n || length == 8 * n,
            || format!("{} or {} ({} of 4 or 8 bytes)", 4 * n, 8 * n, format_count(n, "number", "numbers")),
        )?;
        Ok(Numbers { length, width: if length == 4 * n { 4 } else { 8 } })
    }

    /// Calls `each` with every number of the record, zero-extended from 4 to 8 bytes.
    fn read_words(&mut self, block: &Numbers, mut each: impl FnMut(u64)) -> Result<(), Fault> {
        let mut buffer = vec![0; WINDOW_BYTES];
        let mut left = block.length;
        while left > 0 {
            let window = &mut buffer[..left.min(WINDOW_BYTES as u64) as usize];
            self.file.read_exact(window)?;
            left -= window.len() as u64;
            self.offset += window.len() as u64;
            for number in window.chunks_exact(block.width) {
                each(match block.width {
                    4 => u64::from(u32_at(number, 0, self.swapped)),
                    _ => u64_at(number, 0, self.swapped),
                });
            }
        }
        Ok(())
    }

    fn read_reals(&mut self, block: &Numbers, mut each: impl FnMut(f64)) -> Result<(), Fault> {
        let narrow = block.width == 4;
        self.read_words(block, |word| {
            each(if narrow { f32::from_bits(word as u32).into() } else { f64::from_bits(word) });
        })
    }

    fn read_vectors(&mut self, block: &Numbers, column: &mut Vec3s) -> Result<(), Fault> {
        let mut axis = 0;
        self.read_reals(block, |value| {
            [&mut column.x, &mut column.y, &mut column.z][axis].push(value);
            axis = (axis + 1) % 3;
        })
    }
}

/// A record of numbers whose data come next in the file. `width` is the number of bytes per number.
struct Numbers {
    length: u64,
    width: usize,
}

fn u32_at(bytes: &[u8], offset: usize, swapped: bool) -> u32 {
    let word: [u8; 4] = bytes[offset..offset + 4].try_into().expect("the slice has four bytes");
    if swapped { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
}

fn u64_at(bytes: &[u8], offset: usize, swapped: bool) -> u64 {
    let word: [u8; 8] = bytes[offset..offset + 8].try_into().expect("the slice has eight bytes");
    if swapped { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) }
}
