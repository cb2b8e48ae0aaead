// Division of cells into octants, one launch per generation.
//
// Eight threads share a cell. Each finds by binary search where its octant starts in the sorted
// keys.
//
// A cell's level is that of the smallest cube of the grid that contains its bodies, so every cell
// except a leaf has at least two children. Blocks allocate cell numbers with an atomic counter. The
// numbers therefore differ from run to run, but no sum depends on them.

#define CELLS_PER_BLOCK (BLOCK_SIZE / 8)

// Returns the level of the smallest cell that contains both keys.
FUNCTION int common_level(ulong a, ulong b)
{
    return a == b ? COORDINATE_BITS : LEADING_ZEROS_U64((a ^ b) << 1) / 3;
}

// From FINE_LEVEL on a leaf may contain up to 24 bodies. The most cells come from chains that split
// off one body per level and end in eight octants. With 16 bodies per leaf, such chains would have
// a third more cells than bodies. With 24 they have at most a seventh more, and that is the memory
// that is allocated.
#define FINE_LEVEL 12
#define FINE_LEAF_SIZE (LEAF_SIZE >= 16u && LEAF_SIZE < 24u ? 24u : LEAF_SIZE)

FUNCTION int is_leaf(uint bodies, int level)
{
    return bodies <= (level < FINE_LEVEL ? LEAF_SIZE : FINE_LEAF_SIZE) || level >= COORDINATE_BITS;
}

// Returns the first body of `octant`, or of a later octant if it is empty, in a cell at `level`
// with the sorted bodies `first` .. `end` - 1. Returns `first` for a cell that is not divided.
FUNCTION uint find_octant_start(GLOBAL const ulong* RESTRICT keys, int is_divided, uint first, uint end,
    int level, int octant)
{
    const int shift = 3 * (COORDINATE_BITS - 1 - level);
    uint start = first;
    if (is_divided) {
        uint stop = end;
        while (start < stop) {
            const uint middle = start + (stop - start) / 2;
            if ((int)(keys[middle] >> shift & 7) < octant)
                start = middle + 1;
            else
                stop = middle;
        }
    }
    return start;
}

// Replaces the number of children of each cell of the block by the index of its first child. For
// one thread.
FUNCTION void allocate_children(SHARED_POINTER uint* children, uint next_generation, GLOBAL uint* count)
{
    uint sum = 0;
    for (int cell = 0; cell < CELLS_PER_BLOCK; cell++)
        sum += children[cell];
    uint first = sum > 0 ? next_generation + ATOMIC_ADD_U32(count, sum) : 0;
    for (int cell = 0; cell < CELLS_PER_BLOCK; cell++) {
        const uint child_count = children[cell];
        children[cell] = first;
        first += child_count;
    }
}

// Writes one child, the sorted bodies `start` .. `stop` - 1. The bodies of a leaf get the level of
// the octant that the leaf was split off as, which can be coarser than the level of the leaf.
FUNCTION void write_child(uint child, uint start, uint stop, int octant_level_of_child,
    GLOBAL const ulong* RESTRICT keys, GLOBAL uint* begin, GLOBAL uint* end, GLOBAL uchar* level,
    GLOBAL uchar* octant_level)
{
    begin[child] = start;
    end[child] = stop;
    const int child_level = common_level(keys[start], keys[stop - 1]);
    level[child] = (uchar)child_level;
    if (is_leaf(stop - start, child_level))
        for (uint body = start; body < stop; body++)
            octant_level[body] = (uchar)octant_level_of_child;
}

// Divides the cells of one generation. Threads 8 r .. 8 r + 7 of a block work on row r, one octant
// per thread. Threads without a cell pass the same barriers.
KERNEL(BLOCK_SIZE)
divide_cells(GLOBAL const ulong* RESTRICT keys, int generation, GLOBAL uint* counts, GLOBAL uint* begin,
    GLOBAL uint* end, GLOBAL uint* children, GLOBAL uchar* level, GLOBAL uchar* octant_level)
{
    SHARED uint octant_starts[CELLS_PER_BLOCK * 9];
    SHARED uint first_children[CELLS_PER_BLOCK];
    const uint total = counts[generation], first = first_cell(counts, generation),
               next_generation = first + total;
    const int octant = THREAD & 7, row = THREAD >> 3;
    for (uint pass = (uint)BLOCK_INDEX * CELLS_PER_BLOCK; pass < total;
         pass += (uint)BLOCK_COUNT * CELLS_PER_BLOCK) {
        const uint cell = first + pass + (uint)row;
        const int is_cell = pass + (uint)row < total;
        uint cell_begin = 0, cell_end = 0;
        int cell_level = 0;
        if (is_cell) {
            cell_begin = begin[cell];
            cell_end = end[cell];
            // The level of the root is computed here, that of another cell when it is made.
            cell_level = generation == 0 ? common_level(keys[cell_begin], keys[cell_end - 1]) : level[cell];
        }
        const int is_divided = is_cell && !is_leaf(cell_end - cell_begin, cell_level);
        const uint start = find_octant_start(keys, is_divided, cell_begin, cell_end, cell_level, octant);
        octant_starts[row * 9 + octant] = start;
        if (octant == 0)
            octant_starts[row * 9 + 8] = cell_end;
        BARRIER();
        int child_count = 0, earlier_children = 0;
        for (int other = 0; other < 8; other++) {
            const int is_filled =
                is_divided && octant_starts[row * 9 + other + 1] > octant_starts[row * 9 + other];
            child_count += is_filled;
            earlier_children += is_filled && other < octant;
        }
        if (octant == 0)
            first_children[row] = (uint)child_count;
        BARRIER();
        if (THREAD == 0)
            allocate_children(first_children, next_generation, counts + generation + 1);
        BARRIER();
        const uint stop = octant_starts[row * 9 + octant + 1];
        if (is_divided && stop > start)
            write_child(first_children[row] + (uint)earlier_children, start, stop, cell_level + 1, keys,
                begin, end, level, octant_level);
        if (is_cell && octant == 0) {
            children[cell] = is_divided ? first_children[row] << 3 | (uint)(child_count - 1) : LEAF;
            if (generation == 0)
                level[cell] = (uchar)cell_level;
        }
        if (generation == 0 && is_cell && !is_divided)
            for (uint body = cell_begin + (uint)octant; body < cell_end; body += 8)
                octant_level[body] = (uchar)cell_level;
        BARRIER();
    }
}
