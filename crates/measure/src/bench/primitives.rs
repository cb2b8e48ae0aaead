//! Benchmarks of primitives, compared with the bandwidth of a copy. A primitive is a
//! [`PrimitiveCase`]. [`PRODUCTION_CASES`] lists sum, scan and sort. Other cases, for example those
//! of the laboratory, are measured in the same way.
//!
//! Every result is compared with the reference implementation. The floats are random whole numbers
//! from -8 to 8, whose sums stay far below 2^24. Every order of additions is therefore exact, and a
//! single number that is lost or added twice is found.

mod case;
mod production;
mod verify;

use std::time::Instant;

use orrery_device::testing::random_bits;
use orrery_device::{Device, DeviceError, ceiling};
use rayon::prelude::*;
use serde_json::{Value, json};
use thiserror::Error;

use super::direct::{device_json, repeat_count};
use crate::devices::cpu_name;
use crate::timing::{self, Times};
use crate::tuning::Tuning;
pub use case::{CheckedTimes, PrimitiveCase, PrimitiveWork, is_gpu};
pub use production::{PRODUCTION_CASES, SCAN_F32, SCAN_U32, SORT_U32, SORT_U64, SUM_F32};
pub use verify::first_difference;

/// Number of timed runs on the CPU, unless given.
const REPEATS_ON_CPU: usize = 5;

/// Error of a measurement. Its message is one line.
#[derive(Debug, Error)]
pub enum PrimitiveError {
    /// The device reported an error.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The result differs from the reference implementation.
    #[error("{device}: {name} of {n} elements ({input}): {difference}")]
    WrongResult {
        /// Title of the device, or name of the CPU.
        device: String,
        /// Name of the primitive.
        name: &'static str,
        /// Name of the input.
        input: &'static str,
        /// Number of elements.
        n: usize,
        /// Index, actual and expected value of the first difference.
        difference: String,
    },
}

/// Benchmark result of one primitive at one problem size.
#[derive(Clone, Debug)]
pub struct PrimitiveMeasurement {
    /// The primitive.
    pub primitive: &'static dyn PrimitiveCase,
    /// Name of the strategy, if it is not the default: a candidate, or the result of the tuner.
    pub strategy: Option<String>,
    /// Number of elements: numbers, bytes or pairs.
    pub n: usize,
    /// Times of one run.
    pub times: Times,
    /// Bytes per second of a copy, reads and writes both counted.
    pub copy: Option<f64>,
}

impl PrimitiveMeasurement {
    /// Returns the bytes per second that must move, at the median time. `None` if the primitive
    /// counts operations.
    pub fn bytes_per_s(&self) -> Option<f64> {
        match self.primitive.work() {
            PrimitiveWork::BytesPerElement(bytes) => Some(bytes * self.elements_per_s()),
            PrimitiveWork::Operations { .. } => None,
        }
    }

    /// Returns the elements per second at the median time.
    pub fn elements_per_s(&self) -> f64 {
        self.n as f64 / self.times.median()
    }

    /// Returns the operations per second, for example the keys of a sort. `None` if the primitive
    /// counts bytes.
    pub fn operations_per_s(&self) -> Option<f64> {
        match self.primitive.work() {
            PrimitiveWork::BytesPerElement(_) => None,
            PrimitiveWork::Operations { count, .. } => Some(count(self.n) / self.times.median()),
        }
    }

    /// Returns the rate relative to a copy. `None` without [`Self::bytes_per_s`], and if no copy
    /// was measured.
    pub fn share_of_copy(&self) -> Option<f64> {
        Some(self.bytes_per_s()? / self.copy?)
    }

    /// Returns the result as a JSON object.
    pub fn to_json(&self) -> Value {
        let (name, input) = self.primitive.name_and_input();
        let (rate, unit) = match self.primitive.work() {
            PrimitiveWork::BytesPerElement(_) => (self.bytes_per_s(), "bytes/s"),
            PrimitiveWork::Operations { unit, .. } => (self.operations_per_s(), unit),
        };
        json!({
            "case": name, "input": input, "strategy": self.strategy, "n": self.n, "seconds": self.times.median(),
            "fastest": self.times.fastest(), "slowest": self.times.slowest(),
            "repeats": self.times.count(), "rate": rate, "unit": unit,
            "share_of_copy": self.share_of_copy(),
        })
    }
}

/// Benchmark of the primitives on a device, or on all CPU cores.
pub struct PrimitivesBench<'a> {
    device: Option<(&'a Device, ceiling::Ceilings)>,
    repeats: Option<usize>,
    tuning: Option<&'a Tuning>,
}

impl<'a> PrimitivesBench<'a> {
    /// Measures the device's peak rates. Without `repeats`, the number of timed runs depends on the
    /// time of one.
    pub fn new(device: Option<&'a Device>, repeats: Option<usize>) -> Result<Self, DeviceError> {
        let with_peaks = |device| ceiling::measure(device).map(|peaks| (device, peaks));
        Ok(Self { device: device.map(with_peaks).transpose()?, repeats, tuning: None })
    }

    /// Uses the results of the tuner where there are any.
    pub fn with_tuning(self, tuning: Option<&'a Tuning>) -> Self {
        Self { tuning, ..self }
    }

    /// Returns the device. `None` for the CPU.
    pub fn device(&self) -> Option<&'a Device> {
        self.device.map(|(device, _)| device)
    }

    /// Returns the bytes per second of the device's copy, reads and writes both counted.
    pub fn copy_bytes_per_s(&self) -> Option<f64> {
        self.device.map(|(_, peaks)| peaks.copy_bytes_per_s)
    }

    /// Returns the device's properties and peak rates as a JSON object.
    pub fn device_json(&self) -> Option<Value> {
        self.device.map(|(device, peaks)| device_json(device, &peaks))
    }

    /// Measures one primitive on `n` elements, or a few less ([`PrimitiveCase::measured_size`]),
    /// and checks its result.
    pub fn measure_primitive(
        &self,
        primitive: &'static dyn PrimitiveCase,
        n: usize,
    ) -> Result<PrimitiveMeasurement, PrimitiveError> {
        let measured = primitive.measured_size(n);
        let tuned = self.tuning.and_then(|tuning| tuning.tuned_candidate(primitive, measured));
        self.measure_strategy(primitive, n, tuned)
    }

    /// As [`Self::measure_primitive`], with every strategy of [`PrimitiveCase::candidate_names`].
    pub fn measure_candidates(
        &self,
        primitive: &'static dyn PrimitiveCase,
        n: usize,
    ) -> Result<Vec<PrimitiveMeasurement>, PrimitiveError> {
        let candidates = 0..primitive.candidate_names().len();
        candidates.map(|candidate| self.measure_strategy(primitive, n, Some(candidate))).collect()
    }

    /// Measures the default strategy or a candidate, which is given by its index.
    pub fn measure_strategy(
        &self,
        primitive: &'static dyn PrimitiveCase,
        n: usize,
        candidate: Option<usize>,
    ) -> Result<PrimitiveMeasurement, PrimitiveError> {
        let n = primitive.measured_size(n);
        let CheckedTimes { times, difference } = primitive.measure(self, n, candidate)?;
        let Some(difference) = difference else {
            let strategy = candidate.map(|candidate| primitive.candidate_names().swap_remove(candidate));
            return Ok(PrimitiveMeasurement { primitive, strategy, n, times, copy: self.copy_bytes_per_s() });
        };
        let (name, input) = primitive.name_and_input();
        let device = self.device.map_or_else(cpu_name, |(device, _)| device.title());
        Err(PrimitiveError::WrongResult { device, name, input, n, difference })
    }

    /// Measures work that does not change its input.
    pub fn time_on_device(
        &self,
        device: &Device,
        mut queue_work: impl FnMut() -> Result<(), DeviceError>,
    ) -> Result<Times, DeviceError> {
        let run_seconds = timing::time_once(device, &mut queue_work)?;
        let repeats = self.repeats.unwrap_or_else(|| repeat_count(run_seconds));
        timing::time_on_device(device, repeats, run_seconds, queue_work)
    }

    /// Measures work that overwrites its input. `restore` writes the input again before each run,
    /// outside the timed interval.
    pub fn time_with_restore(
        &self,
        device: &Device,
        restore: impl Fn() -> Result<(), DeviceError>,
        mut queue_work: impl FnMut() -> Result<(), DeviceError>,
    ) -> Result<Times, DeviceError> {
        let queue = device.queue();
        let mut queue_run = || {
            restore()?;
            let start = queue.record()?;
            queue_work()?;
            Ok::<_, DeviceError>((start, queue.record()?))
        };
        queue_run()?;
        let (start, end) = queue_run()?;
        end.wait()?;
        let run_seconds = end.seconds_since(&start)?;
        let repeats = self.repeats.unwrap_or_else(|| repeat_count(run_seconds)).max(1);
        let events = (0..repeats).map(|_| queue_run()).collect::<Result<Vec<_>, _>>()?;
        queue.finish()?;
        let seconds = events.iter().map(|(start, end)| end.seconds_since(start));
        Ok(Times::from_seconds(seconds.collect::<Result<_, _>>()?))
    }

    /// Measures wall-clock times after one untimed run, and returns the last result. Each run gets
    /// a new input from `new_input`, which is not timed.
    pub fn time_on_host<T, R>(&self, new_input: impl Fn() -> T, work: impl Fn(T) -> R) -> (Times, R) {
        let mut result = work(new_input());
        let mut time_run = |_| {
            let input = new_input();
            let start = Instant::now();
            result = std::hint::black_box(work(input));
            start.elapsed().as_secs_f64()
        };
        let repeats = self.repeats.unwrap_or(REPEATS_ON_CPU).max(1);
        (Times::from_seconds((0..repeats).map(&mut time_run).collect()), result)
    }
}

/// Returns `n` elements, each converted from 64 random bits.
pub fn random_elements<T: Send>(n: usize, from_bits: impl Fn(u64) -> T + Sync) -> Vec<T> {
    (0..n as u64).into_par_iter().map(|index| from_bits(random_bits(index))).collect()
}

/// Converts random bits to a whole number from -8 to 8.
pub fn small_whole_number(bits: u64) -> f32 {
    (bits % 17) as f32 - 8.0
}

#[cfg(test)]
mod tests;
