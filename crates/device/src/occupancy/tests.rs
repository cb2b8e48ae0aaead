use super::*;

fn occupancy_of(capability: (u32, u32), threads: u32, registers: u32, shared_bytes: u32) -> Occupancy {
    let limits = SmLimits::of(capability).expect("in the table");
    limits.occupancy(BlockNeeds { threads, registers, shared_bytes }).expect("a block that can run")
}

/// Checks blocks per SM and percentage, rounded as in the source.
#[track_caller]
fn check(capability: (u32, u32), threads: u32, registers: u32, blocks: u32, percent: f64) {
    let occupancy = occupancy_of(capability, threads, registers, 0);
    let found = (100.0 * occupancy.fraction).round();
    assert_eq!((occupancy.blocks_per_sm, found), (blocks, percent), "{occupancy:?}");
}

/// CUDA C++ Best Practices Guide, "Calculating Occupancy": on a device of compute capability 7.0,
/// 37 registers per thread give 75% with 12 blocks of 128 threads and 63% with 4 blocks of 320.
#[test]
fn volta_has_the_occupancy_of_the_best_practices_guide() {
    check((7, 0), 128, 37, 12, 75.0);
    check((7, 0), 320, 37, 4, 63.0);
}

/// CUDA C Best Practices Guide 3.0, "Calculating Occupancy": on a device of compute capability 1.0,
/// 12 registers per thread give 83% with 5 blocks of 128 threads and 66% (cut off) with 2 blocks of
/// 256.
#[test]
fn first_gpus_have_the_occupancy_of_the_best_practices_guide() {
    check((1, 0), 128, 12, 5, 83.0);
    check((1, 0), 256, 12, 2, 67.0);
}

/// CUDA C++ Programming Guide, "Multiprocessor Level": on devices of compute capability 6.x, two
/// blocks of 512 threads with 64 registers fit exactly, and with 65 registers only one.
#[test]
fn pascal_has_the_blocks_of_the_programming_guide() {
    for minor in [0, 1] {
        assert_eq!(occupancy_of((6, minor), 512, 64, 0).blocks_per_sm, 2);
        assert_eq!(occupancy_of((6, minor), 512, 65, 0).blocks_per_sm, 1);
    }
}

/// The course: 192 threads are 25% of an SM of compute capability 1.0 and 18.75% of 1.3, and an SM
/// runs at most 8 blocks. 64 threads per block are then at most 67% and 50%.
#[test]
fn occupancies_of_the_course() {
    for (capability, of_one_block) in [((1, 0), 0.25), ((1, 1), 0.25), ((1, 2), 0.1875), ((1, 3), 0.1875)] {
        let occupancy = occupancy_of(capability, 192, 10, 0);
        let one_block = occupancy.fraction / f64::from(occupancy.blocks_per_sm);
        assert_eq!(one_block, of_one_block, "{capability:?}");
    }
    check((1, 0), 64, 10, 8, 67.0);
    check((1, 3), 64, 10, 8, 50.0);
    assert_eq!(occupancy_of((1, 3), 64, 10, 0).limited_by, [SmResource::Blocks]);
}

/// An SM of compute capability 9.0 has 228 KiB of shared memory. A block of 16 KiB is allocated 17,
/// so there are 13 blocks. One of 15 KiB minus 1 byte is allocated 16, so there are 14.
#[test]
fn one_kib_of_shared_memory_is_reserved_per_block() {
    let occupancy = occupancy_of((9, 0), 32, 16, 16 << 10);
    assert_eq!((occupancy.blocks_per_sm, occupancy.shared_per_block), (13, 17 << 10));
    assert_eq!(occupancy.limited_by, [SmResource::SharedMemory]);
    let occupancy = occupancy_of((9, 0), 32, 16, (15 << 10) - 1);
    assert_eq!((occupancy.blocks_per_sm, occupancy.shared_per_block), (14, 16 << 10));
    // Without a reserved KiB, a block without shared memory is not limited by it.
    let unlimited = occupancy_of((7, 5), 32, 16, 0);
    assert_eq!(unlimited.limits[3], (SmResource::SharedMemory, None));
}

/// 33 registers of 32 lanes are 1,056, allocated as 1,280. A quarter of the registers is enough for
/// 12 such warps, so an SM has 48.
#[test]
fn registers_are_allocated_to_warps_in_units() {
    let occupancy = occupancy_of((9, 0), 64, 33, 0);
    assert_eq!((occupancy.warps_per_sm, occupancy.registers_per_block), (48, 2 * 1280));
    assert_eq!(occupancy.limited_by, [SmResource::Registers]);
    let full = occupancy_of((9, 0), 256, 32, 0);
    assert_eq!(full.limited_by, [SmResource::Threads, SmResource::Registers]);
    assert_eq!(full.fraction, 1.0);
    // 30 registers are 960 and a multiple of 64, but compute capability 2.x allocates 1024.
    assert_eq!(occupancy_of((2, 0), 32, 30, 0).registers_per_block, 1024);
    assert_eq!(occupancy_of((2, 0), 32, 31, 0).registers_per_block, 1024);
    assert_eq!(occupancy_of((2, 0), 32, 28, 0).registers_per_block, 896);
    // A kernel that needs no registers is not limited by them.
    assert_eq!(occupancy_of((9, 0), 1024, 0, 0).limits[2], (SmResource::Registers, None));
}

#[test]
fn blocks_that_cannot_run_are_refused_with_the_reason() {
    let message = |capability, threads, registers, shared_bytes| {
        let limits = SmLimits::of(capability).expect("in the table");
        let occupancy = limits.occupancy(BlockNeeds { threads, registers, shared_bytes });
        occupancy.expect_err("a block that cannot run").to_string()
    };
    let h200 = (9, 0);
    assert_eq!(message(h200, 0, 32, 0), "a block of 0 threads is outside 1 to 1024 threads");
    assert_eq!(message(h200, 1025, 32, 0), "a block of 1025 threads is outside 1 to 1024 threads");
    assert_eq!(message((1, 3), 513, 8, 0), "a block of 513 threads is outside 1 to 512 threads");
    assert_eq!(message(h200, 32, 256, 0), "256 registers per thread are outside 0 to 255 registers");
    assert_eq!(message((3, 0), 32, 64, 0), "64 registers per thread are outside 0 to 63 registers");
    assert_eq!(
        message(h200, 1024, 65, 0),
        "a block of 1024 threads with 65 registers per thread is allocated 73728 registers, expected at most 65536"
    );
    let too_much = "232449 bytes of shared memory per block are outside 0 to 232448 bytes";
    assert_eq!(message(h200, 32, 32, 232_449), too_much);
    // 9 warps with 255 registers, allocated as 8,192 per warp, count as 12 warps.
    let counted = "a block of 288 threads with 255 registers per thread is allocated 98304 registers, \
                   expected at most 65536";
    assert_eq!(message(h200, 9 * 32, 255, 0), counted);
}

/// Every entry allows a full SM, and every limit can be reached.
#[test]
fn the_table_is_sorted_and_consistent() {
    let all = SmLimits::all();
    assert!(all.windows(2).all(|pair| pair[0].capability < pair[1].capability));
    for limits in all {
        let name = format!("{:?}", limits.capability);
        assert_eq!(SmLimits::of(limits.capability), Some(limits));
        assert_eq!(limits.threads_per_sm % WARP_SIZE, 0, "{name}");
        assert!(limits.shared_per_block + limits.reserved_shared <= limits.shared_per_sm, "{name}");
        assert!(limits.registers_per_block <= limits.registers_per_sm, "{name}");
        let largest = BlockNeeds { threads: 32, registers: 1, shared_bytes: limits.shared_per_block };
        assert!(limits.occupancy(largest).expect(&name).blocks_per_sm >= 1, "{name}");
        let few_registers = BlockNeeds { threads: 256, registers: 10, shared_bytes: 0 };
        assert_eq!(limits.occupancy(few_registers).expect(&name).fraction, 1.0, "{name}");
    }
    assert_eq!(SmLimits::of((4, 0)), None);
}
