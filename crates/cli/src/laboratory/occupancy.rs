//! Kernels of a ladder for `occupancy`.

use orrery_device::Device;
use orrery_device::occupancy::SmLimits;
use orrery_lab::ladder::{LADDERS, LadderEntry, find_ladder};
use orrery_measure::occupancy::BuiltKernels;

use crate::failure::Failure;
use crate::terminal_line::TerminalLine;

/// Builds the kernels of the ladder `name` on the device that `open` returns, and returns those
/// whose name, definitions or file contain `filter`.
pub fn kernels_of_ladder(
    name: &str,
    filter: &str,
    open: impl FnOnce() -> Result<(Device, &'static SmLimits), Failure>,
) -> Result<BuiltKernels, Failure> {
    let entry = find_entry(name)?;
    let (device, limits) = open()?;
    let mut line = TerminalLine::new();
    let draw = &mut |rung: &str| line.draw(rung);
    let found = orrery_lab::occupancy::kernels_of_ladder(&device, limits, entry, filter, draw);
    drop(line);
    let found = found?;
    if found.kernels.is_empty() {
        return Err(Failure::Usage(format!("no kernel of the ladder {name} has '{filter}' in its name")));
    }
    Ok(found)
}

fn find_entry(name: &str) -> Result<&'static LadderEntry, Failure> {
    find_ladder(name).ok_or_else(|| {
        let names = LADDERS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
        Failure::Usage(format!("'{name}' is not a ladder, expected one of {names}"))
    })
}
