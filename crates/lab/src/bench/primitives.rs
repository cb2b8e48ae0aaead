//! Benchmarks of the primitives (sum, scan, sort, histogram and transpose), compared with the
//! bandwidth of a copy.
//!
//! Every result is compared with the reference implementation. The floats are random whole numbers
//! from -8 to 8, whose sums stay far below 2^24. Every order of additions is therefore exact, and a
//! single number that is lost or added twice is found.

mod primitive;
mod verify;

use std::fmt::Display;
use std::time::Instant;

use orrery_device::testing::random_bits;
use orrery_device::{Device, DeviceError, ceiling};
use orrery_primitives::Number;
use orrery_primitives::histogram::{self, BYTE_BINS, Histogram};
use orrery_primitives::reduce::{self, Operation, Reduce};
use orrery_primitives::scan::{self, Scan, ScanStrategy};
use orrery_primitives::sort::{self, Key, Sort};
use orrery_primitives::transpose::{MatrixShape, Transpose, TransposeStrategy, transpose_on_cpu};
use rayon::prelude::*;
use serde_json::{Value, json};
use thiserror::Error;

use super::direct::{device_json, repeat_count};
use crate::devices::cpu_name;
use crate::timing::{self, Times};
pub use primitive::Primitive;
use verify::{first_difference, first_not_transposed, first_unsorted};

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
#[derive(Clone, Debug, PartialEq)]
pub struct PrimitiveMeasurement {
    /// The primitive.
    pub primitive: Primitive,
    /// Name of the strategy, if it is one of the candidates.
    pub strategy: Option<String>,
    /// Number of elements: numbers, bytes or pairs.
    pub n: usize,
    /// Times of one run.
    pub times: Times,
    /// Bytes per second of a copy, reads and writes both counted.
    pub copy: Option<f64>,
}

impl PrimitiveMeasurement {
    /// Returns the bytes per second that must move, at the median time. `None` for a sort.
    pub fn bytes_per_s(&self) -> Option<f64> {
        Some(self.primitive.bytes_per_element()? * self.elements_per_s())
    }

    /// Returns the elements per second at the median time.
    pub fn elements_per_s(&self) -> f64 {
        self.n as f64 / self.times.median()
    }

    /// Returns the rate relative to a copy. `None` for a sort, and if no copy was measured.
    pub fn share_of_copy(&self) -> Option<f64> {
        Some(self.bytes_per_s()? / self.copy?)
    }

    /// Returns the result as a JSON object.
    pub fn to_json(&self) -> Value {
        let (name, input) = self.primitive.name_and_input();
        let (rate, unit) = match self.bytes_per_s() {
            Some(rate) => (rate, "bytes/s"),
            None => (self.elements_per_s(), "keys/s"),
        };
        json!({
            "case": name, "input": input, "strategy": self.strategy, "n": self.n, "seconds": self.times.median(),
            "fastest": self.times.fastest(), "slowest": self.times.slowest(),
            "repeats": self.times.count(), "rate": rate, "unit": unit,
            "share_of_copy": self.share_of_copy(),
        })
    }
}

/// Times of a primitive, and the first difference from the reference implementation.
type Checked = (Times, Option<String>);

/// Benchmark of the primitives on a device, or on all CPU cores.
pub struct PrimitivesBench<'a> {
    device: Option<(&'a Device, ceiling::Ceilings)>,
    repeats: Option<usize>,
}

impl<'a> PrimitivesBench<'a> {
    /// Measures the device's peak rates. Without `repeats`, the number of timed runs depends on the
    /// time of one.
    pub fn new(device: Option<&'a Device>, repeats: Option<usize>) -> Result<Self, DeviceError> {
        let with_peaks = |device| ceiling::measure(device).map(|peaks| (device, peaks));
        Ok(Self { device: device.map(with_peaks).transpose()?, repeats })
    }

    /// Returns the bytes per second of the device's copy, reads and writes both counted.
    pub fn copy_bytes_per_s(&self) -> Option<f64> {
        self.device.map(|(_, peaks)| peaks.copy_bytes_per_s)
    }

    /// Returns the device's properties and peak rates as a JSON object.
    pub fn device_json(&self) -> Option<Value> {
        self.device.map(|(device, peaks)| device_json(device, &peaks))
    }

    /// Measures one primitive on `n` elements, or a few less ([`Primitive::measured_size`]), and
    /// checks its result.
    pub fn measure_primitive(
        &self,
        primitive: Primitive,
        n: usize,
    ) -> Result<PrimitiveMeasurement, PrimitiveError> {
        self.measure_strategy(primitive, n, None)
    }

    /// As [`Self::measure_primitive`], with every strategy of [`Primitive::candidate_names`].
    pub fn measure_candidates(
        &self,
        primitive: Primitive,
        n: usize,
    ) -> Result<Vec<PrimitiveMeasurement>, PrimitiveError> {
        let candidates = primitive.candidate_names().into_iter().enumerate();
        let measure = |(candidate, name)| {
            let measurement = self.measure_strategy(primitive, n, Some(candidate))?;
            Ok(PrimitiveMeasurement { strategy: Some(name), ..measurement })
        };
        candidates.map(measure).collect()
    }

    /// Measures the default strategy or a candidate, which is given by its index.
    fn measure_strategy(
        &self,
        primitive: Primitive,
        n: usize,
        candidate: Option<usize>,
    ) -> Result<PrimitiveMeasurement, PrimitiveError> {
        let n = primitive.measured_size(n);
        let scan_strategy = || candidate.map_or_else(ScanStrategy::default, |i| ScanStrategy::CANDIDATES[i]);
        let (times, difference) = match primitive {
            Primitive::SumF32 => self.measure_sum(&random_elements(n, small_whole_number)),
            Primitive::ScanF32 => self.measure_scan(&random_elements(n, small_whole_number), scan_strategy()),
            Primitive::ScanU32 => self.measure_scan(&random_elements(n, |bits| bits as u32), scan_strategy()),
            Primitive::SortU64 => self.measure_sort(&random_elements(n, |bits| bits)),
            Primitive::SortU32 => self.measure_sort(&random_elements(n, |bits| bits as u32)),
            Primitive::HistogramRandom => self.measure_histogram(&random_elements(n, |bits| bits as u8)),
            Primitive::HistogramEqual => self.measure_histogram(&vec![7; n]),
            Primitive::TransposeF32 => {
                let strategy = candidate.map(|i| TransposeStrategy::CANDIDATES[i]);
                self.measure_transpose(&random_elements(n, |bits| (bits >> 40) as f32), strategy)
            }
        }?;
        match difference {
            None => {
                let copy = self.copy_bytes_per_s();
                Ok(PrimitiveMeasurement { primitive, strategy: None, n, times, copy })
            }
            Some(difference) => {
                let (name, input) = primitive.name_and_input();
                let device = self.device.map_or_else(cpu_name, |(device, _)| device.title());
                Err(PrimitiveError::WrongResult { device, name, input, n, difference })
            }
        }
    }

    fn measure_sum(&self, numbers: &[f32]) -> Result<Checked, DeviceError> {
        let (times, sum) = match self.device {
            None => self.time_on_host(|| (), |()| reduce::reduce_on_cpu(Operation::Sum, numbers)),
            Some((device, _)) => {
                let (input, output) = (device.upload(numbers)?, device.zeros(1)?);
                let reduce = Reduce::new(device, Operation::Sum)?;
                let times = self.time_on_device(device, || reduce.launch(device.queue(), &input, &output))?;
                (times, output.to_vec()?[0])
            }
        };
        Ok((times, first_difference(&[sum], &[reduce::reduce_reference(Operation::Sum, numbers)])))
    }

    fn measure_scan<T: Number + Display>(
        &self,
        numbers: &[T],
        strategy: ScanStrategy,
    ) -> Result<Checked, DeviceError> {
        let kind = scan::ScanKind::Inclusive;
        let scan_on_cpu = |mut sums: Vec<T>| {
            scan::scan_on_cpu(kind, &mut sums);
            sums
        };
        let (times, sums) = match self.device {
            None => self.time_on_host(|| numbers.to_vec(), scan_on_cpu),
            Some((device, _)) => {
                let (input, output) = (device.upload(numbers)?, device.zeros(numbers.len())?);
                let mut scan = Scan::with_strategy(device, kind, strategy)?;
                let times = self.time_on_device(device, || scan.launch(device.queue(), &input, &output))?;
                (times, output.to_vec()?)
            }
        };
        let mut expected = numbers.to_vec();
        scan::scan_reference(kind, &mut expected);
        Ok((times, first_difference(&sums, &expected)))
    }

    fn measure_sort<K: Key + Display>(&self, keys: &[K]) -> Result<Checked, DeviceError> {
        let values: Vec<u32> = (0..keys.len()).into_par_iter().map(|i| i as u32).collect();
        let sort_on_cpu = |(mut keys, mut values): (Vec<K>, Vec<u32>)| {
            sort::sort_on_cpu(&mut keys, &mut values);
            (keys, values)
        };
        let (times, sorted) = match self.device {
            None => self.time_on_host(|| (keys.to_vec(), values.clone()), sort_on_cpu),
            Some((device, _)) => {
                let unsorted = (device.upload(keys)?, device.upload(&values)?);
                let (keys, values) = (device.zeros(keys.len())?, device.zeros(keys.len())?);
                let mut sort = Sort::new(device, keys.len())?;
                let restore = || {
                    device.queue().copy(&unsorted.0, &keys)?;
                    device.queue().copy(&unsorted.1, &values)
                };
                let times =
                    self.time_with_restore(device, restore, || sort.launch(device.queue(), &keys, &values))?;
                (times, (keys.to_vec()?, values.to_vec()?))
            }
        };
        Ok((times, first_unsorted(keys, &sorted.0, &sorted.1)))
    }

    fn measure_histogram(&self, bytes: &[u8]) -> Result<Checked, DeviceError> {
        let (times, counts) = match self.device {
            None => self.time_on_host(|| (), |()| histogram::histogram_on_cpu(bytes).to_vec()),
            Some((device, _)) => {
                let (input, output) = (device.upload(bytes)?, device.zeros(BYTE_BINS)?);
                let histogram = Histogram::new(device)?;
                let times =
                    self.time_on_device(device, || histogram.launch(device.queue(), &input, &output))?;
                (times, output.to_vec()?)
            }
        };
        Ok((times, first_difference(&counts, &histogram::histogram_reference(bytes))))
    }

    fn measure_transpose(
        &self,
        numbers: &[f32],
        strategy: Option<TransposeStrategy>,
    ) -> Result<Checked, DeviceError> {
        let shape = MatrixShape::square(numbers.len().isqrt());
        let transpose_on_host = |mut to: Vec<f32>| {
            transpose_on_cpu(shape, numbers, &mut to);
            to
        };
        let (times, transposed) = match self.device {
            None => self.time_on_host(|| vec![1.0; numbers.len()], transpose_on_host),
            Some((device, _)) => {
                let strategy = strategy.unwrap_or_else(|| TransposeStrategy::default_for(shape, 4));
                let (from, to) = (device.upload(numbers)?, device.zeros(numbers.len())?);
                let transpose = Transpose::with_strategy(device, shape, strategy)?;
                let times = self.time_on_device(device, || transpose.launch(device.queue(), &from, &to))?;
                (times, to.to_vec()?)
            }
        };
        Ok((times, first_not_transposed(shape, numbers, &transposed)))
    }

    /// Measures work that does not change its input.
    fn time_on_device(
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
    fn time_with_restore(
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
    fn time_on_host<T, R>(&self, new_input: impl Fn() -> T, work: impl Fn(T) -> R) -> (Times, R) {
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
fn random_elements<T: Send>(n: usize, from_bits: impl Fn(u64) -> T + Sync) -> Vec<T> {
    (0..n as u64).into_par_iter().map(|index| from_bits(random_bits(index))).collect()
}

/// Converts random bits to a whole number from -8 to 8.
fn small_whole_number(bits: u64) -> f32 {
    (bits % 17) as f32 - 8.0
}

#[cfg(test)]
mod tests;
