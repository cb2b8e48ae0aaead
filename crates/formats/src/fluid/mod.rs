//! Files of fluids: trajectories, which grow by one frame at a time, and starts.
//!
//! [`append_fluid_frame`] writes GSD and extended XYZ. [`read_fluid`] reads these two and the data
//! files of LAMMPS. [`FluidFrames`] reads all frames of a trajectory.
//!
//! # Appending
//!
//! The content of a trajectory depends on its frames only, not on the calls that wrote them. A
//! resumed run therefore gives the same bytes as a run that was not interrupted. Each call syncs
//! the file to disk. If it is interrupted or fails, the earlier frames are intact, and the next
//! call removes the remains.

mod builder;
mod elements;
mod frames;
mod gsd;
mod lammps;
mod trajectory;
mod xyz;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::simulation_box::SimulationBox;

pub use frames::{FluidFrames, is_fluid_trajectory};

use crate::error::{Fault, IoError};
use crate::limits::{Limits, check_provenance, reserve_column};
use crate::regular::open_input;
use crate::text::{MAX_QUOTED_CHARS, shorten_for_message};

/// Largest number of species in a file.
pub(crate) const MAX_SPECIES: usize = 256;

/// A species of a fluid, as trajectories describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidSpecies {
    /// Name without blanks, for example `Ar`.
    pub name: String,
    /// Mass of a particle.
    pub mass: f64,
    /// Length parameter of the potential. Trajectories store it as diameter.
    pub sigma: f64,
}

/// One frame of a trajectory.
#[derive(Clone, Copy, Debug)]
pub struct FluidFrame<'a> {
    /// The particles, in the order of the user.
    pub particles: &'a FluidParticles,
    /// All species, in the order of their indices.
    pub species: &'a [FluidSpecies],
    /// Number of steps taken.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Name of the system of units, for example `lj`.
    pub units: &'a str,
    /// Unit of each quantity, for example `("length", "nm")`. Names are words of letters, digits
    /// and underscores.
    pub unit_names: &'a [(&'static str, String)],
    /// Origin of the data, as names and texts. Only the first frame of a file contains it.
    pub provenance: &'a [(String, String)],
}

/// Particles of a fluid as a file describes them.
///
/// All columns have one entry per particle, in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidFile {
    /// The box, open or periodic. It is valid ([`SimulationBox::validate`]). Particles of an open
    /// box are in its middle half.
    pub bounds: SimulationBox,
    /// Coordinates, all finite. In a periodic box they may be outside the box.
    pub coordinates: Vec3s,
    /// Velocities, all finite, if the file has them.
    pub velocity: Option<Vec3s>,
    /// Numbers of box lengths to add to the coordinates for the unwrapped ones, if the file has
    /// them.
    pub image: Option<[Vec<i32>; 3]>,
    /// Names of the species, at most 256.
    pub species_names: Vec<String>,
    /// Index of the species of each particle.
    pub species: Vec<u8>,
    /// Mass of a particle of each species, if the file has the masses of all species.
    pub mass: Option<Vec<f64>>,
    /// Identifiers, all different.
    pub id: Vec<u64>,
    /// Number of steps, if the file has it.
    pub step: Option<u64>,
    /// Simulated time, if the file has it.
    pub time: Option<f64>,
    /// Unit of each quantity and the name of the system of units as `system`, if the file has them.
    pub units: Option<BTreeMap<String, String>>,
    /// Number of dimensions that the file states. `bounds` has 3 dimensions otherwise.
    pub stated_dimensions: Option<usize>,
    /// Descriptions of parts of the file that are not read, such as "864 bonds".
    pub ignored: Vec<String>,
}

impl FluidFile {
    /// Checks identifiers and box.
    fn check(&self) -> Result<(), Fault> {
        check_ids(&self.id)?;
        self.bounds.validate().map_err(Fault::Box)
    }
}

/// A format of fluids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FluidFormat {
    Gsd,
    ExtendedXyz,
    Lammps,
}

impl FluidFormat {
    fn from_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "gsd" => Some(Self::Gsd),
            "xyz" | "extxyz" => Some(Self::ExtendedXyz),
            "data" | "lmp" => Some(Self::Lammps),
            _ => None,
        }
    }

    fn from_content(head: &[u8]) -> Option<Self> {
        if gsd::looks_like(head) {
            Some(Self::Gsd)
        } else if crate::xyz::looks_like(head) {
            Some(Self::ExtendedXyz)
        } else if lammps::looks_like(head) {
            Some(Self::Lammps)
        } else {
            None
        }
    }
}

/// Appends a frame to a trajectory, in the format of the extension: `.gsd`, `.xyz` or `.extxyz`. A
/// missing file is created.
///
/// Frames of the file at this time or a later one are removed first, so a call may be repeated. The
/// file and its name are on the disk when the call has returned without an error.
pub fn append_fluid_frame(path: &Path, frame: &FluidFrame<'_>) -> Result<(), IoError> {
    check_frame(frame).map_err(|fault| fault.in_file(path))?;
    match FluidFormat::from_path(path) {
        Some(FluidFormat::Gsd) => gsd::append(path, frame),
        Some(FluidFormat::ExtendedXyz) => xyz::append(path, frame),
        _ => {
            let got = path.extension().map_or("(none)".into(), |e| format!(".{}", e.display()));
            Err(Fault::malformed("extension", got, ".gsd, .xyz or .extxyz").in_file(path))
        }
    }
}

/// Removes the frames of a trajectory at `time` or later, for example before a run is repeated from
/// there. A file without other frames is removed. A missing file has none.
pub fn remove_fluid_frames(path: &Path, time: f64) -> Result<(), IoError> {
    let in_file = |fault: Fault| fault.in_file(path);
    let Some(file) = trajectory::TrajectoryFile::open(path).map_err(in_file)? else { return Ok(()) };
    let has_frames = match FluidFormat::from_path(path) {
        Some(FluidFormat::Gsd) => gsd::remove_frames_from(file, time),
        _ => xyz::remove_frames_from(file, time),
    };
    match has_frames.map_err(in_file)? {
        true => Ok(()),
        false => crate::storage::remove_files(&[path.to_owned()]),
    }
}

fn check_frame(frame: &FluidFrame<'_>) -> Result<(), Fault> {
    let p = frame.particles;
    let n = p.id.len() as u64;
    let velocity = [&p.velocity.x, &p.velocity.y, &p.velocity.z];
    for axis in 0..3 {
        Fault::check_length("position", p.position[axis].len() as u64, n)?;
        Fault::check_length("image", p.image[axis].len() as u64, n)?;
        Fault::check_length("velocity", velocity[axis].len() as u64, n)?;
    }
    Fault::check_length("species", p.species.len() as u64, n)?;
    if let Some(&index) = p.species.iter().find(|&&index| usize::from(index) >= frame.species.len()) {
        let expected = format!("an index below {}", frame.species.len());
        return Err(Fault::malformed("species", index.to_string(), expected));
    }
    for species in frame.species {
        let name = &species.name;
        if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Fault::malformed("species", format!("{name:?}"), "a name without blanks"));
        }
    }
    let text_bytes = frame.provenance.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
    check_provenance(text_bytes, frame.provenance.len())
}

/// Returns true if the file at `path` starts like a GSD file.
pub(crate) fn is_gsd(path: &Path) -> Result<bool, Fault> {
    let mut head = Vec::new();
    open_input(path)?.0.take(8).read_to_end(&mut head)?;
    Ok(gsd::looks_like(&head))
}

pub(crate) use gsd::hash_frames as hash_gsd_frames;

/// Reads particles to start from. Of a trajectory it reads the last frame.
///
/// The format is that of the extension: `.gsd`, `.xyz`, `.extxyz`, and `.data` or `.lmp` for the
/// data files of LAMMPS. For another extension, the first bytes of the file select it.
pub fn read_fluid(path: &Path, limits: &Limits) -> Result<FluidFile, IoError> {
    let read = || {
        let fluid = match detect_format(path)? {
            FluidFormat::Gsd => gsd::read(path, limits)?,
            FluidFormat::ExtendedXyz => xyz::read(path, limits)?,
            FluidFormat::Lammps => lammps::read(path, limits)?,
        };
        fluid.check()?;
        Ok(fluid)
    };
    read().map_err(|fault: Fault| fault.in_file(path))
}

fn detect_format(path: &Path) -> Result<FluidFormat, Fault> {
    let mut head = Vec::new();
    open_input(path)?.0.take(4096).read_to_end(&mut head)?;
    if head.is_empty() {
        return Err(Fault::malformed("content", "an empty file", "particles of a fluid"));
    }
    FluidFormat::from_path(path).or_else(|| FluidFormat::from_content(&head)).ok_or_else(|| {
        Fault::malformed("byte 0", "unknown content", "a GSD, extended XYZ or LAMMPS data file")
    })
}

/// Checks that all identifiers are different.
fn check_ids(ids: &[u64]) -> Result<(), Fault> {
    // Increasing identifiers, as most files have, need no memory.
    if ids.windows(2).all(|pair| pair[0] < pair[1]) {
        return Ok(());
    }
    let mut sorted = reserve_column(ids.len())?;
    sorted.extend_from_slice(ids);
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Fault::malformed("ids", format!("{} twice", pair[0]), "each id once")),
        None => Ok(()),
    }
}

/// Returns text of a file in quotes, for a message.
fn quoted(text: &str) -> String {
    format!("'{}'", shorten_for_message(text, MAX_QUOTED_CHARS))
}
