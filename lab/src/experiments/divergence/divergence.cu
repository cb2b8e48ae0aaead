// Threads of a warp that take different paths.
//
// Thread i computes lengths[i] steps on path paths[i]. A step on path k is FMAS_PER_STEP times x =
// a_k x + b_k, each of which needs the x before. The loops of the paths are too long for the
// compiler to compute both sides and select.
// Cost: 2 FMAS_PER_STEP operations per step, and 12 bytes per thread.
// Limit: arithmetic. A warp executes all paths that any of its lanes takes, one after the other,
// and a loop until its last lane has finished.
//
// Defined by the host (mod.rs):
// BLOCK_SIZE     threads per block
// FMAS_PER_STEP  fused multiply-adds of a step
// COUNTS_LANES   1: also counts the lanes that are active in each step, which takes time. Only for
//                compilers with CUDA's __activemask.

#define PATHS 32
#define SLOPE(k) (1.0f - 1.0f / 64.0f - (float)(k) / 4096.0f)
#define SHIFT(k) (0.25f + (float)(k) / 64.0f)

// The first active lane counts a step of the warp. ACTIVE_MASK has one bit per active lane.
#if COUNTS_LANES
#if defined(ON_CUDA)
#define ACTIVE_MASK() __activemask()
#else
FUNCTION uint active_mask()
{
    uint mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}
#define ACTIVE_MASK() active_mask()
#endif
#define COUNT_LANES()                                                                              \
    const uint mask = ACTIVE_MASK();                                                               \
    const uint is_first = (mask & ((1u << LANE) - 1u)) == 0u ? 1u : 0u;                            \
    warp_steps += is_first;                                                                        \
    lane_steps += is_first * (uint)POPCOUNT(mask);
#else
#define COUNT_LANES()
#endif

#define PATH(k)                                                                                    \
    case k:                                                                                        \
        UNROLL(1)                                                                                  \
        for (int step = 0; step < steps; step++) {                                                 \
            COUNT_LANES()                                                                          \
            UNROLL_ALL                                                                             \
            for (int count = 0; count < FMAS_PER_STEP; count++)                                    \
                x = FMA(x, SLOPE(k), SHIFT(k));                                                    \
        }                                                                                          \
        break;

// paths: below PATHS, one per thread. lengths, results: one per thread. counts: steps of warps and
// steps of lanes of each thread, 2 n numbers if COUNTS_LANES is 1.
KERNEL(BLOCK_SIZE)
run_paths(GLOBAL const uint* RESTRICT paths, GLOBAL const uint* RESTRICT lengths, uint n,
          GLOBAL float* RESTRICT results, GLOBAL uint* RESTRICT counts)
{
    const uint i = (uint)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) {
        const int steps = (int)lengths[i];
        float x = 1.0f;
#if COUNTS_LANES
        uint warp_steps = 0u, lane_steps = 0u;
#endif
        switch (paths[i]) {
        PATH(0) PATH(1) PATH(2) PATH(3) PATH(4) PATH(5) PATH(6) PATH(7)
        PATH(8) PATH(9) PATH(10) PATH(11) PATH(12) PATH(13) PATH(14) PATH(15)
        PATH(16) PATH(17) PATH(18) PATH(19) PATH(20) PATH(21) PATH(22) PATH(23)
        PATH(24) PATH(25) PATH(26) PATH(27) PATH(28) PATH(29) PATH(30) PATH(31)
        }
        results[i] = x;
#if COUNTS_LANES
        counts[2u * i] = warp_steps;
        counts[2u * i + 1u] = lane_steps;
#endif
    }
}
