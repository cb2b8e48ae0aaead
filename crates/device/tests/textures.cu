// Reads textures. The results are checked against their definition in textures.rs.

// Copies texels from last to first.
KERNEL(BLOCK_SIZE) read_line(TEXTURE_1D(line), GLOBAL float* RESTRICT out, int n)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n)
        out[i] = READ_TEXTURE_1D(line, n - 1 - i);
}

// Reads both textures at n points.
KERNEL(BLOCK_SIZE)
read_planes(GLOBAL const float* RESTRICT x, GLOBAL const float* RESTRICT y, TEXTURE_2D(first),
    GLOBAL float* RESTRICT first_values, TEXTURE_2D(second), GLOBAL float* RESTRICT second_values, int n)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) {
        first_values[i] = READ_TEXTURE_2D(first, x[i], y[i]);
        second_values[i] = READ_TEXTURE_2D(second, x[i], y[i]);
    }
}
