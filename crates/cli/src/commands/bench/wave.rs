//! Benchmark of the wave equation, on a device or on all cores.

use orrery_device::Device;
use orrery_engine::case::available_memory;
use orrery_measure::bench::wave::{
    self as measure, HOST_BYTES_PER_NODE, MIN_SIDE, WaveMeasurement, WaveWorkload,
};
use orrery_measure::devices::cpu_name;
use orrery_measure::format::{format_number, format_percent, format_rate, format_seconds};
use orrery_model::Precision;
use orrery_simd::InstructionSet;
use serde_json::{Value, json};

use super::{about_cpu, check_memory_for, selected_precisions, selected_sizes};
use crate::args::{BenchArgs, PrecisionFlag};
use crate::commands::tune::load_tuning;
use crate::failure::Failure;
use crate::print::print_line;

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
    let tuning = device.and_then(|device| load_tuning(device, arguments.no_tuned));
    let bench = measure::WaveBench::new(device, set, tuning, arguments.repeats.map(|k| k as usize))?;
    match device {
        Some(device) => print_line!("{}", device.title()),
        None => print_line!("{}, {}, threads: {}", cpu_name(), set.name(), rayon::current_num_threads()),
    }
    print_line!("order 8, without sources and receivers");
    print_line!("layers: nodes of absorbing layers on all sides; - stands for free sides");
    if let Some(copy) = bench.copy_bytes_per_s() {
        print_line!("of copy: GB/s relative to {}, the rate of a copy", format_rate(copy, "B/s"));
    }
    print_line!("");
    print_line!(
        "{:>7} {:>9} {:<8} {:>6} {:>8} {:>8} {:>7} {:>7} {:>7}",
        "nodes",
        "precision",
        "velocity",
        "layers",
        "per step",
        "fastest",
        "Mpt/s",
        "GB/s",
        "of copy"
    );
    let mut results = Vec::new();
    for side in sides {
        for precision in selected_precisions(arguments, &[Precision::Single, Precision::Double]) {
            for workload in WaveWorkload::all(side, precision) {
                let line = bench.measure(workload)?;
                print_row(&line);
                results.push(line.to_json());
            }
        }
    }
    Ok((bench.device_json().unwrap_or_else(|| about_cpu(set)), json!(results)))
}

fn print_row(line: &WaveMeasurement) {
    let WaveWorkload { precision, is_variable, layer_nodes, .. } = line.workload;
    let [time, fastest] = [line.times.median(), line.times.fastest()].map(format_seconds);
    let row = format!(
        "{:>7} {:>9} {:<8} {:>6} {time:>8} {fastest:>8} {:>7} {:>7} {:>7}",
        line.workload.grid_name(),
        precision.as_str(),
        if is_variable { "per node" } else { "uniform" },
        if layer_nodes == 0 { "-".to_owned() } else { layer_nodes.to_string() },
        format_number(line.points_per_s() / 1e6),
        format_number(line.bytes_per_s() / 1e9),
        format_percent(line.share_of_copy()),
    );
    print_line!("{}", row.trim_end());
}
