//! `ladder`.

use std::path::{Path, PathBuf};

use orrery_device::Device;
use orrery_lab::ladder::{LadderRequest, all_tables};

use super::bench::check_memory;
use super::tune;
use crate::args::LadderArgs;
use crate::failure::{Failure, check_new_output};
use crate::print::print_line;
use crate::terminal_line::TerminalLine;

/// Measures a ladder, prints it, and writes the JSON file and the plot.
pub fn ladder(arguments: &LadderArgs) -> Result<(), Failure> {
    check_flags(arguments)?;
    let json = arguments.json.prepare()?;
    let device = Device::open(arguments.device_args.device)?;
    let n = arguments.n.unwrap_or_else(|| arguments.entry.sizes.for_device(device.as_ref()));
    // A default size may exceed the memory, too.
    check_memory(&[n], arguments.entry.bytes_per_item, arguments.entry.size_unit)?;
    let tuning = device.as_ref().and_then(|device| tune::load_tuning(device, arguments.no_tuned));
    let mut line = TerminalLine::new();
    let request = LadderRequest {
        device: device.as_ref(),
        n,
        tuning: tuning.as_ref(),
        progress: &mut |rung| line.draw(rung),
    };
    let measured = arguments.entry.run(request);
    drop(line);
    let ladder = measured?;
    all_tables(&ladder).iter().for_each(|line| print_line!("{line}"));
    if device.is_none() {
        print_line!("");
        print_line!("device rungs are not measured: {}", device_hint());
    }
    json.write(|| ladder.to_json())?;
    if let Some(path) = &arguments.plot {
        for (index, plot) in ladder.plots().iter().enumerate() {
            plot.write_svg(&plot_path(path, index))?;
        }
    }
    Ok(())
}

/// Largest number of plots of a ladder: the rungs and its sweeps.
const MAX_PLOTS: usize = 4;

/// Returns the path of a plot, for example `copy.svg` for the rungs and `copy-1.svg` for the first
/// sweep.
fn plot_path(path: &Path, index: usize) -> PathBuf {
    if index == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{index}.svg"))
}

/// Refuses invalid flags before anything is measured.
fn check_flags(arguments: &LadderArgs) -> Result<(), Failure> {
    if arguments.n == Some(0) {
        return Err(Failure::Usage("-n 0 is outside n >= 1".to_owned()));
    }
    if let Some(path) = &arguments.plot {
        for index in 0..MAX_PLOTS {
            check_new_output(&plot_path(path, index), arguments.json.force)?;
        }
        if path.extension() != Some("svg".as_ref()) {
            return Err(Failure::Usage(format!("{}: expected a name ending in .svg", path.display())));
        }
    }
    check_memory(arguments.n.as_slice(), arguments.entry.bytes_per_item, arguments.entry.size_unit)
}

/// Explains how to measure the device rungs if `auto` selects the CPU.
fn device_hint() -> String {
    let labels: Vec<_> = Device::list().devices.iter().map(Device::label).collect();
    match labels.is_empty() {
        true => "this machine has no device".to_owned(),
        false => format!("select a device with --device {}", labels.join(" or ")),
    }
}
