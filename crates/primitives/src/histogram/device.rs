//! The histogram of bytes on a device; see `bytes.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, Math, Source};

use super::BYTE_BINS;

/// Counts on a device that the last group to arrive hands over; see `counts.cu`.
#[derive(Debug)]
pub(super) struct Counts {
    /// Two words a bin; 0 between launches.
    pub(super) words: Buffer<u32>,
    /// Groups that have added theirs; 0 between launches.
    pub(super) arrived: Buffer<u32>,
    /// For those who wait.
    pub(super) result: Buffer<u64>,
}

impl Counts {
    pub(super) fn new(device: &Device, bins: usize) -> Result<Self, DeviceError> {
        Ok(Self { words: device.zeros(2 * bins)?, arrived: device.zeros(1)?, result: device.zeros(bins)? })
    }
}

/// Fails unless `to` has a count for every bin.
pub(super) fn expect_bins(to: &Buffer<u64>, bins: usize) -> Result<(), DeviceError> {
    if to.len() == bins {
        return Ok(());
    }
    Err(DeviceError::Length { device: to.device().title(), expected: bins, got: to.len() })
}

/// Groups for `n` values: as many as fill the device, and no more than `worthwhile`, but as many as their counters need.
pub(super) fn groups(device: &Device, kernel: &Kernel, block: u32, n: u64, worthwhile: u64) -> u32 {
    let blocks_per_sm = kernel.blocks_per_sm(block).unwrap_or(4).max(1);
    let most = device.properties().sm_count.max(1) * blocks_per_sm;
    worthwhile.clamp(1, u64::from(most)).max(least_groups(n)) as u32
}

/// So many that none has 2^32 values, which its counters of 32 bits could not count.
fn least_groups(n: u64) -> u64 {
    n >> 31
}

/// A histogram of bytes that is built for a device and can be queued again and again. Those of one `Histogram` follow each
/// other on the device's own queue.
#[derive(Debug)]
pub struct Histogram {
    device: Device,
    kernel: Kernel,
    pub(super) counts: Counts,
}

/// Threads a group.
const BLOCK_SIZE: u32 = 256;
/// Loads of 16 bytes that a thread has under way at once.
const IN_FLIGHT: u32 = 4;
/// One for each lane.
const MOST_TABLES: u32 = 32;

/// Tables, a power of two of them for the banks' sake, that so much local memory has room for beside a few words; 0 says
/// that it is not known.
fn tables(shared_bytes: u64) -> u32 {
    let fit = shared_bytes.saturating_sub(64) / (4 * BYTE_BINS as u64);
    if shared_bytes == 0 { MOST_TABLES } else { 1 << fit.clamp(1, u64::from(MOST_TABLES)).ilog2() }
}

/// Groups for `n` bytes, but for what the device can hold: each has its threads busy once, and where there are more than
/// two for each multiprocessor, several times. A group's sums are 256 additions that all groups want to make: 2^24
/// random bytes took 18.8 µs by 660 groups of 256 threads on an H200, and 14.0 by 132 of 1024.
fn worthwhile(n: u64, multiprocessors: u32) -> u64 {
    let once = n.div_ceil(16 * u64::from(BLOCK_SIZE * IN_FLIGHT));
    once.min(2 * u64::from(multiprocessors)).max(once / 4)
}

impl Histogram {
    /// Builds the kernel.
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        Self::with_tables(device, tables(device.properties().shared_bytes))
    }

    pub(super) fn with_tables(device: &Device, tables: u32) -> Result<Self, DeviceError> {
        let definitions = [
            ("BINS", BYTE_BINS.to_string()),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("IN_FLIGHT", IN_FLIGHT.to_string()),
            ("TABLES", format!("{tables}u")),
        ];
        let text = concat!(include_str!("counts.cu"), "#line 1 \"bytes.cu\"\n", include_str!("bytes.cu"));
        let source = Source { name: "counts.cu", text, definitions: &definitions, math: Math::Precise };
        Ok(Self {
            kernel: device.build(&source)?.kernel("count_bytes")?,
            counts: Counts::new(device, BYTE_BINS)?,
            device: device.clone(),
        })
    }

    /// Queues the counting of all of `from` into `to`, which has 256 elements; waits for nothing.
    pub fn queue(&self, from: &Buffer<u8>, to: &Buffer<u64>) -> Result<(), DeviceError> {
        expect_bins(to, BYTE_BINS)?;
        let n = from.len() as u64;
        let worthwhile = worthwhile(n, self.device.properties().sm_count);
        let groups = groups(&self.device, &self.kernel, BLOCK_SIZE, n, worthwhile);
        let Counts { words, arrived, .. } = &self.counts;
        let args = [from.into(), n.into(), words.into(), arrived.into(), to.into()];
        self.device.queue().launch(&self.kernel, groups, BLOCK_SIZE, &args)
    }

    /// The counts of all of `from`, waited for.
    pub fn count(&self, from: &Buffer<u8>) -> Result<Vec<u64>, DeviceError> {
        self.queue(from, &self.counts.result)?;
        self.counts.result.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group has its share and, as threads take 16 bytes each at a time, at most one such row and 15 bytes more.
    #[test]
    fn no_group_has_more_than_its_counters_hold() {
        let more = 16 * u64::from(BLOCK_SIZE) + 15;
        for n in (31..40).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1, 3 << (power - 1)])
        {
            let groups = least_groups(n).max(1);
            let most = if groups == 1 { n } else { n / groups + more };
            assert!(most <= u64::from(u32::MAX), "{n} bytes");
        }
    }

    #[test]
    fn few_groups_for_few_bytes() {
        let groups = |power: u32| worthwhile(1 << power, 132);
        assert_eq!([0, 14, 20, 22, 24, 28].map(groups), [1, 1, 64, 256, 264, 4096]);
    }

    #[test]
    fn tables_are_as_many_as_fit() {
        assert_eq!(tables(0), 32);
        assert_eq!(tables(48 << 10), 32);
        assert_eq!(tables(32 << 10), 16);
        assert_eq!(tables(16 << 10), 8);
        assert_eq!(tables(1000), 1);
    }
}
