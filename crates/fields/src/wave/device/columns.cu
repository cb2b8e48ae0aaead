// A thread advances ROWS rows of VECTOR_WIDTH nodes and marches through the planes of a chunk, with
// a column of 2 RADIUS + 1 planes in registers. Neighbours along y and x come through the cache of
// the SM. The loads of AHEAD planes are in flight while a plane is computed. There are no barriers.
//
// u is read once per plane from memory, and its neighbours from the cache. With AHEAD = 1 the limit
// is the bandwidth of memory: 16 bytes per node with v per node, 12 without, in single precision.
//
// Defined by the host (strategy.rs): DIMENSIONS, THREADS_X, THREADS_Y, ROWS, AHEAD,
// UNROLLED_PLANES, MIN_BLOCKS.

#define BLOCK_SIZE (THREADS_X * THREADS_Y)
#define WINDOW (2 * RADIUS + 1 + AHEAD)

// Adds w_r (before + after) for all distances r along the march, from a column of planes.
FUNCTION REAL add_column(const REAL column[WINDOW][ROWS][VECTOR_WIDTH], int row, int c, const REAL* weights, REAL sum)
{
    UNROLL_ALL
    for (int r = 1; r <= RADIUS; r++)
        sum = FMA_REAL(weights[r - 1], column[RADIUS - r][row][c] + column[RADIUS + r][row][c], sum);
    return sum;
}

KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS)
advance_columns(ADVANCE_PARAMETERS)
{
    const int tiles = TILES(nx, THREADS_X * VECTOR_WIDTH);
    const int i = (BLOCK_INDEX % tiles * THREADS_X + THREAD % THREADS_X) * VECTOR_WIDTH;
    const int j = (BLOCK_INDEX / tiles * THREADS_Y + THREAD / THREADS_X) * ROWS;
    const int start = begin + BLOCK_INDEX_Y * chunk;
    const int stop = start + chunk < end ? start + chunk : end;
    if (i >= nx || j >= rows)
        return;

    const REAL march_weights[4] = {march1, march2, march3, march4};
    const REAL x_weights[4] = {x1, x2, x3, x4};
#if DIMENSIONS == 3
    const REAL row_weights[4] = {row1, row2, row3, row4};
#endif
    // Position of the thread's first node in the plane that is computed.
    ulong at = first + (ulong)start * plane + (ulong)j * (uint)pitch + (uint)i;
    REAL column[WINDOW][ROWS][VECTOR_WIDTH];
    REAL previous[AHEAD + 1][ROWS][VECTOR_WIDTH];
    REAL courants[AHEAD + 1][ROWS][VECTOR_WIDTH];
    UNROLL_ALL
    for (int k = 0; k < WINDOW - 1; k++) {
        // Planes after those that the chunk needs are not read.
        const int p = k < 2 * RADIUS + stop - start ? k : 0;
        UNROLL_ALL
        for (int row = 0; row < ROWS; row++)
            unpack(column[k][row], LOAD_SHARED_VALUES(u + at - RADIUS * plane + p * plane + row * pitch));
    }
    UNROLL_ALL
    for (int k = 0; k < AHEAD; k++) {
        const int p = k < stop - start ? k : 0;
        UNROLL_ALL
        for (int row = 0; row < ROWS; row++) {
            unpack(previous[k][row], LOAD_ONCE(field + at + p * plane + row * pitch));
#if IS_VARIABLE
            unpack(courants[k][row], LOAD_ONCE(courant + at + p * plane + row * pitch));
#endif
        }
    }

    UNROLL(UNROLLED_PLANES)
    for (int k = start; k < stop; k++) {
        const ulong ahead = k + AHEAD < stop ? AHEAD * plane : 0;
        UNROLL_ALL
        for (int row = 0; row < ROWS; row++) {
            unpack(column[WINDOW - 1][row], LOAD_SHARED_VALUES(u + at + RADIUS * plane + ahead + row * pitch));
            unpack(previous[AHEAD][row], LOAD_ONCE(field + at + ahead + row * pitch));
#if IS_VARIABLE
            unpack(courants[AHEAD][row], LOAD_ONCE(courant + at + ahead + row * pitch));
#endif
        }
#if DIMENSIONS == 3
        // Rows j - RADIUS to j + ROWS - 1 + RADIUS. The thread has its own rows already.
        REAL near_rows[ROWS + 2 * RADIUS][VECTOR_WIDTH];
        UNROLL_ALL
        for (int row = 0; row < ROWS + 2 * RADIUS; row++) {
            if (row < RADIUS || row >= RADIUS + ROWS) {
                unpack(near_rows[row], LOAD_SHARED_VALUES(u + at - RADIUS * pitch + row * pitch));
            } else {
                UNROLL_ALL
                for (int c = 0; c < VECTOR_WIDTH; c++)
                    near_rows[row][c] = column[RADIUS][row - RADIUS][c];
            }
        }
#endif
        UNROLL_ALL
        for (int row = 0; row < ROWS; row++) {
            // Columns i - SIDE_WIDTH to i + VECTOR_WIDTH + SIDE_WIDTH - 1.
            REAL wide[VECTOR_WIDTH + 2 * SIDE_WIDTH];
            UNROLL_ALL
            for (int vector = 0; vector < SIDE_VECTORS; vector++) {
                const int offset = vector * VECTOR_WIDTH;
                unpack(wide + offset, LOAD_SHARED_VALUES(u + at + row * pitch - SIDE_WIDTH + offset));
                unpack(wide + SIDE_WIDTH + VECTOR_WIDTH + offset,
                    LOAD_SHARED_VALUES(u + at + row * pitch + VECTOR_WIDTH + offset));
            }
            UNROLL_ALL
            for (int c = 0; c < VECTOR_WIDTH; c++)
                wide[SIDE_WIDTH + c] = column[RADIUS][row][c];
            REAL results[VECTOR_WIDTH];
            UNROLL_ALL
            for (int c = 0; c < VECTOR_WIDTH; c++) {
                const REAL value = wide[SIDE_WIDTH + c];
                REAL sum = PRODUCT(centre, value);
                sum = add_column(column, row, c, march_weights, sum);
#if DIMENSIONS == 3
                UNROLL_ALL
                for (int r = 1; r <= RADIUS; r++) {
                    const REAL pair = near_rows[RADIUS + row - r][c] + near_rows[RADIUS + row + r][c];
                    sum = FMA_REAL(row_weights[r - 1], pair, sum);
                }
#endif
                UNROLL_ALL
                for (int r = 1; r <= RADIUS; r++)
                    sum = FMA_REAL(x_weights[r - 1], wide[SIDE_WIDTH + c - r] + wide[SIDE_WIDTH + c + r], sum);
                const REAL v = IS_VARIABLE ? courants[0][row][c] : uniform_courant;
                results[c] = next_value(v, sum, value, previous[0][row][c]);
            }
            if (ROWS == 1 || j + row < rows)
                store_vector(field + at + row * pitch, results, nx - i);
        }
        // Every plane moves by one place. The copies vanish where the loop is unrolled.
        UNROLL_ALL
        for (int row = 0; row < ROWS; row++) {
            UNROLL_ALL
            for (int c = 0; c < VECTOR_WIDTH; c++) {
                UNROLL_ALL
                for (int p = 0; p < WINDOW - 1; p++)
                    column[p][row][c] = column[p + 1][row][c];
                UNROLL_ALL
                for (int p = 0; p < AHEAD; p++) {
                    previous[p][row][c] = previous[p + 1][row][c];
                    courants[p][row][c] = courants[p + 1][row][c];
                }
            }
        }
        at += plane;
    }
}
