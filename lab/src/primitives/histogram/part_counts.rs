//! Counters of the ladder's rungs. A rung counts a part of the input in 32-bit counters, which the
//! part is too short to overflow. `add_part.cu` then adds them to 64-bit totals and clears them.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue};

use super::device::expect_bins;

// SAFETY: the kernel accesses `bins` elements of both buffers, and `count_parts` passes the length
// of both.
const ADD_PART: KernelFile = unsafe { KernelFile::new("add_part.cu", include_str!("add_part.cu")) };

/// Threads per block of `add_part.cu`.
const ADD_BLOCK_SIZE: u32 = 256;
/// Threads per SM.
const THREADS_PER_SM: u32 = 2048;
/// Largest number of values per launch. A multiple of 16.
const VALUES_PER_LAUNCH: u64 = 1 << 31;

/// Part of the input that one launch counts: `n` values from `first` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedPart {
    pub(super) first: u64,
    pub(super) n: u64,
}

/// Counters of one launch.
#[derive(Debug)]
pub(super) struct PartCounts {
    add_part: Kernel,
    /// One counter per bin. 0 between launches.
    counts: Buffer<u32>,
}

impl PartCounts {
    pub(super) fn new(device: &Device, bins: usize) -> Result<Self, DeviceError> {
        let add_part = device.build(&ADD_PART, &[], Math::Precise)?.kernel("add_part")?;
        Ok(Self { add_part, counts: device.zeros(bins)? })
    }

    /// Calls `queue_count` for every part of `total` values, with the counters that it increments,
    /// and queues the addition of the counters to `to`, which has one element per bin. Does not
    /// wait.
    pub(super) fn count_parts(
        &self,
        queue: &Queue,
        total: u64,
        to: &Buffer<u64>,
        queue_count: impl Fn(CountedPart, &Buffer<u32>) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let bins = self.counts.len();
        expect_bins(to, bins)?;
        for first in (0..total.max(1)).step_by(VALUES_PER_LAUNCH as usize) {
            queue_count(CountedPart { first, n: (total - first).min(VALUES_PER_LAUNCH) }, &self.counts)?;
            let args = [(&self.counts).into(), (bins as u32).into(), i32::from(first == 0).into(), to.into()];
            let blocks = (bins as u32).div_ceil(ADD_BLOCK_SIZE);
            queue.launch(&self.add_part, blocks, ADD_BLOCK_SIZE, &args)?;
        }
        Ok(())
    }
}

/// Returns the number of blocks of a rung for `n` values: one value per thread, but not more
/// threads than the device can hold.
pub(super) fn rung_block_count(device: &Device, block_size: u32, n: u64) -> u32 {
    let resident = u64::from((device.properties().sm_count.max(1) * THREADS_PER_SM).div_ceil(block_size));
    n.div_ceil(u64::from(block_size)).clamp(1, resident) as u32
}
