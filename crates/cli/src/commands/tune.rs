//! `tune`, and what other commands take from it.

use orrery_device::Device;
use orrery_lab::format::format_seconds;
use orrery_lab::tuning::{DEFAULT_SIZES, TuneOutcome, Tuning, tune_device};
use orrery_lab::{PRECISIONS, precision_name};
use orrery_particles::settings::Precision;
use orrery_particles::solver::direct::device::DirectDeviceStrategy;

use crate::args::Tune;
use crate::failure::Failure;
use crate::say::{say, warn};

/// Tunes a device and keeps what was found.
pub fn tune(arguments: &Tune) -> Result<(), Failure> {
    if arguments.n.contains(&0) {
        return Err(Failure::Usage("-n 0 is outside n >= 1".to_owned()));
    }
    super::bench::check_memory(&arguments.n)?;
    let Some(device) = Device::open(arguments.device_args.device)? else {
        let choice = arguments.device_args.device;
        let words = "there is no GPU to tune; orrery devices lists what there is";
        return Err(Failure::Usage(format!("--device {choice}: {words}")));
    };
    // Before a minute of work: a place to keep it.
    let path = Tuning::file_path(&device).ok_or(orrery_lab::LabError::NoCache)?;
    Tuning::check_writable(&device)?;
    found(&device, false);
    let sizes = if arguments.n.is_empty() { DEFAULT_SIZES.to_vec() } else { arguments.n.clone() };
    let precisions = arguments.precision.map_or_else(|| PRECISIONS.to_vec(), |flag| vec![flag.into()]);
    say!("{}", device.title());
    say!("untuned: the default's time over this one; tried: within some seconds a line, compiling");
    say!("counted, so that a second call tries more");
    say!("{:>9} {:>9} {:>9} {:>8} {:>7}  strategy", "bodies", "precision", "time", "untuned", "tried");
    let tuning = tune_device(&device, &sizes, &precisions, &mut print)?;
    if tuning.entries().is_empty() {
        say!("nothing was tuned");
        return Ok(());
    }
    tuning.save(&device)?;
    say!("kept in {}", path.display());
    Ok(())
}

fn print(outcome: &TuneOutcome) {
    match outcome {
        TuneOutcome::Best { entry, tried, available, default_seconds } => {
            say!(
                "{:>9} {:>9} {:>9} {:>8} {:>7}  {}",
                entry.n,
                precision_name(entry.precision),
                format_seconds(entry.seconds),
                format!("{:.2}x", default_seconds / entry.seconds),
                format!("{tried}/{available}"),
                entry.strategy.describe()
            );
        }
        TuneOutcome::TooLong { n, precision, seconds } => {
            let (precision, seconds) = (precision_name(*precision), format_seconds(*seconds));
            say!("{n:>9} {precision:>9} left out, as all above: one evaluation would take {seconds}");
        }
    }
}

/// What was kept for this device, unless it is not wanted or cannot be used.
pub fn found(device: &Device, no_tuned: bool) -> Option<Tuning> {
    if no_tuned {
        return None;
    }
    Tuning::load(device).unwrap_or_else(|ignored| {
        warn(format_args!("warning: {ignored}"));
        None
    })
}

/// The strategy that a run of `n` bodies takes, where one was found.
pub fn for_run(device: &Device, n: usize, precision: Precision) -> Option<DirectDeviceStrategy> {
    found(device, false)?.nearest_entry(n, precision).map(|entry| entry.strategy)
}
