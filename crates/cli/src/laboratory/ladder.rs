//! `ladder`.

use std::path::{Path, PathBuf};

use orrery_device::Device;
use orrery_engine::case::available_memory;
use orrery_lab::ladder::{LadderEntry, LadderRequest, all_tables};

use super::LadderArgs;
use crate::commands::bench::check_memory;
use crate::commands::tune;
use crate::failure::{Failure, check_new_output};
use crate::print::print_line;
use crate::terminal_line::TerminalLine;

/// Measures a ladder, prints it, and writes the JSON file and the plot.
pub fn ladder(arguments: &LadderArgs) -> Result<(), Failure> {
    check_flags(arguments)?;
    let json = arguments.json.prepare()?;
    let device = Device::open(arguments.device_args.device)?;
    let n = arguments.n.unwrap_or_else(|| {
        largest_fitting_size(arguments.entry, device.as_ref(), available_memory().unwrap_or(u64::MAX))
    });
    check_size(arguments.entry, n)?;
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

/// Returns the default size of a ladder, or the largest of its half, quarter and so on that needs
/// at most `memory` bytes of the host.
fn largest_fitting_size(entry: &LadderEntry, device: Option<&Device>, memory: u64) -> usize {
    let mut n = entry.sizes.for_device(device);
    while n > 1 && (entry.host_bytes)(n) > memory {
        n /= 2;
    }
    n
}

/// Largest number of plots of a ladder: the rungs and its sweeps.
const MAX_PLOTS: usize = 6;

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
    arguments.n.map_or(Ok(()), |n| check_size(arguments.entry, n))
}

/// Refuses a size that does not fit into the host's memory.
fn check_size(entry: &LadderEntry, n: usize) -> Result<(), Failure> {
    check_memory(&[n], (entry.host_bytes)(n).div_ceil(n as u64), entry.size_unit)
}

/// Explains how to measure the device rungs if `auto` selects the CPU.
fn device_hint() -> String {
    let labels: Vec<_> = Device::list().devices.iter().map(Device::label).collect();
    match labels.is_empty() {
        true => "this machine has no device".to_owned(),
        false => format!("select a device with --device {}", labels.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use orrery_lab::ladder::find_ladder;

    use super::*;

    #[test]
    fn default_sizes_are_halved_until_they_fit_into_the_memory() {
        let entry = find_ladder("transfer").unwrap();
        let n = entry.sizes.host;
        let bytes = (entry.host_bytes)(n);
        assert_eq!(largest_fitting_size(entry, None, u64::MAX), n);
        assert_eq!(largest_fitting_size(entry, None, bytes), n);
        assert_eq!(largest_fitting_size(entry, None, bytes - 1), n / 2);
        assert_eq!(largest_fitting_size(entry, None, 0), 1);
    }
}
