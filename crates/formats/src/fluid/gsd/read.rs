//! Reading of the frames of a GSD file with the schema `hoomd`, versions 1 and 2.
//!
//! A chunk that a frame does not have is that of frame 0. The particles may have f32 or f64
//! numbers. The memory limit is checked against `particles/N` after the length of the positions has
//! confirmed it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use orrery_model::format_count;
use orrery_model::simulation_box::{BoxSides, SimulationBox};

use super::names::{FrameNames, check_names, possible_velocities};
use super::{ENTRY_BYTES, Entry, HEADER_BYTES, Header, NAME_UNIT_BYTES, SCHEMA, ValueType};
use crate::error::Fault;
use crate::fluid::builder::{Builder, open_box};
use crate::fluid::{FluidFile, MAX_SPECIES, quoted};
use crate::limits::Limits;
use crate::regular::open_input;

/// Largest list of names that is read. A list has at most 65535 names.
const MAX_NAMES_BYTES: u64 = 4 << 20;
/// Largest number of rows of a chunk that does not have one row per particle.
const MAX_ROWS: u64 = MAX_SPECIES as u64;
/// Chunks with numbers of interactions of more than two particles, or of given pairs.
const TOPOLOGY: [(&str, &str, &str); 6] = [
    ("bonds/N", "bond", "bonds"),
    ("angles/N", "angle", "angles"),
    ("dihedrals/N", "dihedral", "dihedrals"),
    ("impropers/N", "improper", "impropers"),
    ("constraints/N", "constraint", "constraints"),
    ("pairs/N", "special pair", "special pairs"),
];
/// Largest length of the text that describes the units.
const MAX_UNITS_BYTES: u64 = 4096;
/// Largest number of bytes of the name of a species.
const MAX_NAME_BYTES: u32 = 1024;

/// Largest number of frames in a row without any chunk. HOOMD writes such a frame if nothing has
/// changed since frame 0. A larger number belongs to a damaged index.
const MAX_EMPTY_FRAMES: u64 = 1_000_000;

/// Reads the last frame.
pub(in crate::fluid) fn read(path: &Path, limits: &Limits) -> Result<FluidFile, Fault> {
    let (names, mut index) = open(path)?;
    let (entries, number) = last_entries(&mut index)?;
    read_frame(&Frame { path, names: &names, entries, number }, limits)
}

/// All frames of a file, in their order.
pub(in crate::fluid) struct GsdFrames {
    path: PathBuf,
    names: Vec<String>,
    index: IndexReader,
    /// First entry of a frame that was not read yet.
    pending: Option<Entry>,
    /// Entries of frame 0.
    first: Vec<Entry>,
    /// Number of the next frame.
    next: u64,
}

impl GsdFrames {
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let (names, mut index) = open(path)?;
        let pending = index.next_entry()?;
        if pending.is_none() {
            return Err(Fault::malformed("index", "no frames", "at least one"));
        }
        Ok(Self { path: path.to_owned(), names, index, pending, first: Vec::new(), next: 0 })
    }

    /// Reads the next frame. Returns `None` after the last one.
    pub fn next_frame(&mut self, limits: &Limits) -> Result<Option<FluidFile>, Fault> {
        let Some(pending) = self.pending else { return Ok(None) };
        let number = self.next;
        if pending.frame > number + MAX_EMPTY_FRAMES {
            let expected = format!("at most {MAX_EMPTY_FRAMES} frames without chunks in a row");
            return Err(Fault::malformed(
                "index",
                format!("frame {} after {number}", pending.frame),
                expected,
            ));
        }
        let mut entries = self.first.clone();
        let earlier = entries.len();
        while let Some(entry) = self.pending.filter(|entry| entry.frame == number) {
            self.index.check_count(entries.len() - earlier)?;
            entries.push(entry);
            self.pending = self.index.next_entry()?;
        }
        if number == 0 {
            self.first.clone_from(&entries);
        }
        self.next += 1;
        let frame = Frame { path: &self.path, names: &self.names, entries, number };
        read_frame(&frame, limits).map(Some)
    }
}

/// Reads one frame.
fn read_frame(frame: &Frame<'_>, limits: &Limits) -> Result<FluidFile, Fault> {
    let dimensions = match frame.first_number("configuration/dimensions")? {
        None => 3,
        Some(number) if number == 2.0 || number == 3.0 => number as usize,
        Some(number) => {
            return Err(Fault::malformed("configuration/dimensions", number.to_string(), "2 or 3"));
        }
    };
    let given = read_box(frame, dimensions)?;
    let position = frame.chunk("particles/position").ok_or_else(|| {
        Fault::malformed("particles/position", "nothing", "the positions of this frame or of frame 0")
    })?;
    let n = frame.first_number("particles/N")?.unwrap_or(0.0) as u64;
    frame.check_shape("particles/position", position, n, 3)?;
    let names = read_species_names(frame)?;
    let mut builder = Builder::new(limits, n, names)?;
    read_particles(frame, &given, n, &mut builder)?;
    let bounds = match given.sides {
        BoxSides::Periodic => given,
        BoxSides::Open => open_box(Some(given), dimensions, &builder.coordinates),
    };
    let masses = frame.small_column("log/orrery/species_mass")?;
    let step = frame.first_integer("configuration/step")?;
    let time = frame.first_number("log/orrery/time")?;
    let units = read_units(frame)?;
    let (stated_dimensions, ignored) = (Some(dimensions), ignored_parts(frame, n)?);
    let fluid = builder.finish(bounds, masses, step, time);
    Ok(FluidFile { units, stated_dimensions, ignored, ..fluid })
}

/// Reads the box. Without the chunks of Orrery it is periodic and centred at the origin.
fn read_box(frame: &Frame<'_>, dimensions: usize) -> Result<SimulationBox, Fault> {
    let name = "configuration/box";
    let numbers = frame.small_column(name)?.unwrap_or(vec![1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    let [a, b, c, xy, xz, yz] = numbers[..] else {
        return Err(Fault::malformed(name, format!("{} numbers", numbers.len()), "6 numbers"));
    };
    if [xy, xz, yz] != [0.0; 3] {
        let got = format!("the tilt factors {xy}, {xz} and {yz}");
        return Err(Fault::malformed(name, got, "0: a box with right angles"));
    }
    let vector = |name: &'static str| {
        let column = frame.small_column(name)?.map(<[f64; 3]>::try_from);
        let fault = |found: Vec<f64>| Fault::malformed(name, format!("{} numbers", found.len()), "3 numbers");
        column.transpose().map_err(fault)
    };
    let mut lengths = vector("log/orrery/lengths")?.unwrap_or([a, b, c]);
    if dimensions == 2 {
        lengths[2] = 1.0;
    }
    let origin = vector("log/orrery/origin")?.unwrap_or(lengths.map(|length| -0.5 * length));
    let periodic = vector("log/orrery/periodic")?.unwrap_or([1.0; 3]);
    let sides = if periodic[0] == 0.0 { BoxSides::Open } else { BoxSides::Periodic };
    let bounds = SimulationBox { origin, lengths, sides, dimensions };
    bounds.validate().map_err(Fault::Box)?;
    Ok(bounds)
}

/// Describes what the frame has beside particles without shape and charge.
fn ignored_parts(frame: &Frame<'_>, n: u64) -> Result<Vec<String>, Fault> {
    let mut parts: Vec<String> = possible_velocities(frame.names).into_iter().collect();
    for (name, one, many) in TOPOLOGY {
        let count = frame.first_number(name)?.unwrap_or(0.0);
        if count > 0.0 {
            parts.push(format_count(count as u64, one, many));
        }
    }
    let mut count_where = |name: &'static str, one: &str, many: &str, counts: fn(f64) -> bool| {
        let mut values = frame.values(name, n, 1)?;
        if !values.is_some() {
            return Ok(());
        }
        let mut found = 0;
        for _ in 0..n {
            found += u64::from(counts(values.next_number()?));
        }
        if found > 0 {
            parts.push(format_count(found, one, many));
        }
        Ok::<(), Fault>(())
    };
    count_where("particles/charge", "charge", "charges", |charge| charge != 0.0)?;
    count_where("particles/body", "particle of a rigid body", "particles of rigid bodies", |body| {
        (0.0..f64::from(u32::MAX)).contains(&body)
    })?;
    Ok(parts)
}

/// Reads the units, which files of other programs do not have.
fn read_units(frame: &Frame<'_>) -> Result<Option<BTreeMap<String, String>>, Fault> {
    let text_of =
        |entry: &Entry| entry.kind.bytes() == 1 && entry.length().is_some_and(|n| n <= MAX_UNITS_BYTES);
    let Some(entry) = frame.chunk("log/orrery/units").filter(text_of) else { return Ok(None) };
    let mut bytes = Vec::new();
    frame.reader(entry)?.read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes).ok())
}

/// Reads `particles/types`: one name per row, which ends at the first NUL. The default is `A`.
fn read_species_names(frame: &Frame<'_>) -> Result<Vec<String>, Fault> {
    let name = "particles/types";
    let Some(entry) = frame.chunk(name) else { return Ok(vec!["A".to_owned()]) };
    if entry.kind.bytes() != 1 || entry.columns > MAX_NAME_BYTES || entry.rows > MAX_SPECIES as u64 {
        let got = format!("{} x {} values of type {:?}", entry.rows, entry.columns, entry.kind);
        let expected = format!("at most {MAX_SPECIES} names of at most {MAX_NAME_BYTES} bytes");
        return Err(Fault::malformed(name, got, expected));
    }
    let mut bytes = vec![0; (entry.rows * u64::from(entry.columns)) as usize];
    frame.reader(entry)?.read_exact(&mut bytes)?;
    let text = |row: &[u8]| {
        let end = row.iter().position(|&byte| byte == 0).unwrap_or(row.len());
        let text = String::from_utf8(row[..end].to_vec());
        text.map_err(|_| Fault::malformed(name, "bytes that are not UTF-8", "names"))
    };
    bytes.chunks_exact(entry.columns as usize).map(text).collect()
}

/// Reads all columns of the particles.
fn read_particles(
    frame: &Frame<'_>,
    bounds: &SimulationBox,
    n: u64,
    builder: &mut Builder,
) -> Result<(), Fault> {
    let mut position = frame.values("particles/position", n, 3)?;
    let mut velocity = frame.values("particles/velocity", n, 3)?;
    let mut image = frame.values("particles/image", n, 3)?;
    let mut type_id = frame.values("particles/typeid", n, 1)?;
    let mut mass = frame.values("particles/mass", n, 1)?;
    let mut ids = frame.values("log/particles/orrery/id", n, 1)?;
    builder.reserve(velocity.is_some(), image.is_some())?;
    let centre = [0, 1, 2].map(|axis: usize| match axis < bounds.dimensions {
        true => bounds.origin[axis] + 0.5 * bounds.lengths[axis],
        false => 0.0,
    });
    let species_count = builder.species_count();
    for k in 0..n {
        let mut coordinates = finite_vector(&mut position, "particles/position", k)?;
        for axis in 0..3 {
            coordinates[axis] += centre[axis];
        }
        let velocity = finite_vector(&mut velocity, "particles/velocity", k)?;
        let mut images = [0; 3];
        for value in &mut images {
            let got = image.next_integer()?;
            *value = i32::try_from(got)
                .map_err(|_| Fault::malformed("particles/image", got.to_string(), "integers of 32 bits"))?;
        }
        let species = type_id.next_integer()?;
        let species =
            u8::try_from(species).ok().filter(|&s| usize::from(s) < species_count).ok_or_else(|| {
                let expected = format!("less than {species_count}, the number of names in particles/types");
                Fault::malformed("particles/typeid", species.to_string(), expected)
            })?;
        let found = mass.next_number()?;
        if mass.is_some() {
            if !found.is_finite() {
                return Err(Fault::malformed("particles/mass", found.to_string(), "finite numbers"));
            }
            builder
                .set_mass(species, found)
                .map_err(|(got, expected)| Fault::malformed("particles/mass", got, expected))?;
        }
        let id = if ids.is_some() { ids.next_unsigned()? } else { k };
        builder.push(coordinates, velocity, images, species, id);
    }
    Ok(())
}

/// Returns the next three values, or zeros if there is no chunk.
fn finite_vector(values: &mut Values, name: &str, particle: u64) -> Result<[f64; 3], Fault> {
    let vector = [values.next_number()?, values.next_number()?, values.next_number()?];
    match vector.iter().find(|value| !value.is_finite()) {
        Some(value) => {
            Err(Fault::malformed(name, format!("{value} of particle {particle}"), "finite numbers"))
        }
        None => Ok(vector),
    }
}

/// A frame of a file.
struct Frame<'a> {
    path: &'a Path,
    names: &'a [String],
    /// Entries of frame 0 and of this frame.
    entries: Vec<Entry>,
    number: u64,
}

impl Frame<'_> {
    /// Returns the chunk of this frame, or that of frame 0.
    fn chunk(&self, name: &str) -> Option<Entry> {
        let name = self.names.iter().position(|known| known == name)?;
        let of_frame = |frame: u64| {
            self.entries.iter().rev().find(|e| e.frame == frame && usize::from(e.name) == name).copied()
        };
        of_frame(self.number).or_else(|| of_frame(0))
    }

    /// Returns a reader of a chunk. Each has an open file, because columns are read side by side.
    fn reader(&self, entry: Entry) -> Result<std::io::Take<BufReader<File>>, Fault> {
        let (mut file, _) = open_input(self.path)?;
        file.seek(SeekFrom::Start(entry.location))?;
        Ok(BufReader::with_capacity(1 << 18, file).take(entry.end() - entry.location))
    }

    fn check_shape(&self, name: &str, entry: Entry, rows: u64, columns: u32) -> Result<(), Fault> {
        if (entry.rows, entry.columns) == (rows, columns) {
            return Ok(());
        }
        let got = format!("{} x {} values", entry.rows, entry.columns);
        Err(Fault::malformed(name, got, format!("{rows} x {columns} values")))
    }

    /// Returns the values of a chunk with `rows` rows. A chunk of frame 0 with another number of
    /// rows belongs to other particles and does not count.
    fn values(&self, name: &'static str, rows: u64, columns: u32) -> Result<Values, Fault> {
        let Some(entry) = self.chunk(name) else { return Ok(Values { name, source: None }) };
        if entry.rows != rows && entry.frame != self.number {
            return Ok(Values { name, source: None });
        }
        self.check_shape(name, entry, rows, columns)?;
        Ok(Values { name, source: Some((entry.kind, self.reader(entry)?)) })
    }

    /// Returns a chunk with one column and few rows.
    fn small_column(&self, name: &'static str) -> Result<Option<Vec<f64>>, Fault> {
        let Some(entry) = self.chunk(name) else { return Ok(None) };
        if entry.rows > MAX_ROWS || entry.columns != 1 {
            let got = format!("{} x {} values", entry.rows, entry.columns);
            return Err(Fault::malformed(name, got, format!("at most {MAX_ROWS} values")));
        }
        let mut values = self.values(name, entry.rows, 1)?;
        (0..entry.rows).map(|_| values.next_number()).collect::<Result<_, _>>().map(Some)
    }

    fn first_number(&self, name: &'static str) -> Result<Option<f64>, Fault> {
        Ok(self.small_column(name)?.and_then(|column| column.first().copied()))
    }

    /// Returns the first value of a chunk of unsigned integers.
    fn first_integer(&self, name: &'static str) -> Result<Option<u64>, Fault> {
        let Some(entry) = self.chunk(name).filter(|entry| entry.rows > 0) else { return Ok(None) };
        self.values(name, entry.rows, entry.columns)?.next_unsigned().map(Some)
    }
}

fn check_versions(header: &Header) -> Result<(), Fault> {
    let major = header.layer_version >> 16;
    if !(1..=2).contains(&major) {
        return Err(Fault::malformed("version", format!("{major}"), "1 or 2"));
    }
    let schema_major = header.schema_version >> 16;
    if header.schema != SCHEMA || !(1..=2).contains(&schema_major) {
        let got = format!("{} {schema_major}", quoted(&header.schema));
        return Err(Fault::malformed("schema", got, "'hoomd' 1 or 2"));
    }
    Ok(())
}

/// Reads the list of names. Version 1 fills each name up to 64 bytes, version 2 does not.
fn read_names(file: &mut File, header: &Header) -> Result<Vec<String>, Fault> {
    let length = header.names_units * NAME_UNIT_BYTES;
    if length > MAX_NAMES_BYTES {
        let expected = format!("at most {MAX_NAMES_BYTES}");
        return Err(Fault::malformed("names", format!("{length} bytes"), expected));
    }
    file.seek(SeekFrom::Start(header.names_location))?;
    let mut bytes = vec![0; length as usize];
    file.read_exact(&mut bytes)?;
    let names = bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Entries of the index, read one after the other.
struct IndexReader {
    source: BufReader<File>,
    /// Number of the next entry.
    next: u64,
    /// Number of entries, of which the last ones may be empty.
    count: u64,
    file_bytes: u64,
    /// Number of names in the file.
    names: usize,
    /// Frame of the entry before.
    frame: u64,
    frame_names: FrameNames,
}

impl IndexReader {
    fn fault(&self, got: String, expected: String) -> Fault {
        Fault::malformed(format!("entry {} of the index", self.next.saturating_sub(1)), got, expected)
    }

    /// Returns the next entry, whose frame is that of the entry before or a later one.
    fn next_entry(&mut self) -> Result<Option<Entry>, Fault> {
        if self.next == self.count {
            return self.check_end().map(|()| None);
        }
        let mut bytes = [0; ENTRY_BYTES as usize];
        self.source.read_exact(&mut bytes)?;
        let parsed = Entry::parse(&bytes, self.next, self.file_bytes)?;
        self.next += 1;
        let Some(entry) = parsed else {
            self.count = self.next;
            return self.check_end().map(|()| None);
        };
        if usize::from(entry.name) >= self.names {
            return Err(self.fault(format!("name {}", entry.name), format!("one of {} names", self.names)));
        }
        if entry.frame < self.frame {
            let expected = format!("frame {} or a later one", self.frame);
            return Err(self.fault(format!("frame {}", entry.frame), expected));
        }
        self.frame = entry.frame;
        let checked = self.frame_names.check(&entry);
        checked.map_err(|(got, expected)| self.fault(got, expected))?;
        Ok(Some(entry))
    }

    fn check_end(&self) -> Result<(), Fault> {
        match self.next {
            0 => Ok(()),
            _ => self.frame_names.end_frame().map_err(|(got, expected)| self.fault(got, expected)),
        }
    }

    /// Checks that a frame with `entries` entries can have another one. Each frame has a name at
    /// most once.
    fn check_count(&self, entries: usize) -> Result<(), Fault> {
        if entries < self.names {
            return Ok(());
        }
        Err(self.fault("more chunks than names".to_owned(), "each name once per frame".to_owned()))
    }
}

/// Opens a file and returns the names of its chunks and its index.
fn open(path: &Path) -> Result<(Vec<String>, IndexReader), Fault> {
    let (mut file, file_bytes) = open_input(path)?;
    let mut bytes = [0; HEADER_BYTES as usize];
    file.read_exact(&mut bytes)?;
    let header = Header::parse(&bytes, file_bytes)?;
    check_versions(&header)?;
    let names = read_names(&mut file, &header)?;
    check_names(&header, &names)?;
    file.seek(SeekFrom::Start(header.index_location))?;
    let index = IndexReader {
        source: BufReader::with_capacity(1 << 18, file),
        next: 0,
        count: header.index_entries,
        file_bytes,
        names: names.len(),
        frame: 0,
        frame_names: FrameNames::new(&header, names.len()),
    };
    Ok((names, index))
}

/// Reads the entries of frame 0 and of the last frame, and the number of the last frame.
fn last_entries(index: &mut IndexReader) -> Result<(Vec<Entry>, u64), Fault> {
    let (mut first, mut latest): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
    while let Some(entry) = index.next_entry()? {
        if latest.last().is_some_and(|last| last.frame < entry.frame) {
            latest.clear();
        }
        let frame_entries = if entry.frame == 0 { &mut first } else { &mut latest };
        index.check_count(frame_entries.len())?;
        frame_entries.push(entry);
    }
    let Some(last) = latest.last().or(first.last()).map(|entry| entry.frame) else {
        return Err(Fault::malformed("index", "no frames", "at least one"));
    };
    first.append(&mut latest);
    Ok((first, last))
}

/// Values of a chunk, read one after the other. Without a chunk they are 0.
struct Values {
    name: &'static str,
    source: Option<(ValueType, std::io::Take<BufReader<File>>)>,
}

impl Values {
    fn is_some(&self) -> bool {
        self.source.is_some()
    }

    /// Reads the bytes of the next value, filled up with zeros.
    fn next_bytes(&mut self) -> Result<Option<(ValueType, [u8; 8])>, Fault> {
        let Some((kind, source)) = &mut self.source else { return Ok(None) };
        let mut bytes = [0; 8];
        source.read_exact(&mut bytes[..kind.bytes() as usize])?;
        Ok(Some((*kind, bytes)))
    }

    fn next_number(&mut self) -> Result<f64, Fault> {
        let Some((kind, bytes)) = self.next_bytes()? else { return Ok(0.0) };
        let [a, b, c, d, ..] = bytes;
        Ok(match kind {
            ValueType::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
            ValueType::F64 => f64::from_le_bytes(bytes),
            _ => integer(kind, bytes) as f64,
        })
    }

    fn next_integer(&mut self) -> Result<i128, Fault> {
        match self.next_bytes()? {
            None => Ok(0),
            Some((ValueType::F32 | ValueType::F64, _)) => {
                Err(Fault::malformed(self.name, "floating-point numbers", "integers"))
            }
            Some((kind, bytes)) => Ok(integer(kind, bytes)),
        }
    }

    fn next_unsigned(&mut self) -> Result<u64, Fault> {
        let got = self.next_integer()?;
        u64::try_from(got).map_err(|_| Fault::malformed(self.name, got.to_string(), "integers >= 0"))
    }
}

/// Returns an integer of any type.
fn integer(kind: ValueType, bytes: [u8; 8]) -> i128 {
    let [a, b, c, d, ..] = bytes;
    match kind {
        ValueType::I8 => i128::from(a as i8),
        ValueType::I16 => i128::from(i16::from_le_bytes([a, b])),
        ValueType::I32 => i128::from(i32::from_le_bytes([a, b, c, d])),
        ValueType::I64 => i128::from(i64::from_le_bytes(bytes)),
        // The bytes above the value are zero.
        _ => i128::from(u64::from_le_bytes(bytes)),
    }
}
