//! Bytes in flight: sums of an array by threads that each have a given number of loads in flight.
//!
//! By Little's law, a memory with bandwidth B and latency L needs B L bytes in flight. With t
//! threads per SM, k loads in flight per thread and w bytes per load, an SM has k w t bytes in
//! flight.
//!
//! Cost: 4 bytes read and one addition per float. The latency is the limit with few bytes in
//! flight, and the bandwidth of the memory with many.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, Resources};

// SAFETY: the kernel reads the first `count` vectors of `from`, and `Loads::launch` passes the
// number of whole vectors. Buffers start at multiples of 16 bytes. Each thread writes one element
// of `out`, which has as many as `launch` starts threads.
const LOADS: KernelFile = unsafe { KernelFile::new("loads.cu", include_str!("loads.cu")) };

/// Loads of a thread, and the size of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadShape {
    /// Floats per load: 1, 2 or 4.
    pub width: usize,
    /// Loads in flight per thread.
    pub loads: usize,
    /// Threads per block.
    pub block_size: u32,
    /// Bytes of dynamic shared memory that limit the blocks per SM. Only with CUDA.
    pub dynamic_shared: u32,
}

impl LoadShape {
    /// Returns the bytes in flight of one thread.
    pub fn bytes_per_thread(&self) -> usize {
        4 * self.width * self.loads
    }
}

/// Reference implementation: returns the sum of the vectors of one of `threads` threads.
pub fn reference_sum(from: &[f32], width: usize, thread: usize, threads: usize) -> f32 {
    let vectors = from.chunks_exact(width).skip(thread).step_by(threads);
    vectors.map(|vector| vector.iter().sum::<f32>()).sum()
}

/// Returns `len` small whole numbers, whose sums of up to 2^20 terms are exact in f32.
pub fn whole_numbers(len: usize) -> Vec<f32> {
    (0..len).map(|index| (index % 13) as f32).collect()
}

/// The kernel on a device.
#[derive(Debug)]
pub struct Loads {
    kernel: Kernel,
    shape: LoadShape,
    out: Buffer<f32>,
}

impl Loads {
    /// Compiles the kernel for `block_count` blocks.
    pub fn new(device: &Device, shape: LoadShape, block_count: u32) -> Result<Self, DeviceError> {
        let definitions = [
            ("BLOCK_SIZE", shape.block_size.to_string()),
            ("WIDTH", shape.width.to_string()),
            ("LOADS", shape.loads.to_string()),
        ];
        let module = device.build(&LOADS, &definitions, Math::Precise)?;
        let kernel = module.kernel_with_shared("sum_loads", shape.dynamic_shared)?;
        Ok(Self { kernel, shape, out: device.zeros((block_count * shape.block_size) as usize)? })
    }

    /// Queues the sum of an array of fewer than 2^32 floats. Does not wait.
    pub fn launch(&self, queue: &Queue, from: &Buffer<f32>) -> Result<(), DeviceError> {
        let count = (from.len() / self.shape.width) as u32;
        let block_count = self.out.len() as u32 / self.shape.block_size;
        let args = [from.into(), count.into(), (&self.out).into()];
        queue.launch(&self.kernel, block_count, self.shape.block_size, &args)
    }

    /// Returns the sums of all threads in the last launch, see [`reference_sum`].
    pub fn sums(&self) -> Result<Vec<f32>, DeviceError> {
        self.out.to_vec()
    }

    /// Returns the resources of the kernel and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.kernel.resources(), self.kernel.occupancy(self.shape.block_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread 1 of 3 adds the vectors 1 and 4 of six, and the rest of an array is not read.
    #[test]
    fn every_thread_adds_its_vectors() {
        let from: Vec<f32> = (0..13).map(|index| index as f32).collect();
        assert_eq!(reference_sum(&from, 2, 1, 3), 2.0 + 3.0 + 8.0 + 9.0);
        assert_eq!(reference_sum(&from, 4, 2, 3), 8.0 + 9.0 + 10.0 + 11.0);
        assert_eq!(reference_sum(&from, 1, 12, 13), 12.0);
        assert_eq!(reference_sum(&from, 4, 3, 4), 0.0);
    }
}
