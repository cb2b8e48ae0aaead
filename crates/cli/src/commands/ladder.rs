//! `ladder`.

use indicatif::ProgressBar;
use orrery_device::{Device, DeviceKind};
use orrery_io::write_file_atomically;
use orrery_lab::ladder::sweep::Sweep;
use orrery_lab::ladder::{Ladder as Rungs, direct, hardware_table, histogram, reduce, results_table, tree};
use orrery_particles::solver::direct::device::DirectDeviceStrategy;
use serde_json::Value;

use super::bench::{check_memory, check_room};
use super::tune;
use crate::args::{Ladder, LadderName};
use crate::failure::{Failure, check_output};
use crate::say::say;

/// Measures, prints, writes and draws.
pub fn ladder(arguments: &Ladder) -> Result<(), Failure> {
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
        LadderName::Direct | LadderName::Tree => check_memory(arguments.n.as_slice())?,
        LadderName::Reduce => check_room(arguments.n.as_slice(), 4, "numbers")?,
        LadderName::Histogram => check_room(arguments.n.as_slice(), 1, "bytes")?,
    }
    let device = Device::open(arguments.device_args.device)?;
    let n = arguments.n.unwrap_or_else(|| default_size(arguments.name, device.as_ref()));
    // Drawn on a terminal only.
    let line = ProgressBar::new_spinner();
    let measured = measure(arguments, device.as_ref(), n, &mut |rung| {
        line.set_message(rung.to_owned());
        line.tick();
    });
    line.finish_and_clear();
    let measured = measured?;
    measured.print();
    if device.is_none() {
        say!("");
        say!("the rungs of a device are left out: {}", ways_to_a_device());
    }
    if let Some(path) = &arguments.json {
        write_file_atomically(path, format!("{:#}\n", measured.to_json()).as_bytes())
            .map_err(Failure::Output)?;
    }
    match (&arguments.plot, &measured) {
        (Some(path), LadderResult::Rungs(rungs)) => Ok(rungs.roofline().write_svg(path)?),
        _ => Ok(()),
    }
}

/// A ladder, or one over a second choice.
enum LadderResult {
    Rungs(Rungs),
    Sweep(Sweep),
}

impl LadderResult {
    fn print(&self) {
        match self {
            Self::Rungs(rungs) => {
                results_table(rungs).iter().for_each(|line| say!("{line}"));
                say!("");
                hardware_table(rungs).iter().for_each(|line| say!("{line}"));
            }
            Self::Sweep(sweep) => sweep.lines().iter().for_each(|line| say!("{line}")),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Rungs(rungs) => rungs.to_json(),
            Self::Sweep(sweep) => sweep.to_json(),
        }
    }
}

fn measure(
    arguments: &Ladder,
    device: Option<&Device>,
    n: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<LadderResult, Failure> {
    Ok(match arguments.name {
        LadderName::Direct => LadderResult::Rungs(all_pairs(arguments, device, n, progress)?),
        LadderName::Tree => LadderResult::Rungs(tree::measure_ladder(device, n, progress)?),
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

fn all_pairs(
    arguments: &Ladder,
    device: Option<&Device>,
    n: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Rungs, Failure> {
    let tuning = device.and_then(|device| tune::found(device, arguments.no_tuned));
    let choice = |device: &Device, n, precision| {
        let entry = tuning.as_ref().and_then(|tuning| tuning.nearest_entry(n, precision));
        entry.map_or_else(|| DirectDeviceStrategy::default_for(device, n, precision), |entry| entry.strategy)
    };
    Ok(direct::measure_ladder(device, n, &choice, progress)?)
}

/// What there is besides a GPU.
fn ways_to_a_device() -> String {
    let labels: Vec<_> = Device::list().devices.iter().map(Device::label).collect();
    match labels.is_empty() {
        true => "there is no device here".to_owned(),
        false => format!("--device {} measures them", labels.join(" or ")),
    }
}
