// Potential of point charges on a grid: tiles of charges in shared memory, POINTS points per
// thread.
//
// The points of a thread are in one row, a row length divided by POINTS apart, so that neighbouring
// threads write neighbouring points. dy² + dz² of a charge is computed once for all of them. A tile
// is summed before it is added to the sum of the thread, which keeps rounding errors small.
//
// Cost of a term: a difference, two multiply-adds and a reciprocal square root. A load and four
// operations per charge are shared by POINTS terms. Limit: the special function units, which
// compute 16 reciprocal square roots per SM and cycle. The other operations take half of the issue
// slots in that time. NEWTON_POINTS of the points use the rest: they take their reciprocal square
// root from Newton's method, which needs no special function.
//
// Charges: float4 of x, y, z and charge. Defined by the host (mod.rs): BLOCK_SIZE, POINTS, TILE,
// UNROLL_BY, NEWTON_POINTS, and the definitions of point_grid.cu.

// Returns 1/√x for normal x. The shift halves the exponent, which gives an estimate with a relative
// error below 3.5%. A step of Newton's method leaves 0.18%, and a step of third order,
//
//   y ← y (1 + e/2 + 3 e²/8),   e = 1 − x y²,
//
// leaves rounding errors.
FUNCTION float newton_rsqrt(float x)
{
    float y = UINT_AS_FLOAT(0x5f3759dfu - (FLOAT_AS_UINT(x) >> 1));
    y *= FMA(-0.5f * x * y, y, 1.5f);
    const float e = FMA(-x * y, y, 1.0f);
    return FMA(y * e, FMA(0.375f, e, 0.5f), y);
}

// Adds the terms of one charge to the sums of all points of a thread.
FUNCTION void add_charge(float* sums, const float* x, float4 charge, float y, float z)
{
    const float distance2 = row_distance2(charge, y, z);
    UNROLL_ALL
    for (int point = 0; point < NEWTON_POINTS; point++) {
        const float dx = x[point] - charge.x;
        sums[point] = FMA(charge.w, newton_rsqrt(FMA(dx, dx, distance2)), sums[point]);
    }
    UNROLL_ALL
    for (int point = NEWTON_POINTS; point < POINTS; point++)
        sums[point] = add_term(sums[point], charge, x[point], distance2);
}

// potential: one sum per point.
KERNEL(BLOCK_SIZE)
gather_tiled(GLOBAL const float4* RESTRICT charges, int charge_count, POINT_GRID, GLOBAL float* RESTRICT potential)
{
    SHARED float4 tile[TILE];
    const int threads_per_row = (nx + POINTS - 1) / POINTS;
    const int thread = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    const int row = thread / threads_per_row;
    const int column = thread % threads_per_row;
    const float y = coordinate_of(row % ny, y0, h);
    const float z = coordinate_of(row / ny, z0, h);
    float x[POINTS], sums[POINTS];
    UNROLL_ALL
    for (int point = 0; point < POINTS; point++) {
        x[point] = coordinate_of(column + point * threads_per_row, x0, h);
        sums[point] = 0.0f;
    }
    for (int first = 0; first < charge_count; first += TILE) {
        // A charge of 0 fills the last tile.
        for (int index = THREAD; index < TILE; index += BLOCK_SIZE)
            tile[index] = first + index < charge_count ? charges[first + index] : FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
        BARRIER();
        float tile_sums[POINTS];
        UNROLL_ALL
        for (int point = 0; point < POINTS; point++)
            tile_sums[point] = 0.0f;
        UNROLL(UNROLL_BY)
        for (int index = 0; index < TILE; index++)
            add_charge(tile_sums, x, tile[index], y, z);
        UNROLL_ALL
        for (int point = 0; point < POINTS; point++)
            sums[point] += tile_sums[point];
        BARRIER();
    }
    if (row < ny * nz) {
        UNROLL_ALL
        for (int point = 0; point < POINTS; point++)
            if (column + point * threads_per_row < nx)
                potential[row * nx + column + point * threads_per_row] = sums[point];
    }
}
