//! NPZ: a zip archive of numpy arrays, which `numpy.load` opens without pickle.
//!
//! | array | shape, type | |
//! |---|---|---|
//! | position, velocity | (n, 3) f64 | |
//! | mass | (n) f64 | |
//! | id | (n) u64 | default: 0, 1, 2, ... |
//! | species | (n) u8 | GADGET's type, default 1 (halo) |
//! | time, step | () f64, u64 | |
//! | units | () text | default: galactic |
//! | provenance | (bytes) u8 | UTF-8 JSON: [[name, text], ...] |
//!
//! Entries are stored without compression, because the low bits of the values are noise.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use orrery_model::{Species, Units, Vec3s};
use zip::read::ZipFile;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::error::{Fault, IoError};
use crate::limits::{COLUMN_BYTES, Limits, MAX_PROVENANCE_BYTES, check_provenance};
use crate::metered::{Budget, Metered};
use crate::npy::{self, Array};
use crate::regular::open_input;
use crate::snapshot::Snapshot;
use crate::storage::replace_file;
use crate::text::{self, byte_count};

/// Largest compression ratio of deflate: 258 bytes take at least two bits.
const MAX_COMPRESSION: u64 = 1032;
/// Bytes that may be read to find and read the directory, enough for 10,000 entries.
const DIRECTORY_BYTES: u64 = 1 << 20;
/// Arrays without a default.
const REQUIRED_ARRAYS: [&str; 3] = ["position", "velocity", "mass"];
const REQUIRED_TEXT: &str = "position (n, 3), velocity (n, 3) and mass (n)";
/// Largest number of arrays that a message lists.
const MAX_NAMES_IN_MESSAGE: usize = 20;
const INTACT: &str = "an intact zip archive";

/// An array to write.
#[derive(Clone, Copy, Debug)]
pub enum NpzArray<'a> {
    /// One f64, shape ().
    Real(f64),
    /// One u64, shape ().
    Integer(u64),
    /// One text, shape ().
    Text(&'a str),
    /// A column of f64.
    Reals(&'a [f64]),
    /// A column of u64.
    Integers(&'a [u64]),
    /// A column of bytes.
    Bytes(&'a [u8]),
    /// A column of vectors, f64, shape (n, 3).
    Vectors(&'a Vec3s),
}

impl NpzArray<'_> {
    fn write_to(&self, sink: &mut impl Write) -> std::io::Result<()> {
        match *self {
            Self::Real(value) => {
                npy::write_header(sink, "<f8", &[])?;
                sink.write_all(&value.to_le_bytes())
            }
            Self::Integer(value) => {
                npy::write_header(sink, "<u8", &[])?;
                sink.write_all(&value.to_le_bytes())
            }
            Self::Text(text) => {
                // numpy does not support text of width 0.
                let width = text.chars().count().max(1);
                npy::write_header(sink, &format!("<U{width}"), &[])?;
                let padded = text.chars().map(u32::from).chain(std::iter::repeat(0)).take(width);
                padded.into_iter().try_for_each(|point| sink.write_all(&point.to_le_bytes()))
            }
            Self::Reals(values) => {
                npy::write_header(sink, "<f8", &[values.len()])?;
                values.iter().try_for_each(|value| sink.write_all(&value.to_le_bytes()))
            }
            Self::Integers(values) => {
                npy::write_header(sink, "<u8", &[values.len()])?;
                values.iter().try_for_each(|value| sink.write_all(&value.to_le_bytes()))
            }
            Self::Bytes(values) => {
                npy::write_header(sink, "|u1", &[values.len()])?;
                sink.write_all(values)
            }
            Self::Vectors(values) => {
                npy::write_header(sink, "<f8", &[values.len(), 3])?;
                values.iter().flatten().try_for_each(|value| sink.write_all(&value.to_le_bytes()))
            }
        }
    }

    /// Upper bound of the length of the `.npy` file.
    fn max_bytes(&self) -> usize {
        let data = match self {
            Self::Real(_) | Self::Integer(_) => 8,
            Self::Text(text) => 4 * text.len(),
            Self::Reals(values) => 8 * values.len(),
            Self::Integers(values) => 8 * values.len(),
            Self::Bytes(values) => values.len(),
            Self::Vectors(values) => 24 * values.len(),
        };
        data + 256
    }
}

/// Writes arrays to a file that `numpy.load` opens. The write is atomic.
pub fn write_npz_arrays(path: &Path, arrays: &[(&str, NpzArray)]) -> Result<(), IoError> {
    replace_file(path, |file| write_arrays(file, arrays))
}

fn write_arrays(sink: &mut (impl Write + Seek), arrays: &[(&str, NpzArray)]) -> Result<(), Fault> {
    let mut archive = ZipWriter::new(sink);
    for (name, array) in arrays {
        if let Err(fault) = add_array(&mut archive, name, array) {
            // Dropping an unfinished archive would write again, and print to stderr if the disk is
            // full.
            std::mem::forget(archive);
            return Err(fault);
        }
    }
    archive.finish().map_err(|error| zip_fault("directory", error))?;
    Ok(())
}

fn add_array<W: Write + Seek>(archive: &mut ZipWriter<W>, name: &str, array: &NpzArray) -> Result<(), Fault> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(array.max_bytes() >= u32::MAX as usize);
    archive.start_file(format!("{name}.npy"), options).map_err(|error| zip_fault(name, error))?;
    // The archive does not buffer, and values are written eight bytes at a time.
    let mut buffered = BufWriter::with_capacity(1 << 20, archive);
    array.write_to(&mut buffered)?;
    buffered.flush()?;
    Ok(())
}

/// Writes a snapshot to `sink`.
pub fn write(sink: &mut (impl Write + Seek), snapshot: &Snapshot) -> Result<(), Fault> {
    let bodies = &snapshot.particles;
    let species: Vec<u8> = bodies.species.iter().map(|&s| s as u8).collect();
    let units = text::format_units(snapshot.units);
    let provenance = serde_json::to_vec(&snapshot.provenance)
        .map_err(|error| Fault::malformed("provenance", error.to_string(), "text"))?;
    check_provenance(provenance.len() as u64, snapshot.provenance.len())?;
    write_arrays(
        sink,
        &[
            ("position", NpzArray::Vectors(&bodies.position)),
            ("velocity", NpzArray::Vectors(&bodies.velocity)),
            ("mass", NpzArray::Reals(&bodies.mass)),
            ("id", NpzArray::Integers(&bodies.id)),
            ("species", NpzArray::Bytes(&species)),
            ("time", NpzArray::Real(snapshot.time)),
            ("step", NpzArray::Integer(snapshot.step)),
            ("units", NpzArray::Text(&units)),
            ("provenance", NpzArray::Bytes(&provenance)),
        ],
    )
}

/// Reads the file at `path`.
///
/// Only the arrays of the table above are unpacked. Each is unpacked after its header has been
/// checked against the number of bodies in `position`.
pub fn read(path: &Path, limits: &Limits) -> Result<Snapshot, Fault> {
    let mut source = Source::open(path)?;
    let position = source.required_array("position")?;
    let n = position.row_count()?;
    let mut bodies = limits.allocate_bodies(n, COLUMN_BYTES, 0)?;
    position.read_vectors(&mut bodies.position)?;
    let velocity = source.required_array("velocity")?;
    Fault::check_length("array velocity", velocity.row_count()?, n)?;
    velocity.read_vectors(&mut bodies.velocity)?;
    let mass = source.required_array("mass")?;
    Fault::check_length("array mass", mass.entry_count(), n)?;
    mass.read_reals(|value| bodies.mass.push(value))?;
    match source.optional_array("id")? {
        Some(array) => {
            Fault::check_length("array id", array.entry_count(), n)?;
            array.read_integers(|id| {
                bodies.id.push(id);
                Ok(())
            })?;
        }
        None => bodies.id.extend(0..n),
    }
    match source.optional_array("species")? {
        Some(array) => {
            Fault::check_length("array species", array.entry_count(), n)?;
            array.read_integers(|kind| {
                bodies.species.push(species_from_number(kind)?);
                Ok(())
            })?;
        }
        None => bodies.species.resize(n as usize, Species::default()),
    }
    let (time, step) = read_time_and_step(&mut source)?;
    let mut provenance = read_provenance(&mut source)?;
    let units = read_units(&mut source)?.unwrap_or_else(|| {
        provenance.push((text::ASSUMED_UNITS.0.to_owned(), text::ASSUMED_UNITS.1.to_owned()));
        Units::Galactic
    });
    Ok(Snapshot { particles: bodies, time, step, units, provenance })
}

/// Returns time and step. Both default to 0.
fn read_time_and_step(source: &mut Source) -> Result<(f64, u64), Fault> {
    let (mut time, mut step) = (0.0, 0);
    if let Some(array) = source.optional_scalar("time")? {
        array.read_reals(|value| time = value)?;
    }
    if let Some(array) = source.optional_scalar("step")? {
        array.read_integers(|value| {
            step = value;
            Ok(())
        })?;
    }
    Ok((time, step))
}

fn read_provenance(source: &mut Source) -> Result<Vec<(String, String)>, Fault> {
    let Some(array) = source.optional_array("provenance")? else { return Ok(Vec::new()) };
    let bytes = array.read_bytes(MAX_PROVENANCE_BYTES)?;
    let provenance: Vec<(String, String)> = serde_json::from_slice(&bytes).map_err(|error| {
        let got = format!("a parse error at line {} column {}", error.line(), error.column());
        Fault::malformed("array provenance", got, "JSON [[name, text], ...]")
    })?;
    check_provenance(0, provenance.len())?;
    Ok(provenance)
}

fn read_units(source: &mut Source) -> Result<Option<Units>, Fault> {
    let Some(array) = source.optional_array("units")? else { return Ok(None) };
    let name = array.read_text()?;
    let units = text::parse_units(&name).ok_or_else(|| {
        let got = format!("'{}'", text::shorten_for_message(&name, text::MAX_QUOTED_CHARS));
        Fault::malformed("array units", got, text::UNITS_EXPECTED)
    })?;
    Ok(Some(units))
}

fn species_from_number(kind: u64) -> Result<Species, Fault> {
    let known = usize::try_from(kind).ok().and_then(|kind| Species::ALL.get(kind));
    known.copied().ok_or_else(|| Fault::malformed("array species", kind.to_string(), "0 to 5"))
}

type Entry<'a> = ZipFile<'a, BufReader<Metered<File>>>;

/// An open archive. `budget` limits the bytes that may be read from the file.
struct Source {
    archive: ZipArchive<BufReader<Metered<File>>>,
    budget: Budget,
    file_bytes: u64,
}

impl Source {
    fn open(path: &Path) -> Result<Self, Fault> {
        let (mut file, file_bytes) = open_input(path)?;
        check_directory(&mut file, file_bytes)?;
        let budget = Budget::default();
        budget.refill(DIRECTORY_BYTES);
        let metered = BufReader::new(Metered { inner: file, budget: budget.clone() });
        let archive = ZipArchive::new(metered).map_err(|error| zip_fault("directory", error))?;
        Ok(Self { archive, budget, file_bytes })
    }

    /// Returns the error for an archive without all required arrays. It names all missing ones
    /// together with those found.
    fn missing_arrays(&self) -> Fault {
        let names = self.archive.file_names().filter_map(Result::ok);
        let mut found: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".npy").map(str::to_owned)).collect();
        found.sort_unstable();
        let missing: Vec<&str> =
            REQUIRED_ARRAYS.into_iter().filter(|name| !found.iter().any(|entry| entry == name)).collect();
        let quoted = |name: &String| text::shorten_for_message(name, text::MAX_QUOTED_CHARS);
        let mut names: Vec<String> = found.iter().take(MAX_NAMES_IN_MESSAGE).map(quoted).collect();
        if found.len() > names.len() {
            names.push(format!("{} more", found.len() - names.len()));
        }
        let got =
            if names.is_empty() { "no arrays".to_owned() } else { format!("only {}", names.join(", ")) };
        let noun = if missing.len() == 1 { "array" } else { "arrays" };
        Fault::malformed(format!("{noun} {}", missing.join(", ")), got, REQUIRED_TEXT)
    }

    fn required_array(&mut self, name: &str) -> Result<Array<Entry<'_>>, Fault> {
        // Built in advance, because an open array borrows the archive.
        let missing = self.missing_arrays();
        self.optional_array(name)?.ok_or(missing)
    }

    /// Opens an array of one value, if the archive has it.
    fn optional_scalar(&mut self, name: &str) -> Result<Option<Array<Entry<'_>>>, Fault> {
        let array = self.optional_array(name)?;
        match &array {
            Some(array) if array.entry_count() != 1 => {
                let got = format!("shape {:?}", array.shape());
                Err(Fault::malformed(format!("array {name}"), got, "one number"))
            }
            _ => Ok(array),
        }
    }

    /// Opens an array, if the archive has it. Rejects sizes that deflate cannot reach.
    fn optional_array(&mut self, name: &str) -> Result<Option<Array<Entry<'_>>>, Fault> {
        self.budget.refill(self.file_bytes.saturating_add(DIRECTORY_BYTES));
        let entry = match self.archive.by_name(&format!("{name}.npy")) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(zip_fault(name, error)),
        };
        let (size, packed) = (entry.size(), entry.compressed_size());
        if size > MAX_COMPRESSION.saturating_mul(packed.min(self.file_bytes)) {
            let (got, expected) = (
                format!("{} from {packed}", byte_count(size)),
                format!("a compression of at most 1:{MAX_COMPRESSION}"),
            );
            return Err(Fault::malformed(format!("array {name}"), got, expected));
        }
        Array::open(name, entry, size).map(Some)
    }
}

/// Rejects ZIP64 directories with an implausible number of entries.
///
/// A ZIP64 directory can claim 2^64 entries, for which the zip reader would allocate memory. Its
/// locator is directly before the end record, which is among the last bytes of the file.
fn check_directory(file: &mut File, file_bytes: u64) -> Result<(), Fault> {
    const COMMENT_BYTES: u64 = 1 << 16;
    let tail_bytes = file_bytes.min(2 * COMMENT_BYTES + 256);
    let tail_start = file_bytes - tail_bytes;
    file.seek(SeekFrom::Start(tail_start))?;
    let mut tail = Vec::new();
    file.take(tail_bytes).read_to_end(&mut tail)?;
    file.seek(SeekFrom::Start(0))?;

    let offsets_of = |signature: &'static [u8; 4]| {
        tail.windows(4).enumerate().filter(move |(_, bytes)| *bytes == signature).map(|(at, _)| at)
    };
    let number = |at: usize| tail.get(at..)?.first_chunk().map(|&bytes| u64::from_le_bytes(bytes));
    let mut locators = offsets_of(b"PK\x06\x07")
        .filter(|&at| tail.get(at + 20..).is_some_and(|end| end.starts_with(b"PK\x05\x06")));
    let is_far = |at: usize| {
        let here = tail_start + at as u64;
        number(at + 8).is_none_or(|record| record.saturating_add(COMMENT_BYTES) < here)
    };
    let mut has_locator = false;
    if locators.any(|at| {
        has_locator = true;
        is_far(at)
    }) {
        return Err(Fault::malformed("archive", "a ZIP64 record far from its locator", INTACT));
    }
    let max_entries = u64::from(u16::MAX);
    match offsets_of(b"PK\x06\x06")
        .filter_map(|at| number(at + 32))
        .find(|&count| has_locator && count > max_entries)
    {
        Some(count) => {
            Err(Fault::malformed("archive", format!("{count} entries"), format!("at most {max_entries}")))
        }
        None => Ok(()),
    }
}

fn zip_fault(name: &str, error: ZipError) -> Fault {
    match error {
        ZipError::Io(error) if error.kind() == ErrorKind::InvalidData => {
            Fault::malformed(format!("archive, {name}"), error.to_string(), INTACT)
        }
        ZipError::Io(error) if error.kind() != ErrorKind::UnexpectedEof => Fault::System(error),
        // The directory is at the end of an archive, so a truncated file has none.
        ZipError::InvalidArchive(_) if name == "directory" => {
            Fault::malformed("archive", "no directory at its end", "an intact zip archive; is it truncated?")
        }
        other => Fault::malformed(format!("archive, {name}"), other.to_string(), INTACT),
    }
}
