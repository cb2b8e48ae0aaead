// A kernel that needs many registers: each thread keeps VALUES numbers and updates all of them in
// every round.
//
// Data: out has one sum per thread of the grid.
// Cost: VALUES FMAs per thread and round. They are independent, so a few warps per SM hide their
// latency.
// Limit: the FMA units if all numbers are in registers. With a limit of registers below VALUES, the
// compiler spills: it stores the other numbers in local memory and loads them in every round, and
// the caches become the limit.
//
// Defined by the host (pressure.rs): BLOCK_SIZE, VALUES, and MAX_REGISTERS for a limit.
KERNEL(BLOCK_SIZE) update_values(GLOBAL float* RESTRICT out, float factor, float term, int rounds)
{
    float values[VALUES];
    UNROLL_ALL
    for (int i = 0; i < VALUES; i++)
        values[i] = (float)(THREAD + i);
    for (int round = 0; round < rounds; round++) {
        UNROLL_ALL
        for (int i = 0; i < VALUES; i++)
            values[i] = FMA(values[i], factor, term);
    }
    float sum = 0.0f;
    UNROLL_ALL
    for (int i = 0; i < VALUES; i++)
        sum += values[i];
    out[BLOCK_INDEX * BLOCK_SIZE + THREAD] = sum;
}
