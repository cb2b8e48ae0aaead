//! Histogram of bytes on a device: compiles and launches `bytes.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, kernel_source};

use super::BYTE_BINS;

// SAFETY: the kernel reads n bytes and writes one count per bin. The launch passes the length of
// the input as n, and `expect_bins` checks the output.
const BYTES: KernelFile = unsafe { KernelFile::new("bytes.cu", kernel_source!("counts.cu", "bytes.cu")) };

/// Counts on a device, which the last block of a launch copies to the result (`counts.cu`).
#[derive(Debug)]
pub(super) struct DeviceCounts {
    /// Two 32-bit words per bin, low word first. 0 between launches.
    pub(super) words: Buffer<u32>,
    /// Number of blocks that have added their counts. 0 between launches.
    pub(super) arrived: Buffer<u32>,
    /// Target of `count`: one count per bin.
    pub(super) result: Buffer<u64>,
}

impl DeviceCounts {
    pub(super) fn new(device: &Device, bins: usize) -> Result<Self, DeviceError> {
        Ok(Self { words: device.zeros(2 * bins)?, arrived: device.zeros(1)?, result: device.zeros(bins)? })
    }

    /// Waits for the queue and returns the result.
    pub(super) fn read(&self, queue: &Queue) -> Result<Vec<u64>, DeviceError> {
        let mut counts = vec![0; self.result.len()];
        queue.read(&self.result, &mut counts)?;
        Ok(counts)
    }
}

/// Checks that `to` has one element per bin.
pub(super) fn expect_bins(to: &Buffer<u64>, bins: usize) -> Result<(), DeviceError> {
    if to.len() == bins {
        return Ok(());
    }
    Err(DeviceError::Length { device: to.device().title(), expected: bins, got: to.len() })
}

/// Returns the number of blocks for `n` values: as many as fill the device, but not more than
/// `useful`. At least [`min_block_count`].
pub(super) fn block_count(kernel: &Kernel, block_size: u32, n: u64, useful: u64) -> u32 {
    useful.clamp(1, u64::from(kernel.resident_blocks(block_size))).max(min_block_count(n)) as u32
}

/// Returns the smallest number of blocks for which no block counts 2^32 values, the limit of its
/// 32-bit counters.
fn min_block_count(n: u64) -> u64 {
    n >> 31
}

/// A histogram of bytes that is compiled for a device and can be launched many times.
///
/// All launches of one `Histogram` share its buffers, so they must be queued on one queue, or on
/// several queues that wait for each other's events.
#[derive(Debug)]
pub struct Histogram {
    device: Device,
    kernel: Kernel,
    pub(super) counts: DeviceCounts,
}

/// Threads per block.
const BLOCK_SIZE: u32 = 256;
/// Loads of 16 bytes that a thread issues before it counts the first.
const LOADS_IN_FLIGHT: u32 = 4;
/// Tables per block: one per lane of a warp.
const MAX_TABLES: u32 = 32;

/// Launch parameters of a histogram of bytes. They do not change the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HistogramStrategy {
    /// Tables of counters per block, a power of two up to 32. A device with too little shared
    /// memory has fewer.
    pub tables: u32,
}

impl HistogramStrategy {
    /// Strategies that `orrery bench primitives --candidates` measures. The first one is the
    /// default.
    pub const CANDIDATES: [Self; 3] = [Self { tables: MAX_TABLES }, Self { tables: 16 }, Self { tables: 8 }];

    /// Returns a short name, for example `32 tables`.
    pub fn name(&self) -> String {
        format!("{} tables", self.tables)
    }
}

/// Returns the number of tables that fit in shared memory next to a few other words. It is a power
/// of two, to avoid bank conflicts. `shared_bytes` = 0 means that the size of shared memory is
/// unknown.
fn table_count(shared_bytes: u64) -> u32 {
    let fit = shared_bytes.saturating_sub(64) / (4 * BYTE_BINS as u64);
    if shared_bytes == 0 { MAX_TABLES } else { 1 << fit.clamp(1, u64::from(MAX_TABLES)).ilog2() }
}

/// Returns the useful number of blocks for `n` bytes, without regard to how many the device can
/// hold. Each block has at least one full round of loads, and several if there are more than two
/// blocks per SM. More blocks are slower, because each adds its 256 counts to the same global
/// counters: 2^24 random bytes took 18.8 µs with 660 blocks of 256 threads on an H200, and 14.0 µs
/// with 132 blocks of 1024.
fn useful_block_count(n: u64, sm_count: u32) -> u64 {
    let one_round = n.div_ceil(16 * u64::from(BLOCK_SIZE * LOADS_IN_FLIGHT));
    one_round.min(2 * u64::from(sm_count)).max(one_round / 4)
}

impl Histogram {
    /// Compiles the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Self::with_strategy(device, HistogramStrategy::CANDIDATES[0])
    }

    /// Compiles the kernel for the given strategy.
    pub fn with_strategy(device: &Device, strategy: HistogramStrategy) -> Result<Self, DeviceError> {
        let tables = strategy.tables.min(table_count(device.properties().shared_bytes));
        let definitions = [
            ("BINS", BYTE_BINS.to_string()),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("LOADS_IN_FLIGHT", LOADS_IN_FLIGHT.to_string()),
            ("TABLES", format!("{tables}u")),
        ];
        Ok(Self {
            kernel: device.build(&BYTES, &definitions, Math::Precise)?.kernel("count_bytes")?,
            counts: DeviceCounts::new(device, BYTE_BINS)?,
            device: device.clone(),
        })
    }

    /// Queues the counting of all bytes of `from` into `to`, which has 256 elements. Does not wait.
    pub fn launch(&self, queue: &Queue, from: &Buffer<u8>, to: &Buffer<u64>) -> Result<(), DeviceError> {
        expect_bins(to, BYTE_BINS)?;
        let n = from.len() as u64;
        let useful = useful_block_count(n, self.device.properties().sm_count);
        let blocks = block_count(&self.kernel, BLOCK_SIZE, n, useful);
        let DeviceCounts { words, arrived, .. } = &self.counts;
        let args = [from.into(), n.into(), words.into(), arrived.into(), to.into()];
        queue.launch(&self.kernel, blocks, BLOCK_SIZE, &args)
    }

    /// Counts all bytes of `from`, waits for the result and returns it: 256 counts.
    pub fn count(&self, queue: &Queue, from: &Buffer<u8>) -> Result<Vec<u64>, DeviceError> {
        self.launch(queue, from, &self.counts.result)?;
        self.counts.read(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads take 16 bytes at a time, so a block has at most one row of such loads and 15 bytes
    /// more than its share.
    #[test]
    fn no_block_counts_more_than_its_counters_can_store() {
        let more = 16 * u64::from(BLOCK_SIZE) + 15;
        for n in (31..40).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1, 3 << (power - 1)])
        {
            let blocks = min_block_count(n).max(1);
            let largest = if blocks == 1 { n } else { n / blocks + more };
            assert!(largest <= u64::from(u32::MAX), "{n} bytes");
        }
    }

    #[test]
    fn few_bytes_use_few_blocks() {
        let blocks = |power: u32| useful_block_count(1 << power, 132);
        assert_eq!([0, 14, 20, 22, 24, 28].map(blocks), [1, 1, 64, 256, 264, 4096]);
    }

    #[test]
    fn table_count_is_the_largest_power_of_two_that_fits() {
        assert_eq!(table_count(0), 32);
        assert_eq!(table_count(48 << 10), 32);
        assert_eq!(table_count(32 << 10), 16);
        assert_eq!(table_count(16 << 10), 8);
        assert_eq!(table_count(1000), 1);
    }
}
