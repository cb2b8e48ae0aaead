//! Floats in equal bins:  h(b) = #{i : low ≤ xᵢ < high, bin(xᵢ) = b}  with  bin(x) = min(⌊(x − low) · s⌋, count − 1)
//! and s = count / (high − low), each step rounded to f32. A value within a rounding of an edge between bins may so be
//! counted in the neighbour, but in the same one by [`binned_reference`], [`binned_on_cpu`] and [`BinnedHistogram`]. Values outside, and
//! NaN, are not counted.

use std::fmt;

use orrery_device::{Buffer, Device, DeviceError, Kernel, Math, Source};
use rayon::prelude::*;

use super::device::{Counts, expect_bins, groups};

/// The most bins that a device's groups have room for.
pub const MAX_BINS: u32 = 4096;

/// Equal bins over [low, high).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bins {
    low: f32,
    high: f32,
    count: u32,
    scale: f32,
}

/// Bins that cannot be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BinsError {
    /// No range of floats, or one whose width, or what it takes to divide it, is no float.
    Range {
        /// The lower end.
        low: f32,
        /// The upper end.
        high: f32,
    },
    /// None or too many.
    Count {
        /// How many.
        got: u32,
    },
}

impl fmt::Display for BinsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { low, high } => {
                write!(
                    f,
                    "bins over [{low:?}, {high:?}): expected low < high, with high - low a float that bins divide"
                )
            }
            Self::Count { got } => write!(f, "{got} bins: expected 1 to {MAX_BINS}"),
        }
    }
}

impl std::error::Error for BinsError {}

impl Bins {
    /// `count` of them.
    pub fn new(low: f32, high: f32, count: u32) -> Result<Self, BinsError> {
        if !(1..=MAX_BINS).contains(&count) {
            return Err(BinsError::Count { got: count });
        }
        let width = high - low;
        let scale = count as f32 / width;
        if low < high && width.is_finite() && scale.is_finite() {
            return Ok(Self { low, high, count, scale });
        }
        Err(BinsError::Range { low, high })
    }

    /// How many.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Where a value is counted, if it is.
    pub fn bin(&self, value: f32) -> Option<usize> {
        let is_inside = value >= self.low && value < self.high;
        is_inside.then(|| (((value - self.low) * self.scale) as u32).min(self.count - 1) as usize)
    }
}

/// One after the other: what the counts mean.
pub fn binned_reference(bins: &Bins, values: &[f32]) -> Vec<u64> {
    let mut counts = vec![0; bins.count as usize];
    for bin in values.iter().filter_map(|&value| bins.bin(value)) {
        counts[bin] += 1;
    }
    counts
}

/// Values that one thread takes at a time.
const A_THREAD: usize = 1 << 18;

/// On all cores.
pub fn binned_on_cpu(bins: &Bins, values: &[f32]) -> Vec<u64> {
    let sum = |mut a: Vec<u64>, b: Vec<u64>| {
        for (a, b) in a.iter_mut().zip(b) {
            *a += b;
        }
        a
    };
    let none = || vec![0; bins.count as usize];
    values.par_chunks(A_THREAD).map(|block| binned_reference(bins, block)).reduce(none, sum)
}

/// A histogram of floats that is built for a device and its bins and can be queued again and again. Those of one
/// `BinnedHistogram` follow each other on the device's own queue.
#[derive(Debug)]
pub struct BinnedHistogram {
    device: Device,
    kernel: Kernel,
    bins: Bins,
    counts: Counts,
}

/// Threads a group.
const BLOCK_SIZE: u32 = 512;
/// Counters in a group's shared memory at most: 32 KiB.
const COUNTERS: u32 = 8192;

impl BinnedHistogram {
    /// Builds the kernel.
    pub fn new(device: &Device, bins: Bins) -> Result<Self, DeviceError> {
        let definitions = [
            ("BINS", bins.count.to_string()),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("COPIES", (COUNTERS / bins.count).clamp(1, BLOCK_SIZE / 32).to_string()),
        ];
        let text = concat!(include_str!("counts.cu"), "#line 1 \"binned.cu\"\n", include_str!("binned.cu"));
        let source = Source { name: "counts.cu", text, definitions: &definitions, math: Math::Precise };
        Ok(Self {
            kernel: device.build(&source)?.kernel("count_floats")?,
            counts: Counts::new(device, bins.count as usize)?,
            bins,
            device: device.clone(),
        })
    }

    /// Queues the counting of all of `from` into `to`, which has an element for each bin; waits for nothing.
    pub fn queue(&self, from: &Buffer<f32>, to: &Buffer<u64>) -> Result<(), DeviceError> {
        let Bins { low, high, count, scale } = self.bins;
        expect_bins(to, count as usize)?;
        let n = from.len() as u64;
        let worthwhile = n.div_ceil(16 * u64::from(BLOCK_SIZE));
        let groups = groups(&self.device, &self.kernel, BLOCK_SIZE, n, worthwhile);
        let Counts { words, arrived, .. } = &self.counts;
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
        self.device.queue().launch(&self.kernel, groups, BLOCK_SIZE, &args)
    }

    /// The counts of all of `from`, waited for.
    pub fn count(&self, from: &Buffer<f32>) -> Result<Vec<u64>, DeviceError> {
        self.queue(from, &self.counts.result)?;
        self.counts.result.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_belong_to_the_bin_above() {
        let bins = Bins::new(-1.0, 1.0, 4).unwrap();
        let at = |value| bins.bin(value);
        assert_eq!([at(-1.0), at(-0.5), at(0.0), at(0.5)], [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!([at(1.0), at(-1.1), at(f32::NAN), at(f32::INFINITY)], [None; 4]);
        assert_eq!(at(1.0f32.next_down()), Some(3));
        assert_eq!(binned_reference(&bins, &[-0.9, 0.1, 0.2, 5.0]), [1, 0, 2, 0]);
    }

    #[test]
    fn bad_bins_are_refused_in_one_line() {
        let word = |low, high, count| Bins::new(low, high, count).unwrap_err().to_string();
        assert_eq!(word(0.0, 1.0, 0), "0 bins: expected 1 to 4096");
        assert_eq!(word(0.0, 1.0, 4097), "4097 bins: expected 1 to 4096");
        for (low, high) in [
            (1.0, 1.0),
            (2.0, 1.0),
            (f32::NAN, 1.0),
            (f32::MIN, f32::MAX),
            (0.0, f32::INFINITY),
            (0.0, 1e-44),
        ] {
            assert!(word(low, high, 8).starts_with("bins over ["), "{low} {high}");
        }
    }
}
