//! Reduction on a device: compiles and launches `reduce.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue};

use super::ReduceOperation;
use crate::PrimitiveNumber;

// SAFETY: the kernel reads n elements of the input and writes one result per block and one in the
// end. The launch passes the length of the input as n, and there are at most `max_block_count`
// blocks.
const REDUCE: KernelFile = unsafe { KernelFile::new("reduce.cu", include_str!("reduce.cu")) };

/// A reduction that is compiled for a device and can be launched many times.
///
/// All launches of one `Reduce` share its buffers, so they must be queued on one queue, or on
/// several queues that wait for each other's events.
///
/// ```
/// use orrery_device::{Device, DeviceChoice};
/// use orrery_primitives::reduce::{Reduce, ReduceOperation};
///
/// # fn main() -> Result<(), orrery_device::DeviceError> {
/// // Without an OpenCL device there is nothing to run on.
/// let Ok(Some(device)) = Device::open(DeviceChoice::OpenCl(None)) else { return Ok(()) };
/// let sum = Reduce::new(&device, ReduceOperation::Sum)?;
/// let numbers = device.upload(&[1.5f32, 2.0, -0.5])?;
/// assert_eq!(sum.reduce(device.queue(), &numbers)?, 3.0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reduce<T: PrimitiveNumber> {
    device: Device,
    kernel: Kernel,
    strategy: ReduceStrategy,
    /// Result of each block.
    block_results: Buffer<T>,
    /// Number of blocks that have written their result. 0 between launches.
    arrived: Buffer<u32>,
    /// Target of [`Self::reduce`].
    result: Buffer<T>,
}

/// Launch parameters of a reduction. They determine the order in which floats are added, and with
/// it the last bits of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReduceStrategy {
    /// Threads per block: a multiple of 32.
    pub block_size: u32,
    /// Loads of 16 bytes that a thread issues before it uses the first.
    pub loads_in_flight: u32,
    /// Threads per SM. Limits the number of blocks.
    pub threads_per_sm: u32,
}

impl Default for ReduceStrategy {
    /// On an H200, 2^28 f32 reach 4.29 TB/s (copy: 4.23 TB/s). With eight times as many threads
    /// they reach 4.36 TB/s, but short sums become slower, because the last block waits for more
    /// results. `orrery ladder reduce` repeats the measurement.
    fn default() -> Self {
        Self::CANDIDATES[0]
    }
}

impl ReduceStrategy {
    /// Strategies that `orrery bench primitives --candidates` measures. The first one is the
    /// default.
    pub const CANDIDATES: [Self; 5] = [
        Self { block_size: 512, loads_in_flight: 4, threads_per_sm: 2048 },
        Self { block_size: 256, loads_in_flight: 4, threads_per_sm: 2048 },
        Self { block_size: 1024, loads_in_flight: 4, threads_per_sm: 2048 },
        Self { block_size: 512, loads_in_flight: 8, threads_per_sm: 2048 },
        Self { block_size: 512, loads_in_flight: 4, threads_per_sm: 16_384 },
    ];

    /// Returns a short name, for example `512 x 4, 2048 per SM`: threads per block, loads per
    /// thread, and threads per SM.
    pub fn name(&self) -> String {
        format!("{} x {}, {} per SM", self.block_size, self.loads_in_flight, self.threads_per_sm)
    }

    /// Returns the number of blocks for `vectors` loads of 16 bytes. It depends only on the length
    /// and the device, because it determines the order of a sum. Every block has at least one full
    /// round of loads. A block with less would only add a result to wait for.
    fn block_count(self, device: &Device, vectors: u64) -> u32 {
        let full_blocks = vectors.div_ceil(u64::from(self.block_size * self.loads_in_flight));
        full_blocks.clamp(1, u64::from(self.max_block_count(device))) as u32
    }

    fn max_block_count(self, device: &Device) -> u32 {
        device.properties().sm_count.max(1) * (self.threads_per_sm / self.block_size).max(1)
    }
}

/// Numbers in a load of 16 bytes.
const fn vector_width<T>() -> usize {
    16 / size_of::<T>()
}

impl<T: PrimitiveNumber> Reduce<T> {
    /// Compiles the kernel. A reduction of f64 needs a device with f64 support.
    pub fn new(device: &Device, operation: ReduceOperation) -> Result<Self, DeviceError> {
        Self::with_strategy(device, operation, ReduceStrategy::default())
    }

    /// Compiles the kernel for the given strategy.
    pub fn with_strategy(
        device: &Device,
        operation: ReduceOperation,
        strategy: ReduceStrategy,
    ) -> Result<Self, DeviceError> {
        let [lowest, highest] = T::LIMITS;
        let (operation, identity) = match operation {
            ReduceOperation::Sum => ("OPERATION_SUM", "0"),
            ReduceOperation::Min => ("OPERATION_MIN", highest),
            ReduceOperation::Max => ("OPERATION_MAX", lowest),
        };
        let definitions = [
            ("NUMBER", T::NAME.to_owned()),
            ("VECTOR", format!("{}{}", T::NAME, vector_width::<T>())),
            ("VECTOR_WIDTH", vector_width::<T>().to_string()),
            // Signed overflow is undefined in C. Unsigned sums have the same bits.
            ("SUM_TYPE", if T::NAME == "int" { "uint" } else { T::NAME }.to_owned()),
            ("OPERATION", operation.to_owned()),
            ("IDENTITY", identity.to_owned()),
            ("BLOCK_SIZE", strategy.block_size.to_string()),
            ("LOADS_IN_FLIGHT", strategy.loads_in_flight.to_string()),
        ];
        Ok(Self {
            kernel: device.build(&REDUCE, &definitions, Math::Precise)?.kernel("reduce")?,
            block_results: device.zeros(strategy.max_block_count(device) as usize)?,
            arrived: device.zeros(1)?,
            result: device.zeros(1)?,
            strategy,
            device: device.clone(),
        })
    }

    /// Queues the reduction of all elements of `from` into `to`, which has one element. Does not
    /// wait.
    pub fn launch(&self, queue: &Queue, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), DeviceError> {
        if to.len() != 1 {
            return Err(DeviceError::Length { device: to.device().title(), expected: 1, got: to.len() });
        }
        let n = from.len() as u64;
        let blocks = self.strategy.block_count(&self.device, n / vector_width::<T>() as u64);
        let args = [from.into(), n.into(), (&self.block_results).into(), (&self.arrived).into(), to.into()];
        queue.launch(&self.kernel, blocks, self.strategy.block_size, &args)
    }

    /// Reduces all elements of `from`, waits for the result and returns it.
    pub fn reduce(&self, queue: &Queue, from: &Buffer<T>) -> Result<T, DeviceError> {
        self.launch(queue, from, &self.result)?;
        let mut result = [T::ZERO];
        queue.read(&self.result, &mut result)?;
        Ok(result[0])
    }
}
