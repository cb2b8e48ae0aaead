// Moves the counts of a part to those of all.
KERNEL(256) add_part(GLOBAL uint* counts, int is_first, GLOBAL ulong* to)
{
    to[THREAD] = (is_first ? 0 : to[THREAD]) + counts[THREAD];
    counts[THREAD] = 0;
}
