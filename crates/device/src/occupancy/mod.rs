//! Occupancy: the blocks and warps of a kernel that can be resident on one SM.
//!
//! With r registers per thread, s bytes of shared memory per block and w = ⌈threads / 32⌉ warps per
//! block, an SM can hold at most
//!
//! - ⌊warps of the SM / w⌋ blocks by its threads, and its limit of blocks,
//! - ⌊⌊R / (P ⌈32 r⌉)⌋ P / w⌋ blocks by its R registers, which are divided equally among P
//!   partitions and allocated to warps in units (⌈ ⌉ rounds up to a multiple of the unit),
//! - ⌊S / ⌈s + s₀⌉⌋ blocks by its S bytes of shared memory, of which the system reserves s₀ per
//!   block.
//!
//! The smallest of these is the number of resident blocks. Occupancy is the number of their warps
//! relative to the largest number of warps. GPUs of compute capability 1.x allocated registers to
//! blocks and not to warps.
//!
//! The limits are those of the table "Technical Specifications per Compute Capability" in NVIDIA's
//! CUDA C++ Programming Guide, for 1.x to 3.x in its versions 3.0 to 8.0. The units of allocation
//! are those of NVIDIA's occupancy calculator (`cuda_occupancy.h`, and the spreadsheet for 1.x).

mod limits;

use thiserror::Error;

use limits::LIMITS;

/// Threads per warp of all GPUs of NVIDIA.
pub const WARP_SIZE: u32 = 32;

/// Owner of an allocation of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterOwner {
    /// Each warp has its registers.
    Warp,
    /// All registers of a block are one allocation (compute capability 1.x).
    Block,
}

/// Limits of an SM of one compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmLimits {
    /// Compute capability (major, minor).
    pub capability: (u32, u32),
    /// Largest block size in threads.
    pub threads_per_block: u32,
    /// Largest number of resident threads.
    pub threads_per_sm: u32,
    /// Largest number of resident blocks.
    pub blocks_per_sm: u32,
    /// 32-bit registers.
    pub registers_per_sm: u32,
    /// Largest number of registers of a block.
    pub registers_per_block: u32,
    /// Largest number of registers of a thread.
    pub registers_per_thread: u32,
    /// Registers are allocated in multiples of this number.
    pub register_unit: u32,
    /// Owner of an allocation of registers.
    pub register_owner: RegisterOwner,
    /// Number of partitions that the registers are divided among. Warps are distributed evenly.
    pub partitions: u32,
    /// Bytes of shared memory.
    pub shared_per_sm: u32,
    /// Largest shared memory of a block in bytes. Above 48 KiB it must be dynamic.
    pub shared_per_block: u32,
    /// Shared memory is allocated in multiples of this number of bytes.
    pub shared_unit: u32,
    /// Bytes of shared memory per block that the system reserves.
    pub reserved_shared: u32,
}

/// Resources that the blocks of a kernel need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockNeeds {
    /// Threads per block.
    pub threads: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of shared memory per block.
    pub shared_bytes: u32,
}

/// Resource of an SM that limits the number of resident blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmResource {
    /// Resident threads.
    Threads,
    /// Resident blocks.
    Blocks,
    /// Registers.
    Registers,
    /// Shared memory.
    SharedMemory,
}

impl SmResource {
    /// Returns the name for tables, for example `shared memory`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threads => "threads",
            Self::Blocks => "blocks",
            Self::Registers => "registers",
            Self::SharedMemory => "shared memory",
        }
    }
}

/// Occupancy of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Occupancy {
    /// Resident blocks per SM, at least 1.
    pub blocks_per_sm: u32,
    /// Resident warps per SM.
    pub warps_per_sm: u32,
    /// Resident warps relative to the largest number of warps.
    pub fraction: f64,
    /// Number of blocks that each resource allows by itself. `None` if the kernel does not need the
    /// resource.
    pub limits: Vec<(SmResource, Option<u32>)>,
    /// Resources that allow no further block: those with the smallest number of blocks.
    pub limited_by: Vec<SmResource>,
    /// Registers that a block is allocated.
    pub registers_per_block: u32,
    /// Bytes of shared memory that a block is allocated, with the reserved ones.
    pub shared_per_block: u32,
}

/// Reason why no block of a kernel can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OccupancyError {
    /// The block has no threads or too many.
    #[error("a block of {threads} threads is outside 1 to {limit} threads")]
    BlockSize {
        /// Threads per block.
        threads: u32,
        /// Largest block size.
        limit: u32,
    },
    /// A thread has too many registers.
    #[error("{registers} registers per thread are outside 0 to {limit} registers")]
    RegistersPerThread {
        /// Registers per thread.
        registers: u32,
        /// Largest number of registers per thread.
        limit: u32,
    },
    /// All threads of a block together have too many registers.
    #[error(
        "a block of {threads} threads with {registers} registers per thread is allocated {needed} registers, \
         expected at most {limit}"
    )]
    RegistersPerBlock {
        /// Threads per block.
        threads: u32,
        /// Registers per thread.
        registers: u32,
        /// Registers that the block would be allocated.
        needed: u64,
        /// Largest number of registers per block.
        limit: u32,
    },
    /// The block has too much shared memory.
    #[error("{bytes} bytes of shared memory per block are outside 0 to {limit} bytes")]
    SharedMemory {
        /// Bytes of shared memory per block.
        bytes: u32,
        /// Largest shared memory per block.
        limit: u32,
    },
}

impl SmLimits {
    /// Returns the limits of a compute capability, or `None` if it is not in the table.
    pub fn of(capability: (u32, u32)) -> Option<&'static Self> {
        LIMITS.iter().find(|limits| limits.capability == capability)
    }

    /// Returns the limits of all compute capabilities in the table, in ascending order.
    pub fn all() -> &'static [Self] {
        &LIMITS
    }

    /// Returns the largest number of resident warps.
    pub fn warps_per_sm(&self) -> u32 {
        self.threads_per_sm / WARP_SIZE
    }

    /// Returns the occupancy of a kernel, or the reason why its blocks cannot run.
    ///
    /// ```
    /// use orrery_device::occupancy::{BlockNeeds, SmLimits, SmResource};
    ///
    /// let h200 = SmLimits::of((9, 0)).unwrap();
    /// let needs = BlockNeeds { threads: 256, registers: 64, shared_bytes: 0 };
    /// let occupancy = h200.occupancy(needs).unwrap();
    /// assert_eq!((occupancy.blocks_per_sm, occupancy.fraction), (4, 0.5));
    /// assert_eq!(occupancy.limited_by, [SmResource::Registers]);
    /// ```
    pub fn occupancy(&self, needs: BlockNeeds) -> Result<Occupancy, OccupancyError> {
        let BlockNeeds { threads, registers, shared_bytes } = needs;
        if threads == 0 || threads > self.threads_per_block {
            return Err(OccupancyError::BlockSize { threads, limit: self.threads_per_block });
        }
        if registers > self.registers_per_thread {
            return Err(OccupancyError::RegistersPerThread { registers, limit: self.registers_per_thread });
        }
        if shared_bytes > self.shared_per_block {
            return Err(OccupancyError::SharedMemory { bytes: shared_bytes, limit: self.shared_per_block });
        }
        let warps = threads.div_ceil(WARP_SIZE);
        let (registers_per_block, by_registers) = self.register_limit(needs, warps)?;
        let shared_per_block = (shared_bytes + self.reserved_shared).next_multiple_of(self.shared_unit);
        let limits = vec![
            (SmResource::Threads, Some(self.warps_per_sm() / warps)),
            (SmResource::Blocks, Some(self.blocks_per_sm)),
            (SmResource::Registers, by_registers),
            (SmResource::SharedMemory, self.shared_per_sm.checked_div(shared_per_block)),
        ];
        let blocks_per_sm = limits.iter().filter_map(|(_, blocks)| *blocks).min().unwrap_or(0);
        let is_limit = |(_, blocks): &&(SmResource, Option<u32>)| *blocks == Some(blocks_per_sm);
        let warps_per_sm = blocks_per_sm * warps;
        Ok(Occupancy {
            blocks_per_sm,
            warps_per_sm,
            fraction: f64::from(warps_per_sm) / f64::from(self.warps_per_sm()),
            limited_by: limits.iter().filter(is_limit).map(|(resource, _)| *resource).collect(),
            limits,
            registers_per_block,
            shared_per_block,
        })
    }

    /// Returns the registers that a block of `warps` warps is allocated, and the number of blocks
    /// for which an SM has enough registers.
    fn register_limit(&self, needs: BlockNeeds, warps: u32) -> Result<(u32, Option<u32>), OccupancyError> {
        let unit = self.register_unit_for(needs.registers);
        let (per_warp, allocated, checked) = match self.register_owner {
            RegisterOwner::Warp => {
                let per_warp = (needs.registers * WARP_SIZE).next_multiple_of(unit);
                // The hardware checks a block as if it had as many warps in all partitions. A GPU
                // of compute capability 6.0 has 2 partitions and still refuses what 4 would refuse.
                let multiple = if self.capability.0 == 6 { 4 } else { self.partitions };
                (per_warp, per_warp * warps, per_warp * warps.next_multiple_of(multiple))
            }
            RegisterOwner::Block => {
                let even_warps = warps.next_multiple_of(self.partitions);
                let allocated = (even_warps * needs.registers * WARP_SIZE).next_multiple_of(unit);
                (0, allocated, allocated)
            }
        };
        if checked > self.registers_per_block {
            return Err(OccupancyError::RegistersPerBlock {
                threads: needs.threads,
                registers: needs.registers,
                needed: u64::from(checked),
                limit: self.registers_per_block,
            });
        }
        let blocks = match self.register_owner {
            RegisterOwner::Warp => {
                let warps_per_partition = (self.registers_per_sm / self.partitions).checked_div(per_warp);
                warps_per_partition.map(|count| count * self.partitions / warps)
            }
            RegisterOwner::Block => self.registers_per_sm.checked_div(allocated),
        };
        Ok((allocated, blocks))
    }

    /// Returns the unit of an allocation of registers. Compute capability 2.x has a larger one for
    /// some numbers of registers per thread.
    fn register_unit_for(&self, registers: u32) -> u32 {
        match (self.capability.0, registers) {
            (2, 21 | 22 | 29 | 30 | 37 | 38 | 45 | 46) => 2 * self.register_unit,
            _ => self.register_unit,
        }
    }
}

#[cfg(test)]
mod tests;
