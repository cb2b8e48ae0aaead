// Means of a field over the pixels of a picture, with the smallest and the largest value.
//
// Node (i, j) of the field is at first + i * right + j * up. A block computes up to
// pixels_per_block neighbouring pixels of one row of pixels. It goes through the columns of these
// pixels in tiles of TILE_COLUMNS: all threads sum the rows of the pixels in each column, and then
// each thread adds the columns of its pixel. Products and sums are those of the reference
// (pixels.rs of the crate `model`) in the same order, so the means have the same bits.
//
// One load per node, and a few percent more for nodes that belong to two pixels: bound by memory
// bandwidth.
//
// Defined by the host (device.rs): REAL, BLOCK_SIZE, COLUMNS_PER_THREAD, MAX_PARTIAL.

#if defined(ON_OPENCL)
#pragma OPENCL FP_CONTRACT OFF
#endif

// Product that the compiler must not fuse with a later addition.
#if defined(ON_OPENCL)
#define PRODUCT(a, b) ((a) * (b))
#else
#define PRODUCT(a, b) __dmul_rn(a, b)
#endif

#define TILE_COLUMNS (BLOCK_SIZE * COLUMNS_PER_THREAD)

// Numbers of a pixel along one axis: position of its first node, and the numbers of nodes before,
// in and after the whole hats.
#define RANGE_FIRST 0
#define RANGE_LOW 1
#define RANGE_WHOLE 2
#define RANGE_HIGH 3
#define RANGE_SLOTS 4
// Weights of a pixel along one axis: those of the nodes before and after the whole hats, and that
// of a whole hat.
#define WHOLE_WEIGHT MAX_PARTIAL
#define WEIGHT_SLOTS (MAX_PARTIAL + 1)

// Field and weights, the same for all threads.
typedef struct {
    GLOBAL const REAL* nodes;
    ulong right;
    ulong up;
    int nx;
    int ny;
} Field;

typedef struct {
    REAL minimum;
    REAL maximum;
} Extremes;

// Returns the smaller one, or NaN if one of them is NaN.
FUNCTION REAL smaller(REAL a, REAL b)
{
    return b < a || b != b ? b : a;
}

// Returns the larger one, or NaN if one of them is NaN.
FUNCTION REAL larger(REAL a, REAL b)
{
    return b > a || b != b ? b : a;
}

FUNCTION int min_of(int a, int b)
{
    return a < b ? a : b;
}

FUNCTION int max_of(int a, int b)
{
    return a > b ? a : b;
}

// Returns the node of a position. The position after the last node of a periodic axis is node 0.
FUNCTION int node_at(int position, int nodes)
{
    return position < nodes ? position : position - nodes;
}

// Returns the position after the last node of a pixel.
FUNCTION int range_end(GLOBAL const int* range)
{
    return range[RANGE_FIRST] + range[RANGE_LOW] + range[RANGE_WHOLE] + range[RANGE_HIGH];
}

// Loads the node of a row in each column of the thread.
FUNCTION void load_row(Field field, int position, const ulong* offsets, REAL* values, Extremes* extremes)
{
    GLOBAL const REAL* row = field.nodes + (ulong)(uint)node_at(position, field.ny) * field.up;
    UNROLL_ALL
    for (int c = 0; c < COLUMNS_PER_THREAD; c++)
        values[c] = row[offsets[c]];
    UNROLL_ALL
    for (int c = 0; c < COLUMNS_PER_THREAD; c++) {
        extremes->minimum = smaller(extremes->minimum, values[c]);
        extremes->maximum = larger(extremes->maximum, values[c]);
    }
}

// Adds `count` rows from `position` on, each times its weight.
FUNCTION void add_weighted_rows(
    Field field,
    int position,
    int count,
    GLOBAL const double* weights,
    const ulong* offsets,
    double* sums,
    Extremes* extremes)
{
    REAL values[COLUMNS_PER_THREAD];
    for (int k = 0; k < count; k++) {
        load_row(field, position + k, offsets, values, extremes);
        const double weight = weights[k];
        UNROLL_ALL
        for (int c = 0; c < COLUMNS_PER_THREAD; c++)
            sums[c] += PRODUCT(weight, (double)values[c]);
    }
}

// Computes the sums over the rows of a pixel in columns `begin` to `end`, at most TILE_COLUMNS.
FUNCTION void sum_rows(
    Field field,
    int begin,
    int end,
    GLOBAL const int* range,
    GLOBAL const double* weights,
    SHARED_POINTER double* column_sums,
    Extremes* extremes)
{
    ulong offsets[COLUMNS_PER_THREAD];
    double partial[COLUMNS_PER_THREAD], whole[COLUMNS_PER_THREAD];
    UNROLL_ALL
    for (int c = 0; c < COLUMNS_PER_THREAD; c++) {
        // A thread without a column reads the last one.
        const int column = min_of(begin + c * BLOCK_SIZE + THREAD, end - 1);
        offsets[c] = (ulong)(uint)node_at(column, field.nx) * field.right;
        partial[c] = 0;
        whole[c] = 0;
    }
    const int low = range[RANGE_LOW], whole_rows = range[RANGE_WHOLE];
    const int position = range[RANGE_FIRST];
    add_weighted_rows(field, position, low, weights, offsets, partial, extremes);
    REAL values[COLUMNS_PER_THREAD];
    UNROLL(4)
    for (int k = 0; k < whole_rows; k++) {
        load_row(field, position + low + k, offsets, values, extremes);
        UNROLL_ALL
        for (int c = 0; c < COLUMNS_PER_THREAD; c++)
            whole[c] += (double)values[c];
    }
    const int high = position + low + whole_rows;
    add_weighted_rows(field, high, range[RANGE_HIGH], weights + low, offsets, partial, extremes);
    UNROLL_ALL
    for (int c = 0; c < COLUMNS_PER_THREAD; c++) {
        const int slot = c * BLOCK_SIZE + THREAD;
        if (begin + slot < end)
            column_sums[slot] = partial[c] + PRODUCT(weights[WHOLE_WEIGHT], whole[c]);
    }
}

// Adds the columns `begin` to `end` of a pixel to its two sums.
FUNCTION void add_columns(
    int begin,
    int end,
    GLOBAL const int* range,
    GLOBAL const double* weights,
    SHARED_POINTER const double* column_sums,
    double* partial,
    double* whole)
{
    const int first = range[RANGE_FIRST], low = range[RANGE_LOW];
    const int whole_begin = first + low, high = whole_begin + range[RANGE_WHOLE];
    for (int column = max_of(first, begin); column < min_of(whole_begin, end); column++)
        *partial += PRODUCT(weights[column - first], column_sums[column - begin]);
    for (int column = max_of(whole_begin, begin); column < min_of(high, end); column++)
        *whole += column_sums[column - begin];
    for (int column = max_of(high, begin); column < min_of(high + range[RANGE_HIGH], end); column++)
        *partial += PRODUCT(weights[low + column - high], column_sums[column - begin]);
}

// Combines the extremes of all threads of the block. Thread 0 gets the result.
FUNCTION Extremes combine(Extremes own, SHARED_POINTER REAL* minima, SHARED_POINTER REAL* maxima)
{
    minima[THREAD] = own.minimum;
    maxima[THREAD] = own.maximum;
    BARRIER();
    for (int offset = BLOCK_SIZE / 2; offset > 0; offset /= 2) {
        if (THREAD < offset) {
            minima[THREAD] = smaller(minima[THREAD], minima[THREAD + offset]);
            maxima[THREAD] = larger(maxima[THREAD], maxima[THREAD + offset]);
        }
        BARRIER();
    }
    own.minimum = minima[0];
    own.maximum = maxima[0];
    return own;
}

// means: width x height values. extremes: minimum and maximum of the nodes of each block, whose
// number is that of its row of pixels times BLOCK_COUNT, plus BLOCK_INDEX.
KERNEL(BLOCK_SIZE)
pixel_means(
    GLOBAL const REAL* RESTRICT nodes,
    ulong first,
    ulong right,
    ulong up,
    int nx,
    int ny,
    GLOBAL const int* RESTRICT column_ranges,
    GLOBAL const double* RESTRICT column_weights,
    GLOBAL const int* RESTRICT row_ranges,
    GLOBAL const double* RESTRICT row_weights,
    int width,
    int height,
    int pixels_per_block,
    GLOBAL double* RESTRICT means,
    GLOBAL REAL* RESTRICT extremes)
{
    SHARED double column_sums[TILE_COLUMNS];
    SHARED REAL minima[BLOCK_SIZE];
    SHARED REAL maxima[BLOCK_SIZE];

    Field field;
    field.nodes = nodes + first;
    field.right = right;
    field.up = up;
    field.nx = nx;
    field.ny = ny;
    const int pixel_begin = BLOCK_INDEX * pixels_per_block;
    const int pixel_end = min_of(pixel_begin + pixels_per_block, width);
    const int pixel = min_of(pixel_begin + THREAD, pixel_end - 1);
    GLOBAL const int* column_range = column_ranges + RANGE_SLOTS * pixel;
    GLOBAL const double* weights = column_weights + WEIGHT_SLOTS * pixel;
    const int first_column = column_ranges[RANGE_SLOTS * pixel_begin + RANGE_FIRST];
    const int end_column = range_end(column_ranges + RANGE_SLOTS * (pixel_end - 1));

    for (int row = BLOCK_INDEX_Y; row < height; row += BLOCK_COUNT_Y) {
        GLOBAL const int* row_range = row_ranges + RANGE_SLOTS * row;
        Extremes found;
        // Any node of the block is a start for minimum and maximum.
        found.minimum = field.nodes[(ulong)(uint)node_at(first_column, nx) * right
                                    + (ulong)(uint)node_at(row_range[RANGE_FIRST], ny) * up];
        found.maximum = found.minimum;
        double partial = 0, whole = 0;
        for (int begin = first_column; begin < end_column; begin += TILE_COLUMNS) {
            const int end = min_of(begin + TILE_COLUMNS, end_column);
            sum_rows(field, begin, end, row_range, row_weights + WEIGHT_SLOTS * row, column_sums, &found);
            BARRIER();
            add_columns(begin, end, column_range, weights, column_sums, &partial, &whole);
            BARRIER();
        }
        if (pixel_begin + THREAD < pixel_end)
            means[(ulong)(uint)row * (uint)width + (uint)pixel] = partial + PRODUCT(weights[WHOLE_WEIGHT], whole);
        found = combine(found, minima, maxima);
        if (THREAD == 0) {
            const ulong block = (ulong)(uint)row * BLOCK_COUNT + BLOCK_INDEX;
            extremes[2 * block] = found.minimum;
            extremes[2 * block + 1] = found.maximum;
        }
        BARRIER();
    }
}
