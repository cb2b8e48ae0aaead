//! Benchmark of the wave solver: nodes updated per second in a cube and on a square, with and
//! without absorbing layers, compared with the bandwidth of a copy.

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_fields::Scalar;
use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_fields::wave::{HostWave, Medium, SpaceOrder, Velocity, WaveProblem, WaveState};
use orrery_model::Precision;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid};
use rayon::prelude::*;
use serde_json::json;

use super::heat::scattered;
use super::place::{BenchPlace, BenchRow, result_json, time_runs, time_runs_on_host};
use crate::format::{format_number, format_percent, format_rate, format_seconds};
use crate::text_table::RowColumn;
use crate::timing::Times;
use crate::tuning::Tuning;

/// Steps that are timed together.
const STEPS_PER_RUN: u64 = 10;
/// Nodes of the absorbing layers that are measured.
pub const LAYER_NODES: [usize; 2] = [10, 20];
/// Smallest number of nodes along a side: two of the thickest layers with 8 nodes between them.
pub const MIN_SIDE: usize = 2 * LAYER_NODES[1] + 8;
/// Host memory per node in bytes: v, the state, and both with padding, in double precision.
pub const HOST_BYTES_PER_NODE: u64 = 64;
/// Nodes along a side of the square per node along a side of the cube. 256³ and 4096² are equal.
const SQUARE_FACTOR: usize = 16;

/// A problem of the benchmark, without sources and receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaveWorkload {
    /// 3 for a cube, 2 for a square.
    pub dimensions: usize,
    /// Nodes along each side.
    pub side: usize,
    /// Precision of state and arithmetic.
    pub precision: Precision,
    /// Whether the velocity differs between nodes.
    pub is_variable: bool,
    /// Nodes of the absorbing layers on all sides. The sides are free if it is 0.
    pub layer_nodes: usize,
}

impl WaveWorkload {
    /// Returns the cube with `n` nodes along a side, and the square with 16 times as many, in one
    /// precision and with free sides.
    pub fn cube_and_square(n: usize, precision: Precision, is_variable: bool) -> [Self; 2] {
        [(3, n), (2, n * SQUARE_FACTOR)].map(|(dimensions, side)| Self {
            dimensions,
            side,
            precision,
            is_variable,
            layer_nodes: 0,
        })
    }

    /// Returns the problems that are measured in one precision: the cube and then the square, each
    /// with uniform velocity, with a velocity per node, and with layers.
    pub fn all(n: usize, precision: Precision) -> Vec<Self> {
        let with_layers = |free: Self| LAYER_NODES.map(|layer_nodes| Self { layer_nodes, ..free });
        Self::cube_and_square(n, precision, true)
            .into_iter()
            .flat_map(|free| [Self { is_variable: false, ..free }, free].into_iter().chain(with_layers(free)))
            .collect()
    }

    /// Returns the grid.
    pub fn grid(&self) -> WaveGrid {
        match self.dimensions {
            2 => WaveGrid::plane([self.side; 2], [1.0; 2]),
            _ => WaveGrid::volume([self.side; 3], [1.0; 3]),
        }
    }

    /// Returns the grid for reports, for example "256³" or "4096²".
    pub fn grid_name(&self) -> String {
        format!("{}{}", self.side, if self.dimensions == 3 { "³" } else { "²" })
    }

    fn sides(&self) -> Sides {
        Sides::uniform(match self.layer_nodes {
            0 => SideCondition::Free,
            nodes => SideCondition::Absorbing(AbsorbingLayer::new(nodes)),
        })
    }

    /// Returns the problem without its state, for steps of 0.9 times the largest stable one.
    pub fn medium<R: Scalar>(&self, order: SpaceOrder) -> Medium<R> {
        let grid = self.grid();
        let velocity = match self.is_variable {
            true => Velocity::Field(scattered(grid.len(), 1).into_par_iter().map(|c| 0.5 + c).collect()),
            false => Velocity::Uniform(1.0),
        };
        let problem =
            WaveProblem::new(grid, self.sides(), order, velocity, Vec::new(), Vec::new(), R::PRECISION)
                .expect("a valid problem");
        Medium::new(&problem, 0.9 * problem.max_stable_step())
    }

    /// Returns the bytes that a step must move per node: u at two times, the new u, and v if it
    /// differs between nodes. The memory of layers is not counted.
    pub fn bytes_per_point(&self) -> f64 {
        let fields = if self.is_variable { 4.0 } else { 3.0 };
        fields * if self.precision == Precision::Double { 8.0 } else { 4.0 }
    }
}

/// Returns the initial state of a benchmark: numbers between 0 and 1 without order.
pub fn bench_state<R: Scalar>(medium: &Medium<R>) -> WaveState<R> {
    let field = |stream| scattered(medium.grid.len(), stream).into_par_iter().map(R::from_f64).collect();
    WaveState::start(medium, field(2), field(3))
}

/// Columns of the table.
pub const COLUMNS: [RowColumn; 9] = [
    RowColumn::right("nodes", 7),
    RowColumn::right("precision", 9),
    RowColumn::left("velocity", 8),
    RowColumn::right("layers", 6),
    RowColumn::right("per step", 8),
    RowColumn::right("fastest", 8),
    RowColumn::right("Mpt/s", 7),
    RowColumn::right("GB/s", 7),
    RowColumn::right("of copy", 7),
];

/// Returns the lines above the table.
pub fn notes(place: &BenchPlace) -> Vec<String> {
    let mut notes = vec![
        "order 8, without sources and receivers".to_owned(),
        "layers: nodes of absorbing layers on all sides; - stands for free sides".to_owned(),
    ];
    notes.extend(
        place.copy_bytes_per_s().map(|copy| {
            format!("of copy: GB/s relative to {}, the rate of a copy", format_rate(copy, "B/s"))
        }),
    );
    notes
}

/// Order of the benchmark.
const ORDER: SpaceOrder = SpaceOrder::Eighth;

/// Returns the default number of nodes along a side of the cube: 1024 on a GPU and 256 on the CPU,
/// or the largest half, quarter or eighth that fits into the memory of the device and into
/// `host_bytes`. OpenCL on a CPU is slow, so it is 64 there.
pub fn default_side(device: Option<&Device>, host_bytes: Option<u64>) -> Result<usize, DeviceError> {
    let largest = match device.map(|device| device.properties().kind) {
        Some(DeviceKind::Gpu) => 1024,
        Some(DeviceKind::Cpu | DeviceKind::Other) => 64,
        None => 256,
    };
    let device_bytes = device.map(Device::memory).transpose()?.map(|memory| memory.free);
    let sides = [1, 2, 4, 8].map(|divisor| largest / divisor);
    let is_usable = |side: &usize| *side >= MIN_SIDE && fits_memory(*side, device_bytes, host_bytes);
    Ok(sides.into_iter().find(is_usable).unwrap_or(MIN_SIDE))
}

/// Returns whether all problems of the benchmark for `n` fit into memory. `None` is no limit.
pub fn fits_memory(n: usize, device_bytes: Option<u64>, host_bytes: Option<u64>) -> bool {
    WaveWorkload::all(n, Precision::Double).iter().all(|workload| {
        let grid = workload.grid();
        let on_device = DeviceWave::<f64>::needed_bytes(&grid, &workload.sides(), workload.is_variable);
        let on_host = grid.len() as u64 * HOST_BYTES_PER_NODE;
        device_bytes.is_none_or(|free| on_device <= free)
            && host_bytes.is_none_or(|available| on_host <= available)
    })
}

/// Measures a problem with order 8 and the strategy that runs use.
pub fn measure(place: &BenchPlace, workload: WaveWorkload) -> Result<BenchRow, DeviceError> {
    match workload.precision {
        Precision::Double => measure_in::<f64>(place, workload),
        _ => measure_in::<f32>(place, workload),
    }
}

fn measure_in<R: Scalar>(place: &BenchPlace, workload: WaveWorkload) -> Result<BenchRow, DeviceError> {
    let medium = workload.medium::<R>(ORDER);
    let state = bench_state(&medium);
    let (strategy, times) = match place.device() {
        Some(device) => {
            let shape = WaveShape::of_medium(&medium);
            let strategy = production_strategy(device, place.tuning(), shape, workload.is_variable);
            let mut wave = DeviceWave::new(device, medium, &state, strategy)?;
            (strategy.name(), time_steps(&mut wave, place.repeats)?)
        }
        None => {
            let instruction_set = place.instruction_set();
            let strategy = WaveCpuStrategy { instruction_set, ..WaveCpuStrategy::resolve() };
            let wave = HostWave::new(medium, &state, strategy);
            (strategy.name(), time_steps_on_host(wave, place.repeats))
        }
    };
    Ok(row(place, workload, &strategy, &times))
}

fn row(place: &BenchPlace, workload: WaveWorkload, strategy: &str, times: &Times) -> BenchRow {
    let WaveWorkload { dimensions, side, precision, is_variable, layer_nodes } = workload;
    let rate = workload.grid().len() as f64 / times.median();
    let bytes_per_s = rate * workload.bytes_per_point();
    let share_of_copy = place.copy_bytes_per_s().map(|copy| bytes_per_s / copy);
    let velocity = if is_variable { "per node" } else { "uniform" };
    let cells = vec![
        workload.grid_name(),
        precision.as_str().to_owned(),
        velocity.to_owned(),
        if layer_nodes == 0 { "-".to_owned() } else { layer_nodes.to_string() },
        format_seconds(times.median()),
        format_seconds(times.fastest()),
        format_number(rate / 1e6),
        format_number(bytes_per_s / 1e9),
        format_percent(share_of_copy),
    ];
    let more = json!({
        "case": "wave", "dimensions": dimensions, "n": side, "precision": precision.as_str(),
        "order": ORDER.number(), "velocity": velocity, "layer_nodes": layer_nodes, "strategy": strategy,
        "bytes_per_point": workload.bytes_per_point(), "bytes_per_s": bytes_per_s,
        "share_of_copy": share_of_copy,
    });
    BenchRow { cells, note: String::new(), json: result_json(times, Some(rate), "points/s", more) }
}

/// Returns the strategy that runs use: the tuned one, or the default.
pub fn production_strategy(
    device: &Device,
    tuning: Option<&Tuning>,
    shape: WaveShape,
    is_variable: bool,
) -> WaveDeviceStrategy {
    tuning
        .and_then(|tuning| tuning.nearest_wave_entry(&shape, is_variable))
        .map_or_else(|| WaveDeviceStrategy::default_for(device, shape), |entry| entry.strategy)
}

/// Measures the time of one step on all CPU cores.
pub fn time_steps_on_host<R: Scalar>(mut wave: HostWave<R>, repeats: Option<usize>) -> Times {
    time_runs_on_host(repeats, || wave.advance(STEPS_PER_RUN)).divided_by(STEPS_PER_RUN as f64)
}

/// Measures the time of one step with the strategy of `wave`.
pub fn time_steps<R: Scalar>(wave: &mut DeviceWave<R>, repeats: Option<usize>) -> Result<Times, DeviceError> {
    let device = wave.device().clone();
    Ok(time_runs(&device, repeats, || wave.advance(STEPS_PER_RUN))?.divided_by(STEPS_PER_RUN as f64))
}
