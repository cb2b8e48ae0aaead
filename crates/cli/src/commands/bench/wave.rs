//! Benchmark of the wave equation, on a device or on all cores.

use orrery_device::Device;
use orrery_engine::case::available_memory;
use orrery_measure::bench::wave::{self as measure, HOST_BYTES_PER_NODE, MIN_SIDE, WaveWorkload};
use orrery_model::Precision;
use orrery_simd::InstructionSet;
use serde_json::Value;

use super::table::{BenchTable, bench_place, title_of};
use super::{check_memory_for, selected_precisions, selected_sizes};
use crate::args::{BenchArgs, PrecisionFlag};
use crate::failure::Failure;

/// Maximum number of nodes along a side of the cube.
const MAX_SIDE: usize = 1 << 13;

/// Refuses precisions that waves do not have, and cubes that are too small or exceed the memory.
pub fn check_wave_flags(sides: &[usize], precision: Option<PrecisionFlag>) -> Result<(), Failure> {
    if let Some(flag) = precision.filter(|flag| flag.0 == Precision::Mixed) {
        let precision = flag.0.as_str();
        return Err(Failure::Usage(format!("--precision {precision}: expected single or double for waves")));
    }
    if let Some(side) = sides.iter().find(|side| !(MIN_SIDE..=MAX_SIDE).contains(side)) {
        return Err(Failure::Usage(format!("-n {side} is outside {MIN_SIDE} <= n <= {MAX_SIDE}")));
    }
    sides.iter().try_for_each(|&side| {
        let problems = WaveWorkload::cube_and_square(side, Precision::Double, true);
        let nodes = problems.map(|workload| workload.grid().len() as u64);
        check_memory_for(side, nodes[0].max(nodes[1]), HOST_BYTES_PER_NODE, "nodes")
    })
}

/// Measures and prints. Returns the device with its measured peaks, and the results.
pub fn bench_wave(
    arguments: &BenchArgs,
    device: Option<&Device>,
    set: InstructionSet,
) -> Result<(Value, Value), Failure> {
    let sides = selected_sizes(arguments, &[measure::default_side(device, available_memory())?]);
    let place = bench_place(arguments, device, set)?;
    let mut table = BenchTable::start(&title_of(device, set), &measure::notes(&place), &measure::COLUMNS);
    for side in sides {
        for precision in selected_precisions(arguments, &[Precision::Single, Precision::Double]) {
            for workload in WaveWorkload::all(side, precision) {
                table.print(measure::measure(&place, workload)?);
            }
        }
    }
    Ok(table.finish(&place))
}
