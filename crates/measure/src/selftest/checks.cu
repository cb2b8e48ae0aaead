// Kernels of the self-test, one for each guarantee of the dialect. One thread per element.

// Writes the square of each index.
KERNEL(BLOCK_SIZE) square_indices(int n, GLOBAL unsigned int* out)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) out[i] = (unsigned int)i * (unsigned int)i;
}

// Reverses the elements of each block through shared memory.
KERNEL(BLOCK_SIZE) reverse_blocks(GLOBAL unsigned int* data)
{
    SHARED unsigned int tile[BLOCK_SIZE];
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    tile[THREAD] = data[i];
    BARRIER();
    data[i] = tile[BLOCK_SIZE - 1 - THREAD];
}

// out[0]: sum of 1..n. out[1] and out[2]: minimum and maximum of 3..n+2. out[3]: 1, set by the
// first thread. It becomes 2 if compare-and-swap returns anything but 0 or 1.
KERNEL(BLOCK_SIZE) update_atomics(int n, GLOBAL unsigned int* out)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n) return;
    ATOMIC_ADD_U32(&out[0], (unsigned int)i + 1u);
    ATOMIC_MIN_U32(&out[1], (unsigned int)i + 3u);
    ATOMIC_MAX_U32(&out[2], (unsigned int)i + 2u + 1u);
    if (ATOMIC_CAS_U32(&out[3], 0u, 1u) > 1u) out[3] = 2u;
}

// Writes four function values per element.
KERNEL(BLOCK_SIZE) float_functions(int n, GLOBAL const float* RESTRICT in, GLOBAL float* RESTRICT out)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n) return;
    float x = in[i];
    out[4 * i] = SQRT(x);
    out[4 * i + 1] = RSQRT(x);
    out[4 * i + 2] = FMA(x, x, 1.0f);
    out[4 * i + 3] = MAX(x, 1.0f);
}

// Writes two function values per element.
KERNEL(BLOCK_SIZE) double_functions(int n, GLOBAL const double* RESTRICT in, GLOBAL double* RESTRICT out)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n) return;
    double x = in[i];
    out[2 * i] = RSQRT64(x);
    out[2 * i + 1] = FMA64(x, x, 1.0);
}

// Rotates the components of each vector: (x, y, z, w) becomes (y, z, w, x).
KERNEL(BLOCK_SIZE) rotate_components(int n, GLOBAL float4* data)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n) return;
    float4 v = data[i];
    data[i] = FLOAT4(v.y, v.z, v.w, v.x);
}

// Halves each number.
KERNEL(BLOCK_SIZE) halve(int n, GLOBAL float* data)
{
    int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n) return;
    data[i] *= 0.5f;
}
