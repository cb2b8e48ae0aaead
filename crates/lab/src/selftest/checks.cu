// One small kernel for each promise of the dialect.

KERNEL(BLOCK_SIZE) number(int n, GLOBAL unsigned int* out)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) out[i] = (unsigned int)i * (unsigned int)i;
}

KERNEL(BLOCK_SIZE) reverse_groups(GLOBAL unsigned int* data)
{
    SHARED unsigned int tile[BLOCK_SIZE];
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    tile[THREAD] = data[i];
    BARRIER();
    data[i] = tile[BLOCK_SIZE - 1 - THREAD];
}

// Sum of 1..n, smallest and largest of 3..n+2, and who was first.
KERNEL(BLOCK_SIZE) count(int n, GLOBAL unsigned int* out)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n) return;
    ATOMIC_ADD_U32(&out[0], (unsigned int)i + 1u);
    ATOMIC_MIN_U32(&out[1], (unsigned int)i + 3u);
    ATOMIC_MAX_U32(&out[2], (unsigned int)i + 2u + 1u);
    if (ATOMIC_CAS_U32(&out[3], 0u, 1u) > 1u) out[3] = 2u;
}

KERNEL(BLOCK_SIZE) floats(int n, GLOBAL const float* RESTRICT in, GLOBAL float* RESTRICT out)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n) return;
    float x = in[i];
    out[4 * i] = SQRT(x);
    out[4 * i + 1] = RSQRT(x);
    out[4 * i + 2] = FMA(x, x, 1.0f);
    out[4 * i + 3] = MAX(x, 1.0f);
}

KERNEL(BLOCK_SIZE) doubles(int n, GLOBAL const double* RESTRICT in, GLOBAL double* RESTRICT out)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n) return;
    double x = in[i];
    out[2 * i] = RSQRT64(x);
    out[2 * i + 1] = FMA64(x, x, 1.0);
}

KERNEL(BLOCK_SIZE) turn(int n, GLOBAL float4* data)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n) return;
    float4 v = data[i];
    data[i] = FLOAT4(v.y, v.z, v.w, v.x);
}
