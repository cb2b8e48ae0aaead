//! Benchmark of the heat equation, on a device or on all cores.

use orrery_device::Device;
use orrery_measure::bench::heat::{self as measure, HeatMeasurement};
use orrery_measure::devices::cpu_name;
use orrery_measure::format::{format_number, format_percent, format_rate, format_seconds};
use orrery_model::Precision;
use orrery_model::grid::MIN_NODES;
use orrery_simd::InstructionSet;
use serde_json::{Value, json};

use super::{about_cpu, check_memory_for, selected_precisions, selected_sizes};
use crate::args::{BenchArgs, PrecisionFlag};
use crate::commands::tune::load_tuning;
use crate::failure::Failure;
use crate::print::print_line;

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
    let repeats = arguments.repeats.map(|k| k as usize);
    let tuning = device.and_then(|device| load_tuning(device, arguments.no_tuned));
    let bench = measure::HeatBench::new(device, set, tuning, repeats)?;
    match device {
        Some(device) => print_line!("{}", device.title()),
        None => print_line!("{}, {}, threads: {}", cpu_name(), set.name(), rayon::current_num_threads()),
    }
    match bench.copy_bytes_per_s() {
        Some(copy) => {
            let copy = format_rate(copy, "B/s");
            print_line!("of copy: relative to one step per pass at {copy}, the rate of a copy");
        }
        None => print_line!("steps: time steps per pass over the memory"),
    }
    if device.is_some() {
        print_line!("measures: time of minimum, maximum and heat content");
    }
    print_line!("");
    print_line!(
        "{:>6} {:>9} {:<12} {:>5} {:>8} {:>8} {:>7} {:>7} {:>8}",
        "side",
        "precision",
        "conductivity",
        "steps",
        "per step",
        "fastest",
        "Gpt/s",
        "of copy",
        "measures"
    );
    let mut results = Vec::new();
    for side in selected_sizes(arguments, &[measure::default_side(device)]) {
        for precision in selected_precisions(arguments, &[Precision::Single, Precision::Double]) {
            for is_variable in [false, true] {
                bench.measure(side, precision, is_variable, &mut |line| {
                    print_row(line);
                    results.push(line.to_json());
                })?;
            }
        }
    }
    Ok((bench.device_json().unwrap_or_else(|| about_cpu(set)), json!(results)))
}

fn print_row(line: &HeatMeasurement) {
    let [time, fastest] = [line.times.median(), line.times.fastest()].map(format_seconds);
    let row = format!(
        "{:>6} {:>9} {:<12} {:>5} {time:>8} {fastest:>8} {:>7} {:>7} {:>8}",
        line.n,
        line.precision.as_str(),
        if line.is_variable { "per node" } else { "uniform" },
        line.steps_per_pass,
        format_number(line.points_per_s() / 1e9),
        format_percent(line.share_of_copy()),
        line.measures_secs.map_or_else(String::new, format_seconds),
    );
    print_line!("{}", row.trim_end());
}
