//! `devices`.

use orrery_engine::case::available_memory;
use orrery_io::write_file_atomically;
use orrery_lab::devices::survey_devices;

use crate::args::Devices;
use crate::failure::{Failure, check_output};
use crate::say::say;

/// Lists and measures what there is.
pub fn devices(arguments: &Devices) -> Result<(), Failure> {
    arguments.json.as_deref().map_or(Ok(()), check_output)?;
    let found = survey_devices(available_memory());
    found.lines().iter().for_each(|line| say!("{line}"));
    let Some(path) = &arguments.json else { return Ok(()) };
    let json = serde_json::to_value(&found).expect("plain data always serialises");
    write_file_atomically(path, format!("{json:#}\n").as_bytes()).map_err(Failure::Output)
}
