//! `devices`.

use orrery_engine::case::available_memory;
use orrery_io::write_file_atomically;
use orrery_lab::devices::survey_devices;

use crate::args::DevicesArgs;
use crate::failure::{Failure, check_output};
use crate::print::print_line;

/// Lists the devices and measures their speeds.
pub fn list_devices(arguments: &DevicesArgs) -> Result<(), Failure> {
    arguments.json.as_deref().map_or(Ok(()), check_output)?;
    let found = survey_devices(available_memory());
    found.lines().iter().for_each(|line| print_line!("{line}"));
    let Some(path) = &arguments.json else { return Ok(()) };
    let json = serde_json::to_value(&found).expect("plain data always serialises");
    write_file_atomically(path, format!("{json:#}\n").as_bytes()).map_err(Failure::Output)
}
