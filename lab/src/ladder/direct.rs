//! Ladder of all-pairs gravity.

use orrery_device::{Device, DeviceError};
use orrery_gravity::solver::device::DeviceStrategy;
use orrery_gravity::solver::direct::device::{DirectDeviceStrategy, DirectKernel};
use orrery_gravity::solver::{ForceProblem, GravityCpuStrategy};
use orrery_measure::workload::Workload;
use orrery_measure::{FLOPS_PER_PAIR, MeasureError};
use orrery_model::Precision;

use super::gravity::{
    BYTES_PER_BODY, ERROR_REMARK, EvaluatedStrategy, GravityLadder, RungEvaluation, RungSizes, STEP_DT,
};
use super::repeats::{max_run_seconds, time_rung_on_device};
use super::{
    Counted, DefaultSizes, FigureRow, FigureTable, Ladder, LadderEntry, LadderRequest, ReferenceTable,
    RungSet, Sweep, SweepScale, SweepSeries, Work,
};
use crate::rungs::gravity::LectureStrategy;
use crate::rungs::gravity::direct::course::{
    BLOCK_SIZE, CourseKernel, CourseProgram, CourseSteps, CourseStrategy, VectorStrategy,
};
use crate::rungs::gravity::direct::{COURSE_FIGURES, COURSE_GPUS, CourseFigure, plain, rungs};

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
    rungs: &[RungSet { run_once: |device| gravity_ladder().run_once(device) }],
    measure,
};

const COURSE_LEGEND: &[&str] = &[
    "course: slides on N-body simulation in CUDA, based on M. Burtscher's tutorial;",
    "1.3: Quadro FX 5800, 2.0: Tesla C2050, 3.0: GeForce GTX 680",
];

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.remarks = vec![ERROR_REMARK.to_owned(), TRAFFIC_REMARK.to_owned()];
    ladder.reference = Some(ReferenceTable {
        caption: "gain over the previous rung in the course, by compute capability".to_owned(),
        columns: COURSE_GPUS.map(str::to_owned).to_vec(),
        legend: COURSE_LEGEND,
    });
    gravity_ladder().measure(request, ladder)?;
    ladder.figures.extend(request.device.map(|_| course_figures(ladder)));
    let sizes: Vec<usize> = STEP_SIZES.into_iter().filter(|size| *size <= request.n).collect();
    if let (Some(device), false) = (request.device, sizes.is_empty()) {
        (request.progress)("steps of few bodies");
        ladder.sweeps.push(sweep_parameters(device, &sizes)?);
        ladder.remarks.push(STEPS_REMARK.to_owned());
    }
    Ok(())
}

fn gravity_ladder() -> GravityLadder {
    GravityLadder {
        rungs,
        new_workload: Workload::for_direct,
        default_strategy: |device, n, precision, tuning| {
            let tuned = tuning.and_then(|tuning| tuning.nearest_entry(n, precision));
            let strategy = tuned.map(|entry| entry.strategy);
            strategy.unwrap_or_else(|| DirectDeviceStrategy::default_for(device, n, precision)).into()
        },
        count_work,
        sizes: RungSizes::PerRung,
        max_run_seconds: max_run_seconds(),
    }
}

const TRAFFIC_REMARK: &str = "GB/s below: bytes that warps (without tiles) or blocks (with tiles) load, as the \
     course counts them; caches serve most of them";
/// Lanes that load a source together.
const LANES_PER_WARP: f64 = 32.0;
/// Numbers of bodies of the steps below. The course measures 1,000.
const STEP_SIZES: [usize; 5] = [250, 500, 1000, 2000, 4000];
const STEPS_REMARK: &str = "steps below: forces and motion in two launches, in microseconds";

/// Measures the time of a step of the course's program with its parameters as arguments and in
/// constant memory.
fn sweep_parameters(device: &Device, sizes: &[usize]) -> Result<Sweep, DeviceError> {
    let time_step = |program, n: usize| -> Result<Option<f64>, DeviceError> {
        let workload = Workload::for_direct(n);
        let ForceProblem { position, mass, eps, .. } = workload.problem();
        let steps = CourseSteps::new(device, program, position, mass, eps, STEP_DT)?;
        let times = time_rung_on_device(device, || steps.queue_step())?;
        Ok(Some(1e6 * times.median()))
    };
    let places = [("as arguments", CourseProgram::Arguments), ("in constant", CourseProgram::ConstantMemory)];
    let mut series = Vec::new();
    for (name, program) in places {
        let points = sizes.iter().map(|n| time_step(program, *n)).collect::<Result<_, _>>()?;
        series.push(SweepSeries { name: name.to_owned(), points });
    }
    Ok(Sweep {
        title: "time of a step, kernel parameters as arguments and in constant memory".to_owned(),
        parameter: "bodies",
        unit: "us",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: sizes.iter().map(|n| *n as f64).collect(),
        series,
    })
}

/// Returns the absolute figures of the course beside those of the same rungs here.
fn course_figures(ladder: &Ladder) -> FigureTable {
    let row = |figure: &CourseFigure| {
        let measured = ladder.rungs.iter().find(|rung| rung.name == figure.rung);
        let in_giga = |value: Option<f64>| value.map(|value| value / 1e9);
        FigureRow {
            name: format!("{}, {}", figure.rung, figure.gpu),
            values: vec![
                Some(figure.bodies as f64),
                figure.milliseconds,
                Some(figure.gflops),
                figure.gigabytes_per_s,
                in_giga(measured.and_then(|rung| rung.flops())),
                in_giga(measured.and_then(|rung| rung.bytes_per_s())),
            ],
        }
    };
    FigureTable {
        title: "absolute figures of the course and of the same rungs here".to_owned(),
        columns: ["bodies", "ms", "GFLOP/s", "GB/s", "here", "GB/s"].map(str::to_owned).to_vec(),
        rows: COURSE_FIGURES.iter().map(row).collect(),
        legend: &[
            "here: GFLOP/s and GB/s of this device, with its number of bodies",
            "2.0: a Tesla C2050, and for the last figures a GTX 480",
        ],
    }
}

/// Bytes per body, beside the sources: the position of the target and its sums, in f32.
const BYTES_PER_TARGET: f64 = 24.0;
/// Bytes per body of the motion: position, velocity and acceleration are read, and the first two
/// are written.
const BYTES_PER_ADVANCE: f64 = 60.0;

/// Counts pairs, with a body's interaction with itself. Bytes are those of a model: see
/// [`SourceLoads`].
fn count_work(evaluation: &RungEvaluation) -> (f64, Work) {
    let n = evaluation.n as f64;
    let device_bytes = |loads: SourceLoads, precision| {
        let width = if precision == Precision::Double { 2.0 } else { 1.0 };
        loads.bytes_per_pair() + width * BYTES_PER_TARGET / n
    };
    let bytes = match &evaluation.strategy {
        // Positions and masses are read as f64, once for each block of targets.
        EvaluatedStrategy::Cpu(GravityCpuStrategy::Direct(strategy)) => Some(32.0 / strategy.block as f64),
        EvaluatedStrategy::PlainCpu => Some(plain::BYTES_PER_BODY as f64),
        EvaluatedStrategy::Device(DeviceStrategy::Direct(strategy)) => {
            Some(device_bytes(SourceLoads::of_solver(strategy), strategy.precision))
        }
        EvaluatedStrategy::Lecture(LectureStrategy::Course(strategy)) => {
            Some(device_bytes(SourceLoads::of_course(strategy), strategy.precision))
        }
        EvaluatedStrategy::Lecture(LectureStrategy::Vectors(strategy)) => {
            Some(device_bytes(SourceLoads::of_vectors(strategy), Precision::Single))
        }
        EvaluatedStrategy::CourseStep => {
            let sources = 16.0 / f64::from(BLOCK_SIZE);
            Some(sources + (BYTES_PER_TARGET + BYTES_PER_ADVANCE) / n)
        }
        EvaluatedStrategy::Cpu(GravityCpuStrategy::Tree(_))
        | EvaluatedStrategy::Device(DeviceStrategy::Tree(_))
        | EvaluatedStrategy::Lecture(LectureStrategy::Insertion(_))
        | EvaluatedStrategy::InsertionStep(_) => None,
    };
    (evaluation.body_terms as f64, Work { flops: Some(FLOPS_PER_PAIR), bytes })
}

/// Loads of sources that have to come from memory if there are no caches, as the course counts
/// them. Without tiles, every warp streams all sources: its lanes load the same one, which is one
/// request. With tiles, a block loads each source once for all its targets. Of an array of
/// structures whole cache lines are loaded, and with them the members that nobody reads.
struct SourceLoads {
    bytes_per_source: f64,
    /// Targets for which a source is loaded once.
    targets_per_load: f64,
}

impl SourceLoads {
    /// Returns the loads of a kernel of the solver. Both have tiles.
    fn of_solver(strategy: &DirectDeviceStrategy) -> Self {
        // The tiled kernel reads the f64 columns of the state.
        let is_wide = strategy.precision == Precision::Double || strategy.kernel == DirectKernel::Tiled;
        Self {
            bytes_per_source: if is_wide { 32.0 } else { 16.0 },
            targets_per_load: f64::from(strategy.block) * f64::from(strategy.targets),
        }
    }

    /// Returns the loads of a kernel of the course.
    fn of_course(strategy: &CourseStrategy) -> Self {
        let numbers_per_source = if strategy.kernel.has_structs() { 10.0 } else { 4.0 };
        let bytes_per_number = if strategy.precision == Precision::Double { 8.0 } else { 4.0 };
        let targets_per_load = match strategy.kernel {
            CourseKernel::OneThread => 1.0,
            kernel if kernel.has_tiles() => f64::from(BLOCK_SIZE),
            _ => LANES_PER_WARP,
        };
        Self { bytes_per_source: numbers_per_source * bytes_per_number, targets_per_load }
    }

    /// Returns the loads of a kernel of the second course.
    fn of_vectors(strategy: &VectorStrategy) -> Self {
        let kernel = strategy.kernel;
        Self {
            bytes_per_source: 4.0 * kernel.layout().floats_per_body() as f64,
            targets_per_load: if kernel.has_tiles() { f64::from(BLOCK_SIZE) } else { LANES_PER_WARP },
        }
    }

    fn bytes_per_pair(&self) -> f64 {
        self.bytes_per_source / self.targets_per_load
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rungs::gravity::direct::course::VectorKernel;

    fn work_of(strategy: EvaluatedStrategy, n: usize) -> (f64, Work) {
        count_work(&RungEvaluation { n, strategy, body_terms: (n as u64).pow(2), cell_terms: 0 })
    }

    /// The throughput of the main memory that the course reports follows from the model, its time
    /// and its number of bodies. A partial block at the end adds up to 0.3%.
    #[test]
    fn the_model_gives_the_throughput_of_the_course() {
        for figure in COURSE_FIGURES {
            let Some((milliseconds, expected)) = figure.milliseconds.zip(figure.gigabytes_per_s) else {
                continue;
            };
            let (pairs, work) = work_of(EvaluatedStrategy::CourseStep, figure.bodies);
            let found = pairs * work.bytes.unwrap() / (1e6 * milliseconds);
            assert!((found / expected - 1.0).abs() < 0.005, "{figure:?}: {found} GB/s");
        }
    }

    #[test]
    fn tiles_divide_the_traffic_by_the_targets_of_a_block() {
        let course = |kernel, precision| {
            SourceLoads::of_course(&CourseStrategy { kernel, precision, unroll: 1 }).bytes_per_pair()
        };
        assert_eq!(course(CourseKernel::OneThread, Precision::Single), 40.0);
        assert_eq!(course(CourseKernel::Structs, Precision::Double), 80.0 / 32.0);
        assert_eq!(course(CourseKernel::Arrays, Precision::Single), 16.0 / 32.0);
        assert_eq!(course(CourseKernel::Tile, Precision::Single), 16.0 / 256.0);
        let vectors =
            |kernel| SourceLoads::of_vectors(&VectorStrategy { kernel, unroll: 1 }).bytes_per_pair();
        assert_eq!(vectors(VectorKernel::BodyStructs), 28.0 / 32.0);
        assert_eq!(vectors(VectorKernel::GridStride), 16.0 / 32.0);
        assert_eq!(vectors(VectorKernel::TileFloat4), 16.0 / 256.0);
        let tiled = DirectDeviceStrategy {
            kernel: DirectKernel::Tiled,
            precision: Precision::Single,
            block: 256,
            targets: 4,
            unroll: 1,
            splits: 1,
        };
        assert_eq!(SourceLoads::of_solver(&tiled).bytes_per_pair(), 32.0 / 1024.0);
    }
}
