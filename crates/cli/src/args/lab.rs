//! Flags of the commands that measure and check: `bench`, `devices`, `selftest`, `ladder`, `tune`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use orrery_device::DeviceChoice;
use orrery_lab::sample::Shape;
use orrery_particles::simd::InstructionSet;
use orrery_particles::solver::tree::device::Order;

use super::{DeviceArgs, PrecisionFlag, device};

/// Measure speed.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure
    #[arg(value_enum)]
    pub what: BenchCase,
    /// Numbers of bodies [default: 32768 for direct, 4096 to 1048576 on a GPU; 100000,1000000 for tree, 1048576,8388608
    /// on a GPU; 1000000 for checkpoint], or of elements for primitives [default: 2^20, 2^18 to sort; on a GPU 2^28,
    /// 2^20 and 2^24 to sort]
    #[arg(short, value_name = "N,...", value_delimiter = ',')]
    pub n: Vec<usize>,
    /// Arithmetic [default: all three for direct, mixed for tree, single and mixed on a device]
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionFlag>,
    #[command(flatten)]
    pub device_args: DeviceArgs,
    /// Ignore what orrery tune found
    #[arg(long)]
    pub no_tuned: bool,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// Tree: opening angle of the geometric acceptance [default: 0.5 on a device]
    #[arg(long, allow_negative_numbers = true)]
    pub theta: Option<f64>,
    /// Tree on the processor: without --theta, the relative acceptance is tuned to this rms force error [default: 0.001]
    #[arg(long, value_name = "ERROR", allow_negative_numbers = true)]
    pub rms: Option<f64>,
    /// Tree: where the bodies are [default: plummer; both on a device]
    #[arg(long, value_enum)]
    pub bodies: Option<BenchBodies>,
    /// Tree on a device: the highest multipole of its cells [default: quadrupole]
    #[arg(long, value_enum)]
    pub order: Option<OrderFlag>,
    /// Tree on a device: most bodies in a leaf, for experiments
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub leaf: Option<u32>,
    /// Tree on a device: most bodies in a group that walks together, 32 at most, for experiments
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub group: Option<u32>,
    /// Hold the instruction set down, for comparison [default: the best there is]
    #[arg(long, value_enum)]
    pub simd: Option<SimdFlag>,
    /// Timed repeats, after one that is not counted [default: 5; on a device 20 and more]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: Option<u32>,
    /// Write the results as JSON as well
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Only build the kernels, without a cached one and with it, and print the times as JSON
    #[arg(long, hide = true)]
    pub builds: bool,
}

/// What `bench` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchCase {
    /// All pairs
    Direct,
    /// Barnes-Hut, tree build included
    Tree,
    /// Direct and tree from few to many bodies: where solver = "auto" should change over
    Crossover,
    /// Writing a checkpoint, against writing its bytes once
    Checkpoint,
    /// Sum, scan, sort and histogram, each result checked
    Primitives,
}

/// Bodies for `bench tree`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchBodies {
    /// A Plummer sphere
    Plummer,
    /// A uniform cube
    Cube,
}

impl From<BenchBodies> for Shape {
    fn from(flag: BenchBodies) -> Self {
        match flag {
            BenchBodies::Plummer => Self::Plummer,
            BenchBodies::Cube => Self::Cube,
        }
    }
}

/// The highest multipole of a tree's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderFlag {
    /// Masses at their centres
    Monopole,
    /// And second moments
    Quadrupole,
    /// And third
    Octupole,
}

impl From<OrderFlag> for Order {
    fn from(flag: OrderFlag) -> Self {
        match flag {
            OrderFlag::Monopole => Self::Monopole,
            OrderFlag::Quadrupole => Self::Quadrupole,
            OrderFlag::Octupole => Self::Octupole,
        }
    }
}

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimdFlag {
    /// Plain loops
    Portable,
    /// AVX2 with FMA
    Avx2,
    /// AVX-512
    Avx512,
}

impl From<SimdFlag> for InstructionSet {
    fn from(flag: SimdFlag) -> Self {
        match flag {
            SimdFlag::Portable => Self::Portable,
            SimdFlag::Avx2 => Self::Avx2,
            SimdFlag::Avx512 => Self::Avx512,
        }
    }
}

/// List devices.
#[derive(Debug, Args)]
pub struct Devices {
    /// Write the list as JSON as well
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Check devices.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 all checks passed; 1 one failed, or there is no device; 2 no such device."
)]
pub struct Selftest {
    /// Only checks whose name contains this
    pub filter: Option<String>,
    /// Device to check, such as cuda or opencl:1 [default: every one]
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub device: Option<DeviceChoice>,
    /// List the checks and stop
    #[arg(long)]
    pub list: bool,
}

/// Time a ladder.
#[derive(Debug, Args)]
pub struct Ladder {
    /// The computation
    #[arg(value_enum)]
    pub name: LadderName,
    /// Number of bodies, numbers or bytes [default: 65536 bodies for direct and 1048576 for tree, 2^28 numbers or bytes,
    /// on a GPU; fewer elsewhere]
    #[arg(short, value_name = "N")]
    pub n: Option<usize>,
    #[command(flatten)]
    pub device_args: DeviceArgs,
    /// Direct: ignore what orrery tune found
    #[arg(long)]
    pub no_tuned: bool,
    /// Write the ladder as JSON as well
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Direct: draw the rungs under the device's roofline
    #[arg(long, value_name = "F.svg")]
    pub plot: Option<PathBuf>,
}

/// A computation with a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LadderName {
    /// All-pairs gravity
    Direct,
    /// Barnes-Hut, tree build included
    Tree,
    /// Sum of many numbers, over block sizes
    Reduce,
    /// Counts of bytes in 256 bins, for random and for equal bytes
    Histogram,
}

/// Tune.
#[derive(Debug, Args)]
pub struct Tune {
    #[command(flatten)]
    pub device_args: DeviceArgs,
    /// Numbers of bodies [default: 1024 to 1048576 by powers of four]
    #[arg(short, value_name = "N,...", value_delimiter = ',')]
    pub n: Vec<usize>,
    /// Arithmetic [default: all three]
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionFlag>,
}
