//! Benchmark of Lennard-Jones fluids, on a device or on all cores.

use orrery_device::Device;
use orrery_fluids::device::MAX_PARTICLES;
use orrery_fluids::settings::PairPrecision;
use orrery_measure::bench::fluid::{self as measure, FluidMeasurement, STEPS_PER_MEASURE, precision_name};
use orrery_measure::devices::cpu_name;
use orrery_measure::format::{format_number, format_seconds};
use orrery_model::Precision;
use orrery_simd::InstructionSet;
use serde_json::{Value, json};

use super::{about_cpu, check_memory, selected_sizes};
use crate::args::{BenchArgs, PrecisionFlag};
use crate::commands::tune::load_tuning;
use crate::failure::Failure;
use crate::print::print_line;

/// Refuses precisions that fluids do not have, and numbers of particles that exceed a device or the
/// memory.
pub fn check_lj_flags(sizes: &[usize], precision: Option<PrecisionFlag>) -> Result<(), Failure> {
    if let Some(flag) = precision.filter(|flag| flag.0 == Precision::Single) {
        let precision = flag.0.as_str();
        return Err(Failure::Usage(format!("--precision {precision}: expected mixed or double for lj")));
    }
    if let Some(n) = sizes.iter().find(|&&n| n > MAX_PARTICLES) {
        return Err(Failure::Usage(format!("-n {n} is outside n <= {MAX_PARTICLES}")));
    }
    check_memory(sizes, measure::BYTES_PER_PARTICLE, "particles")
}

/// Refuses flags that have no effect, too.
pub fn check_bench_flags(arguments: &BenchArgs) -> Result<(), Failure> {
    if arguments.simd.is_some() {
        return Err(Failure::Usage("--simd: bench lj uses the best instruction set of the CPU".to_owned()));
    }
    check_lj_flags(&arguments.n, arguments.precision)
}

/// Measures and prints. Returns the device with its measured peaks, and the results.
pub fn bench_lj(
    arguments: &BenchArgs,
    device: Option<&Device>,
    set: InstructionSet,
) -> Result<(Value, Value), Failure> {
    let precision = match arguments.precision.map(|flag| flag.0) {
        Some(Precision::Double) => PairPrecision::Double,
        _ => PairPrecision::Mixed,
    };
    if device.is_some() && precision == PairPrecision::Double {
        return Err(Failure::Usage("--precision double: expected mixed for lj on a device".to_owned()));
    }
    let repeats = arguments.repeats.map(|k| k as usize);
    let tuning = device.and_then(|device| load_tuning(device, arguments.no_tuned));
    let bench = measure::FluidBench::new(device, tuning, repeats)?;
    match device {
        Some(device) => print_line!("{}", device.title()),
        None => print_line!("{}, {}, threads: {}", cpu_name(), set.name(), rayon::current_num_threads()),
    }
    print_line!("Lennard-Jones melt: density 0.8442, T 1.44, cutoff 2.5, dt 0.005, NVE");
    print_line!("per step: with its share of builds and of energies every {STEPS_PER_MEASURE} steps");
    print_line!("builds: steps per build of the lists; energies: time of one measurement");
    print_line!("");
    print_line!(
        "{:>9} {:>9} {:>8} {:>8} {:>8} {:>10} {:>6} {:>8}",
        "particles",
        "precision",
        "per step",
        "fastest",
        "steps/s",
        "Mpart-st/s",
        "builds",
        "energies"
    );
    let mut results = Vec::new();
    for n in selected_sizes(arguments, measure::default_sizes(device)) {
        let line = bench.measure(n, precision)?;
        print_row(&line);
        results.push(line.to_json());
    }
    Ok((bench.device_json().unwrap_or_else(|| about_cpu(set)), json!(results)))
}

fn print_row(line: &FluidMeasurement) {
    let [time, fastest] = [line.times.median(), line.times.fastest()].map(format_seconds);
    print_line!(
        "{:>9} {:>9} {time:>8} {fastest:>8} {:>8} {:>10} {:>6} {:>8}",
        line.n,
        precision_name(line.precision),
        format_number(1.0 / line.times.median()),
        format_number(line.particle_steps_per_s() / 1e6),
        line.steps_per_build.map_or_else(|| "-".to_owned(), format_number),
        format_seconds(line.measure_secs),
    );
    print_line!("          {}", line.strategy);
}
