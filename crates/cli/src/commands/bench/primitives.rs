//! Benchmarks of the primitives, on a device or on all cores.

use orrery_device::Device;
use orrery_measure::bench::primitives::{
    PRODUCTION_CASES, PrimitiveCase, PrimitiveError, PrimitiveMeasurement,
};
use orrery_measure::devices::cpu_name;
use orrery_measure::format::{format_number, format_percent, format_rate, format_seconds};
use orrery_simd::InstructionSet;
use serde_json::{Value, json};

use super::table::bench_place;
use super::{about_cpu, check_memory, selected_sizes};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::laboratory;
use crate::print::print_line;

/// Host memory per key-value pair during a sort, in bytes: input, output and two buffers.
const BYTES_PER_ELEMENT: u64 = 64;
/// Maximum number of pairs, because their values are u32.
const MAX_PAIRS: u64 = 1 << 32;

/// Returns the primitives that this program measures and tunes, in the order of the table: the
/// production primitives, then those of the laboratory.
pub fn primitive_cases() -> Vec<&'static PrimitiveCase> {
    [&PRODUCTION_CASES, laboratory::primitive_cases()].concat()
}

/// Refuses numbers of elements that exceed the host's memory or the range of the sort's values.
pub fn check_sizes(counts: &[usize]) -> Result<(), Failure> {
    check_memory(counts, BYTES_PER_ELEMENT, "elements")?;
    match counts.iter().find(|n| **n as u64 > MAX_PAIRS) {
        Some(n) => Err(Failure::Usage(format!("-n {n} is outside n <= {MAX_PAIRS}"))),
        None => Ok(()),
    }
}

/// Measures and prints. Returns the device with its measured peaks, and the results.
pub fn bench_primitives(
    arguments: &BenchArgs,
    device: Option<&Device>,
    set: InstructionSet,
) -> Result<(Value, Value), Failure> {
    if arguments.candidates && device.is_none() {
        return Err(Failure::Usage("--candidates needs a device, expected --device".to_owned()));
    }
    let bench = bench_place(arguments, device, set)?;
    match device {
        Some(device) => print_line!("{}", device.title()),
        None => print_line!("{}, threads: {}", cpu_name(), rayon::current_num_threads()),
    }
    let copy = bench.copy_bytes_per_s().map(|copy| format_rate(copy, "B/s"));
    let copy = copy.map_or_else(String::new, |rate| format!("; of copy: share of {rate} for a copy"));
    print_line!("GB/s: minimum bytes moved, over time{copy}");
    print_line!("Gop/s: keys that are sorted, or floating-point operations of a matrix product");
    print_line!("");
    print_line!(
        "{:<19} {:>10} {:>8} {:>8} {:>8} {:>7} {:>6} {:>7}",
        "",
        "elements",
        "time",
        "fastest",
        "slowest",
        "GB/s",
        "Gop/s",
        "of copy"
    );
    let mut results = Vec::new();
    for primitive in primitive_cases() {
        for n in selected_sizes(arguments, primitive.default_sizes(device)) {
            let line = bench.measure_primitive(primitive, n).map_err(to_failure)?;
            print_row(&line);
            results.push(line.to_json());
            if arguments.candidates {
                let candidates = bench.measure_candidates(primitive, n).map_err(to_failure)?;
                candidates.iter().for_each(print_candidate);
                results.extend(candidates.iter().map(PrimitiveMeasurement::to_json));
            }
        }
    }
    Ok((bench.device_json().unwrap_or_else(|| about_cpu(set)), json!(results)))
}

fn to_failure(error: PrimitiveError) -> Failure {
    match error {
        PrimitiveError::Device(error) => error.into(),
        error @ PrimitiveError::WrongResult { .. } => Failure::Machine(error.to_string()),
    }
}

fn print_row(line: &PrimitiveMeasurement) {
    let ((case, input), times) = (line.primitive.name_and_input(), &line.times);
    let [time, fastest, slowest] = [times.median(), times.fastest(), times.slowest()].map(format_seconds);
    let format_giga = |rate: Option<f64>| rate.map_or_else(String::new, |rate| format_number(rate / 1e9));
    let [bytes, operations] = [line.bytes_per_s(), line.operations_per_s()].map(format_giga);
    let share = line.bytes_per_s().map_or_else(String::new, |_| format_percent(line.share_of_copy()));
    let row = format!(
        "{case:<9} {input:<9} {:>10} {time:>8} {fastest:>8} {slowest:>8} {bytes:>7} {operations:>6} {share:>7}",
        line.n
    );
    print_line!("{}", row.trim_end());
    if let Some(strategy) = &line.strategy {
        print_line!("  tuned: {strategy}");
    }
}

/// Prints a candidate below the row of its primitive: strategy, time and rate.
fn print_candidate(line: &PrimitiveMeasurement) {
    let name = line.strategy.as_deref().unwrap_or_default();
    let rate = line.bytes_per_s().or(line.operations_per_s()).unwrap_or_default();
    let time = format_seconds(line.times.median());
    let (rate, share) = (format_number(rate / 1e9), format_percent(line.share_of_copy()));
    print_line!("  {name:<53} {time:>8} {rate:>6} {share:>7}");
}
