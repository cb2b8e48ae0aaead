//! Table of the limits of each compute capability. The module above names its sources.

use super::{RegisterOwner, SmLimits};

/// Number of bytes of a KiB.
const KIB: u32 = 1024;

/// Limits of compute capability 1.0, the first one.
const TESLA: SmLimits = SmLimits {
    capability: (1, 0),
    threads_per_block: 512,
    threads_per_sm: 768,
    blocks_per_sm: 8,
    registers_per_sm: 8192,
    registers_per_block: 8192,
    registers_per_thread: 124,
    register_unit: 256,
    register_owner: RegisterOwner::Block,
    partitions: 2,
    shared_per_sm: 16 * KIB,
    shared_per_block: 16 * KIB,
    shared_unit: 512,
    reserved_shared: 0,
};

/// Returns the limits of compute capability 1.2 or 1.3.
const fn later_tesla(minor: u32) -> SmLimits {
    SmLimits {
        capability: (1, minor),
        threads_per_sm: 1024,
        registers_per_sm: 16_384,
        registers_per_block: 16_384,
        register_unit: 512,
        ..TESLA
    }
}

/// Returns the limits of compute capability 2.x.
const fn fermi(minor: u32) -> SmLimits {
    SmLimits {
        capability: (2, minor),
        threads_per_block: 1024,
        threads_per_sm: 1536,
        registers_per_sm: 32_768,
        registers_per_block: 32_768,
        registers_per_thread: 63,
        register_unit: 64,
        register_owner: RegisterOwner::Warp,
        shared_per_sm: 48 * KIB,
        shared_per_block: 48 * KIB,
        shared_unit: 128,
        ..TESLA
    }
}

/// Limits of compute capability 3.0.
const KEPLER: SmLimits = SmLimits {
    capability: (3, 0),
    threads_per_sm: 2048,
    blocks_per_sm: 16,
    registers_per_sm: 65_536,
    registers_per_block: 65_536,
    register_unit: 256,
    partitions: 4,
    shared_unit: 256,
    ..fermi(0)
};

/// Returns the limits of compute capability 5.x and 6.x, whose SMs differ in their shared memory.
const fn maxwell(capability: (u32, u32), shared_kib: u32) -> SmLimits {
    SmLimits {
        capability,
        blocks_per_sm: 32,
        registers_per_thread: 255,
        shared_per_sm: shared_kib * KIB,
        ..KEPLER
    }
}

/// Returns the limits of compute capability 7.0 and 7.2.
const fn volta(minor: u32) -> SmLimits {
    SmLimits { shared_per_block: 96 * KIB, ..maxwell((7, minor), 96) }
}

/// Returns the limits of compute capability 8.0 and later, whose SMs differ in threads, blocks and
/// shared memory.
const fn ampere(capability: (u32, u32), threads: u32, blocks: u32, shared_kib: u32) -> SmLimits {
    SmLimits {
        threads_per_sm: threads,
        blocks_per_sm: blocks,
        shared_per_block: (shared_kib - 1) * KIB,
        shared_unit: 128,
        reserved_shared: KIB,
        ..maxwell(capability, shared_kib)
    }
}

/// Limits of all compute capabilities, in ascending order.
pub static LIMITS: [SmLimits; 29] = [
    TESLA,
    SmLimits { capability: (1, 1), ..TESLA },
    later_tesla(2),
    later_tesla(3),
    fermi(0),
    fermi(1),
    KEPLER,
    SmLimits { capability: (3, 5), registers_per_thread: 255, ..KEPLER },
    SmLimits {
        capability: (3, 7),
        registers_per_thread: 255,
        registers_per_sm: 131_072,
        shared_per_sm: 112 * KIB,
        ..KEPLER
    },
    maxwell((5, 0), 64),
    maxwell((5, 2), 96),
    SmLimits { registers_per_block: 32_768, ..maxwell((5, 3), 64) },
    SmLimits { partitions: 2, ..maxwell((6, 0), 64) },
    maxwell((6, 1), 96),
    SmLimits { registers_per_block: 32_768, ..maxwell((6, 2), 64) },
    volta(0),
    volta(2),
    SmLimits {
        capability: (7, 5),
        threads_per_sm: 1024,
        blocks_per_sm: 16,
        shared_per_sm: 64 * KIB,
        shared_per_block: 64 * KIB,
        ..volta(0)
    },
    ampere((8, 0), 2048, 32, 164),
    ampere((8, 6), 1536, 16, 100),
    ampere((8, 7), 1536, 16, 164),
    ampere((8, 9), 1536, 24, 100),
    ampere((9, 0), 2048, 32, 228),
    ampere((10, 0), 2048, 32, 228),
    ampere((10, 1), 1536, 24, 228),
    ampere((10, 3), 2048, 32, 228),
    ampere((11, 0), 1536, 24, 228),
    ampere((12, 0), 1536, 24, 100),
    ampere((12, 1), 1536, 24, 100),
];
