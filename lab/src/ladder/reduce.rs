//! Ladder of reductions: sums of f32 for several block sizes. Sweeps below the rungs have the sums
//! of the course, which are of `int` and of which the course times the first layer only.

use orrery_device::{Buffer, Device, DeviceError};
use orrery_measure::MeasureError;
use orrery_measure::bench::primitives::SUM_F32;
use orrery_primitives::reduce::{Reduce, ReduceOperation, ReduceStrategy, reduce_on_cpu, reduce_reference};
use rayon::prelude::*;

use super::repeats::{is_cpu, time_rung_on_device};
use super::{
    BYTES, CheckedRung, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, Parameter,
    PrepareResult, PreparedRung, ReferenceTable, RungClock, RungLabel, RungLimit, RungSet, ShownValue, Sweep,
    SweepScale, SweepSeries, Work,
};
use crate::rungs::reduce::{
    BLOCK_SIZES, ReductionRung, ReductionVariant, RungNumber, RungSum, rungs, selftest,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "reduce",
    description: "Sum of an array, for several block sizes",
    title: "sum of f32",
    size_unit: "numbers",
    host_bytes: |n| (n as u64).saturating_mul(4),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 20, host: 1 << 26 },
    counted: BYTES,
    rungs: &[RungSet::of::<ReductionRung>()],
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

/// Numbers on a device, and the element with their sum.
pub struct ReductionInput {
    numbers: Buffer<f32>,
    sum: Buffer<f32>,
}

impl LadderRung for ReductionRung {
    type Input = ReductionInput;

    const VALUES: usize = BLOCK_SIZES.len();

    fn all(_: &Device) -> Vec<Self> {
        rungs()
    }

    fn new_input(device: &Device, n: usize) -> Result<ReductionInput, MeasureError> {
        Ok(ReductionInput { numbers: device.upload(&example_numbers(n))?, sum: device.zeros(1)? })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel { reference: self.course, ..RungLabel::new(self.name, self.note) }
    }

    fn prepare<'a>(&'a self, input: &'a ReductionInput, _: usize, value: usize) -> PrepareResult<'a> {
        let (device, block) = (input.sum.device(), BLOCK_SIZES[value]);
        if !is_measured(device, block) {
            return Ok(None);
        }
        let mut sum = RungSum::<f32>::new(device, self.variant, block)?;
        Ok(Some(prepare_sum(input, move || sum.launch(device.queue(), &input.numbers, &input.sum))))
    }
}

impl CheckedRung for ReductionRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_sums(device, self.variant)
    }
}

/// Returns a rung that queues a sum of the input.
fn prepare_sum<'a>(
    input: &ReductionInput,
    launch: impl FnMut() -> Result<(), DeviceError> + 'a,
) -> PreparedRung<'a> {
    let n = input.numbers.len();
    PreparedRung::new(RungClock::of(input.sum.device()), n, 4.0 * n as f64, launch)
        .with_work(WORK, RungLimit::Bandwidth)
}

fn example_numbers(n: usize) -> Vec<f32> {
    (0..n).into_par_iter().map(|i| (i % 1024) as f32 / 1024.0).collect()
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    type SumOnHost = fn(ReduceOperation, &[f32]) -> f32;
    let (n, numbers) = (request.n, example_numbers(request.n));
    let sums: [(&str, SumOnHost); 2] =
        [("CPU, one thread", reduce_reference), ("CPU, all cores", reduce_on_cpu)];
    for (name, sum) in sums {
        let prepared = PreparedRung::on_host(n, 4.0 * n as f64, || sum(ReduceOperation::Sum, &numbers))
            .with_work(WORK, RungLimit::Bandwidth);
        ladder.measure_prepared(request, name, "", prepared)?;
    }
    Ok(())
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let n = request.n;
    ladder.roof = ladder.host_roofs.copy_roof();
    measure_on_host(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    ladder.use_copy_roof_of(device)?;
    let block_sizes = BLOCK_SIZES.map(|block| block.to_string()).to_vec();
    ladder.reference = Some(ReferenceTable {
        caption: "GB/s reported in the course, for its GPU, by threads per block".to_owned(),
        columns: block_sizes.clone(),
        legend: &["The course sums int and times the first layer only, as the last table below."],
    });
    ladder.parameter =
        Some(Parameter { name: "threads per block", values: block_sizes, shown: ShownValue::Fastest });
    let input = ReductionRung::new_input(device, n)?;
    ladder.measure_rungs(request, &rungs(), &input)?;
    add_tuned(request, ladder, &input)?;
    let ReductionInput { numbers: input, .. } = input;
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
    input: &ReductionInput,
) -> Result<(), MeasureError> {
    let device = input.sum.device();
    let tuned = request.tuning.and_then(|tuning| tuning.tuned_candidate(SUM_F32, input.numbers.len()));
    let Some(candidate) = tuned else { return Ok(()) };
    let strategy = ReduceStrategy::CANDIDATES[candidate];
    let sum = Reduce::with_strategy(device, ReduceOperation::Sum, strategy)?;
    let launch = || sum.launch(device.queue(), &input.numbers, &input.sum);
    ladder.measure_prepared(request, "tuned", &strategy.name(), prepare_sum(input, launch))
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
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
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
        let input = ReductionRung::new_input(&device, 1000).unwrap();
        let tuning = tuning_of_candidate(&device, SUM_F32, 1, 2000);
        let rungs_with = |tuning| {
            let mut ladder = Ladder::new(&LADDER, device.title(), 1000);
            let mut request = LadderRequest { device: Some(&device), n: 1000, tuning, progress: &mut |_| {} };
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
