// Samples of an image in global memory along a rotated raster (raster.cu).
//
// Data: `image` is row-major, texel (i, j) at i + j * width. `out` has one float per pixel.
// Cost: one load (nearest), four loads and six operations (linear), and one store per pixel.
// Limit: memory bandwidth. The loads of a warp follow a line through the image. For an angle of 0
// they are neighbours in memory. For 90 degrees each is in another row and so in another sector,
// whose other texels are used by other warps, if they are still in the cache then.
//
// Defined by the host (mod.rs): BLOCK_WIDTH, BLOCK_HEIGHT, TABLE_SIDE (a power of two).

#define COLUMN (BLOCK_INDEX * BLOCK_WIDTH + THREAD)
#define ROW (BLOCK_INDEX_Y * BLOCK_HEIGHT + THREAD_Y)

KERNEL_2D(BLOCK_WIDTH, BLOCK_HEIGHT)
gather_nearest(GLOBAL const float* RESTRICT image, int width, int height, float cosine, float sine, GLOBAL float* out)
{
    const int column = COLUMN, row = ROW;
    if (column >= width || row >= height)
        return;
    const Position position = sample_position(column, row, width, height, cosine, sine);
    const int i = nearest_index(position.x, width);
    const int j = nearest_index(position.y, height);
    out[column + (ulong)row * width] = image[i + (ulong)j * width];
}

// Interpolates between the four texels whose centres surround the position.
KERNEL_2D(BLOCK_WIDTH, BLOCK_HEIGHT)
gather_linear(GLOBAL const float* RESTRICT image, int width, int height, float cosine, float sine, GLOBAL float* out)
{
    const int column = COLUMN, row = ROW;
    if (column >= width || row >= height)
        return;
    const Position position = sample_position(column, row, width, height, cosine, sine);
    // Relative to the centre of the first texel. Outside the centres of the edge texels the image
    // is constant.
    const float x = MIN(MAX(position.x - 0.5f, 0.0f), (float)(width - 1));
    const float y = MIN(MAX(position.y - 0.5f, 0.0f), (float)(height - 1));
    const int i = (int)x, j = (int)y;
    const int next_i = i + 1 < width ? i + 1 : i;
    const int next_j = j + 1 < height ? j + 1 : j;
    GLOBAL const float* line = image + (ulong)j * width;
    GLOBAL const float* next_line = image + (ulong)next_j * width;
    const float weight_x = x - (float)i, weight_y = y - (float)j;
    const float above = FMA(weight_x, line[next_i] - line[i], line[i]);
    const float below = FMA(weight_x, next_line[next_i] - next_line[i], next_line[i]);
    out[column + (ulong)row * width] = FMA(weight_y, below - above, above);
}

// Nearest sample of a table of TABLE_SIDE x TABLE_SIDE values that is repeated over the image.
KERNEL_2D(BLOCK_WIDTH, BLOCK_HEIGHT)
gather_table(GLOBAL const float* RESTRICT table, int width, int height, float cosine, float sine, GLOBAL float* out)
{
    const int column = COLUMN, row = ROW;
    if (column >= width || row >= height)
        return;
    const Position position = sample_position(column, row, width, height, cosine, sine);
    const int i = nearest_index(position.x, width) % TABLE_SIDE;
    const int j = nearest_index(position.y, height) % TABLE_SIDE;
    out[column + (ulong)row * width] = table[i + j * TABLE_SIDE];
}
