//! `selftest`.

use orrery_device::check::Check;
use orrery_measure::MeasureError;
use orrery_measure::selftest::isolated::{
    DeviceTitle, WorkerCommand, list_devices, run_isolated, run_worker,
};
use orrery_measure::selftest::{ModuleCount, SelftestSummary, simulator_checks};

use crate::args::SelftestArgs;
use crate::failure::Failure;
use crate::laboratory;
use crate::print::print_line;
use crate::terminal_line::TerminalLine;

/// Runs the checks on one device or on all devices. Each module runs in a process of its own, and
/// this process opens no device.
pub fn selftest(arguments: &SelftestArgs) -> Result<(), Failure> {
    let checks = all_checks();
    if arguments.worker {
        let failed = run_worker(&checks, arguments.device, &arguments.checks).map_err(MeasureError::from)?;
        return if failed == 0 { Ok(()) } else { Err(Failure::Machine("a check failed".to_owned())) };
    }
    let filter = arguments.filter.as_deref().unwrap_or_default();
    if !checks.iter().any(|check| check.name.contains(filter)) {
        return Err(Failure::Usage(format!(
            "no check has '{filter}' in its name; orrery selftest --list prints all names"
        )));
    }
    if arguments.list {
        checks
            .iter()
            .filter(|check| check.name.contains(filter))
            .for_each(|check| print_line!("{}", check.name));
        return Ok(());
    }
    let worker = worker_command()?;
    let summaries: Vec<SelftestSummary> = selected_devices(&worker, arguments)?
        .iter()
        .map(|device| check_device(&worker, &checks, device, filter))
        .collect();
    let (passed, all) =
        summaries.iter().map(SelftestSummary::passed_and_total).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    if passed < all {
        return Err(Failure::Machine(format!("{} of {all} checks failed", all - passed)));
    }
    Ok(())
}

/// Returns the checks of the simulator, then those of the laboratory.
fn all_checks() -> Vec<Check> {
    let mut checks = simulator_checks();
    checks.extend(laboratory::checks());
    checks
}

/// Returns the command of a worker: this program.
fn worker_command() -> Result<WorkerCommand, Failure> {
    let machine_failure =
        |message: String| Failure::Machine(format!("cannot find the orrery program: {message}"));
    let program = std::env::current_exe().map_err(|error| machine_failure(error.to_string()))?;
    let program = program
        .into_os_string()
        .into_string()
        .map_err(|path| machine_failure(format!("{} is not UTF-8", path.to_string_lossy())))?;
    Ok(WorkerCommand { program, arguments: vec!["selftest".to_owned()] })
}

fn selected_devices(worker: &WorkerCommand, arguments: &SelftestArgs) -> Result<Vec<DeviceTitle>, Failure> {
    let found = list_devices(worker, arguments.device).map_err(|failure| match failure.status {
        Some(2) => Failure::Usage(failure.message),
        _ => Failure::Machine(failure.message),
    })?;
    match (found.devices.is_empty(), arguments.device) {
        (false, _) => Ok(found.devices),
        (true, Some(choice)) => Err(Failure::Usage(format!(
            "--device {choice}: there is no device to test, expected a CUDA or OpenCL device"
        ))),
        (true, None) => {
            Err(Failure::Machine(format!("there is no device to test: {}", found.notes.join("; "))))
        }
    }
}

/// Runs the checks on one device and prints the results.
fn check_device(
    worker: &WorkerCommand,
    checks: &[Check],
    device: &DeviceTitle,
    filter: &str,
) -> SelftestSummary {
    print_line!("{}", device.title);
    // Some kernels take seconds to compile, so the name of the current check is shown.
    let mut line = TerminalLine::new();
    let summary = run_isolated(worker, checks, &device.label, filter, &mut |check| line.draw(check));
    drop(line);
    for ModuleCount { module, passed, total } in &summary.modules {
        print_line!("  {module:<12} {passed} of {total} passed");
    }
    for (name, message) in &summary.failures {
        print_line!("  FAILED {name}: {message}");
    }
    summary
}
