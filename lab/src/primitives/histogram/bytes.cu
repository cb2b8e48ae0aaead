// Histogram of bytes: counts how often each of the 256 values occurs.
//
// A block has TABLES tables of 256 counters in shared memory. Thread t counts byte b at
//
//   b * TABLES + t % TABLES
//
// With one table per lane, two lanes of a warp never use the same bank, whatever the bytes are.
// Equal bytes therefore cost the same as random ones. The warps of a block share the tables and add
// atomically.
//
// Defined by the host (device.rs): BINS (256), TABLES, BLOCK_SIZE, LOADS_IN_FLIGHT. The host
// launches enough blocks that none counts 2^32 bytes or more.

FUNCTION void count_byte(SHARED_POINTER uint* counters, uint value)
{
    SHARED_ATOMIC_ADD_U32(counters + value * TABLES, 1);
}

FUNCTION void count_4_bytes(SHARED_POINTER uint* counters, uint word)
{
    count_byte(counters, word & 0xffu);
    count_byte(counters, word >> 8 & 0xffu);
    count_byte(counters, word >> 16 & 0xffu);
    count_byte(counters, word >> 24);
}

// Counts the block's share of the input. The bytes after the last 16 are counted by the first
// block.
FUNCTION void count_share(SHARED_POINTER uint* counters, GLOBAL const uchar* RESTRICT from, ulong n)
{
    GLOBAL const uint4* RESTRICT vectors = (GLOBAL const uint4*)from;
    const ulong vector_count = n / 16;
    const ulong stride = (ulong)BLOCK_COUNT * BLOCK_SIZE;
    for (ulong first = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD; first < vector_count;
         first += LOADS_IN_FLIGHT * stride) {
        uint4 loaded[LOADS_IN_FLIGHT];
        UNROLL_ALL
        for (uint load = 0; load < LOADS_IN_FLIGHT; load++)
            if (first + load * stride < vector_count)
                loaded[load] = vectors[first + load * stride];
        UNROLL_ALL
        for (uint load = 0; load < LOADS_IN_FLIGHT; load++)
            if (first + load * stride < vector_count) {
                count_4_bytes(counters, loaded[load].x);
                count_4_bytes(counters, loaded[load].y);
                count_4_bytes(counters, loaded[load].z);
                count_4_bytes(counters, loaded[load].w);
            }
    }
    if (BLOCK_INDEX == 0 && THREAD < (int)(n % 16))
        count_byte(counters, from[n - n % 16 + THREAD]);
}

// from: n bytes, aligned to 16. counts, arrived: see counts.cu. to: 256 counts.
KERNEL(BLOCK_SIZE)
count_bytes(GLOBAL const uchar* RESTRICT from, ulong n, GLOBAL uint* counts, GLOBAL uint* arrived, GLOBAL ulong* to)
{
    SHARED uint table[BINS * TABLES];
    SHARED int is_last;
    for (uint counter = THREAD; counter < BINS * TABLES; counter += BLOCK_SIZE)
        table[counter] = 0;
    BARRIER();
    count_share(table + (uint)THREAD % TABLES, from, n);
    BARRIER();

    // Each thread starts at another table, to avoid bank conflicts.
    for (uint bin = THREAD; bin < BINS; bin += BLOCK_SIZE) {
        uint sum = 0;
        for (uint offset = 0; offset < TABLES; offset++)
            sum += table[bin * TABLES + (offset + THREAD) % TABLES];
        if (sum != 0)
            add_to_count(counts, bin, sum);
    }
    finish_counts(counts, arrived, to, &is_last);
}
