// Reduction of n numbers to one, in a single launch.
//
// The input is divided into tiles of BLOCK_SIZE * LOADS_IN_FLIGHT vectors of 16 bytes. Block b
// takes the tiles b, b + BLOCK_COUNT, b + 2 BLOCK_COUNT, and so on. A thread issues LOADS_IN_FLIGHT
// loads before it uses the first. It accumulates the VECTOR_WIDTH components of its vectors
// separately, and combines them at the end. The threads of a block combine their results in shared
// memory. The last block to finish combines the results of all blocks in the order of the blocks.
// The order of operations therefore depends on n and BLOCK_COUNT only, and the result has the same
// bits in every run.
//
// One load and one operation per number: bound by memory bandwidth.
//
// Defined by the host (device.rs): NUMBER, VECTOR and VECTOR_WIDTH (16 bytes of NUMBERs), SUM_TYPE
// (unsigned for int, because signed overflow is undefined in C), OPERATION, IDENTITY, BLOCK_SIZE,
// LOADS_IN_FLIGHT.
//
// Invariant: *arrived is 0 between launches.

#define OPERATION_SUM 0
#define OPERATION_MIN 1
#define OPERATION_MAX 2

#if defined(ON_CUDA)
#define ulong2 ulonglong2
#endif

// Minimum and maximum ignore NaN: comparisons with NaN are false, so `a`, which is never NaN, is
// kept.
#if OPERATION == OPERATION_SUM
#define COMBINE(a, b) ((NUMBER)((SUM_TYPE)(a) + (SUM_TYPE)(b)))
#elif OPERATION == OPERATION_MIN
#define COMBINE(a, b) ((b) < (a) ? (b) : (a))
#else
#define COMBINE(a, b) ((b) > (a) ? (b) : (a))
#endif

// Combines each component of `vector` with its own partial result.
FUNCTION void combine_vector(NUMBER result[VECTOR_WIDTH], VECTOR vector)
{
    result[0] = COMBINE(result[0], vector.x);
    result[1] = COMBINE(result[1], vector.y);
#if VECTOR_WIDTH == 4
    result[2] = COMBINE(result[2], vector.z);
    result[3] = COMBINE(result[3], vector.w);
#endif
}

// Returns the result of the thread's share of the input. The elements after the last whole vector,
// fewer than VECTOR_WIDTH, are combined by the first block.
FUNCTION NUMBER reduce_thread(GLOBAL const NUMBER* RESTRICT from, ulong n)
{
    GLOBAL const VECTOR* RESTRICT vectors = (GLOBAL const VECTOR*)from;
    const ulong vector_count = n / VECTOR_WIDTH;
    const ulong tile_stride = (ulong)BLOCK_COUNT * BLOCK_SIZE * LOADS_IN_FLIGHT;

    NUMBER result[VECTOR_WIDTH];
    UNROLL_ALL
    for (int component = 0; component < VECTOR_WIDTH; component++)
        result[component] = IDENTITY;

    // Whole tiles.
    ulong first = (ulong)BLOCK_INDEX * BLOCK_SIZE * LOADS_IN_FLIGHT + THREAD;
    for (; first + (LOADS_IN_FLIGHT - 1) * BLOCK_SIZE < vector_count; first += tile_stride) {
        VECTOR loaded[LOADS_IN_FLIGHT];
        UNROLL_ALL
        for (int load = 0; load < LOADS_IN_FLIGHT; load++)
            loaded[load] = vectors[first + load * BLOCK_SIZE];
        UNROLL_ALL
        for (int load = 0; load < LOADS_IN_FLIGHT; load++)
            combine_vector(result, loaded[load]);
    }

    // The last tile may end before the thread's last load.
    VECTOR loaded[LOADS_IN_FLIGHT];
    UNROLL_ALL
    for (int load = 0; load < LOADS_IN_FLIGHT - 1; load++)
        if (first + load * BLOCK_SIZE < vector_count)
            loaded[load] = vectors[first + load * BLOCK_SIZE];
    UNROLL_ALL
    for (int load = 0; load < LOADS_IN_FLIGHT - 1; load++)
        if (first + load * BLOCK_SIZE < vector_count)
            combine_vector(result, loaded[load]);
    if (BLOCK_INDEX == 0 && THREAD < (int)(n - vector_count * VECTOR_WIDTH))
        result[0] = COMBINE(result[0], from[vector_count * VECTOR_WIDTH + THREAD]);

    UNROLL_ALL
    for (int component = 1; component < VECTOR_WIDTH; component++)
        result[0] = COMBINE(result[0], result[component]);
    return result[0];
}

// Returns the combination of the values of all threads of the block. It is valid in thread 0.
FUNCTION NUMBER reduce_block(NUMBER value, SHARED_POINTER NUMBER* partial)
{
    partial[THREAD] = value;
    BARRIER();
    for (uint offset = BLOCK_SIZE / 2; offset > 0; offset /= 2) {
        if (THREAD < (int)offset)
            partial[THREAD] = COMBINE(partial[THREAD], partial[THREAD + offset]);
        BARRIER();
    }
    return partial[0];
}

// from: n numbers, aligned to 16 bytes. block_results: one number per block. to: one number.
KERNEL(BLOCK_SIZE)
reduce(GLOBAL const NUMBER* RESTRICT from, ulong n, GLOBAL NUMBER* block_results, GLOBAL uint* arrived, GLOBAL NUMBER* to)
{
    SHARED NUMBER partial[BLOCK_SIZE];
    SHARED int is_last;

    const NUMBER block_result = reduce_block(reduce_thread(from, n), partial);
    if (THREAD == 0) {
        block_results[BLOCK_INDEX] = block_result;
        DEVICE_FENCE();
        is_last = ATOMIC_ADD_U32(arrived, 1) == (uint)BLOCK_COUNT - 1;
    }
    BARRIER();

    // Blocks other than the last pass the same barriers with no results to combine, because PoCL
    // 5.0 miscompiles branches around barriers.
    const int result_count = is_last ? BLOCK_COUNT : 0;
    DEVICE_FENCE();
    NUMBER result = IDENTITY;
    for (int block = THREAD; block < result_count; block += BLOCK_SIZE) {
        // Volatile: other blocks wrote these, so a cached value may be stale.
        const NUMBER other = *(GLOBAL const volatile NUMBER*)(block_results + block);
        result = COMBINE(result, other);
    }
    result = reduce_block(result, partial);
    if (THREAD == 0 && is_last) {
        *to = result;
        *arrived = 0;
    }
}
