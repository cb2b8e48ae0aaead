//! Ladder of the Barnes-Hut tree.

use orrery_device::{Device, DeviceError};
use orrery_gravity::solver::device::DeviceStrategy;
use orrery_gravity::solver::tree::device::Order;
use orrery_measure::MeasureError;
use orrery_measure::bench::tree::{evaluation_flops, production_strategy};
use orrery_measure::format::format_thousands;
use orrery_measure::sample::Shape;
use orrery_measure::timing::Times;
use orrery_measure::workload::Workload;

use super::gravity::{
    BYTES_PER_BODY, ERROR_REMARK, EvaluatedStrategy, GravityLadder, RungEvaluation, RungSizes, STEP_DT,
};
use super::repeats::{is_cpu, max_run_seconds};
use super::{
    Counted, DefaultSizes, FigureRow, FigureTable, Ladder, LadderEntry, LadderRequest, RungSet, Sweep,
    SweepScale, SweepSeries, Work,
};
use crate::rungs::gravity::LectureStrategy;
use crate::rungs::gravity::tree::insertion::{
    BLOCKS_PER_SM, INSERTION_KERNELS, InsertionOptions, InsertionSteps,
};
use crate::rungs::gravity::tree::{THETA, insertion_rungs, rungs};

pub static LADDER: LadderEntry = LadderEntry {
    name: "tree",
    description: "Gravity by the Barnes-Hut tree, including the tree build",
    title: "Barnes-Hut, Plummer sphere",
    size_unit: "bodies",
    host_bytes: |n| (n as u64).saturating_mul(BYTES_PER_BODY),
    sizes: DefaultSizes { gpu: 1_048_576, opencl_cpu: 2048, host: 131_072 },
    counted: Counted {
        item: "body",
        rate_unit: "bodies/s",
        heading: "Mbody/s",
        to_column: |rate| rate / 1e6,
    },
    rungs: &[RungSet { run_once: |device| gravity_ladder(max_run_seconds()).run_once(device) }],
    measure,
};

const REMARKS: [&str; 3] = [
    "all rungs: theta = 0.5, geometric",
    "flops per term: body 20, cell 20 (monopole), 55 (quadrupole), 100 (octupole)",
    ERROR_REMARK,
];

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.remarks = REMARKS.map(str::to_owned).to_vec();
    let requested = request.n;
    gravity_ladder(max_run_seconds()).measure(request, ladder)?;
    let n = ladder.n;
    if n < requested {
        let requested = format_thousands(requested);
        ladder.remarks.push(format!("fewer than {requested} bodies, so that a run of every rung is short"));
    }
    if let Some(device) = request.device {
        (request.progress)("the six kernels one by one");
        let n = if is_cpu(device) { n.min(KERNEL_TIMES_SIZE_ON_CPU) } else { n };
        ladder.figures.push(kernel_times_by_rung(device, n)?);
        ladder.sweeps.push(kernel_times_by_blocks(device, n)?);
    }
    Ok(())
}

/// Returns the measurement of all rungs with the same number of bodies: the rate of a tree depends
/// on it. One evaluation on a device takes at most `max_run_seconds`.
fn gravity_ladder(max_run_seconds: f64) -> GravityLadder {
    GravityLadder {
        rungs,
        new_workload,
        default_strategy: |device, n, precision, tuning| {
            production_strategy(device, tuning, n, precision).into()
        },
        count_work,
        sizes: RungSizes::Common,
        max_run_seconds,
    }
}

fn new_workload(n: usize) -> Workload {
    Workload::for_tree(Shape::Plummer, n, THETA)
}

/// Numbers of blocks per SM of the sweep. A block has 256 threads, so an SM of NVIDIA runs at most
/// 8.
const BLOCKS_PER_SM_SWEEP: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Index of the kernel that orders the bodies, which the first rungs do not have.
const SORT_KERNEL: usize = 3;
/// Number of bodies for the times of the kernels if the device is a CPU, on which 60 steps would
/// otherwise take as long as all rungs.
const KERNEL_TIMES_SIZE_ON_CPU: usize = 1024;
/// Steps whose kernels are timed one by one.
const TIMED_STEPS: usize = 3;

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
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: BLOCKS_PER_SM_SWEEP.map(f64::from).to_vec(),
        series: series.collect(),
    })
}

/// Counts bodies. Their operations follow from the terms of this evaluation.
fn count_work(evaluation: &RungEvaluation) -> (f64, Work) {
    let order = match evaluation.strategy {
        EvaluatedStrategy::Device(DeviceStrategy::Tree(strategy)) => strategy.order,
        EvaluatedStrategy::Lecture(LectureStrategy::Insertion(_)) | EvaluatedStrategy::InsertionStep(_) => {
            Order::Monopole
        }
        _ => Order::Quadrupole,
    };
    let bodies = evaluation.n as f64;
    let flops = evaluation_flops(order, evaluation.body_terms, evaluation.cell_terms) / bodies;
    (bodies, Work { flops: Some(flops), bytes: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate of a tree depends on the number of bodies, so gains compare rungs at one number.
    /// The limit is so short that slow rungs alone would have fewer bodies than fast ones.
    #[test]
    fn all_rungs_have_the_same_number_of_bodies() {
        let Some(device) = crate::test_device() else { return };
        for (limit, n) in [(4e-3, 4096), (0.0, 1024)] {
            let mut ladder = Ladder::new(&LADDER, device.title(), n);
            let mut request = LadderRequest { device: Some(&device), n, tuning: None, progress: &mut |_| {} };
            gravity_ladder(limit).measure(&mut request, &mut ladder).unwrap();
            assert!(ladder.rungs.len() > 10);
            let sizes: Vec<usize> = ladder.rungs.iter().map(|rung| rung.n).collect();
            assert!(sizes.iter().all(|&size| size == ladder.n && size <= n), "{limit}: {sizes:?}");
            assert_eq!(request.n, ladder.n);
            if limit == 0.0 {
                assert!(ladder.n < n, "{}", ladder.n);
            }
        }
    }
}
