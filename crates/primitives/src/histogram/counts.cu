// Counts of 64 bits that all groups add to, and how the last of them hands these over. BINS and BLOCK_SIZE are given.
//
// Invariant: counts (BINS times two words, the lower first) and *arrived are 0 between launches.

// Two words, as not every device has atomics of 64 bits: whoever makes the lower word wrap carries.
FUNCTION void add_to_count(GLOBAL uint* counts, uint bin, ulong more)
{
    const uint low = (uint)more;
    const uint before = ATOMIC_ADD_U32(counts + 2 * bin, low);
    const uint high = (uint)(more >> 32) + (before + low < before ? 1u : 0u);
    if (high != 0)
        ATOMIC_ADD_U32(counts + 2 * bin + 1, high);
}

// Once a group has added all it has.
FUNCTION void hand_over(GLOBAL uint* counts, GLOBAL uint* arrived, GLOBAL ulong* to, SHARED_POINTER int* is_last)
{
    FENCE();
    BARRIER();
    if (THREAD == 0)
        *is_last = ATOMIC_ADD_U32(arrived, 1) == (uint)BLOCK_COUNT - 1;
    BARRIER();
    if (*is_last) {
        FENCE();
        for (uint bin = THREAD; bin < BINS; bin += BLOCK_SIZE) {
            to[bin] = (ulong)LOAD_U32(counts + 2 * bin + 1) << 32 | (ulong)LOAD_U32(counts + 2 * bin);
            counts[2 * bin] = 0;
            counts[2 * bin + 1] = 0;
        }
        if (THREAD == 0)
            *arrived = 0;
    }
}
