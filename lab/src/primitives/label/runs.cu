// Labels of images by runs of set pixels in tiles: the default.
//
// A tile has TILE_ROWS rows of WORDS words of 32 pixels, one word per thread. A run is a maximal
// row of set pixels within a tile. All work is done per run, not per pixel: in a random image there
// is one run per 4 pixels, and the bits of 32 pixels are tested together.
//
//   1. label_tiles turns bytes into bits, numbers the runs of a tile in raster order, and merges
//      runs that touch, in shared memory. The first touching run above becomes the parent of a run,
//      without atomics. Only further ones need a merge: 1 of 6 in a random image.
//   2. merge_tiles merges components across the borders of tiles. Only components that touch the
//      border of their tile take part: they are the nodes of a forest in global memory, at most
//      NODES per tile. A component that ends within its tile has its final extent after step 1.
//   3. count_roots and a prefix sum number the first pixels of all components in raster order.
//   4. number_tiles looks up the number of each run and writes the labels of its pixels.
//
// Invariant of both forests: the parent of a run or node has an earlier first pixel. So a root has
// the first pixel of its component, and the result does not depend on the order of merges.
//
// Bytes per pixel for tiles of 64 x 64 and a random image with half of its pixels set (r is the
// number of runs per pixel, 1/4, and c the number of nodes per pixel, about 1/80):
//
//   step 1   reads 1       writes 1/4 (bits, roots) + 2 r (runs) + 1/16 (borders) + 8 c (nodes)
//   step 2   reads 1/16, and a few words per node at random positions
//   step 3   reads 1/4     writes 1/4
//   step 4   reads 1/8 + 2 r + 1/4 + 8 c     writes 4
//
// Together about 7.4, of which 5 are the mask and the labels. All random accesses are to the nodes
// and the roots, which fit in the L2 cache of a large GPU for 10^8 pixels. Steps 1 and 4 are bound
// by instructions and by the latency of shared memory, which many blocks per SM hide.
//
// Layout: pixel (row, column) has bit column % 32 of word row * row_words + column / 32, where rows
// are padded to whole tiles. A first pixel is given by this position: 32 * word + bit.
//
// Defined by the host (runs.rs): WORDS, TILE_ROWS, BLOCK_SIZE = WORDS * TILE_ROWS (whole warps),
// MIN_BLOCKS_PER_SM, HAS_CORNERS, HAS_VECTORS (columns is a multiple of 16).
//
// Invariants: TILE_COLUMNS + TILE_ROWS <= 256. Positions are below 2^32. The number of components
// is below 2^31. The file starts with forest.cu and ranks.cu.

#define TILE_COLUMNS (WORDS * 32u)
#define WARPS (BLOCK_SIZE / 32u)
// Largest number of runs of a tile: every second pixel.
#define MAX_RUNS (BLOCK_SIZE * 16u)
// Largest number of components that touch the border of a tile, rounded up.
#define NODES (TILE_COLUMNS + TILE_ROWS)
// Positions on the border of a tile: first row, last row, first column, last column.
#define FIRST_ROW 0u
#define LAST_ROW TILE_COLUMNS
#define FIRST_COLUMN (2u * TILE_COLUMNS)
#define LAST_COLUMN (2u * TILE_COLUMNS + TILE_ROWS)
#define BORDER (2u * (TILE_COLUMNS + TILE_ROWS))
// Border position without a set pixel. Nodes of a tile have lower numbers.
#define NO_NODE 255u

// A run in shared memory: its parent in the lower half. A root also has 1 + its node in the upper
// half, or 0 if it does not touch the border.
#define PARENT_OF(entry) ((entry) & 0xffffu)
#define NODE_OF(entry) ((entry) >> 16)
#define UNNUMBERED_NODE (0xffffu << 16)
// A run in global memory: its root, or this bit and its node for the root of a node.
#define IS_NODE 0x8000u
// A run in number_tiles whose number is not known yet: this bit and its root.
#define IS_POINTER 0x80000000u

// Each byte of the mask is read once and each label is written once.
#if defined(ON_CUDA)
#define LOAD_STREAMING(p) __ldcs(p)
#define STORE_STREAMING(p, v) __stcs(p, v)
#else
#define LOAD_STREAMING(p) (*(p))
#define STORE_STREAMING(p, v) (*(p) = (v))
#endif

// Words of a tile in shared memory, one per thread.
typedef struct {
    // Pixels that are set, and those of them that start a run.
    SHARED_POINTER uint* bits;
    SHARED_POINTER uint* starts;
    // Number of runs that start in earlier words.
    SHARED_POINTER uint* first_run;
} TileWords;

// Position of a tile and of this thread's word in the image.
typedef struct {
    uint tile;
    // First pixel of the word.
    uint row, column;
    // Index of the word, see Layout.
    uint word;
} WordPosition;

FUNCTION WordPosition word_position(uint thread, uint tiles_along)
{
    WordPosition at;
    at.tile = (uint)BLOCK_INDEX;
    at.row = at.tile / tiles_along * TILE_ROWS + thread / WORDS;
    at.column = at.tile % tiles_along * TILE_COLUMNS + thread % WORDS * 32u;
    at.word = at.row * tiles_along * WORDS + at.column / 32u;
    return at;
}

#if HAS_VECTORS
// Returns 4 bits, one for each byte that is not 0.
FUNCTION uint bits_of_bytes(uint bytes)
{
    const uint high_bits = (((bytes & 0x7f7f7f7fu) + 0x7f7f7f7fu) | bytes) & 0x80808080u;
    // Moves bits 0, 8, 16 and 24 to 28 ... 31. No two products meet in a bit.
    return ((high_bits >> 7) * 0x10204080u) >> 28;
}

// Returns the bits of this thread's word. Rows start at multiples of 16 bytes.
FUNCTION uint load_word(GLOBAL const uchar* mask, uint rows, uint columns, uint tiles_along, SHARED_POINTER uint* scratch)
{
    const WordPosition at = word_position((uint)THREAD, tiles_along);
    uint bits = 0;
    UNROLL_ALL
    for (uint half_word = 0; half_word < 2u; half_word++) {
        if (at.row < rows && at.column + half_word * 16u < columns) {
            const uint first = at.row * columns + at.column + half_word * 16u;
            const uint4 bytes = LOAD_STREAMING((GLOBAL const uint4*)(mask + first));
            const uint half_bits = bits_of_bytes(bytes.x) | bits_of_bytes(bytes.y) << 4
                | bits_of_bytes(bytes.z) << 8 | bits_of_bytes(bytes.w) << 12;
            bits |= half_bits << (half_word * 16u);
        }
    }
    return bits;
}
#else
// Returns the bits of this thread's word. A warp reads its words one after the other, with one lane
// per pixel.
FUNCTION uint load_word(GLOBAL const uchar* mask, uint rows, uint columns, uint tiles_along, SHARED_POINTER uint* scratch)
{
    uint bits = 0;
    for (uint lane = 0; lane < 32u; lane++) {
        const WordPosition at = word_position((uint)THREAD - (uint)LANE + lane, tiles_along);
        const uint column = at.column + (uint)LANE;
        const uint is_inside = at.row < rows && column < columns;
        const uint word = BALLOT(is_inside && mask[at.row * columns + column] != 0u, scratch);
        bits = (uint)LANE == lane ? word : bits;
    }
    return bits;
}
#endif

// Returns the sum of the values of all threads before this one. `warp_sums` has WARPS elements.
FUNCTION uint sum_before(uint value, SHARED_POINTER uint* warp_sums, SHARED_POINTER uint* scratch)
{
    const uint lane = (uint)LANE, warp = (uint)THREAD / 32u;
    uint sum = value;
    for (uint offset = 1; offset < 32u; offset *= 2u) {
        const uint below = SHUFFLE(sum, (int)(lane >= offset ? lane - offset : lane), scratch);
        sum += lane >= offset ? below : 0u;
    }
    if (lane == 31u)
        warp_sums[warp] = sum;
    BARRIER();
    uint before = sum - value;
    for (uint w = 0; w < warp; w++)
        before += warp_sums[w];
    return before;
}

// Stores this thread's word of the tile, finds the starts of runs and numbers them. *run_count
// becomes the number of runs of the tile. All threads then see the words of the tile.
FUNCTION void find_runs(TileWords tile, uint bits, SHARED_POINTER uint* run_count, SHARED_POINTER uint* warp_sums,
                        SHARED_POINTER uint* scratch)
{
    const uint word = (uint)THREAD;
    tile.bits[word] = bits;
    BARRIER();
    const uint left = word % WORDS > 0u ? tile.bits[word - 1u] >> 31 : 0u;
    const uint starts = bits & ~(bits << 1 | left);
    const uint first_run = sum_before((uint)POPCOUNT(starts), warp_sums, scratch);
    tile.starts[word] = starts;
    tile.first_run[word] = first_run;
    if (word == BLOCK_SIZE - 1u)
        *run_count = first_run + (uint)POPCOUNT(starts);
    BARRIER();
}

// Returns the run of a pixel that is set. `bit` is the pixel's bit within its word. The run is the
// last one that starts at or before the pixel, in this word or in an earlier one of the row.
FUNCTION uint run_at(TileWords tile, uint word, uint bit)
{
    return tile.first_run[word] + (uint)POPCOUNT(tile.starts[word] & (bit | (bit - 1u))) - 1u;
}

// Returns the lowest bit that is set.
FUNCTION uint lowest_bit(uint bits)
{
    return bits & (0u - bits);
}

// Links every run that starts in this thread's word to the first run above that it touches within
// the word, or to itself. Returns the pixels at which further runs above touch, which are not
// merged yet: one bit for each pair of runs.
FUNCTION uint link_runs(TileWords tile, SHARED_POINTER uint* parents)
{
    const uint word = (uint)THREAD, first_run = tile.first_run[word];
    const uint end = first_run + (uint)POPCOUNT(tile.starts[word]);
    for (uint run = first_run; run < end; run++)
        parents[run] = run;
    uint unmerged = 0;
    if (word >= WORDS) {
        const uint above = word - WORDS;
        const uint overlap = tile.bits[word] & tile.bits[above];
        const uint left = word % WORDS > 0u ? (tile.bits[word - 1u] & tile.bits[above - 1u]) >> 31 : 0u;
        // Each maximal row of overlapping pixels belongs to one pair of runs.
        for (uint rest = overlap & ~(overlap << 1 | left); rest != 0u; rest &= rest - 1u) {
            const uint bit = lowest_bit(rest), run = run_at(tile, word, bit);
            if (run >= first_run && parents[run] == run)
                parents[run] = run_at(tile, above, bit);
            else
                unmerged |= bit;
        }
    }
    return unmerged;
}

// Returns the root of a run. Other threads may be linking roots.
FUNCTION uint root_of_run(SHARED_POINTER const volatile uint* parents, uint run)
{
    for (uint parent = parents[run]; parent != run; parent = parents[run])
        run = parent;
    return run;
}

// Merges the trees of two runs. The earlier root becomes the root of both.
FUNCTION void unite_runs(SHARED_POINTER uint* parents, uint a, uint b)
{
    a = root_of_run(parents, a);
    b = root_of_run(parents, b);
    while (a != b) {
        const uint later = a > b ? a : b, earlier = a > b ? b : a;
        const uint found = SHARED_ATOMIC_CAS_U32(&parents[later], later, earlier);
        // Another thread may have linked the later one. Its root is then merged instead.
        a = found == later ? earlier : root_of_run(parents, found);
        b = found == later ? earlier : root_of_run(parents, earlier);
    }
}

#if HAS_CORNERS
// Merges the runs of this thread's word with runs above that they touch only at a corner. That is
// possible only at the start of a run, with a pixel above to the left, and at its end, with one
// above to the right, if the pixel directly above is not set.
FUNCTION void unite_diagonals(TileWords tile, SHARED_POINTER uint* parents)
{
    const uint word = (uint)THREAD, column = word % WORDS, above = word - WORDS;
    const uint bits = tile.bits[word], bits_above = tile.bits[above];
    const uint has_left = column > 0u, has_right = column + 1u < WORDS;
    const uint above_left = bits_above << 1 | (has_left ? tile.bits[above - 1u] >> 31 : 0u);
    const uint above_right = bits_above >> 1 | (has_right ? tile.bits[above + 1u] << 31 : 0u);
    const uint ends = bits & ~(bits >> 1 | (has_right ? tile.bits[word + 1u] << 31 : 0u));
    for (uint rest = tile.starts[word] & above_left & ~bits_above; rest != 0u; rest &= rest - 1u) {
        const uint bit = lowest_bit(rest);
        // The last run above that starts before this pixel ends there.
        const uint runs_before = (uint)POPCOUNT(tile.starts[above] & (bit - 1u));
        unite_runs(parents, run_at(tile, word, bit), tile.first_run[above] + runs_before - 1u);
    }
    for (uint rest = ends & above_right & ~bits_above; rest != 0u; rest &= rest - 1u) {
        const uint bit = lowest_bit(rest);
        // The next run above starts at the next pixel.
        unite_runs(parents, run_at(tile, word, bit), run_at(tile, above, bit) + 1u);
    }
}
#endif

// Merges all runs of the tile that touch, and links every run to its root. All threads call it.
FUNCTION void merge_runs(TileWords tile, SHARED_POINTER uint* parents, uint run_count)
{
    const uint word = (uint)THREAD;
    uint unmerged = link_runs(tile, parents);
    BARRIER();
    for (; unmerged != 0u; unmerged &= unmerged - 1u) {
        const uint bit = lowest_bit(unmerged);
        unite_runs(parents, run_at(tile, word, bit), run_at(tile, word - WORDS, bit));
    }
#if HAS_CORNERS
    if (word >= WORDS)
        unite_diagonals(tile, parents);
#endif
    BARRIER();
    // No root changes any more. A thread writes only the runs that it flattens.
    for (uint run = word; run < run_count; run += BLOCK_SIZE)
        parents[run] = root_of_run(parents, run);
    BARRIER();
}

// Returns the run at a border position of the tile, or MAX_RUNS if its pixel is not set.
FUNCTION uint run_at_border(TileWords tile, uint position)
{
    uint x, y;
    if (position < FIRST_COLUMN) {
        x = position % TILE_COLUMNS;
        y = position < LAST_ROW ? 0u : TILE_ROWS - 1u;
    } else {
        x = position < LAST_COLUMN ? 0u : TILE_COLUMNS - 1u;
        y = (position - FIRST_COLUMN) % TILE_ROWS;
    }
    const uint word = y * WORDS + x / 32u, bit = 1u << x % 32u;
    return (tile.bits[word] & bit) != 0u ? run_at(tile, word, bit) : MAX_RUNS;
}

// Numbers the roots that touch the border of the tile. The order of the numbers does not matter.
// *node_count starts as 0. All threads call it.
FUNCTION void number_nodes(TileWords tile, SHARED_POINTER uint* parents, uint run_count, SHARED_POINTER uint* node_count)
{
    for (uint position = (uint)THREAD; position < BORDER; position += BLOCK_SIZE) {
        const uint run = run_at_border(tile, position);
        if (run < MAX_RUNS) {
            // Several threads may write the same value.
            const uint root = PARENT_OF(parents[run]);
            parents[root] = root | UNNUMBERED_NODE;
        }
    }
    BARRIER();
    for (uint run = (uint)THREAD; run < run_count; run += BLOCK_SIZE) {
        if (NODE_OF(parents[run]) != 0u)
            parents[run] = run | (SHARED_ATOMIC_ADD_U32(node_count, 1u) + 1u) << 16;
    }
    BARRIER();
}

// Returns the bits of those pixels of this thread's word that are the first of a component of the
// tile. Starts the nodes of these components.
FUNCTION uint find_roots(TileWords tile, SHARED_POINTER const uint* parents, WordPosition at, GLOBAL uint* node_parents,
                         GLOBAL uint* node_pixels)
{
    uint roots = 0, run = tile.first_run[THREAD];
    for (uint rest = tile.starts[THREAD]; rest != 0u; rest &= rest - 1u) {
        const uint bit = lowest_bit(rest), entry = parents[run];
        if (PARENT_OF(entry) == run) {
            roots |= bit;
            if (NODE_OF(entry) != 0u) {
                const uint node = at.tile * NODES + NODE_OF(entry) - 1u;
                node_parents[node] = node;
                node_pixels[node] = at.word * 32u + (uint)POPCOUNT(bit - 1u);
            }
        }
        run++;
    }
    return roots;
}

// mask: rows * columns bytes, aligned to 16 bytes. Elements per tile: BLOCK_SIZE of tile_bits,
// MAX_RUNS of runs, BORDER of borders, 1 of node_counts, NODES of node_parents and node_pixels.
// roots: rows of row_words words (see Layout). There is one block per tile.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
label_tiles(GLOBAL const uchar* RESTRICT mask, uint rows, uint columns, uint tiles_along, GLOBAL uint* RESTRICT tile_bits,
            GLOBAL ushort* RESTRICT runs, GLOBAL uchar* RESTRICT borders, GLOBAL uint* RESTRICT node_counts,
            GLOBAL uint* RESTRICT node_parents, GLOBAL uint* RESTRICT node_pixels, GLOBAL uint* RESTRICT roots)
{
    SHARED uint bits[BLOCK_SIZE], starts[BLOCK_SIZE], first_run[BLOCK_SIZE], parents[MAX_RUNS];
    SHARED uint scratch[BLOCK_SIZE], warp_sums[WARPS], run_count, node_count;
    TileWords tile;
    tile.bits = bits;
    tile.starts = starts;
    tile.first_run = first_run;
    const uint thread = (uint)THREAD;
    if (thread == 0u)
        node_count = 0u;
    const uint word = load_word(mask, rows, columns, tiles_along, scratch);
    find_runs(tile, word, &run_count, warp_sums, scratch);
    merge_runs(tile, parents, run_count);
    number_nodes(tile, parents, run_count, &node_count);

    const WordPosition at = word_position(thread, tiles_along);
    const uint word_roots = find_roots(tile, parents, at, node_parents, node_pixels);
    tile_bits[at.tile * BLOCK_SIZE + thread] = word;
    if (at.row < rows)
        roots[at.word] = word_roots;
    if (thread == 0u)
        node_counts[at.tile] = node_count;
    for (uint run = thread; run < run_count; run += BLOCK_SIZE) {
        const uint entry = parents[run];
        runs[at.tile * MAX_RUNS + run] = (ushort)(NODE_OF(entry) != 0u ? IS_NODE | (NODE_OF(entry) - 1u) : entry);
    }
    for (uint position = thread; position < BORDER; position += BLOCK_SIZE) {
        const uint run = run_at_border(tile, position);
        uint node = NO_NODE;
        if (run < MAX_RUNS)
            node = NODE_OF(parents[PARENT_OF(parents[run])]) - 1u;
        borders[at.tile * BORDER + position] = (uchar)node;
    }
}
