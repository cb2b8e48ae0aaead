//! `ladder`.

use indicatif::ProgressBar;
use orrery_device::{Device, Kind};
use orrery_io::write_whole;
use orrery_lab::ladder::{Ladder as Rungs, direct, figures, hardware};
use orrery_particles::solver::direct::device::Strategy;

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
    }
    super::bench::check_memory(arguments.n.as_slice())?;
    let device = Device::open(arguments.place.device)?;
    let n = arguments.n.unwrap_or_else(|| default_size(device.as_ref()));
    let ladder = match arguments.name {
        LadderName::Direct => all_pairs(arguments, device.as_ref(), n)?,
    };
    figures(&ladder).iter().for_each(|line| say!("{line}"));
    say!("");
    hardware(&ladder).iter().for_each(|line| say!("{line}"));
    if device.is_none() {
        say!("");
        say!("the rungs of a device are left out: {}", ways_to_a_device());
    }
    if let Some(path) = &arguments.json {
        write_whole(path, format!("{:#}\n", ladder.json()).as_bytes()).map_err(Failure::Output)?;
    }
    arguments.plot.as_ref().map_or(Ok(()), |path| Ok(ladder.roofline().write_svg(path)?))
}

fn default_size(device: Option<&Device>) -> usize {
    match device.map(|device| device.properties().kind) {
        None => 16_384,
        Some(Kind::Gpu) => 65_536,
        Some(_) => 4096,
    }
}

fn all_pairs(arguments: &Ladder, device: Option<&Device>, n: usize) -> Result<Rungs, Failure> {
    let tuning = device.and_then(|device| tune::found(device, arguments.no_tuned));
    let choice = |device: &Device, n, precision| {
        let entry = tuning.as_ref().and_then(|tuning| tuning.choose(n, precision));
        entry.map_or_else(|| Strategy::default_for(device, n, precision), |entry| entry.strategy)
    };
    // Drawn on a terminal only.
    let line = ProgressBar::new_spinner();
    let ladder = direct::measure(device, n, &choice, &mut |rung| {
        line.set_message(rung.to_owned());
        line.tick();
    });
    line.finish_and_clear();
    Ok(ladder?)
}

/// What there is besides a GPU.
fn ways_to_a_device() -> String {
    let labels: Vec<_> = Device::list().devices.iter().map(Device::label).collect();
    match labels.is_empty() {
        true => "there is no device here".to_owned(),
        false => format!("--device {} measures them", labels.join(" or ")),
    }
}
