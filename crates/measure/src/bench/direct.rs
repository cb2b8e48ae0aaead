//! Benchmarks of the direct solver on a device: force evaluations, whole steps and kernel builds.

use std::collections::HashMap;

use orrery_device::{Device, DeviceError, DeviceKind, ModuleOrigin, ceiling};
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_model::Precision;
use serde_json::{Value, json};

use super::ForceMeasurement;
use super::place::time_runs;
use crate::sample::ReferenceForces;
use crate::timing;
use crate::workload::DeviceWorkload;
use crate::{FLOPS_PER_PAIR, MeasureError};

/// Approximate time for all timed evaluations of one measurement.
const SECONDS_PER_MEASUREMENT: f64 = 4.0;
/// Smallest and largest number of timed evaluations. Unit tests do not check times.
const REPEATS: [f64; 2] = if cfg!(test) { [2.0, 3.0] } else { [3.0, 100.0] };
/// Number of timed steps.
const STEPS: usize = 20;

/// Benchmark of the direct solver on one device.
pub struct DirectBench<'a> {
    device: &'a Device,
    peaks: ceiling::Ceilings,
    references: HashMap<usize, ReferenceForces>,
}

/// Returns the default problem sizes for a device. The largest size in f64 takes about as long as
/// the largest in f32.
pub fn default_sizes(device: &Device, precision: Precision) -> Vec<usize> {
    match (device.properties().kind, precision) {
        (DeviceKind::Gpu, Precision::Double) => vec![4096, 16_384, 65_536, 262_144],
        (DeviceKind::Gpu, _) => vec![4096, 16_384, 65_536, 262_144, 1_048_576],
        _ => vec![1024, 4096],
    }
}

impl<'a> DirectBench<'a> {
    /// Measures the device's peak rates.
    pub fn new(device: &'a Device) -> Result<Self, MeasureError> {
        Ok(Self { device, peaks: ceiling::measure(device)?, references: HashMap::new() })
    }

    /// Measures one strategy with `n` bodies. Without `repeats`, the number of timed evaluations
    /// depends on the time of one.
    pub fn measure_strategy(
        &mut self,
        n: usize,
        strategy: &DirectDeviceStrategy,
        repeats: Option<usize>,
    ) -> Result<ForceMeasurement, MeasureError> {
        let workload = DeviceWorkload::for_direct(self.device, n)?;
        let mut solver = workload.new_solver(*strategy)?;
        let times = time_runs(self.device, repeats, || workload.queue_forces(&mut solver))?;
        let reference =
            self.references.entry(n).or_insert_with(|| ReferenceForces::compute(&workload.problem()));
        let errors = reference.errors(&workload.accelerations()?);
        let rate = (n as f64).powi(2) / times.median();
        let (measured_peak, theoretical_peak) = peak_flops(self.device, &self.peaks, strategy.precision);
        Ok(ForceMeasurement {
            case: "direct",
            n,
            precision: strategy.precision,
            strategy: serde_json::to_value(strategy).expect("plain data always serialises"),
            rate,
            unit: "interactions/s",
            flops: FLOPS_PER_PAIR * rate,
            measured_peak,
            theoretical_peak,
            errors,
            tree: None,
            times,
        })
    }

    /// Returns the device's properties and peak rates as a JSON object.
    pub fn device_json(&self) -> Value {
        device_json(self.device, &self.peaks)
    }
}

/// Returns the number of timed evaluations if one takes `run_seconds`.
pub(super) fn repeat_count(run_seconds: f64) -> usize {
    (SECONDS_PER_MEASUREMENT / run_seconds).clamp(REPEATS[0], REPEATS[1]) as usize
}

/// Returns the measured and the theoretical peak for a precision, in operations per second.
pub(super) fn peak_flops(
    device: &Device,
    peaks: &ceiling::Ceilings,
    precision: Precision,
) -> (f64, Option<f64>) {
    let properties = device.properties();
    match precision {
        Precision::Double => (peaks.f64_flops.unwrap_or(f64::NAN), properties.peak_f64),
        Precision::Single | Precision::Mixed => (peaks.f32_flops, properties.peak_f32),
    }
}

/// Returns a device's properties and peak rates as a JSON object.
pub(super) fn device_json(device: &Device, peaks: &ceiling::Ceilings) -> Value {
    let properties = device.properties();
    json!({
        "kind": properties.backend.to_string().to_lowercase(), "label": device.label(),
        "name": properties.name, "driver": properties.driver, "version": properties.version,
        "memory_bytes": properties.memory, "sm_count": properties.sm_count,
        "clock_hz": properties.clock_hz, "copy_bytes_per_s": peaks.copy_bytes_per_s,
        "f32_flops": peaks.f32_flops, "f64_flops": peaks.f64_flops,
        "theoretical_bytes_per_s": properties.peak_bandwidth,
        "theoretical_f32_flops": properties.peak_f32, "theoretical_f64_flops": properties.peak_f64,
    })
}

/// Time of a whole step and of the force evaluation in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTiming {
    /// Number of bodies.
    pub n: usize,
    /// Median time of a step.
    pub seconds: f64,
    /// Median time of the force evaluation.
    pub force_seconds: f64,
}

impl StepTiming {
    /// Measures steps that `queue_step` adds to the device's default queue, after one untimed step.
    pub fn measure<E: From<DeviceError>>(
        device: &Device,
        n: usize,
        force_seconds: f64,
        mut queue_step: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        queue_step()?;
        let times = timing::time_on_device(device, STEPS, force_seconds, queue_step)?;
        Ok(Self { n, seconds: times.median(), force_seconds })
    }

    /// Returns the times as a JSON object.
    pub fn to_json(self) -> Value {
        json!({
            "case": "step", "n": self.n, "seconds": self.seconds, "force_seconds": self.force_seconds,
            "ratio": self.seconds / self.force_seconds,
        })
    }
}

/// Builds the kernels of a strategy and returns the build time of each kernel as JSON, with its
/// origin: `compiled`, `disk` (cache) or `memory`.
pub fn time_builds(
    device: &Device,
    n: usize,
    strategy: &DirectDeviceStrategy,
) -> Result<Value, MeasureError> {
    let workload = DeviceWorkload::for_direct(device, n)?;
    let mut solver = workload.new_solver(*strategy)?;
    // The first evaluation builds the kernels that depend on the masses.
    workload.queue_forces(&mut solver)?;
    let times = solver.build_times();
    let origin_name = |origin: &ModuleOrigin| match origin {
        ModuleOrigin::Compiled => "compiled",
        ModuleOrigin::Disk => "disk",
        ModuleOrigin::Memory => "memory",
    };
    Ok(json!({
        "seconds": times.iter().map(|build| build.time.as_secs_f64()).sum::<f64>(),
        "kernels": times
            .iter()
            .map(|build| {
                let (origin, seconds) = (origin_name(&build.origin), build.time.as_secs_f64());
                json!({ "name": build.name, "origin": origin, "seconds": seconds })
            })
            .collect::<Vec<_>>(),
    }))
}
