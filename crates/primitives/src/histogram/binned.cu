// How many floats fall into each of BINS equal bins over [low, high); see binned.rs for what a bin is. A group counts in
// COPIES tables in SHARED memory, which its warps take in turn; the host sees to it that no group has 2^32 values.

KERNEL(BLOCK_SIZE)
count_floats(GLOBAL const float* RESTRICT from, ulong n, float low, float high, float scale, GLOBAL uint* counts,
    GLOBAL uint* arrived, GLOBAL ulong* to)
{
    SHARED uint table[COPIES * BINS];
    SHARED int is_last;
    for (uint k = THREAD; k < COPIES * BINS; k += BLOCK_SIZE)
        table[k] = 0;
    BARRIER();

    SHARED_POINTER uint* own = table + (uint)THREAD / WARP_SIZE % COPIES * BINS;
#define COUNT(value)                                                                                                   \
    if ((value) >= low && (value) < high) {                                                                            \
        const uint bin = (uint)(((value) - low) * scale);                                                              \
        SHARED_ATOMIC_ADD_U32(own + (bin < BINS ? bin : BINS - 1), 1);                                                  \
    }
    GLOBAL const float4* RESTRICT wide = (GLOBAL const float4*)from;
    const ulong vectors = n / 4;
    const ulong stride = (ulong)BLOCK_COUNT * BLOCK_SIZE;
    ulong at = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    for (; at + 3 * stride < vectors; at += 4 * stride) {
        const float4 v[4] = { wide[at], wide[at + stride], wide[at + 2 * stride], wide[at + 3 * stride] };
        UNROLL_ALL
        for (int k = 0; k < 4; k++) {
            COUNT(v[k].x)
            COUNT(v[k].y)
            COUNT(v[k].z)
            COUNT(v[k].w)
        }
    }
    for (; at < vectors; at += stride) {
        const float4 v = wide[at];
        COUNT(v.x)
        COUNT(v.y)
        COUNT(v.z)
        COUNT(v.w)
    }
    if (BLOCK_INDEX == 0 && THREAD < (int)(n % 4)) {
        const float v = from[n - n % 4 + THREAD];
        COUNT(v)
    }
    BARRIER();

    for (uint bin = THREAD; bin < BINS; bin += BLOCK_SIZE) {
        uint sum = 0;
        for (uint copy = 0; copy < COPIES; copy++)
            sum += table[copy * BINS + bin];
        if (sum != 0)
            add_to_count(counts, bin, sum);
    }
    hand_over(counts, arrived, to, &is_last);
}
