// Sums of an array with a given number of loads in flight per thread.
//
// Data: `from` has `count` vectors of WIDTH floats. Thread t of T threads adds the vectors t, t +
// T, t + 2 T and so on. `out` has one sum per thread. Cost: one load of 4 WIDTH bytes and WIDTH
// additions per vector. Limit: with few threads the latency of the memory, with many its bandwidth.
// A thread issues LOADS loads, waits for them, adds, and only then issues the next ones. So an SM
// with t threads has about 4 WIDTH LOADS t bytes in flight.
//
// Defined by the host (loads.rs): BLOCK_SIZE, WIDTH, LOADS.
#if WIDTH == 1
#define VECTOR float
#define SUM_OF(v) (v)
#elif WIDTH == 2
#define VECTOR float2
#define SUM_OF(v) ((v).x + (v).y)
#else
#define VECTOR float4
#define SUM_OF(v) (((v).x + (v).y) + ((v).z + (v).w))
#endif

KERNEL(BLOCK_SIZE) sum_loads(GLOBAL const float* RESTRICT from, uint count, GLOBAL float* RESTRICT out)
{
    GLOBAL const VECTOR* RESTRICT vectors = (GLOBAL const VECTOR*)from;
    const uint thread = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    const uint thread_count = BLOCK_COUNT * BLOCK_SIZE;
    const uint tiles = count / (LOADS * thread_count);
    float sum = 0.0f;
    // Not unrolled, because the compiler would move loads of later iterations before the additions.
    UNROLL(1)
    for (uint tile = 0; tile < tiles; tile++) {
        VECTOR value[LOADS];
        UNROLL_ALL
        for (uint load = 0; load < LOADS; load++)
            value[load] = vectors[(tile * LOADS + load) * thread_count + thread];
        UNROLL_ALL
        for (uint load = 0; load < LOADS; load++)
            sum += SUM_OF(value[load]);
    }
    UNROLL(1)
    for (uint i = tiles * LOADS * thread_count + thread; i < count; i += thread_count)
        sum += SUM_OF(vectors[i]);
    out[thread] = sum;
}
