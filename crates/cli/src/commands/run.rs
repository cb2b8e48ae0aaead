//! `run` and `resume`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use orrery_device::{Device, DeviceChoice};
use orrery_engine::case::{BYTES_PER_BODY, Case, CaseSource};
use orrery_engine::compute_device::{self, DeviceRequest, Tuned};
use orrery_engine::control::{Control, Reason};
use orrery_engine::run::{Output, Replace, Summary};
use orrery_engine::{EngineError, Simulation, run as engine_run, start};
use orrery_io::{Limits, format_bytes};
use orrery_particles::bodies::needed_bytes;
use orrery_particles::settings::StepChoice;

use super::Ending;
use crate::args::{Resume, Run, Running};
use crate::failure::Failure;
use crate::progress::{Progress, show_duration};
use crate::say::{say, warn};
use crate::signals;

/// Simulates a case.
pub fn run(arguments: &Run, limits: Limits) -> Result<Ending, Failure> {
    let mut sets = arguments.set.clone();
    sets.extend(arguments.precision.map(|precision| format!("gravity.precision={}", precision.name())));
    let case = Case::load_within(&CaseSource::find(&arguments.case)?, &sets, Some(limits.memory))?;
    let folder = arguments.out.clone().unwrap_or_else(|| PathBuf::from("out").join(&case.name));
    if arguments.dry_run {
        super::use_threads(arguments.running.threads)?;
        dry_run(&case, &folder, arguments.running.device_args.device, &limits)?;
        return Ok(Ending::Done);
    }
    let replace = if arguments.force { Replace::Any } else { Replace::Nothing };
    let output = Output { folder: folder.clone(), replace };
    if !arguments.resume {
        output.check().map_err(Failure::from)?;
    }
    // A device that is not there is a mistake, and a mistake is one line.
    Device::open(arguments.running.device_args.device)?;
    let control = begin(&arguments.running, limits)?;
    if !arguments.running.quiet {
        match case.description.as_str() {
            "" => say!("{}", case.name),
            description => say!("{}: {description}", case.name),
        }
        let precision = format!("{:?}", case.gravity.precision).to_lowercase();
        say!("{precision} precision, into {}", folder.display());
    }
    let mut progress = Progress::new(arguments.running.quiet).with_units(case.units);
    let outcome = if arguments.resume {
        engine_run::run_or_resume(&case, &folder, &control, |news| progress.hear(&news))
    } else {
        engine_run::run(&case, &output, &control, |news| progress.hear(&news))
    };
    progress.finish();
    end(&outcome?, &folder, arguments.running.quiet)
}

/// Goes on with a run.
pub fn resume(arguments: &Resume, limits: Limits) -> Result<Ending, Failure> {
    let folder = &arguments.folder;
    let control = begin(&arguments.running, limits)?;
    let mut progress = Progress::new(arguments.running.quiet);
    let run = engine_run::Resume { folder, sets: &arguments.set, anew: arguments.force };
    let outcome = engine_run::resume(&run, &control, |news| progress.hear(&news));
    progress.finish();
    end(&outcome?, folder, arguments.running.quiet)
}

/// The threads, and what may interrupt them.
fn begin(running: &Running, limits: Limits) -> Result<Control, Failure> {
    super::use_threads(running.threads)?;
    // Too far away to be counted is never.
    let deadline = running.wall_time.and_then(|wall_time| Instant::now().checked_add(wall_time));
    let tuned = (!running.no_tuned).then_some(super::tune::for_run as Tuned);
    let device = DeviceRequest { choice: running.device_args.device, tuned };
    let control = Control { deadline, limits, device, ..Control::default() };
    if !running.quiet {
        signals::acknowledge(&control);
    }
    signals::listen(&control).map_err(|e| Failure::Usage(format!("signals cannot be listened to: {e}")))?;
    Ok(control)
}

/// A path as a shell takes it for one word.
fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    let path = if path.starts_with('-') { format!("./{path}") } else { path };
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:+,@%~".contains(c);
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

fn end(summary: &Summary, folder: &Path, quiet: bool) -> Result<Ending, Failure> {
    let Some((reason, checkpoint)) = &summary.stopped else {
        if !quiet {
            report(summary, folder);
        }
        return Ok(Ending::Done);
    };
    let why = match reason {
        Reason::Asked => "as a signal asked",
        Reason::WallTime => "since the wall time is up",
    };
    warn(format_args!("stopped after step {}, {why}; saved in {}", summary.step, checkpoint.display()));
    warn(format_args!("go on with: orrery resume {}", shell_word(folder)));
    Ok(Ending::Stopped)
}

fn report(summary: &Summary, folder: &Path) {
    let steps = summary.step - summary.from;
    if steps == 0 {
        say!("{}: finished at step {}, nothing is left to do", folder.display(), summary.step);
        return;
    }
    let (first, last) = &summary.first_and_last;
    let seconds = summary.elapsed.as_secs_f64();
    let all = if summary.from == 0 { String::new() } else { format!(" of {}", summary.step) };
    say!(
        "{} bodies, {steps}{all} steps ({} forces) to t = {} in {}: {:.2e} body-steps/s",
        summary.bodies,
        summary.solver,
        summary.case.units.format_time(last.time),
        show_duration(seconds),
        summary.bodies as f64 * steps as f64 / seconds
    );
    say!("");
    say!("{:<18} {:>16} {:>16} {:>12}", "", "start", "end", "change");
    let size = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
    let relative = |a: f64, b: f64| format!("{:+.2e}", (b - a) / a.abs());
    for (name, a, b) in [
        ("kinetic energy", first.kinetic, last.kinetic),
        ("potential energy", first.potential, last.potential),
        ("total energy", first.total(), last.total()),
        ("angular momentum", size(first.angular_momentum), size(last.angular_momentum)),
    ] {
        let change = if a == 0.0 { "-".to_owned() } else { relative(a, b) };
        say!("{name:<18} {a:>16.8e} {b:>16.8e} {change:>12}");
    }
    let momentum = [first, last].map(|r| size(r.momentum));
    say!("{:<18} {:>16.8e} {:>16.8e}", "momentum", momentum[0], momentum[1]);
    say!("");
    let folder = folder.display();
    say!("{folder}/animation.gif    the run in pictures; each one in {folder}/images");
    say!("{folder}/energy.svg       how well energy was kept; all rows in conserved.csv");
    say!("{folder}/snapshots        the bodies, for yt, pynbody, h5py or orrery analyze {folder}");
}

fn dry_run(case: &Case, folder: &Path, choice: DeviceChoice, limits: &Limits) -> Result<(), Failure> {
    let selected = compute_device::find(choice)?;
    // A file's bodies are counted, and checked, by reading them.
    let n = match case.body_count() {
        Some(n) => n,
        None => start::bodies(case, limits)?.len() as u64,
    };
    let gravity = Simulation::gravity(case);
    let selected = compute_device::with_room(selected, choice, n as usize, &gravity, case.time.integrator)?;
    say!("{}", start::located(case).to_toml().trim_end());
    say!("");
    say!("# {n} bodies: about {} of memory", format_bytes(n.saturating_mul(BYTES_PER_BODY)));
    if limits.memory < u64::MAX {
        say!("# {} available", format_bytes(limits.memory));
    }
    say!("# device: {selected}");
    if let Some(device) = &selected.device {
        let needed = format_bytes(needed_bytes(device, n, &gravity, case.time.integrator));
        let free = format_bytes(device.memory().map_err(EngineError::from)?.free);
        say!("# about {needed} on {}, {free} free", device.label());
    }
    if let StepChoice::Fixed(step) = case.time.step {
        say!("# {:.0} steps", (case.time.end / step).ceil());
    }
    say!("# output would go to {}", folder.display());
    Ok(())
}
