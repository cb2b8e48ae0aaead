//! Histogram of 16-bit values:  h(b) = #{i : xᵢ = b},  b = 0 ... 65,535
//!
//! 65,536 counters of 4 bytes do not fit in the shared memory of a block. The course's answer is a
//! partially private histogram: bins below a limit have counters in shared memory, and a range test
//! sends all other values to global memory. It pays if most values are below the limit.

use orrery_device::{Backend, Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue};

use super::part_counts::{CountedPart, PartCounts, rung_block_count};

// SAFETY: the kernel reads n values from `first` on, increments WIDE_BINS counters, and accesses
// `private_bins` counters of shared memory. The launches pass parts of the input that lie within it
// and as many counters, and `WideHistogram::new` requests that much shared memory.
const WIDE: KernelFile = unsafe { KernelFile::new("wide.cu", include_str!("wide.cu")) };

/// Number of bins: one per 16-bit value.
pub const WIDE_BINS: usize = 1 << 16;

/// Reference implementation: counts one value after the other. Returns one count per bin.
pub fn wide_reference(values: &[u16]) -> Vec<u64> {
    let mut counts = vec![0; WIDE_BINS];
    for &value in values {
        counts[usize::from(value)] += 1;
    }
    counts
}

/// Private bins of the rung of the ladder: 32 KiB of shared memory, which every device has.
pub const DEFAULT_PRIVATE_BINS: u32 = 8192;

/// One rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideRung {
    /// Name: the change from the previous rung.
    pub name: &'static str,
    /// Number of bins with counters in shared memory.
    pub private_bins: u32,
    /// Note for the reader of the table. May be empty.
    pub note: &'static str,
}

/// Returns the rungs, slowest first.
pub fn rungs() -> Vec<WideRung> {
    vec![
        WideRung {
            name: "65,536 bins: atomics",
            private_bins: 0,
            note: "16-bit values; small ones are more frequent: 2^(16 u) with uniform u",
        },
        WideRung {
            name: "65,536 bins: partly privatised",
            private_bins: DEFAULT_PRIVATE_BINS,
            note: "bins below 8,192 in shared memory, which have 81% of the random values",
        },
    ]
}

/// Largest number of threads per block.
const MAX_BLOCK_SIZE: u32 = 1024;

/// Histogram of 16-bit values on a device, with private counters for small values.
#[derive(Debug)]
pub struct WideHistogram {
    device: Device,
    kernel: Kernel,
    block_size: u32,
    private_bins: u32,
    counts: PartCounts,
}

impl WideHistogram {
    /// Returns whether a block can have so many private bins.
    pub fn fits(device: &Device, private_bins: u32) -> bool {
        let properties = device.properties();
        // With CUDA, dynamic shared memory may exceed the limit for declared arrays. It is 227 KiB
        // on the GPUs of data centres since Hopper.
        let has_more = properties.backend == Backend::Cuda
            && properties.capability.is_some_and(|(major, _)| [9, 10].contains(&major));
        let shared_bytes = if has_more { 227 << 10 } else { properties.shared_bytes };
        4 * u64::from(private_bins) <= shared_bytes
    }

    /// Compiles the kernel. Bins below `private_bins` have counters in shared memory.
    pub fn new(device: &Device, private_bins: u32) -> Result<Self, DeviceError> {
        let block_size = device.properties().max_block_size.min(MAX_BLOCK_SIZE);
        let definitions = [("BLOCK_SIZE", block_size.to_string())];
        let module = device.build(&WIDE, &definitions, Math::Precise)?;
        Ok(Self {
            kernel: module.kernel_with_shared("count_wide", 4 * private_bins.max(1))?,
            block_size,
            private_bins,
            counts: PartCounts::new(device, WIDE_BINS)?,
            device: device.clone(),
        })
    }

    /// Queues the counting of all values of `from` into `to`, which has [`WIDE_BINS`] elements.
    /// Does not wait.
    pub fn launch(&self, queue: &Queue, from: &Buffer<u16>, to: &Buffer<u64>) -> Result<(), DeviceError> {
        self.counts.count_parts(queue, from.len() as u64, to, |CountedPart { first, n }, counts| {
            // Not more blocks than run at once, because each of them adds all of its private bins.
            let blocks = rung_block_count(&self.device, self.block_size, n)
                .min(self.kernel.resident_blocks(self.block_size));
            let args = [from.into(), first.into(), n.into(), self.private_bins.into(), counts.into()];
            queue.launch(&self.kernel, blocks, self.block_size, &args)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_counts_a_few_values() {
        let counts = wide_reference(&[0, 65_535, 7, 65_535]);
        assert_eq!((counts[0], counts[7], counts[65_535], counts.iter().sum()), (1, 1, 2, 4u64));
    }
}
