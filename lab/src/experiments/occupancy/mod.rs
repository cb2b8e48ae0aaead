//! Experiments on occupancy and on hiding latency.
//!
//! Little's law: to keep a unit with a throughput of T operations per cycle and a latency of L
//! cycles busy, L T independent operations must be in flight. They come from warps (occupancy),
//! from independent instructions of one thread, or from both.
//!
//! The chains of FMAs are those of [`arithmetic`](super::arithmetic). Here are
//!
//! - [`loads`]: loads with a given number of bytes in flight,
//! - [`pressure`]: a kernel that needs about 128 registers, compiled with a limit of registers.

pub mod loads;
pub mod pressure;
pub mod selftest;

use orrery_device::occupancy::SmLimits;

/// Returns bytes of dynamic shared memory with which at most `blocks` blocks are resident on an SM,
/// and not fewer if nothing else limits them. `blocks` is at least 1.
pub fn shared_for_blocks(limits: &SmLimits, blocks: u32) -> u32 {
    let share = limits.shared_per_sm / blocks;
    let allocated = share - share % limits.shared_unit;
    allocated.saturating_sub(limits.reserved_shared).min(limits.shared_per_block)
}

#[cfg(test)]
mod tests {
    use orrery_device::occupancy::BlockNeeds;

    use super::*;

    #[test]
    fn shared_memory_limits_the_blocks_to_the_requested_number() {
        for limits in SmLimits::all().iter().filter(|limits| limits.capability >= (5, 0)) {
            // An SM of compute capability 5.2 has 96 KiB, of which a block gets at most 48.
            let fewest = limits.shared_per_sm / (limits.shared_per_block + limits.reserved_shared);
            for blocks in fewest..=8 {
                let shared_bytes = shared_for_blocks(limits, blocks);
                let needs = BlockNeeds { threads: 64, registers: 16, shared_bytes };
                let found = limits.occupancy(needs).unwrap().blocks_per_sm;
                assert_eq!(found, blocks, "{:?}", limits.capability);
            }
        }
    }
}
