//! Measured bandwidths of the levels of the memory: shared memory, and reads by the size of the
//! working set, which the L2 cache serves if it is large enough.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::DeviceError;
use crate::kernel::{Kernel, KernelFile, Math, Module};
use crate::launch::Arg;
use crate::properties::DeviceKind;

use super::shortest_seconds;

// SAFETY: each thread writes one element of `out`, which has one element per thread. An index of
// `from` has only bits of `last`, and `from` has last + 1 elements.
const CACHES: KernelFile = unsafe { KernelFile::new("caches.cu", include_str!("../kernels/caches.cu")) };

/// Threads per block.
const BLOCK_SIZE: u32 = 256;
/// Vectors that a thread loads before it uses the first.
const LOADS: u32 = 4;
/// Bytes of a vector.
const VECTOR_BYTES: u64 = 16;
/// Time of a launch that is long enough for events.
const LAUNCH_SECONDS: f64 = 5e-3;

/// Bandwidths of the levels of the memory of a device, in bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheCeilings {
    /// Reads of shared memory by all SMs.
    pub shared_bytes_per_s: f64,
    /// Reads of device memory past the L1 cache, by the size of the working set in ascending order.
    pub reads: Vec<ReadRate>,
}

/// Rate at which all threads together read a working set again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadRate {
    /// Size of the working set in bytes.
    pub working_set: u64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

impl CacheCeilings {
    /// Returns the highest rate of reads. On a GPU it is that of the L2 cache.
    pub fn l2_bytes_per_s(&self) -> f64 {
        self.reads.iter().map(|read| read.bytes_per_s).fold(0.0, f64::max)
    }
}

/// Measures shared memory and reads of 1 MiB to 1 GiB. On a CPU, reads of 256 KiB to 64 MiB. Takes
/// a few seconds.
pub fn measure_caches(device: &Device) -> Result<CacheCeilings, DeviceError> {
    let kernels = CacheKernels::new(device)?;
    let is_cpu = device.properties().kind == DeviceKind::Cpu;
    let (smallest, largest) = if is_cpu { (256 << 10, 64 << 20) } else { (1 << 20, 1 << 30) };
    let free = device.memory()?.free;
    let sizes = std::iter::successors(Some(smallest), |bytes: &u64| Some(2 * bytes));
    let reads = sizes
        .take_while(|bytes| *bytes <= largest && (*bytes == smallest || *bytes <= free / 4))
        .map(|working_set| Ok(ReadRate { working_set, bytes_per_s: kernels.read_rate(working_set)? }))
        .collect::<Result<_, DeviceError>>()?;
    Ok(CacheCeilings { shared_bytes_per_s: kernels.shared_rate()?, reads })
}

struct CacheKernels {
    device: Device,
    module: Module,
    block_count: u32,
    /// One number per thread.
    out: Buffer<f32>,
}

impl CacheKernels {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string()), ("LOADS", LOADS.to_string())];
        let module = device.build(&CACHES, &definitions, Math::Precise)?;
        // Eight blocks of 256 threads fill the 2048 threads of an SM.
        let block_count = 8 * device.properties().sm_count.max(1);
        let out = device.zeros((block_count * BLOCK_SIZE) as usize)?;
        Ok(Self { device: device.clone(), module, block_count, out })
    }

    fn shared_rate(&self) -> Result<f64, DeviceError> {
        let kernel = self.module.kernel("read_shared")?;
        self.bytes_per_second(256, |rounds| self.launch_read_shared(&kernel, rounds))
    }

    fn launch_read_shared(&self, kernel: &Kernel, rounds: i32) -> Result<(), DeviceError> {
        let args = [Arg::from(&self.out), rounds.into(), 1.into()];
        self.device.queue().launch(kernel, self.block_count, BLOCK_SIZE, &args)
    }

    /// Measures reads of a working set. Its size in bytes is a power of two.
    fn read_rate(&self, working_set: u64) -> Result<f64, DeviceError> {
        let kernel = self.module.kernel("read_memory")?;
        let from = self.device.zeros::<[f32; 4]>((working_set / VECTOR_BYTES) as usize)?;
        let rounds_per_pass = working_set.div_ceil(self.bytes_per_round()) as i32;
        self.bytes_per_second(rounds_per_pass, |rounds| self.launch_read_memory(&kernel, &from, rounds))
    }

    fn launch_read_memory(
        &self,
        kernel: &Kernel,
        from: &Buffer<[f32; 4]>,
        rounds: i32,
    ) -> Result<(), DeviceError> {
        let last = from.len() as u32 - 1;
        let args = [from.into(), last.into(), rounds.into(), Arg::from(&self.out)];
        self.device.queue().launch(kernel, self.block_count, BLOCK_SIZE, &args)
    }

    /// Returns the bytes that all threads load per round.
    fn bytes_per_round(&self) -> u64 {
        u64::from(self.block_count) * u64::from(BLOCK_SIZE * LOADS) * VECTOR_BYTES
    }

    /// Measures the rate of launches with a multiple of `rounds` rounds that take about
    /// [`LAUNCH_SECONDS`].
    fn bytes_per_second(
        &self,
        rounds: i32,
        launch: impl Fn(i32) -> Result<(), DeviceError>,
    ) -> Result<f64, DeviceError> {
        let first = shortest_seconds(&self.device, || launch(rounds))?;
        let factor = (LAUNCH_SECONDS / first.max(1e-7)).clamp(1.0, 1024.0) as i32;
        let seconds = shortest_seconds(&self.device, || launch(factor * rounds))?;
        Ok(self.bytes_per_round() as f64 * f64::from(factor) * f64::from(rounds) / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_devices;

    /// The compiler must not remove loads: every load of a thread is part of its sum.
    #[test]
    fn every_load_is_part_of_the_sum() {
        for device in test_devices() {
            let kernels = CacheKernels::new(&device).unwrap();
            let loads = |rounds: i32| (rounds * LOADS as i32) as f32;
            for rounds in [1, 2, 37] {
                kernels.launch_read_shared(&kernels.module.kernel("read_shared").unwrap(), rounds).unwrap();
                let expected = 10.0 * loads(rounds);
                assert!(kernels.out.to_vec().unwrap().iter().all(|&sum| sum == expected), "{rounds}");
            }
            let ones = device.upload(&vec![[1.0; 4]; 1 << 12]).unwrap();
            let read_memory = kernels.module.kernel("read_memory").unwrap();
            for rounds in [1, 5] {
                kernels.launch_read_memory(&read_memory, &ones, rounds).unwrap();
                let expected = 4.0 * loads(rounds);
                assert!(kernels.out.to_vec().unwrap().iter().all(|&sum| sum == expected), "{rounds}");
            }
        }
    }

    #[test]
    fn highest_rate_of_reads_is_that_of_the_l2_cache() {
        let read = |working_set, bytes_per_s| ReadRate { working_set, bytes_per_s };
        let reads = vec![read(1 << 20, 5e12), read(1 << 24, 6e12), read(1 << 30, 4e12)];
        assert_eq!(CacheCeilings { shared_bytes_per_s: 3e13, reads }.l2_bytes_per_s(), 6e12);
    }
}
