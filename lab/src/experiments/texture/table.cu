// gather_table of gather.cu with the table in constant memory.
//
// Limit: the constant cache, which delivers one word per cycle. It serves a warp at once if all
// lanes read the same word. Here the lanes read up to 32 words, one after another.
//
// Defined by the host (mod.rs): BLOCK_WIDTH, BLOCK_HEIGHT, TABLE_SIDE (a power of two), TABLE_LEN.

CONSTANT_ARRAY(float, table, TABLE_LEN);

KERNEL_2D(BLOCK_WIDTH, BLOCK_HEIGHT)
gather_constant(CONSTANT_POINTER const float* table_argument, int width, int height, float cosine, float sine,
                GLOBAL float* out)
{
    const int column = BLOCK_INDEX * BLOCK_WIDTH + THREAD;
    const int row = BLOCK_INDEX_Y * BLOCK_HEIGHT + THREAD_Y;
    if (column >= width || row >= height)
        return;
    const Position position = sample_position(column, row, width, height, cosine, sine);
    const int i = nearest_index(position.x, width) % TABLE_SIDE;
    const int j = nearest_index(position.y, height) % TABLE_SIDE;
    out[column + (ulong)row * width] = CONSTANT_VALUES(table)[i + j * TABLE_SIDE];
}
