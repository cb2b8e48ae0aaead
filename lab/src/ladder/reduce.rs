//! Ladder of reductions: sums of f32 for several block sizes. Sweeps below the rungs have the sums
//! of the course, which are of `int` and of which the course times the first layer only.

use orrery_device::{Buffer, Device, DeviceError};
use orrery_measure::MeasureError;
use orrery_measure::bench::primitives::SUM_F32;
use orrery_measure::timing::Times;
use orrery_primitives::reduce::{Reduce, ReduceOperation, ReduceStrategy, reduce_on_cpu, reduce_reference};
use rayon::prelude::*;

use super::repeats::{is_cpu, time_rung_on_cpu, time_rung_on_device};
use super::{
    BYTES, DefaultSizes, Ladder, LadderEntry, LadderRequest, Parameter, ReferenceTable, Roofs, RungResult,
    Scale, ShownValue, Sweep, SweepSeries, TimedRuns, Work,
};
use crate::rungs::reduce::{BLOCK_SIZES, ReductionRung, ReductionVariant, RungNumber, RungSum, rungs};

pub static LADDER: LadderEntry = LadderEntry {
    name: "reduce",
    description: "Sum of an array, for several block sizes",
    title: "sum of f32",
    size_unit: "numbers",
    host_bytes: |n| (n as u64).saturating_mul(4),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 20, host: 1 << 26 },
    counted: BYTES,
    measure,
};

/// Each number is read once. Additions are not counted, because memory limits all rungs.
const WORK: Work = Work { flops: None, bytes: Some(1.0) };

/// Block sizes on a CPU through OpenCL, which compiles a kernel for each of them. All six take 50 s
/// on PoCL 3.1 with two cores.
const CPU_BLOCK_SIZES: [u32; 3] = [32, 256, 1024];
/// Block size of sums of integers on a CPU through OpenCL.
const CPU_BLOCK_SIZE: u32 = 256;

const CPU_BLOCKS_REMARK: &str = "blocks of 64, 128 and 512 threads are not measured on a CPU";

/// Whether rungs are measured with this block size.
fn is_measured(device: &Device, block: u32) -> bool {
    block <= device.properties().max_block_size && (!is_cpu(device) || CPU_BLOCK_SIZES.contains(&block))
}

fn timed(n: usize, times: Times) -> TimedRuns {
    TimedRuns { n, items: 4.0 * n as f64, times }
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n;
    let numbers: Vec<f32> = (0..n).into_par_iter().map(|i| (i % 1024) as f32 / 1024.0).collect();
    ladder.roof = ladder.host_roofs.copy_roof();
    let host_roof = ladder.host_roofs.bandwidth;
    let mut add_on_cpu = |name, sum: fn(ReduceOperation, &[f32]) -> f32| {
        (request.progress)(name);
        let times = time_rung_on_cpu(|| sum(ReduceOperation::Sum, &numbers));
        ladder.add_rung(RungResult {
            work: WORK,
            roof: host_roof,
            ..RungResult::new(name, &timed(n, times))
        });
    };
    add_on_cpu("CPU, one thread", reduce_reference);
    add_on_cpu("CPU, all cores", reduce_on_cpu);

    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    let block_sizes = BLOCK_SIZES.map(|block| block.to_string()).to_vec();
    ladder.reference = Some(ReferenceTable {
        caption: "GB/s reported in the course, for its GPU, by threads per block".to_owned(),
        columns: block_sizes.clone(),
        legend: &["The course sums int and times the first layer only, as the last table below."],
    });
    ladder.parameter =
        Some(Parameter { name: "threads per block", values: block_sizes, shown: ShownValue::Fastest });
    let (input, output) = (device.upload(&numbers)?, device.zeros(1)?);
    drop(numbers);
    for rung in rungs() {
        (request.progress)(rung.name);
        let time_block_size = |block: u32| -> Result<Option<TimedRuns>, DeviceError> {
            if !is_measured(device, block) {
                return Ok(None);
            }
            let mut sum = RungSum::<f32>::new(device, rung.variant, block)?;
            let times = time_rung_on_device(device, || sum.launch(device.queue(), &input, &output))?;
            Ok(Some(timed(n, times)))
        };
        let runs = BLOCK_SIZES.into_iter().map(time_block_size).collect::<Result<Vec<_>, _>>()?;
        let Some(result) = RungResult::with_sweep(rung.name, &runs, ShownValue::Fastest) else { continue };
        ladder.add_rung(RungResult {
            note: rung.note.to_owned(),
            work: WORK,
            roof: ladder.roofs.bandwidth,
            reference: rung.course.to_vec(),
            ..result
        });
    }
    add_tuned(request, ladder, &input)?;
    if is_cpu(device) {
        ladder.remarks.push(CPU_BLOCKS_REMARK.to_owned());
    }
    let has_integer_kernel = |block: u32| !is_cpu(device) || block == CPU_BLOCK_SIZE;
    let first_layer = sweep_of(request, "f32, first layer only", &input, TimedLayers::First, |_| true)?;
    drop(input);
    // The sum wraps around, which does not change the time of an addition.
    let integers: Vec<i32> = (0..n).into_par_iter().map(|i| i as i32).collect();
    let input = device.upload(&integers)?;
    drop(integers);
    let all_layers = sweep_of(request, "int, all layers", &input, TimedLayers::All, has_integer_kernel)?;
    let course = sweep_of(request, "int, first layer only", &input, TimedLayers::First, has_integer_kernel)?;
    ladder.sweeps.extend([first_layer, all_layers, course]);
    Ok(())
}

/// Adds a rung for the strategy that the tuner found to be faster than the default, if there is
/// one.
fn add_tuned(
    request: &mut LadderRequest,
    ladder: &mut Ladder,
    input: &Buffer<f32>,
) -> Result<(), DeviceError> {
    let (device, n) = (input.device(), input.len());
    let tuned = request.tuning.and_then(|tuning| tuning.tuned_candidate(SUM_F32, n));
    let Some(candidate) = tuned else { return Ok(()) };
    let (name, strategy) = ("tuned", ReduceStrategy::CANDIDATES[candidate]);
    (request.progress)(name);
    let sum = Reduce::with_strategy(device, ReduceOperation::Sum, strategy)?;
    let output = device.zeros(1)?;
    let times = time_rung_on_device(device, || sum.launch(device.queue(), input, &output))?;
    ladder.add_rung(RungResult {
        note: strategy.name(),
        work: WORK,
        roof: ladder.roofs.bandwidth,
        ..RungResult::new(name, &timed(n, times))
    });
    Ok(())
}

/// Layers of a reduction that are timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimedLayers {
    All,
    /// One sum per block remains, as in the course.
    First,
}

/// Times the rungs for all block sizes that `is_selected` accepts. The production kernel has no
/// layers, so it is not in a sweep of first layers.
fn sweep_of<T: RungNumber>(
    request: &mut LadderRequest,
    title: &str,
    input: &Buffer<T>,
    layers: TimedLayers,
    is_selected: impl Fn(u32) -> bool,
) -> Result<Sweep, DeviceError> {
    let device = input.device();
    let is_supported = |block: &u32| is_measured(device, *block) && is_selected(*block);
    let blocks: Vec<u32> = BLOCK_SIZES.into_iter().filter(is_supported).collect();
    let mut series = Vec::new();
    for rung in rungs() {
        (request.progress)(&format!("{title}: {}", rung.name));
        let time_block_size = |&block: &u32| -> Result<Option<f64>, DeviceError> {
            let seconds = time_sum(device, &rung, block, input, layers)?;
            Ok(seconds.map(|seconds| 4e-9 * input.len() as f64 / seconds))
        };
        let points = blocks.iter().map(time_block_size).collect::<Result<Vec<_>, _>>()?;
        if points.iter().any(Option::is_some) {
            series.push(SweepSeries { name: short_name(rung.variant).to_owned(), points });
        }
    }
    Ok(Sweep {
        title: format!("sum of {title}"),
        parameter: "threads per block",
        unit: "GB/s",
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        values: blocks.iter().map(|block| f64::from(*block)).collect(),
        series,
    })
}

/// Returns a name for the column of a table.
fn short_name(variant: ReductionVariant) -> &'static str {
    match variant {
        ReductionVariant::Divergent => "divergent",
        ReductionVariant::Addresses => "addresses",
        ReductionVariant::Banks => "banks",
        ReductionVariant::FirstAdd => "first add",
        ReductionVariant::LastWarp => "last warp",
        ReductionVariant::Shuffles => "shuffles",
        ReductionVariant::Production => "vector loads",
    }
}

/// Returns the median time of a sum, or `None` for the first layer of a kernel without layers.
fn time_sum<T: RungNumber>(
    device: &Device,
    rung: &ReductionRung,
    block: u32,
    input: &Buffer<T>,
    layers: TimedLayers,
) -> Result<Option<f64>, DeviceError> {
    let mut sum = RungSum::<T>::new(device, rung.variant, block)?;
    if layers == TimedLayers::All {
        let output = device.zeros(1)?;
        let times = time_rung_on_device(device, || sum.launch(device.queue(), input, &output))?;
        return Ok(Some(times.median()));
    }
    if sum.numbers_per_block().is_none() {
        return Ok(None);
    }
    let output = device.zeros(sum.first_layer_len(input.len()))?;
    let times = time_rung_on_device(device, || sum.launch_first_layer(device.queue(), input, &output))?;
    Ok(Some(times.median()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::bench::tuning_of_candidate;

    /// The candidate whose kernel a check of the primitives also compiles.
    #[test]
    fn a_strategy_of_the_tuner_is_a_rung() {
        let Some(device) = crate::test_device() else { return };
        let input = device.upload(&[1.0; 1000]).unwrap();
        let tuning = tuning_of_candidate(&device, SUM_F32, 1, 2000);
        let rungs_with = |tuning| {
            let mut ladder = Ladder::new(&LADDER, device.title(), input.len());
            let mut request =
                LadderRequest { device: Some(&device), n: input.len(), tuning, progress: &mut |_| {} };
            add_tuned(&mut request, &mut ladder, &input).unwrap();
            ladder.rungs
        };
        assert_eq!(rungs_with(None), []);
        let rungs = rungs_with(Some(&tuning));
        let names: Vec<[&str; 2]> = rungs.iter().map(|rung| [&*rung.name, &*rung.note]).collect();
        assert_eq!(names, [["tuned", "256 x 4, 2048 per SM"]]);
        assert!(rungs[0].rate > 0.0, "{rungs:?}");
    }
}
