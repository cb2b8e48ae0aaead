// Reads of shared memory with a given pattern, timed by the clock of the SM.
//
// Data: WORDS words of shared memory. Lane l of each warp reads the words words[l] + 32 s for
// s = 0 ... STEPS - 1, `rounds` times. Adding 32 does not change the bank of a word, so all reads
// of a warp have the conflicts of words[0 ... 31].
// Cost: one load and one addition per read.
// Limit: the banks of the shared memory. Each bank delivers one word of 4 bytes per cycle, so a
// warp whose lanes read k different words of one bank needs k cycles. All warps of a block keep
// reads in flight, so their latency is hidden.
//
// Defined by the host (mod.rs): BLOCK_SIZE, WORDS, STEPS.

// Cycles of the SM's clock. 0 where the compiler gives no access to it.
#if defined(ON_CUDA)
#define CYCLES() ((ulong)clock64())
#else
#define CYCLES() 0ul
#endif

// words: one index per lane, below WORDS - 32 (STEPS - 1). sums: one sum per thread of the grid.
// cycles: one count per block.
KERNEL(BLOCK_SIZE)
read_banks(GLOBAL const uint* RESTRICT words, int rounds, GLOBAL uint* RESTRICT sums, GLOBAL ulong* RESTRICT cycles)
{
    SHARED uint data[WORDS];
    for (uint word = THREAD; word < WORDS; word += BLOCK_SIZE)
        data[word] = word * word + 7u;
    // Volatile, because the compiler would otherwise read each word once and not once per round.
    SHARED_POINTER const volatile uint* start = data + words[LANE];
    uint sum[STEPS];
    UNROLL_ALL
    for (int step = 0; step < STEPS; step++)
        sum[step] = 0u;

    BARRIER();
    const ulong before = CYCLES();
    for (int round = 0; round < rounds; round++) {
        UNROLL_ALL
        for (int step = 0; step < STEPS; step++)
            sum[step] += start[32 * step];
    }
    BARRIER();
    const ulong after = CYCLES();

    UNROLL_ALL
    for (int step = 1; step < STEPS; step++)
        sum[0] += sum[step];
    sums[BLOCK_INDEX * BLOCK_SIZE + THREAD] = sum[0];
    if (THREAD == 0)
        cycles[BLOCK_INDEX] = after - before;
}
