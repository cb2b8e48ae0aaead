//! Flags of the commands that describe and convert files.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use orrery_formats::{Comoving, SegyKind};

use super::values::parse_count_in;
use super::window::{WindowFlag, parse_window};
use super::{JsonArgs, MemoryArgs};

/// Flags of `info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// Snapshots (GADGET HDF5 or binary, extended XYZ, NPZ), fields (.npy, .vti, .png), SEG-Y
    /// files (.sgy) or checkpoints (.orrery)
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgs,
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// Flags of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status 0: all files are intact. 1: at least one differs. Each different file is one line.")]
pub struct CheckArgs {
    /// Output directories of runs, or of shots. Nothing is written to them
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// Flags of `convert`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  orrery convert volume.vti part.npy --window x=10..50 --stride 2
  orrery convert volume.npy slice.png --window z=20
  orrery convert line.sgy shot.svg --shot 3
  orrery convert velocity.sgy velocity.vti")]
pub struct ConvertArgs {
    /// Snapshot, field or SEG-Y file to read. An image (.png) is read as a field of grey values
    /// from 0 to 1
    pub input: PathBuf,
    /// File to write. The extension selects the format: .hdf5, .xyz or .npz for bodies, .npy or
    /// .vti for a field or a model, .png for a picture of a plane, and .npy, .csv, .svg (wiggles)
    /// or .png (grey values) for a seismogram
    pub output: PathBuf,
    /// Convert a cosmological snapshot, which is refused otherwise
    #[arg(long, value_enum, value_name = "HOW")]
    pub cosmological: Option<CosmologicalFlag>,
    /// Nodes of a field to keep along an axis, such as x=10..50, y=..50, y=10.. or z=5. The end of
    /// a range is not part of it. Can be repeated
    #[arg(long, value_name = "AXIS=RANGE", value_parser = parse_window)]
    pub window: Vec<WindowFlag>,
    /// Keep every N-th node of a field along each axis
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = |n: &str| parse_count_in::<u32>(n, 1..=1_000_000))]
    pub stride: Option<u32>,
    /// Number of the shot, for SEG-Y files with several shots
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub shot: Option<i32>,
    /// Content of a SEG-Y file [default: a model if all samples are positive, else seismograms]
    #[arg(long = "as", value_enum, value_name = "KIND")]
    pub kind: Option<SegyKindFlag>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// Treatment of a cosmological snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CosmologicalFlag {
    /// Physical coordinates, masses and peculiar velocities at the redshift of the file, time 0
    Physical,
    /// The numbers of the file, for example because the header is wrong
    Unchanged,
}

impl From<CosmologicalFlag> for Comoving {
    fn from(flag: CosmologicalFlag) -> Self {
        match flag {
            CosmologicalFlag::Physical => Self::ToPhysical,
            CosmologicalFlag::Unchanged => Self::Unchanged,
        }
    }
}

/// Content of a SEG-Y file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SegyKindFlag {
    /// Values at receivers against time
    Seismograms,
    /// Values at nodes, such as velocities. Traces go from the surface downwards
    Model,
}

impl From<SegyKindFlag> for SegyKind {
    fn from(flag: SegyKindFlag) -> Self {
        match flag {
            SegyKindFlag::Seismograms => Self::Seismograms,
            SegyKindFlag::Model => Self::Model,
        }
    }
}
