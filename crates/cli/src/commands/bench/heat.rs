//! Benchmark of the heat equation, on a device or on all cores.

use orrery_device::Device;
use orrery_measure::bench::heat as measure;
use orrery_model::Precision;
use orrery_model::grid::MIN_NODES;
use orrery_simd::InstructionSet;
use serde_json::Value;

use super::table::{BenchTable, bench_place, title_of};
use super::{check_memory_for, selected_precisions, selected_sizes};
use crate::args::{BenchArgs, PrecisionFlag};
use crate::failure::Failure;

/// Host memory per node, in bytes: conductivity, state, and both rounded and padded.
pub(super) const BYTES_PER_NODE: u64 = 32;
/// Maximum number of nodes along a side.
const MAX_SIDE: usize = 1 << 20;

/// Refuses precisions that fields do not have, and squares that are too small or exceed the memory.
pub fn check_heat_flags(sides: &[usize], precision: Option<PrecisionFlag>) -> Result<(), Failure> {
    if let Some(flag) = precision.filter(|flag| flag.0 == Precision::Mixed) {
        let precision = flag.0.as_str();
        return Err(Failure::Usage(format!("--precision {precision}: expected single or double for heat")));
    }
    if let Some(side) = sides.iter().find(|side| !(MIN_NODES..=MAX_SIDE).contains(side)) {
        return Err(Failure::Usage(format!("-n {side} is outside {MIN_NODES} <= n <= {MAX_SIDE}")));
    }
    sides.iter().try_for_each(|&side| check_memory_for(side, (side as u64).pow(2), BYTES_PER_NODE, "nodes"))
}

/// Measures and prints. Returns the device with its measured peaks, and the results.
pub fn bench_heat(
    arguments: &BenchArgs,
    device: Option<&Device>,
    set: InstructionSet,
) -> Result<(Value, Value), Failure> {
    let place = bench_place(arguments, device, set)?;
    let mut table = BenchTable::start(&title_of(device, set), &measure::notes(&place), &measure::COLUMNS);
    for side in selected_sizes(arguments, &[measure::default_side(device)]) {
        for precision in selected_precisions(arguments, &[Precision::Single, Precision::Double]) {
            for is_variable in [false, true] {
                measure::measure(&place, side, precision, is_variable, &mut |row| table.print(row))?;
            }
        }
    }
    Ok(table.finish(&place))
}
