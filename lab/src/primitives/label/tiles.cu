// Labels of tiles by union-find in shared memory, and merging of the tiles' borders, for images.
// pixels.cu then flattens the trees.
//
// A block labels a tile of TILE_COLUMNS x TILE_ROWS pixels, one per thread. Parents are indices
// within the tile. Only merges across a border need atomics in global memory: with 32 x 16 pixels
// that is one of 11 pixels.
//
// Cost: label_tiles reads 1 and writes 4 bytes per pixel. It is bound by the latency of shared
// memory: searches for roots are chains of dependent loads, and a warp waits for its longest.
//
// Defined by the host (pixels.rs): TILE_COLUMNS, TILE_ROWS, HAS_CORNERS. The file starts with
// forest.cu and pixels.cu.

#define TILE_PIXELS (TILE_COLUMNS * TILE_ROWS)

// Returns the root of a pixel of the tile. Other threads may be linking roots.
FUNCTION uint find_root_in_tile(SHARED_POINTER const volatile uint* parents, uint pixel)
{
    for (uint parent = parents[pixel]; parent != pixel; parent = parents[pixel])
        pixel = parent;
    return pixel;
}

// Merges the trees of two pixels of the tile, if both are set.
FUNCTION void unite_in_tile(SHARED_POINTER uint* parents, uint a, uint b)
{
    if (((SHARED_POINTER const volatile uint*)parents)[b] == BACKGROUND)
        return;
    a = find_root_in_tile(parents, a);
    b = find_root_in_tile(parents, b);
    while (a != b) {
        const uint later = a > b ? a : b, earlier = a > b ? b : a;
        const uint found = SHARED_ATOMIC_CAS_U32(&parents[later], later, earlier);
        a = found == later ? earlier : find_root_in_tile(parents, found);
        b = found == later ? earlier : find_root_in_tile(parents, earlier);
    }
}

// mask, labels: rows * columns pixels. There is one block per tile.
KERNEL(TILE_PIXELS)
label_tiles(GLOBAL const uchar* RESTRICT mask, GLOBAL uint* RESTRICT labels, uint rows, uint columns)
{
    SHARED uint parents[TILE_PIXELS];
    const uint in_tile = (uint)THREAD;
    const uint x = in_tile % TILE_COLUMNS, y = in_tile / TILE_COLUMNS;
    const uint tiles_along = (columns + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    const uint first_row = (uint)BLOCK_INDEX / tiles_along * TILE_ROWS;
    const uint first_column = (uint)BLOCK_INDEX % tiles_along * TILE_COLUMNS;
    const uint row = first_row + y, column = first_column + x;
    const uint is_inside = row < rows && column < columns;
    const uint is_set = is_inside && mask[row * columns + column] != 0u;
    parents[in_tile] = is_set ? in_tile : BACKGROUND;
    BARRIER();
    if (is_set) {
        if (x > 0u)
            unite_in_tile(parents, in_tile, in_tile - 1u);
        if (y > 0u)
            unite_in_tile(parents, in_tile, in_tile - TILE_COLUMNS);
#if HAS_CORNERS
        if (x > 0u && y > 0u)
            unite_in_tile(parents, in_tile, in_tile - TILE_COLUMNS - 1u);
        if (x + 1u < TILE_COLUMNS && y > 0u)
            unite_in_tile(parents, in_tile, in_tile - TILE_COLUMNS + 1u);
#endif
    }
    BARRIER();
    if (is_inside) {
        uint label = BACKGROUND;
        if (is_set) {
            const uint root = find_root_in_tile(parents, in_tile);
            label = (first_row + root / TILE_COLUMNS) * columns + first_column + root % TILE_COLUMNS;
        }
        labels[row * columns + column] = label;
    }
}

// Merges a pixel with a neighbour, if that exists and is set. Coordinates below 0 wrap to numbers
// above all others.
FUNCTION void unite_with(GLOBAL uint* labels, uint pixel, uint row, uint column, uint rows, uint columns)
{
    if (row < rows && column < columns) {
        const uint neighbour = row * columns + column;
        if (LOAD_U32(&labels[neighbour]) != BACKGROUND)
            unite_pixels(labels, pixel, neighbour);
    }
}

// Merges the first row and the first column of every tile with the tiles before them.
// labels: rows * columns pixels. There is one block per tile.
KERNEL(TILE_COLUMNS + TILE_ROWS) merge_borders(GLOBAL uint* labels, uint rows, uint columns)
{
    const uint tiles_along = (columns + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    const uint is_row = (uint)THREAD < TILE_COLUMNS;
    const uint along = is_row ? (uint)THREAD : (uint)THREAD - TILE_COLUMNS;
    const uint row = (uint)BLOCK_INDEX / tiles_along * TILE_ROWS + (is_row ? 0u : along);
    const uint column = (uint)BLOCK_INDEX % tiles_along * TILE_COLUMNS + (is_row ? along : 0u);
    const uint pixel = row * columns + column;
    if (row < rows && column < columns && LOAD_U32(&labels[pixel]) != BACKGROUND) {
        const uint to_row = is_row ? row - 1u : row, to_column = is_row ? column : column - 1u;
        unite_with(labels, pixel, to_row, to_column, rows, columns);
#if HAS_CORNERS
        unite_with(labels, pixel, is_row ? to_row : row - 1u, is_row ? column - 1u : to_column, rows, columns);
        unite_with(labels, pixel, is_row ? to_row : row + 1u, is_row ? column + 1u : to_column, rows, columns);
#endif
    }
}
