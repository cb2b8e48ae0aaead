// As columns.cu, with asynchronous copies into shared memory. Only CUDA, from compute capability
// 8.0 on, and three dimensions.
//
// A ring in shared memory contains the tile of the block with its halo in the current plane and in
// the RADIUS planes after it. AHEAD more planes are being copied. Planes before the current one are
// in registers, because only the nodes of the thread are needed there. Two smaller rings contain u
// one step earlier and v. So no register waits for memory, and one barrier per plane suffices.
//
// Defined by the host (strategy.rs): THREADS_X, THREADS_Y, ROWS, AHEAD, MIN_BLOCKS.

#define BLOCK_SIZE (THREADS_X * THREADS_Y)
#define TILE_X (THREADS_X * VECTOR_WIDTH)
#define TILE_Y (THREADS_Y * ROWS)
#define HALO_X (TILE_X + 2 * SIDE_WIDTH)
#define HALO_Y (TILE_Y + 2 * RADIUS)
// Planes of the rings and values per plane.
#define RING (AHEAD + RADIUS + 1)
#define SHORT_RING (AHEAD + 1)
#define RING_PLANE (HALO_X * HALO_Y)
#define SHORT_PLANE (TILE_X * TILE_Y)

// Starts a copy of 16 bytes from global to shared memory, past the cache of the SM.
FUNCTION void start_copy(REAL* to, const REAL* from)
{
    const uint address = (uint)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}

// Closes the group of copies that were started since the last call.
FUNCTION void close_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Part of a plane that a block copies. Coordinates beyond `last_row` and `last_column` are replaced
// by these, so that copies stay within the plane.
typedef struct {
    int pitch;
    int last_row;
    int last_column;
} CopyLimits;

// Starts copies of a tile of `rows` rows and `width` columns, whose corner is at `from`.
FUNCTION void start_tile(REAL* to, const REAL* from, int rows, int width, CopyLimits limits)
{
    const int vectors = width / VECTOR_WIDTH;
    UNROLL_ALL
    for (int copy = 0; copy < (rows * vectors + BLOCK_SIZE - 1) / BLOCK_SIZE; copy++) {
        const int index = copy * BLOCK_SIZE + THREAD;
        const int row = index / vectors, column = index % vectors * VECTOR_WIDTH;
        const int from_row = row < limits.last_row ? row : limits.last_row;
        const int from_column = column < limits.last_column ? column : limits.last_column;
        if (index < rows * vectors)
            start_copy(to + row * width + column, from + (ulong)(uint)from_row * (uint)limits.pitch + from_column);
    }
}

FUNCTION void unpack_shared(REAL* values, const REAL* from)
{
    unpack(values, *(const VECTOR*)from);
}

KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS)
advance_ring(ADVANCE_PARAMETERS)
{
    extern __shared__ __align__(16) REAL ring[];
    REAL* previous_ring = ring + RING * RING_PLANE;
    REAL* courant_ring = previous_ring + SHORT_RING * SHORT_PLANE;

    const int tiles = TILES(nx, TILE_X);
    const int tile_i = BLOCK_INDEX % tiles * TILE_X, tile_j = BLOCK_INDEX / tiles * TILE_Y;
    const int thread_i = THREAD % THREADS_X * VECTOR_WIDTH, thread_j = THREAD / THREADS_X * ROWS;
    const int i = tile_i + thread_i, j = tile_j + thread_j;
    const int start = begin + BLOCK_INDEX_Y * chunk;
    const int count = (start + chunk < end ? start + chunk : end) - start;
    const REAL march_weights[4] = {march1, march2, march3, march4};
    const REAL row_weights[4] = {row1, row2, row3, row4};
    const REAL x_weights[4] = {x1, x2, x3, x4};

    // First node of the tile in the first plane, and the corner of its halo.
    const ulong tile = first + (ulong)start * plane + (ulong)tile_j * (uint)pitch + (uint)tile_i;
    const REAL* corner = u + tile - RADIUS * (ulong)(uint)pitch - SIDE_WIDTH;
    const int last_column = pitch - VECTOR_WIDTH - tile_i;
    const CopyLimits halo_limits = {pitch, rows + 2 * RADIUS - 1 - tile_j, last_column + SIDE_WIDTH};
    const CopyLimits limits = {pitch, rows - 1 - tile_j, last_column};

    // Group k contains everything that plane k needs in addition to the groups before.
#define START_GROUP(k, ring_slot, short_slot)                                                                 \
    if ((k) < count) {                                                                                        \
        start_tile(ring + (ring_slot)*RING_PLANE, corner + ((k) + RADIUS) * plane, HALO_Y, HALO_X, halo_limits); \
        const int short_plane = (short_slot)*SHORT_PLANE;                                                     \
        start_tile(previous_ring + short_plane, field + tile + (k)*plane, TILE_Y, TILE_X, limits);            \
        if (IS_VARIABLE)                                                                                      \
            start_tile(courant_ring + short_plane, courant + tile + (k)*plane, TILE_Y, TILE_X, limits);       \
    }                                                                                                         \
    close_group();
    for (int k = 0; k < RADIUS; k++)
        start_tile(ring + k * RING_PLANE, corner + k * plane, HALO_Y, HALO_X, halo_limits);
    UNROLL_ALL
    for (int k = 0; k < AHEAD; k++) {
        START_GROUP(k, k + RADIUS, k)
    }

    // Planes before the current one, and the current one. Threads without nodes load others.
    REAL column[RADIUS + 1][ROWS][VECTOR_WIDTH];
    ulong at = tile + (ulong)thread_j * (uint)pitch + (uint)thread_i;
    const ulong loaded = i < nx && j < rows ? at : first + (ulong)start * plane;
    UNROLL_ALL
    for (int p = 0; p < RADIUS; p++) {
        UNROLL_ALL
        for (int row = 0; row < ROWS; row++)
            unpack(column[p][row], LOAD_SHARED_VALUES(u + loaded + p * plane - RADIUS * plane + row * pitch));
    }
    const int cell = (thread_j + RADIUS) * HALO_X + thread_i + SIDE_WIDTH;
    const int short_cell = thread_j * TILE_X + thread_i;

    // Places of the current plane in the rings. The plane before it is no longer needed.
    int slot = 0, short_slot = 0;
    for (int k = 0; k < count; k++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
        BARRIER();
        START_GROUP(k + AHEAD, slot == 0 ? RING - 1 : slot - 1, short_slot == 0 ? AHEAD : short_slot - 1)
        const REAL* centre_plane = ring + slot * RING_PLANE + cell;
        REAL sums[ROWS][VECTOR_WIDTH];
        UNROLL_ALL
        for (int row = 0; row < ROWS; row++) {
            unpack_shared(column[RADIUS][row], centre_plane + row * HALO_X);
            UNROLL_ALL
            for (int c = 0; c < VECTOR_WIDTH; c++)
                sums[row][c] = PRODUCT(centre, column[RADIUS][row][c]);
        }
        UNROLL_ALL
        for (int r = 1; r <= RADIUS; r++) {
            const int after_slot = slot + r < RING ? slot + r : slot + r - RING;
            const REAL* after_plane = ring + after_slot * RING_PLANE + cell;
            UNROLL_ALL
            for (int row = 0; row < ROWS; row++) {
                REAL after[VECTOR_WIDTH];
                unpack_shared(after, after_plane + row * HALO_X);
                UNROLL_ALL
                for (int c = 0; c < VECTOR_WIDTH; c++) {
                    const REAL pair = column[RADIUS - r][row][c] + after[c];
                    sums[row][c] = FMA_REAL(march_weights[r - 1], pair, sums[row][c]);
                }
            }
        }
        REAL near_rows[ROWS + 2 * RADIUS][VECTOR_WIDTH];
        UNROLL_ALL
        for (int row = 0; row < ROWS + 2 * RADIUS; row++) {
            if (row < RADIUS || row >= RADIUS + ROWS) {
                unpack_shared(near_rows[row], centre_plane + (row - RADIUS) * HALO_X);
            } else {
                UNROLL_ALL
                for (int c = 0; c < VECTOR_WIDTH; c++)
                    near_rows[row][c] = column[RADIUS][row - RADIUS][c];
            }
        }
        UNROLL_ALL
        for (int row = 0; row < ROWS; row++) {
            REAL wide[VECTOR_WIDTH + 2 * SIDE_WIDTH];
            UNROLL_ALL
            for (int vector = 0; vector < SIDE_VECTORS; vector++) {
                const int offset = vector * VECTOR_WIDTH;
                unpack_shared(wide + offset, centre_plane + row * HALO_X - SIDE_WIDTH + offset);
                unpack_shared(wide + SIDE_WIDTH + VECTOR_WIDTH + offset,
                    centre_plane + row * HALO_X + VECTOR_WIDTH + offset);
            }
            REAL before[VECTOR_WIDTH], courants[VECTOR_WIDTH], results[VECTOR_WIDTH];
            const int own = short_slot * SHORT_PLANE + short_cell + row * TILE_X;
            unpack_shared(before, previous_ring + own);
#if IS_VARIABLE
            unpack_shared(courants, courant_ring + own);
#endif
            UNROLL_ALL
            for (int c = 0; c < VECTOR_WIDTH; c++)
                wide[SIDE_WIDTH + c] = column[RADIUS][row][c];
            UNROLL_ALL
            for (int c = 0; c < VECTOR_WIDTH; c++) {
                REAL sum = sums[row][c];
                UNROLL_ALL
                for (int r = 1; r <= RADIUS; r++) {
                    const REAL pair = near_rows[RADIUS + row - r][c] + near_rows[RADIUS + row + r][c];
                    sum = FMA_REAL(row_weights[r - 1], pair, sum);
                }
                UNROLL_ALL
                for (int r = 1; r <= RADIUS; r++)
                    sum = FMA_REAL(x_weights[r - 1], wide[SIDE_WIDTH + c - r] + wide[SIDE_WIDTH + c + r], sum);
                const REAL v = IS_VARIABLE ? courants[c] : uniform_courant;
                results[c] = next_value(v, sum, wide[SIDE_WIDTH + c], before[c]);
            }
            if (i < nx && j + row < rows)
                store_vector(field + at + row * pitch, results, nx - i);
        }
        UNROLL_ALL
        for (int p = 0; p < RADIUS; p++) {
            UNROLL_ALL
            for (int row = 0; row < ROWS; row++) {
                UNROLL_ALL
                for (int c = 0; c < VECTOR_WIDTH; c++)
                    column[p][row][c] = column[p + 1][row][c];
            }
        }
        at += plane;
        slot = slot + 1 < RING ? slot + 1 : 0;
        short_slot = short_slot < AHEAD ? short_slot + 1 : 0;
    }
    // A block must not end while copies into its shared memory are in flight.
    asm volatile("cp.async.wait_all;" ::: "memory");
}
