// Copy of n floats: the rungs of the ladder (mod.rs).
//
// Data: `from` and `to` have n floats and start at multiples of 16 bytes.
// Cost: 4 bytes read and 4 bytes written per float, no arithmetic.
// Limit: memory bandwidth, if enough loads are in flight. By Little's law, the bytes in flight must
// be the bandwidth times the latency of a load.
//
// Defined by the host (mod.rs): BLOCK_SIZE, WIDTH (floats per load: 1, 2 or 4), LOADS (loads that a
// thread issues before its first store), STREAMING (1: loads and stores are marked as used once).

#if WIDTH == 1
#define VECTOR float
#elif WIDTH == 2
#define VECTOR float2
#else
#define VECTOR float4
#endif

// The marks evict the lines first from the caches. OpenCL has no such marks.
#if STREAMING && defined(ON_CUDA)
#define LOAD_VECTOR(address) __ldcs(address)
#define STORE_VECTOR(address, value) __stcs(address, value)
#else
#define LOAD_VECTOR(address) (*(address))
#define STORE_VECTOR(address, value) (*(address) = (value))
#endif

// Copies the floats after the last whole vector, fewer than WIDTH, with the first block.
FUNCTION void copy_rest(GLOBAL const float* RESTRICT from, ulong n, GLOBAL float* RESTRICT to)
{
    const ulong first = n - n % WIDTH;
    if (BLOCK_INDEX == 0 && first + THREAD < n)
        to[first + THREAD] = from[first + THREAD];
}

// Each thread copies one vector. The grid has at least n / WIDTH threads.
KERNEL(BLOCK_SIZE) copy_vectors(GLOBAL const float* RESTRICT from, ulong n, GLOBAL float* RESTRICT to)
{
    const ulong index = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (index < n / WIDTH)
        ((GLOBAL VECTOR*)to)[index] = ((GLOBAL const VECTOR*)from)[index];
    copy_rest(from, n, to);
}

// A block copies tiles of BLOCK_SIZE * LOADS vectors: tile BLOCK_INDEX, then every BLOCK_COUNT-th
// tile after it (a grid-stride loop). The grid may have any number of blocks.
KERNEL(BLOCK_SIZE) copy_tiles(GLOBAL const float* RESTRICT from, ulong n, GLOBAL float* RESTRICT to)
{
    GLOBAL const VECTOR* RESTRICT source = (GLOBAL const VECTOR*)from;
    GLOBAL VECTOR* RESTRICT target = (GLOBAL VECTOR*)to;
    const ulong vector_count = n / WIDTH;
    const ulong tile_stride = (ulong)BLOCK_COUNT * BLOCK_SIZE * LOADS;

    ulong first = (ulong)BLOCK_INDEX * BLOCK_SIZE * LOADS + THREAD;
    for (; first + (LOADS - 1) * BLOCK_SIZE < vector_count; first += tile_stride) {
        VECTOR loaded[LOADS];
        UNROLL_ALL
        for (int load = 0; load < LOADS; load++)
            loaded[load] = LOAD_VECTOR(source + first + load * BLOCK_SIZE);
        UNROLL_ALL
        for (int load = 0; load < LOADS; load++)
            STORE_VECTOR(target + first + load * BLOCK_SIZE, loaded[load]);
    }

    // The last tile may end before the thread's last load. Not unrolled: NVRTC 13.0 would unroll
    // this loop four times, which takes 42 registers in place of 20 and halves the resident blocks
    // of 1024 threads.
    UNROLL(1)
    for (ulong index = first; index < vector_count; index += BLOCK_SIZE)
        STORE_VECTOR(target + index, LOAD_VECTOR(source + index));
    copy_rest(from, n, to);
}
