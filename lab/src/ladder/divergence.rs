//! Ladder of divergence: threads of a warp that take different paths, and loops of uneven length.

use std::cell::{OnceCell, RefCell};

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_measure::MeasureError;
use orrery_model::Precision;

use super::repeats::time_point;
use super::{
    Counted, DataCell, DataRow, DataTable, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung,
    PrepareResult, PreparedRung, Roofs, RungClock, RungDetails, RungLabel, RungLimit, RungSet, Sweep,
    SweepScale, SweepSeries, TimedRuns, Work,
};
use crate::experiments::divergence::predication::{BODIES, Choices, Conditions};
use crate::experiments::divergence::{
    DivergencePattern, DivergenceRung, DivergentWork, FMAS_PER_STEP, StepCounts, ThreadWork,
    run_on_all_cores, run_on_one_core, rungs,
};

pub static LADDER: LadderEntry = LadderEntry {
    name: "divergence",
    description: "Threads of a warp that take different paths, and loops of uneven length",
    title: "branches and loops in a warp",
    size_unit: "threads",
    host_bytes: |n| (n as u64).saturating_mul(12),
    sizes: DefaultSizes { gpu: 1 << 24, opencl_cpu: 1 << 14, host: 1 << 14 },
    counted: Counted { item: "FMA", rate_unit: "FMA/s", heading: "GFMA/s", to_column: |rate| rate / 1e9 },
    rungs: &[RungSet::of::<DivergenceRung>(), RungSet::of::<ChoiceRung>()],
    measure,
};

/// A fused multiply-add has two operations. The bytes of a thread are negligible.
const WORK: Work = Work { flops: Some(2.0), bytes: None };
/// Mean number of steps of a thread: 1,024 fused multiply-adds.
const STEPS: u32 = 64;
/// Largest number of threads that the CPU computes.
const MAX_CPU_THREADS: usize = 1 << 14;
/// Numbers of paths of the sweep.
const PATH_COUNTS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
/// The same on a CPU through OpenCL, which has no warps.
const CPU_PATH_COUNTS: [u32; 3] = [1, 4, 32];
/// Lengths of a body on a CPU through OpenCL, which takes long to compile a kernel.
const CPU_BODIES: [u32; 2] = [1, 16];
/// Number of timed runs of each point of a sweep.
const SWEEP_REPEATS: usize = 5;

/// Returns the fused multiply-adds of all threads.
fn fma_count(work: &ThreadWork) -> f64 {
    StepCounts::by_model(work).lane_steps as f64 * FMAS_PER_STEP as f64
}

/// Returns the number of threads on a device.
fn thread_count(n: usize) -> usize {
    n.min(u32::MAX as usize / 2)
}

/// Returns the rounds with which a thread computes as much as in the patterns.
fn rounds_of(body: u32) -> u32 {
    STEPS * FMAS_PER_STEP as u32 / body
}

/// Device, and what the patterns show beside their time.
pub struct DivergenceInput {
    device: Device,
    rate_of_one_path: OnceCell<f64>,
    /// Active lanes by model and measurement, one row per pattern.
    rows: RefCell<Vec<DataRow>>,
}

impl LadderRung for DivergenceRung {
    type Input = DivergenceInput;

    fn all(_: &Device) -> Vec<Self> {
        rungs()
    }

    fn new_input(device: &Device, _: usize) -> Result<DivergenceInput, MeasureError> {
        let (rate_of_one_path, rows) = (OnceCell::new(), RefCell::default());
        Ok(DivergenceInput { device: device.clone(), rate_of_one_path, rows })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn prepare<'a>(&'a self, input: &'a DivergenceInput, n: usize, _: usize) -> PrepareResult<'a> {
        let device = &input.device;
        let work = self.pattern.work(thread_count(n), STEPS);
        let (divergent, items) = (DivergentWork::new(device, &work)?, fma_count(&work));
        let kernel = divergent.resources();
        let launch = move |divergent: &mut DivergentWork| divergent.launch(device.queue());
        let details = move |divergent: &mut DivergentWork, runs: &TimedRuns| {
            let cost = input.rate_of_one_path.get_or_init(|| runs.rate()) / runs.rate();
            let row = share_row(self.name, &work, divergent.count_steps()?, cost);
            input.rows.borrow_mut().push(row);
            Ok(RungDetails::default())
        };
        let clock = RungClock::of(device);
        let prepared = PreparedRung::with_details(clock, n, items, divergent, launch, details);
        Ok(Some(prepared.with_work(WORK, RungLimit::Flops(Precision::Single)).with_kernel(kernel)))
    }
}

/// An `if` in a loop with bodies of some length.
struct ChoiceRung {
    name: &'static str,
    body: u32,
    conditions: Conditions,
}

impl LadderRung for ChoiceRung {
    type Input = Device;

    fn all(_: &Device) -> Vec<Self> {
        let rung = |name, body, conditions| Self { name, body, conditions };
        vec![
            rung("short if, lanes agree", BODIES[0], Conditions::SameInWarp),
            rung("short if, random", BODIES[0], Conditions::Random),
            rung("long if, lanes agree", 16, Conditions::SameInWarp),
            rung("long if, random", 16, Conditions::Random),
        ]
    }

    fn new_input(device: &Device, _: usize) -> Result<Device, MeasureError> {
        Ok(device.clone())
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, format!("{} FMA on each side", self.body))
    }

    fn prepare<'a>(&'a self, device: &'a Device, n: usize, _: usize) -> PrepareResult<'a> {
        let (threads, rounds) = (thread_count(n), rounds_of(self.body));
        let choices = Choices::new(device, self.body, &self.conditions.masks(threads))?;
        let items = threads as f64 * f64::from(rounds * self.body);
        let launch = move || choices.launch(device.queue(), rounds);
        let prepared = PreparedRung::new(RungClock::of(device), n, items, launch);
        Ok(Some(prepared.with_work(WORK, RungLimit::Flops(Precision::Single))))
    }
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    type RunOnHost = fn(&ThreadWork) -> Vec<f32>;
    let n = request.n.min(MAX_CPU_THREADS);
    let versions: [(&str, DivergencePattern, RunOnHost); 3] = [
        ("CPU, one thread, one path", DivergencePattern::Uniform, run_on_one_core),
        ("CPU, one thread, random data", DivergencePattern::RandomData, run_on_one_core),
        ("CPU, all cores, random data", DivergencePattern::RandomData, run_on_all_cores),
    ];
    for (name, pattern, run) in versions {
        let work = pattern.work(n, STEPS);
        let prepared = PreparedRung::on_host(n, fma_count(&work), || run(&work))
            .with_work(WORK, RungLimit::Flops(Precision::Single));
        ladder.measure_prepared(request, name, "", prepared)?;
    }
    Ok(())
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.roofs = request.device.map_or(Ok(ladder.host_roofs), Roofs::of_device)?;
    ladder.roof = ladder.roofs.peak_roof();
    ladder.remarks.push(
        "tid: index of the thread in its block of 256. Each path is a loop of dependent fused multiply-adds; those \
         of lanes that wait do not count."
            .to_owned(),
    );
    measure_on_host(request, ladder)?;
    let Some(device) = request.device else { return Ok(()) };
    if device.properties().kind != DeviceKind::Gpu {
        ladder
            .remarks
            .push("This device has no warps, so its threads do not wait for one another.".to_owned());
    }
    let input = DivergenceRung::new_input(device, request.n)?;
    ladder.measure_rungs(request, &rungs(), &input)?;
    ladder.tables.push(DataTable {
        title: "active lanes of warps of 32, and time relative to one path".to_owned(),
        row_heading: "pattern",
        columns: ["model, %", "counted, %", "model time", "time"].map(str::to_owned).to_vec(),
        rows: input.rows.into_inner(),
    });
    ladder.measure_rungs(request, &ChoiceRung::all(device), device)?;
    let paths = sweep_paths(request, device)?;
    ladder.sweeps.extend([paths, sweep_bodies(request, device)?]);
    Ok(())
}

/// Measures the time for 1 to 32 different paths, by lane and by warp, relative to one path.
fn sweep_paths(request: &mut LadderRequest, device: &Device) -> Result<Sweep, DeviceError> {
    let is_gpu = device.properties().kind == DeviceKind::Gpu;
    let counts: &[u32] = if is_gpu { &PATH_COUNTS } else { &CPU_PATH_COUNTS };
    let mut series = Vec::new();
    for name in ["by lane", "by warp"] {
        let mut seconds = Vec::new();
        for &count in counts {
            (request.progress)(&format!("{count} paths {name}"));
            let pattern = match name {
                "by lane" => DivergencePattern::PathsByLane(count),
                _ => DivergencePattern::PathsByWarp(count),
            };
            let divergent = DivergentWork::new(device, &pattern.work(thread_count(request.n), STEPS))?;
            let times = time_point(device, SWEEP_REPEATS, || divergent.launch(device.queue()))?;
            seconds.push(times.median());
        }
        let points = seconds.iter().map(|time| Some(time / seconds[0])).collect();
        series.push(SweepSeries { name: name.to_owned(), points });
    }
    let model = counts.iter().map(|count| Some(f64::from(*count))).collect();
    series.push(SweepSeries { name: "model by lane".to_owned(), points: model });
    Ok(Sweep {
        title: "different paths".to_owned(),
        parameter: "paths",
        unit: "times the time of one path",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: counts.iter().map(|count| f64::from(*count)).collect(),
        series,
    })
}

/// Measures an `if` with bodies of several lengths, for lanes that agree and for random lanes.
fn sweep_bodies(request: &mut LadderRequest, device: &Device) -> Result<Sweep, DeviceError> {
    let is_gpu = device.properties().kind == DeviceKind::Gpu;
    let bodies: &[u32] = if is_gpu { &BODIES } else { &CPU_BODIES };
    let n = thread_count(request.n);
    let mut series = Vec::new();
    for (name, conditions) in [("lanes agree", Conditions::SameInWarp), ("random", Conditions::Random)] {
        let masks = conditions.masks(n);
        let mut points = Vec::new();
        for &body in bodies {
            (request.progress)(&format!("if with {body} FMA, {name}"));
            let (choices, rounds) = (Choices::new(device, body, &masks)?, rounds_of(body));
            let times = time_point(device, SWEEP_REPEATS, || choices.launch(device.queue(), rounds))?;
            points.push(Some(n as f64 * f64::from(rounds * body) / times.median() / 1e9));
        }
        series.push(SweepSeries { name: name.to_owned(), points });
    }
    Ok(Sweep {
        title: "an if in a loop, by the length of its sides".to_owned(),
        parameter: "FMA per side",
        unit: "GFMA/s",
        x_scale: SweepScale::Log,
        y_scale: SweepScale::Log,
        values: bodies.iter().map(|body| f64::from(*body)).collect(),
        series,
    })
}

/// Returns the row of a pattern: active lanes by the model and counted, time by the model and
/// measured.
fn share_row(name: &str, work: &ThreadWork, counted: Option<StepCounts>, cost: f64) -> DataRow {
    let model = StepCounts::by_model(work).active_share();
    let counted = match counted {
        Some(counts) => DataCell::Number(100.0 * counts.active_share()),
        None => DataCell::Text("-".to_owned()),
    };
    let cells =
        vec![DataCell::Number(100.0 * model), counted, DataCell::Number(1.0 / model), DataCell::Number(cost)];
    DataRow { name: name.to_owned(), cells }
}
