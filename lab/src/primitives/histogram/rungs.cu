// Histogram of bytes: the rungs of the course's ladder (rungs.rs).
//
// Counts n bytes from `first` on. n is below 2^32, and `first` is a multiple of 16. RUNG selects
// how:
//   RUNG_BLOCKED          each thread counts a section of neighbouring bytes
//   RUNG_INTERLEAVED      neighbouring threads count neighbouring bytes
//   RUNG_WIDE_LOADS       neighbouring threads load neighbouring vectors of 16 bytes
//   RUNG_TABLE_PER_BLOCK  the same, in a table per block in shared memory
//   RUNG_TABLE_PER_WARP   the same, in a table per warp in shared memory
//
// Invariant: `counts` is 0 before the first launch. add_part.cu clears it after each.

#define BINS 256

#if RUNG >= RUNG_TABLE_PER_BLOCK
#define COUNTERS SHARED_POINTER uint*
#define COUNT(counters, value) SHARED_ATOMIC_ADD_U32((counters) + (value), 1)
#else
#define COUNTERS GLOBAL uint*
#define COUNT(counters, value) ATOMIC_ADD_U32((counters) + (value), 1)
#endif

FUNCTION void count_4_bytes(COUNTERS counters, uint word)
{
    COUNT(counters, word & 0xffu);
    COUNT(counters, word >> 8 & 0xffu);
    COUNT(counters, word >> 16 & 0xffu);
    COUNT(counters, word >> 24);
}

// Counts the thread's share of the n bytes.
FUNCTION void count_share(COUNTERS counters, GLOBAL const uchar* RESTRICT from, ulong n)
{
    const ulong thread = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    const ulong thread_count = (ulong)BLOCK_COUNT * BLOCK_SIZE;
#if RUNG == RUNG_BLOCKED
    const ulong section = (n + thread_count - 1) / thread_count;
    const ulong begin = thread * section;
    const ulong end = begin + section < n ? begin + section : n;
    for (ulong i = begin; i < end; i++)
        COUNT(counters, from[i]);
#elif RUNG == RUNG_INTERLEAVED
    for (ulong i = thread; i < n; i += thread_count)
        COUNT(counters, from[i]);
#else
    for (ulong i = thread; i < n / 16; i += thread_count) {
        const uint4 vector = ((GLOBAL const uint4*)from)[i];
        count_4_bytes(counters, vector.x);
        count_4_bytes(counters, vector.y);
        count_4_bytes(counters, vector.z);
        count_4_bytes(counters, vector.w);
    }
    if (thread < n % 16)
        COUNT(counters, from[n - n % 16 + thread]);
#endif
}

KERNEL(BLOCK_SIZE) count(GLOBAL const uchar* RESTRICT all, ulong first, ulong n, GLOBAL uint* counts)
{
#if RUNG < RUNG_TABLE_PER_BLOCK
    count_share(counts, all + first, n);
#else
#if RUNG == RUNG_TABLE_PER_BLOCK
#define TABLES 1
#else
#define TABLES (BLOCK_SIZE / WARP_SIZE)
#endif
    SHARED uint table[TABLES * BINS];
    for (uint counter = THREAD; counter < TABLES * BINS; counter += BLOCK_SIZE)
        table[counter] = 0;
    BARRIER();
    count_share(table + (uint)THREAD / (BLOCK_SIZE / TABLES) * BINS, all + first, n);
    BARRIER();
    for (uint bin = THREAD; bin < BINS; bin += BLOCK_SIZE) {
        uint sum = 0;
        for (uint t = 0; t < TABLES; t++)
            sum += table[t * BINS + bin];
        ATOMIC_ADD_U32(counts + bin, sum);
    }
#endif
}
