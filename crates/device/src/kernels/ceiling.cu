// As many FMAs as the chip can start: CHAINS independent ones a thread, so that none waits for another.
KERNEL(BLOCK_SIZE) fma_chains(GLOBAL REAL* out, int rounds, REAL factor, REAL term)
{
    REAL value[CHAINS];
    UNROLL(CHAINS)
    for (int k = 0; k < CHAINS; k++)
        value[k] = (REAL)(THREAD + k);
    for (int round = 0; round < rounds; round++) {
        UNROLL(STEPS)
        for (int step = 0; step < STEPS; step++) {
            UNROLL(CHAINS)
            for (int k = 0; k < CHAINS; k++)
                value[k] = MULTIPLY_ADD(value[k], factor, term);
        }
        AFTER_ROUND;
    }
    REAL sum = 0;
    UNROLL(CHAINS)
    for (int k = 0; k < CHAINS; k++)
        sum += value[k];
    out[BLOCK_INDEX * BLOCK_SIZE + THREAD] = sum;
}
