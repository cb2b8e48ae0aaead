// Part of runs.cu: merges components across the borders of tiles, and counts first pixels.

// The forest of nodes in global memory, with the first pixels of the nodes and of all components.
typedef struct {
    GLOBAL const uchar* borders;
    GLOBAL uint* parents;
    GLOBAL const uint* pixels;
    GLOBAL uint* roots;
} Nodes;

// Merges the trees of two nodes. The root with the earlier first pixel becomes the root of both,
// and the other one is no root any more.
FUNCTION void unite_nodes(Nodes nodes, uint a, uint b)
{
    a = find_root(nodes.parents, a);
    b = find_root(nodes.parents, b);
    while (a != b) {
        const uint is_in_order = nodes.pixels[a] < nodes.pixels[b];
        const uint later = is_in_order ? b : a, earlier = is_in_order ? a : b;
        const uint found = ATOMIC_CAS_U32(&nodes.parents[later], later, earlier);
        if (found == later) {
            const uint pixel = nodes.pixels[later];
            ATOMIC_AND_U32(&nodes.roots[pixel / 32u], ~(1u << pixel % 32u));
        }
        a = found == later ? earlier : find_root(nodes.parents, found);
        b = found == later ? earlier : find_root(nodes.parents, earlier);
    }
}

// Merges the components at two border positions, if both pixels are set.
FUNCTION void unite_borders(Nodes nodes, uint tile, uint position, uint other_tile, uint other_position)
{
    const uint node = nodes.borders[tile * BORDER + position];
    const uint other = nodes.borders[other_tile * BORDER + other_position];
    if (node != NO_NODE && other != NO_NODE)
        unite_nodes(nodes, tile * NODES + node, other_tile * NODES + other);
}

// Merges the component at one position of a side with those at the opposite side of the tile before
// it. Both sides have `length` positions.
FUNCTION void unite_sides(Nodes nodes, uint tile, uint side, uint other_tile, uint other_side, uint at, uint length)
{
    GLOBAL const uchar* here = nodes.borders + (ulong)tile * BORDER + side;
    GLOBAL const uchar* there = nodes.borders + (ulong)other_tile * BORDER + other_side;
    // The position before has often the same pair.
    const uint is_repeated = at > 0u && here[at] == here[at - 1u] && there[at] == there[at - 1u];
    if (!is_repeated)
        unite_borders(nodes, tile, side + at, other_tile, other_side + at);
#if HAS_CORNERS
    // A pixel opposite is connected to its own neighbours.
    if (there[at] == NO_NODE) {
        if (at > 0u)
            unite_borders(nodes, tile, side + at, other_tile, other_side + at - 1u);
        if (at + 1u < length)
            unite_borders(nodes, tile, side + at, other_tile, other_side + at + 1u);
    }
#endif
}

// Merges the first row and the first column of every tile with the tiles before them. Arrays are
// those of label_tiles. There is one block per tile.
KERNEL(TILE_COLUMNS + TILE_ROWS)
merge_tiles(GLOBAL const uchar* borders, uint tiles_along, GLOBAL uint* node_parents, GLOBAL const uint* node_pixels,
            GLOBAL uint* roots)
{
    Nodes nodes;
    nodes.borders = borders;
    nodes.parents = node_parents;
    nodes.pixels = node_pixels;
    nodes.roots = roots;
    const uint tile = (uint)BLOCK_INDEX, at = (uint)THREAD;
    const uint has_left = tile % tiles_along > 0u;
    const uint has_above = tile >= tiles_along;
    if (at < TILE_COLUMNS && has_above)
        unite_sides(nodes, tile, FIRST_ROW, tile - tiles_along, LAST_ROW, at, TILE_COLUMNS);
    if (at >= TILE_COLUMNS && has_left)
        unite_sides(nodes, tile, FIRST_COLUMN, tile - 1u, LAST_COLUMN, at - TILE_COLUMNS, TILE_ROWS);
#if HAS_CORNERS
    const uint has_right = tile % tiles_along + 1u < tiles_along;
    if (at == 0u && has_above && has_left)
        unite_borders(nodes, tile, FIRST_ROW, tile - tiles_along - 1u, LAST_ROW + TILE_COLUMNS - 1u);
    if (at == TILE_COLUMNS - 1u && has_above && has_right)
        unite_borders(nodes, tile, FIRST_ROW + at, tile - tiles_along + 1u, LAST_ROW);
#endif
}

// roots, counts: n words. counts[w] becomes the number of bits that are set in roots[w].
KERNEL(256) count_roots(GLOBAL const uint* RESTRICT roots, GLOBAL uint* RESTRICT counts, uint n)
{
    const uint word = (uint)BLOCK_INDEX * 256u + (uint)THREAD;
    if (word < n)
        counts[word] = (uint)POPCOUNT(roots[word]);
}
