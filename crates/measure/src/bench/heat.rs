//! Benchmark of the heat solver: nodes updated per second, with one and with several steps per
//! pass, compared with the bandwidth of a copy.

use orrery_device::{Device, DeviceError, DeviceKind, ceiling};
use orrery_fields::Scalar;
use orrery_fields::heat::cpu::HeatCpuStrategy;
use orrery_fields::heat::device::{DeviceHeat, HeatDeviceStrategy, StoredField};
use orrery_fields::heat::{Conductivity, HeatProblem, Plate};
use orrery_model::Precision;
use orrery_model::grid::{Boundaries, Boundary, Grid};
use orrery_simd::InstructionSet;
use rayon::prelude::*;
use serde_json::{Value, json};

use super::direct::{device_json, repeat_count};
use crate::timing::{self, Times};
use crate::tuning::Tuning;

/// Steps that are timed together, as a multiple of the steps per pass.
const PASSES_PER_RUN: u64 = 10;

/// Benchmark result of one strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMeasurement {
    /// Nodes along each side of the square.
    pub n: usize,
    /// Precision of state and arithmetic.
    pub precision: Precision,
    /// Whether the conductivity differs between nodes.
    pub is_variable: bool,
    /// Time steps per pass over the memory.
    pub steps_per_pass: u32,
    /// Name of the strategy.
    pub strategy: String,
    /// Times of one step.
    pub times: Times,
    /// Time of minimum, maximum and heat content on a device.
    pub measures_secs: Option<f64>,
    /// Bytes per second of a copy, reads and writes both counted.
    pub copy: Option<f64>,
}

impl HeatMeasurement {
    /// Returns the updated nodes per second at the median time.
    pub fn points_per_s(&self) -> f64 {
        (self.n as f64).powi(2) / self.times.median()
    }

    /// Returns the bytes that a step with one step per pass must move per node.
    pub fn bytes_per_point(&self) -> f64 {
        let fields = if self.is_variable { 3.0 } else { 2.0 };
        fields * if self.precision == Precision::Double { 8.0 } else { 4.0 }
    }

    /// Returns the rate relative to a copy of the bytes that one step per pass must move. Above 1
    /// for several steps per pass.
    pub fn share_of_copy(&self) -> Option<f64> {
        Some(self.points_per_s() * self.bytes_per_point() / self.copy?)
    }

    /// Returns the result as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "case": "heat", "n": self.n, "precision": self.precision.as_str(),
            "conductivity": if self.is_variable { "per node" } else { "uniform" },
            "steps_per_pass": self.steps_per_pass, "strategy": self.strategy,
            "seconds": self.times.median(), "fastest": self.times.fastest(), "slowest": self.times.slowest(),
            "repeats": self.times.count(), "rate": self.points_per_s(), "unit": "points/s",
            "measures_seconds": self.measures_secs, "share_of_copy": self.share_of_copy(),
        })
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

/// Benchmark of the heat solver on a device, or on all CPU cores.
pub struct HeatBench<'a> {
    device: Option<(&'a Device, ceiling::Ceilings)>,
    set: InstructionSet,
    tuning: Option<Tuning>,
    repeats: Option<usize>,
}

/// Number of timed runs on the CPU, unless given.
const REPEATS_ON_CPU: usize = 5;

impl<'a> HeatBench<'a> {
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

    /// Measures one step per pass and the default strategy on `n` x `n` nodes. Calls `report` with
    /// each result.
    pub fn measure(
        &self,
        n: usize,
        precision: Precision,
        is_variable: bool,
        report: &mut dyn FnMut(&HeatMeasurement),
    ) -> Result<(), DeviceError> {
        match (precision, self.device) {
            (Precision::Double, Some((device, _))) => self.measure_on::<f64>(device, n, is_variable, report),
            (_, Some((device, _))) => self.measure_on::<f32>(device, n, is_variable, report),
            (Precision::Double, None) => {
                self.measure_on_cpu::<f64>(n, is_variable, report);
                Ok(())
            }
            (_, None) => {
                self.measure_on_cpu::<f32>(n, is_variable, report);
                Ok(())
            }
        }
    }

    fn measure_on<R: Scalar>(
        &self,
        device: &Device,
        n: usize,
        is_variable: bool,
        report: &mut dyn FnMut(&HeatMeasurement),
    ) -> Result<(), DeviceError> {
        let problem = bench_problem(n, R::PRECISION, is_variable);
        let tuned = self
            .tuning
            .as_ref()
            .and_then(|tuning| tuning.nearest_heat_entry(n * n, R::PRECISION, is_variable));
        let default = tuned.map_or_else(
            || HeatDeviceStrategy::default_for(device, n * n, R::PRECISION, is_variable),
            |entry| entry.strategy,
        );
        let (plate, dt) = (Plate::<R>::new(&problem), problem.max_stable_step());
        let mut heat = DeviceHeat::new(device, plate, &bench_state(n), default)?;
        for strategy in [HeatDeviceStrategy::one_step_for(device, R::PRECISION, is_variable), default] {
            heat.set_strategy(strategy)?;
            let times = time_steps(&mut heat, dt, self.repeats)?;
            let queue_measures = || heat.queue_measures(StoredField::State);
            let measures_secs = Some(timing::time_once::<DeviceError>(device, queue_measures)?);
            report(&HeatMeasurement {
                n,
                precision: R::PRECISION,
                is_variable,
                steps_per_pass: strategy.steps_per_pass,
                strategy: strategy.name(),
                times,
                measures_secs,
                copy: self.copy_bytes_per_s(),
            });
        }
        Ok(())
    }

    fn measure_on_cpu<R: Scalar>(
        &self,
        n: usize,
        is_variable: bool,
        report: &mut dyn FnMut(&HeatMeasurement),
    ) {
        let problem = bench_problem(n, R::PRECISION, is_variable);
        let plate = Plate::<R>::new(&problem);
        let default = HeatCpuStrategy { instruction_set: self.set, ..HeatCpuStrategy::resolve(&plate) };
        for strategy in [HeatCpuStrategy { steps_per_pass: 1, ..default }, default] {
            report(&HeatMeasurement {
                n,
                precision: R::PRECISION,
                is_variable,
                steps_per_pass: strategy.steps_per_pass as u32,
                strategy: strategy.name(),
                times: time_passes(&plate, problem.max_stable_step(), strategy, self.repeats),
                measures_secs: None,
                copy: None,
            });
        }
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
    let times = timing::time_on_host(repeats.unwrap_or(REPEATS_ON_CPU), || {
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
    let run_seconds = timing::time_once(&device, || heat.advance(dt, steps))?;
    let repeats = repeats.unwrap_or_else(|| repeat_count(run_seconds));
    let times = timing::time_on_device(&device, repeats, run_seconds, || heat.advance(dt, steps))?;
    Ok(times.divided_by(steps as f64))
}
