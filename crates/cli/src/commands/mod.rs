//! One file a command, or a few small ones together.

mod accuracy;
mod analyze;
mod bench;
mod devices;
mod files;
mod ladder;
mod presets;
mod run;
mod selftest;
mod tune;

use std::path::Path;

use clap::CommandFactory;
use orrery_engine::case::available_memory;
use orrery_io::Limits;
use orrery_model::Units;
use orrery_particles::settings::{Acceptance, GravitySettings, MAX_THETA};

use crate::args::{Arguments, Command, Gravity};
use crate::failure::Failure;
use crate::say::{say, warn};

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All is done.
    Done,
    /// A run was interrupted in good order and can go on.
    Stopped,
}

/// Does what the flags say.
pub fn execute(arguments: &Arguments) -> Result<Ending, Failure> {
    let memory = arguments.max_memory.or_else(available_memory);
    let limits = memory.map_or_else(Limits::unbounded, |memory| Limits { memory });
    let limits = &limits;
    let done = match &arguments.command {
        // Only these can be interrupted.
        Command::Run(arguments) => return run::run(arguments, *limits),
        Command::Resume(arguments) => return run::resume(arguments, *limits),
        Command::Presets => {
            presets::list();
            Ok(())
        }
        Command::Init { preset, output, force } => presets::init(preset, output.clone(), *force),
        Command::Ic(arguments) => files::ic(arguments, limits),
        Command::Info { file } => files::info(file, limits),
        Command::Convert { input, output } => files::convert(input, output, limits),
        Command::Forces { file, gravity, device_args, output } => {
            accuracy::forces(file, gravity, device_args.device, output, limits)
        }
        Command::Accuracy { file, gravity, device_args, sample } => {
            accuracy::accuracy(file, gravity, device_args.device, *sample as usize, limits)
        }
        Command::Analyze { path, output, softening, device_args } => {
            analyze::analyze(path, output.clone(), *softening, device_args.device, limits)
        }
        Command::Bench(arguments) => bench::bench(arguments),
        Command::Devices(arguments) => devices::devices(arguments),
        Command::Selftest(arguments) => selftest::selftest(arguments),
        Command::Ladder(arguments) => ladder::ladder(arguments),
        Command::Tune(arguments) => tune::tune(arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "orrery", &mut script);
            say!("{}", String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
        Command::Man => man(),
    };
    done.map(|()| Ending::Done)
}

/// The manual page, with a section for each command.
fn man() -> Result<(), Failure> {
    let mut page = Vec::new();
    let failed =
        |e: std::io::Error| Failure::Output(orrery_io::IoError::from_system("standard output".as_ref(), e));
    let mut command = Arguments::command();
    clap_mangen::Man::new(command.clone()).render(&mut page).map_err(failed)?;
    command.build();
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let man = clap_mangen::Man::new(sub.clone().name(format!("orrery {}", sub.get_name())));
        man.render_name_section(&mut page)
            .and_then(|()| man.render_options_section(&mut page))
            .map_err(failed)?;
    }
    say!("{}", String::from_utf8_lossy(&page).trim_end());
    Ok(())
}

/// The gravitational constant follows from the units, so a guess is worth a word.
fn warn_of_units(path: &Path) {
    warn(format_args!("warning: {}: names no units; galactic ones are assumed", path.display()));
}

/// Takes `threads` threads from now on.
fn use_threads(threads: Option<u32>) -> Result<(), Failure> {
    let threads = threads.map_or(0, |n| n as usize);
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .map_err(|e| Failure::Usage(format!("--threads {threads}: cannot be started: {e}")))
}

/// Whether the flags' values make sense.
fn check_gravity(flags: &Gravity) -> Result<(), Failure> {
    check_theta(flags.theta)?;
    if !(flags.softening >= 0.0 && flags.softening.is_finite()) {
        return Err(Failure::Usage(format!("--softening {} is outside softening >= 0", flags.softening)));
    }
    Ok(())
}

/// The settings for bodies in `units`.
fn gravity_settings(flags: &Gravity, units: &Units) -> GravitySettings {
    GravitySettings {
        g: units.gravitational_constant(),
        eps: flags.softening,
        solver: flags.solver.into(),
        acceptance: Acceptance::Geometric { theta: flags.theta },
        precision: flags.precision.into(),
    }
}

fn check_theta(theta: f64) -> Result<(), Failure> {
    if theta > 0.0 && theta <= MAX_THETA {
        return Ok(());
    }
    Err(Failure::Usage(format!("--theta {theta} is outside 0 < theta <= {MAX_THETA}")))
}
