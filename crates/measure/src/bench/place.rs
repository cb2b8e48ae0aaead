//! Where a benchmark runs, and the rows of its table.

use orrery_device::{Device, DeviceError, ceiling};
use orrery_simd::InstructionSet;
use serde_json::{Value, json};

use super::direct::{device_json, repeat_count};
use crate::timing::{self, Times};
use crate::tuning::Tuning;

/// Number of timed runs on the CPU, unless given.
const REPEATS_ON_CPU: usize = 5;

/// A device with its measured peak rates, or all CPU cores, and the settings of a benchmark.
#[derive(Debug)]
pub struct BenchPlace<'a> {
    device: Option<(&'a Device, ceiling::Ceilings)>,
    set: InstructionSet,
    tuning: Option<Tuning>,
    pub(super) repeats: Option<usize>,
}

impl<'a> BenchPlace<'a> {
    /// Measures the device's peak rates. Without `repeats`, the number of timed runs on a device
    /// depends on the time of one.
    pub fn new(device: Option<&'a Device>, repeats: Option<usize>) -> Result<Self, DeviceError> {
        let with_peaks = |device| ceiling::measure(device).map(|peaks| (device, peaks));
        let (device, set) = (device.map(with_peaks).transpose()?, InstructionSet::best());
        Ok(Self { device, set, tuning: None, repeats })
    }

    /// Uses this instruction set on the CPU.
    pub fn with_instruction_set(self, set: InstructionSet) -> Self {
        Self { set, ..self }
    }

    /// Uses the results of the tuner where there are any.
    pub fn with_tuning(self, tuning: Option<Tuning>) -> Self {
        Self { tuning, ..self }
    }

    /// Returns the device. `None` for the CPU.
    pub fn device(&self) -> Option<&'a Device> {
        self.device.map(|(device, _)| device)
    }

    /// Returns the instruction set of the CPU.
    pub fn instruction_set(&self) -> InstructionSet {
        self.set
    }

    /// Returns the results of the tuner for the device.
    pub fn tuning(&self) -> Option<&Tuning> {
        self.tuning.as_ref()
    }

    /// Returns the bytes per second of the device's copy, reads and writes both counted.
    pub fn copy_bytes_per_s(&self) -> Option<f64> {
        self.device.map(|(_, peaks)| peaks.copy_bytes_per_s)
    }

    /// Returns the device's properties and peak rates as a JSON object.
    pub fn device_json(&self) -> Option<Value> {
        self.device.map(|(device, peaks)| device_json(device, &peaks))
    }

    /// Returns the number of timed runs if one takes `run_seconds`.
    pub(super) fn repeat_count(&self, run_seconds: f64) -> usize {
        let default = if self.device.is_some() { repeat_count(run_seconds) } else { REPEATS_ON_CPU };
        self.repeats.unwrap_or(default)
    }
}

/// Measures work on a device after untimed runs. Without `repeats`, the number of timed runs
/// depends on the time of one.
pub(super) fn time_runs<E: From<DeviceError>>(
    device: &Device,
    repeats: Option<usize>,
    mut queue_work: impl FnMut() -> Result<(), E>,
) -> Result<Times, E> {
    let run_seconds = timing::time_once(device, &mut queue_work)?;
    let repeats = repeats.unwrap_or_else(|| repeat_count(run_seconds));
    timing::time_on_device(device, repeats, run_seconds, queue_work)
}

/// Measures work on the CPU after an untimed run.
pub(super) fn time_runs_on_host(repeats: Option<usize>, work: impl FnMut()) -> Times {
    timing::time_on_host(repeats.unwrap_or(REPEATS_ON_CPU), work)
}

/// Result of a benchmark: a row of its table, and a JSON object.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchRow {
    /// One cell per column of the benchmark's table.
    pub cells: Vec<String>,
    /// Line below the row, empty if there is none.
    pub note: String,
    /// The result as a JSON object.
    pub json: Value,
}

/// Returns the times and the rate of a result as a JSON object, with the fields of `more`.
pub(super) fn result_json(times: &Times, rate: Option<f64>, unit: &str, more: Value) -> Value {
    let mut result = json!({
        "seconds": times.median(), "fastest": times.fastest(), "slowest": times.slowest(),
        "repeats": times.count(), "rate": rate, "unit": unit,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        result[key] = value.clone();
    }
    result
}
