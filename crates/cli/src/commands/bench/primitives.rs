//! The primitives, on a device or on all cores: what is printed of them.

use orrery_device::Device;
use orrery_lab::bench::primitives::{self as lab, Primitive, PrimitiveError, PrimitiveMeasurement};
use orrery_lab::devices::cpu_name;
use orrery_lab::format::{format_number, format_percent, format_rate, format_seconds};
use orrery_particles::simd::InstructionSet;
use serde_json::{Value, json};

use super::{about_cpu, check_room, sizes};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::say::say;

/// Host memory that a pair takes while it is sorted there: given and found, and twice in between.
const BYTES_PER_ELEMENT: u64 = 64;
/// Pairs that u32 values can number.
const MOST: u64 = 1 << 32;

/// Refuses numbers of elements that memory, or the values of a sort, could not hold.
pub fn check_sizes(counts: &[usize]) -> Result<(), Failure> {
    check_room(counts, BYTES_PER_ELEMENT, "elements")?;
    match counts.iter().find(|n| **n as u64 > MOST) {
        Some(n) => Err(Failure::Usage(format!("-n {n} is outside n <= {MOST}"))),
        None => Ok(()),
    }
}

/// Measures and prints. Gives where, with the roofs, and the results.
pub fn bench(
    arguments: &BenchArgs,
    device: Option<&Device>,
    set: InstructionSet,
) -> Result<(Value, Value), Failure> {
    let bench = lab::PrimitivesBench::new(device, arguments.repeats.map(|k| k as usize))?;
    match device {
        Some(device) => say!("{}", device.title()),
        None => say!("{}, threads: {}", cpu_name(), rayon::current_num_threads()),
    }
    let copy = bench.copy_bytes_per_s().map(|copy| format!(", of a copy's {}", format_rate(copy, "B/s")));
    say!("GB/s of the bytes that must move{}; every result is checked", copy.unwrap_or_default());
    say!("");
    say!(
        "{:<19} {:>10} {:>8} {:>8} {:>8} {:>7} {:>6} {:>7}",
        "",
        "elements",
        "time",
        "fastest",
        "slowest",
        "GB/s",
        "Gkey/s",
        "of copy"
    );
    let mut results = Vec::new();
    for primitive in Primitive::ALL {
        for n in sizes(arguments, &primitive.default_sizes(device)) {
            let line = bench.measure_primitive(primitive, n).map_err(failure)?;
            print(&line);
            results.push(line.to_json());
        }
    }
    Ok((bench.device_json().unwrap_or_else(|| about_cpu(set)), json!(results)))
}

fn failure(error: PrimitiveError) -> Failure {
    match error {
        PrimitiveError::Device(error) => error.into(),
        error @ PrimitiveError::WrongResult { .. } => Failure::Machine(error.to_string()),
    }
}

fn print(line: &PrimitiveMeasurement) {
    let ((case, what), times) = (line.primitive.name_and_input(), &line.times);
    let [time, fastest, slowest] = [times.median(), times.fastest(), times.slowest()].map(format_seconds);
    let (bytes, keys, share) = match line.bytes_per_s() {
        Some(rate) => (format_number(rate / 1e9), String::new(), format_percent(line.share_of_copy())),
        None => (String::new(), format_number(line.elements_per_s() / 1e9), String::new()),
    };
    let row = format!(
        "{case:<9} {what:<9} {:>10} {time:>8} {fastest:>8} {slowest:>8} {bytes:>7} {keys:>6} {share:>7}",
        line.n
    );
    say!("{}", row.trim_end());
}
