//! Ladder of the heat equation: time steps of a plate with fixed edges in f32, and the range of the
//! field after each step, as in the course.

use orrery_device::DeviceError;
use orrery_fields::heat::cpu::HeatCpuStrategy;
use orrery_fields::heat::device::HeatDeviceStrategy;
use orrery_fields::heat::{Plate, reference};
use orrery_measure::MeasureError;
use orrery_measure::bench::heat::{bench_problem, bench_state, time_passes};
use orrery_measure::timing::{Times, time_on_host};
use orrery_model::Precision;

use super::repeats::repeat_count;
use super::{
    Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, Parameter, Roofs, RungResult, ShownValue,
    TimedRuns, Work,
};
use crate::rungs::heat::{HeatPartTimes, HeatVariant, RungHeat, rungs};

pub static LADDER: LadderEntry = LadderEntry {
    name: "heat",
    description: "Heat equation on a square, with update, range and transfer timed separately",
    title: "heat equation, f32",
    size_unit: "nodes",
    host_bytes: |n| (n as u64).saturating_mul(32),
    sizes: DefaultSizes { gpu: 1 << 28, opencl_cpu: 1 << 18, host: 1 << 22 },
    counted: Counted { item: "point", rate_unit: "points/s", heading: "Gpt/s", to_column: |rate| rate / 1e9 },
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

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), MeasureError> {
    let side = request.n.isqrt().max(3);
    let update_work =
        |steps: f64| Work { flops: Some(FLOPS_PER_POINT), bytes: Some(BYTES_PER_POINT / steps) };
    let serial_side = side.min(MAX_SERIAL_NODES.isqrt());
    (request.progress)("CPU, one thread");
    ladder.roof = ladder.host_roofs.copy_roof();
    let host_roof = ladder.host_roofs.bandwidth_roof(BYTES_PER_POINT);
    ladder.add_rung(RungResult {
        work: update_work(1.0),
        roof: host_roof,
        ..RungResult::new("CPU, one thread", &time_reference(serial_side))
    });
    let problem = bench_problem(side, Precision::Single, false);
    let (plate, dt) = (Plate::<f32>::new(&problem), problem.max_stable_step());
    let strategy = HeatCpuStrategy { steps_per_pass: 1, ..HeatCpuStrategy::resolve(&plate) };
    (request.progress)("CPU, all cores, SIMD");
    let times = time_passes(&plate, dt, strategy, Some(CPU_REPEATS));
    ladder.add_rung(RungResult {
        work: update_work(1.0),
        roof: host_roof,
        ..RungResult::new("CPU, all cores, SIMD", &timed(side, 1.0, times))
    });

    let Some(device) = request.device else { return Ok(()) };
    ladder.roofs = Roofs::of_device(device)?;
    ladder.roof = ladder.roofs.copy_roof();
    ladder.remarks.push(
        "A step of the course is an update and the range of the field, whose maximum minus minimum is its stop criterion."
            .to_owned(),
    );
    ladder.parameter =
        Some(Parameter { name: "part", values: PARTS.map(str::to_owned).to_vec(), shown: ShownValue::First });
    let mut initial = bench_state::<f32>(side);
    set_fixed_nodes(&plate, &mut initial);
    let tuned =
        request.tuning.and_then(|tuning| tuning.nearest_heat_entry(side * side, Precision::Single, false));
    let production = tuned.map_or_else(
        || HeatDeviceStrategy::default_for(device, side * side, Precision::Single, false),
        |entry| entry.strategy,
    );
    for rung in rungs() {
        (request.progress)(rung.name);
        let mut heat = RungHeat::new(device, rung.variant, &plate, &initial, production)?;
        let steps = f64::from(heat.steps_per_iteration());
        let runs = time_parts(&mut heat, dt, side)?;
        let Some(result) = RungResult::with_sweep(rung.name, &runs, ShownValue::First) else { continue };
        let resources = heat.kernel()?.resources();
        ladder.add_rung(RungResult {
            note: match rung.variant {
                HeatVariant::Production => production.name(),
                _ => rung.note.to_owned(),
            },
            work: update_work(steps),
            roof: ladder.roofs.bandwidth.map(|copy| copy * steps / BYTES_PER_POINT),
            registers: resources.registers,
            shared_bytes: Some(resources.shared_bytes),
            ..result
        });
    }
    Ok(())
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

/// Times the parts of an iteration: [`PARTS`]. A part that takes no time has no runs.
fn time_parts(heat: &mut RungHeat, dt: f64, side: usize) -> Result<Vec<Option<TimedRuns>>, DeviceError> {
    let total = |times: &HeatPartTimes| times.update + times.range + times.transfer;
    heat.iterate(dt)?;
    let repeats = repeat_count(total(&heat.iterate(dt)?.1));
    let iterations =
        (0..repeats).map(|_| Ok(heat.iterate(dt)?.1)).collect::<Result<Vec<HeatPartTimes>, DeviceError>>()?;
    let steps = f64::from(heat.steps_per_iteration());
    let runs_of = |part: &dyn Fn(&HeatPartTimes) -> f64| {
        let seconds: Vec<f64> = iterations.iter().map(part).collect();
        let is_measured = seconds.iter().any(|seconds| *seconds > 0.0);
        is_measured.then(|| timed(side, steps, Times::from_seconds(seconds)))
    };
    Ok(vec![
        runs_of(&total),
        runs_of(&|times| times.update),
        runs_of(&|times| times.range),
        runs_of(&|times| times.transfer),
    ])
}
