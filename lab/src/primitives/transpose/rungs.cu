// Transpose of floats: the rungs of the ladder (rungs.rs). RUNG selects the step.
//
// A block has a tile of TILE x TILE elements, one element per thread, or four with
// RUNG_FOUR_ELEMENTS. Every element is read and written once. The rungs differ in the order of
// accesses to global and shared memory, which decides how much of the bandwidth they reach.

#define HAS_SHARED_TILE (RUNG >= RUNG_SHARED_TILE)
#if RUNG >= RUNG_PADDED_TILE
// Elements of a column of the tile then lie in different banks.
#define TILE_STRIDE (TILE + 1)
#else
#define TILE_STRIDE TILE
#endif
#if RUNG == RUNG_FOUR_ELEMENTS
#define ELEMENTS_PER_THREAD 4
#else
#define ELEMENTS_PER_THREAD 1
#endif
#define THREAD_ROWS (TILE / ELEMENTS_PER_THREAD)

// from: rows x columns numbers. to: rows x columns numbers for the copy, else columns x rows. The
// grid has one block per tile: along x for the columns of the input, along y for its rows.
KERNEL_2D(TILE, THREAD_ROWS)
transpose_rung(GLOBAL const float* RESTRICT from, GLOBAL float* RESTRICT to, ulong rows, ulong columns)
{
#if HAS_SHARED_TILE
    SHARED float tile[TILE][TILE_STRIDE];
#endif
    uint tile_row = (uint)BLOCK_INDEX_Y, tile_column = (uint)BLOCK_INDEX;
#if RUNG == RUNG_DIAGONAL
    // Neighbouring blocks take tiles along a diagonal, so that neither their rows nor their columns
    // are the same.
    const uint block = tile_row * (uint)BLOCK_COUNT + tile_column;
    tile_row = block % (uint)BLOCK_COUNT_Y;
    tile_column = (block / (uint)BLOCK_COUNT_Y + tile_row) % (uint)BLOCK_COUNT;
#endif

    // The thread's first element of the input. Neighbours along x are neighbours in memory.
    const ulong column = (ulong)tile_column * TILE + (uint)THREAD;
    const ulong first_row = (ulong)tile_row * TILE + (uint)THREAD_Y;
    UNROLL_ALL
    for (uint k = 0; k < ELEMENTS_PER_THREAD; k++) {
        const ulong row = first_row + k * THREAD_ROWS;
        if (row < rows && column < columns) {
            const float value = from[row * columns + column];
#if RUNG == RUNG_COPY
            to[row * columns + column] = value;
#elif RUNG == RUNG_NAIVE
            to[column * rows + row] = value;
#else
            tile[(uint)THREAD_Y + k * THREAD_ROWS][THREAD] = value;
#endif
        }
    }

#if HAS_SHARED_TILE
    BARRIER();
    // Neighbours along x write neighbours in memory, and read a column of the tile.
    const ulong to_column = (ulong)tile_row * TILE + (uint)THREAD;
    const ulong first_to_row = (ulong)tile_column * TILE + (uint)THREAD_Y;
    UNROLL_ALL
    for (uint k = 0; k < ELEMENTS_PER_THREAD; k++) {
        const ulong to_row = first_to_row + k * THREAD_ROWS;
        if (to_row < columns && to_column < rows)
            to[to_row * rows + to_column] = tile[THREAD][(uint)THREAD_Y + k * THREAD_ROWS];
    }
#endif
}
