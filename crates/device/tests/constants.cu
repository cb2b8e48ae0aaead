// Reads arrays in constant memory. The results are checked in constants.rs.

CONSTANT_ARRAY(float4, sources, 2 * COUNT);
CONSTANT_ARRAY(uint, factors, COUNT);

// Writes a sum over the first n sources, each times its factor, for every thread.
KERNEL(BLOCK_SIZE)
sum_sources(CONSTANT_POINTER const float4* sources_argument, GLOBAL float* RESTRICT out,
    CONSTANT_POINTER const uint* factors_argument, int n)
{
    float sum = 0.0f;
    for (int source = 0; source < n; source++) {
        const float4 value = CONSTANT_VALUES(sources)[source];
        sum += (value.x + value.y + value.z + value.w) * (float)CONSTANT_VALUES(factors)[source % COUNT];
    }
    out[BLOCK_INDEX * BLOCK_SIZE + THREAD] = sum + (float)THREAD;
}
