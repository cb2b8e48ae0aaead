// Updates of the heat equation in the steps of the course, for a plate with fixed edges, uniform
// conductivity and f32. Fields have nx * ny values, x fastest. Blocks have TILE * TILE threads.
//
// Each kernel computes the form of the reference. Edge nodes are never written, so both fields must
// contain their values.
//
// Defined by the host (mod.rs): TILE.

FUNCTION float updated(float u, float west, float east, float south, float north, float r_x, float r_y)
{
    const float lap_x = FMA(-2.0f, u, west + east);
    const float lap_y = FMA(-2.0f, u, south + north);
    return FMA(r_x, lap_x, FMA(r_y, lap_y, u));
}

// Updates node (i, j), if it is not on an edge, with loads from global memory.
FUNCTION void update_node(
    GLOBAL const float* RESTRICT from, GLOBAL float* RESTRICT to, float r_x, float r_y, int nx, int ny, int i, int j)
{
    if (i > 0 && i < nx - 1 && j > 0 && j < ny - 1) {
        const ulong node = (ulong)j * nx + i;
        to[node] = updated(from[node], from[node - 1], from[node + 1], from[node - nx], from[node + nx], r_x, r_y);
    }
}

// As in the course: neighbouring threads update neighbouring rows, so a warp touches as many cache
// lines as it has lanes. Blocks along x cover rows.
KERNEL_2D(TILE, TILE)
update_across_rows(GLOBAL const float* RESTRICT from, GLOBAL float* RESTRICT to, float r_x, float r_y, int nx, int ny)
{
    update_node(from, to, r_x, r_y, nx, ny, BLOCK_INDEX_Y * TILE + THREAD_Y, BLOCK_INDEX * TILE + THREAD);
}

// Coalesced: neighbouring threads update neighbouring nodes of a row.
KERNEL_2D(TILE, TILE)
update_along_rows(GLOBAL const float* RESTRICT from, GLOBAL float* RESTRICT to, float r_x, float r_y, int nx, int ny)
{
    update_node(from, to, r_x, r_y, nx, ny, BLOCK_INDEX * TILE + THREAD, BLOCK_INDEX_Y * TILE + THREAD_Y);
}

// A tile in shared memory, with ghost cells on all sides. All threads load what is inside the grid
// and pass the barrier. In the course the barrier is inside a condition, and edge values that the
// tile needs are not loaded.
KERNEL_2D(TILE, TILE)
update_tile(GLOBAL const float* RESTRICT from, GLOBAL float* RESTRICT to, float r_x, float r_y, int nx, int ny)
{
    SHARED float tile[TILE + 2][TILE + 2];

    const int first_i = BLOCK_INDEX * TILE - 1, first_j = BLOCK_INDEX_Y * TILE - 1;
    for (int cell = THREAD_Y * TILE + THREAD; cell < (TILE + 2) * (TILE + 2); cell += TILE * TILE) {
        const int x = cell % (TILE + 2), y = cell / (TILE + 2);
        const int i = first_i + x, j = first_j + y;
        if (i >= 0 && i < nx && j >= 0 && j < ny)
            tile[y][x] = from[(ulong)j * nx + i];
    }
    BARRIER();
    const int x = THREAD + 1, y = THREAD_Y + 1;
    const int i = first_i + x, j = first_j + y;
    if (i > 0 && i < nx - 1 && j > 0 && j < ny - 1)
        to[(ulong)j * nx + i] =
            updated(tile[y][x], tile[y][x - 1], tile[y][x + 1], tile[y - 1][x], tile[y + 1][x], r_x, r_y);
}

// Minimum and maximum of each column, one thread per column, as in the course. minima and maxima
// have nx values.
KERNEL(TILE* TILE)
range_of_columns(GLOBAL const float* RESTRICT field, int nx, int ny, GLOBAL float* minima, GLOBAL float* maxima)
{
    const int i = BLOCK_INDEX * TILE * TILE + THREAD;
    if (i >= nx)
        return;
    float minimum = field[i], maximum = field[i];
    for (int j = 1; j < ny; j++) {
        const float u = field[(ulong)j * nx + i];
        minimum = MIN(minimum, u);
        maximum = MAX(maximum, u);
    }
    minima[i] = minimum;
    maxima[i] = maximum;
}
