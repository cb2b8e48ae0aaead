//! An `if` in a loop, with bodies of 1 to 32 fused multiply-adds on both sides.
//!
//! Of a short body, the compiler computes both sides and selects one, or executes each side under a
//! predicate, so that nothing branches. Both sides then cost time, whatever the condition. Of a
//! long body it branches, and a warp whose lanes agree skips the other side.

use orrery_device::testing::random_bits;
use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue};

use super::{BLOCK_SIZE, LANES};

// SAFETY: the kernel accesses element i < n of both buffers, and `Choices` allocates n elements of
// each.
const PREDICATION: KernelFile = unsafe { KernelFile::new("predication.cu", include_str!("predication.cu")) };

/// Lengths of a body, in fused multiply-adds.
pub const BODIES: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Conditions of the lanes of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Conditions {
    /// Random from round to round, equal in all lanes of a warp.
    SameInWarp,
    /// Random in every lane.
    Random,
}

impl Conditions {
    /// Returns the conditions of `n` threads, one bit per round.
    pub fn masks(self, n: usize) -> Vec<u32> {
        let index = |thread: usize| match self {
            Self::SameInWarp => thread / LANES,
            Self::Random => thread,
        };
        (0..n).map(|thread| random_bits(index(thread) as u64) as u32).collect()
    }
}

/// Reference implementation: returns the result of a thread.
pub fn choose_reference(mask: u32, body: u32, rounds: u32) -> f32 {
    let mut x = 1.0f32;
    for round in 0..rounds {
        let (slope, shift) = if mask >> (round % 32) & 1 == 1 { (0.984_375, 0.25) } else { (0.968_75, -0.5) };
        for _ in 0..body {
            x = x.mul_add(slope, shift);
        }
    }
    x
}

/// Choices on a device.
#[derive(Debug)]
pub struct Choices {
    kernel: Kernel,
    conditions: Buffer<u32>,
    results: Buffer<f32>,
}

impl Choices {
    /// Compiles the kernel for bodies of `body` fused multiply-adds and uploads the conditions.
    pub fn new(device: &Device, body: u32, masks: &[u32]) -> Result<Self, DeviceError> {
        let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string()), ("BODY", body.to_string())];
        Ok(Self {
            kernel: device.build(&PREDICATION, &definitions, Math::Precise)?.kernel("choose_bodies")?,
            conditions: device.upload(masks)?,
            results: device.zeros(masks.len())?,
        })
    }

    /// Queues `rounds` rounds of all threads. Does not wait.
    pub fn launch(&self, queue: &Queue, rounds: u32) -> Result<(), DeviceError> {
        let n = self.conditions.len();
        let args =
            [(&self.conditions).into(), (n as u32).into(), (rounds as i32).into(), (&self.results).into()];
        queue.launch(&self.kernel, n.div_ceil(BLOCK_SIZE) as u32, BLOCK_SIZE as u32, &args)
    }

    /// Returns the result of each thread in the last launch.
    pub fn results(&self) -> Result<Vec<f32>, DeviceError> {
        self.results.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_a_warp_agree_or_not() {
        let same = Conditions::SameInWarp.masks(96);
        assert!(same.chunks(LANES).all(|warp| warp.iter().all(|mask| *mask == warp[0])));
        assert!(same[0] != same[32] && same[32] != same[64]);
        let random = Conditions::Random.masks(96);
        assert_ne!(random[0], random[1]);
    }

    #[test]
    fn reference_takes_the_side_of_each_bit() {
        let (first, second) = (0.984_375f32 + 0.25, 0.968_75f32 - 0.5);
        assert_eq!(choose_reference(1, 1, 1), first);
        assert_eq!(choose_reference(0, 1, 1), second);
        assert_eq!(choose_reference(0b10, 1, 2), second.mul_add(0.984_375, 0.25));
        assert_eq!(choose_reference(u32::MAX, 3, 0), 1.0);
    }
}
