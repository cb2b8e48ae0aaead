//! Register pressure: x ← a x + b for 112 numbers per thread that are all in registers, or partly
//! in local memory if the compiler may use fewer registers.
//!
//! Cost: 112 FMAs per thread and round. Fewer registers per thread mean more warps per SM, and
//! spilled numbers that are loaded and stored in every round. The FMA units are the limit without
//! spills, and the caches with them.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, Resources};

// SAFETY: each thread writes one element of `out`. `Pressure::launch` starts as many threads as it
// has elements.
const PRESSURE: KernelFile = unsafe { KernelFile::new("pressure.cu", include_str!("pressure.cu")) };

/// Numbers per thread. With indices and parameters, the kernel needs about 128 registers.
pub const VALUES: usize = 112;
/// Threads per block.
pub const BLOCK_SIZE: u32 = 256;
/// Factor of the updates. Numbers converge to 2 and stay normal.
const FACTOR: f32 = 0.5;
/// Term of the updates.
const TERM: f32 = 1.0;

/// Reference implementation: returns the sum of a thread of a block after `rounds` rounds.
pub fn reference_sum(thread: usize, rounds: usize) -> f32 {
    let update = |value: f32| (0..rounds).fold(value, |value, _| value.mul_add(FACTOR, TERM));
    (0..VALUES).map(|i| update((thread + i) as f32)).fold(0.0, |sum, value| sum + value)
}

/// The kernel on a device, compiled with a limit of registers.
#[derive(Debug)]
pub struct Pressure {
    kernel: Kernel,
    out: Buffer<f32>,
}

impl Pressure {
    /// Compiles the kernel with at most `max_registers` registers per thread. Compilers other than
    /// NVIDIA's ignore the limit.
    pub fn new(device: &Device, max_registers: Option<u32>, block_count: u32) -> Result<Self, DeviceError> {
        let kernel = build(device, max_registers)?.kernel("update_values")?;
        Ok(Self { kernel, out: device.zeros((block_count * BLOCK_SIZE) as usize)? })
    }

    /// Queues `rounds` rounds in all threads. Does not wait.
    pub fn launch(&self, queue: &Queue, rounds: i32) -> Result<(), DeviceError> {
        let block_count = self.out.len() as u32 / BLOCK_SIZE;
        let args = [(&self.out).into(), FACTOR.into(), TERM.into(), rounds.into()];
        queue.launch(&self.kernel, block_count, BLOCK_SIZE, &args)
    }

    /// Returns the number of FMAs of a launch.
    pub fn fma_count(&self, rounds: i32) -> f64 {
        self.out.len() as f64 * VALUES as f64 * f64::from(rounds)
    }

    /// Returns the sums of all threads in the last launch, see [`reference_sum`].
    pub fn sums(&self) -> Result<Vec<f32>, DeviceError> {
        self.out.to_vec()
    }

    /// Returns the resources of the kernel and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.kernel.resources(), self.kernel.occupancy(BLOCK_SIZE))
    }
}

/// Compiles the kernel file.
pub(super) fn build(
    device: &Device,
    max_registers: Option<u32>,
) -> Result<orrery_device::Module, DeviceError> {
    let mut definitions = vec![("BLOCK_SIZE", BLOCK_SIZE.to_string()), ("VALUES", VALUES.to_string())];
    definitions.extend(max_registers.map(|limit| ("MAX_REGISTERS", limit.to_string())));
    device.build(&PRESSURE, &definitions, Math::Precise)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x ← x/2 + 1 has the fixed point 2: x - 2 is halved in every round.
    #[test]
    fn numbers_converge_to_the_fixed_point() {
        let start: usize = (0..VALUES).map(|i| 5 + i).sum();
        assert_eq!(reference_sum(5, 0), start as f32);
        let excess = start as f32 - 2.0 * VALUES as f32;
        assert_eq!(reference_sum(5, 3), 2.0 * VALUES as f32 + excess / 8.0);
    }
}
