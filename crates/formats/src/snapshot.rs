//! Snapshots in all formats: detection of the format, reading, atomic writing, and a summary of a
//! file.

use std::fs;
use std::io::Read;
use std::path::Path;

use orrery_model::{Particles, Species, Units, format_count};

use crate::cosmology::{Comoving, HUBBLE_PARAMETER, PERIODIC_BOX, recorded_expansion_factor};
use crate::error::{Fault, IoError};
use crate::field::FieldFormat;
use crate::limits::{Limits, check_provenance};
use crate::regular::open_input;
use crate::storage::replace_file;
use crate::text::OTHER_TYPES;
use crate::{gadget, hdf5, npz, xyz};

/// State of a simulation at one time, and its provenance.
///
/// ```
/// use orrery_formats::{Limits, Snapshot, read_snapshot, write_snapshot};
/// use orrery_model::{Units, ic::Plummer};
///
/// let particles = Plummer { n: 100, ..Plummer::default() }.generate(1.0)?;
/// let provenance = vec![("case".to_owned(), "a Plummer sphere".to_owned())];
/// let snapshot = Snapshot { particles, time: 0.5, step: 10, units: Units::NBody, provenance };
///
/// // The extension selects the format: .hdf5, .xyz or .npz.
/// let path = std::env::temp_dir().join(format!("orrery-doc-{}.xyz", std::process::id()));
/// write_snapshot(&path, &snapshot)?;
/// assert_eq!(read_snapshot(&path, &Limits::unbounded())?, snapshot);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Bodies, in the order of the user.
    pub particles: Particles,
    /// Simulated time, in `units`.
    pub time: f64,
    /// Number of steps taken.
    pub step: u64,
    /// Units of all values.
    pub units: Units,
    /// Origin of the file, as names and texts in order. Names are unique.
    pub provenance: Vec<(String, String)>,
}

impl Snapshot {
    /// Whether the file names no units and galactic units were assumed.
    pub fn units_are_assumed(&self) -> bool {
        self.provenance.iter().any(|(name, _)| name == "units assumed")
    }

    /// Returns warnings about parts of the file that a simulation does not model, for example gas.
    /// Each is one line.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let gas = self.particles.species.iter().filter(|&&species| species == Species::Gas).count();
        if gas > 0 {
            let noun = format_count(gas as u64, "gas particle is", "gas particles are");
            warnings.push(format!("{noun} treated as collisionless, since there is no hydrodynamics"));
        }
        let notes = self
            .provenance
            .iter()
            .filter(|(name, _)| [PERIODIC_BOX, HUBBLE_PARAMETER, OTHER_TYPES].contains(&name.as_str()));
        warnings.extend(notes.map(|(name, text)| format!("{name}: {text}")));
        warnings
    }
}

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// GADGET's HDF5 layout: `.hdf5`, `.h5`.
    GadgetHdf5,
    /// GADGET's binary formats 1 and 2, for reading only.
    GadgetBinary,
    /// Extended XYZ: `.xyz`, `.extxyz`.
    ExtendedXyz,
    /// NumPy arrays: `.npz`.
    Npz,
}

impl Format {
    /// Returns the format for the extension of `path`.
    pub fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "hdf5" | "h5" => Some(Self::GadgetHdf5),
            "xyz" | "extxyz" => Some(Self::ExtendedXyz),
            "npz" => Some(Self::Npz),
            _ => None,
        }
    }

    /// Returns the format in which a file is read: that of its extension, else that of its first
    /// bytes.
    pub fn detect(path: &Path) -> Result<Self, IoError> {
        detect_format(path).map_err(|fault| fault.in_file(path))
    }

    /// Detects the format from the first bytes of a file.
    pub fn from_content(head: &[u8]) -> Option<Self> {
        if head.starts_with(b"\x89HDF\r\n\x1a\n") {
            Some(Self::GadgetHdf5)
        } else if head.starts_with(b"PK") {
            Some(Self::Npz)
        } else if gadget::looks_like(head) {
            Some(Self::GadgetBinary)
        } else if xyz::looks_like(head) {
            Some(Self::ExtendedXyz)
        } else {
            None
        }
    }

    /// Name for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::GadgetHdf5 => "GADGET HDF5",
            Self::GadgetBinary => "GADGET binary",
            Self::ExtendedXyz => "extended XYZ",
            Self::Npz => "NPZ",
        }
    }
}

/// Reads a snapshot in any supported format.
///
/// The format is that of the extension. For an unknown extension, the first bytes of the file
/// select it. Cosmological snapshots are refused, see [`read_snapshot_as`].
pub fn read_snapshot(path: &Path, limits: &Limits) -> Result<Snapshot, IoError> {
    read_snapshot_as(path, limits, Comoving::Refuse)
}

/// Reads a snapshot in any supported format, with the given treatment of cosmological snapshots.
pub fn read_snapshot_as(path: &Path, limits: &Limits, comoving: Comoving) -> Result<Snapshot, IoError> {
    read_with_format(path, limits, comoving).map(|(_, snapshot)| snapshot)
}

fn read_with_format(path: &Path, limits: &Limits, comoving: Comoving) -> Result<(Format, Snapshot), IoError> {
    let format = Format::detect(path)?;
    let snapshot = match format {
        Format::GadgetHdf5 => hdf5::read(path, limits, comoving),
        Format::GadgetBinary => gadget::read(path, limits, comoving),
        Format::ExtendedXyz => xyz::read(path, limits),
        Format::Npz => npz::read(path, limits),
    };
    Ok((format, snapshot.map_err(|fault| fault.in_file(path))?))
}

fn detect_format(path: &Path) -> Result<Format, Fault> {
    let (file, _) = open_input(path)?;
    let mut head = Vec::new();
    file.take(64).read_to_end(&mut head)?;
    if head.is_empty() {
        return Err(Fault::Empty);
    }
    Format::from_path(path).or_else(|| Format::from_content(&head)).ok_or_else(|| {
        let got = match FieldFormat::from_content(&head) {
            Some(format) => format!("a field ({})", format.name()),
            None => "unknown content".to_owned(),
        };
        Fault::malformed("byte 0", got, "a GADGET (HDF5 or binary), extended XYZ or NPZ file")
    })
}

/// Writes a snapshot in the format of the extension.
///
/// The write is atomic: the data go to a temporary file in the same folder, which is synced to disk
/// and then renamed. Another process sees the old file or the complete new one.
pub fn write_snapshot(path: &Path, snapshot: &Snapshot) -> Result<(), IoError> {
    check_writable(snapshot).map_err(|fault| fault.in_file(path))?;
    let format = Format::from_path(path).ok_or_else(|| {
        let got = path.extension().map_or("(none)".into(), |e| format!(".{}", e.display()));
        Fault::UnknownExtension { got }.in_file(path)
    })?;
    replace_file(path, |file| match format {
        Format::GadgetHdf5 => hdf5::write(file, snapshot),
        Format::ExtendedXyz => xyz::write(file, snapshot),
        Format::Npz => npz::write(file, snapshot),
        Format::GadgetBinary => unreachable!("no extension selects this format"),
    })
}

fn check_writable(snapshot: &Snapshot) -> Result<(), Fault> {
    let p = &snapshot.particles;
    let n = p.position.x.len() as u64;
    for (location, got) in [
        ("position y", p.position.y.len()),
        ("position z", p.position.z.len()),
        ("velocity x", p.velocity.x.len()),
        ("velocity y", p.velocity.y.len()),
        ("velocity z", p.velocity.z.len()),
        ("mass", p.mass.len()),
        ("id", p.id.len()),
        ("species", p.species.len()),
    ] {
        Fault::check_length(location, got as u64, n)?;
    }
    let text_bytes = snapshot.provenance.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
    check_provenance(text_bytes, snapshot.provenance.len())?;
    for (i, (key, value)) in snapshot.provenance.iter().enumerate() {
        let reject = |got: &str, expected: &str| Err(Fault::malformed("provenance", got, expected));
        if key.is_empty() {
            return reject("an empty name", "a name");
        }
        if snapshot.provenance[..i].iter().any(|(earlier, _)| earlier == key) {
            return reject(&format!("'{key}' twice"), "each name once");
        }
        // HDF5 strings end at the first NUL.
        if key.contains('\0') || value.contains('\0') {
            return reject(&format!("a NUL in '{}'", key.escape_debug()), "text");
        }
    }
    Ok(())
}

/// Summary of a snapshot file.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotDescription {
    /// Format of the file.
    pub format: Format,
    /// Length of the file.
    pub file_bytes: u64,
    /// Number of bodies of each species that occurs.
    pub species: Vec<(Species, usize)>,
    /// Simulated time. Not a time if there is an expansion factor.
    pub time: f64,
    /// Expansion factor of a cosmological snapshot.
    pub expansion_factor: Option<f64>,
    /// Number of steps taken.
    pub step: u64,
    /// Units of all values.
    pub units: Units,
    /// Smallest and largest finite coordinates of each axis, or `None` for an axis without any.
    pub extent: [Option<[f64; 2]>; 3],
    /// Sum of the masses.
    pub total_mass: f64,
    /// Number of NaN and infinite values of each column that has some.
    pub non_finite: Vec<(&'static str, usize)>,
    /// Number of bodies with a negative mass.
    pub negative_masses: usize,
    /// Number of bodies whose id an earlier body has.
    pub repeated_ids: usize,
    /// Warnings about parts of the file that a simulation does not model. Each is one line.
    pub warnings: Vec<String>,
    /// Origin of the file, as names and texts.
    pub provenance: Vec<(String, String)>,
}

impl SnapshotDescription {
    /// Number of bodies.
    pub fn body_count(&self) -> usize {
        self.species.iter().map(|(_, n)| n).sum()
    }
}

/// Reads a snapshot file and returns its summary. A cosmological snapshot is described with the
/// numbers of the file.
pub fn describe_snapshot(path: &Path, limits: &Limits) -> Result<SnapshotDescription, IoError> {
    let (format, snapshot) = read_with_format(path, limits, Comoving::Unchanged)?;
    let file_bytes = fs::metadata(path).map_err(|error| IoError::from_system(path, error))?.len();
    let bodies = &snapshot.particles;
    let count = |species| bodies.species.iter().filter(|&&s| s == species).count();
    let columns: [(&'static str, &[f64]); 7] = [
        ("position x", &bodies.position.x),
        ("position y", &bodies.position.y),
        ("position z", &bodies.position.z),
        ("velocity x", &bodies.velocity.x),
        ("velocity y", &bodies.velocity.y),
        ("velocity z", &bodies.velocity.z),
        ("mass", &bodies.mass),
    ];
    let non_finite = columns
        .map(|(name, column)| (name, column.iter().filter(|value| !value.is_finite()).count()))
        .into_iter()
        .filter(|&(_, count)| count > 0)
        .collect();
    let mut ids = bodies.id.clone();
    ids.sort_unstable();
    Ok(SnapshotDescription {
        format,
        file_bytes,
        species: Species::ALL.map(|s| (s, count(s))).into_iter().filter(|&(_, n)| n > 0).collect(),
        time: snapshot.time,
        expansion_factor: recorded_expansion_factor(&snapshot.provenance),
        step: snapshot.step,
        units: snapshot.units,
        extent: [0, 1, 2].map(|axis: usize| finite_range(columns[axis].1)),
        total_mass: bodies.total_mass(),
        non_finite,
        negative_masses: bodies.mass.iter().filter(|&&mass| mass < 0.0).count(),
        repeated_ids: ids.windows(2).filter(|pair| pair[0] == pair[1]).count(),
        warnings: snapshot.warnings(),
        provenance: snapshot.provenance,
    })
}

/// Returns the smallest and largest finite value.
fn finite_range(column: &[f64]) -> Option<[f64; 2]> {
    let finite = || column.iter().copied().filter(|value| value.is_finite());
    Some([finite().reduce(f64::min)?, finite().reduce(f64::max)?])
}
