// Kernels of the self-test for the kinds of memory. One thread per element.

CONSTANT_ARRAY(float4, lines, 4);
CONSTANT_ARRAY(int, lengths, 1);

// Writes the value of line i % 4 at i: x + y i.
KERNEL(BLOCK_SIZE)
draw_lines(GLOBAL float* RESTRICT out, CONSTANT_POINTER const float4* lines_argument,
    CONSTANT_POINTER const int* lengths_argument)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < CONSTANT_VALUES(lengths)[0]) {
        const float4 line = CONSTANT_VALUES(lines)[i % 4];
        out[i] = line.x + line.y * (float)i;
    }
}

// Reverses the elements of each block through shared memory of a size that the host sets.
KERNEL(BLOCK_SIZE) reverse_dynamic(GLOBAL uint* data, int n DYNAMIC_SHARED(uint, tile))
{
    USE_DYNAMIC_SHARED(uint, tile);
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    tile[THREAD] = i < n ? data[i] : 0u;
    BARRIER();
    if (i < n)
        data[i] = tile[BLOCK_SIZE - 1 - THREAD];
}

// Adds x + y to the elements of `height` rows, `pitch` elements apart, and -1 to their padding.
KERNEL_2D(16, 4) add_coordinates(GLOBAL int* rows, int width, int height, int pitch)
{
    const int x = BLOCK_INDEX * 16 + THREAD, y = BLOCK_INDEX_Y * 4 + THREAD_Y;
    if (x < pitch && y < height)
        rows[y * pitch + x] += x < width ? x + y : -1;
}

// Doubles n elements.
KERNEL(BLOCK_SIZE) double_elements(GLOBAL uint* data, int n)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n)
        data[i] *= 2u;
}

// Sums of 64 values that a thread keeps in registers, if it may.
KERNEL(BLOCK_SIZE) sum_registers(GLOBAL const uint* RESTRICT in, GLOBAL uint* RESTRICT out, int rounds)
{
    uint values[64];
    UNROLL_ALL
    for (int k = 0; k < 64; k++)
        values[k] = in[k] + (uint)THREAD;
    for (int round = 0; round < rounds; round++) {
        UNROLL_ALL
        for (int k = 0; k < 64; k++)
            values[k] += values[(k + 1) % 64] ^ values[(k + 5) % 64];
    }
    uint sum = 0u;
    UNROLL_ALL
    for (int k = 0; k < 64; k++)
        sum += values[k];
    out[THREAD] = sum;
}
