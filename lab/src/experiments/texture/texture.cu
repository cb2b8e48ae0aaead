// Samples of a two-dimensional texture along a rotated raster (raster.cu).
//
// Data: the driver stores the texels of a texture in tiles, so that neighbours in both directions
// are close in memory. `out` has one float per pixel.
// Cost: one fetch and one store per pixel, also with linear interpolation. The texture unit
// computes addresses, clamps them and interpolates.
// Limit: memory bandwidth and the rate of the texture units.
//
// Precision: the weights of the interpolation have 8 fractional bits on GPUs of NVIDIA.
//
// Defined by the host (mod.rs): BLOCK_WIDTH, BLOCK_HEIGHT.

// The texture has nearest filtering. The index is computed here, because a texture unit rounds
// coordinates near the border between two texels in its own way.
KERNEL_2D(BLOCK_WIDTH, BLOCK_HEIGHT)
fetch_nearest(TEXTURE_2D(image), int width, int height, float cosine, float sine, GLOBAL float* out)
{
    const int column = BLOCK_INDEX * BLOCK_WIDTH + THREAD;
    const int row = BLOCK_INDEX_Y * BLOCK_HEIGHT + THREAD_Y;
    if (column >= width || row >= height)
        return;
    const Position position = sample_position(column, row, width, height, cosine, sine);
    const float x = (float)nearest_index(position.x, width) + 0.5f;
    const float y = (float)nearest_index(position.y, height) + 0.5f;
    out[column + (ulong)row * width] = READ_TEXTURE_2D(image, x, y);
}

// The texture has linear filtering and the address mode "clamp".
KERNEL_2D(BLOCK_WIDTH, BLOCK_HEIGHT)
fetch_linear(TEXTURE_2D(image), int width, int height, float cosine, float sine, GLOBAL float* out)
{
    const int column = BLOCK_INDEX * BLOCK_WIDTH + THREAD;
    const int row = BLOCK_INDEX_Y * BLOCK_HEIGHT + THREAD_Y;
    if (column >= width || row >= height)
        return;
    const Position position = sample_position(column, row, width, height, cosine, sine);
    out[column + (ulong)row * width] = READ_TEXTURE_2D(image, position.x, position.y);
}
