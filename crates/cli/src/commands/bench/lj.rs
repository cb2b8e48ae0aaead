//! Benchmark of Lennard-Jones fluids, on a device or on all cores.

use orrery_device::Device;
use orrery_fluids::device::MAX_PARTICLES;
use orrery_fluids::settings::PairPrecision;
use orrery_measure::bench::fluid as measure;
use orrery_model::Precision;
use orrery_simd::InstructionSet;
use serde_json::Value;

use super::table::{BenchTable, bench_place, title_of};
use super::{check_memory, selected_sizes};
use crate::args::{BenchArgs, PrecisionFlag};
use crate::failure::Failure;

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
    let place = bench_place(arguments, device, set)?;
    let mut table = BenchTable::start(&title_of(device, set), &measure::notes(), &measure::COLUMNS);
    for n in selected_sizes(arguments, measure::default_sizes(device)) {
        table.print(measure::measure(&place, n, precision)?);
    }
    Ok(table.finish(&place))
}
