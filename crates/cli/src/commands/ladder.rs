//! `ladder`.

use orrery_device::{Device, DeviceKind};
use orrery_io::write_file_atomically;
use orrery_lab::ladder::sweep::Sweep;
use orrery_lab::ladder::{Ladder, direct, hardware_table, histogram, reduce, results_table, tree};
use orrery_particles::solver::direct::device::DirectDeviceStrategy;
use serde_json::Value;

use super::bench::{check_body_memory, check_memory};
use super::tune;
use crate::args::{LadderArgs, LadderName};
use crate::failure::{Failure, check_output};
use crate::print::print_line;
use crate::terminal_line::TerminalLine;

/// Measures a ladder, prints it, and writes the JSON file and the plot.
pub fn ladder(arguments: &LadderArgs) -> Result<(), Failure> {
    check_flags(arguments)?;
    let device = Device::open(arguments.device_args.device)?;
    let n = arguments.n.unwrap_or_else(|| default_size(arguments.name, device.as_ref()));
    let mut line = TerminalLine::new();
    let measured = measure_ladder(arguments, device.as_ref(), n, &mut |rung| line.draw(rung));
    drop(line);
    let measured = measured?;
    measured.print();
    if device.is_none() {
        print_line!("");
        print_line!("device rungs are not measured: {}", device_hint());
    }
    if let Some(path) = &arguments.json {
        write_file_atomically(path, format!("{:#}\n", measured.to_json()).as_bytes())
            .map_err(Failure::Output)?;
    }
    match (&arguments.plot, &measured) {
        (Some(path), LadderResult::Ladder(ladder)) => Ok(ladder.roofline().write_svg(path)?),
        _ => Ok(()),
    }
}

/// Refuses invalid flags before anything is measured.
fn check_flags(arguments: &LadderArgs) -> Result<(), Failure> {
    if arguments.n == Some(0) {
        return Err(Failure::Usage("-n 0 is outside n >= 1".to_owned()));
    }
    arguments.json.as_deref().map_or(Ok(()), check_output)?;
    if let Some(path) = &arguments.plot {
        check_output(path)?;
        if path.extension() != Some("svg".as_ref()) {
            return Err(Failure::Usage(format!("{}: expected a name ending in .svg", path.display())));
        }
        if arguments.name != LadderName::Direct {
            return Err(Failure::Usage("--plot: only ladder direct has a roofline".to_owned()));
        }
    }
    match arguments.name {
        LadderName::Direct | LadderName::Tree => check_body_memory(arguments.n.as_slice())?,
        LadderName::Reduce => check_memory(arguments.n.as_slice(), 4, "numbers")?,
        LadderName::Histogram => check_memory(arguments.n.as_slice(), 1, "bytes")?,
    }
    Ok(())
}

/// A measured ladder.
enum LadderResult {
    /// One figure per rung.
    Ladder(Ladder),
    /// One figure per rung and block size, or per rung and kind of input.
    Sweep(Sweep),
}

impl LadderResult {
    fn print(&self) {
        match self {
            Self::Ladder(ladder) => {
                results_table(ladder).iter().for_each(|line| print_line!("{line}"));
                print_line!("");
                hardware_table(ladder).iter().for_each(|line| print_line!("{line}"));
            }
            Self::Sweep(sweep) => sweep.lines().iter().for_each(|line| print_line!("{line}")),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Ladder(ladder) => ladder.to_json(),
            Self::Sweep(sweep) => sweep.to_json(),
        }
    }
}

fn measure_ladder(
    arguments: &LadderArgs,
    device: Option<&Device>,
    n: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<LadderResult, Failure> {
    Ok(match arguments.name {
        LadderName::Direct => LadderResult::Ladder(measure_direct(arguments, device, n, progress)?),
        LadderName::Tree => LadderResult::Ladder(tree::measure_ladder(device, n, progress)?),
        LadderName::Reduce => LadderResult::Sweep(reduce::measure_ladder(device, n, progress)?),
        LadderName::Histogram => LadderResult::Sweep(histogram::measure_ladder(device, n, progress)?),
    })
}

fn default_size(name: LadderName, device: Option<&Device>) -> usize {
    let kind = device.map(|device| device.properties().kind);
    match (name, kind) {
        (LadderName::Direct, None) => 16_384,
        (LadderName::Direct, Some(DeviceKind::Gpu)) => 65_536,
        (LadderName::Direct, Some(_)) => 4096,
        (LadderName::Tree, None) => 131_072,
        (LadderName::Tree, Some(DeviceKind::Gpu)) => 1_048_576,
        (LadderName::Tree, Some(_)) => 16_384,
        (LadderName::Reduce | LadderName::Histogram, None) => 1 << 26,
        (LadderName::Reduce | LadderName::Histogram, Some(DeviceKind::Gpu)) => 1 << 28,
        (LadderName::Reduce | LadderName::Histogram, Some(_)) => 1 << 20,
    }
}

fn measure_direct(
    arguments: &LadderArgs,
    device: Option<&Device>,
    n: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Ladder, Failure> {
    let tuning = device.and_then(|device| tune::load_tuning(device, arguments.no_tuned));
    let choice = |device: &Device, n, precision| {
        let entry = tuning.as_ref().and_then(|tuning| tuning.nearest_entry(n, precision));
        entry.map_or_else(|| DirectDeviceStrategy::default_for(device, n, precision), |entry| entry.strategy)
    };
    Ok(direct::measure_ladder(device, n, &choice, progress)?)
}

/// Explains how to measure the device rungs if `auto` selects the CPU.
fn device_hint() -> String {
    let labels: Vec<_> = Device::list().devices.iter().map(Device::label).collect();
    match labels.is_empty() {
        true => "this machine has no device".to_owned(),
        false => format!("select a device with --device {}", labels.join(" or ")),
    }
}
