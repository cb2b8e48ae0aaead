// Adds the 32-bit counts of one launch of the ladder's count kernel to the 64-bit totals, and
// clears them.
KERNEL(256) add_part(GLOBAL uint* counts, int is_first, GLOBAL ulong* to)
{
    to[THREAD] = (is_first ? 0 : to[THREAD]) + counts[THREAD];
    counts[THREAD] = 0;
}
