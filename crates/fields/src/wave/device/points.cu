// Sources, receivers, and values between two steps.
//
// Defined by the host (points.rs): BLOCK_SIZE, STAGED_TERMS.

// Adds the sources to nodes begin to end - 1 of the table: u' = fma(v, sum of weight f, u'). The
// terms of entry e are starts[e] to starts[e + 1] - 1. amplitudes has the values f of this step.
KERNEL(BLOCK_SIZE)
add_sources(
    GLOBAL REAL* RESTRICT next,
    GLOBAL const REAL* RESTRICT courant,
    REAL uniform_courant,
    GLOBAL const ulong* RESTRICT positions,
    GLOBAL const ulong* RESTRICT starts,
    GLOBAL const uint* RESTRICT sources,
    GLOBAL const REAL* RESTRICT weights,
    GLOBAL const REAL* RESTRICT amplitudes,
    ulong first_amplitude,
    int begin,
    int end)
{
    const int entry = begin + BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (entry >= end)
        return;
    REAL sum = (REAL)0;
    for (ulong term = starts[entry]; term < starts[entry + 1]; term++)
        sum = FMA_REAL(weights[term], amplitudes[first_amplitude + sources[term]], sum);
    const ulong at = positions[entry];
    next[at] = FMA_REAL(IS_VARIABLE ? courant[at] : uniform_courant, sum, next[at]);
}

// Copies u at the nodes of `count` terms of receivers to `values`. Term t is at positions[t].
KERNEL(BLOCK_SIZE)
gather_terms(
    GLOBAL const REAL* RESTRICT u,
    GLOBAL const ulong* RESTRICT positions,
    int count,
    GLOBAL REAL* RESTRICT values)
{
    const int term = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (term < count)
        values[term] = u[positions[term]];
}

// Sums the terms of one receiver per block in their order, as samples[first_sample + receiver]. All
// threads load terms, and one of them adds them.
KERNEL(BLOCK_SIZE)
add_terms(
    GLOBAL const REAL* RESTRICT values,
    GLOBAL const REAL* RESTRICT weights,
    GLOBAL const ulong* RESTRICT starts,
    ulong first_sample,
    GLOBAL REAL* RESTRICT samples)
{
    SHARED REAL staged_values[STAGED_TERMS];
    SHARED REAL staged_weights[STAGED_TERMS];

    const int receiver = BLOCK_INDEX;
    const ulong begin = starts[receiver], end = starts[receiver + 1];
    REAL sum = (REAL)0;
    for (ulong first = begin; first < end; first += STAGED_TERMS) {
        const int count = end - first < STAGED_TERMS ? (int)(end - first) : STAGED_TERMS;
        for (int term = THREAD; term < count; term += BLOCK_SIZE) {
            staged_values[term] = values[first + term];
            staged_weights[term] = weights[first + term];
        }
        BARRIER();
        if (THREAD == 0) {
            UNROLL(8)
            for (int term = 0; term < count; term++)
                sum = FMA_REAL(staged_weights[term], staged_values[term], sum);
        }
        BARRIER();
    }
    if (THREAD == 0)
        samples[first_sample + receiver] = sum;
}

// Replaces u one step later in `next` by u at a time within the step, from a parabola through three
// times. `count` values, ghost nodes included.
KERNEL(BLOCK_SIZE)
interpolate(
    GLOBAL const REAL* RESTRICT u,
    GLOBAL const REAL* RESTRICT previous,
    GLOBAL REAL* RESTRICT next,
    REAL linear,
    REAL square,
    ulong count)
{
    const ulong at = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (at >= count)
        return;
    const REAL now = u[at], before = previous[at], after = next[at];
    const REAL curvature = FMA_REAL((REAL)-2, now, after + before);
    next[at] = FMA_REAL(square, curvature, FMA_REAL(linear, after - before, now));
}
