//! `devices`.

use orrery_engine::case::available_memory;
use orrery_lab::devices::survey_devices;

use crate::args::DevicesArgs;
use crate::failure::Failure;
use crate::print::print_line;

/// Lists the devices and measures their speeds.
pub fn list_devices(arguments: &DevicesArgs) -> Result<(), Failure> {
    let json = arguments.json.prepare()?;
    let found = survey_devices(available_memory());
    found.lines().iter().for_each(|line| print_line!("{line}"));
    json.write(|| serde_json::to_value(&found).expect("plain data always serialises"))
}
