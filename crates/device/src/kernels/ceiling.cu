// Measures the FMA rate: each thread runs CHAINS independent chains of FMAs, so that no FMA waits
// for the result of another chain. A round has CHAINS * STEPS FMAs.
//
// Defined by the host (ceiling.rs): REAL, MULTIPLY_ADD, BLOCK_SIZE, CHAINS, STEPS, AFTER_ROUND.
KERNEL(BLOCK_SIZE) fma_chains(GLOBAL REAL* out, int rounds, REAL factor, REAL term)
{
    REAL value[CHAINS];
    UNROLL(CHAINS)
    for (int chain = 0; chain < CHAINS; chain++)
        value[chain] = (REAL)(THREAD + chain);
    for (int round = 0; round < rounds; round++) {
        UNROLL(STEPS)
        for (int step = 0; step < STEPS; step++) {
            UNROLL(CHAINS)
            for (int chain = 0; chain < CHAINS; chain++)
                value[chain] = MULTIPLY_ADD(value[chain], factor, term);
        }
        AFTER_ROUND;
    }
    REAL sum = 0;
    UNROLL(CHAINS)
    for (int chain = 0; chain < CHAINS; chain++)
        sum += value[chain];
    out[BLOCK_INDEX * BLOCK_SIZE + THREAD] = sum;
}
