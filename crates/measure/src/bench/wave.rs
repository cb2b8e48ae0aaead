//! Benchmark of the wave solver: nodes updated per second in a cube and on a square, with and
//! without absorbing layers, compared with the bandwidth of a copy.

use orrery_device::{Device, DeviceError, DeviceKind, ceiling};
use orrery_fields::Scalar;
use orrery_fields::wave::cpu::WaveCpuStrategy;
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_fields::wave::{HostWave, Medium, SpaceOrder, Velocity, WaveProblem, WaveState};
use orrery_model::Precision;
use orrery_model::wave::{AbsorbingLayer, SideCondition, Sides, WaveGrid};
use orrery_simd::InstructionSet;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::direct::{device_json, repeat_count};
use super::heat::scattered;
use crate::timing::{self, Times};
use crate::tuning::Tuning;

/// Steps that are timed together.
const STEPS_PER_RUN: u64 = 10;
/// Number of timed runs on the CPU, unless given.
const REPEATS_ON_CPU: usize = 5;
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

/// Benchmark result of one problem.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveMeasurement {
    /// The problem.
    pub workload: WaveWorkload,
    /// Name of the strategy.
    pub strategy: String,
    /// Times of one step.
    pub times: Times,
    /// Bytes per second of a copy, reads and writes both counted.
    pub copy: Option<f64>,
}

impl WaveMeasurement {
    /// Returns the updated nodes per second at the median time.
    pub fn points_per_s(&self) -> f64 {
        self.workload.grid().len() as f64 / self.times.median()
    }

    /// Returns the bytes per second that a step must move, see [`WaveWorkload::bytes_per_point`].
    pub fn bytes_per_s(&self) -> f64 {
        self.points_per_s() * self.workload.bytes_per_point()
    }

    /// Returns the rate relative to a copy of the bytes that a step must move.
    pub fn share_of_copy(&self) -> Option<f64> {
        Some(self.bytes_per_s() / self.copy?)
    }

    /// Returns the result as a JSON object.
    pub fn to_json(&self) -> Value {
        let WaveWorkload { dimensions, side, precision, is_variable, layer_nodes } = self.workload;
        json!({
            "case": "wave", "dimensions": dimensions, "n": side, "precision": precision.as_str(),
            "order": ORDER.number(), "velocity": if is_variable { "per node" } else { "uniform" },
            "layer_nodes": layer_nodes, "strategy": self.strategy,
            "seconds": self.times.median(), "fastest": self.times.fastest(), "slowest": self.times.slowest(),
            "repeats": self.times.count(), "rate": self.points_per_s(), "unit": "points/s",
            "bytes_per_point": self.workload.bytes_per_point(), "bytes_per_s": self.bytes_per_s(),
            "share_of_copy": self.share_of_copy(),
        })
    }
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

/// Benchmark of the wave solver on a device, or on all CPU cores.
pub struct WaveBench<'a> {
    device: Option<(&'a Device, ceiling::Ceilings)>,
    set: InstructionSet,
    tuning: Option<Tuning>,
    repeats: Option<usize>,
}

impl<'a> WaveBench<'a> {
    /// Measures the device's peak rates. Without a device, the CPU uses the instruction set `set`.
    /// `tuning` has results of the tuner for the device. Without `repeats`, the number of timed
    /// runs on a device depends on the time of one.
    pub fn new(
        device: Option<&'a Device>,
        set: InstructionSet,
        tuning: Option<Tuning>,
        repeats: Option<usize>,
    ) -> Result<Self, DeviceError> {
        let with_peaks = |device| ceiling::measure(device).map(|peaks| (device, peaks));
        Ok(Self { device: device.map(with_peaks).transpose()?, set, tuning, repeats })
    }

    /// Returns the bytes per second of the device's copy, reads and writes both counted.
    pub fn copy_bytes_per_s(&self) -> Option<f64> {
        self.device.map(|(_, peaks)| peaks.copy_bytes_per_s)
    }

    /// Returns the device's properties and peak rates as a JSON object.
    pub fn device_json(&self) -> Option<Value> {
        self.device.map(|(device, peaks)| device_json(device, &peaks))
    }

    /// Measures a problem with order 8 and the strategy that runs use.
    pub fn measure(&self, workload: WaveWorkload) -> Result<WaveMeasurement, DeviceError> {
        match workload.precision {
            Precision::Double => self.measure_in::<f64>(workload),
            _ => self.measure_in::<f32>(workload),
        }
    }

    fn measure_in<R: Scalar>(&self, workload: WaveWorkload) -> Result<WaveMeasurement, DeviceError> {
        let medium = workload.medium::<R>(ORDER);
        let state = bench_state(&medium);
        let (strategy, times) = match self.device {
            Some((device, _)) => {
                let shape = WaveShape::of_medium(&medium);
                let strategy = production_strategy(device, self.tuning.as_ref(), shape, workload.is_variable);
                let mut wave = DeviceWave::new(device, medium, &state, strategy)?;
                (strategy.name(), time_steps(&mut wave, self.repeats)?)
            }
            None => {
                let strategy = WaveCpuStrategy { instruction_set: self.set, ..WaveCpuStrategy::resolve() };
                let wave = HostWave::new(medium, &state, strategy);
                (strategy.name(), time_steps_on_host(wave, self.repeats))
            }
        };
        Ok(WaveMeasurement { workload, strategy, times, copy: self.copy_bytes_per_s() })
    }
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
    timing::time_on_host(repeats.unwrap_or(REPEATS_ON_CPU), || wave.advance(STEPS_PER_RUN))
        .divided_by(STEPS_PER_RUN as f64)
}

/// Measures the time of one step with the strategy of `wave`.
pub fn time_steps<R: Scalar>(wave: &mut DeviceWave<R>, repeats: Option<usize>) -> Result<Times, DeviceError> {
    let device = wave.device().clone();
    let run_seconds = timing::time_once(&device, || wave.advance(STEPS_PER_RUN))?;
    let repeats = repeats.unwrap_or_else(|| repeat_count(run_seconds));
    let times = timing::time_on_device(&device, repeats, run_seconds, || wave.advance(STEPS_PER_RUN))?;
    Ok(times.divided_by(STEPS_PER_RUN as f64))
}
