//! The reduction on a device; see `reduce.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, Math, Source};

use super::Operation;
use crate::Number;

/// A reduction that is built for a device and can be queued again and again. Reductions of one `Reduce` follow each
/// other on the device's own queue.
#[derive(Debug)]
pub struct Reduce<T: Number> {
    device: Device,
    kernel: Kernel,
    shape: Shape,
    /// What each group found.
    parts: Buffer<T>,
    /// Groups that have written their part; 0 between launches.
    arrived: Buffer<u32>,
    /// For [`Self::reduce`].
    result: Buffer<T>,
}

/// How the work is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Threads a group.
    pub(super) block: u32,
    /// Loads of 16 bytes that a thread has under way at once.
    pub(super) in_flight: u32,
    /// Threads on a multiprocessor, of which the groups are as many as that takes.
    pub(super) threads_per_sm: u32,
}

impl Default for Shape {
    /// On an H200, 2^28 f32 at 4.29 TB/s, where the copy has 4.23. Eight times the threads give 4.36, and shorter sums that
    /// wait longer for their parts.
    fn default() -> Self {
        Self { block: 512, in_flight: 4, threads_per_sm: 2048 }
    }
}

impl Shape {
    /// Groups for `vectors` loads of 16 bytes: a function of the length and the device alone, as it decides the order of a
    /// sum. A group that has less than its threads can have under way would only be one more to wait for.
    fn groups(self, device: &Device, vectors: u64) -> u32 {
        let worthwhile = vectors.div_ceil(u64::from(self.block * self.in_flight));
        worthwhile.clamp(1, u64::from(self.most_groups(device))) as u32
    }

    fn most_groups(self, device: &Device) -> u32 {
        device.properties().sm_count.max(1) * (self.threads_per_sm / self.block).max(1)
    }
}

/// Numbers in a load of 16 bytes.
const fn a_load<T>() -> usize {
    16 / size_of::<T>()
}

impl<T: Number> Reduce<T> {
    /// Builds the kernel. A reduction of f64 needs a device that has them.
    pub fn new(device: &Device, operation: Operation) -> Result<Self, DeviceError> {
        Self::shaped(device, operation, Shape::default())
    }

    pub(super) fn shaped(device: &Device, operation: Operation, shape: Shape) -> Result<Self, DeviceError> {
        let [lowest, highest] = T::LIMITS;
        let (number, nothing) = match operation {
            Operation::Sum => (0, "0"),
            Operation::Min => (1, highest),
            Operation::Max => (2, lowest),
        };
        let definitions = [
            ("NUMBER", T::NAME.to_owned()),
            ("WIDE", format!("{}{}", T::NAME, a_load::<T>())),
            ("A_LOAD", a_load::<T>().to_string()),
            // C does not say what a signed sum does that is too large.
            ("SUMMED_AS", if T::NAME == "int" { "uint" } else { T::NAME }.to_owned()),
            ("OPERATION", number.to_string()),
            ("NOTHING", nothing.to_owned()),
            ("BLOCK_SIZE", shape.block.to_string()),
            ("IN_FLIGHT", shape.in_flight.to_string()),
        ];
        let text = include_str!("reduce.cu");
        let source = Source { name: "reduce.cu", text, definitions: &definitions, math: Math::Precise };
        Ok(Self {
            kernel: device.build(&source)?.kernel("reduce")?,
            parts: device.zeros(shape.most_groups(device) as usize)?,
            arrived: device.zeros(1)?,
            result: device.zeros(1)?,
            shape,
            device: device.clone(),
        })
    }

    /// Queues the reduction of all of `from` into the one element of `to`; waits for nothing.
    pub fn queue(&self, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), DeviceError> {
        if to.len() != 1 {
            return Err(DeviceError::Length { device: to.device().title(), expected: 1, got: to.len() });
        }
        let n = from.len() as u64;
        let groups = self.shape.groups(&self.device, n / a_load::<T>() as u64);
        let args = [from.into(), n.into(), (&self.parts).into(), (&self.arrived).into(), to.into()];
        self.device.queue().launch(&self.kernel, groups, self.shape.block, &args)
    }

    /// The reduction of all of `from`, waited for.
    pub fn reduce(&self, from: &Buffer<T>) -> Result<T, DeviceError> {
        self.queue(from, &self.result)?;
        let mut result = [T::ZERO];
        self.device.queue().read(&self.result, &mut result)?;
        Ok(result[0])
    }
}
