//! Ladder of all-pairs gravity.

use orrery_device::{Device, DeviceError};
use orrery_model::Precision;
use orrery_particles::solver::device::DeviceStrategy;
use orrery_particles::solver::direct::device::{
    CourseParameters, CourseSteps, DirectDeviceStrategy, DirectKernel,
};
use orrery_particles::solver::direct::rungs::{COURSE_GPUS, rungs};
use orrery_particles::solver::{CpuStrategy, Problem};

use super::gravity::{BYTES_PER_BODY, ERROR_REMARK, EvaluatedStrategy, Evaluation, GravityLadder};
use super::repeats::time_rung_on_device;
use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, ReferenceTable, Scale, Sweep, SweepSeries,
    Work,
};
use crate::workload::Workload;
use crate::{FLOPS_PER_PAIR, LabError};

pub static LADDER: LadderEntry = LadderEntry {
    name: "direct",
    description: "Gravity by the sum over all pairs",
    title: "all-pairs gravity",
    size_unit: "bodies",
    host_bytes: |n| (n as u64).saturating_mul(BYTES_PER_BODY),
    sizes: DefaultSizes { gpu: 65_536, opencl_cpu: 4096, host: 16_384 },
    counted: Counted {
        item: "pair",
        rate_unit: "interactions/s",
        heading: "Gpair/s",
        to_column: |rate| rate / 1e9,
    },
    measure,
};

const COURSE_LEGEND: &[&str] = &[
    "course: slides on N-body simulation in CUDA, based on M. Burtscher's tutorial;",
    "1.3: Quadro FX 5800, 2.0: Tesla C2050, 3.0: GeForce GTX 680",
];

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), LabError> {
    ladder.remarks = vec![ERROR_REMARK.to_owned()];
    ladder.reference = Some(ReferenceTable {
        caption: "gain over the previous rung in the course, by compute capability".to_owned(),
        columns: COURSE_GPUS.map(str::to_owned).to_vec(),
        legend: COURSE_LEGEND,
    });
    let gravity = GravityLadder {
        rungs,
        new_workload: Workload::for_direct,
        default_strategy: |device, n, precision, tuning| {
            let tuned = tuning.and_then(|tuning| tuning.nearest_entry(n, precision));
            let strategy = tuned.map(|entry| entry.strategy);
            strategy.unwrap_or_else(|| DirectDeviceStrategy::default_for(device, n, precision)).into()
        },
        count_work,
    };
    gravity.measure(request, ladder)?;
    let sizes: Vec<usize> = STEP_SIZES.into_iter().filter(|size| *size <= request.n).collect();
    if let (Some(device), false) = (request.device, sizes.is_empty()) {
        (request.progress)("steps of few bodies");
        ladder.sweeps.push(sweep_parameters(device, &sizes)?);
        ladder.remarks.push(STEPS_REMARK.to_owned());
    }
    Ok(())
}

/// Numbers of bodies of the steps below. The course measures 1,000.
const STEP_SIZES: [usize; 5] = [250, 500, 1000, 2000, 4000];
/// Step so short that bodies at rest do not move noticeably during a measurement.
const STEP_DT: f64 = 1e-9;
const STEPS_REMARK: &str = "steps below: forces and motion in two launches, in microseconds";

/// Measures the time of a step of the course's program with its parameters as arguments and in
/// constant memory.
fn sweep_parameters(device: &Device, sizes: &[usize]) -> Result<Sweep, DeviceError> {
    let time_step = |parameters, n: usize| -> Result<Option<f64>, DeviceError> {
        let workload = Workload::for_direct(n);
        let Problem { position, mass, eps, .. } = workload.problem();
        let steps = CourseSteps::new(device, parameters, position, mass, eps, STEP_DT)?;
        let times = time_rung_on_device(device, || steps.queue_step())?;
        Ok(Some(1e6 * times.median()))
    };
    let places =
        [("as arguments", CourseParameters::Arguments), ("in constant", CourseParameters::ConstantMemory)];
    let mut series = Vec::new();
    for (name, parameters) in places {
        let points = sizes.iter().map(|n| time_step(parameters, *n)).collect::<Result<_, _>>()?;
        series.push(SweepSeries { name: name.to_owned(), points });
    }
    Ok(Sweep {
        title: "time of a step, kernel parameters as arguments and in constant memory".to_owned(),
        parameter: "bodies",
        unit: "us",
        x_scale: Scale::Log,
        y_scale: Scale::Log,
        values: sizes.iter().map(|n| *n as f64).collect(),
        series,
    })
}

/// Counts pairs, with a body's interaction with itself.
fn count_work(evaluation: &Evaluation) -> (f64, Work) {
    let bytes = match evaluation.strategy {
        // Positions and masses are read as f64, once for each block of targets.
        EvaluatedStrategy::Cpu(CpuStrategy::Direct(strategy)) => Some(32.0 / strategy.block as f64),
        EvaluatedStrategy::Device(DeviceStrategy::Direct(strategy)) => Some(bytes_per_pair(&strategy)),
        EvaluatedStrategy::Cpu(CpuStrategy::Tree(_)) | EvaluatedStrategy::Device(DeviceStrategy::Tree(_)) => {
            None
        }
    };
    (evaluation.body_terms as f64, Work { flops: Some(FLOPS_PER_PAIR), bytes })
}

/// Returns the bytes per pair that a thread requests from device memory. A kernel without tiles
/// requests a whole source per pair. With tiles, a block loads each source once for all its
/// targets.
fn bytes_per_pair(strategy: &DirectDeviceStrategy) -> f64 {
    // The tiled kernel reads the f64 columns of the state.
    let is_wide = strategy.precision == Precision::Double || strategy.kernel == DirectKernel::Tiled;
    let bytes_per_source = if is_wide { 32.0 } else { 16.0 };
    let has_no_tiles = matches!(
        strategy.kernel,
        DirectKernel::OneThread
            | DirectKernel::Structs
            | DirectKernel::Arrays
            | DirectKernel::Constant
            | DirectKernel::Rsqrt
            | DirectKernel::TwoLoops
    );
    if has_no_tiles {
        bytes_per_source
    } else {
        bytes_per_source / (f64::from(strategy.block) * f64::from(strategy.targets))
    }
}
