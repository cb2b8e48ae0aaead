//! Benchmark of the heat solver: nodes updated per second, with one and with several steps per
//! pass, compared with the bandwidth of a copy.

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_fields::Scalar;
use orrery_fields::heat::cpu::HeatCpuStrategy;
use orrery_fields::heat::device::{DeviceHeat, HeatDeviceStrategy, StoredField};
use orrery_fields::heat::{Conductivity, HeatProblem, Plate};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid};
use rayon::prelude::*;
use serde_json::json;

use super::place::{BenchPlace, BenchRow, result_json, time_runs, time_runs_on_host};
use crate::format::{format_number, format_percent, format_rate, format_seconds};
use crate::text_table::RowColumn;
use crate::timing::{self, Times};

/// Steps that are timed together, as a multiple of the steps per pass.
const PASSES_PER_RUN: u64 = 10;

/// Columns of the table.
pub const COLUMNS: [RowColumn; 9] = [
    RowColumn::right("side", 6),
    RowColumn::right("precision", 9),
    RowColumn::left("conductivity", 12),
    RowColumn::right("steps", 5),
    RowColumn::right("per step", 8),
    RowColumn::right("fastest", 8),
    RowColumn::right("Gpt/s", 7),
    RowColumn::right("of copy", 7),
    RowColumn::right("measures", 8),
];

/// Returns the lines above the table.
pub fn notes(place: &BenchPlace) -> Vec<String> {
    match place.copy_bytes_per_s().map(|copy| format_rate(copy, "B/s")) {
        Some(copy) => vec![
            format!("of copy: relative to one step per pass at {copy}, the rate of a copy"),
            "measures: time of minimum, maximum and heat content".to_owned(),
        ],
        None => vec!["steps: time steps per pass over the memory".to_owned()],
    }
}

/// A plate of the benchmark.
#[derive(Clone, Copy, Debug)]
struct BenchPlate {
    n: usize,
    precision: Precision,
    is_variable: bool,
}

impl BenchPlate {
    /// Returns the bytes that a step with one step per pass must move per node.
    fn bytes_per_point(&self) -> f64 {
        let fields = if self.is_variable { 3.0 } else { 2.0 };
        fields * if self.precision == Precision::Double { 8.0 } else { 4.0 }
    }

    /// Returns the result of a strategy with these times per step. `measures_secs` is the time of
    /// minimum, maximum and heat content on a device.
    fn row(
        &self,
        place: &BenchPlace,
        (steps_per_pass, strategy): (u32, String),
        times: &Times,
        measures_secs: Option<f64>,
    ) -> BenchRow {
        let Self { n, precision, is_variable } = *self;
        let rate = (n as f64).powi(2) / times.median();
        // Relative to a copy of the bytes that one step per pass must move. Above 1 for several
        // steps per pass.
        let share_of_copy = place.copy_bytes_per_s().map(|copy| rate * self.bytes_per_point() / copy);
        let conductivity = if is_variable { "per node" } else { "uniform" };
        let cells = vec![
            n.to_string(),
            precision.as_str().to_owned(),
            conductivity.to_owned(),
            steps_per_pass.to_string(),
            format_seconds(times.median()),
            format_seconds(times.fastest()),
            format_number(rate / 1e9),
            format_percent(share_of_copy),
            measures_secs.map_or_else(String::new, format_seconds),
        ];
        let more = json!({
            "case": "heat", "n": n, "precision": precision.as_str(), "conductivity": conductivity,
            "steps_per_pass": steps_per_pass, "strategy": strategy, "measures_seconds": measures_secs,
            "share_of_copy": share_of_copy,
        });
        BenchRow { cells, note: String::new(), json: result_json(times, Some(rate), "points/s", more) }
    }
}

/// Returns the default number of nodes along a side.
pub fn default_side(device: Option<&Device>) -> usize {
    match device.map(|device| device.properties().kind) {
        Some(DeviceKind::Gpu) => 16_384,
        Some(DeviceKind::Cpu | DeviceKind::Other) => 1024,
        None => 4096,
    }
}

/// Returns the plate of the benchmark: a square of `n` x `n` nodes with fixed edges.
pub fn bench_problem(n: usize, precision: Precision, is_variable: bool) -> HeatProblem {
    let grid = Grid { nx: n, ny: n, hx: 1.0, hy: 1.0 };
    let conductivity = match is_variable {
        true => Conductivity::Field(scattered(grid.len(), 1).into_par_iter().map(|k| k + 0.1).collect()),
        false => Conductivity::Uniform(1.0),
    };
    let boundaries = Boundaries::uniform(Boundary::fixed(0.5));
    HeatProblem::new(grid, boundaries, conductivity, None, precision).expect("a valid problem")
}

/// Returns the initial state of the benchmark: numbers between 0 and 1 without order.
pub fn bench_state<R: Scalar>(n: usize) -> Vec<R> {
    scattered(n * n, 0).into_par_iter().map(R::from_f64).collect()
}

/// Returns `n` numbers between 0 and 1 without order. Each `stream` has others.
pub(super) fn scattered(n: usize, stream: u64) -> Vec<f64> {
    let number = |k: u64| orrery_device::testing::random_bits(k ^ (stream << 40)) >> 11;
    (0..n as u64).into_par_iter().map(|k| number(k) as f64 / (1u64 << 53) as f64).collect()
}

/// Measures one step per pass and the default strategy on `n` x `n` nodes. Calls `report` with each
/// result.
pub fn measure(
    place: &BenchPlace,
    n: usize,
    precision: Precision,
    is_variable: bool,
    report: &mut dyn FnMut(BenchRow),
) -> Result<(), DeviceError> {
    let plate = BenchPlate { n, precision, is_variable };
    match (precision, place.device()) {
        (Precision::Double, Some(device)) => measure_on::<f64>(place, device, plate, report)?,
        (_, Some(device)) => measure_on::<f32>(place, device, plate, report)?,
        (Precision::Double, None) => measure_on_cpu::<f64>(place, plate, report),
        (_, None) => measure_on_cpu::<f32>(place, plate, report),
    }
    Ok(())
}

fn measure_on<R: Scalar>(
    place: &BenchPlace,
    device: &Device,
    bench: BenchPlate,
    report: &mut dyn FnMut(BenchRow),
) -> Result<(), DeviceError> {
    let BenchPlate { n, is_variable, .. } = bench;
    let problem = bench_problem(n, R::PRECISION, is_variable);
    let tuned = place.tuning().and_then(|tuning| tuning.nearest_heat_entry(n * n, R::PRECISION, is_variable));
    let default = tuned.map_or_else(
        || HeatDeviceStrategy::default_for(device, n * n, R::PRECISION, is_variable),
        |entry| entry.strategy,
    );
    let (plate, dt) = (Plate::<R>::new(&problem), problem.max_stable_step());
    let mut heat = DeviceHeat::new(device, plate, &bench_state(n), default)?;
    for strategy in [HeatDeviceStrategy::one_step_for(device, R::PRECISION, is_variable), default] {
        heat.set_strategy(strategy)?;
        let times = time_steps(&mut heat, dt, place.repeats)?;
        let queue_measures = || heat.queue_measures(StoredField::State);
        let measures_secs = timing::time_once::<DeviceError>(device, queue_measures)?;
        report(bench.row(place, (strategy.steps_per_pass, strategy.name()), &times, Some(measures_secs)));
    }
    Ok(())
}

fn measure_on_cpu<R: Scalar>(place: &BenchPlace, bench: BenchPlate, report: &mut dyn FnMut(BenchRow)) {
    let problem = bench_problem(bench.n, R::PRECISION, bench.is_variable);
    let plate = Plate::<R>::new(&problem);
    let default =
        HeatCpuStrategy { instruction_set: place.instruction_set(), ..HeatCpuStrategy::resolve(&plate) };
    for strategy in [HeatCpuStrategy { steps_per_pass: 1, ..default }, default] {
        let times = time_passes(&plate, problem.max_stable_step(), strategy, place.repeats);
        report(bench.row(place, (strategy.steps_per_pass as u32, strategy.name()), &times, None));
    }
}

/// Measures the time of one step on all CPU cores, in passes of the strategy.
pub fn time_passes<R: Scalar>(
    plate: &Plate<R>,
    dt: f64,
    strategy: HeatCpuStrategy,
    repeats: Option<usize>,
) -> Times {
    let (coefficients, steps) = (plate.step_coefficients(dt), strategy.steps_per_pass);
    let (mut state, mut next) = (bench_state(plate.grid.nx), bench_state(plate.grid.nx));
    let times = time_runs_on_host(repeats, || {
        strategy.pass(plate, coefficients, steps, &state, &mut next);
        std::mem::swap(&mut state, &mut next);
    });
    times.divided_by(steps as f64)
}

/// Measures the time of one step, in passes of the strategy of `heat`.
pub fn time_steps<R: Scalar>(
    heat: &mut DeviceHeat<R>,
    dt: f64,
    repeats: Option<usize>,
) -> Result<Times, DeviceError> {
    let device = heat.device().clone();
    let steps = PASSES_PER_RUN * u64::from(heat.strategy().steps_per_pass);
    Ok(time_runs(&device, repeats, || heat.advance(dt, steps))?.divided_by(steps as f64))
}
