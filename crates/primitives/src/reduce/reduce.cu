// All numbers in one launch. The groups take tiles of them in turn; a thread's share of one is IN_FLIGHT loads of 16
// bytes, all under way at once. It keeps A_LOAD results side by side; a group's threads meet in SHARED memory; the last
// group to arrive takes the groups' parts in their order, so that the order depends on n and the number of groups alone.
//
// Invariant: *arrived is 0 between launches.

#if defined(ON_CUDA)
#define ulong2 ulonglong2
#endif

// NaN compares false: `a`, which never is one, stays.
#if OPERATION == 0
#define OF(a, b) ((NUMBER)((SUMMED_AS)(a) + (SUMMED_AS)(b)))
#elif OPERATION == 1
#define OF(a, b) ((b) < (a) ? (b) : (a))
#else
#define OF(a, b) ((b) > (a) ? (b) : (a))
#endif

#if A_LOAD == 4
#define TAKE(v)                                                                                                        \
    {                                                                                                                  \
        found[0] = OF(found[0], (v).x);                                                                                \
        found[1] = OF(found[1], (v).y);                                                                                \
        found[2] = OF(found[2], (v).z);                                                                                \
        found[3] = OF(found[3], (v).w);                                                                                \
    }
#else
#define TAKE(v)                                                                                                        \
    {                                                                                                                  \
        found[0] = OF(found[0], (v).x);                                                                                \
        found[1] = OF(found[1], (v).y);                                                                                \
    }
#endif

// The group's result of what its threads found, for thread 0.
FUNCTION NUMBER of_group(NUMBER found, SHARED_POINTER NUMBER* partial)
{
    partial[THREAD] = found;
    BARRIER();
    for (uint s = BLOCK_SIZE / 2; s > 0; s /= 2) {
        if (THREAD < (int)s)
            partial[THREAD] = OF(partial[THREAD], partial[THREAD + s]);
        BARRIER();
    }
    return partial[0];
}

KERNEL(BLOCK_SIZE)
reduce(GLOBAL const NUMBER* RESTRICT from, ulong n, GLOBAL NUMBER* parts, GLOBAL uint* arrived, GLOBAL NUMBER* to)
{
    SHARED NUMBER partial[BLOCK_SIZE];
    SHARED int is_last;
    GLOBAL const WIDE* RESTRICT wide = (GLOBAL const WIDE*)from;
    const ulong vectors = n / A_LOAD;
    const ulong to_next_tile = (ulong)BLOCK_COUNT * BLOCK_SIZE * IN_FLIGHT;

    NUMBER found[A_LOAD];
    UNROLL_ALL
    for (int k = 0; k < A_LOAD; k++)
        found[k] = NOTHING;
    ulong at = (ulong)BLOCK_INDEX * BLOCK_SIZE * IN_FLIGHT + THREAD;
    for (; at + (IN_FLIGHT - 1) * BLOCK_SIZE < vectors; at += to_next_tile) {
        WIDE v[IN_FLIGHT];
        UNROLL_ALL
        for (int k = 0; k < IN_FLIGHT; k++)
            v[k] = wide[at + k * BLOCK_SIZE];
        UNROLL_ALL
        for (int k = 0; k < IN_FLIGHT; k++)
            TAKE(v[k])
    }
    WIDE last[IN_FLIGHT];
    UNROLL_ALL
    for (int k = 0; k < IN_FLIGHT - 1; k++)
        if (at + k * BLOCK_SIZE < vectors)
            last[k] = wide[at + k * BLOCK_SIZE];
    UNROLL_ALL
    for (int k = 0; k < IN_FLIGHT - 1; k++)
        if (at + k * BLOCK_SIZE < vectors)
            TAKE(last[k])
    if (BLOCK_INDEX == 0 && THREAD < (int)(n - vectors * A_LOAD))
        found[0] = OF(found[0], from[vectors * A_LOAD + THREAD]);
    UNROLL_ALL
    for (int k = 1; k < A_LOAD; k++)
        found[0] = OF(found[0], found[k]);

    const NUMBER own = of_group(found[0], partial);
    if (THREAD == 0) {
        parts[BLOCK_INDEX] = own;
        FENCE();
        is_last = ATOMIC_ADD_U32(arrived, 1) == (uint)BLOCK_COUNT - 1;
    }
    BARRIER();
    // Groups that are not the last have no parts to take but go the same way: PoCL 5.0 miscompiles branches around barriers.
    const int to_take = is_last ? BLOCK_COUNT : 0;
    FENCE();
    NUMBER all = NOTHING;
    for (int g = THREAD; g < to_take; g += BLOCK_SIZE) {
        // Written by other groups: not to be had from a cache of this one.
        const NUMBER part = *(GLOBAL const volatile NUMBER*)(parts + g);
        all = OF(all, part);
    }
    all = of_group(all, partial);
    if (THREAD == 0 && is_last) {
        *to = all;
        *arrived = 0;
    }
}
