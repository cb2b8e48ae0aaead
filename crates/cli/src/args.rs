//! Command-line flags. The help texts, the manual page and the shell completions are generated from
//! these types.

mod devices;
mod files;
mod measure;
mod reference;
mod values;
mod window;

pub use devices::RunDevices;
pub use files::{CheckArgs, ConvertArgs, InfoArgs};
pub use measure::{
    BenchArgs, BenchCase, DevicesArgs, OccupancyArgs, RunCase, SelftestArgs, TuneArgs, TunedSolver,
};
pub use reference::{ENVIRONMENT, EXIT_STATUS, FILES, SIGNALS, Table};
pub use values::parse_count;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use orrery_device::DeviceChoice;
use orrery_engine::case::available_memory;
use orrery_formats::Limits;
use orrery_gravity::settings::SolverChoice;
use orrery_model::Precision;

use crate::commands::Tolerance;
use crate::laboratory::LadderArgs;
use devices::parse_run_devices;
use reference::help_section;
use values::{parse_count_in, parse_device, parse_memory_size, parse_wall_time};

/// N-body simulation on CPUs and GPUs, validated against known physics and reproducible to the bit
#[derive(Debug, Parser)]
#[command(name = "orrery", version, max_term_width = 100, propagate_version = true)]
#[command(after_help = main_after_help())]
pub struct Arguments {
    /// The command to execute.
    #[command(subcommand)]
    pub command: Command,
}

fn main_after_help() -> String {
    let first_steps = "\
First steps:
  orrery presets                 List the presets
  orrery run galaxy-collision    Simulate the collision of two galaxies
  orrery init plummer            Write plummer.toml, a case file to edit";
    format!("{first_steps}\n\n{}", help_section("Environment", ENVIRONMENT))
}

/// All commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate a case file or a preset
    Run(RunArgs),
    /// Resume a run from its newest intact checkpoint, or extend it
    Resume(ResumeArgs),
    /// Compare the files of a run with their recorded lengths and hashes
    Check(CheckArgs),
    /// List the presets (built-in cases)
    Presets,
    /// Write the case file of a preset, to edit and run
    Init(InitArgs),
    /// Print a JSON Schema of case files, for editors
    Schema,
    /// Generate initial conditions and write them to a file
    Ic(IcArgs),
    /// Show the contents of snapshots, fields, seismograms or checkpoints
    Info(InfoArgs),
    /// Convert a snapshot, a field or seismograms to another file format
    Convert(ConvertArgs),
    /// Compute accelerations and potentials of the bodies in a snapshot
    Forces(ForcesArgs),
    /// Measure force errors against the f64 sum over all pairs
    Accuracy(AccuracyArgs),
    /// Compute conserved quantities, radii and profiles, heat content, or arrival times
    Analyze(AnalyzeArgs),
    /// Compare two snapshots, two fields, two seismograms or two runs
    Compare(CompareArgs),
    /// Measure the speed of the solvers on this machine
    Bench(BenchArgs),
    /// List devices with their specified and measured speeds
    Devices(DevicesArgs),
    /// Check that the devices compute correct results
    Selftest(SelftestArgs),
    /// Time the optimisation steps of a computation, naive to default
    Ladder(LadderArgs),
    /// Calculate the blocks and warps of a kernel that an SM can hold
    Occupancy(OccupancyArgs),
    /// Find the fastest strategies of a device and store them
    Tune(TuneArgs),
    /// Print a shell completion script
    Completions {
        /// Shell that reads the script
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

/// Help of `--set`. Brackets in a doc comment would be links.
const SET_HELP: &str = "Replace a key of the case, such as time.end=\"2 Gyr\". An entry of a list has an index from 1, \
    such as 'wave.source[2].x=100', or its name, such as lennard_jones.species.Ar.epsilon=\"120 K\". Can be repeated";

/// Flags of `run`.
#[derive(Debug, Args)]
#[command(after_help = run_after_help())]
pub struct RunArgs {
    /// Case file (TOML) or name of a preset
    #[arg(value_name = "CASE.toml|PRESET")]
    pub case: String,
    #[arg(long, value_name = "KEY=VALUE", help = SET_HELP)]
    pub set: Vec<String>,
    /// Output directory [default: out/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Floating-point precision of the forces [default: the case's]
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionFlag>,
    /// Check the case, print it with all defaults and its memory needs, and exit
    #[arg(long, conflicts_with = "json")]
    pub dry_run: bool,
    /// Replace an earlier run in the output directory, and the file of --json
    #[arg(long)]
    pub force: bool,
    /// Resume the run in the output directory, or start it if there is none
    #[arg(long, conflicts_with_all = ["force", "dry_run"])]
    pub resume: bool,
    #[command(flatten)]
    pub common: CommonRunArgs,
}

/// Flags of `resume`.
#[derive(Debug, Args)]
#[command(after_help = run_after_help())]
pub struct ResumeArgs {
    /// Output directory of the run, or of a survey with its shots
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Extend the run to this simulated time, such as 2.5 or 2Gyr, also if it is finished. The
    /// result is the same as that of a run with this end from the start
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub end: Option<String>,
    /// Replace a key of the section checkpoint or limits, time.end or output.on_error, such as
    /// checkpoint.every="1 h". Can be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Restart tables or animation.gif if they were changed since the checkpoint, and
    /// replace the file of --json
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub common: CommonRunArgs,
}

fn run_after_help() -> String {
    format!("{}\n\n{}", help_section("Signals", SIGNALS), help_section("Exit status", EXIT_STATUS))
}

/// Flags that `run` and `resume` share.
#[derive(Debug, Args)]
pub struct CommonRunArgs {
    /// Device: auto, cpu, cuda, cuda:1, opencl or opencl:1. With auto, a new run uses the first
    /// GPU, or the CPU if there is none, and a resumed run uses the same device as before. Several
    /// devices share the run: cuda:0,cuda:1 or cuda:all. Ranks of mpirun get them in turn
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = parse_run_devices)]
    pub device: RunDevices,
    /// Do not use the strategies found by orrery tune. A resumed run keeps its strategy
    #[arg(long)]
    pub no_tuned: bool,
    /// Number of CPU threads of each rank [default: all cores, divided by the ranks on them]
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = |n: &str| parse_count_in::<u32>(n, 1..=4096))]
    pub threads: Option<u32>,
    /// Run even if another run may be writing to the output directory, on a file system without
    /// locks. For a run that was killed
    #[arg(long)]
    pub no_lock: bool,
    /// Write a checkpoint and exit before this wall-clock limit: 90min, 2h, 23:59:00, 1-12:00:00
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_wall_time)]
    pub wall_time: Option<Duration>,
    /// Print only warnings and errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Also print solver, memory, limits and every checkpoint. run.log in the output directory
    /// always has these lines
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
    /// Also write a summary of the run as JSON to this file. With -, print the JSON and no other
    /// text
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write the times of all activities of the run as JSON to this file. With -, print the
    /// JSON and no other text
    #[arg(long, value_name = "FILE")]
    pub timing: Option<PathBuf>,
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// The device flag of commands that cannot resume a run.
#[derive(Clone, Copy, Debug, Args)]
pub struct DeviceArgs {
    /// Device: auto, cpu, cuda, cuda:1, opencl or opencl:1. auto is the first GPU, or the CPU if
    /// there is none
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = parse_device)]
    pub device: DeviceChoice,
}

/// The memory limit of commands that read input files.
#[derive(Clone, Copy, Debug, Args)]
pub struct MemoryArgs {
    /// Refuse input that needs more memory, such as 500MB or 2GiB [default: available memory]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = parse_memory_size)]
    pub max_memory: Option<u64>,
}

impl Command {
    /// Returns the flags of a run if several ranks execute this command together.
    pub fn shared_run(&self) -> Option<&CommonRunArgs> {
        match self {
            Self::Run(arguments) => Some(&arguments.common),
            Self::Resume(arguments) => Some(&arguments.common),
            _ => None,
        }
    }
}

impl Command {
    /// Returns the path of the case, which can also be the name of a preset.
    pub fn case_file(&self) -> Option<&Path> {
        match self {
            Self::Run(arguments) => Some(Path::new(&arguments.case)),
            _ => None,
        }
    }

    /// Returns the flags of a measurement that several ranks execute together.
    pub fn shared_bench(&self) -> Option<&BenchArgs> {
        match self {
            Self::Bench(arguments) if arguments.case == BenchCase::Scaling => Some(arguments),
            _ => None,
        }
    }
}

impl MemoryArgs {
    /// Returns the limits for reading input.
    pub fn limits(self) -> Limits {
        limits_for(self.max_memory)
    }
}

/// Returns limits of `max_memory` bytes, or of the available memory.
pub fn limits_for(max_memory: Option<u64>) -> Limits {
    max_memory.or_else(available_memory).map_or_else(Limits::unbounded, |memory| Limits { memory })
}

/// The flags of commands that can write their results as JSON.
#[derive(Clone, Debug, Args)]
pub struct JsonArgs {
    /// Also write the results as JSON to this file. With -, print the JSON and no other text
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    pub force: bool,
}

/// Flags of `init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Name of the preset
    pub preset: String,
    /// File to write [default: PRESET.toml]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

/// Flags of `ic`.
#[derive(Debug, Args)]
pub struct IcArgs {
    /// Model: plummer, hernquist, uniform-sphere, galaxy, encounter, kepler, figure-eight,
    /// pythagorean or solar-system
    pub model: String,
    /// Number of bodies, such as 20000, 20_000 or 2e4 [default: the model's]
    #[arg(short, value_name = "N", allow_hyphen_values = true, value_parser = parse_count::<u64>)]
    pub n: Option<u64>,
    /// Seed of the random numbers [default: 1]
    #[arg(long, value_name = "S", allow_hyphen_values = true, value_parser = parse_count::<u64>)]
    pub seed: Option<u64>,
    /// Units: nbody, galactic or solar [default: galactic for galaxy and encounter, solar for
    /// solar-system, else nbody]
    #[arg(long)]
    pub units: Option<String>,
    /// Set another key of the section bodies, such as scale_radius=2. Can be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// File to write: .hdf5, .xyz or .npz
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

/// Flags of `forces`.
#[derive(Debug, Args)]
pub struct ForcesArgs {
    /// Snapshot to read
    pub file: PathBuf,
    #[command(flatten)]
    pub gravity: GravityArgs,
    #[command(flatten)]
    pub device_args: DeviceArgs,
    /// File to write, with the arrays id, acceleration and potential
    #[arg(short, long, value_name = "FILE", default_value = "forces.npz")]
    pub output: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// Flags of `accuracy`.
#[derive(Debug, Args)]
pub struct AccuracyArgs {
    /// Snapshot to read
    pub file: PathBuf,
    #[command(flatten)]
    pub gravity: GravityArgs,
    #[command(flatten)]
    pub device_args: DeviceArgs,
    /// Number of bodies to compare, spread evenly over the file
    #[arg(long, value_name = "K", default_value_t = 10_000, allow_hyphen_values = true, value_parser = |n: &str| parse_count_in::<u64>(n, 1..=1_000_000_000))]
    pub sample: u64,
    #[command(flatten)]
    pub json: JsonArgs,
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// Flags of `analyze`.
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// Output directory of a run or survey, snapshots, fields (.npy, .vti, .png) or SEG-Y files
    /// (.sgy)
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Directory for CSV and SVG files [default: DIR/analysis for one directory, else none]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Plummer softening of the potential energy, in units of the file [default: that of the run
    /// that wrote the file, or 0]
    #[arg(long, value_name = "LENGTH", allow_hyphen_values = true)]
    pub softening: Option<f64>,
    #[command(flatten)]
    pub device_args: DeviceArgs,
    #[command(flatten)]
    pub json: JsonArgs,
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// Flags of `compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Bodies are matched by id, so formats and the order of the bodies may differ.
A relative difference is |a - b| / max(|a|, |b|). For fields (.npy, .vti, .png)
and SEG-Y (.sgy) it is relative to the range of the values, largest minus
smallest. Seismograms are matched by the number of their shot. All frames of two
trajectories (.gsd, .xyz, .data) are compared, matched by their number, and
positions in periodic boxes by their nearest images. Of two runs, snapshots,
tables, trajectories and seismograms are compared.

Exit status:
  0  equal to the bit, or within the tolerance
  1  different
  2  invalid flags or input, such as different units")]
pub struct CompareArgs {
    /// Snapshot, trajectory, field, SEG-Y file, or output directory of a run or survey
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// Snapshot, trajectory, field, SEG-Y file or output directory to compare it with
    #[arg(value_name = "B")]
    pub second: PathBuf,
    /// Accept |a - b| <= ABS + REL max(|a|, |b|), for example 1e-6,1e-9 [default: equal bits]
    #[arg(long, value_name = "ABS,REL", value_parser = Tolerance::parse, allow_hyphen_values = true)]
    pub tolerance: Option<Tolerance>,
    #[command(flatten)]
    pub json: JsonArgs,
    #[command(flatten)]
    pub memory: MemoryArgs,
}

/// Flags that select the force solver and its settings.
#[derive(Clone, Debug, Args)]
pub struct GravityArgs {
    /// Force solver
    #[arg(long, value_enum, default_value_t = SolverFlag::Auto)]
    pub solver: SolverFlag,
    /// Opening angle of the tree, 0 < theta <= 1.2
    #[arg(long, default_value_t = 0.6, allow_hyphen_values = true)]
    pub theta: f64,
    /// Plummer softening, in units of the file [default: that of the run that wrote the file, or 0]
    #[arg(long, value_name = "LENGTH", allow_hyphen_values = true)]
    pub softening: Option<f64>,
    /// Floating-point precision
    #[arg(long, value_enum, default_value_t = PrecisionFlag(Precision::Mixed))]
    pub precision: PrecisionFlag,
}

/// Floating-point precision of the forces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrecisionFlag(pub Precision);

impl ValueEnum for PrecisionFlag {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(Precision::Single), Self(Precision::Mixed), Self(Precision::Double)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            Precision::Single => "f32",
            Precision::Mixed => "f32 products, differences of near pairs and sums in f64",
            Precision::Double => "f64",
        };
        Some(PossibleValue::new(self.0.as_str()).help(help))
    }
}

/// Force solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SolverFlag {
    /// The faster one for this number of bodies
    Auto,
    /// Sum over all pairs
    Direct,
    /// Barnes-Hut tree
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Arguments;

    #[test]
    fn flag_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    /// Commands that read no input files do not offer a limit on input.
    #[test]
    fn only_commands_that_read_input_have_max_memory() {
        let has_limit = |command: &clap::Command| {
            command.get_arguments().any(|argument| argument.get_long() == Some("max-memory"))
        };
        let found: Vec<String> = Arguments::command()
            .get_subcommands()
            .filter(|command| has_limit(command))
            .map(|command| command.get_name().to_owned())
            .collect();
        let expected =
            ["run", "resume", "check", "info", "convert", "forces", "accuracy", "analyze", "compare"];
        assert_eq!(found, expected);
    }

    /// A negative number is refused with the message of its flag. Otherwise clap takes it for an
    /// unknown flag.
    #[test]
    fn flags_with_numbers_accept_a_minus_sign() {
        for command in Arguments::command().get_subcommands() {
            for flag in command.get_arguments().filter(|flag| !flag.is_positional()) {
                let names = flag.get_value_names().unwrap_or_default();
                let is_number = ["N", "N,...", "K", "S", "SIZE", "TIME", "LENGTH", "ERROR", "THETA"];
                if names.iter().any(|name| is_number.contains(&name.as_str())) {
                    // `allow_negative_numbers` does not accept -1e-3.
                    let is_accepted = flag.is_allow_hyphen_values_set();
                    assert!(is_accepted, "{} {}", command.get_name(), flag.get_id());
                }
            }
        }
    }

    /// Only `run` and `resume` say how the device of a resumed run is selected.
    #[test]
    fn only_run_and_resume_mention_resuming_in_the_help_of_device() {
        for command in Arguments::command().get_subcommands() {
            let device = command.get_arguments().find(|argument| argument.get_long() == Some("device"));
            let Some(help) = device.and_then(clap::Arg::get_help) else { continue };
            let can_resume = ["run", "resume"].contains(&command.get_name());
            assert_eq!(help.to_string().contains("resume"), can_resume, "{}: {help}", command.get_name());
        }
    }

    /// A help text is a phrase in the imperative mood or a noun phrase, without a period at its
    /// end.
    #[test]
    fn help_texts_have_no_period_at_the_end() {
        let command = Arguments::command();
        for command in command.get_subcommands() {
            let about = command.get_about().map(ToString::to_string).expect("every command has a help text");
            let helps = command.get_arguments().filter_map(clap::Arg::get_help).map(ToString::to_string);
            for help in helps.chain([about]) {
                assert!(!help.ends_with('.'), "{}: {help}", command.get_name());
                assert!(help.starts_with(|c: char| c.is_uppercase()), "{}: {help}", command.get_name());
            }
        }
    }
}
