//! The ladder of histograms: the steps of a course (slides on CUDA), for bytes in 256 bins, and the production kernel.
//! The course's first two steps race and its third mends them by atomics; here all have them, so that each rung is
//! right.

use orrery_device::{Buffer, Device, DeviceError, Kernel, Math, Source};

use super::device::expect_bins;
use super::{BYTE_BINS, Histogram};

/// How a rung counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistogramVariant {
    /// Every thread has a section of neighbouring bytes.
    Blocked,
    /// Neighbouring threads have neighbouring bytes.
    Interleaved,
    /// Neighbouring threads have neighbouring 16 bytes.
    WideLoads,
    /// Every group has counters in shared memory.
    Private,
    /// Every warp has.
    PrivateToWarps,
    /// [`Histogram`]: every lane has, and the warps of a group share.
    Production,
}

/// A step of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// What is new in it.
    pub name: &'static str,
    /// How it counts.
    pub variant: HistogramVariant,
    /// What a reader should know beside it.
    pub note: &'static str,
}

/// The rungs, from the first to the last.
pub fn rungs() -> Vec<Rung> {
    let rung = |name, variant, note| Rung { name, variant, note };
    vec![
        rung(
            "blocked partition",
            HistogramVariant::Blocked,
            "with global atomics from the start: the course's first two steps race",
        ),
        rung(
            "interleaved partition",
            HistogramVariant::Interleaved,
            "byte by byte, with global atomics: the course's third step",
        ),
        rung("16 bytes a load", HistogramVariant::WideLoads, "global atomics still"),
        rung("privatised in shared memory", HistogramVariant::Private, "a table for each group"),
        rung("privatised per warp", HistogramVariant::PrivateToWarps, ""),
        rung(
            "privatised per lane",
            HistogramVariant::Production,
            "what `Histogram` does: tables side by side that warps share, no bank conflicts",
        ),
    ]
}

/// Threads a group.
const BLOCK_SIZE: u32 = 256;
/// Threads on a multiprocessor.
const RESIDENT: u32 = 2048;
/// Bytes that one launch counts at most, as the rungs' counters have 32 bits. A multiple of 16.
const PART: u64 = 1 << 31;

/// A rung's histogram on a device.
#[derive(Debug)]
pub struct RungHistogram {
    device: Device,
    method: Method,
}

#[derive(Debug)]
enum Method {
    Parts { count: Kernel, add_part: Kernel, counts: Buffer<u32> },
    Production(Histogram),
}

impl RungHistogram {
    /// Builds it.
    pub fn new(device: &Device, variant: HistogramVariant) -> Result<Self, DeviceError> {
        let number = match variant {
            HistogramVariant::Blocked => 1,
            HistogramVariant::Interleaved => 2,
            HistogramVariant::WideLoads => 3,
            HistogramVariant::Private => 4,
            HistogramVariant::PrivateToWarps => 5,
            HistogramVariant::Production => {
                let method = Method::Production(Histogram::new(device)?);
                return Ok(Self { device: device.clone(), method });
            }
        };
        let definitions = [("FORM", number.to_string()), ("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let build =
            |name, text, definitions| device.build(&Source { name, text, definitions, math: Math::Precise });
        let method = Method::Parts {
            count: build("rungs.cu", include_str!("rungs.cu"), &definitions)?.kernel("count")?,
            add_part: build("add_part.cu", include_str!("add_part.cu"), &[])?.kernel("add_part")?,
            counts: device.zeros(BYTE_BINS)?,
        };
        Ok(Self { device: device.clone(), method })
    }

    /// Queues the counting of all of `from` into `to`, which has 256 elements; waits for nothing.
    pub fn queue(&self, from: &Buffer<u8>, to: &Buffer<u64>) -> Result<(), DeviceError> {
        expect_bins(to, BYTE_BINS)?;
        let (count, add_part, counts) = match &self.method {
            Method::Production(histogram) => return histogram.queue(from, to),
            Method::Parts { count, add_part, counts } => (count, add_part, counts),
        };
        let (queue, all) = (self.device.queue(), from.len() as u64);
        let most = u64::from(self.device.properties().sm_count.max(1) * RESIDENT / BLOCK_SIZE);
        for first in (0..all.max(1)).step_by(PART as usize) {
            let n = (all - first).min(PART);
            let groups = n.div_ceil(u64::from(BLOCK_SIZE)).clamp(1, most) as u32;
            queue.launch(count, groups, BLOCK_SIZE, &[from.into(), first.into(), n.into(), counts.into()])?;
            queue.launch(add_part, 1, 256, &[counts.into(), i32::from(first == 0).into(), to.into()])?;
        }
        Ok(())
    }
}
