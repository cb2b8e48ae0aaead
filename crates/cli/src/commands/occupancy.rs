//! `occupancy`.

use orrery_device::occupancy::{BlockNeeds, SmLimits};
use orrery_device::{Backend, Device, DeviceError};
use orrery_draw::plot::Plot;
use orrery_measure::occupancy::{OccupancyReport, capability_name, find_limits};

use crate::args::OccupancyArgs;
use crate::failure::{Failure, check_new_output};
use crate::laboratory;
use crate::print::print_line;

/// Calculates the occupancy, prints it, and writes the JSON file and the plot.
pub fn occupancy(arguments: &OccupancyArgs) -> Result<(), Failure> {
    if let Some(path) = &arguments.plot {
        check_new_output(path, arguments.json.force)?;
        if path.extension() != Some("svg".as_ref()) {
            return Err(Failure::Usage(format!("{}: expected a name ending in .svg", path.display())));
        }
    }
    match &arguments.kernel {
        Some(kernel) => show_kernels(arguments, kernel),
        None => show_needs(arguments),
    }
}

/// Shows the occupancy of resources that were given by hand.
fn show_needs(arguments: &OccupancyArgs) -> Result<(), Failure> {
    let json = arguments.json.prepare()?;
    let (target, limits) = match arguments.arch {
        Some(capability) => {
            let limits = find_limits(capability).map_err(|why| Failure::Usage(format!("--arch: {why}")))?;
            (format!("compute capability {}", capability_name(capability)), limits)
        }
        None => {
            let (device, limits) = open_cuda(arguments, "--arch 9.0 needs no device")?;
            let capability = capability_name(limits.capability);
            (format!("{}, compute capability {capability}", device.title()), limits)
        }
    };
    let needs = BlockNeeds {
        threads: arguments.block,
        registers: arguments.registers.unwrap_or_default(),
        shared_bytes: arguments.shared,
    };
    let capability = capability_name(limits.capability);
    let report = OccupancyReport::new(target, limits, needs)
        .map_err(|why| Failure::Usage(format!("compute capability {capability}: {why}")))?;
    report.lines().iter().for_each(|line| print_line!("{line}"));
    json.write(|| report.to_json())?;
    write_plot(arguments, || report.plot())
}

/// Shows the occupancy of the kernels of a ladder.
fn show_kernels(arguments: &OccupancyArgs, kernel: &str) -> Result<(), Failure> {
    let (name, filter) = kernel.split_once('/').unwrap_or((kernel, ""));
    let json = arguments.json.prepare()?;
    let open = || open_cuda(arguments, "others do not report the registers of kernels");
    let found = laboratory::kernels_of_ladder(name, filter, open)?;
    found.lines().iter().for_each(|line| print_line!("{line}"));
    json.write(|| found.to_json())?;
    write_plot(arguments, || found.plot(name))
}

/// Opens the CUDA device and returns the limits of its SMs. `hint` ends the message if there is
/// none.
fn open_cuda(arguments: &OccupancyArgs, hint: &str) -> Result<(Device, &'static SmLimits), Failure> {
    let choice = arguments.device;
    let other = || Failure::Usage(format!("--device {choice}: expected a CUDA device; {hint}"));
    let opened = match Device::open(choice) {
        Err(error @ DeviceError::NoDevice { .. }) => Err(Failure::Usage(format!("{error}; {hint}"))),
        opened => Ok(opened?),
    };
    let device = opened?.ok_or_else(other)?;
    let properties = device.properties();
    let capability = properties.capability.filter(|_| properties.backend == Backend::Cuda);
    let limits = find_limits(capability.ok_or_else(other)?).map_err(Failure::Machine)?;
    Ok((device, limits))
}

fn write_plot(arguments: &OccupancyArgs, plot: impl FnOnce() -> Plot) -> Result<(), Failure> {
    match &arguments.plot {
        Some(path) => Ok(plot().write_svg(path)?),
        None => Ok(()),
    }
}
