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
use orrery_device::{Device, DeviceError};
use rayon::prelude::*;
use serde_json::{Value, json};
use thiserror::Error;

use super::place::{BenchPlace, result_json, time_runs};
use crate::devices::cpu_name;
use crate::timing::Times;
pub use case::{CheckedTimes, MeasureCase, PrimitiveCase, PrimitiveWork};
pub use production::{PRODUCTION_CASES, SCAN_F32, SCAN_U32, SORT_U32, SORT_U64, SUM_F32};
pub use verify::first_difference;

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
    pub primitive: &'static PrimitiveCase,
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
        let more = json!({
            "case": name, "input": input, "strategy": self.strategy, "n": self.n,
            "share_of_copy": self.share_of_copy(),
        });
        result_json(&self.times, rate, unit, more)
    }
}

impl BenchPlace<'_> {
    /// Measures one primitive on `n` elements, or a few less ([`PrimitiveCase::measured_size`]),
    /// and checks its result.
    pub fn measure_primitive(
        &self,
        primitive: &'static PrimitiveCase,
        n: usize,
    ) -> Result<PrimitiveMeasurement, PrimitiveError> {
        let measured = primitive.measured_size(n);
        let tuned = self.tuning().and_then(|tuning| tuning.tuned_candidate(primitive, measured));
        self.measure_strategy(primitive, n, tuned)
    }

    /// As [`Self::measure_primitive`], with every strategy of [`PrimitiveCase::candidate_names`].
    pub fn measure_candidates(
        &self,
        primitive: &'static PrimitiveCase,
        n: usize,
    ) -> Result<Vec<PrimitiveMeasurement>, PrimitiveError> {
        let candidates = 0..primitive.candidate_names().len();
        candidates.map(|candidate| self.measure_strategy(primitive, n, Some(candidate))).collect()
    }

    /// Measures the default strategy or a candidate, which is given by its index.
    pub fn measure_strategy(
        &self,
        primitive: &'static PrimitiveCase,
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
        let device = self.device().map_or_else(cpu_name, Device::title);
        Err(PrimitiveError::WrongResult { device, name, input, n, difference })
    }

    /// Measures a case with `on_host` or `on_device`, which return times and the result of a run.
    /// `difference` compares the result with the reference implementation.
    pub fn check<R>(
        &self,
        on_host: impl FnOnce() -> (Times, R),
        on_device: impl FnOnce(&Device) -> Result<(Times, R), DeviceError>,
        difference: impl FnOnce(&R) -> Option<String>,
    ) -> Result<CheckedTimes, DeviceError> {
        let (times, result) = match self.device() {
            None => on_host(),
            Some(device) => on_device(device)?,
        };
        Ok(CheckedTimes { times, difference: difference(&result) })
    }

    /// Measures work that does not change its input.
    pub fn time_on_device(
        &self,
        device: &Device,
        queue_work: impl FnMut() -> Result<(), DeviceError>,
    ) -> Result<Times, DeviceError> {
        time_runs(device, self.repeats, queue_work)
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
        let repeats = self.repeat_count(run_seconds).max(1);
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
        let repeats = self.repeat_count(0.0).max(1);
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
