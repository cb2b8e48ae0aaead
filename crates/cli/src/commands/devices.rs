//! `devices`.

use std::path::{Path, PathBuf};

use orrery_device::Device;
use orrery_engine::case::available_memory;
use orrery_measure::devices::survey_devices;
use orrery_measure::roofline::MachineRoofs;

use crate::args::DevicesArgs;
use crate::failure::{Failure, check_new_output};
use crate::print::print_line;
use crate::terminal_line::TerminalLine;

/// Lists the devices and measures their speeds.
pub fn list_devices(arguments: &DevicesArgs) -> Result<(), Failure> {
    if arguments.roofline {
        return measure_roofs(arguments);
    }
    let json = arguments.json.prepare()?;
    let found = survey_devices(available_memory());
    found.lines().iter().for_each(|line| print_line!("{line}"));
    json.write(|| serde_json::to_value(&found).expect("plain data always serialises"))
}

/// Measures the roofs of all devices, prints them, and writes the JSON file and the plots.
fn measure_roofs(arguments: &DevicesArgs) -> Result<(), Failure> {
    let json = arguments.json.prepare()?;
    let list = Device::list();
    let labels = std::iter::once("cpu".to_owned()).chain(list.devices.iter().map(Device::label));
    let plots: Vec<PathBuf> = match &arguments.plot {
        None => Vec::new(),
        Some(path) => {
            let own = labels.map(|label| device_plot_path(path, &label));
            std::iter::once(path.clone()).chain(own).collect()
        }
    };
    for path in &plots {
        check_new_output(path, arguments.json.force)?;
        if path.extension() != Some("svg".as_ref()) {
            return Err(Failure::Usage(format!("{}: expected a name ending in .svg", path.display())));
        }
    }
    let mut line = TerminalLine::new();
    let roofs = MachineRoofs::measure(&list, &mut |label| line.draw(label));
    drop(line);
    roofs.lines().iter().for_each(|line| print_line!("{line}"));
    json.write(|| serde_json::to_value(&roofs).expect("plain data always serialises"))?;
    let drawn = std::iter::once(roofs.plot()).chain(roofs.devices.iter().map(|device| device.plot()));
    for (path, plot) in plots.iter().zip(drawn) {
        plot.write_svg(path)?;
    }
    Ok(())
}

/// Returns the path of the plot of one device, for example `roofs-cuda-0.svg` for `roofs.svg`.
fn device_plot_path(path: &Path, label: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{}.{extension}", label.replace(':', "-")))
}
