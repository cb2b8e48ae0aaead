// Sum of numbers, one layer per launch: the rungs of the course's ladder of reductions (mod.rs).
//
// Each block sums NUMBERS_PER_BLOCK numbers to one. The host launches layers until one number is
// left. RUNG selects how the block sums. From RUNG_FIRST_ADD on each thread adds a pair of numbers
// as it loads them, so no thread only loads.
//
// Defined by the host (mod.rs): RUNG, BLOCK_SIZE, NUMBER, which is float, or uint for integers:
// signed overflow is undefined in C, and unsigned sums have the same bits. SHUFFLE_NUMBER is the
// shuffle of a NUMBER.

#if RUNG >= RUNG_FIRST_ADD
#define NUMBERS_PER_BLOCK (2 * BLOCK_SIZE)
#else
#define NUMBERS_PER_BLOCK BLOCK_SIZE
#endif

#if RUNG == RUNG_SHUFFLES
// Returns the sum of `value` over the warp, in every lane.
FUNCTION NUMBER sum_warp(NUMBER value, SHARED_POINTER uint* scratch)
{
    UNROLL_ALL
    for (uint offset = WARP_SIZE / 2; offset > 0; offset /= 2)
        value += SHUFFLE_NUMBER(value, (LANE + offset) % WARP_SIZE, scratch);
    return value;
}
#else

// Replaces partial[0] by the sum of all BLOCK_SIZE partial sums.
FUNCTION void sum_block(SHARED_POINTER NUMBER* partial)
{
#if RUNG == RUNG_DIVERGENT
    for (uint stride = 1; stride < BLOCK_SIZE; stride *= 2) {
        if (THREAD % (2 * stride) == 0)
            partial[THREAD] += partial[THREAD + stride];
        BARRIER();
    }
#elif RUNG == RUNG_INTERLEAVED
    for (uint stride = 1; stride < BLOCK_SIZE; stride *= 2) {
        const uint index = 2 * stride * THREAD;
        if (index < BLOCK_SIZE)
            partial[index] += partial[index + stride];
        BARRIER();
    }
#elif RUNG == RUNG_NO_BANK_CONFLICTS || RUNG == RUNG_FIRST_ADD
    for (uint offset = BLOCK_SIZE / 2; offset > 0; offset /= 2) {
        if (THREAD < (int)offset)
            partial[THREAD] += partial[THREAD + offset];
        BARRIER();
    }
#else
    for (uint offset = BLOCK_SIZE / 2; offset >= WARP_SIZE; offset /= 2) {
        if (THREAD < (int)offset)
            partial[THREAD] += partial[THREAD + offset];
        BARRIER();
    }
    // One warp is left. Its lanes need not wait for the other warps.
    UNROLL_ALL
    for (uint offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
        if (THREAD < (int)offset)
            partial[THREAD] += partial[THREAD + offset];
        WARP_BARRIER();
    }
#endif
}
#endif

// from: n numbers. to: one number per block.
KERNEL(BLOCK_SIZE) sum_layer(GLOBAL const NUMBER* RESTRICT from, ulong n, GLOBAL NUMBER* to)
{
    SHARED NUMBER partial[BLOCK_SIZE];
    const ulong index = (ulong)BLOCK_INDEX * NUMBERS_PER_BLOCK + THREAD;
    NUMBER sum = index < n ? from[index] : 0;
#if RUNG >= RUNG_FIRST_ADD
    sum += index + BLOCK_SIZE < n ? from[index + BLOCK_SIZE] : 0;
#endif

#if RUNG == RUNG_SHUFFLES
    // First within each warp, then over the sums of the warps. One barrier of the block in between.
    SHARED uint scratch[BLOCK_SIZE];
    sum = sum_warp(sum, scratch);
    if (LANE == 0)
        partial[THREAD / WARP_SIZE] = sum;
    BARRIER();
    sum = THREAD < BLOCK_SIZE / WARP_SIZE ? partial[THREAD] : 0;
    sum = sum_warp(sum, scratch);
    if (THREAD == 0)
        to[BLOCK_INDEX] = sum;
#else
    partial[THREAD] = sum;
    BARRIER();
    sum_block(partial);
    if (THREAD == 0)
        to[BLOCK_INDEX] = partial[0];
#endif
}
