// Energy and largest amplitude of a field, and a plane of it.
//
// A slice is a plane, or in two dimensions a row. A block reads the rows of one part of a slice,
// and the host adds the results of the blocks. Parts, and the order within them, depend on the grid
// only, so a sum has the same bits on every device and for any number of slabs. Sums are in double
// precision.
//
// Defined by the host (measures.rs): BLOCK_SIZE, DIMENSIONS.

// Returns the larger one, or NaN if one of them is NaN.
FUNCTION REAL larger(REAL a, REAL b)
{
    return b > a || b != b ? b : a;
}

FUNCTION double add_axis(GLOBAL const REAL* u, ulong at, ulong stride, const REAL* weights, double sum)
{
    UNROLL_ALL
    for (int r = 1; r <= RADIUS; r++)
        sum += (double)weights[r - 1] * ((double)u[at - r * stride] + (double)u[at + r * stride]);
    return sum;
}

// Sum of omega ((u - previous)^2/v - previous A u) of each part, where omega is the product of 1/2
// for each rigid side that a node is on. Slices are `slice` values apart and have `rows` rows. The
// march weights are those across slices. rigid has one bit per side: two for x, two for the first
// and last row of a slice, and two for the first and last slice of the slab. The result of part p
// of slice k is number k * BLOCK_COUNT + p of energies.
KERNEL(BLOCK_SIZE)
measure_energy(
    GLOBAL const REAL* RESTRICT u,
    GLOBAL const REAL* RESTRICT previous,
    GLOBAL const REAL* RESTRICT courant,
    REAL uniform_courant,
    REAL centre,
    REAL march1,
    REAL march2,
    REAL march3,
    REAL march4,
    REAL row1,
    REAL row2,
    REAL row3,
    REAL row4,
    REAL x1,
    REAL x2,
    REAL x3,
    REAL x4,
    ulong first,
    ulong slice,
    int pitch,
    int nx,
    int rows,
    int slices,
    int rigid,
    GLOBAL double* RESTRICT energies)
{
    SHARED double sums[BLOCK_SIZE];

    const REAL march_weights[4] = {march1, march2, march3, march4};
    const REAL row_weights[4] = {row1, row2, row3, row4};
    const REAL x_weights[4] = {x1, x2, x3, x4};
    const int rows_per_part = (rows + BLOCK_COUNT - 1) / BLOCK_COUNT;
    const int begin = BLOCK_INDEX * rows_per_part;
    const int end = begin + rows_per_part < rows ? begin + rows_per_part : rows;
    for (int k = BLOCK_INDEX_Y; k < slices; k += BLOCK_COUNT_Y) {
        double sum = 0;
        for (int j = begin; j < end; j++) {
            double row_weight = (j == 0 && rigid & 4) || (j == rows - 1 && rigid & 8) ? 0.5 : 1.0;
            if ((k == 0 && rigid & 16) || (k == slices - 1 && rigid & 32))
                row_weight *= 0.5;
            for (int i = THREAD; i < nx; i += BLOCK_SIZE) {
                const ulong at = first + (ulong)k * slice + (ulong)j * (uint)pitch + (uint)i;
                const double now = u[at], before = previous[at];
                double applied = (double)centre * now;
                if (DIMENSIONS == 3)
                    applied = add_axis(u, at, (uint)pitch, row_weights, applied);
                applied = add_axis(u, at, slice, march_weights, applied);
                applied = add_axis(u, at, 1, x_weights, applied);
                const double v = IS_VARIABLE ? courant[at] : uniform_courant;
                const double change = now - before;
                const double weight = (i == 0 && rigid & 1) || (i == nx - 1 && rigid & 2) ? 0.5 : 1.0;
                sum += row_weight * weight * (change * change / v - before * applied);
            }
        }
        sums[THREAD] = sum;
        BARRIER();
        for (int offset = BLOCK_SIZE / 2; offset > 0; offset /= 2) {
            if (THREAD < offset)
                sums[THREAD] += sums[THREAD + offset];
            BARRIER();
        }
        if (THREAD == 0)
            energies[(ulong)(uint)k * BLOCK_COUNT + BLOCK_INDEX] = sums[0];
        BARRIER();
    }
}

// Largest |u| of each part, with the same parts. NaN if a value is NaN.
KERNEL(BLOCK_SIZE)
measure_largest(
    GLOBAL const REAL* RESTRICT u,
    ulong first,
    ulong slice,
    int pitch,
    int nx,
    int rows,
    int slices,
    GLOBAL REAL* RESTRICT results)
{
    SHARED REAL maxima[BLOCK_SIZE];

    const int rows_per_part = (rows + BLOCK_COUNT - 1) / BLOCK_COUNT;
    const int begin = BLOCK_INDEX * rows_per_part;
    const int end = begin + rows_per_part < rows ? begin + rows_per_part : rows;
    for (int k = BLOCK_INDEX_Y; k < slices; k += BLOCK_COUNT_Y) {
        REAL largest = (REAL)0;
        for (int j = begin; j < end; j++)
            for (int i = THREAD; i < nx; i += BLOCK_SIZE) {
                const REAL value = u[first + (ulong)k * slice + (ulong)j * (uint)pitch + (uint)i];
                largest = larger(largest, value < (REAL)0 ? -value : value);
            }
        maxima[THREAD] = largest;
        BARRIER();
        for (int offset = BLOCK_SIZE / 2; offset > 0; offset /= 2) {
            if (THREAD < offset)
                maxima[THREAD] = larger(maxima[THREAD], maxima[THREAD + offset]);
            BARRIER();
        }
        if (THREAD == 0)
            results[(ulong)(uint)k * BLOCK_COUNT + BLOCK_INDEX] = maxima[0];
        BARRIER();
    }
}

// Copies a plane of nodes. Node (i, j) of the plane is at first + i * right + j * up of u, and
// becomes number j * width + i of values.
KERNEL(BLOCK_SIZE)
gather_plane(
    GLOBAL const REAL* RESTRICT u,
    ulong first,
    ulong right,
    ulong up,
    int width,
    int height,
    GLOBAL REAL* RESTRICT values)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= width)
        return;
    for (int j = BLOCK_INDEX_Y; j < height; j += BLOCK_COUNT_Y)
        values[(ulong)j * (uint)width + (uint)i] = u[first + (ulong)i * right + (ulong)j * up];
}
