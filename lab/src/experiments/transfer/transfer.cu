// Kernels of the experiments with transfers.
//
// Defined by the host (segments.rs): BLOCK_SIZE.

// c <- alpha a + b for n floats: two loads and a store, 12 bytes per element. a, b and c may be in
// the memory of the host, which the device then reads and writes through the link. Each element is
// accessed once.
KERNEL(BLOCK_SIZE)
saxpy_segment(uint n, float alpha, GLOBAL const float* RESTRICT a, GLOBAL const float* RESTRICT b, GLOBAL float* RESTRICT c)
{
    const uint i = (uint)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n)
        c[i] = FMA(alpha, a[i], b[i]);
}

// Keeps one SM busy for a time that is proportional to `rounds`: one chain of dependent FMAs per
// thread. value <- 0.5 value + 1 approaches 2.
KERNEL(BLOCK_SIZE) occupy(int rounds, float factor, GLOBAL float* out)
{
    float value = 0.0f;
    for (int round = 0; round < rounds; round++)
        value = FMA(value, factor, 1.0f);
    out[THREAD] = value;
}
