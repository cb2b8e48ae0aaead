// Minimum, maximum and weighted sum of the rows of a field.
//
// Rows start `pitch` elements apart. A block reads a segment of at most SEGMENT_COLUMNS columns of
// one row. The host combines the results of the segments. Segments, and the order within them,
// depend on nx only, so a sum has the same bits on every device and for any number of slabs.
//
// One load per node: bound by memory bandwidth.
//
// Defined by the host (measures.rs): REAL, BLOCK_SIZE, SEGMENT_COLUMNS, HAS_CAPACITY (heat capacity
// per node).

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

// field: rows of `pitch` elements, of which `rows` are measured, starting with `first_row`.
// extrema: minimum and maximum of each segment. sums: Σ u of each segment, in f64, with the weight
// 1/2 for the first and the last column if halves_ends is not 0. With HAS_CAPACITY, u is divided by
// capacity_ratio, a field like `field`, which is not used otherwise. The results of segment s of
// the measured row j are number j * BLOCK_COUNT + s.
KERNEL(BLOCK_SIZE)
measure_rows(
    GLOBAL const REAL* RESTRICT field,
    int nx,
    int pitch,
    int first_row,
    int rows,
    int halves_ends,
    GLOBAL REAL* RESTRICT extrema,
    GLOBAL double* RESTRICT sums,
    GLOBAL const REAL* RESTRICT capacity_ratio)
{
    SHARED REAL minima[BLOCK_SIZE];
    SHARED REAL maxima[BLOCK_SIZE];
    SHARED double partial_sums[BLOCK_SIZE];

    const int begin = BLOCK_INDEX * SEGMENT_COLUMNS;
    const int end = begin + SEGMENT_COLUMNS < nx ? begin + SEGMENT_COLUMNS : nx;
    for (int j = BLOCK_INDEX_Y; j < rows; j += BLOCK_COUNT_Y) {
        GLOBAL const REAL* row = field + (ulong)(uint)(first_row + j) * (uint)pitch;
        // Any value of the segment is a start for minimum and maximum.
        REAL minimum = row[begin], maximum = row[begin];
        double sum = 0;
        for (int column = begin + THREAD; column < end; column += BLOCK_SIZE) {
            const REAL u = row[column];
            minimum = smaller(minimum, u);
            maximum = larger(maximum, u);
            const int is_end = column == 0 || column == nx - 1;
#if HAS_CAPACITY
            const double heat = (double)u / (double)capacity_ratio[row - field + column];
#else
            const double heat = (double)u;
#endif
            sum += is_end && halves_ends ? 0.5 * heat : heat;
        }

        minima[THREAD] = minimum;
        maxima[THREAD] = maximum;
        partial_sums[THREAD] = sum;
        BARRIER();
        for (int offset = BLOCK_SIZE / 2; offset > 0; offset /= 2) {
            if (THREAD < offset) {
                minima[THREAD] = smaller(minima[THREAD], minima[THREAD + offset]);
                maxima[THREAD] = larger(maxima[THREAD], maxima[THREAD + offset]);
                partial_sums[THREAD] += partial_sums[THREAD + offset];
            }
            BARRIER();
        }
        if (THREAD == 0) {
            const ulong segment = (ulong)(uint)j * BLOCK_COUNT + BLOCK_INDEX;
            extrema[2 * segment] = minima[0];
            extrema[2 * segment + 1] = maxima[0];
            sums[segment] = partial_sums[0];
        }
    }
}

// Gathers the two outer columns on each side: 0, 1, nx - 2 and nx - 1, each of `rows` elements.
KERNEL(BLOCK_SIZE)
gather_columns(
    GLOBAL const REAL* RESTRICT field,
    int nx,
    int pitch,
    int first_row,
    int rows,
    GLOBAL REAL* RESTRICT columns)
{
    const int row = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (row >= rows)
        return;
    GLOBAL const REAL* from = field + (ulong)(first_row + row) * (uint)pitch;
    for (int side = 0; side < 2; side++) {
        columns[(ulong)side * (uint)rows + row] = from[side];
        columns[(ulong)(2 + side) * (uint)rows + row] = from[nx - 2 + side];
    }
}
