//! The flags: help, man page and completions all come from here.

mod lab;

pub use lab::{BenchArgs, BenchCase, Devices, Ladder, LadderName, Selftest, Tune};

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use orrery_device::DeviceChoice;
use orrery_particles::settings::{Precision, SolverChoice};

/// N-body simulation: fast, checked against known physics, the same bits every time.
#[derive(Debug, Parser)]
#[command(name = "orrery", version, max_term_width = 100, propagate_version = true)]
#[command(
    after_help = "Environment: ORRERY_CACHE_DIR, where compiled kernels and tunings are kept [default: ~/.cache/orrery]; ORRERY_DEBUG=1, wait after each launch on a device, so that a fault is named where it happens.\n\nFirst steps:\n  orrery presets                 what there is to run\n  orrery run galaxy-collision    two galaxies pass through one another\n  orrery init plummer            a case file to edit"
)]
pub struct Arguments {
    /// Refuse input that would take more memory: 500MB, 2GiB [default: what is available]
    #[arg(long, global = true, value_name = "SIZE", value_parser = memory)]
    pub max_memory: Option<u64>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate a case file or a preset
    Run(Run),
    /// Go on with an interrupted run from its newest whole checkpoint
    Resume(Resume),
    /// List the cases inside the program
    Presets,
    /// Write a preset's case file, to be edited
    Init {
        /// Name of the preset
        preset: String,
        /// Where to write it [default: PRESET.toml]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace an existing file
        #[arg(long)]
        force: bool,
    },
    /// Make initial conditions and write them to a file
    Ic(Ic),
    /// Tell what a snapshot or checkpoint holds
    Info {
        /// Snapshot (GADGET HDF5 or binary, extended XYZ, NPZ) or checkpoint (.orrery)
        file: PathBuf,
    },
    /// Convert a snapshot to another format, chosen by the extension
    Convert {
        /// Snapshot to read
        input: PathBuf,
        /// Snapshot to write: .hdf5, .xyz or .npz
        output: PathBuf,
    },
    /// Compute accelerations and potentials of a snapshot's bodies
    Forces {
        /// Snapshot to read
        file: PathBuf,
        #[command(flatten)]
        gravity: Gravity,
        #[command(flatten)]
        device_args: DeviceArgs,
        /// Where to write id, acceleration and potential
        #[arg(short, long, value_name = "FILE", default_value = "forces.npz")]
        output: PathBuf,
    },
    /// Compare a solver's forces with the f64 sum over all pairs
    Accuracy {
        /// Snapshot to read
        file: PathBuf,
        #[command(flatten)]
        gravity: Gravity,
        #[command(flatten)]
        device_args: DeviceArgs,
        /// Bodies to compare, spread evenly over the file
        #[arg(long, value_name = "K", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
        sample: u64,
    },
    /// Conserved quantities, Lagrangian radii and density profile: table, CSV, SVG
    Analyze {
        /// A run's folder, or one snapshot
        path: PathBuf,
        /// Where to write CSV and SVG [default: analysis/ in the run's folder; none for a snapshot]
        #[arg(short, long, value_name = "DIR")]
        output: Option<PathBuf>,
        /// Plummer softening of the potential energy [default: the run's, else 0]
        #[arg(long, value_name = "LENGTH", allow_negative_numbers = true)]
        softening: Option<f64>,
        #[command(flatten)]
        device_args: DeviceArgs,
    },
    /// Measure the speed of the solvers on this machine
    Bench(BenchArgs),
    /// List the devices there are, with their figures as told and as measured
    Devices(Devices),
    /// Check that the devices compute rightly
    Selftest(Selftest),
    /// Time one computation in several ways, from the naive first to the one that runs use
    Ladder(Ladder),
    /// Find the fastest strategy for each number of bodies and keep it for later runs
    Tune(Tune),
    /// Print a shell's completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

/// Simulate a case.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Run {
    /// Case file (TOML), or the name of a preset
    #[arg(value_name = "CASE.toml|PRESET")]
    pub case: String,
    /// Replace a key of the case, such as time.end="2 Gyr"; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Output directory [default: out/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Arithmetic of the forces [default: the case's]
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionFlag>,
    /// Check the case, print it with all defaults and what it needs, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Replace an earlier run in the output directory
    #[arg(long)]
    pub force: bool,
    /// Go on with the run in the output directory if there is one; start it otherwise
    #[arg(long, conflicts_with_all = ["force", "dry_run"])]
    pub resume: bool,
    #[command(flatten)]
    pub running: Running,
}

/// Go on with a run.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Resume {
    /// Output directory of the run
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Replace a key of the sections checkpoint or limits, or output.on_error, such as checkpoint.every="1 h"
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Begin conserved.csv or animation.gif anew where they were changed since the checkpoint
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub running: Running,
}

/// Where to compute.
#[derive(Clone, Copy, Debug, Args)]
pub struct DeviceArgs {
    /// Where to compute: auto, cpu, cuda, cuda:1, opencl, opencl:1; auto takes the first GPU, without one the processor; a
    /// run that goes on takes what it had
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    pub device: DeviceChoice,
}

fn device(text: &str) -> Result<DeviceChoice, String> {
    text.parse().map_err(|_| "expected auto, cpu, cuda, cuda:0, opencl or opencl:0".to_owned())
}

/// What `run` and `resume` have in common.
#[derive(Debug, Args)]
pub struct Running {
    #[command(flatten)]
    pub device_args: DeviceArgs,
    /// Ignore what orrery tune found; a run that goes on computes as it did
    #[arg(long)]
    pub no_tuned: bool,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: Option<u32>,
    /// Stop in time, with a checkpoint, before so much time has passed: 90min, 2h, 23:59:00, 1-12:00:00
    #[arg(long, value_name = "TIME", value_parser = wall_time)]
    pub wall_time: Option<Duration>,
    /// Say nothing unless something is wrong
    #[arg(short, long)]
    pub quiet: bool,
}

const EXIT_STATUS: &str = "\
While it runs, SIGINT (Ctrl-C), SIGTERM, SIGHUP (unless nohup) and SIGXCPU end it after its step, with a checkpoint; \
SIGUSR1 writes a checkpoint and goes on. A second SIGINT ends it at once.

Exit status: 0 done; 1 the machine or the run failed; 2 the input is wrong and nothing was written; 3 stopped by a \
signal or --wall-time, with a checkpoint to resume from; 130 ended at once.";

/// `500MB`, `2GiB`, `2G` or a number of bytes.
fn memory(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 13] = [
        ("", 1),
        ("B", 1),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KIB", 1 << 10),
        ("MIB", 1 << 20),
        ("GIB", 1 << 30),
        ("TIB", 1 << 40),
        ("K", 1 << 10),
        ("M", 1 << 20),
        ("G", 1 << 30),
    ];
    let text = text.trim().to_ascii_uppercase();
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..at].trim(), text[at..].trim());
    let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes as f64);
    let bytes = number.parse::<f64>().ok().zip(unit).map(|(number, unit)| number * unit);
    let bytes = bytes.filter(|bytes| *bytes >= 1.0 && *bytes < 1e19).map(|bytes| bytes as u64);
    bytes.ok_or_else(|| "expected a size such as 500MB or 2GiB".to_owned())
}

fn wall_time(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time > 0 such as 90min, 2h, 23:59:00 or 1-12:00:00".to_owned();
    let time = orrery_engine::wall_time::parse(text).or_else(|| queue_time(text));
    time.filter(|time| !time.is_zero()).ok_or_else(expected)
}

/// As queues write it: `MINUTES:SECONDS`, `HOURS:MINUTES:SECONDS`, `DAYS-HOURS:MINUTES:SECONDS`.
fn queue_time(text: &str) -> Option<Duration> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [minutes, seconds] if days == "0" => (0, minutes, seconds),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let hours = days.parse::<u64>().ok()?.checked_mul(24)?.checked_add(hours)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    Some(Duration::from_secs(minutes.checked_mul(60)?.checked_add(seconds)?))
}

/// Make initial conditions.
#[derive(Debug, Args)]
pub struct Ic {
    /// plummer, hernquist, uniform-sphere, galaxy, encounter, kepler, figure-eight, pythagorean or solar-system
    pub model: String,
    /// Number of bodies
    #[arg(short, value_name = "N")]
    pub n: Option<u64>,
    /// Seed of the random numbers
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Units: nbody, galactic or solar [default: what suits the model]
    #[arg(long)]
    pub units: Option<String>,
    /// Another key of the section bodies, such as scale_radius=2; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Where to write: .hdf5, .xyz or .npz
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

/// The choice of force solver.
#[derive(Clone, Debug, Args)]
pub struct Gravity {
    /// Force solver
    #[arg(long, value_enum, default_value_t = SolverFlag::Auto)]
    pub solver: SolverFlag,
    /// Opening angle of the tree
    #[arg(long, default_value_t = 0.6, allow_negative_numbers = true)]
    pub theta: f64,
    /// Plummer softening, in the file's units of length
    #[arg(long, value_name = "LENGTH", default_value_t = 0.0, allow_negative_numbers = true)]
    pub softening: f64,
    /// Arithmetic
    #[arg(long, value_enum, default_value_t = PrecisionFlag::Mixed)]
    pub precision: PrecisionFlag,
}

/// f32, f64 or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrecisionFlag {
    /// f32
    Single,
    /// f32 products, f64 differences and sums
    Mixed,
    /// f64
    Double,
}

impl PrecisionFlag {
    /// Its name, as a case file writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Mixed => "mixed",
            Self::Double => "double",
        }
    }
}

impl From<PrecisionFlag> for Precision {
    fn from(flag: PrecisionFlag) -> Self {
        match flag {
            PrecisionFlag::Single => Self::Single,
            PrecisionFlag::Mixed => Self::Mixed,
            PrecisionFlag::Double => Self::Double,
        }
    }
}

/// A force solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SolverFlag {
    /// Whichever is faster for this many bodies
    Auto,
    /// All pairs
    Direct,
    /// Barnes-Hut
    Tree,
}

impl From<SolverFlag> for SolverChoice {
    fn from(flag: SolverFlag) -> Self {
        match flag {
            SolverFlag::Auto => Self::Auto,
            SolverFlag::Direct => Self::Direct,
            SolverFlag::Tree => Self::Tree,
        }
    }
}
