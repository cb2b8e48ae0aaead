// Measures the rate of reciprocal square roots: each thread computes CHAINS independent chains of
// them, so that none waits for another chain. A round has CHAINS * STEPS of them.
//
// Defined by the host (roof.rs): BLOCK_SIZE, CHAINS, STEPS, AFTER_ROUND.

// out: one element per thread.
KERNEL(BLOCK_SIZE) rsqrt_chains(GLOBAL float* out, int rounds)
{
    float value[CHAINS];
    UNROLL(CHAINS)
    for (int chain = 0; chain < CHAINS; chain++)
        value[chain] = (float)(1 + THREAD + chain);
    for (int round = 0; round < rounds; round++) {
        UNROLL(STEPS)
        for (int step = 0; step < STEPS; step++) {
            UNROLL(CHAINS)
            for (int chain = 0; chain < CHAINS; chain++)
                value[chain] = RSQRT(value[chain]);
        }
        AFTER_ROUND;
    }
    float sum = 0.0f;
    UNROLL(CHAINS)
    for (int chain = 0; chain < CHAINS; chain++)
        sum += value[chain];
    out[BLOCK_INDEX * BLOCK_SIZE + THREAD] = sum;
}
