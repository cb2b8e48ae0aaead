//! Ladder of the Barnes-Hut tree.

use orrery_device::{Device, DeviceError};
use orrery_particles::solver::device::DeviceStrategy;
use orrery_particles::solver::tree::device::{
    BLOCKS_PER_SM, INSERTION_KERNELS, InsertionOptions, InsertionSteps, Order,
};
use orrery_particles::solver::tree::rungs::{THETA, insertion_rungs, rungs};

use super::gravity::{BYTES_PER_BODY, ERROR_REMARK, EvaluatedStrategy, Evaluation, GravityLadder, STEP_DT};
use super::{
    Counted, DefaultSizes, FigureRow, FigureTable, Ladder, LadderEntry, LadderRequest, Scale, Sweep,
    SweepSeries, Work,
};
use crate::LabError;
use crate::bench::tree::{evaluation_flops, production_strategy};
use crate::format::format_thousands;
use crate::sample::Shape;
use crate::timing::Times;
use crate::workload::Workload;

pub static LADDER: LadderEntry = LadderEntry {
    name: "tree",
    description: "Gravity by the Barnes-Hut tree, including the tree build",
    title: "Barnes-Hut, Plummer sphere",
    size_unit: "bodies",
    host_bytes: |n| (n as u64).saturating_mul(BYTES_PER_BODY),
    sizes: DefaultSizes { gpu: 1_048_576, opencl_cpu: 16_384, host: 131_072 },
    counted: Counted {
        item: "body",
        rate_unit: "bodies/s",
        heading: "Mbody/s",
        to_column: |rate| rate / 1e6,
    },
    measure,
};

const REMARKS: [&str; 3] = [
    "all rungs: theta = 0.5, geometric",
    "flops per term: body 20, cell 20 (monopole), 55 (quadrupole), 100 (octupole)",
    ERROR_REMARK,
];

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), LabError> {
    ladder.remarks = REMARKS.map(str::to_owned).to_vec();
    let gravity = GravityLadder {
        rungs,
        new_workload,
        default_strategy: |device, n, precision, tuning| {
            production_strategy(device, tuning, n, precision).into()
        },
        count_work,
    };
    gravity.measure(request, ladder)?;
    if let Some(device) = request.device {
        (request.progress)("the six kernels one by one");
        let n = kernel_times_size(ladder);
        ladder.figures.push(kernel_times_by_rung(device, n)?);
        ladder.sweeps.push(kernel_times_by_blocks(device, n)?);
    }
    Ok(())
}

fn new_workload(n: usize) -> Workload {
    Workload::for_tree(Shape::Plummer, n, THETA)
}

/// Numbers of blocks per SM of the sweep. A block has 256 threads, so an SM of NVIDIA runs at most
/// 8.
const BLOCKS_PER_SM_SWEEP: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Index of the kernel that orders the bodies, which the first rungs do not have.
const SORT_KERNEL: usize = 3;
/// Steps whose kernels are timed one by one.
const TIMED_STEPS: usize = 3;

/// Returns the smallest number of bodies with which a rung of the six kernels was measured.
fn kernel_times_size(ladder: &Ladder) -> usize {
    let names: Vec<&str> = insertion_rungs().iter().map(|(name, ..)| *name).collect();
    let measured = ladder.rungs.iter().filter(|rung| names.contains(&rung.name.as_str()));
    measured.map(|rung| rung.n).min().unwrap_or(ladder.n)
}

/// Returns the median times of the six kernels in seconds.
fn time_kernels(
    device: &Device,
    options: InsertionOptions,
    blocks_per_sm: [u32; 6],
    n: usize,
) -> Result<[f64; 6], DeviceError> {
    let workload = new_workload(n);
    let mut steps = InsertionSteps::new(device, options, blocks_per_sm, &workload.problem(), THETA, STEP_DT)?;
    let mut times = Vec::new();
    for _ in 0..TIMED_STEPS {
        // Keeps the device busy while the host queues the timed step.
        steps.queue_step()?;
        times.push(steps.time_kernels()?);
    }
    let median =
        |kernel: usize| Times::from_seconds(times.iter().map(|step| step[kernel]).collect()).median();
    Ok(std::array::from_fn(median))
}

/// Times the kernels of each rung by insertion.
fn kernel_times_by_rung(device: &Device, n: usize) -> Result<FigureTable, DeviceError> {
    let mut rows = Vec::new();
    for (name, options, _) in insertion_rungs() {
        let times = time_kernels(device, options, BLOCKS_PER_SM, n)?;
        let mut values = times.map(|time| Some(1e3 * time)).to_vec();
        if !options.sorted {
            values[SORT_KERNEL] = None;
        }
        rows.push(FigureRow { name: name.to_owned(), values });
    }
    Ok(FigureTable {
        title: format!("times of the six kernels in ms, {} bodies", format_thousands(n)),
        columns: INSERTION_KERNELS.map(str::to_owned).to_vec(),
        rows,
        legend: &["on OpenCL, kernels whose threads wait for others have one block"],
    })
}

/// Times the kernels of the complete program for several numbers of blocks.
fn kernel_times_by_blocks(device: &Device, n: usize) -> Result<Sweep, DeviceError> {
    let mut times = Vec::new();
    for blocks_per_sm in BLOCKS_PER_SM_SWEEP {
        times.push(time_kernels(device, InsertionOptions::COURSE, [blocks_per_sm; 6], n)?);
    }
    let series = INSERTION_KERNELS.iter().enumerate().map(|(kernel, name)| SweepSeries {
        name: (*name).to_owned(),
        points: times.iter().map(|step| Some(1e6 * step[kernel])).collect(),
    });
    Ok(Sweep {
        title: "times of the six kernels by their blocks per SM".to_owned(),
        parameter: "blocks per SM",
        unit: "us",
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        values: BLOCKS_PER_SM_SWEEP.map(f64::from).to_vec(),
        series: series.collect(),
    })
}

/// Counts bodies. Their operations follow from the terms of this evaluation.
fn count_work(evaluation: &Evaluation) -> (f64, Work) {
    let order = match evaluation.strategy {
        EvaluatedStrategy::Device(DeviceStrategy::Tree(strategy)) => strategy.order,
        EvaluatedStrategy::InsertionStep => Order::Monopole,
        _ => Order::Quadrupole,
    };
    let bodies = evaluation.n as f64;
    let flops = evaluation_flops(order, evaluation.body_terms, evaluation.cell_terms) / bodies;
    (bodies, Work { flops: Some(flops), bytes: None })
}
