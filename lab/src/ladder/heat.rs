//! Ladder of the heat equation: time steps of a plate with fixed edges in f32, and the range of the
//! field after each step, as in the course.

use orrery_device::{Device, DeviceError};
use orrery_fields::heat::cpu::HeatCpuStrategy;
use orrery_fields::heat::device::HeatDeviceStrategy;
use orrery_fields::heat::{Plate, reference};
use orrery_measure::MeasureError;
use orrery_measure::bench::heat::{bench_problem, bench_state, time_passes};
use orrery_measure::timing::{Times, time_on_host};
use orrery_model::Precision;

use super::repeats::repeat_count;
use super::{
    CheckedRung, Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, LadderRung, MeasuredRung,
    Parameter, PrepareResult, PreparedRung, RungClock, RungLabel, RungLimit, RungSet, ShownValue, TimedRuns,
    Work,
};
use crate::rungs::heat::{HeatPartTimes, HeatRung, HeatVariant, RungHeat, rungs, selftest};

pub static LADDER: LadderEntry = LadderEntry {
    name: "heat",
    description: "Heat equation on a square, with update, range and transfer timed separately",
    title: "heat equation, f32",
    size_unit: "nodes",
    host_bytes: |n| (n as u64).saturating_mul(32),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 18, host: 1 << 22 },
    counted: Counted { item: "point", rate_unit: "points/s", heading: "Gpt/s", to_column: |rate| rate / 1e9 },
    rungs: &[RungSet::of::<HeatRung>()],
    measure,
};

/// Operations of the update: two sums, four FMAs.
const FLOPS_PER_POINT: f64 = 10.0;
/// Bytes per point of one step per pass: one load and one store.
const BYTES_PER_POINT: f64 = 8.0;
/// Largest number of nodes for the reference, which computes about 1e8 points per second.
const MAX_SERIAL_NODES: usize = 1 << 24;

/// Number of timed runs on the CPU.
const CPU_REPEATS: usize = 3;

/// Parts of an iteration that are timed. The first one is their sum.
const PARTS: [&str; 4] = ["all", "update", "range", "transfer"];

/// Plate and its state, and the strategy that runs use.
pub struct HeatInput {
    device: Device,
    plate: Plate<f32>,
    initial: Vec<f32>,
    dt: f64,
    production: HeatDeviceStrategy,
}

impl HeatInput {
    fn new_heat(&self, rung: &HeatRung) -> Result<RungHeat, DeviceError> {
        RungHeat::new(&self.device, rung.variant, &self.plate, &self.initial, self.production)
    }
}

/// Returns the nodes along a side of the plate.
fn side_of(n: usize) -> usize {
    n.isqrt().max(3)
}

fn work_of(steps: f64) -> Work {
    Work { flops: Some(FLOPS_PER_POINT), bytes: Some(BYTES_PER_POINT / steps) }
}

impl LadderRung for HeatRung {
    type Input = HeatInput;

    const VALUES: usize = PARTS.len();
    const TEST_SIZE: usize = 64 * 64;

    fn all(_: &Device) -> Vec<Self> {
        rungs().to_vec()
    }

    fn new_input(device: &Device, n: usize) -> Result<HeatInput, MeasureError> {
        let side = side_of(n);
        let problem = bench_problem(side, Precision::Single, false);
        let plate = Plate::<f32>::new(&problem);
        let mut initial = bench_state::<f32>(side);
        set_fixed_nodes(&plate, &mut initial);
        let production = HeatDeviceStrategy::default_for(device, side * side, Precision::Single, false);
        Ok(HeatInput { device: device.clone(), plate, initial, dt: problem.max_stable_step(), production })
    }

    fn label(&self) -> RungLabel<'_> {
        RungLabel::new(self.name, self.note)
    }

    fn prepare<'a>(&'a self, input: &'a HeatInput, n: usize, _: usize) -> PrepareResult<'a> {
        let mut heat = input.new_heat(self)?;
        let iterate = move || heat.iterate(input.dt).map(drop);
        Ok(Some(PreparedRung::new(RungClock::Waiting, n, n as f64, iterate)))
    }

    /// Measures all parts in the same iterations.
    fn measure(&self, input: &HeatInput, _: usize) -> Result<Vec<Option<MeasuredRung>>, MeasureError> {
        let mut heat = input.new_heat(self)?;
        let steps = f64::from(heat.steps_per_iteration());
        let parts = time_parts(&mut heat, input.dt)?;
        let kernel = Some((heat.kernel()?.resources(), None));
        let is_production = self.variant == HeatVariant::Production;
        let note = is_production.then(|| input.production.name());
        let measured = |times| {
            let runs = timed(input.plate.grid.nx, steps, times);
            let result = MeasuredRung::on_device(runs, work_of(steps), RungLimit::Bandwidth);
            MeasuredRung { kernel, note: note.clone(), ..result }
        };
        Ok(parts.into_iter().map(|times| times.map(measured)).collect())
    }
}

impl CheckedRung for HeatRung {
    fn check(&self, device: &Device) -> Result<(), String> {
        selftest::check_rung(device, self)
    }
}

fn measure_on_host(request: &mut LadderRequest, ladder: &mut Ladder) {
    let side = side_of(request.n);
    let add = |ladder: &mut Ladder, name, runs| {
        let result = MeasuredRung::on_host(runs, work_of(1.0), RungLimit::Bandwidth);
        ladder.add_measured(RungLabel::new(name, ""), vec![Some(result)]);
    };
    let name = "CPU, one thread";
    (request.progress)(name);
    add(ladder, name, time_reference(side.min(MAX_SERIAL_NODES.isqrt())));
    let name = "CPU, all cores, SIMD";
    (request.progress)(name);
    let problem = bench_problem(side, Precision::Single, false);
    let plate = Plate::<f32>::new(&problem);
    let strategy = HeatCpuStrategy { steps_per_pass: 1, ..HeatCpuStrategy::resolve(&plate) };
    let times = time_passes(&plate, problem.max_stable_step(), strategy, Some(CPU_REPEATS));
    add(ladder, name, timed(side, 1.0, times));
}

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    ladder.roof = ladder.host_roofs.copy_roof();
    measure_on_host(request, ladder);
    let Some(device) = request.device else { return Ok(()) };
    ladder.use_copy_roof_of(device)?;
    ladder.remarks.push(
        "A step of the course is an update and the range of the field, whose maximum minus minimum is its stop criterion."
            .to_owned(),
    );
    ladder.parameter =
        Some(Parameter { name: "part", values: PARTS.map(str::to_owned).to_vec(), shown: ShownValue::First });
    let mut input = HeatRung::new_input(device, request.n)?;
    let nodes = input.plate.grid.len();
    let tuned = request.tuning.and_then(|tuning| tuning.nearest_heat_entry(nodes, Precision::Single, false));
    if let Some(entry) = tuned {
        input.production = entry.strategy;
    }
    ladder.measure_rungs(request, &rungs(), &input)
}

/// Returns the runs of `steps` steps on `side` x `side` nodes.
fn timed(side: usize, steps: f64, times: Times) -> TimedRuns {
    let n = side * side;
    TimedRuns { n, items: n as f64 * steps, times }
}

/// Times one step of the reference on `side` x `side` nodes.
fn time_reference(side: usize) -> TimedRuns {
    let problem = bench_problem(side, Precision::Single, false);
    let (plate, state) = (Plate::<f32>::new(&problem), bench_state::<f32>(side));
    let coefficients = plate.step_coefficients(problem.max_stable_step());
    let mut next = state.clone();
    let step = || reference::step(&plate, coefficients, &state, &mut next);
    timed(side, 1.0, time_on_host(CPU_REPEATS, step))
}

fn set_fixed_nodes(plate: &Plate<f32>, state: &mut [f32]) {
    for (node, u) in state.iter_mut().enumerate() {
        let [i, j] = plate.grid.node(node);
        if let Some(value) = plate.boundaries.fixed_value(&plate.grid, i, j) {
            *u = value as f32;
        }
    }
}

/// Times the parts of an iteration: [`PARTS`]. A part that takes no time has no times.
fn time_parts(heat: &mut RungHeat, dt: f64) -> Result<[Option<Times>; PARTS.len()], DeviceError> {
    let total = |times: &HeatPartTimes| times.update + times.range + times.transfer;
    heat.iterate(dt)?;
    let repeats = repeat_count(total(&heat.iterate(dt)?.1));
    let iterations =
        (0..repeats).map(|_| Ok(heat.iterate(dt)?.1)).collect::<Result<Vec<HeatPartTimes>, DeviceError>>()?;
    let times_of = |part: &dyn Fn(&HeatPartTimes) -> f64| {
        let seconds: Vec<f64> = iterations.iter().map(part).collect();
        let is_measured = seconds.iter().any(|seconds| *seconds > 0.0);
        is_measured.then(|| Times::from_seconds(seconds))
    };
    Ok([
        times_of(&total),
        times_of(&|times| times.update),
        times_of(&|times| times.range),
        times_of(&|times| times.transfer),
    ])
}
