// Uses every macro of the dialect, except for the atomics and matches that the lab's self-test
// checks (lab/src/experiments/atomics). The results are checked against references in
// prelude.rs.

// Weights with the sum 1.875.
CONSTANT const float weight[4] = {1.0f, 0.5f, 0.25f, 0.125f};

FUNCTION float weighted(float x)
{
    float sum = 0.0f;
    UNROLL(4)
    for (int k = 0; k < 4; k++)
        sum = FMA(weight[k], x, sum);
    return sum;
}

FUNCTION float mirrored(SHARED_POINTER const float* tile)
{
    return tile[BLOCK_SIZE - 1 - THREAD];
}

// Reverses the elements of each block through shared memory. Elements beyond n count as -1.
KERNEL(BLOCK_SIZE) mirror(GLOBAL const float* RESTRICT in, GLOBAL float* RESTRICT out, int n)
{
    SHARED float tile[BLOCK_SIZE];
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    tile[THREAD] = i < n ? in[i] : -1.0f;
    BARRIER();
    if (i < n)
        out[i] = mirrored(tile);
}

// As `mirror`, with a tile whose size the host sets.
KERNEL(BLOCK_SIZE)
mirror_dynamic(GLOBAL const float* RESTRICT in, GLOBAL float* RESTRICT out, int n DYNAMIC_SHARED(float, tile))
{
    USE_DYNAMIC_SHARED(float, tile);
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    tile[THREAD] = i < n ? in[i] : -1.0f;
    BARRIER();
    if (i < n)
        out[i] = mirrored(tile);
}

// Computes the mean of each block. Numbers and counts are two arrays in shared memory of a size
// that the host sets, and `offset` has a fixed size.
KERNEL(BLOCK_SIZE)
mean_dynamic(GLOBAL const float* RESTRICT in, GLOBAL float* RESTRICT out, int n DYNAMIC_SHARED(uchar, memory))
{
    USE_DYNAMIC_SHARED(uchar, memory);
    SHARED uint offset;
    SHARED_POINTER uint* counts = (SHARED_POINTER uint*)memory;
    SHARED_POINTER float* numbers = (SHARED_POINTER float*)memory + BLOCK_SIZE;
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (THREAD == 0)
        offset = 1u;
    BARRIER();
    counts[THREAD] = i < n ? offset : 0u;
    numbers[THREAD] = i < n ? in[i] : 0.0f;
    BARRIER();
    if (THREAD == 0) {
        float sum = 0.0f;
        uint count = 0u;
        for (int thread = 0; thread < BLOCK_SIZE; thread++) {
            sum += numbers[thread];
            count += counts[thread];
        }
        out[BLOCK_INDEX] = sum / (float)count;
    }
}

KERNEL_MIN_BLOCKS(BLOCK_SIZE, 2)
functions(GLOBAL const float* RESTRICT in, GLOBAL float4* RESTRICT four, GLOBAL uint* RESTRICT bits, int n)
{
    for (int i = BLOCK_INDEX * BLOCK_SIZE + THREAD; i < n; i += BLOCK_COUNT * BLOCK_SIZE) {
        const float x = in[i];
        four[2 * i] = FLOAT4(RSQRT(x), SQRT(x), FMA(x, x, 1.0f), weighted(x));
        float4 more = FLOAT4(MIN(x, 2.0f), MAX(x, 2.0f), 0.0f, 0.0f);
        more.z = more.x + more.y;
        more.w = UINT_AS_FLOAT(FLOAT_AS_UINT(x) + 1u);
        four[2 * i + 1] = more;
        bits[i] = FLOAT_AS_UINT(x);
    }
}

KERNEL(BLOCK_SIZE) functions64(GLOBAL const double* RESTRICT in, GLOBAL double4* RESTRICT four, double shift, int n)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n)
        return;
    const double x = in[i] + shift;
    four[2 * i] = DOUBLE4(RSQRT64(x), SQRT64(x), FMA64(x, x, 1.0), x);
    double4 more = DOUBLE4(MIN64(x, 2.0), MAX64(x, 2.0), 0.0, 0.0);
    more.z = more.x + more.y;
    more.w = more.y - more.x;
    four[2 * i + 1] = more;
}

// Sum, minimum and maximum by atomics, and the sum again by compare-and-swap.
KERNEL(BLOCK_SIZE) atomics(GLOBAL const uint* RESTRICT in, GLOBAL uint* cells, int n)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= n)
        return;
    ATOMIC_ADD_U32(&cells[0], in[i]);
    ATOMIC_MIN_U32(&cells[1], in[i]);
    ATOMIC_MAX_U32(&cells[2], in[i]);
    uint seen = ATOMIC_ADD_U32(&cells[3], 0u);
    uint expected;
    do {
        expected = seen;
        seen = ATOMIC_CAS_U32(&cells[3], expected, expected + in[i]);
    } while (seen != expected);
}

// Each block writes its sum. The last block to finish reads all of them and adds them in order.
KERNEL(BLOCK_SIZE) sum_in_last_block(GLOBAL const uint* RESTRICT in, GLOBAL volatile uint* block_sum, GLOBAL uint* cells, int n)
{
    SHARED uint tile[BLOCK_SIZE];
    SHARED uint ticket;
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    tile[THREAD] = i < n ? in[i] : 0u;
    BARRIER();
    for (int offset = BLOCK_SIZE / 2; offset > 0; offset /= 2) {
        if (THREAD < offset)
            tile[THREAD] += tile[THREAD + offset];
        BARRIER();
    }
    if (THREAD == 0) {
        block_sum[BLOCK_INDEX] = tile[0];
        DEVICE_FENCE();
        ticket = ATOMIC_ADD_U32(&cells[0], 1u);
    }
    BARRIER();
    if (ticket == (uint)(BLOCK_COUNT - 1) && THREAD == 0) {
        DEVICE_FENCE();
        uint sum = 0u;
        for (int block = 0; block < BLOCK_COUNT; block++)
            sum += block_sum[block];
        cells[1] = sum;
    }
}

// Writes the scalar arguments, the number of the compiler and BLOCK_SIZE.
KERNEL(BLOCK_SIZE) scalars(GLOBAL ulong* out, int a, uint b, ulong c, float d, double e)
{
    if (THREAD == 0) {
        out[0] = (ulong)(long)a;
        out[1] = b;
        out[2] = c;
        out[3] = (ulong)d;
        out[4] = (ulong)e;
#if defined(ON_CUDA)
        out[5] = 1;
#elif defined(ON_OPENCL)
        out[5] = 2;
#endif
        out[6] = BLOCK_SIZE;
    }
}

// Writes the index of each element of a grid of blocks in three dimensions, and the extents.
KERNEL_3D(4, 2, 3) indices(GLOBAL uint* out, GLOBAL int* extents)
{
    const uint x = BLOCK_INDEX * 4 + THREAD, y = BLOCK_INDEX_Y * 2 + THREAD_Y, z = BLOCK_INDEX_Z * 3 + THREAD_Z;
    const uint width = BLOCK_COUNT * 4, height = BLOCK_COUNT_Y * 2;
    out[(z * height + y) * width + x] = x + 1000u * y + 1000000u * z;
    if (x == 0 && y == 0 && z == 0) {
        extents[0] = BLOCK_COUNT;
        extents[1] = BLOCK_COUNT_Y;
        extents[2] = BLOCK_COUNT_Z;
    }
}

// Transposes a matrix of `width` columns and `height` rows through a tile in shared memory.
KERNEL_2D(8, 8) transpose_tiles(GLOBAL const float* RESTRICT in, GLOBAL float* RESTRICT out, int width, int height)
{
    SHARED float tile[8 * 9];
    const int x = BLOCK_INDEX * 8 + THREAD, y = BLOCK_INDEX_Y * 8 + THREAD_Y;
    if (x < width && y < height)
        tile[THREAD_Y * 9 + THREAD] = in[y * width + x];
    BARRIER();
    const int column = BLOCK_INDEX_Y * 8 + THREAD, row = BLOCK_INDEX * 8 + THREAD_Y;
    if (column < height && row < width)
        out[row * height + column] = tile[THREAD * 9 + THREAD_Y];
}

// For each thread: any, all and ballot of the lanes of its warp with an odd number, and the number
// of the next lane.
KERNEL(BLOCK_SIZE) votes(GLOBAL const uint* RESTRICT in, GLOBAL uint* RESTRICT out)
{
    SHARED uint scratch[BLOCK_SIZE];
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    // Votes do not use `scratch` on CUDA, whose compiler warns about an unused variable.
    scratch[THREAD] = in[i];
    const int is_odd = (scratch[THREAD] & 1u) != 0u;
    out[4 * i] = ANY(is_odd, scratch) ? 1u : 0u;
    out[4 * i + 1] = ALL(is_odd, scratch) ? 1u : 0u;
    out[4 * i + 2] = BALLOT(is_odd, scratch);
    out[4 * i + 3] = SHUFFLE(in[i], (LANE + 1) % WARP_SIZE, scratch);
}

// ---- Order of writes within a block ----
//
// A thread passes the numbers 1 to `rounds` to another one of its block through global memory: it
// writes the number to data[block], then to flag[block]. The reader looks at the flag first. If the
// data are behind it, the writes became visible in the wrong order.
//
// report[2 * block]: times that the reader looked while the writer was at work
// report[2 * block + 1]: times that the data were behind the flag

#define WRITING_THREAD 0
#define READING_THREAD 32
// Largest number of times that the reader looks. Writers of 10,000 rounds need less.
#define MAX_LOOKS (1u << 20)

typedef struct {
    uint number;
    uint flag;
} PassedNumber;

FUNCTION PassedNumber look(GLOBAL volatile uint* data, GLOBAL volatile uint* flag, int is_fenced)
{
    PassedNumber seen;
    seen.flag = flag[BLOCK_INDEX];
    if (is_fenced)
        BLOCK_FENCE();
    seen.number = data[BLOCK_INDEX];
    return seen;
}

// Writer and reader run at the same time, if the device runs threads of a block at the same time.
FUNCTION void pass_numbers(
    GLOBAL volatile uint* data, GLOBAL volatile uint* flag, GLOBAL uint* report, uint rounds, int is_fenced)
{
    if (THREAD == WRITING_THREAD)
        for (uint round = 1u; round <= rounds; round++) {
            data[BLOCK_INDEX] = round;
            if (is_fenced)
                BLOCK_FENCE();
            flag[BLOCK_INDEX] = round;
        }
    if (THREAD == READING_THREAD) {
        uint looks_at_work = 0u, mistakes = 0u, last_flag = 0u;
        for (uint looks = 0u; looks < MAX_LOOKS && last_flag < rounds; looks++) {
            const PassedNumber seen = look(data, flag, is_fenced);
            looks_at_work += seen.flag > 0u && seen.flag < rounds ? 1u : 0u;
            mistakes += seen.number < seen.flag ? 1u : 0u;
            last_flag = seen.flag;
        }
        report[2 * BLOCK_INDEX] = looks_at_work;
        report[2 * BLOCK_INDEX + 1] = mistakes;
    }
}

KERNEL(BLOCK_SIZE)
pass_with_fences(GLOBAL volatile uint* data, GLOBAL volatile uint* flag, GLOBAL uint* report, uint rounds)
{
    pass_numbers(data, flag, report, rounds, 1);
}

KERNEL(BLOCK_SIZE)
pass_without_fences(GLOBAL volatile uint* data, GLOBAL volatile uint* flag, GLOBAL uint* report, uint rounds)
{
    pass_numbers(data, flag, report, rounds, 0);
}

// The flag before the data: the order that a missing fence permits. Barriers let the reader look
// between the two writes, so every device shows it in every round.
KERNEL(BLOCK_SIZE)
pass_in_wrong_order(GLOBAL volatile uint* data, GLOBAL volatile uint* flag, GLOBAL uint* report, uint rounds)
{
    uint mistakes = 0u;
    for (uint round = 1u; round <= rounds; round++) {
        if (THREAD == WRITING_THREAD)
            flag[BLOCK_INDEX] = round;
        BARRIER();
        if (THREAD == READING_THREAD) {
            const PassedNumber seen = look(data, flag, 1);
            mistakes += seen.number < seen.flag ? 1u : 0u;
        }
        BARRIER();
        if (THREAD == WRITING_THREAD)
            data[BLOCK_INDEX] = round;
    }
    if (THREAD == READING_THREAD) {
        report[2 * BLOCK_INDEX] = rounds;
        report[2 * BLOCK_INDEX + 1] = mistakes;
    }
}

#define TEXT_OF_TOKENS(...) #__VA_ARGS__
#define TEXT_OF(...) TEXT_OF_TOKENS(__VA_ARGS__)

// Number of characters of each fence: 0 if its macro is empty.
KERNEL(1) fence_lengths(GLOBAL uint* lengths)
{
    lengths[0] = (uint)sizeof(TEXT_OF(BLOCK_FENCE())) - 1u;
    lengths[1] = (uint)sizeof(TEXT_OF(DEVICE_FENCE())) - 1u;
    lengths[2] = (uint)sizeof(TEXT_OF(SYSTEM_FENCE())) - 1u;
}
