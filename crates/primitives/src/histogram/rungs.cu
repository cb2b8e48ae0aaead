// The rungs of the course's histogram, of n bytes from `first` on (a multiple of 16), fewer than 2^32. FORM counts the
// rungs: 1 a section of neighbouring bytes a thread; 2 neighbouring threads on neighbouring bytes; 3 on neighbouring 16
// bytes; 4 a table for each group in SHARED memory; 5 a table for each warp.
//
// Invariant: counts are 0 between sums of parts.

#if FORM >= 4
#define COUNT(value) SHARED_ATOMIC_ADD_U32(own + (value), 1);
#else
#define COUNT(value) ATOMIC_ADD_U32(counts + (value), 1);
#endif
#define COUNT_4(word)                                                                                                  \
    COUNT((word) & 0xffu)                                                                                              \
    COUNT((word) >> 8 & 0xffu)                                                                                         \
    COUNT((word) >> 16 & 0xffu)                                                                                        \
    COUNT((word) >> 24)

KERNEL(BLOCK_SIZE) count(GLOBAL const unsigned char* RESTRICT all, ulong first, ulong n, GLOBAL uint* counts)
{
    GLOBAL const unsigned char* RESTRICT from = all + first;
    const ulong thread = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    const ulong threads = (ulong)BLOCK_COUNT * BLOCK_SIZE;

#if FORM >= 4
#if FORM == 4
#define TABLES 1
#else
#define TABLES (BLOCK_SIZE / WARP_SIZE)
#endif
    SHARED uint table[TABLES * 256];
    for (uint k = THREAD; k < TABLES * 256; k += BLOCK_SIZE)
        table[k] = 0;
    BARRIER();
    SHARED_POINTER uint* own = table + (uint)THREAD / (BLOCK_SIZE / TABLES) * 256;
#endif

#if FORM == 1
    const ulong section = (n + threads - 1) / threads;
    const ulong begin = thread * section;
    const ulong end = begin + section < n ? begin + section : n;
    for (ulong i = begin; i < end; i++)
        COUNT(from[i])
#elif FORM == 2
    for (ulong i = thread; i < n; i += threads)
        COUNT(from[i])
#else
    for (ulong i = thread; i < n / 16; i += threads) {
        const uint4 v = ((GLOBAL const uint4*)from)[i];
        COUNT_4(v.x)
        COUNT_4(v.y)
        COUNT_4(v.z)
        COUNT_4(v.w)
    }
    if (thread < n % 16)
        COUNT(from[n - n % 16 + thread])
#endif

#if FORM >= 4
    BARRIER();
    for (uint bin = THREAD; bin < 256; bin += BLOCK_SIZE) {
        uint sum = 0;
        for (uint k = 0; k < TABLES; k++)
            sum += table[k * 256 + bin];
        ATOMIC_ADD_U32(counts + bin, sum);
    }
#endif
}
