//! `selftest`.

use indicatif::ProgressBar;
use orrery_device::{Device, DeviceChoice, DeviceList};
use orrery_lab::selftest::{ModuleCount, SelftestSummary, all_checks, run_checks};

use crate::args::Selftest;
use crate::failure::Failure;
use crate::say::say;

/// Runs the device suite on one device, or on every one there is.
pub fn selftest(arguments: &Selftest) -> Result<(), Failure> {
    let filter = arguments.filter.as_deref().unwrap_or_default();
    if !all_checks().iter().any(|check| check.name.contains(filter)) {
        return Err(Failure::Usage(format!("{filter:?} is in no check's name; see --list")));
    }
    if arguments.list {
        all_checks()
            .iter()
            .filter(|check| check.name.contains(filter))
            .for_each(|check| say!("{}", check.name));
        return Ok(());
    }
    let summaries: Vec<SelftestSummary> =
        chosen(arguments.device)?.iter().map(|device| on_device(device, filter)).collect();
    let (passed, all) =
        summaries.iter().map(SelftestSummary::passed_and_total).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    if passed < all {
        return Err(Failure::Machine(format!("{} of {all} checks failed", all - passed)));
    }
    Ok(())
}

fn chosen(choice: Option<DeviceChoice>) -> Result<Vec<Device>, Failure> {
    let DeviceList { devices, notes } = match choice {
        None => Device::list(),
        Some(choice) => {
            let Some(device) = Device::open(choice)? else {
                return Err(Failure::Usage(format!("--device {choice}: there is no device to test")));
            };
            DeviceList { devices: vec![device], notes: Vec::new() }
        }
    };
    if devices.is_empty() {
        return Err(Failure::Machine(format!("there is no device to test: {}", notes.join("; "))));
    }
    Ok(devices)
}

fn on_device(device: &Device, filter: &str) -> SelftestSummary {
    say!("{}", device.title());
    // Drawn on a terminal only: kernels may take seconds each to compile.
    let line = ProgressBar::new_spinner();
    let summary = run_checks(device, filter, &mut |check| {
        line.set_message(check.to_owned());
        line.tick();
    });
    line.finish_and_clear();
    for ModuleCount { module, passed, total } in &summary.modules {
        say!("  {module:<12} {passed} of {total} passed");
    }
    for (name, message) in &summary.failures {
        say!("  FAILED {name}: {message}");
    }
    summary
}
