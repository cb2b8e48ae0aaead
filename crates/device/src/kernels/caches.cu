// Measures the bandwidth of shared memory and of the caches: each thread adds up vectors of 16
// bytes, and does nothing else. A round loads LOADS vectors before it uses the first.
//
// The vectors of a round are as far from those of the previous round as an argument says, which the
// compiler does not know. So it cannot keep them in registers from round to round.
//
// Defined by the host (caches.rs): BLOCK_SIZE and LOADS, both powers of two.

#define TILE_LENGTH (LOADS * BLOCK_SIZE)

// Loads from the L2 cache, past the L1 cache of the SM. Other compilers have no such load.
#if defined(ON_CUDA) || defined(__NV_CL_C_VERSION)
FUNCTION float4 load_past_l1(GLOBAL const float4* from)
{
    float4 value;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(from));
    return value;
}
#else
#define load_past_l1(from) (*(from))
#endif

FUNCTION float4 add_vectors(float4 a, float4 b)
{
    return FLOAT4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

FUNCTION float sum_components(float4 sums[LOADS])
{
    float total = 0;
    UNROLL_ALL
    for (int load = 0; load < LOADS; load++)
        total += sums[load].x + sums[load].y + sums[load].z + sums[load].w;
    return total;
}

// out: one number per thread, 10 * rounds * LOADS.
KERNEL(BLOCK_SIZE) read_shared(GLOBAL float* out, int rounds, int step)
{
    SHARED float4 tile[TILE_LENGTH];
    float4 sums[LOADS];
    UNROLL_ALL
    for (int load = 0; load < LOADS; load++) {
        tile[load * BLOCK_SIZE + THREAD] = FLOAT4(1.0f, 2.0f, 3.0f, 4.0f);
        sums[load] = FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    BARRIER();
    int first = THREAD;
    for (int round = 0; round < rounds; round++) {
        float4 loaded[LOADS];
        UNROLL_ALL
        for (int load = 0; load < LOADS; load++)
            loaded[load] = tile[(first + load * BLOCK_SIZE) & (TILE_LENGTH - 1)];
        UNROLL_ALL
        for (int load = 0; load < LOADS; load++)
            sums[load] = add_vectors(sums[load], loaded[load]);
        first += step;
    }
    out[BLOCK_INDEX * BLOCK_SIZE + THREAD] = sum_components(sums);
}

// Reads the vectors of `from` again and again, neighbouring threads neighbouring vectors.
//
// from: last + 1 vectors, a power of two. out: one number per thread.
KERNEL(BLOCK_SIZE) read_memory(GLOBAL const float4* RESTRICT from, uint last, int rounds, GLOBAL float* out)
{
    const uint threads = (uint)(BLOCK_COUNT * BLOCK_SIZE);
    uint first = (uint)(BLOCK_INDEX * BLOCK_SIZE + THREAD);
    float4 sums[LOADS];
    UNROLL_ALL
    for (int load = 0; load < LOADS; load++)
        sums[load] = FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int round = 0; round < rounds; round++) {
        float4 loaded[LOADS];
        UNROLL_ALL
        for (int load = 0; load < LOADS; load++)
            loaded[load] = load_past_l1(from + ((first + load * threads) & last));
        UNROLL_ALL
        for (int load = 0; load < LOADS; load++)
            sums[load] = add_vectors(sums[load], loaded[load]);
        first += LOADS * threads;
    }
    out[BLOCK_INDEX * BLOCK_SIZE + THREAD] = sum_components(sums);
}
