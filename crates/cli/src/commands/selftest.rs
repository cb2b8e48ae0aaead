//! `selftest`.

use orrery_device::{Device, DeviceChoice, DeviceList};
use orrery_lab::selftest::{ModuleCount, SelftestSummary, all_checks, run_checks};

use crate::args::SelftestArgs;
use crate::failure::Failure;
use crate::print::print_line;
use crate::terminal_line::TerminalLine;

/// Runs the checks on one device or on all devices.
pub fn selftest(arguments: &SelftestArgs) -> Result<(), Failure> {
    let filter = arguments.filter.as_deref().unwrap_or_default();
    if !all_checks().iter().any(|check| check.name.contains(filter)) {
        return Err(Failure::Usage(format!(
            "no check has '{filter}' in its name; orrery selftest --list prints all names"
        )));
    }
    if arguments.list {
        all_checks()
            .iter()
            .filter(|check| check.name.contains(filter))
            .for_each(|check| print_line!("{}", check.name));
        return Ok(());
    }
    let summaries: Vec<SelftestSummary> =
        selected_devices(arguments.device)?.iter().map(|device| check_device(device, filter)).collect();
    let (passed, all) =
        summaries.iter().map(SelftestSummary::passed_and_total).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    if passed < all {
        return Err(Failure::Machine(format!("{} of {all} checks failed", all - passed)));
    }
    Ok(())
}

fn selected_devices(choice: Option<DeviceChoice>) -> Result<Vec<Device>, Failure> {
    let DeviceList { devices, notes } = match choice {
        None => Device::list(),
        Some(choice) => {
            let Some(device) = Device::open(choice)? else {
                return Err(Failure::Usage(format!(
                    "--device {choice}: there is no device to test, expected a CUDA or OpenCL device"
                )));
            };
            DeviceList { devices: vec![device], notes: Vec::new() }
        }
    };
    if devices.is_empty() {
        return Err(Failure::Machine(format!("there is no device to test: {}", notes.join("; "))));
    }
    Ok(devices)
}

/// Runs the checks on one device and prints the results.
fn check_device(device: &Device, filter: &str) -> SelftestSummary {
    print_line!("{}", device.title());
    // Some kernels take seconds to compile, so the name of the current check is shown.
    let mut line = TerminalLine::new();
    let summary = run_checks(device, filter, &mut |check| line.draw(check));
    drop(line);
    for ModuleCount { module, passed, total } in &summary.modules {
        print_line!("  {module:<12} {passed} of {total} passed");
    }
    for (name, message) in &summary.failures {
        print_line!("  FAILED {name}: {message}");
    }
    summary
}
