//! All frames of a trajectory, read one after the other.

use std::path::{Path, PathBuf};

use super::gsd::GsdFrames;
use super::xyz::{self, XyzFrames};
use super::{FluidFile, FluidFormat, detect_format, lammps};
use crate::error::{Fault, IoError};
use crate::limits::Limits;

/// The frames of a trajectory in their order. Only one frame is in memory.
pub struct FluidFrames {
    path: PathBuf,
    limits: Limits,
    source: Source,
}

/// The format of the file and what remains of it.
enum Source {
    Gsd(GsdFrames),
    ExtendedXyz(XyzFrames),
    /// A data file of LAMMPS has one frame. It is true if it was not read yet.
    Lammps(bool),
}

impl FluidFrames {
    /// Opens a file in one of the formats of [`super::read_fluid`].
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, IoError> {
        let open = || {
            Ok(match detect_format(path)? {
                FluidFormat::Gsd => Source::Gsd(GsdFrames::open(path)?),
                FluidFormat::ExtendedXyz => Source::ExtendedXyz(XyzFrames::open(path)?),
                FluidFormat::Lammps => Source::Lammps(true),
            })
        };
        let source = open().map_err(|fault: Fault| fault.in_file(path))?;
        Ok(Self { path: path.to_owned(), limits: *limits, source })
    }

    /// Reads the next frame. Returns `None` after the last one.
    pub fn next_frame(&mut self) -> Result<Option<FluidFile>, IoError> {
        let Self { path, limits, source } = self;
        let mut read = || {
            let frame = match source {
                Source::Gsd(frames) => frames.next_frame(limits)?,
                Source::ExtendedXyz(frames) => frames.next_frame(limits)?,
                Source::Lammps(is_new) => match std::mem::take(is_new) {
                    true => Some(lammps::read(path, limits)?),
                    false => None,
                },
            };
            if let Some(frame) = &frame {
                frame.check()?;
            }
            Ok(frame)
        };
        read().map_err(|fault: Fault| fault.in_file(path))
    }
}

/// Returns true if a file is a trajectory or a start of a fluid, and not a snapshot of bodies. An
/// extended XYZ file is one if it has a lattice, lacks velocities or masses, or has more than one
/// frame.
pub fn is_fluid_trajectory(path: &Path) -> bool {
    match detect_format(path) {
        Ok(FluidFormat::Gsd | FluidFormat::Lammps) => true,
        Ok(FluidFormat::ExtendedXyz) => xyz::is_trajectory(path).unwrap_or(false),
        Err(_) => false,
    }
}
