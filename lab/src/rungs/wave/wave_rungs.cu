// Steps from a plain kernel to the production kernel columns.cu. A thread advances one node of a
// plane. These kernels have the parameters of the production kernels, so a ladder differs in the
// kernel alone.
//
// Defined by the host (mod.rs): THREADS_X, THREADS_Y, and those of the field, such as DIMENSIONS.
// The text of common.cu comes before this file.

#define BLOCK_SIZE (THREADS_X * THREADS_Y)
#define TILE_WIDTH (THREADS_X + 2 * RADIUS)
#define TILE_ROWS (THREADS_Y + (DIMENSIONS == 3 ? 2 * RADIUS : 0))
// Row of the tile with the first row of the block.
#define TILE_FIRST (DIMENSIONS == 3 ? RADIUS : 0)

// Adds w_r (u_-r + u_r) along an axis, with loads from global memory.
FUNCTION REAL add_global(GLOBAL const REAL* RESTRICT u, ulong at, ulong stride, const REAL* weights, REAL sum)
{
    UNROLL_ALL
    for (int r = 1; r <= RADIUS; r++)
        sum = FMA_REAL(weights[r - 1], u[at - r * stride] + u[at + r * stride], sum);
    return sum;
}

// The same from a tile in shared memory.
FUNCTION REAL add_tile(SHARED_POINTER const REAL* centre, int stride, const REAL* weights, REAL sum)
{
    UNROLL_ALL
    for (int r = 1; r <= RADIUS; r++)
        sum = FMA_REAL(weights[r - 1], centre[-r * stride] + centre[r * stride], sum);
    return sum;
}

// Copies the tile of a block in the plane at `at` to shared memory, with the nodes around it. Nodes
// beyond the ghost nodes of the plane are left out.
FUNCTION void load_tile(
    SHARED_POINTER REAL* tile, GLOBAL const REAL* RESTRICT u, ulong at, int pitch, int nx, int rows)
{
    const int tiles = TILES(nx, THREADS_X);
    const int first_i = BLOCK_INDEX % tiles * THREADS_X - RADIUS;
    const int first_j = BLOCK_INDEX / tiles * THREADS_Y - TILE_FIRST;
    for (int cell = THREAD; cell < TILE_ROWS * TILE_WIDTH; cell += BLOCK_SIZE) {
        const int i = first_i + cell % TILE_WIDTH, j = first_j + cell / TILE_WIDTH;
        if (i < nx + RADIUS && j < rows + TILE_FIRST)
            tile[cell] = u[at + (ulong)j * (uint)pitch + (ulong)i];
    }
}

// All loads from global memory.
KERNEL(BLOCK_SIZE)
advance_nodes(ADVANCE_PARAMETERS)
{
    const int tiles = TILES(nx, THREADS_X);
    const int i = BLOCK_INDEX % tiles * THREADS_X + THREAD % THREADS_X;
    const int j = BLOCK_INDEX / tiles * THREADS_Y + THREAD / THREADS_X;
    const int start = begin + BLOCK_INDEX_Y * chunk;
    const int stop = start + chunk < end ? start + chunk : end;
    if (i >= nx || j >= rows)
        return;
    const REAL march_weights[4] = {march1, march2, march3, march4};
    const REAL row_weights[4] = {row1, row2, row3, row4};
    const REAL x_weights[4] = {x1, x2, x3, x4};
    for (int k = start; k < stop; k++) {
        const ulong at = first + (ulong)k * plane + (ulong)j * (uint)pitch + (uint)i;
        const REAL value = u[at];
        REAL sum = add_global(u, at, plane, march_weights, PRODUCT(centre, value));
        if (DIMENSIONS == 3)
            sum = add_global(u, at, (uint)pitch, row_weights, sum);
        sum = add_global(u, at, 1, x_weights, sum);
        const REAL v = IS_VARIABLE ? courant[at] : uniform_courant;
        field[at] = next_value(v, sum, value, field[at]);
    }
}

// A tile of a plane in shared memory. Neighbours in other planes come from global memory.
KERNEL(BLOCK_SIZE)
advance_tiles(ADVANCE_PARAMETERS)
{
    SHARED REAL tile[TILE_ROWS * TILE_WIDTH];

    const int tile_i = THREAD % THREADS_X, tile_j = THREAD / THREADS_X;
    const int tiles = TILES(nx, THREADS_X);
    const int i = BLOCK_INDEX % tiles * THREADS_X + tile_i, j = BLOCK_INDEX / tiles * THREADS_Y + tile_j;
    const int start = begin + BLOCK_INDEX_Y * chunk;
    const int stop = start + chunk < end ? start + chunk : end;
    const REAL march_weights[4] = {march1, march2, march3, march4};
    const REAL row_weights[4] = {row1, row2, row3, row4};
    const REAL x_weights[4] = {x1, x2, x3, x4};
    for (int k = start; k < stop; k++) {
        BARRIER();
        load_tile(tile, u, first + (ulong)k * plane, pitch, nx, rows);
        BARRIER();
        if (i < nx && j < rows) {
            const ulong at = first + (ulong)k * plane + (ulong)j * (uint)pitch + (uint)i;
            SHARED_POINTER const REAL* cell = tile + (tile_j + TILE_FIRST) * TILE_WIDTH + tile_i + RADIUS;
            REAL sum = add_global(u, at, plane, march_weights, PRODUCT(centre, cell[0]));
            if (DIMENSIONS == 3)
                sum = add_tile(cell, TILE_WIDTH, row_weights, sum);
            sum = add_tile(cell, 1, x_weights, sum);
            const REAL v = IS_VARIABLE ? courant[at] : uniform_courant;
            field[at] = next_value(v, sum, cell[0], field[at]);
        }
    }
}

// As advance_tiles, with the planes before and after in registers: each value of u is loaded once
// per block. For order 2 these are three planes that cycle.
KERNEL(BLOCK_SIZE)
advance_planes(ADVANCE_PARAMETERS)
{
    SHARED REAL tile[TILE_ROWS * TILE_WIDTH];

    const int tile_i = THREAD % THREADS_X, tile_j = THREAD / THREADS_X;
    const int tiles = TILES(nx, THREADS_X);
    const int i = BLOCK_INDEX % tiles * THREADS_X + tile_i, j = BLOCK_INDEX / tiles * THREADS_Y + tile_j;
    const int start = begin + BLOCK_INDEX_Y * chunk;
    const int stop = start + chunk < end ? start + chunk : end;
    const int is_inside = i < nx && j < rows;
    const REAL march_weights[4] = {march1, march2, march3, march4};
    const REAL row_weights[4] = {row1, row2, row3, row4};
    const REAL x_weights[4] = {x1, x2, x3, x4};
    ulong at = first + (ulong)start * plane + (ulong)j * (uint)pitch + (uint)i;
    REAL column[2 * RADIUS + 1];
    UNROLL_ALL
    for (int p = 0; p < 2 * RADIUS; p++)
        column[p] = is_inside ? u[at + p * plane - RADIUS * plane] : (REAL)0;
    for (int k = start; k < stop; k++) {
        BARRIER();
        load_tile(tile, u, first + (ulong)k * plane, pitch, nx, rows);
        BARRIER();
        if (is_inside) {
            column[2 * RADIUS] = u[at + RADIUS * plane];
            SHARED_POINTER const REAL* cell = tile + (tile_j + TILE_FIRST) * TILE_WIDTH + tile_i + RADIUS;
            const REAL value = column[RADIUS];
            REAL sum = PRODUCT(centre, value);
            UNROLL_ALL
            for (int r = 1; r <= RADIUS; r++)
                sum = FMA_REAL(march_weights[r - 1], column[RADIUS - r] + column[RADIUS + r], sum);
            if (DIMENSIONS == 3)
                sum = add_tile(cell, TILE_WIDTH, row_weights, sum);
            sum = add_tile(cell, 1, x_weights, sum);
            const REAL v = IS_VARIABLE ? courant[at] : uniform_courant;
            field[at] = next_value(v, sum, value, field[at]);
            UNROLL_ALL
            for (int p = 0; p < 2 * RADIUS; p++)
                column[p] = column[p + 1];
        }
        at += plane;
    }
}
