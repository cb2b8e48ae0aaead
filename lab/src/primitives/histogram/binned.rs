//! Histogram of floats in equal bins:
//!
//!   h(b) = #{i : low ≤ xᵢ < high, bin(xᵢ) = b}
//!   bin(x) = min(⌊(x − low) · s⌋, count − 1)  with  s = count / (high − low)
//!
//! Each operation is rounded to f32. A value next to the edge of a bin may therefore be counted in
//! the neighbouring bin. [`binned_reference`], [`binned_on_cpu`] and [`BinnedHistogram`] all count
//! it in the same bin. Values outside the range, and NaN, are not counted.

use std::fmt;

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, kernel_source};
use rayon::prelude::*;

use super::device::{DeviceCounts, block_count, expect_bins};

// SAFETY: the kernel reads n values and writes one count per bin. The launch passes the length of
// the input as n, and `expect_bins` checks the output.
const BINNED: KernelFile = unsafe { KernelFile::new("binned.cu", kernel_source!("counts.cu", "binned.cu")) };

/// Largest number of bins. They must fit in the shared memory of a block.
pub const MAX_BINS: u32 = 4096;

/// Equal bins over [low, high), for example 100 bins over [0, 1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatBins {
    low: f32,
    high: f32,
    count: u32,
    scale: f32,
}

/// Error of [`FloatBins::new`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FloatBinsError {
    /// The range is empty or NaN, or its width or scale is not finite.
    Range {
        /// The lower end.
        low: f32,
        /// The upper end.
        high: f32,
    },
    /// The number of bins is 0 or too large.
    Count {
        /// Number of bins.
        got: u32,
    },
}

impl fmt::Display for FloatBinsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { low, high } => {
                write!(
                    f,
                    "bins over [{low:?}, {high:?}): expected low < high, with high - low and the number of bins per unit finite"
                )
            }
            Self::Count { got } => write!(f, "{got} bins: expected 1 to {MAX_BINS}"),
        }
    }
}

impl std::error::Error for FloatBinsError {}

impl FloatBins {
    /// Creates `count` bins, 1 to [`MAX_BINS`].
    pub fn new(low: f32, high: f32, count: u32) -> Result<Self, FloatBinsError> {
        if !(1..=MAX_BINS).contains(&count) {
            return Err(FloatBinsError::Count { got: count });
        }
        let width = high - low;
        let scale = count as f32 / width;
        if low < high && width.is_finite() && scale.is_finite() {
            return Ok(Self { low, high, count, scale });
        }
        Err(FloatBinsError::Range { low, high })
    }

    /// Returns the number of bins.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the bin of a value, or None if it is outside the range or NaN.
    pub fn bin(&self, value: f32) -> Option<usize> {
        let is_inside = value >= self.low && value < self.high;
        is_inside.then(|| (((value - self.low) * self.scale) as u32).min(self.count - 1) as usize)
    }
}

/// Reference implementation: counts one value after the other. Returns one count per bin.
pub fn binned_reference(bins: &FloatBins, values: &[f32]) -> Vec<u64> {
    let mut counts = vec![0; bins.count as usize];
    for bin in values.iter().filter_map(|&value| bins.bin(value)) {
        counts[bin] += 1;
    }
    counts
}

/// Values per task of the thread pool.
const CHUNK_LEN: usize = 1 << 18;

/// Counts on all CPU cores. Returns one count per bin.
pub fn binned_on_cpu(bins: &FloatBins, values: &[f32]) -> Vec<u64> {
    let sum = |mut a: Vec<u64>, b: Vec<u64>| {
        for (a, b) in a.iter_mut().zip(b) {
            *a += b;
        }
        a
    };
    let none = || vec![0; bins.count as usize];
    values.par_chunks(CHUNK_LEN).map(|chunk| binned_reference(bins, chunk)).reduce(none, sum)
}

/// A histogram of floats that is compiled for a device and given bins and can be launched many
/// times.
///
/// All launches of one `BinnedHistogram` share its buffers, so they must be queued on one queue, or
/// on several queues that wait for each other's events.
#[derive(Debug)]
pub struct BinnedHistogram {
    kernel: Kernel,
    bins: FloatBins,
    counts: DeviceCounts,
}

/// Threads per block.
const BLOCK_SIZE: u32 = 512;
/// Largest number of counters per block: 32 KiB of shared memory.
const MAX_COUNTERS: u32 = 8192;

impl BinnedHistogram {
    /// Compiles the kernel.
    pub fn new(device: &Device, bins: FloatBins) -> Result<Self, DeviceError> {
        let definitions = [
            ("BINS", bins.count.to_string()),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("TABLES", (MAX_COUNTERS / bins.count).clamp(1, BLOCK_SIZE / 32).to_string()),
        ];
        Ok(Self {
            kernel: device.build(&BINNED, &definitions, Math::Precise)?.kernel("count_floats")?,
            counts: DeviceCounts::new(device, bins.count as usize)?,
            bins,
        })
    }

    /// Queues the counting of all values of `from` into `to`, which has one element per bin. Does
    /// not wait.
    pub fn launch(&self, queue: &Queue, from: &Buffer<f32>, to: &Buffer<u64>) -> Result<(), DeviceError> {
        let FloatBins { low, high, count, scale } = self.bins;
        expect_bins(to, count as usize)?;
        let n = from.len() as u64;
        let useful = n.div_ceil(16 * u64::from(BLOCK_SIZE));
        let blocks = block_count(&self.kernel, BLOCK_SIZE, n, useful);
        let DeviceCounts { words, arrived, .. } = &self.counts;
        let args = [
            from.into(),
            n.into(),
            low.into(),
            high.into(),
            scale.into(),
            words.into(),
            arrived.into(),
            to.into(),
        ];
        queue.launch(&self.kernel, blocks, BLOCK_SIZE, &args)
    }

    /// Counts all values of `from`, waits for the result and returns it: one count per bin.
    pub fn count(&self, queue: &Queue, from: &Buffer<f32>) -> Result<Vec<u64>, DeviceError> {
        self.launch(queue, from, &self.counts.result)?;
        self.counts.read(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_belongs_to_the_bin_above_it() {
        let bins = FloatBins::new(-1.0, 1.0, 4).unwrap();
        let at = |value| bins.bin(value);
        assert_eq!([at(-1.0), at(-0.5), at(0.0), at(0.5)], [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!([at(1.0), at(-1.1), at(f32::NAN), at(f32::INFINITY)], [None; 4]);
        assert_eq!(at(1.0f32.next_down()), Some(3));
        assert_eq!(binned_reference(&bins, &[-0.9, 0.1, 0.2, 5.0]), [1, 0, 2, 0]);
    }

    #[test]
    fn invalid_bins_give_an_error() {
        let message = |low, high, count| FloatBins::new(low, high, count).unwrap_err().to_string();
        assert_eq!(message(0.0, 1.0, 0), "0 bins: expected 1 to 4096");
        assert_eq!(message(0.0, 1.0, 4097), "4097 bins: expected 1 to 4096");
        for (low, high) in [
            (1.0, 1.0),
            (2.0, 1.0),
            (f32::NAN, 1.0),
            (f32::MIN, f32::MAX),
            (0.0, f32::INFINITY),
            (0.0, 1e-44),
        ] {
            assert!(message(low, high, 8).starts_with("bins over ["), "{low} {high}");
        }
    }
}
