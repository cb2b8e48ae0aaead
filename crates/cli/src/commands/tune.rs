//! `tune`, and loading its results for other commands.

use orrery_device::Device;
use orrery_lab::format::format_seconds;
use orrery_lab::tuning::{DEFAULT_SIZES, TuneOutcome, Tuning, tune_device};
use orrery_model::Precision;
use orrery_particles::solver::direct::device::DirectDeviceStrategy;

use crate::args::TuneArgs;
use crate::failure::Failure;
use crate::print::{eprint_line, print_line};

/// Tunes a device and stores the results in the cache.
pub fn tune(arguments: &TuneArgs) -> Result<(), Failure> {
    if arguments.n.contains(&0) {
        return Err(Failure::Usage("-n 0 is outside n >= 1".to_owned()));
    }
    super::bench::check_body_memory(&arguments.n)?;
    let choice = arguments.device_args.device;
    let Some(device) = Device::open(choice)? else {
        return Err(Failure::Usage(format!(
            "--device {choice}: there is no device to tune, expected a CUDA or OpenCL device; \
             orrery devices lists the devices of this machine"
        )));
    };
    // Checked first: tuning takes a minute, and its results need a folder.
    let path = Tuning::file_path(&device).ok_or(orrery_lab::LabError::NoCache)?;
    Tuning::check_writable(&device)?;
    // Warns now if the stored file is damaged, because it is about to be replaced.
    load_tuning(&device, false);
    let sizes = if arguments.n.is_empty() { DEFAULT_SIZES.to_vec() } else { arguments.n.clone() };
    let precisions = arguments.precision.map_or_else(|| Precision::ALL.to_vec(), |flag| vec![flag.0]);
    print_line!("{}", device.title());
    print_line!("gain: time of the default strategy over the time of the best one");
    print_line!("tried: strategies timed in a few seconds; run orrery tune again to try more");
    print_line!("{:>9} {:>9} {:>9} {:>8} {:>7}  strategy", "bodies", "precision", "time", "gain", "tried");
    let tuning = tune_device(&device, &sizes, &precisions, &mut print_outcome)?;
    if tuning.entries().is_empty() {
        print_line!("nothing was tuned");
        return Ok(());
    }
    tuning.save(&device)?;
    print_line!("stored in {}", path.display());
    Ok(())
}

fn print_outcome(outcome: &TuneOutcome) {
    match outcome {
        TuneOutcome::Best { entry, tried, available, default_seconds } => {
            print_line!(
                "{:>9} {:>9} {:>9} {:>8} {:>7}  {}",
                entry.n,
                entry.precision.as_str(),
                format_seconds(entry.seconds),
                format!("{:.2}x", default_seconds / entry.seconds),
                format!("{tried}/{available}"),
                entry.strategy.describe()
            );
        }
        TuneOutcome::TooLong { n, precision, seconds } => {
            let (precision, seconds) = (precision.as_str(), format_seconds(*seconds));
            print_line!(
                "{n:>9} {precision:>9} skipped, with all larger sizes: one evaluation takes {seconds}"
            );
        }
    }
}

/// Loads the stored results for this device. Returns `None` if `no_tuned` is set, and prints a
/// warning if the file is damaged.
pub fn load_tuning(device: &Device, no_tuned: bool) -> Option<Tuning> {
    if no_tuned {
        return None;
    }
    Tuning::load(device).unwrap_or_else(|ignored| {
        eprint_line!("warning: {ignored}");
        None
    })
}

/// Returns the tuned strategy for a run of `n` bodies, if there is one.
pub fn tuned_strategy(device: &Device, n: usize, precision: Precision) -> Option<DirectDeviceStrategy> {
    load_tuning(device, false)?.nearest_entry(n, precision).map(|entry| entry.strategy)
}
