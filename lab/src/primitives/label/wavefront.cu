// Minimum propagation by wavefronts in shared memory, for images.
//
// A block holds a tile of TILE x TILE labels with one more pixel on each side. Thread y has row y.
// In step s of a forward sweep it takes the minimum of pixel (y, s - SKEW y) and of its neighbours
// to the left and above, which the same step or earlier ones have updated:
//
//   SKEW = 1, sides:    1 2 3 4      SKEW = 2, corners:  1 2 3 4      number of the step that
//                       2 3 4 5                          3 4 5 6      updates a pixel
//                       3 4 5 6                          5 6 7 8
//
// The pixels of a step lie on a diagonal and do not depend on each other. So a forward sweep moves
// a label along any path that only goes right and down, within the tile. A backward sweep does
// the same to the left and up. A block repeats both until nothing changes. A launch then moves
// labels across a whole tile, and the host launches until no block changes a label.
//
// Cost of a launch: 4 bytes are read per pixel, and written where a tile changes. At least
// 2 (TILE + SKEW (TILE - 1)) steps with a barrier each are the limit: in every step a thread has
// one pixel, and waits for shared memory. Bank conflicts: the lanes of a step access words at a
// distance of STRIDE - SKEW = TILE + 1, an odd number.
//
// Defined by the host (pixels.rs): TILE, HAS_CORNERS.

#define BACKGROUND 0xffffffffu
#if HAS_CORNERS
#define SKEW 2
#else
#define SKEW 1
#endif
#define STRIDE (TILE + 1 + SKEW)
#define STEPS (TILE + SKEW * (TILE - 1))

// Returns the smaller one.
FUNCTION uint lower(uint a, uint b)
{
    return a < b ? a : b;
}

// Updates one pixel of the tile from the neighbours in one direction: -1 for left and above, 1 for
// right and below. Returns whether its label has changed.
FUNCTION uint update_pixel(SHARED_POINTER uint* tile, int at, int direction)
{
    const uint before = tile[at];
    if (before == BACKGROUND)
        return 0u;
    uint lowest = lower(before, lower(tile[at + direction], tile[at + direction * STRIDE]));
#if HAS_CORNERS
    lowest = lower(lowest, lower(tile[at + direction * (STRIDE + 1)], tile[at + direction * (STRIDE - 1)]));
#endif
    if (lowest < before)
        tile[at] = lowest;
    return lowest < before ? 1u : 0u;
}

// Sweeps over the tile in one direction. Returns whether this thread has changed a label.
FUNCTION uint sweep(SHARED_POINTER uint* tile, int direction)
{
    const int row = direction < 0 ? THREAD : TILE - 1 - THREAD;
    uint changed = 0;
    for (int step = 0; step < STEPS; step++) {
        const int along = step - SKEW * THREAD;
        if (along >= 0 && along < TILE) {
            const int column = direction < 0 ? along : TILE - 1 - along;
            changed |= update_pixel(tile, (row + 1) * STRIDE + column + 1, direction);
        }
        BARRIER();
    }
    return changed;
}

// labels: rows * columns pixels, with the index of an earlier pixel or BACKGROUND. There is one
// block per tile. *changed becomes 1 if any label changes.
KERNEL(TILE) sweep_tiles(GLOBAL uint* labels, uint rows, uint columns, GLOBAL uint* changed)
{
    SHARED uint tile[(TILE + 2) * STRIDE];
    SHARED uint is_changing;
    const uint tiles_along = (columns + TILE - 1u) / TILE;
    const uint first_row = (uint)BLOCK_INDEX / tiles_along * TILE;
    const uint first_column = (uint)BLOCK_INDEX % tiles_along * TILE;
    for (uint i = (uint)THREAD; i < (TILE + 2u) * (TILE + 2u); i += TILE) {
        const uint y = i / (TILE + 2u), x = i % (TILE + 2u);
        // Beyond the first row or column this wraps to a number above all others.
        const uint row = first_row + y - 1u, column = first_column + x - 1u;
        tile[y * STRIDE + x] = row < rows && column < columns ? labels[row * columns + column] : BACKGROUND;
    }
    uint has_changed = 0, is_again;
    do {
        BARRIER();
        if (THREAD == 0)
            is_changing = 0u;
        BARRIER();
        uint in_sweeps = sweep(tile, -1);
        in_sweeps |= sweep(tile, 1);
        if (in_sweeps)
            is_changing = 1u;
        BARRIER();
        is_again = is_changing;
        has_changed |= is_again;
    } while (is_again);
    if (has_changed) {
        for (uint i = (uint)THREAD; i < TILE * TILE; i += TILE) {
            const uint row = first_row + i / TILE, column = first_column + i % TILE;
            if (row < rows && column < columns)
                labels[row * columns + column] = tile[(i / TILE + 1u) * STRIDE + i % TILE + 1u];
        }
        if (THREAD == 0)
            *changed = 1u;
    }
}
