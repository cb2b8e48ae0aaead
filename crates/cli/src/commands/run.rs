//! `run`, `presets` and `init`.

use std::path::PathBuf;

use orrery_engine::case::{self, BYTES_PER_BODY, Case, CaseSource, preset, presets, show_bytes};
use orrery_engine::run::{Output, Summary};
use orrery_engine::{provenance, run as engine_run, start};
use orrery_io::IoError;
use orrery_particles::settings::StepChoice;

use crate::args::{Device, Run};
use crate::failure::{Failure, check_new_output};
use crate::progress::{Progress, show_duration};
use crate::say::{say, warn};

/// A change of the total energy beyond this share is worth a warning.
const BAD_ENERGY_CHANGE: f64 = 0.02;

/// Simulates a case.
pub fn run(arguments: &Run) -> Result<(), Failure> {
    let mut sets = arguments.set.clone();
    sets.extend(arguments.precision.map(|precision| format!("gravity.precision={}", precision.name())));
    let case = Case::load(&CaseSource::find(&arguments.case).map_err(Failure::from)?, &sets)?;
    super::use_threads(arguments.threads)?;
    let folder = arguments.out.clone().unwrap_or_else(|| PathBuf::from("out").join(&case.name));
    if arguments.dry_run {
        return dry_run(&case, &folder);
    }
    let output = Output { folder: folder.clone(), force: arguments.force };
    output.check().map_err(Failure::from)?;
    if !arguments.quiet {
        let device = match arguments.device {
            Device::Auto | Device::Cpu => provenance::device(),
        };
        match case.description.as_str() {
            "" => say!("{}", case.name),
            description => say!("{}: {description}", case.name),
        }
        say!("on {device}, {} precision, into {}", precision_name(&case), folder.display());
    }
    let mut progress = Progress::new(arguments.quiet, case.units);
    let outcome = engine_run::run(&case, &output, |status| progress.report(status));
    progress.finish();
    let summary = outcome?;
    if !arguments.quiet {
        report(&case, &summary, &folder);
    }
    warn_of_energy(&summary);
    Ok(())
}

/// A run that lost its energy looks like any other; it should not pass for one.
fn warn_of_energy(summary: &Summary) {
    let (first, last) = &summary.first_and_last;
    let change = (last.total() - first.total()) / first.total().abs();
    if change.abs() > BAD_ENERGY_CHANGE || change.is_nan() {
        warn(format_args!(
            "warning: the total energy changed by {:.0}% of its start; a shorter step or a larger softening may help",
            100.0 * change
        ));
    }
}

fn precision_name(case: &Case) -> String {
    format!("{:?}", case.gravity.precision).to_lowercase()
}

fn report(case: &Case, summary: &Summary, folder: &std::path::Path) {
    let (first, last) = &summary.first_and_last;
    let seconds = summary.elapsed.as_secs_f64();
    say!(
        "{} bodies, {} steps ({} forces) to t = {} in {}: {:.2e} body-steps/s",
        summary.bodies,
        summary.steps,
        summary.solver,
        case.units.show_time(last.time),
        show_duration(seconds),
        summary.bodies as f64 * summary.steps as f64 / seconds
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

fn dry_run(case: &Case, folder: &std::path::Path) -> Result<(), Failure> {
    // A file's bodies are counted, and checked, by reading them.
    let n = match case.body_count() {
        Some(n) => n,
        None => start::bodies(case)?.len() as u64,
    };
    say!("{}", start::located(case).to_toml().trim_end());
    say!("");
    say!("# {n} bodies: about {} of memory", show_bytes(n.saturating_mul(BYTES_PER_BODY)));
    if let Some(available) = case::available_memory() {
        say!("# {} available", show_bytes(available));
    }
    if let StepChoice::Fixed(step) = case.time.step {
        say!("# {:.0} steps", (case.time.end / step).ceil());
    }
    say!("# output would go to {}", folder.display());
    Ok(())
}

/// Prints the presets.
pub fn presets_list() {
    let width = presets().iter().map(|preset| preset.name.len()).max().unwrap_or(0);
    for preset in presets() {
        say!("{:<width$}  {}", preset.name, preset.description);
    }
}

/// Writes a preset's text to a file.
pub fn init(name: &str, output: Option<PathBuf>, force: bool) -> Result<(), Failure> {
    let Some(found) = preset(name) else {
        let nearest = case::nearest(name, presets().iter().map(|preset| preset.name));
        let hint = nearest
            .map_or_else(|| "see orrery presets".to_owned(), |nearest| format!("did you mean '{nearest}'?"));
        return Err(Failure::Usage(format!("no preset is called '{name}'; {hint}")));
    };
    let path = output.unwrap_or_else(|| PathBuf::from(format!("{name}.toml")));
    check_new_output(&path, force)?;
    std::fs::write(&path, found.text).map_err(|e| Failure::Output(IoError::system(&path, e)))?;
    say!("wrote {}; run it with: orrery run {0}", path.display());
    Ok(())
}
