//! The commands, one file each. Small related commands share a file.

mod accuracy;
mod analyze;
pub mod bench;
mod check;
mod compare;
pub use compare::Tolerance;
mod devices;
mod fields;
mod files;
mod fluids;
mod man;
mod occupancy;
mod other_files;
mod presets;
mod run;
mod run_list;
mod segy;
mod selftest;
mod timing;
pub mod tune;

use std::path::Path;

pub use bench::{follow_scaling, lead_scaling};
use clap::CommandFactory;
use orrery_engine::gravity::analysis::recorded_softening;
use orrery_formats::Snapshot;
use orrery_gravity::settings::{Acceptance, GravitySettings, MAX_THETA};
use orrery_model::{Units, format_count, short_number};

use crate::args::{Arguments, Command, GravityArgs};
use crate::clean::is_unsafe;
use crate::failure::Failure;
use crate::laboratory;
use crate::print::{eprint_line, print_lines};
use crate::ranks::LeadingRank;

/// How a command ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The command is complete.
    Done,
    /// `compare` or `check` found differences.
    Different,
    /// A run was stopped by a signal or its wall-time limit. Its checkpoint can be resumed.
    Stopped,
}

impl Ending {
    /// Returns the exit status.
    pub fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Different => 1,
            Self::Stopped => 3,
        }
    }
}

/// Executes the command that the flags select, on rank 0.
pub fn execute(arguments: &Arguments, leader: &LeadingRank) -> Result<Ending, Failure> {
    let done = match &arguments.command {
        // Only these four commands have other endings than success.
        Command::Run(arguments) => return run::run(arguments, leader),
        Command::Resume(arguments) => return run::resume(arguments, leader),
        Command::Check(arguments) => return check::check(arguments),
        Command::Compare(arguments) => return compare::compare(arguments),
        Command::Presets => {
            presets::list_presets();
            Ok(())
        }
        Command::Init(arguments) => presets::write_preset(arguments),
        Command::Schema => {
            presets::print_schema();
            Ok(())
        }
        Command::Ic(arguments) => files::write_initial_conditions(arguments),
        Command::Info(arguments) => files::print_info(arguments),
        Command::Convert(arguments) => files::convert(arguments),
        Command::Forces(arguments) => accuracy::write_forces(arguments),
        Command::Accuracy(arguments) => accuracy::print_force_errors(arguments),
        Command::Analyze(arguments) => analyze::analyze(arguments),
        Command::Bench(arguments) => bench::bench(arguments),
        Command::Devices(arguments) => devices::list_devices(arguments),
        Command::Selftest(arguments) => selftest::selftest(arguments),
        Command::Ladder(arguments) => laboratory::ladder(arguments),
        Command::Occupancy(arguments) => occupancy::occupancy(arguments),
        Command::Tune(arguments) => tune::tune(arguments),
        Command::Completions { shell } => {
            print_completions(*shell);
            Ok(())
        }
        Command::Man => man::print_manual_page(),
    };
    done.map(|()| Ending::Done)
}

fn print_completions(shell: clap_complete::Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "orrery", &mut script);
    print_lines(String::from_utf8_lossy(&script).trim_end());
}

/// Warns about assumptions in reading `snapshot`: units that the file does not name, and parts of
/// it that are not modelled, for example gas.
fn warn_about_input(path: &Path, snapshot: &Snapshot) {
    if snapshot.units_are_assumed() {
        warn_of_assumed_units(path);
    }
    print_warnings(path, &snapshot.warnings());
}

fn print_warnings(path: &Path, warnings: &[String]) {
    for warning in warnings {
        eprint_line!("warning: {}: {warning}", path.display());
    }
}

/// Warns that a file does not name its units. The gravitational constant follows from the units, so
/// a wrong assumption changes all forces.
fn warn_of_assumed_units(path: &Path) {
    eprint_line!("warning: {}: the file names no units, galactic units are assumed", path.display());
}

/// Number of threads that is accepted on every machine. Tests of reproducibility use more threads
/// than cores.
const MIN_THREAD_LIMIT: usize = 16;

/// Largest accepted number of threads per core. More threads only wait for each other.
const MAX_THREADS_PER_CORE: usize = 4;

/// Sets the number of CPU threads of this process. `None` means all cores.
pub fn use_threads(threads: Option<u32>) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.map_or(0, |n| n as usize);
    check_thread_count(&format!("--threads {threads}"), threads, cores)?;
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .map_err(|e| Failure::Usage(format!("--threads {threads}: cannot start the threads: {e}")))
}

/// Refuses a number of threads with which a run on this number of cores would crawl. `source` is
/// the flag or variable with its value.
pub fn check_thread_count(source: &str, threads: usize, cores: usize) -> Result<(), Failure> {
    let most = MIN_THREAD_LIMIT.max(MAX_THREADS_PER_CORE * cores);
    if threads <= most {
        return Ok(());
    }
    let cores = format_count(cores as u64, "core", "cores");
    Err(Failure::Usage(format!(
        "{source}: this process may use {cores}, expected at most {most} threads; without it there is one per core"
    )))
}

/// Checks the ranges of the flags.
fn check_gravity(flags: &GravityArgs) -> Result<(), Failure> {
    check_theta(flags.theta)?;
    flags.softening.map_or(Ok(()), check_softening)
}

fn check_theta(theta: f64) -> Result<(), Failure> {
    if theta > 0.0 && theta <= MAX_THETA {
        return Ok(());
    }
    Err(Failure::Usage(format!("--theta {} is outside 0 < theta <= {MAX_THETA}", short_number(theta))))
}

fn check_softening(softening: f64) -> Result<(), Failure> {
    if softening >= 0.0 && softening.is_finite() {
        return Ok(());
    }
    Err(Failure::Usage(format!("--softening {} is outside softening >= 0", short_number(softening))))
}

/// A softening length and where it comes from. Its text is a line of output.
#[derive(Clone, Copy, Debug)]
struct Softening {
    eps: f64,
    source: &'static str,
}

impl Softening {
    /// Selects the value of the flag, else that of the run that wrote the snapshot, else 0.
    fn select(flag: Option<f64>, snapshot: &Snapshot) -> Self {
        match (flag, recorded_softening(snapshot)) {
            (Some(eps), _) => Self { eps, source: "--softening" },
            (None, Some(eps)) => Self { eps, source: "the run that wrote the file" },
            (None, None) => Self { eps: 0.0, source: "default, the file records none" },
        }
    }
}

impl std::fmt::Display for Softening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "softening: {} ({})", short_number(self.eps), self.source)
    }
}

/// Returns the settings for bodies in `units`.
fn gravity_settings(flags: &GravityArgs, eps: f64, units: &Units) -> GravitySettings {
    GravitySettings {
        g: units.gravitational_constant(),
        eps,
        solver: flags.solver.into(),
        acceptance: Acceptance::Geometric { theta: flags.theta },
        precision: flags.precision.0,
    }
}

/// Formats a number for a table: six decimals, or scientific notation if they would hide the number
/// or not fit into 12 characters.
fn table_number(value: f64) -> String {
    let is_plain = value == 0.0 || (1e-3..1e5).contains(&value.abs());
    // -0 + 0 is 0.
    if is_plain { format!("{:.6}", value + 0.0) } else { format!("{value:.6e}") }
}

/// Formats a time of a sample. Twelve digits hide the rounding errors of `start + k dt`.
fn sample_time(time: f64) -> String {
    let rounded = format!("{time:.11e}").parse().unwrap_or(time);
    short_number(rounded)
}

/// Adds `KEY=VALUE` of a flag to the settings of `--set`. Returns an error if they contain the key
/// already.
fn add_flag(sets: &mut Vec<String>, flag: &str, key: &str, value: &str) -> Result<(), Failure> {
    let has_key = |set: &&String| set.split_once('=').is_some_and(|(name, _)| name.trim() == key);
    if let Some(set) = sets.iter().find(has_key) {
        return Err(Failure::Usage(format!("{flag} {value} and --set {set}: expected only one of them")));
    }
    sets.push(format!("{key}={value}"));
    Ok(())
}

/// Returns the path quoted so that a shell reads it as one argument and a command as a path.
pub fn shell_quoted(path: &Path) -> String {
    let path = path.display().to_string();
    quoted_word(&if path.starts_with('-') { format!("./{path}") } else { path })
}

/// Returns a word of a command line quoted so that a shell reads it as one word. A line end or an
/// escape sequence in it becomes visible: `$'a\nb'`, which bash, zsh and ksh read.
pub fn quoted_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:+,@%~".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.chars().any(is_unsafe) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let mut quoted = String::from("$'");
    for c in word.chars() {
        match c {
            '\n' => quoted.push_str(r"\n"),
            '\\' | '\'' => quoted.extend(['\\', c]),
            c if is_unsafe(c) && c.is_ascii() => quoted.push_str(&format!(r"\x{:02x}", u32::from(c))),
            c if is_unsafe(c) => quoted.push_str(&format!(r"\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_tables_are_visible() {
        for (value, text) in [
            (0.0, "0.000000"),
            (-0.0, "0.000000"),
            (1.5, "1.500000"),
            (-12_345.678, "-12345.678000"),
            (99_999.5, "99999.500000"),
            (1e5, "1.000000e5"),
            (1e-90, "1.000000e-90"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(table_number(value), text);
        }
    }

    #[test]
    fn many_more_threads_than_cores_are_refused() {
        let check = |threads, cores| check_thread_count(&format!("--threads {threads}"), threads, cores);
        let message = |threads, cores| check(threads, cores).unwrap_err().to_string();
        assert_eq!(
            message(4096, 2),
            "--threads 4096: this process may use 2 cores, expected at most 16 threads; \
             without it there is one per core"
        );
        assert!(message(17, 1).contains("1 core, expected at most 16 threads"));
        for (threads, cores) in [(0, 1), (1, 1), (16, 1), (400, 100)] {
            assert!(check(threads, cores).is_ok(), "{threads} on {cores} cores");
        }
        assert!(check(401, 100).is_err());
    }
}
