//! All pairs on a device: force evaluations, whole steps, and what building the kernels costs.

use std::collections::HashMap;

use orrery_device::{Device, DeviceError, DeviceKind, Origin, ceiling};
use orrery_particles::settings::Precision;
use orrery_particles::solver::direct::device::DirectDeviceStrategy;
use serde_json::{Value, json};

use super::Measurement;
use crate::sample::Reference;
use crate::stage::DeviceWorkload;
use crate::timing;
use crate::{FLOPS_A_PAIR, LabError};

/// Time that the evaluations of one line may take, and how many they are: a hundred where they are short.
const SECONDS: f64 = 4.0;
const REPEATS: [f64; 2] = [3.0, 100.0];
/// Steps timed.
const STEPS: usize = 20;

/// Measures line by line.
pub struct DirectBench<'a> {
    device: &'a Device,
    measured: ceiling::Ceilings,
    references: HashMap<usize, Reference>,
}

/// Sizes that show what the device can do: the largest of f64 takes as long as the largest of f32.
pub fn sizes(device: &Device, precision: Precision) -> Vec<usize> {
    match (device.properties().kind, precision) {
        (DeviceKind::Gpu, Precision::Double) => vec![4096, 16_384, 65_536, 262_144],
        (DeviceKind::Gpu, _) => vec![4096, 16_384, 65_536, 262_144, 1_048_576],
        _ => vec![1024, 4096],
    }
}

impl<'a> DirectBench<'a> {
    /// Measures the device's roofs first.
    pub fn new(device: &'a Device) -> Result<Self, LabError> {
        Ok(Self { device, measured: ceiling::measure(device)?, references: HashMap::new() })
    }

    /// One size and strategy. As many timed evaluations as `times` says, else as many as there is time for.
    pub fn all_pairs(
        &mut self,
        n: usize,
        strategy: &DirectDeviceStrategy,
        times: Option<usize>,
    ) -> Result<Measurement, LabError> {
        let stage = DeviceWorkload::new(self.device, n)?;
        let mut solver = stage.solver(*strategy)?;
        let once = stage.once(&mut solver)?;
        let times = stage.times(&mut solver, times.unwrap_or_else(|| repeats(once)), once)?;
        let reference = self.references.entry(n).or_insert_with(|| Reference::of(&stage.problem()));
        let errors = reference.errors(&stage.accelerations()?);
        let rate = (n as f64).powi(2) / times.median();
        let (measured_peak, theoretical_peak) = peaks(self.device, &self.measured, strategy.precision);
        Ok(Measurement {
            case: "direct",
            n,
            precision: strategy.precision,
            strategy: serde_json::to_value(strategy).expect("plain data always serialises"),
            rate,
            unit: "interactions/s",
            flops: FLOPS_A_PAIR * rate,
            measured_peak,
            theoretical_peak,
            errors,
            tree: None,
            times,
        })
    }

    /// The device and its roofs, for files.
    pub fn about(&self) -> Value {
        about(self.device, &self.measured)
    }
}

/// Evaluations to time, when one takes `once`.
pub(super) fn repeats(once: f64) -> usize {
    (SECONDS / once).clamp(REPEATS[0], REPEATS[1]) as usize
}

/// Operations a second for this arithmetic: as measured, and by the data sheet.
pub(super) fn peaks(
    device: &Device,
    measured: &ceiling::Ceilings,
    precision: Precision,
) -> (f64, Option<f64>) {
    let told = device.properties();
    match precision {
        Precision::Double => (measured.f64_flops.unwrap_or(f64::NAN), told.peak_f64),
        Precision::Single | Precision::Mixed => (measured.f32_flops, told.peak_f32),
    }
}

/// A device and its roofs, for files.
pub(super) fn about(device: &Device, measured: &ceiling::Ceilings) -> Value {
    let told = device.properties();
    json!({
        "kind": told.backend.to_string().to_lowercase(), "label": device.label(), "name": told.name,
        "driver": told.driver, "version": told.version, "memory": told.memory,
        "multiprocessors": told.sm_count, "clock_hz": told.clock_hz,
        "copy_bytes_per_s": measured.copy_bytes_per_s, "f32_flops": measured.f32_flops,
        "f64_flops": measured.f64_flops, "theoretical_bytes_per_s": told.peak_bandwidth,
        "theoretical_f32_flops": told.peak_f32, "theoretical_f64_flops": told.peak_f64,
    })
}

/// A whole step against its force evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Number of bodies.
    pub n: usize,
    /// Median time of a step.
    pub seconds: f64,
    /// Median time of the force evaluation in it.
    pub force_seconds: f64,
}

impl Step {
    /// Times steps that `advance` queues on the device's own queue, after one that is not counted.
    pub fn measure<E: From<DeviceError>>(
        device: &Device,
        n: usize,
        force_seconds: f64,
        mut advance: impl FnMut() -> Result<(), E>,
    ) -> Result<Self, E> {
        advance()?;
        let times = timing::on_device(device, STEPS, force_seconds, advance)?;
        Ok(Self { n, seconds: times.median(), force_seconds })
    }

    /// As an object for files.
    pub fn json(&self) -> Value {
        json!({
            "case": "step", "n": self.n, "seconds": self.seconds, "force_seconds": self.force_seconds,
            "ratio": self.seconds / self.force_seconds,
        })
    }
}

/// What building a strategy's kernels took in this process, and whether any had to be compiled.
pub fn builds(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> Result<Value, LabError> {
    let stage = DeviceWorkload::new(device, n)?;
    let mut solver = stage.solver(*strategy)?;
    // Some kernels are built when the masses are known.
    stage.forces(&mut solver)?;
    let times = solver.build_times();
    let origin = |origin: &Origin| match origin {
        Origin::Compiled => "compiled",
        Origin::Disk => "disk",
        Origin::Memory => "memory",
    };
    Ok(json!({
        "seconds": times.iter().map(|(_, _, time)| time.as_secs_f64()).sum::<f64>(),
        "kernels": times
            .iter()
            .map(|(name, from, time)| json!({ "name": name, "origin": origin(from), "seconds": time.as_secs_f64() }))
            .collect::<Vec<_>>(),
    }))
}
