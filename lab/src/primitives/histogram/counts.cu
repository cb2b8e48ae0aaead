// 64-bit counts in global memory, shared by count_bytes and count_floats (compiled in front of
// both).
//
// Each block adds its counts. The last block to finish copies the totals to the output and clears
// the counts. A count is two 32-bit words, low word first, because not every device has 64-bit
// atomics.
//
// Defined by the host: BINS, BLOCK_SIZE. Invariant: all 2 BINS words of `counts` and *arrived are 0
// between launches.

// Adds `amount` to a count. The thread that makes the low word overflow adds the carry to the high
// word.
FUNCTION void add_to_count(GLOBAL uint* counts, uint bin, ulong amount)
{
    const uint low = (uint)amount;
    const uint before = ATOMIC_ADD_U32(counts + 2 * bin, low);
    const uint high = (uint)(amount >> 32) + (before + low < before ? 1u : 0u);
    if (high != 0)
        ATOMIC_ADD_U32(counts + 2 * bin + 1, high);
}

// Copies the totals to `to` and clears the counts, if this block is the last to call it. Every
// block calls it once, after it has added all of its counts.
FUNCTION void finish_counts(GLOBAL uint* counts, GLOBAL uint* arrived, GLOBAL ulong* to, SHARED_POINTER int* is_last)
{
    DEVICE_FENCE();
    BARRIER();
    if (THREAD == 0)
        *is_last = ATOMIC_ADD_U32(arrived, 1) == (uint)BLOCK_COUNT - 1;
    BARRIER();
    if (*is_last) {
        DEVICE_FENCE();
        for (uint bin = THREAD; bin < BINS; bin += BLOCK_SIZE) {
            to[bin] = (ulong)LOAD_U32(counts + 2 * bin + 1) << 32 | (ulong)LOAD_U32(counts + 2 * bin);
            counts[2 * bin] = 0;
            counts[2 * bin + 1] = 0;
        }
        if (THREAD == 0)
            *arrived = 0;
    }
}
