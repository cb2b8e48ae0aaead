//! Reading; see the parent for the layout.
//!
//! Each dataset is checked before its values are touched: that it lies in this file, that it is as long as
//! the header promises, and that the file is long enough to hold it.

use std::path::Path;

use hdf5_pure::{DType, Dataset, Error, File, FormatError, Layout};
use orrery_model::{Particles, Species, Units, Vec3s};

use super::guard::without_panics;
use super::header::{Header, read_provenance, read_units};
use crate::error::Fault;
use crate::snapshot::Snapshot;
use crate::text;

/// Deflate, the densest of HDF5's usual filters, cannot shrink bytes further than about 1:1032.
const MAX_COMPRESSION: u64 = 1032;
/// Rows decoded at a time, so that no second copy of a whole column is held.
const WINDOW: u64 = 1 << 18;

/// Reads the whole file.
pub fn read(path: &Path) -> Result<Snapshot, Fault> {
    let file_bytes = std::fs::metadata(path)?.len();
    without_panics(|| {
        let file = File::open_streaming(path).map_err(|error| refused("file", error))?;
        let promised = file.superblock().eof_address;
        if file_bytes < promised {
            let got = format!("{file_bytes} bytes");
            return Err(Fault::malformed("file", got, format!("{promised}: it is truncated")));
        }
        read_snapshot(&Source { file, file_bytes })
    })
}

fn read_snapshot(source: &Source) -> Result<Snapshot, Fault> {
    let header = Header::read(&source.file)?;
    let (step, mut provenance) = read_provenance(&source.file)?;
    provenance.extend(header.notes.iter().cloned());
    let units = read_units(&source.file)?.unwrap_or_else(|| {
        provenance.push((text::ASSUMED_UNITS.0.to_owned(), text::ASSUMED_UNITS.1.to_owned()));
        Units::Galactic
    });
    let mut bodies = Particles::default();
    let mut order = Vec::new();
    let mut ids_missing = false;
    for species in Species::ALL {
        if header.counts[species as usize] > 0 {
            ids_missing |= source.append_species(species, &header, &mut bodies, &mut order)?;
        }
    }
    if ids_missing {
        bodies.id = (0..bodies.len() as u64).collect();
    }
    let particles = if order.is_empty() { bodies } else { restore_order(&bodies, &order)? };
    Ok(Snapshot { particles, time: header.time, step, units, provenance })
}

/// Puts body `k` of the file at place `order[k]`.
fn restore_order(bodies: &Particles, order: &[u64]) -> Result<Particles, Fault> {
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
    let mut ordered = Particles::with_capacity(bodies.len());
    at_place.into_iter().for_each(|k| ordered.push(bodies.get(k)));
    Ok(ordered)
}

struct Source {
    file: File,
    file_bytes: u64,
}

impl Source {
    /// Appends the bodies of one species; returns whether they have no ids.
    fn append_species(
        &self,
        species: Species,
        header: &Header,
        bodies: &mut Particles,
        order: &mut Vec<u64>,
    ) -> Result<bool, Fault> {
        let n = header.counts[species as usize] as u64;
        let name = |dataset: &str| format!("/PartType{}/{dataset}", species as u8);
        let group = format!("PartType{}", species as u8);
        self.file.group(&group).map_err(|error| refused(&format!("group /{group}"), error))?;

        self.append_vectors(&name("Coordinates"), n, &mut bodies.position)?;
        self.append_vectors(&name("Velocities"), n, &mut bodies.velocity)?;
        match header.mass_table[species as usize] {
            0.0 => self.append_numbers(&name("Masses"), n, &mut bodies.mass)?,
            shared => bodies.mass.resize(bodies.position.len(), shared),
        }
        let ids = self.has(&name("ParticleIDs"));
        if ids {
            self.append_integers(&name("ParticleIDs"), n, &mut bodies.id)?;
        }
        if self.has(&name("Order")) {
            self.append_integers(&name("Order"), n, order)?;
        }
        bodies.species.resize(bodies.position.len(), species);
        Ok(!ids)
    }

    fn has(&self, path: &str) -> bool {
        !matches!(self.file.dataset(path), Err(Error::Format(FormatError::PathNotFound(_))))
    }

    fn append_vectors(&self, path: &str, n: u64, column: &mut Vec3s) -> Result<(), Fault> {
        let dataset = self.checked(path, &[n, 3], Kind::Real)?;
        windows(n, |start, count| {
            let rows = dataset.read_f64_rows(start, count).map_err(|error| refused(&at(path), error))?;
            Fault::check_length(at(path), rows.len() as u64, 3 * count)?;
            rows.chunks_exact(3).for_each(|row| column.push([row[0], row[1], row[2]]));
            Ok(())
        })
    }

    fn append_numbers(&self, path: &str, n: u64, column: &mut Vec<f64>) -> Result<(), Fault> {
        let dataset = self.checked(path, &[n], Kind::Real)?;
        windows(n, |start, count| {
            let rows = dataset.read_f64_rows(start, count).map_err(|error| refused(&at(path), error))?;
            Fault::check_length(at(path), rows.len() as u64, count)?;
            column.extend(rows);
            Ok(())
        })
    }

    fn append_integers(&self, path: &str, n: u64, column: &mut Vec<u64>) -> Result<(), Fault> {
        let dataset = self.checked(path, &[n], Kind::Integer)?;
        let fail = |error| refused(&at(path), error);
        let signed = matches!(dataset.dtype().map_err(fail)?, DType::I32 | DType::I64);
        windows(n, |start, count| {
            if signed {
                let rows = dataset.read_i64_rows(start, count).map_err(fail)?;
                if let Some(negative) = rows.iter().find(|&&value| value < 0) {
                    return Err(Fault::malformed(at(path), negative.to_string(), "integers >= 0"));
                }
            }
            let rows = dataset.read_u64_rows(start, count).map_err(fail)?;
            Fault::check_length(at(path), rows.len() as u64, count)?;
            column.extend(rows);
            Ok(())
        })
    }

    /// The dataset at `path`, once it is known to be safe and right to read.
    fn checked(&self, path: &str, shape: &[u64], kind: Kind) -> Result<Dataset, Fault> {
        let fail = |error| refused(&at(path), error);
        let dataset = self.file.dataset(path).map_err(fail)?;
        let layout = dataset.layout().map_err(fail)?;
        match layout {
            Layout::Virtual => return Err(outside(path, "a virtual dataset")),
            // What is stored in external files has no address here, like what was never written.
            Layout::Contiguous { address: None, .. } => {
                return Err(outside(path, "external storage, or no values at all"));
            }
            _ => {}
        }
        let got = dataset.shape().map_err(fail)?;
        Fault::check_length(at(path), got.first().copied().unwrap_or(1), shape[0])?;
        let flat = shape.len() == 1 && got.len() == 2 && got[1] == 1;
        if got != shape && !flat {
            return Err(Fault::malformed(at(path), format!("shape {got:?}"), format!("shape {shape:?}")));
        }
        let dtype = dataset.dtype().map_err(fail)?;
        if !kind.holds(&dtype) {
            return Err(Fault::malformed(at(path), format!("{dtype} values"), kind.expected()));
        }
        let element = u128::from(dataset.element_size().map_err(fail)?);
        let most = match &layout {
            Layout::Chunked { .. } if !dataset.filters().is_empty() => self.file_bytes * MAX_COMPRESSION,
            _ => self.file_bytes,
        };
        let too_large = |extent: &[u64]| {
            extent.iter().fold(element, |bytes, &d| bytes.saturating_mul(u128::from(d))) > u128::from(most)
        };
        if too_large(&got) || matches!(&layout, Layout::Chunked { chunk_shape, .. } if too_large(chunk_shape))
        {
            let expected = format!("what fits into a file of {} bytes", self.file_bytes);
            return Err(Fault::malformed(at(path), format!("shape {got:?}"), expected));
        }
        Ok(dataset)
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

fn windows(n: u64, mut read: impl FnMut(u64, u64) -> Result<(), Fault>) -> Result<(), Fault> {
    (0..n).step_by(WINDOW as usize).try_for_each(|start| read(start, WINDOW.min(n - start)))
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
        Error::Format(FormatError::PathNotFound(_)) => {
            Fault::malformed(place, "nothing, or a link", "it in this file, since links are never followed")
        }
        Error::Format(FormatError::SignatureNotFound) => {
            Fault::malformed("byte 0", "no HDF5 signature", "an HDF5 file")
        }
        other => {
            let said = other.to_string();
            Fault::malformed(place, said.lines().next().unwrap_or_default(), "an intact HDF5 file")
        }
    }
}
