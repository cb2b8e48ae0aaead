// Histogram of floats in BINS equal bins over [low, high). binned.rs defines the bin of a value.
//
// A block has TABLES tables of BINS counters in shared memory. Warp w counts in table w % TABLES.
//
// Defined by the host (binned.rs): BINS, TABLES, BLOCK_SIZE. The host launches enough blocks that
// none counts 2^32 values or more.

// Vectors of four floats that a thread loads before it counts them.
#define LOADS_IN_FLIGHT 4

// Counts a value that lies in the range. NaN is not counted, because its comparisons are false.
FUNCTION void count_float(SHARED_POINTER uint* counters, float value, float low, float high, float scale)
{
    if (value >= low && value < high) {
        const uint bin = (uint)((value - low) * scale);
        SHARED_ATOMIC_ADD_U32(counters + (bin < BINS ? bin : BINS - 1), 1);
    }
}

FUNCTION void count_4_floats(SHARED_POINTER uint* counters, float4 values, float low, float high, float scale)
{
    count_float(counters, values.x, low, high, scale);
    count_float(counters, values.y, low, high, scale);
    count_float(counters, values.z, low, high, scale);
    count_float(counters, values.w, low, high, scale);
}

// Counts the block's share of the input. The values after the last four are counted by the first
// block.
FUNCTION void count_share(SHARED_POINTER uint* counters, GLOBAL const float* RESTRICT from, ulong n, float low,
    float high, float scale)
{
    GLOBAL const float4* RESTRICT vectors = (GLOBAL const float4*)from;
    const ulong vector_count = n / 4;
    const ulong stride = (ulong)BLOCK_COUNT * BLOCK_SIZE;
    ulong index = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    for (; index + (LOADS_IN_FLIGHT - 1) * stride < vector_count; index += LOADS_IN_FLIGHT * stride) {
        float4 loaded[LOADS_IN_FLIGHT];
        UNROLL_ALL
        for (int load = 0; load < LOADS_IN_FLIGHT; load++)
            loaded[load] = vectors[index + load * stride];
        UNROLL_ALL
        for (int load = 0; load < LOADS_IN_FLIGHT; load++)
            count_4_floats(counters, loaded[load], low, high, scale);
    }
    for (; index < vector_count; index += stride)
        count_4_floats(counters, vectors[index], low, high, scale);
    if (BLOCK_INDEX == 0 && THREAD < (int)(n % 4))
        count_float(counters, from[n - n % 4 + THREAD], low, high, scale);
}

// from: n floats, aligned to 16 bytes. counts, arrived: see counts.cu. to: BINS counts.
KERNEL(BLOCK_SIZE)
count_floats(GLOBAL const float* RESTRICT from, ulong n, float low, float high, float scale, GLOBAL uint* counts,
    GLOBAL uint* arrived, GLOBAL ulong* to)
{
    SHARED uint table[TABLES * BINS];
    SHARED int is_last;
    for (uint counter = THREAD; counter < TABLES * BINS; counter += BLOCK_SIZE)
        table[counter] = 0;
    BARRIER();
    count_share(table + (uint)THREAD / WARP_SIZE % TABLES * BINS, from, n, low, high, scale);
    BARRIER();

    for (uint bin = THREAD; bin < BINS; bin += BLOCK_SIZE) {
        uint sum = 0;
        for (uint t = 0; t < TABLES; t++)
            sum += table[t * BINS + bin];
        if (sum != 0)
            add_to_count(counts, bin, sum);
    }
    finish_counts(counts, arrived, to, &is_last);
}
