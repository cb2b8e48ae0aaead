//! Flags of the commands that measure and check devices: `bench`, `devices`, `selftest`,
//! `occupancy`, `tune`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use orrery_device::DeviceChoice;
use orrery_gravity::solver::tree::device::Order;
use orrery_measure::sample::Shape;
use orrery_measure::scaling::MeasuredPhysics;
use orrery_simd::InstructionSet;

use super::devices::{RunDevices, parse_run_devices};
use super::values::{parse_capability, parse_count, parse_count_in, parse_device};
use super::{DeviceArgs, JsonArgs, PrecisionFlag};

/// Flags of `bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_SIZES)]
pub struct BenchArgs {
    /// Case to measure
    #[arg(value_enum)]
    pub case: BenchCase,
    /// Numbers of bodies, of elements for primitives, of nodes along a side for heat and wave,
    /// where wave also has a square with 16 N nodes along a side, of particles for lj. For run and
    /// scaling, sizes of the one case that --case or --physics gives [default: see below]
    #[arg(short, value_name = "N,...", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_count::<usize>)]
    pub n: Vec<usize>,
    /// Floating-point precision [default: all for direct, mixed for tree, single and mixed for tree
    /// on a device, single and double for heat and wave, mixed for lj, for run mixed for bodies and
    /// single for heat and wave]
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionFlag>,
    /// Device: auto, cpu, cuda, cuda:1, opencl or opencl:1. auto is the first GPU, or the CPU if
    /// there is none. For scaling, one rank per device of a list: cuda:0,cuda:1 or cuda:all
    #[arg(long = "device", value_name = "DEVICE", default_value = "auto", value_parser = parse_run_devices)]
    pub devices: RunDevices,
    /// Do not use the strategies found by orrery tune
    #[arg(long)]
    pub no_tuned: bool,
    /// Number of CPU threads, for scaling under mpirun per rank [default: all cores]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = |n: &str| parse_count_in::<u32>(n, 1..=4096))]
    pub threads: Option<u32>,
    /// Limit SIMD to this instruction set [default: the best of this CPU]
    #[arg(long, value_enum)]
    pub simd: Option<SimdFlag>,
    /// Number of timed repetitions, after one untimed [default: 5, on a device at least 20, for run
    /// 1, for scaling 3]
    #[arg(long, value_name = "K", allow_hyphen_values = true, value_parser = |n: &str| parse_count_in::<u32>(n, 1..=1000))]
    pub repeats: Option<u32>,
    #[command(flatten)]
    pub json: JsonArgs,
    /// Opening angle, 0 < theta <= 1.2 [default: 0.5 on a device, see --rms on the CPU]
    #[arg(long, allow_hyphen_values = true, help_heading = TREE_OPTIONS)]
    pub theta: Option<f64>,
    /// On the CPU without --theta: tune the relative opening criterion to this rms force error
    /// [default: 0.001]
    #[arg(long, value_name = "ERROR", allow_hyphen_values = true, help_heading = TREE_OPTIONS)]
    pub rms: Option<f64>,
    /// Distribution of the bodies [default: plummer, on a device both]
    #[arg(long, value_enum, help_heading = TREE_OPTIONS)]
    pub bodies: Option<BenchBodies>,
    /// On a device: highest multipole order of the cells [default: quadrupole]
    #[arg(long, value_enum, help_heading = TREE_OPTIONS)]
    pub order: Option<OrderFlag>,
    /// On a device: maximum number of bodies per leaf, for experiments
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = |n: &str| parse_count_in::<u32>(n, 1..=1024), help_heading = TREE_OPTIONS)]
    pub leaf: Option<u32>,
    /// On a device: maximum number of bodies per group that walks the tree together, at most 32,
    /// for experiments
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = |n: &str| parse_count_in::<u32>(n, 1..=32), help_heading = TREE_OPTIONS)]
    pub group: Option<u32>,
    /// On a device: also measure every strategy that was considered, for experiments
    #[arg(long, help_heading = PRIMITIVES_OPTIONS)]
    pub candidates: bool,
    /// Runs to measure, such as heat,wave [default: all, threads only on the CPU]
    #[arg(long = "case", value_enum, value_name = "NAME,...", value_delimiter = ',', help_heading = RUN_OPTIONS)]
    pub run_cases: Vec<RunCase>,
    /// Number of steps of every run, for a shorter measurement [default: see below]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = |n: &str| parse_count_in::<u64>(n, 1..=1_000_000_000), help_heading = RUN_OPTIONS)]
    pub steps: Option<u64>,
    /// Physics to measure, such as wave,lj [default: all]
    #[arg(long, value_enum, value_name = "NAME,...", value_delimiter = ',', help_heading = SCALING_OPTIONS)]
    pub physics: Vec<ScalingPhysics>,
    /// Bandwidth of the link of a GPU per direction, for the prediction [default: 50, InfiniBand
    /// NDR]
    #[arg(long, value_name = "GB/S", allow_hyphen_values = true, help_heading = SCALING_OPTIONS)]
    pub link_gb_per_s: Option<f64>,
    /// Latency of the link in microseconds, for the prediction [default: 5]
    #[arg(long, value_name = "US", allow_hyphen_values = true, help_heading = SCALING_OPTIONS)]
    pub link_latency_us: Option<f64>,
    /// Draw computation and communication of each physics in FILE-wave.svg and so on, and the
    /// predicted efficiency in FILE-efficiency.svg
    #[arg(long, value_name = "FILE.svg", help_heading = SCALING_OPTIONS)]
    pub plot: Option<PathBuf>,
    /// Only build the kernels, first compiled and then from the cache, and print the times as JSON
    #[arg(long, hide = true)]
    pub builds: bool,
}

/// Heading of the flags that only `bench tree` uses.
const TREE_OPTIONS: &str = "Options of bench tree";

/// Heading of the flags that only `bench primitives` uses.
const PRIMITIVES_OPTIONS: &str = "Options of bench primitives";

/// Heading of the flags that only `bench scaling` uses.
const SCALING_OPTIONS: &str = "Options of bench scaling";

/// Heading of the flags that only `bench run` uses.
const RUN_OPTIONS: &str = "Options of bench run";

/// Default sizes of all cases.
const BENCH_SIZES: &str = "\
Default sizes (-n):
  case        CPU               GPU
  direct      32768             4096 to 1048576
  tree        100000,1000000    1048576,8388608
  crossover   1000 to 24000     16384 to 524288
  checkpoint  1000000           -
  primitives  2^20, sort 2^18,  2^28, sort 2^20 and 2^24, transpose also 2^26,
              matmul 2^16       matmul 2^24, label 2^26
  heat        4096              16384
  wave        256               1024
  lj          32000             4096,65536,1048576,16777216

Runs of bench run (--case), with their default sizes (-n) and steps:
  run               CPU    GPU      steps  output
  galaxy-collision  40000  40000     1200  that of the preset
  threads           40000  -         1200  galaxy-collision with 1 and all threads
  plummer           10000  1000000   1000  that of the preset
  few-bodies        1024   4096     10000  none
  heat              2048   16384     2000  an image every 20 steps
  wave              128    512       2000  an image every 20 steps

MeasuredPhysics of bench scaling (--physics), with their default sizes (-n):
  physics  CPU     GPU
  wave     256     1024     nodes along a side of a cube
  heat     4096    16384    nodes along a side of a square
  gravity  131072  1048576  bodies
  lj       32768   1048576  particles
The ranks are the devices of --device, or the processes of mpirun -n P orrery
bench scaling.";

/// Cases that `bench` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchCase {
    /// Forces by the sum over all pairs
    Direct,
    /// Forces by the Barnes-Hut tree, including the tree build
    Tree,
    /// Direct and tree from few to many bodies, to find where tree becomes faster
    Crossover,
    /// Writing a checkpoint, compared with a plain write of the same bytes
    Checkpoint,
    /// Sum, scan, sort, histogram, transpose, matrix product and connected components, with checked
    /// results
    Primitives,
    /// Time steps of the heat equation on a square
    Heat,
    /// Time steps of the wave equation in a cube and on a square
    Wave,
    /// Time steps of a Lennard-Jones melt, with energies every 100 steps
    Lj,
    /// Whole runs with their output, compared with the time of their forces or field updates
    Run,
    /// Time steps on 1, 2, 4, ... ranks, and a prediction for many GPUs
    Scaling,
}

/// Physics that `bench scaling` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScalingPhysics {
    /// Waves in a cube, order 8
    Wave,
    /// Heat on a square
    Heat,
    /// A Plummer sphere with the tree
    Gravity,
    /// A Lennard-Jones melt
    Lj,
}

impl From<ScalingPhysics> for MeasuredPhysics {
    fn from(flag: ScalingPhysics) -> Self {
        match flag {
            ScalingPhysics::Wave => Self::Wave,
            ScalingPhysics::Heat => Self::Heat,
            ScalingPhysics::Gravity => Self::Gravity,
            ScalingPhysics::Lj => Self::LennardJones,
        }
    }
}

/// Runs that `bench run` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunCase {
    /// Preset galaxy-collision with its output
    GalaxyCollision,
    /// Preset galaxy-collision with one thread and with all threads, on the CPU
    Threads,
    /// Preset plummer with steps of 0.001 and its output
    Plummer,
    /// Preset plummer with few bodies and steps of 0.001, without output
    FewBodies,
    /// Preset sine-decay with an image every 20 steps
    Heat,
    /// Preset wave-3d with an image every 20 steps
    Wave,
}

/// Distribution of the bodies for `bench tree`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchBodies {
    /// Plummer sphere
    Plummer,
    /// Uniform cube
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

/// Highest multipole order of the cells of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderFlag {
    /// Total mass at the centre of mass
    Monopole,
    /// Monopole and second moments
    Quadrupole,
    /// Quadrupole and third moments
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

/// SIMD instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SimdFlag {
    /// No explicit SIMD
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

/// Flags of `devices`.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Measure the roofs of every device: f32, f64, and all levels of its memory
    #[arg(long)]
    pub roofline: bool,
    /// With --roofline: draw the roofs of all devices, and those of each device in FILE-cpu.svg,
    /// FILE-cuda-0.svg and so on
    #[arg(long, value_name = "FILE.svg", requires = "roofline")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Flags of `selftest`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status:
  0  all checks passed
  1  a check failed, or this machine has no device
  2  the device given by --device does not exist")]
pub struct SelftestArgs {
    /// Run only checks whose name contains this text
    pub filter: Option<String>,
    /// Device to check, such as cuda or opencl:1 [default: all devices]
    #[arg(long, value_name = "DEVICE", value_parser = parse_device)]
    pub device: Option<DeviceChoice>,
    /// List the checks and exit
    #[arg(long)]
    pub list: bool,
    /// Report to a parent process, in lines of JSON. For the processes of the self-test
    #[arg(long, hide = true)]
    pub worker: bool,
    /// Check of a worker. Without any, it lists devices
    #[arg(long = "check", value_name = "NAME", hide = true, requires = "worker")]
    pub checks: Vec<String>,
}

/// Flags of `occupancy`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  orrery occupancy --block 256 --registers 64 --shared 16384 --arch 9.0
  orrery occupancy reduce             All kernels of the ladder
  orrery occupancy matmul/TILE=32     Those with this text in name or definitions")]
pub struct OccupancyArgs {
    /// Kernels of a ladder, on a CUDA device: name of the ladder, or name/text for those that
    /// contain the text
    #[arg(value_name = "KERNEL", conflicts_with_all = ["registers", "shared", "arch", "block"])]
    pub kernel: Option<String>,
    /// Threads per block
    #[arg(long, value_name = "N", default_value_t = 256, allow_hyphen_values = true, value_parser = parse_count::<u32>)]
    pub block: u32,
    /// Registers per thread, as ptxas -v reports them
    #[arg(long, value_name = "N", required_unless_present = "kernel", allow_hyphen_values = true, value_parser = parse_count::<u32>)]
    pub registers: Option<u32>,
    /// Bytes of shared memory per block
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true, value_parser = parse_count::<u32>)]
    pub shared: u32,
    /// Compute capability, such as 9.0 [default: that of the device]
    #[arg(long, value_name = "X.Y", value_parser = parse_capability, conflicts_with = "device")]
    pub arch: Option<(u32, u32)>,
    /// CUDA device, such as cuda or cuda:1
    #[arg(long, value_name = "DEVICE", default_value = "cuda", value_parser = parse_device)]
    pub device: DeviceChoice,
    #[command(flatten)]
    pub json: JsonArgs,
    /// Draw the occupancy over the block size
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Flags of `tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// Solver to tune [default: all with their default sizes, direct with -n]
    #[arg(value_enum)]
    pub solver: Option<TunedSolver>,
    #[command(flatten)]
    pub device_args: DeviceArgs,
    /// Numbers of bodies, of particles for lj, of elements for primitives, or of nodes along a side
    /// for heat and wave, where wave also has a square with 16 N nodes along a side [default:
    /// powers of 4 from 1024 to 1048576, on a GPU powers of 4 from 65536 to 4194304 for tree,
    /// 1024,4096,16384 for heat, 128,256,512,1024 for wave, powers of 4 from 4096 to 4194304 for
    /// lj, and as for bench for primitives]
    #[arg(short, value_name = "N,...", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_count::<usize>)]
    pub n: Vec<usize>,
    /// Floating-point precision [default: all three, single and double for heat and wave, mixed for
    /// lj]
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionFlag>,
    /// Opening angle of tree, 0 < theta <= 1.2 [default: 0.6]
    #[arg(long, allow_hyphen_values = true)]
    pub theta: Option<f64>,
}

/// Solver that `tune` tunes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TunedSolver {
    /// Forces by the sum over all pairs
    Direct,
    /// Forces by the Barnes-Hut tree, including the tree build
    Tree,
    /// Time steps of the heat equation
    Heat,
    /// Time steps of the wave equation of order 8, in a cube and on a square
    Wave,
    /// Time steps of a Lennard-Jones melt
    Lj,
    /// Sum, scan, sort, histogram, transpose, matrix product and connected components, for bench
    /// and ladder
    Primitives,
}
