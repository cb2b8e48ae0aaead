//! Additions to numbers in shared memory.
//!
//! Lanes that add to different banks work at the same time. Lanes that add to the same number
//! follow one another: with k lanes per number, an addition of a warp takes k times as long, unless
//! the hardware adds their values before. So do lanes with different numbers of the same bank.

use orrery_device::{
    Buffer, Device, DeviceError, Kernel, KernelFile, Math, Queue, Resources, join_sources, kernel_source,
};

use crate::kernel_enum::kernel_enum;

// SAFETY: the kernel reads one slot per lane, which `SharedAdditions::new` keeps below SLOTS, and
// writes SLOTS totals and one number of cycles per block, which it allocates.
const SHARED: KernelFile = unsafe {
    KernelFile::new("shared.cu", join_sources!(SharedAddition::DEFINES, kernel_source!("shared.cu")))
};

/// Lanes of a warp.
const LANES: usize = 32;
/// Numbers of a block.
const SLOTS: usize = 1024;

kernel_enum! {
    /// Type and method of an addition.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum SharedAddition {
        /// Of uint.
        U32 = 0 => "U32",
        /// Of float. By compare-and-swap on OpenCL.
        F32 = 1 => "F32",
        /// Of ulong.
        U64 = 2 => "U64",
        /// Of uint, by a load and a store. Not atomic: updates get lost.
        RacingU32 = 3 => "RACING_U32",
    }
}

/// Numbers that the lanes of a warp add to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedPattern {
    /// Lane l adds to number l mod count: 1 is a single number, 32 are numbers in different banks.
    Numbers(usize),
    /// Lane l adds to number 32 l: all in the bank 0.
    OneBank,
}

impl SharedPattern {
    fn slots(self) -> [u32; LANES] {
        std::array::from_fn(|lane| match self {
            Self::Numbers(count) => (lane % count) as u32,
            Self::OneBank => (LANES * lane) as u32,
        })
    }
}

/// Additions to shared memory on a device, one block per SM.
#[derive(Debug)]
pub struct SharedAdditions {
    kernel: Kernel,
    block_size: u32,
    block_count: u32,
    pattern: SharedPattern,
    slots: Buffer<u32>,
    totals: Buffer<u64>,
    cycles: Buffer<u64>,
}

impl SharedAdditions {
    /// Compiles the kernel and uploads the pattern.
    pub fn new(device: &Device, pattern: SharedPattern) -> Result<Self, DeviceError> {
        // A second block on an SM would share its banks and spoil the count of cycles per block.
        let block_size = device.properties().max_block_size.min(1024) / LANES as u32 * LANES as u32;
        let block_count = device.properties().sm_count.max(1);
        let definitions = [("BLOCK_SIZE", block_size.to_string()), ("SLOTS", SLOTS.to_string())];
        Ok(Self {
            kernel: device.build(&SHARED, &definitions, Math::Precise)?.kernel("update_shared")?,
            block_size,
            block_count,
            pattern,
            slots: device.upload(&pattern.slots())?,
            totals: device.zeros(SLOTS * block_count as usize)?,
            cycles: device.zeros(block_count as usize)?,
        })
    }

    /// Queues `rounds` additions per thread. Does not wait.
    pub fn launch(&self, queue: &Queue, addition: SharedAddition, rounds: i32) -> Result<(), DeviceError> {
        let args = [
            (&self.slots).into(),
            rounds.into(),
            (addition as i32).into(),
            (&self.totals).into(),
            (&self.cycles).into(),
        ];
        queue.launch(&self.kernel, self.block_count, self.block_size, &args)
    }

    /// Returns the number of threads of all blocks.
    pub fn thread_count(&self) -> usize {
        (self.block_count * self.block_size) as usize
    }

    /// Returns the totals of all blocks after the last launch.
    pub fn totals(&self) -> Result<Vec<u64>, DeviceError> {
        self.totals.to_vec()
    }

    /// Reference implementation: returns the totals of all blocks after `rounds` rounds.
    pub fn expected_totals(&self, rounds: i32) -> Vec<u64> {
        let slots = self.pattern.slots();
        let mut totals = vec![0; SLOTS];
        for thread in 0..self.block_size as usize {
            totals[slots[thread % LANES] as usize] += rounds as u64 * (1 + thread as u64 % 8);
        }
        totals.repeat(self.block_count as usize)
    }

    /// Returns the cycles per addition of a warp in the last launch of `rounds` rounds: the median
    /// over the blocks. None if the device has no cycle counter that kernels can read.
    pub fn cycles_per_addition(&self, rounds: i32) -> Result<Option<f64>, DeviceError> {
        let mut cycles = self.cycles.to_vec()?;
        cycles.sort_unstable();
        let median = cycles[cycles.len() / 2];
        Ok((median > 0).then(|| median as f64 / self.additions_per_block(rounds)))
    }

    /// Returns the additions of all warps of a block in a launch of `rounds` rounds.
    pub fn additions_per_block(&self, rounds: i32) -> f64 {
        f64::from(rounds) * f64::from(self.block_size) / LANES as f64
    }

    /// Returns the resources of the kernel and its occupancy.
    pub fn resources(&self) -> (Resources, Option<f64>) {
        (self.kernel.resources(), self.kernel.occupancy(self.block_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_different_banks_one_bank_or_few_numbers() {
        let count_of = |mut values: Vec<u32>| {
            values.sort_unstable();
            values.dedup();
            values.len()
        };
        for count in [1, 2, 4, 8, 16, 32] {
            let slots = SharedPattern::Numbers(count).slots();
            let banks = slots.iter().map(|slot| slot % 32).collect();
            assert_eq!((count_of(slots.to_vec()), count_of(banks)), (count, count));
        }
        let slots = SharedPattern::OneBank.slots();
        let banks = slots.iter().map(|slot| slot % 32).collect();
        assert_eq!((count_of(slots.to_vec()), count_of(banks)), (32, 1));
        assert!(slots.iter().all(|slot| (*slot as usize) < SLOTS));
    }
}
