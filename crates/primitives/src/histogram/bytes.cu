// How often each byte occurs. A group has TABLES tables of 256 counters in SHARED memory, which its threads take in turn:
//
//   byte b of thread t is counted at   b * TABLES  +  t % TABLES
//
// so that with a table for each lane no two lanes of a warp meet in a bank, whatever the bytes are: equal bytes cost
// what random ones do. Warps share the tables, and so add atomically. The host sees to it that no group has 2^32 bytes.

#define COUNT(value) SHARED_ATOMIC_ADD_U32(own + (value) * TABLES, 1);
#define COUNT_4(word)                                                                                                  \
    COUNT((word) & 0xffu)                                                                                              \
    COUNT((word) >> 8 & 0xffu)                                                                                         \
    COUNT((word) >> 16 & 0xffu)                                                                                        \
    COUNT((word) >> 24)

KERNEL(BLOCK_SIZE)
count_bytes(GLOBAL const unsigned char* RESTRICT from, ulong n, GLOBAL uint* counts, GLOBAL uint* arrived, GLOBAL ulong* to)
{
    SHARED uint table[BINS * TABLES];
    SHARED int is_last;
    for (uint k = THREAD; k < BINS * TABLES; k += BLOCK_SIZE)
        table[k] = 0;
    BARRIER();

    SHARED_POINTER uint* own = table + (uint)THREAD % TABLES;
    GLOBAL const uint4* RESTRICT wide = (GLOBAL const uint4*)from;
    const ulong vectors = n / 16;
    const ulong stride = (ulong)BLOCK_COUNT * BLOCK_SIZE;
    for (ulong at = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD; at < vectors; at += IN_FLIGHT * stride) {
        uint4 v[IN_FLIGHT];
        UNROLL_ALL
        for (uint k = 0; k < IN_FLIGHT; k++)
            if (at + k * stride < vectors)
                v[k] = wide[at + k * stride];
        UNROLL_ALL
        for (uint k = 0; k < IN_FLIGHT; k++)
            if (at + k * stride < vectors) {
                COUNT_4(v[k].x)
                COUNT_4(v[k].y)
                COUNT_4(v[k].z)
                COUNT_4(v[k].w)
            }
    }
    if (BLOCK_INDEX == 0 && THREAD < (int)(n % 16))
        COUNT(from[n - n % 16 + THREAD])
    BARRIER();

    // The threads start at different tables, for the banks' sake.
    for (uint bin = THREAD; bin < BINS; bin += BLOCK_SIZE) {
        uint sum = 0;
        for (uint k = 0; k < TABLES; k++)
            sum += table[bin * TABLES + (k + THREAD) % TABLES];
        if (sum != 0)
            add_to_count(counts, bin, sum);
    }
    hand_over(counts, arrived, to, &is_last);
}
