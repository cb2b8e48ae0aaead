// Rotated raster: pixel (column, row) of the output is a sample of the image at
//
//   x = width / 2  + cosine * u - sine * v,   u = column - (width - 1) / 2,
//   y = height / 2 + sine * u + cosine * v,   v = row - (height - 1) / 2.
//
// Texel (i, j) covers [i, i + 1) x [j, j + 1), so its centre is at (i + 0.5, j + 0.5). An angle of
// 0 reads the centres of all texels. Each operation is rounded once, as in mod.rs, so coordinates
// have the same bits on the CPU and on every device.

typedef struct {
    float x, y;
} Position;

FUNCTION Position sample_position(int column, int row, int width, int height, float cosine, float sine)
{
    const float u = (float)column - 0.5f * (float)(width - 1);
    const float v = (float)row - 0.5f * (float)(height - 1);
    Position position;
    position.x = FMA(cosine, u, FMA(-sine, v, 0.5f * (float)width));
    position.y = FMA(sine, u, FMA(cosine, v, 0.5f * (float)height));
    return position;
}

// Returns the index of the texel that contains a coordinate. Outside the image it is the nearest
// index: the address mode "clamp". Truncation rounds -0.5 to 0, which is the same after clamping.
FUNCTION int nearest_index(float coordinate, int count)
{
    const int index = (int)coordinate;
    return index < 0 ? 0 : index >= count ? count - 1 : index;
}
