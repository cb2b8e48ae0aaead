// The rungs of the course's reduction: a launch is one layer, in which each group makes one number of its share. FORM
// counts the rungs. From 4 on a thread takes two numbers, so that no thread only loads.

#if FORM >= 4
#define SHARE (2 * BLOCK_SIZE)
#else
#define SHARE BLOCK_SIZE
#endif

KERNEL(BLOCK_SIZE) layer(GLOBAL const float* RESTRICT from, ulong n, GLOBAL float* to)
{
    SHARED float partial[BLOCK_SIZE];
    const ulong at = (ulong)BLOCK_INDEX * SHARE + THREAD;
    float own = at < n ? from[at] : 0;
#if FORM >= 4
    own += at + BLOCK_SIZE < n ? from[at + BLOCK_SIZE] : 0;
#endif

#if FORM == 6
    // Within warps by shuffles, and again over the warps' sums: two barriers in all.
    SHARED uint scratch[BLOCK_SIZE];
    UNROLL_ALL
    for (uint s = WARP_SIZE / 2; s > 0; s /= 2)
        own += SHUFFLE_F(own, (LANE + s) % WARP_SIZE, scratch);
    if (LANE == 0)
        partial[THREAD / WARP_SIZE] = own;
    BARRIER();
    own = THREAD < BLOCK_SIZE / WARP_SIZE ? partial[THREAD] : 0;
    UNROLL_ALL
    for (uint s = WARP_SIZE / 2; s > 0; s /= 2)
        own += SHUFFLE_F(own, (LANE + s) % WARP_SIZE, scratch);
    if (THREAD == 0)
        to[BLOCK_INDEX] = own;
#else
    partial[THREAD] = own;
    BARRIER();
#if FORM == 1
    for (uint s = 1; s < BLOCK_SIZE; s *= 2) {
        if (THREAD % (2 * s) == 0)
            partial[THREAD] += partial[THREAD + s];
        BARRIER();
    }
#elif FORM == 2
    for (uint s = 1; s < BLOCK_SIZE; s *= 2) {
        const uint index = 2 * s * THREAD;
        if (index < BLOCK_SIZE)
            partial[index] += partial[index + s];
        BARRIER();
    }
#elif FORM == 3 || FORM == 4
    for (uint s = BLOCK_SIZE / 2; s > 0; s /= 2) {
        if (THREAD < (int)s)
            partial[THREAD] += partial[THREAD + s];
        BARRIER();
    }
#else
    for (uint s = BLOCK_SIZE / 2; s >= WARP_SIZE; s /= 2) {
        if (THREAD < (int)s)
            partial[THREAD] += partial[THREAD + s];
        BARRIER();
    }
    // One warp is left, whose lanes need not wait for the others.
    UNROLL_ALL
    for (uint s = WARP_SIZE / 2; s > 0; s /= 2) {
        if (THREAD < (int)s)
            partial[THREAD] += partial[THREAD + s];
        WARP_BARRIER();
    }
#endif
    if (THREAD == 0)
        to[BLOCK_INDEX] = partial[0];
#endif
}
