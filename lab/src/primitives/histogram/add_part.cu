// Adds the 32-bit counts of one launch of a rung to the 64-bit totals, and clears them. Both have
// one element per bin.
KERNEL(256) add_part(GLOBAL uint* counts, uint bins, int is_first, GLOBAL ulong* to)
{
    const uint bin = (uint)BLOCK_INDEX * 256u + THREAD;
    if (bin < bins) {
        to[bin] = (is_first ? 0 : to[bin]) + counts[bin];
        counts[bin] = 0;
    }
}
