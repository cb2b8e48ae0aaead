// Cells from sorted keys, one generation after the other: eight threads a cell look for the borders of its eight parts.
//
// A cell's level is that of the smallest cube of the grid that holds its bodies, so that every cell but a leaf has two
// children or more. Numbers of cells are given out as groups ask for them, and differ from run to run; nothing that is
// summed depends on them.

#define ROWS (BLOCK_SIZE / 8)

// The level of the smallest cell that holds both.
FUNCTION int common_level(ulong a, ulong b)
{
    return a == b ? BITS : LEADING_ZEROS_U64((a ^ b) << 1) / 3;
}

// Leaves may hold a few more where the grid is fine: without that, chains of cells that split off one body a level and end in
// eight parts would outnumber the bodies by a third (with it, by no more than a seventh, which is what there is room for).
#define FINE_LEVEL 12
#define FINE_LEAF_SIZE (LEAF_SIZE >= 16u && LEAF_SIZE < 24u ? 24u : LEAF_SIZE)

FUNCTION int is_leaf(uint bodies, int level)
{
    return bodies <= (level < FINE_LEVEL ? LEAF_SIZE : FINE_LEAF_SIZE) || level >= BITS;
}

KERNEL(BLOCK_SIZE)
divide(GLOBAL const ulong* RESTRICT keys, int generation, GLOBAL uint* counts, GLOBAL uint* begin, GLOBAL uint* end,
    GLOBAL uint* child, GLOBAL uchar* level, GLOBAL uchar* slot)
{
    SHARED uint starts[ROWS * 9];
    SHARED uint offsets[ROWS];
    const uint total = counts[generation], first = first_of(counts, generation), next = first + total;
    const int part = THREAD & 7, row = THREAD >> 3;
    for (uint block = (uint)BLOCK_INDEX * ROWS; block < total; block += (uint)BLOCK_COUNT * ROWS) {
        const uint c = first + block + (uint)row;
        const int is_cell = block + (uint)row < total;
        uint from = 0, to = 0;
        int at = 0;
        if (is_cell) {
            from = begin[c];
            to = end[c];
            // The root's level is found here, that of others where they are made.
            at = generation == 0 ? common_level(keys[from], keys[to - 1]) : level[c];
        }
        const int is_divided = is_cell && !is_leaf(to - from, at);
        const int shift = 3 * (BITS - 1 - at);
        uint start = from;
        if (is_divided) {
            uint beyond = to;
            while (start < beyond) {
                const uint middle = start + (beyond - start) / 2;
                if ((int)(keys[middle] >> shift & 7) < part)
                    start = middle + 1;
                else
                    beyond = middle;
            }
        }
        starts[row * 9 + part] = start;
        if (part == 0)
            starts[row * 9 + 8] = to;
        BARRIER();
        int children = 0, before = 0;
        for (int p = 0; p < 8; p++) {
            const int is_filled = is_divided && starts[row * 9 + p + 1] > starts[row * 9 + p];
            children += is_filled;
            before += is_filled && p < part;
        }
        if (part == 0)
            offsets[row] = (uint)children;
        BARRIER();
        if (THREAD == 0) {
            uint sum = 0;
            for (int r = 0; r < ROWS; r++)
                sum += offsets[r];
            uint offset = sum > 0 ? next + ATOMIC_ADD_U32(counts + generation + 1, sum) : 0;
            for (int r = 0; r < ROWS; r++) {
                const uint own = offsets[r];
                offsets[r] = offset;
                offset += own;
            }
        }
        BARRIER();
        const uint past = starts[row * 9 + part + 1];
        if (is_divided && past > start) {
            const uint made = offsets[row] + (uint)before;
            begin[made] = start;
            end[made] = past;
            const int below = common_level(keys[start], keys[past - 1]);
            level[made] = (uchar)below;
            // The part of its parent that a body's leaf fills, whatever the leaf's own level.
            if (is_leaf(past - start, below))
                for (uint j = start; j < past; j++)
                    slot[j] = (uchar)(at + 1);
        }
        if (is_cell && part == 0) {
            child[c] = is_divided ? offsets[row] << 3 | (uint)(children - 1) : LEAF;
            if (generation == 0)
                level[c] = (uchar)at;
        }
        if (generation == 0 && is_cell && !is_divided)
            for (uint j = from + (uint)part; j < to; j += 8)
                slot[j] = (uchar)at;
        BARRIER();
    }
}
