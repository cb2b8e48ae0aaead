//! Reading; see the parent for the layout.
//!
//! Each dataset is checked before its values are touched: that it lies in this file, that it is as long as
//! the header promises, that the file is long enough to hold it, and that its chunks are what they should be.

use std::path::Path;

use hdf5_pure::{DType, Dataset, Error, File, FormatError, Layout};
use orrery_model::{Particles, Species, Units, Vec3s};

use super::chunks::{self, Storage};
use super::guard::without_panics;
use super::header::{Header, read_provenance, read_units};
use super::source::{Meter, MeteredFile};
use crate::error::Fault;
use crate::limits::{COLUMN_BYTES, Limits};
use crate::snapshot::Snapshot;
use crate::text;

/// Deflate, the densest of HDF5's usual filters, cannot shrink bytes further than about 1:1032.
pub const MAX_COMPRESSION: u64 = 1032;
/// Rows decoded at a time, so that no second copy of a whole column is held.
const WINDOW: u64 = 1 << 18;
/// A body's columns, its place in the dataset Order, and the inverse of that.
const BODY_BYTES: u64 = COLUMN_BYTES + 16;
/// The least that a body takes in a file: two vectors of three f32.
const LEAST_BODY_BYTES: u64 = 24;

/// Reads the whole file.
pub fn read(path: &Path, limits: &Limits) -> Result<Snapshot, Fault> {
    let file_bytes = std::fs::metadata(path)?.len();
    let parse = || {
        let (file, meter) = MeteredFile::new(std::fs::File::open(path)?, file_bytes)
            .map_err(|error| refused("file", error.into()))?;
        meter.for_metadata();
        let file = File::from_source(file).map_err(|error| refused("file", error))?;
        let promised = file.superblock().eof_address;
        if file_bytes < promised {
            let got = format!("{file_bytes} bytes");
            return Err(Fault::malformed("file", got, format!("{promised}: it is truncated")));
        }
        Source { file, meter, file_bytes }.snapshot(limits)
    };
    without_panics(parse)
}

/// Puts body `k` of the file at place `order[k]`, one column after the other.
fn restore_order(bodies: &mut Particles, order: Vec<u64>) -> Result<(), Fault> {
    Fault::check_length("datasets Order", order.len() as u64, bodies.len() as u64)?;
    let mut at_place = vec![usize::MAX; bodies.len()];
    for (k, &place) in order.iter().enumerate() {
        let slot = usize::try_from(place).ok().and_then(|place| at_place.get_mut(place));
        match slot {
            Some(slot) if *slot == usize::MAX => *slot = k,
            _ => {
                let expected = format!("each of 0..{} once", bodies.len());
                return Err(Fault::malformed("datasets Order", place.to_string(), expected));
            }
        }
    }
    drop(order);
    fn permute<T: Copy>(column: &mut Vec<T>, at_place: &[usize]) {
        *column = at_place.iter().map(|&k| column[k]).collect();
    }
    for column in [&mut bodies.position, &mut bodies.velocity] {
        permute(&mut column.x, &at_place);
        permute(&mut column.y, &at_place);
        permute(&mut column.z, &at_place);
    }
    permute(&mut bodies.mass, &at_place);
    permute(&mut bodies.id, &at_place);
    permute(&mut bodies.species, &at_place);
    Ok(())
}

/// A column of one species that is safe and right to read.
struct Column {
    name: String,
    dataset: Dataset,
    storage: Storage,
    rows: u64,
}

/// The columns of one species; `mass`, `id` and `order` may be missing.
struct Columns {
    species: Species,
    rows: u64,
    shared_mass: f64,
    position: Column,
    velocity: Column,
    mass: Option<Column>,
    id: Option<Column>,
    order: Option<Column>,
}

struct Source {
    file: File,
    meter: Meter,
    file_bytes: u64,
}

impl Source {
    fn snapshot(&self, limits: &Limits) -> Result<Snapshot, Fault> {
        let header = Header::read(&self.file, &self.meter)?;
        let (step, mut provenance) = read_provenance(&self.file, &self.meter)?;
        provenance.extend(header.notes.iter().cloned());
        let units = read_units(&self.file, &self.meter)?.unwrap_or_else(|| {
            provenance.push((text::ASSUMED_UNITS.0.to_owned(), text::ASSUMED_UNITS.1.to_owned()));
            Units::Galactic
        });
        let particles = self.bodies(&header, limits)?;
        Ok(Snapshot { particles, time: header.time, step, units, provenance })
    }

    fn bodies(&self, header: &Header, limits: &Limits) -> Result<Particles, Fault> {
        let n = header.counts.iter().fold(0, |n: u64, &count| n.saturating_add(count));
        if n > self.file_bytes.saturating_mul(MAX_COMPRESSION) / LEAST_BODY_BYTES {
            let expected = format!("no more than fit into a file of {} bytes", self.file_bytes);
            return Err(Fault::malformed(
                "attribute /Header/NumPart_ThisFile",
                format!("{n} bodies"),
                expected,
            ));
        }
        let mut all = Vec::new();
        for species in Species::ALL.into_iter().filter(|&species| header.counts[species as usize] > 0) {
            all.push(self.columns(species, header)?);
        }
        let working = all.iter().map(Columns::working_bytes).max().unwrap_or(0);
        let mut bodies = limits.room_for(n, BODY_BYTES, working)?;
        let mut order = Vec::new();
        for columns in &all {
            self.append(columns, &mut bodies, &mut order)?;
        }
        if all.iter().any(|columns| columns.id.is_none()) {
            bodies.id.clear();
            bodies.id.extend(0..n);
        }
        if !order.is_empty() {
            restore_order(&mut bodies, order)?;
        }
        Ok(bodies)
    }

    /// Finds and checks the datasets of one species.
    fn columns(&self, species: Species, header: &Header) -> Result<Columns, Fault> {
        let n = header.counts[species as usize];
        let name = |dataset: &str| format!("/PartType{}/{dataset}", species as u8);
        let group = format!("PartType{}", species as u8);
        self.meter.for_metadata();
        self.file.group(&group).map_err(|error| refused(&format!("group /{group}"), error))?;
        let optional = |dataset: &str| {
            let path = name(dataset);
            self.has(&path).then(|| self.checked(path, &[n], Kind::Integer)).transpose()
        };
        let shared_mass = header.mass_table[species as usize];
        let own_mass = (shared_mass == 0.0).then(|| self.checked(name("Masses"), &[n], Kind::Real));
        Ok(Columns {
            species,
            rows: n,
            shared_mass,
            position: self.checked(name("Coordinates"), &[n, 3], Kind::Real)?,
            velocity: self.checked(name("Velocities"), &[n, 3], Kind::Real)?,
            mass: own_mass.transpose()?,
            id: optional("ParticleIDs")?,
            order: optional("Order")?,
        })
    }

    fn append(&self, columns: &Columns, bodies: &mut Particles, order: &mut Vec<u64>) -> Result<(), Fault> {
        self.append_vectors(&columns.position, &mut bodies.position)?;
        self.append_vectors(&columns.velocity, &mut bodies.velocity)?;
        let so_far = bodies.position.len();
        match &columns.mass {
            Some(mass) => self.append_numbers(mass, &mut bodies.mass)?,
            None => bodies.mass.resize(so_far, columns.shared_mass),
        }
        if let Some(id) = &columns.id {
            self.append_integers(id, &mut bodies.id)?;
        }
        if let Some(places) = &columns.order {
            order.reserve_exact(columns.rows as usize);
            self.append_integers(places, order)?;
        }
        bodies.species.resize(so_far, columns.species);
        Ok(())
    }

    fn has(&self, path: &str) -> bool {
        self.meter.for_metadata();
        !matches!(self.file.dataset(path), Err(Error::Format(FormatError::PathNotFound(_))))
    }

    fn append_vectors(&self, from: &Column, column: &mut Vec3s) -> Result<(), Fault> {
        self.windows(from, |start, count| {
            let rows = from.dataset.read_f64_rows(start, count).map_err(|error| from.refused(error))?;
            Fault::check_length(at(&from.name), rows.len() as u64, 3 * count)?;
            rows.chunks_exact(3).for_each(|row| column.push([row[0], row[1], row[2]]));
            Ok(())
        })
    }

    fn append_numbers(&self, from: &Column, column: &mut Vec<f64>) -> Result<(), Fault> {
        self.windows(from, |start, count| {
            let rows = from.dataset.read_f64_rows(start, count).map_err(|error| from.refused(error))?;
            Fault::check_length(at(&from.name), rows.len() as u64, count)?;
            column.extend(rows);
            Ok(())
        })
    }

    fn append_integers(&self, from: &Column, column: &mut Vec<u64>) -> Result<(), Fault> {
        let fail = |error| from.refused(error);
        let signed = matches!(from.dataset.dtype().map_err(fail)?, DType::I32 | DType::I64);
        self.windows(from, |start, count| {
            if signed {
                let rows = from.dataset.read_i64_rows(start, count).map_err(fail)?;
                if let Some(negative) = rows.iter().find(|&&value| value < 0) {
                    return Err(Fault::malformed(at(&from.name), negative.to_string(), "integers >= 0"));
                }
                self.meter.for_values();
            }
            let rows = from.dataset.read_u64_rows(start, count).map_err(fail)?;
            Fault::check_length(at(&from.name), rows.len() as u64, count)?;
            column.extend(rows);
            Ok(())
        })
    }

    /// Calls `read` with the first row and the number of rows of each window. A window ends where a chunk does,
    /// so that none is decoded twice.
    fn windows(
        &self,
        from: &Column,
        mut read: impl FnMut(u64, u64) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let window = from.window();
        let mut start = 0;
        while start < from.rows {
            self.meter.for_values();
            let count = window.min(from.rows - start);
            read(start, count)?;
            start += count;
        }
        Ok(())
    }

    /// The dataset at `path`, once it is known to be safe and right to read.
    fn checked(&self, path: String, shape: &[u64], kind: Kind) -> Result<Column, Fault> {
        let fail = |error| refused(&at(&path), error);
        self.meter.for_metadata();
        let dataset = self.file.dataset(&path).map_err(fail)?;
        match dataset.layout().map_err(fail)? {
            Layout::Virtual => return Err(outside(&path, "a virtual dataset")),
            // What is stored in external files has no address here, like what was never written.
            Layout::Contiguous { address: None, .. } => {
                return Err(outside(&path, "external storage, or no values at all"));
            }
            _ => {}
        }
        let got = dataset.shape().map_err(fail)?;
        Fault::check_length(at(&path), got.first().copied().unwrap_or(1), shape[0])?;
        let flat = shape.len() == 1 && got.len() == 2 && got[1] == 1;
        if got != shape && !flat {
            return Err(Fault::malformed(at(&path), format!("shape {got:?}"), format!("shape {shape:?}")));
        }
        let dtype = dataset.dtype().map_err(fail)?;
        if !kind.holds(&dtype) {
            return Err(Fault::malformed(at(&path), format!("{dtype} values"), kind.expected()));
        }
        self.meter.for_values();
        let storage = chunks::checked(&dataset, &at(&path), self.file_bytes)?;
        Ok(Column { name: path, dataset, storage, rows: shape[0] })
    }
}

impl Column {
    /// Rows to decode at a time: whole chunks, where there are any.
    fn window(&self) -> u64 {
        let chunk = self.storage.chunk_rows;
        chunk * (WINDOW / chunk).max(1)
    }

    /// What reading it takes besides the values: its list of chunks and one decoded window, as the file has
    /// it, as f64, and a chunk on its way.
    fn working_bytes(&self) -> u64 {
        let window = self.window().min(self.rows.next_multiple_of(self.storage.chunk_rows));
        let decoded = window.saturating_mul(self.storage.row_bytes.max(24)).saturating_mul(3);
        // The fixed buffers of an unchunked column are not counted, as in the other formats.
        let decoded = if self.storage.chunks > 0 { decoded } else { 0 };
        decoded.saturating_add(self.storage.index_bytes())
    }

    fn refused(&self, error: Error) -> Fault {
        refused(&at(&self.name), error)
    }
}

impl Columns {
    fn working_bytes(&self) -> u64 {
        let optional = [&self.mass, &self.id, &self.order].into_iter().flatten();
        let columns = [&self.position, &self.velocity].into_iter().chain(optional);
        columns.map(Column::working_bytes).max().unwrap_or(0)
    }
}

/// What a column may be made of.
enum Kind {
    Real,
    Integer,
}

impl Kind {
    fn holds(&self, dtype: &DType) -> bool {
        match self {
            Self::Real => matches!(dtype, DType::F32 | DType::F64),
            Self::Integer => {
                matches!(dtype, DType::U32 | DType::U64 | DType::I32 | DType::I64)
            }
        }
    }

    fn expected(&self) -> &'static str {
        match self {
            Self::Real => "f32 or f64",
            Self::Integer => "32-bit or 64-bit integers",
        }
    }
}

fn at(path: &str) -> String {
    format!("dataset {path}")
}

fn outside(path: &str, got: &str) -> Fault {
    Fault::malformed(at(path), got, "values inside this file, since nothing outside is ever read")
}

/// What the HDF5 library says of `place`.
pub fn refused(place: &str, error: Error) -> Fault {
    match error {
        Error::Io(error) => Fault::System(error),
        // A soft link in a group of the first kind has no address.
        Error::Format(
            FormatError::PathNotFound(_) | FormatError::OffsetOverflow { offset: u64::MAX, .. },
        ) => Fault::malformed(place, "nothing, or a link", "it in this file, since links are never followed"),
        Error::Format(FormatError::SignatureNotFound) => {
            Fault::malformed("byte 0", "no HDF5 signature", "an HDF5 file")
        }
        other => Fault::malformed(place, text::shortened(&other.to_string(), 120), "an intact HDF5 file"),
    }
}
