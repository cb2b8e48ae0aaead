// Kernels of the self-test for textures. One thread per element.

// Writes texel n - 1 - i.
KERNEL(BLOCK_SIZE) reverse_line(TEXTURE_1D(line), GLOBAL float* RESTRICT out, int n)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n)
        out[i] = READ_TEXTURE_1D(line, n - 1 - i);
}

// Writes the values of a texture at n points.
KERNEL(BLOCK_SIZE)
read_plane(TEXTURE_2D(plane), GLOBAL const float* RESTRICT x, GLOBAL const float* RESTRICT y,
    GLOBAL float* RESTRICT out, int n)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n)
        out[i] = READ_TEXTURE_2D(plane, x[i], y[i]);
}
