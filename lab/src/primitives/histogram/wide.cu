// Histogram of 16-bit values in 65,536 bins, which are too many for shared memory. Bins below
// `private_bins` have a counter of the block in shared memory, all others only the one in global
// memory (wide.rs).
//
// Cost: one load, one comparison and one increment per value, and per block one addition for every
// private bin that is not 0. Limit: increments in global memory.
//
// Defined by the host: BLOCK_SIZE. Invariant: `counts` is 0 before the first launch. add_part.cu
// clears it after each.

// Counts n values from `first` on, n below 2^32. table: private_bins counters, at least one.
KERNEL(BLOCK_SIZE)
count_wide(GLOBAL const ushort* RESTRICT all, ulong first, ulong n, uint private_bins,
    GLOBAL uint* counts DYNAMIC_SHARED(uint, table))
{
    USE_DYNAMIC_SHARED(uint, table);
    for (uint bin = THREAD; bin < private_bins; bin += BLOCK_SIZE)
        table[bin] = 0;
    BARRIER();
    const ulong thread_count = (ulong)BLOCK_COUNT * BLOCK_SIZE;
    for (ulong i = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD; i < n; i += thread_count) {
        const uint bin = all[first + i];
        if (bin < private_bins)
            SHARED_ATOMIC_ADD_U32(table + bin, 1);
        else
            ATOMIC_ADD_U32(counts + bin, 1);
    }
    BARRIER();
    for (uint bin = THREAD; bin < private_bins; bin += BLOCK_SIZE)
        if (table[bin] != 0)
            ATOMIC_ADD_U32(counts + bin, table[bin]);
}
