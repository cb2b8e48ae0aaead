//! NPZ: a zip archive of numpy arrays. `numpy.load` opens it, without pickle.
//!
//! | array | shape, type | |
//! |---|---|---|
//! | position, velocity | (n, 3) f64 | |
//! | mass | (n) f64 | |
//! | id | (n) u64 | numbered from 0 where absent |
//! | species | (n) u8 | GADGET's type; 1 (halo) where absent |
//! | time, step | () f64, u64 | |
//! | units | () text | galactic where absent |
//! | provenance | (bytes) u8 | UTF-8 JSON: [[name, text], ...] |
//!
//! Entries are stored, not deflated: noise does not compress.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::Path;

use orrery_model::{Particles, Species, Units, Vec3s};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::error::{Fault, IoError};
use crate::npy::{self, Array};
use crate::snapshot::Snapshot;
use crate::storage::replace_file;
use crate::text;

/// An array to write.
#[derive(Clone, Copy, Debug)]
pub enum NpzArray<'a> {
    /// One f64, no dimension.
    Real(f64),
    /// One u64, no dimension.
    Integer(u64),
    /// One text, no dimension.
    Text(&'a str),
    /// A column of f64.
    Reals(&'a [f64]),
    /// A column of u64.
    Integers(&'a [u64]),
    /// A column of bytes.
    Bytes(&'a [u8]),
    /// Vectors, shape (n, 3), f64.
    Vectors(&'a Vec3s),
}

impl NpzArray<'_> {
    fn write(&self, sink: &mut impl Write) -> std::io::Result<()> {
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
                // numpy has no text of width 0.
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

    /// A bound on the bytes it takes.
    fn bytes(&self) -> usize {
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

/// Writes arrays that `numpy.load` opens; the file appears whole or not at all.
pub fn write_npz_arrays(path: &Path, arrays: &[(&str, NpzArray)]) -> Result<(), IoError> {
    replace_file(path, |file| write_arrays(file, arrays))
}

fn write_arrays(sink: &mut (impl Write + Seek), arrays: &[(&str, NpzArray)]) -> Result<(), Fault> {
    let mut archive = ZipWriter::new(sink);
    for (name, array) in arrays {
        if let Err(fault) = add_array(&mut archive, name, array) {
            // Dropped unfinished, it would write on, and print to stderr when the disk is full.
            std::mem::forget(archive);
            return Err(fault);
        }
    }
    archive.finish().map_err(|error| refused("directory", error))?;
    Ok(())
}

fn add_array<W: Write + Seek>(archive: &mut ZipWriter<W>, name: &str, array: &NpzArray) -> Result<(), Fault> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(array.bytes() >= u32::MAX as usize);
    archive.start_file(format!("{name}.npy"), options).map_err(|error| refused(name, error))?;
    // The archive writes through at once; numbers come eight bytes at a time.
    let mut buffered = BufWriter::with_capacity(1 << 20, archive);
    array.write(&mut buffered)?;
    buffered.flush()?;
    Ok(())
}

/// Writes the whole file.
pub fn write(sink: &mut (impl Write + Seek), snapshot: &Snapshot) -> Result<(), Fault> {
    let bodies = &snapshot.particles;
    let species: Vec<u8> = bodies.species.iter().map(|&s| s as u8).collect();
    let units = text::from_units(snapshot.units);
    let provenance = serde_json::to_vec(&snapshot.provenance)
        .map_err(|error| Fault::malformed("provenance", error.to_string(), "text"))?;
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

/// Reads the whole file.
pub fn read(path: &Path) -> Result<Snapshot, Fault> {
    let file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| refused("directory", error))?;
    let mut source = Source { archive, file_bytes };

    let position = source.required("position")?.vectors()?;
    let n = position.len() as u64;
    let velocity = source.required("velocity")?.vectors()?;
    let mass = source.required("mass")?.reals()?;
    let id = source.array("id")?.map_or_else(|| Ok((0..n).collect()), |array| array.integers())?;
    let species = match source.array("species")? {
        Some(array) => array.integers()?.into_iter().map(to_species).collect::<Result<_, _>>()?,
        None => vec![Species::default(); n as usize],
    };
    for (name, got) in
        [("velocity", velocity.len()), ("mass", mass.len()), ("id", id.len()), ("species", species.len())]
    {
        Fault::check_length(format!("array {name}"), got as u64, n)?;
    }
    let time =
        source.array("time")?.map_or(Ok(0.0), |array| scalar("time", array.shape(), array.reals()?))?;
    let step =
        source.array("step")?.map_or(Ok(0), |array| scalar("step", array.shape(), array.integers()?))?;
    let mut provenance: Vec<(String, String)> = match source.array("provenance")? {
        Some(array) => serde_json::from_slice(array.bytes()).map_err(|error| {
            Fault::malformed("array provenance", error.to_string(), "JSON [[name, text], ...]")
        })?,
        None => Vec::new(),
    };
    let units = match source.array("units")? {
        Some(array) => {
            let name = array.text()?;
            text::to_units(&name).ok_or_else(|| {
                Fault::malformed("array units", format!("'{name:.40}'"), text::UNITS_EXPECTED)
            })?
        }
        None => {
            provenance.push((text::ASSUMED_UNITS.0.to_owned(), text::ASSUMED_UNITS.1.to_owned()));
            Units::Galactic
        }
    };
    Ok(Snapshot {
        particles: Particles { position, velocity, mass, id, species },
        time,
        step,
        units,
        provenance,
    })
}

fn to_species(kind: u64) -> Result<Species, Fault> {
    let known = usize::try_from(kind).ok().and_then(|kind| Species::ALL.get(kind));
    known.copied().ok_or_else(|| Fault::malformed("array species", kind.to_string(), "0 to 5"))
}

fn scalar<T: Copy>(name: &str, shape: &[u64], values: Vec<T>) -> Result<T, Fault> {
    match values[..] {
        [value] => Ok(value),
        _ => Err(Fault::malformed(format!("array {name}"), format!("shape {shape:?}"), "one number")),
    }
}

struct Source {
    archive: ZipArchive<BufReader<File>>,
    file_bytes: u64,
}

impl Source {
    fn required(&mut self, name: &str) -> Result<Array, Fault> {
        self.array(name)?
            .ok_or_else(|| Fault::malformed(format!("array {name}"), "nothing", "it in the file"))
    }

    /// An array, unpacked no further than an honest archive could ask for.
    fn array(&mut self, name: &str) -> Result<Option<Array>, Fault> {
        const MAX_COMPRESSION: u64 = 1000;
        let mut entry = match self.archive.by_name(&format!("{name}.npy")) {
            Ok(entry) => entry,
            Err(ZipError::FileNotFound) => return Ok(None),
            Err(error) => return Err(refused(name, error)),
        };
        let size = entry.size();
        if size > MAX_COMPRESSION.saturating_mul(entry.compressed_size().min(self.file_bytes)) {
            let got = format!("{size} bytes from {}", entry.compressed_size());
            return Err(Fault::malformed(format!("array {name}"), got, "a compression below 1:1000"));
        }
        let mut bytes = Vec::new();
        let broken = |error: std::io::Error| {
            Fault::malformed(format!("array {name}"), error.to_string(), "an intact zip archive")
        };
        entry.by_ref().take(size.saturating_add(1)).read_to_end(&mut bytes).map_err(broken)?;
        if bytes.len() as u64 != size {
            let got = format!("{} bytes or more", bytes.len());
            return Err(Fault::malformed(
                format!("array {name}"),
                got,
                format!("{size} as the directory says"),
            ));
        }
        Array::parse(name, bytes).map(Some)
    }
}

fn refused(name: &str, error: ZipError) -> Fault {
    match error {
        ZipError::Io(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => Fault::System(error),
        // The directory stands at the end of an archive, so a cut file has none.
        ZipError::InvalidArchive(_) if name == "directory" => {
            Fault::malformed("archive", "no directory at its end", "an intact zip archive; is it truncated?")
        }
        other => Fault::malformed(format!("archive, {name}"), other.to_string(), "an intact zip archive"),
    }
}
