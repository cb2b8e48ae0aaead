//! The primitives: sums, running sums, sorts and histograms, against the copy, which only moves bytes.
//!
//! Every result is compared with the plain version's. The floats are whole numbers from -8 to 8 in no order, whose sums stay
//! far below 2^24: any order of additions is exact, and a single number lost or taken twice shows.

use std::fmt::Display;
use std::time::Instant;

use orrery_device::{Device, DeviceError, DeviceKind, ceiling};
use orrery_primitives::Number;
use orrery_primitives::histogram::{self, BYTE_BINS, Histogram};
use orrery_primitives::reduce::{self, Operation, Reduce};
use orrery_primitives::scan::{self, Scan};
use orrery_primitives::sort::{self, Key, Sort};
use rayon::prelude::*;
use serde_json::{Value, json};
use thiserror::Error;

use super::device::{about, repeats};
use crate::devices::cpu_name;
use crate::timing::{self, Times};

/// Timed runs on the processor, unless told otherwise.
const REPEATS_ON_CPU: usize = 5;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// The sum of f32.
    SumF32,
    /// Inclusive running sums of f32.
    ScanF32,
    /// Inclusive running sums of u32.
    ScanU32,
    /// Pairs of a u64 key and a u32 value.
    SortU64,
    /// Pairs of a u32 key and a u32 value.
    SortU32,
    /// Counts of bytes that have nothing to do with each other.
    HistogramRandom,
    /// Counts of bytes that are all the same, which want one counter all the time.
    HistogramEqual,
}

impl Primitive {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::SumF32,
        Self::ScanF32,
        Self::ScanU32,
        Self::SortU64,
        Self::SortU32,
        Self::HistogramRandom,
        Self::HistogramEqual,
    ];

    /// The primitive, and what it is given.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::SumF32 => ("sum", "f32"),
            Self::ScanF32 => ("scan", "f32"),
            Self::ScanU32 => ("scan", "u32"),
            Self::SortU64 => ("sort", "u64 + u32"),
            Self::SortU32 => ("sort", "u32 + u32"),
            Self::HistogramRandom => ("histogram", "random"),
            Self::HistogramEqual => ("histogram", "equal"),
        }
    }

    /// Sizes that show what the device, or without one the processor, can do.
    pub fn sizes(self, device: Option<&Device>) -> Vec<usize> {
        let is_gpu = device.is_some_and(|device| device.properties().kind == DeviceKind::Gpu);
        match (self, is_gpu) {
            (Self::SortU64 | Self::SortU32, true) => vec![1 << 20, 1 << 24],
            (Self::SortU64 | Self::SortU32, false) => vec![1 << 18],
            (_, true) => vec![1 << 28],
            (_, false) => vec![1 << 20],
        }
    }

    /// Bytes of an element that must move, be it by the best of programs; for a sort there is no such number.
    fn bytes(self) -> Option<f64> {
        match self {
            Self::SumF32 => Some(4.0),
            Self::ScanF32 | Self::ScanU32 => Some(8.0),
            Self::SortU64 | Self::SortU32 => None,
            Self::HistogramRandom | Self::HistogramEqual => Some(1.0),
        }
    }
}

/// Why nothing was measured. One line.
#[derive(Debug, Error)]
pub enum PrimitiveError {
    /// From the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A result that is not the plain version's.
    #[error("{place}: {case} of {n} elements ({what}): {fault}")]
    Wrong {
        /// Device or processor.
        place: String,
        /// The primitive.
        case: &'static str,
        /// What it was given.
        what: &'static str,
        /// How many.
        n: usize,
        /// Where, got, expected.
        fault: String,
    },
}

/// Times of one primitive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds {
    /// Half took longer.
    pub median: f64,
    /// The shortest.
    pub fastest: f64,
    /// The longest.
    pub slowest: f64,
    /// How many were taken.
    pub count: usize,
}

impl Seconds {
    /// Of one time at least.
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let count = times.len();
        Self { median: times[count / 2], fastest: times[0], slowest: times[count - 1], count }
    }
}

impl From<Times> for Seconds {
    fn from(times: Times) -> Self {
        let [median, fastest, slowest] = [times.median(), times.fastest(), times.slowest()];
        Self { median, fastest, slowest, count: times.count() }
    }
}

/// One primitive at one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Which.
    pub primitive: Primitive,
    /// Numbers, bytes or pairs.
    pub n: usize,
    /// What one run takes.
    pub seconds: Seconds,
    /// Bytes a second that a copy moves, read and write both counted.
    pub copy: Option<f64>,
}

impl Line {
    /// Bytes a second that must move, at the median; none for a sort.
    pub fn bytes_per_s(&self) -> Option<f64> {
        Some(self.primitive.bytes()? * self.elements_per_s())
    }

    /// Elements a second, at the median.
    pub fn elements_per_s(&self) -> f64 {
        self.n as f64 / self.seconds.median
    }

    /// Against the copy; none for a sort, or where no copy was measured.
    pub fn share_of_copy(&self) -> Option<f64> {
        Some(self.bytes_per_s()? / self.copy?)
    }

    /// As an object for files.
    pub fn json(&self) -> Value {
        let ((case, what), Seconds { median, fastest, slowest, count }) =
            (self.primitive.name(), self.seconds);
        let (rate, unit) = match self.bytes_per_s() {
            Some(rate) => (rate, "bytes/s"),
            None => (self.elements_per_s(), "keys/s"),
        };
        json!({
            "case": case, "what": what, "n": self.n,
            "seconds": { "median": median, "fastest": fastest, "slowest": slowest },
            "repeats": count, "rate": rate, "unit": unit, "share_of_copy": self.share_of_copy(),
        })
    }
}

/// Measures line by line, on a device or, without one, on all cores.
pub struct PrimitivesBench<'a> {
    device: Option<(&'a Device, ceiling::Ceilings)>,
    repeats: Option<usize>,
}

impl<'a> PrimitivesBench<'a> {
    /// Measures the device's roofs first. As many timed runs a line as `repeats` says, else as many as there is time for.
    pub fn new(device: Option<&'a Device>, repeats: Option<usize>) -> Result<Self, DeviceError> {
        let with_roofs = |device| ceiling::measure(device).map(|measured| (device, measured));
        Ok(Self { device: device.map(with_roofs).transpose()?, repeats })
    }

    /// Bytes a second that the device's copy moves, read and write both counted.
    pub fn copy(&self) -> Option<f64> {
        self.device.map(|(_, measured)| measured.copy_bytes_per_s)
    }

    /// The device and its roofs, for files.
    pub fn about(&self) -> Option<Value> {
        self.device.map(|(device, measured)| about(device, &measured))
    }

    /// One primitive over `n` elements, timed and checked.
    pub fn measure(&self, primitive: Primitive, n: usize) -> Result<Line, PrimitiveError> {
        let (seconds, fault) = match primitive {
            Primitive::SumF32 => self.sum(&columns(n, whole)),
            Primitive::ScanF32 => self.scan(&columns(n, whole)),
            Primitive::ScanU32 => self.scan(&columns(n, |bits| bits as u32)),
            Primitive::SortU64 => self.sort(&columns(n, |bits| bits)),
            Primitive::SortU32 => self.sort(&columns(n, |bits| bits as u32)),
            Primitive::HistogramRandom => self.histogram(&columns(n, |bits| bits as u8)),
            Primitive::HistogramEqual => self.histogram(&vec![7; n]),
        }?;
        let (case, what) = primitive.name();
        let place = || self.device.map_or_else(cpu_name, |(device, _)| device.title());
        match fault {
            Some(fault) => Err(PrimitiveError::Wrong { place: place(), case, what, n, fault }),
            None => Ok(Line { primitive, n, seconds, copy: self.copy() }),
        }
    }

    fn sum(&self, numbers: &[f32]) -> Result<(Seconds, Option<String>), DeviceError> {
        let (seconds, found) = match self.device {
            None => self.on_host(|| (), |()| reduce::reduce_on_cpu(Operation::Sum, numbers)),
            Some((device, _)) => {
                let (from, to) = (device.upload(numbers)?, device.zeros(1)?);
                let sum = Reduce::new(device, Operation::Sum)?;
                let seconds = self.on_device(device, || sum.queue(&from, &to))?;
                (seconds, to.to_vec()?[0])
            }
        };
        Ok((seconds, first_difference(&[found], &[reduce::reduce_reference(Operation::Sum, numbers)])))
    }

    fn scan<T: Number + Display>(&self, numbers: &[T]) -> Result<(Seconds, Option<String>), DeviceError> {
        let kind = scan::ScanKind::Inclusive;
        let on_cpu = |mut sums: Vec<T>| {
            scan::scan_on_cpu(kind, &mut sums);
            sums
        };
        let (seconds, found) = match self.device {
            None => self.on_host(|| numbers.to_vec(), on_cpu),
            Some((device, _)) => {
                let (from, to) = (device.upload(numbers)?, device.zeros(numbers.len())?);
                let mut scan = Scan::new(device, kind)?;
                let seconds = self.on_device(device, || scan.queue(&from, &to))?;
                (seconds, to.to_vec()?)
            }
        };
        let mut right = numbers.to_vec();
        scan::scan_reference(kind, &mut right);
        Ok((seconds, first_difference(&found, &right)))
    }

    fn sort<K: Key + Display>(&self, keys: &[K]) -> Result<(Seconds, Option<String>), DeviceError> {
        let values: Vec<u32> = (0..keys.len()).into_par_iter().map(|i| i as u32).collect();
        let on_cpu = |(mut keys, mut values): (Vec<K>, Vec<u32>)| {
            sort::sort_on_cpu(&mut keys, &mut values);
            (keys, values)
        };
        let (seconds, found) = match self.device {
            None => self.on_host(|| (keys.to_vec(), values.clone()), on_cpu),
            Some((device, _)) => {
                let unsorted = (device.upload(keys)?, device.upload(&values)?);
                let (keys, values) = (device.zeros(keys.len())?, device.zeros(keys.len())?);
                let mut sort = Sort::new(device, keys.len())?;
                let restore = || {
                    device.queue().copy(&unsorted.0, &keys)?;
                    device.queue().copy(&unsorted.1, &values)
                };
                let seconds = self.on_device_restored(device, restore, || sort.queue(&keys, &values))?;
                (seconds, (keys.to_vec()?, values.to_vec()?))
            }
        };
        Ok((seconds, unsorted_place(keys, &found.0, &found.1)))
    }

    fn histogram(&self, bytes: &[u8]) -> Result<(Seconds, Option<String>), DeviceError> {
        let (seconds, found) = match self.device {
            None => self.on_host(|| (), |()| histogram::histogram_on_cpu(bytes).to_vec()),
            Some((device, _)) => {
                let (from, to) = (device.upload(bytes)?, device.zeros(BYTE_BINS)?);
                let histogram = Histogram::new(device)?;
                let seconds = self.on_device(device, || histogram.queue(&from, &to))?;
                (seconds, to.to_vec()?)
            }
        };
        Ok((seconds, first_difference(&found, &histogram::histogram_reference(bytes))))
    }

    /// Times of what may be done again and again.
    fn on_device(
        &self,
        device: &Device,
        mut work: impl FnMut() -> Result<(), DeviceError>,
    ) -> Result<Seconds, DeviceError> {
        let once = timing::once(device, &mut work)?;
        let repeats = self.repeats.unwrap_or_else(|| repeats(once));
        Ok(timing::on_device(device, repeats, once, work)?.into())
    }

    /// Times of what needs its input `restore`d before each run, which lies outside the marks.
    fn on_device_restored(
        &self,
        device: &Device,
        restore: impl Fn() -> Result<(), DeviceError>,
        mut work: impl FnMut() -> Result<(), DeviceError>,
    ) -> Result<Seconds, DeviceError> {
        let queue = device.queue();
        let mut run = || {
            restore()?;
            let before = queue.record()?;
            work()?;
            Ok::<_, DeviceError>((before, queue.record()?))
        };
        run()?;
        let (before, after) = run()?;
        after.wait()?;
        let once = after.seconds_since(&before)?;
        let repeats = self.repeats.unwrap_or_else(|| repeats(once)).max(1);
        let marks = (0..repeats).map(|_| run()).collect::<Result<Vec<_>, _>>()?;
        queue.finish()?;
        let times = marks.iter().map(|(before, after)| after.seconds_since(before));
        Ok(Seconds::of(times.collect::<Result<_, _>>()?))
    }

    /// Wall times, after one that is not counted, and the last result. What is made `fresh` for each run is not timed.
    fn on_host<T, R>(&self, fresh: impl Fn() -> T, work: impl Fn(T) -> R) -> (Seconds, R) {
        let mut result = work(fresh());
        let mut one = |_| {
            let input = fresh();
            let began = Instant::now();
            result = std::hint::black_box(work(input));
            began.elapsed().as_secs_f64()
        };
        let repeats = self.repeats.unwrap_or(REPEATS_ON_CPU).max(1);
        (Seconds::of((0..repeats).map(&mut one).collect()), result)
    }
}

/// `n` elements from well-mixed bits (Steele et al. 2014, SplitMix64).
fn columns<T: Send>(n: usize, element: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let mixed = |index: u64| {
        let mut z = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..n as u64).into_par_iter().map(|index| element(mixed(index))).collect()
}

/// A whole number from -8 to 8.
fn whole(bits: u64) -> f32 {
    (bits % 17) as f32 - 8.0
}

/// The first place where `found` is not `right`, of equal lengths.
fn first_difference<T: PartialEq + Display>(found: &[T], right: &[T]) -> Option<String> {
    let at = found.iter().zip(right).position(|(found, right)| found != right)?;
    Some(format!("result {at} is {}, expected {}", found[at], right[at]))
}

/// The first place that is not as a stable sort of `keys`, whose values were their places, leaves it: every pair one of the
/// pairs there were, and each above the one before, so that none is there twice and none is missing.
fn unsorted_place<K: Key + Display>(keys: &[K], found: &[K], values: &[u32]) -> Option<String> {
    let pair = |i: usize| (found[i], values[i]);
    let is_right =
        |i: usize| keys.get(values[i] as usize) == Some(&found[i]) && (i == 0 || pair(i - 1) < pair(i));
    let at = (0..keys.len()).find(|&i| !is_right(i))?;
    let what = "expected a pair that was given, above the one before";
    Some(format!("pair {at} is ({}, {}), {what}", found[at], values[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_primitive_is_right_and_timed_on_the_processor() {
        let bench = PrimitivesBench::new(None, Some(3)).unwrap();
        for primitive in Primitive::ALL {
            let line = bench.measure(primitive, 20_011).unwrap();
            assert!(line.seconds.fastest > 0.0 && line.seconds.count == 3, "{line:?}");
            assert_eq!(line.share_of_copy(), None, "{line:?}");
        }
    }

    #[test]
    fn and_on_a_device() {
        let Some(device) = crate::test_device() else { return };
        let bench = PrimitivesBench::new(Some(&device), Some(2)).unwrap();
        for (primitive, n) in
            Primitive::ALL.into_iter().flat_map(|primitive| [(primitive, 1), (primitive, 5001)])
        {
            let line = bench.measure(primitive, n).unwrap();
            assert_eq!((line.n, line.seconds.count), (n, 2));
            assert_eq!(line.share_of_copy().is_some(), line.json()["unit"] == "bytes/s", "{line:?}");
        }
    }

    #[test]
    fn rates_count_the_bytes_that_must_move() {
        let seconds = Seconds::of(vec![3.0, 2.0, 1.0]);
        let line = |primitive| Line { primitive, n: 100, seconds, copy: Some(1000.0) };
        assert_eq!(line(Primitive::SumF32).bytes_per_s(), Some(200.0));
        assert_eq!(line(Primitive::ScanU32).share_of_copy(), Some(0.4));
        assert_eq!(line(Primitive::HistogramEqual).bytes_per_s(), Some(50.0));
        let sort = line(Primitive::SortU64).json();
        assert_eq!((sort["rate"].as_f64(), sort["unit"].as_str()), (Some(50.0), Some("keys/s")));
        assert!(sort["share_of_copy"].is_null() && sort["seconds"]["slowest"] == 3.0);
    }

    #[test]
    fn wrong_results_are_found() {
        assert_eq!(first_difference(&[1, 2, 3], &[1, 2, 3]), None);
        assert_eq!(first_difference(&[1, 5, 3], &[1, 2, 3]).unwrap(), "result 1 is 5, expected 2");
        let keys = [5u32, 3, 5];
        assert_eq!(unsorted_place(&keys, &[3, 5, 5], &[1, 0, 2]), None);
        // Out of order, not stable, a pair twice, a pair of another key, a value that was not given.
        assert!(unsorted_place(&keys, &[5, 3, 5], &[0, 1, 2]).unwrap().starts_with("pair 1 is (3, 1), "));
        for values in [[1, 2, 0], [1, 0, 0], [0, 1, 2], [1, 0, 9]] {
            assert!(unsorted_place(&keys, &[3, 5, 5], &values).is_some(), "{values:?}");
        }
    }

    #[test]
    fn a_wrong_result_is_one_line() {
        let wrong = PrimitiveError::Wrong {
            place: "cuda:0 (NVIDIA H200)".to_owned(),
            case: "scan",
            what: "f32",
            n: 10,
            fault: first_difference(&[1.0], &[2.0]).unwrap(),
        };
        assert_eq!(
            wrong.to_string(),
            "cuda:0 (NVIDIA H200): scan of 10 elements (f32): result 0 is 1, expected 2"
        );
    }

    #[test]
    fn sums_of_the_floats_are_exact() {
        let numbers: Vec<f32> = columns(1 << 20, whole);
        let (mut low, mut high, mut sum) = (0i64, 0i64, 0i64);
        for &number in &numbers {
            assert!(number.fract() == 0.0 && number.abs() <= 8.0);
            sum += number as i64;
            (low, high) = (low.min(sum), high.max(sum));
        }
        // A walk of √24 a step: five times what 2^20 of them make on average is 2^14.6.
        assert!(low > -(1 << 15) && high < 1 << 15, "{low} {high}");
    }
}
