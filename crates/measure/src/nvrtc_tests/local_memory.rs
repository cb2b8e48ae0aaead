//! Kernels that may use local memory.

use orrery_device::testing::AllowedLocalMemory;

pub(super) const ALLOWED_LOCAL_MEMORY: [AllowedLocalMemory; 13] = [
    AllowedLocalMemory {
        file: "fluid.cu",
        kernel: "take_force_step",
        definitions: &[],
        max_bytes: 32,
        reason: "numbers of a particle that are stored before the sum of forces and loaded once after it",
    },
    AllowedLocalMemory {
        file: "fluid.cu",
        kernel: "take_step",
        definitions: &[],
        max_bytes: 96,
        reason: "as in take_force_step; only the first and last step of a batch",
    },
    AllowedLocalMemory {
        file: "fluid.cu",
        kernel: "take_steps",
        definitions: &[],
        max_bytes: 32,
        reason: "numbers of a particle that are stored before the sum of forces and loaded once after it",
    },
    AllowedLocalMemory {
        file: "jerks.cu",
        kernel: "forces_and_jerks",
        definitions: &[],
        max_bytes: 8,
        reason: "one register, stored and loaded once per tile of 128 sources",
    },
    AllowedLocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["ORDER=2", "MIN_BLOCKS_PER_SM=32", "UNROLL_BODIES=16"],
        max_bytes: 16,
        reason: "four registers, with the relative acceptance; a candidate of the tuner, not a default",
    },
    AllowedLocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["PRECISION=PRECISION_SINGLE", "ORDER=2", "MIN_BLOCKS_PER_SM=32"],
        max_bytes: 8,
        reason: "two counters, stored and loaded once per group; 64 registers are fastest on an H200",
    },
    AllowedLocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["PRECISION=PRECISION_MIXED", "ORDER=2", "MIN_BLOCKS_PER_SM=32"],
        max_bytes: 16,
        reason: "as in single precision; four registers with potentials and the relative acceptance",
    },
    AllowedLocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["PRECISION=PRECISION_MIXED", "ORDER=1", "MIN_BLOCKS_PER_SM=32"],
        max_bytes: 16,
        reason: "as with quadrupoles; only with potentials and the relative acceptance",
    },
    AllowedLocalMemory {
        file: "walk.cu",
        kernel: "walk",
        definitions: &["PRECISION=PRECISION_DOUBLE", "ORDER=2", "MIN_BLOCKS_PER_SM=28", "UNROLL_BODIES=16"],
        max_bytes: 8,
        reason: "two registers, with potentials; a candidate of the tuner, not a default",
    },
    AllowedLocalMemory {
        file: "columns.cu",
        kernel: "advance_columns",
        definitions: &["REAL=double", "IS_VARIABLE=1", "DIMENSIONS=3", "UNROLLED_PLANES=10"],
        max_bytes: 80,
        reason: "a velocity per node; without spills, for uniform velocity, unrolling is 4% faster on an H200",
    },
    AllowedLocalMemory {
        file: "ring.cu",
        kernel: "advance_ring",
        definitions: &["REAL=double", "IS_VARIABLE=1"],
        max_bytes: 8,
        reason: "one register; a candidate of the tuner, not a default",
    },
    AllowedLocalMemory {
        file: "measures.cu",
        kernel: "measure_rows",
        definitions: &["REAL=double", "HAS_CAPACITY=1"],
        max_bytes: 8,
        reason: "one value; the heat content is computed once per row of conserved.csv",
    },
    AllowedLocalMemory {
        file: "wave_measures.cu",
        kernel: "measure_energy",
        definitions: &[],
        max_bytes: 16,
        reason: "up to four registers; the energy is computed once per row of conserved.csv",
    },
];
