//! Reader of the layout that the parent module describes.
//!
//! Each dataset is checked before its values are read. It must be in this file, have the length
//! given in the header, fit into the length of the file, and have valid chunks.

use std::path::Path;

use hdf5_pure::{DType, Dataset, Error, File, FormatError, Layout};
use orrery_model::{Particles, Species, Units, Vec3s, format_count};

use super::chunks::{self, Storage};
use super::guard::without_panics;
use super::header::{Header, exponents, read_provenance, read_units};
use super::source::{Meter, MeteredFile};
use crate::cosmology::{Comoving, Conversion, Exponents};
use crate::error::Fault;
use crate::gadget::{other_types_note, species_of_type};
use crate::limits::{COLUMN_BYTES, Limits};
use crate::regular::open_input;
use crate::snapshot::Snapshot;
use crate::text::{self, byte_count};

/// Largest compression ratio: that of deflate, the most effective of the usual HDF5 filters.
pub const MAX_COMPRESSION: u64 = 1032;
/// Masses of black holes in files of SWIFT.
const DYNAMICAL_MASSES: &str = "DynamicalMasses";
/// Rows decoded at a time, to avoid a second copy of a whole column.
const WINDOW_ROWS: u64 = 1 << 18;
/// Memory per body in bytes: its columns, its entry of the dataset Order, and the inverse of it.
const BODY_BYTES: u64 = COLUMN_BYTES + 16;
/// Smallest size of a body in a file: two vectors of three f32.
const MIN_FILE_BYTES_PER_BODY: u64 = 24;

/// Reads the file at `path`.
pub fn read(path: &Path, limits: &Limits, comoving: Comoving) -> Result<Snapshot, Fault> {
    let parse = || {
        let (file, file_bytes) = open_input(path)?;
        let (file, meter) =
            MeteredFile::new(file, file_bytes).map_err(|error| library_fault("file", error.into()))?;
        meter.allow_metadata();
        let file = File::from_source(file).map_err(|error| library_fault("file", error))?;
        let expected_bytes = file.superblock().eof_address;
        if file_bytes < expected_bytes {
            let got = byte_count(file_bytes);
            return Err(Fault::malformed("file", got, format!("{expected_bytes}: the file is truncated")));
        }
        Source { file, meter, file_bytes }.read_snapshot(limits, comoving)
    };
    without_panics(parse)
}

/// Moves body `k` of the file to index `order[k]`, one column after the other.
fn restore_order(bodies: &mut Particles, order: Vec<u64>) -> Result<(), Fault> {
    Fault::check_length("datasets Order", order.len() as u64, bodies.len() as u64)?;
    let mut file_index = vec![usize::MAX; bodies.len()];
    for (k, &target) in order.iter().enumerate() {
        let slot = usize::try_from(target).ok().and_then(|target| file_index.get_mut(target));
        match slot {
            Some(slot) if *slot == usize::MAX => *slot = k,
            _ => {
                let expected = format!("each of 0..{} once", bodies.len());
                return Err(Fault::malformed("datasets Order", target.to_string(), expected));
            }
        }
    }
    drop(order);
    fn permute<T: Copy>(column: &mut Vec<T>, file_index: &[usize]) {
        *column = file_index.iter().map(|&k| column[k]).collect();
    }
    for column in [&mut bodies.position, &mut bodies.velocity] {
        permute(&mut column.x, &file_index);
        permute(&mut column.y, &file_index);
        permute(&mut column.z, &file_index);
    }
    permute(&mut bodies.mass, &file_index);
    permute(&mut bodies.id, &file_index);
    permute(&mut bodies.species, &file_index);
    Ok(())
}

/// Dataset of one species that passed all checks.
struct Column {
    name: String,
    dataset: Dataset,
    storage: Storage,
    rows: u64,
    /// Factor of the values, 1 unless they are converted to physical ones.
    factor: f64,
}

/// Columns of one type of particles. `mass`, `id` and `order` are optional.
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
    fn read_snapshot(&self, limits: &Limits, comoving: Comoving) -> Result<Snapshot, Fault> {
        let header = Header::read(&self.file, &self.meter)?;
        let treatment = header.cosmology.treatment(comoving)?;
        let (step, mut provenance) = read_provenance(&self.file, &self.meter)?;
        for note in treatment.notes.iter().chain(&other_types_note(&header.counts)) {
            provenance.retain(|(name, _)| *name != note.0);
            provenance.push(note.clone());
        }
        let units = read_units(&self.file, &self.meter)?.unwrap_or_else(|| {
            provenance.push((text::ASSUMED_UNITS.0.to_owned(), text::ASSUMED_UNITS.1.to_owned()));
            Units::Galactic
        });
        let particles = self.read_bodies(&header, treatment.conversion, limits)?;
        Ok(Snapshot { particles, time: treatment.time(header.time), step, units, provenance })
    }

    fn read_bodies(
        &self,
        header: &Header,
        conversion: Option<Conversion>,
        limits: &Limits,
    ) -> Result<Particles, Fault> {
        let n = header.counts.iter().fold(0, |n: u64, &count| n.saturating_add(count));
        if n > self.file_bytes.saturating_mul(MAX_COMPRESSION) / MIN_FILE_BYTES_PER_BODY {
            let expected = format!("no more than fit into a file of {}", byte_count(self.file_bytes));
            return Err(Fault::malformed(
                "attribute /Header/NumPart_ThisFile",
                format_count(n, "body", "bodies"),
                expected,
            ));
        }
        let mut all = Vec::new();
        for kind in (0..header.counts.len()).filter(|&kind| header.counts[kind] > 0) {
            all.push(self.open_columns(kind, header, conversion)?);
        }
        let working = all.iter().map(Columns::working_bytes).max().unwrap_or(0);
        let mut bodies = limits.allocate_bodies(n, BODY_BYTES, working)?;
        let mut order = Vec::new();
        for columns in &all {
            self.append_columns(columns, &mut bodies, &mut order)?;
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

    /// Opens and checks the datasets of one type of particles.
    fn open_columns(
        &self,
        kind: usize,
        header: &Header,
        conversion: Option<Conversion>,
    ) -> Result<Columns, Fault> {
        let n = header.counts[kind];
        let group = format!("PartType{kind}");
        let name = |dataset: &str| format!("/{group}/{dataset}");
        self.meter.allow_metadata();
        self.file.group(&group).map_err(|error| library_fault(&format!("group /{group}"), error))?;
        let optional = |dataset: &str| {
            let path = name(dataset);
            self.has_dataset(&path).then(|| self.open_dataset(path, &[n], Kind::Integer)).transpose()
        };
        let reals = |dataset: &str, shape: &[u64], usual: Exponents| {
            let column = self.open_dataset(name(dataset), shape, Kind::Real)?;
            match conversion {
                Some(conversion) => self.with_factor(column, conversion, usual),
                None => Ok(column),
            }
        };
        let table_mass = header.mass_table[kind];
        // Black holes of SWIFT have the mass that moves them, and that of the model within.
        let is_swift_black_hole =
            || !self.has_dataset(&name("Masses")) && self.has_dataset(&name(DYNAMICAL_MASSES));
        let masses = if table_mass == 0.0 && is_swift_black_hole() { DYNAMICAL_MASSES } else { "Masses" };
        let own_mass = (table_mass == 0.0).then(|| reals(masses, &[n], Exponents::MASS));
        Ok(Columns {
            species: species_of_type(kind),
            rows: n,
            shared_mass: table_mass * conversion.map_or(1.0, |conversion| conversion.factor(Exponents::MASS)),
            position: reals("Coordinates", &[n, 3], Exponents::POSITION)?,
            velocity: reals("Velocities", &[n, 3], Exponents::VELOCITY)?,
            mass: own_mass.transpose()?,
            id: optional("ParticleIDs")?,
            order: optional("Order")?,
        })
    }

    /// Sets the factor of a column to physical values, from the exponents in its attributes or the
    /// `usual` ones.
    fn with_factor(&self, column: Column, conversion: Conversion, usual: Exponents) -> Result<Column, Fault> {
        self.meter.allow_metadata();
        let attributes = column.dataset.attrs().map_err(|error| column.library_fault(error))?;
        self.meter.check_budget(&dataset_name(&column.name))?;
        let factor = conversion.factor(exponents(&attributes, usual));
        if !(factor.is_finite() && factor > 0.0) {
            let got = format!("a factor of {factor} to physical values");
            return Err(Fault::malformed(dataset_name(&column.name), got, "a finite factor > 0"));
        }
        Ok(Column { factor, ..column })
    }

    fn append_columns(
        &self,
        columns: &Columns,
        bodies: &mut Particles,
        order: &mut Vec<u64>,
    ) -> Result<(), Fault> {
        self.append_vectors(&columns.position, &mut bodies.position)?;
        self.append_vectors(&columns.velocity, &mut bodies.velocity)?;
        let total = bodies.position.len();
        match &columns.mass {
            Some(mass) => self.append_numbers(mass, &mut bodies.mass)?,
            None => bodies.mass.resize(total, columns.shared_mass),
        }
        if let Some(id) = &columns.id {
            self.append_integers(id, &mut bodies.id)?;
        }
        if let Some(indices) = &columns.order {
            order.reserve_exact(columns.rows as usize);
            self.append_integers(indices, order)?;
        }
        bodies.species.resize(total, columns.species);
        Ok(())
    }

    fn has_dataset(&self, path: &str) -> bool {
        self.meter.allow_metadata();
        !matches!(self.file.dataset(path), Err(Error::Format(FormatError::PathNotFound(_))))
    }

    fn append_vectors(&self, from: &Column, column: &mut Vec3s) -> Result<(), Fault> {
        self.for_each_window(from, |start, count| {
            let rows = from.dataset.read_f64_rows(start, count).map_err(|error| from.library_fault(error))?;
            Fault::check_length(dataset_name(&from.name), rows.len() as u64, 3 * count)?;
            rows.chunks_exact(3)
                .for_each(|row| column.push([row[0], row[1], row[2]].map(|v| v * from.factor)));
            Ok(())
        })
    }

    fn append_numbers(&self, from: &Column, column: &mut Vec<f64>) -> Result<(), Fault> {
        self.for_each_window(from, |start, count| {
            let rows = from.dataset.read_f64_rows(start, count).map_err(|error| from.library_fault(error))?;
            Fault::check_length(dataset_name(&from.name), rows.len() as u64, count)?;
            column.extend(rows.iter().map(|value| value * from.factor));
            Ok(())
        })
    }

    fn append_integers(&self, from: &Column, column: &mut Vec<u64>) -> Result<(), Fault> {
        let fail = |error| from.library_fault(error);
        let signed = matches!(from.dataset.dtype().map_err(fail)?, DType::I32 | DType::I64);
        self.for_each_window(from, |start, count| {
            if signed {
                let rows = from.dataset.read_i64_rows(start, count).map_err(fail)?;
                if let Some(negative) = rows.iter().find(|&&value| value < 0) {
                    return Err(Fault::malformed(
                        dataset_name(&from.name),
                        negative.to_string(),
                        "integers >= 0",
                    ));
                }
                self.meter.allow_values();
            }
            let rows = from.dataset.read_u64_rows(start, count).map_err(fail)?;
            Fault::check_length(dataset_name(&from.name), rows.len() as u64, count)?;
            column.extend(rows);
            Ok(())
        })
    }

    /// Calls `read` with the first row and the number of rows of each window. A window ends at the
    /// end of a chunk, so that no chunk is decoded twice.
    fn for_each_window(
        &self,
        from: &Column,
        mut read: impl FnMut(u64, u64) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let window = from.window_rows();
        let mut start = 0;
        while start < from.rows {
            self.meter.allow_values();
            let count = window.min(from.rows - start);
            read(start, count)?;
            start += count;
        }
        Ok(())
    }

    /// Opens the dataset at `path` and checks its location, shape, type and storage.
    fn open_dataset(&self, path: String, shape: &[u64], kind: Kind) -> Result<Column, Fault> {
        let fail = |error| library_fault(&dataset_name(&path), error);
        self.meter.allow_metadata();
        let dataset = self.file.dataset(&path).map_err(fail)?;
        match dataset.layout().map_err(fail)? {
            Layout::Virtual => return Err(outside_fault(&path, "a virtual dataset")),
            // A dataset in external files has no address in this file, like one that was never
            // written.
            Layout::Contiguous { address: None, .. } => {
                return Err(outside_fault(&path, "external storage, or no values at all"));
            }
            _ => {}
        }
        let got = dataset.shape().map_err(fail)?;
        Fault::check_length(dataset_name(&path), got.first().copied().unwrap_or(1), shape[0])?;
        let flat = shape.len() == 1 && got.len() == 2 && got[1] == 1;
        if got != shape && !flat {
            return Err(Fault::malformed(
                dataset_name(&path),
                format!("shape {got:?}"),
                format!("shape {shape:?}"),
            ));
        }
        let dtype = dataset.dtype().map_err(fail)?;
        if !kind.accepts(&dtype) {
            return Err(Fault::malformed(dataset_name(&path), format!("{dtype} values"), kind.expected()));
        }
        self.meter.allow_values();
        let storage = chunks::check_storage(&dataset, &dataset_name(&path), self.file_bytes)?;
        Ok(Column { name: path, dataset, storage, rows: shape[0], factor: 1.0 })
    }
}

impl Column {
    /// Number of rows to decode at a time: a multiple of the chunk size.
    fn window_rows(&self) -> u64 {
        let chunk = self.storage.chunk_rows;
        chunk * (WINDOW_ROWS / chunk).max(1)
    }

    /// Memory for reading in addition to the values: the list of chunks, and one window as stored,
    /// as f64, and as a decoded chunk.
    fn working_bytes(&self) -> u64 {
        let window = self.window_rows().min(self.rows.next_multiple_of(self.storage.chunk_rows));
        let decoded = window.saturating_mul(self.storage.row_bytes.max(24)).saturating_mul(3);
        // The fixed buffers of a column without chunks are not counted, as in the other formats.
        let decoded = if self.storage.chunks > 0 { decoded } else { 0 };
        decoded.saturating_add(self.storage.index_bytes())
    }

    fn library_fault(&self, error: Error) -> Fault {
        library_fault(&dataset_name(&self.name), error)
    }
}

impl Columns {
    fn working_bytes(&self) -> u64 {
        let optional = [&self.mass, &self.id, &self.order].into_iter().flatten();
        let columns = [&self.position, &self.velocity].into_iter().chain(optional);
        columns.map(Column::working_bytes).max().unwrap_or(0)
    }
}

/// Required type of a column.
enum Kind {
    Real,
    Integer,
}

impl Kind {
    fn accepts(&self, dtype: &DType) -> bool {
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

fn dataset_name(path: &str) -> String {
    format!("dataset {path}")
}

fn outside_fault(path: &str, got: &str) -> Fault {
    Fault::malformed(dataset_name(path), got, "values inside this file (data outside are not read)")
}

/// Converts an error of the HDF5 library at `location`.
pub fn library_fault(location: &str, error: Error) -> Fault {
    match error {
        Error::Io(error) => Fault::System(error),
        // A soft link in an old-style group has no address.
        Error::Format(
            FormatError::PathNotFound(_) | FormatError::OffsetOverflow { offset: u64::MAX, .. },
        ) => Fault::malformed(
            location,
            "nothing, or a link",
            "an object in this file (links are not followed)",
        ),
        Error::Format(FormatError::SignatureNotFound) => {
            Fault::malformed("byte 0", "no HDF5 signature", "an HDF5 file")
        }
        other => Fault::malformed(
            location,
            text::shorten_for_message(&other.to_string(), 120),
            "an intact HDF5 file",
        ),
    }
}
