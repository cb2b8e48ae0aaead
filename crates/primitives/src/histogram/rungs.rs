//! Ladder of histograms: the steps of a course (slides on CUDA), for bytes in 256 bins, and the
//! production kernel. The course's first two steps have a race, and its third adds atomics. Here
//! all rungs use atomics, so all are correct.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue};

use super::device::expect_bins;
use super::{BYTE_BINS, Histogram};

// SAFETY: the kernel reads n bytes from `first` on and writes 256 counts. The launches pass parts
// of the input that lie within it.
const RUNGS: KernelFile = unsafe { KernelFile::new("rungs.cu", include_str!("rungs.cu")) };
// SAFETY: the kernel accesses 256 counts, and both buffers have as many.
const ADD_PART: KernelFile = unsafe { KernelFile::new("add_part.cu", include_str!("add_part.cu")) };

/// Algorithm of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistogramVariant {
    /// Each thread counts a section of neighbouring bytes.
    Blocked,
    /// Neighbouring threads count neighbouring bytes.
    Interleaved,
    /// Neighbouring threads load neighbouring vectors of 16 bytes.
    WideLoads,
    /// Each block has a table in shared memory.
    Private,
    /// Each warp has a table in shared memory.
    PrivateToWarps,
    /// [`Histogram`]: each lane has a table, which the warps of the block share.
    Production,
}

/// One rung of the ladder.
#[derive(Clone, Debug, PartialEq)]
pub struct Rung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Algorithm.
    pub variant: HistogramVariant,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs, slowest first.
pub fn rungs() -> Vec<Rung> {
    let rung = |name, variant, note| Rung { name, variant, note };
    vec![
        rung(
            "blocked partition",
            HistogramVariant::Blocked,
            "with global atomics; without them, as in the course's first two steps, there is a race",
        ),
        rung(
            "interleaved partition",
            HistogramVariant::Interleaved,
            "byte by byte, with global atomics: the course's third step",
        ),
        rung("16 bytes per load", HistogramVariant::WideLoads, "still global atomics"),
        rung("privatised in shared memory", HistogramVariant::Private, "one table per block"),
        rung("privatised per warp", HistogramVariant::PrivateToWarps, ""),
        rung(
            "privatised per lane",
            HistogramVariant::Production,
            "the production kernel `Histogram`: interleaved tables that warps share, no bank conflicts",
        ),
    ]
}

/// Threads per block.
const BLOCK_SIZE: u32 = 256;
/// Threads per SM.
const THREADS_PER_SM: u32 = 2048;
/// Largest number of bytes per launch: the rungs have 32-bit counters. A multiple of 16.
const BYTES_PER_LAUNCH: u64 = 1 << 31;

/// Histogram on a device with the algorithm of one rung.
#[derive(Debug)]
pub struct RungHistogram {
    device: Device,
    method: Method,
}

#[derive(Debug)]
enum Method {
    Launches { count: Kernel, add_part: Kernel, counts: Buffer<u32> },
    Production(Histogram),
}

impl RungHistogram {
    /// Compiles the rung.
    pub fn new(device: &Device, variant: HistogramVariant) -> Result<Self, DeviceError> {
        // The numbers of RUNG in rungs.cu.
        let rung = match variant {
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
        let definitions = [("RUNG", rung.to_string()), ("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let method = Method::Launches {
            count: device.build(&RUNGS, &definitions, Math::Precise)?.kernel("count")?,
            add_part: device.build(&ADD_PART, &[], Math::Precise)?.kernel("add_part")?,
            counts: device.zeros(BYTE_BINS)?,
        };
        Ok(Self { device: device.clone(), method })
    }

    /// Queues the counting of all bytes of `from` into `to`, which has 256 elements. Does not wait.
    pub fn launch(&self, queue: &Queue, from: &Buffer<u8>, to: &Buffer<u64>) -> Result<(), DeviceError> {
        expect_bins(to, BYTE_BINS)?;
        let (count, add_part, counts) = match &self.method {
            Method::Production(histogram) => return histogram.launch(queue, from, to),
            Method::Launches { count, add_part, counts } => (count, add_part, counts),
        };
        let total = from.len() as u64;
        let resident = u64::from(self.device.properties().sm_count.max(1) * THREADS_PER_SM / BLOCK_SIZE);
        for first in (0..total.max(1)).step_by(BYTES_PER_LAUNCH as usize) {
            let n = (total - first).min(BYTES_PER_LAUNCH);
            let blocks = n.div_ceil(u64::from(BLOCK_SIZE)).clamp(1, resident) as u32;
            queue.launch(count, blocks, BLOCK_SIZE, &[from.into(), first.into(), n.into(), counts.into()])?;
            queue.launch(add_part, 1, 256, &[counts.into(), i32::from(first == 0).into(), to.into()])?;
        }
        Ok(())
    }
}
