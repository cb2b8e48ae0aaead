// Histogram of letters in groups of four: the kernels of the course, from a race to private
// counters (letters.rs).
//
// Counts n bytes from `first` on. n is below 2^32. Cost: one load and one increment per letter.
// Limit: increments of the same counter, which the memory executes one after the other. With
// counters of each thread, the loads.
//
// Defined by the host: BLOCK_SIZE, BINS (7) and
//   HAS_SECTIONS     1: each thread counts a section of neighbouring bytes
//                    0: neighbouring threads count neighbouring bytes (interleaved)
//   COUNTING         how a counter is incremented:
//     COUNTING_RACY     reads, adds and writes in three steps. Other threads write in between, and
//                       their counts are lost.
//     COUNTING_ATOMIC   one atomic operation on a counter in global memory
//     COUNTING_PRIVATE  one atomic operation on a counter of the block in shared memory
//     COUNTING_PRIVATE_TO_THREADS  each thread has counters in shared memory, which no other thread
//                       writes
//   LOADS_IN_FLIGHT  loads that a thread issues before it counts the first byte
//
// Invariant: `counts` is 0 before the first launch. add_part.cu clears it after each.

// Distance of the counters of neighbouring bins. Counter `bin` of thread t is at
// bin * BLOCK_SIZE + t, so the lanes of a warp use different banks, whatever their letters are.
#if COUNTING == COUNTING_PRIVATE_TO_THREADS
#define COUNTER_STRIDE BLOCK_SIZE
#else
#define COUNTER_STRIDE 1
#endif

#if COUNTING == COUNTING_PRIVATE_TO_THREADS
#define COUNTERS SHARED_POINTER uint*
#define INCREMENT(counter) *(counter) += 1u
#elif COUNTING == COUNTING_PRIVATE
#define COUNTERS SHARED_POINTER uint*
#define INCREMENT(counter) SHARED_ATOMIC_ADD_U32(counter, 1)
#elif COUNTING == COUNTING_ATOMIC
#define COUNTERS GLOBAL uint*
#define INCREMENT(counter) ATOMIC_ADD_U32(counter, 1)
#else
#define COUNTERS GLOBAL uint*
#define INCREMENT(counter) STORE_U32(counter, LOAD_U32(counter) + 1u)
#endif

// Counts a byte if it is one of the letters a to z.
FUNCTION void count_letter(COUNTERS counters, uint byte)
{
    const int position = (int)byte - 'a';
    if (position >= 0 && position < 26)
        INCREMENT(counters + position / 4 * COUNTER_STRIDE);
}

// Counts the thread's share of the n bytes.
FUNCTION void count_share(COUNTERS counters, GLOBAL const uchar* RESTRICT from, ulong n)
{
    const ulong thread = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    const ulong thread_count = (ulong)BLOCK_COUNT * BLOCK_SIZE;
#if HAS_SECTIONS
    const ulong section = (n + thread_count - 1) / thread_count;
    const ulong step = 1;
    ulong i = thread * section;
    const ulong end = i + section < n ? i + section : n;
#else
    const ulong step = thread_count;
    ulong i = thread;
    const ulong end = n;
#endif
#if LOADS_IN_FLIGHT > 1
    for (; i + (LOADS_IN_FLIGHT - 1) * step < end; i += LOADS_IN_FLIGHT * step) {
        uchar loaded[LOADS_IN_FLIGHT];
        UNROLL_ALL
        for (int load = 0; load < LOADS_IN_FLIGHT; load++)
            loaded[load] = from[i + load * step];
        UNROLL_ALL
        for (int load = 0; load < LOADS_IN_FLIGHT; load++)
            count_letter(counters, loaded[load]);
    }
#endif
    for (; i < end; i += step)
        count_letter(counters, from[i]);
}

KERNEL(BLOCK_SIZE) count_letters(GLOBAL const uchar* RESTRICT all, ulong first, ulong n, GLOBAL uint* counts)
{
#if COUNTING == COUNTING_PRIVATE_TO_THREADS
    SHARED uint table[BINS * BLOCK_SIZE];
    SHARED uint sums[BINS];
    for (int bin = 0; bin < BINS; bin++)
        table[bin * BLOCK_SIZE + THREAD] = 0;
    if (THREAD < BINS)
        sums[THREAD] = 0;
    count_share(table + THREAD, all + first, n);
    BARRIER();
    for (int bin = 0; bin < BINS; bin++)
        SHARED_ATOMIC_ADD_U32(sums + bin, table[bin * BLOCK_SIZE + THREAD]);
    BARRIER();
    if (THREAD < BINS)
        ATOMIC_ADD_U32(counts + THREAD, sums[THREAD]);
#elif COUNTING == COUNTING_PRIVATE
    SHARED uint table[BINS];
    if (THREAD < BINS)
        table[THREAD] = 0;
    BARRIER();
    count_share(table, all + first, n);
    BARRIER();
    if (THREAD < BINS)
        ATOMIC_ADD_U32(counts + THREAD, table[THREAD]);
#else
    count_share(counts, all + first, n);
#endif
}
