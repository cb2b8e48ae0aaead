//! Ladder of histograms of bytes in 256 bins: the exact steps of the course, and the production
//! kernel. [`super::letters`] has the course's case, with its races.

use orrery_device::{
    Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, join_sources, kernel_source,
};

use super::part_counts::{CountedPart, PartCounts, rung_block_count};
use super::{BYTE_BINS, Histogram};
use crate::kernel_enum::kernel_enum;

// SAFETY: the kernel reads n bytes from `first` on and writes 256 counts. The launches pass parts
// of the input that lie within it.
const RUNGS: KernelFile = unsafe {
    KernelFile::new("rungs.cu", join_sources!(HistogramVariant::DEFINES, kernel_source!("rungs.cu")))
};

kernel_enum! {
    /// Algorithm of a rung.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum HistogramVariant {
        /// Each thread counts a section of neighbouring bytes.
        Blocked = 1 => "RUNG_BLOCKED",
        /// Neighbouring threads count neighbouring bytes.
        Interleaved = 2 => "RUNG_INTERLEAVED",
        /// Neighbouring threads load neighbouring vectors of 16 bytes.
        WideLoads = 3 => "RUNG_WIDE_LOADS",
        /// Each block has a table in shared memory.
        Private = 4 => "RUNG_TABLE_PER_BLOCK",
        /// Each warp has a table in shared memory.
        PrivateToWarps = 5 => "RUNG_TABLE_PER_WARP",
        /// [`Histogram`]: each lane has a table, which the warps of the block share.
        Production = 6 => "RUNG_PRODUCTION",
    }
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Algorithm.
    pub variant: HistogramVariant,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs, slowest first.
pub fn rungs() -> Vec<HistogramRung> {
    let rung = |name, variant, note| HistogramRung { name, variant, note };
    vec![
        rung("bytes: sections", HistogramVariant::Blocked, "256 bins, with global atomics"),
        rung("bytes: interleaved", HistogramVariant::Interleaved, "byte by byte, with global atomics"),
        rung("bytes: 16 per load", HistogramVariant::WideLoads, "still global atomics"),
        rung("bytes: privatised", HistogramVariant::Private, "one table per block"),
        rung("bytes: privatised per warp", HistogramVariant::PrivateToWarps, ""),
        rung(
            "bytes: privatised per lane",
            HistogramVariant::Production,
            "the production kernel `Histogram`: interleaved tables that warps share, no bank conflicts",
        ),
    ]
}

/// Threads per block.
const BLOCK_SIZE: u32 = 256;

/// Histogram on a device with the algorithm of one rung.
#[derive(Debug)]
pub struct RungHistogram {
    device: Device,
    method: HistogramMethod,
}

#[derive(Debug)]
enum HistogramMethod {
    Launches { kernel: Kernel, counts: PartCounts },
    Production(Histogram),
}

impl RungHistogram {
    /// Compiles the rung.
    pub fn new(device: &Device, variant: HistogramVariant) -> Result<Self, DeviceError> {
        if variant == HistogramVariant::Production {
            let method = HistogramMethod::Production(Histogram::new(device)?);
            return Ok(Self { device: device.clone(), method });
        }
        let definitions =
            [("RUNG", variant.kernel_name().to_owned()), ("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let method = HistogramMethod::Launches {
            kernel: device.build(&RUNGS, &definitions, Math::Precise)?.kernel("count")?,
            counts: PartCounts::new(device, BYTE_BINS)?,
        };
        Ok(Self { device: device.clone(), method })
    }

    /// Queues the counting of all bytes of `from` into `to`, which has 256 elements. Does not wait.
    pub fn launch(&self, queue: &Queue, from: &Buffer<u8>, to: &Buffer<u64>) -> Result<(), DeviceError> {
        let (kernel, counts) = match &self.method {
            HistogramMethod::Production(histogram) => return histogram.launch(queue, from, to),
            HistogramMethod::Launches { kernel, counts } => (kernel, counts),
        };
        counts.count_parts(queue, from.len() as u64, to, |CountedPart { first, n }, counts| {
            let blocks = rung_block_count(&self.device, BLOCK_SIZE, n);
            queue.launch(kernel, blocks, BLOCK_SIZE, &[from.into(), first.into(), n.into(), counts.into()])
        })
    }
}
