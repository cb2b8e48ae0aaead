// Part of runs.cu: writes the labels, when all components have numbers.

// Writes the numbers of the tile's nodes to shared memory.
FUNCTION void number_of_nodes(SHARED_POINTER uint* node_numbers, uint tile, uint node_count, GLOBAL uint* node_parents,
                              GLOBAL const uint* node_pixels, GLOBAL const uint* roots, GLOBAL const uint* before)
{
    for (uint node = (uint)THREAD; node < node_count; node += BLOCK_SIZE) {
        const uint root = find_root(node_parents, tile * NODES + node);
        node_numbers[node] = number_of(roots, before, node_pixels[root]);
    }
}

// Writes the numbers of all runs of the tile to shared memory. All threads call it.
FUNCTION void number_runs(TileWords tile, SHARED_POINTER uint* numbers, SHARED_POINTER const uint* node_numbers,
                          GLOBAL const ushort* runs, uint run_count, uint word_roots, uint before_word)
{
    // Components that start in this thread's word.
    uint number = before_word;
    for (uint rest = word_roots; rest != 0u; rest &= rest - 1u)
        numbers[run_at(tile, (uint)THREAD, lowest_bit(rest))] = ++number;
    // Other runs. The root of a node may be among the former, with the same number.
    for (uint run = (uint)THREAD; run < run_count; run += BLOCK_SIZE) {
        const uint entry = runs[run];
        if ((entry & IS_NODE) != 0u)
            numbers[run] = node_numbers[entry & ~IS_NODE];
        else if (entry != run)
            numbers[run] = IS_POINTER | entry;
    }
    BARRIER();
    for (uint run = (uint)THREAD; run < run_count; run += BLOCK_SIZE) {
        const uint entry = numbers[run];
        if ((entry & IS_POINTER) != 0u)
            numbers[run] = numbers[entry & ~IS_POINTER];
    }
    BARRIER();
}

// labels: rows * columns. before: as in ranks.cu, one word for each of the root_words words of
// roots. count: the number of components. Other arrays are those of label_tiles. There is one block
// per tile.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
number_tiles(GLOBAL uint* RESTRICT labels, uint rows, uint columns, uint tiles_along, GLOBAL const uint* RESTRICT tile_bits,
             GLOBAL const ushort* RESTRICT runs, GLOBAL const uint* RESTRICT node_counts, GLOBAL uint* node_parents,
             GLOBAL const uint* RESTRICT node_pixels, GLOBAL const uint* RESTRICT roots,
             GLOBAL const uint* RESTRICT before, uint root_words, GLOBAL uint* RESTRICT count)
{
    SHARED uint bits[BLOCK_SIZE], starts[BLOCK_SIZE], first_run[BLOCK_SIZE], numbers[MAX_RUNS];
    SHARED uint node_numbers[NODES], scratch[BLOCK_SIZE], warp_sums[WARPS], run_count;
    TileWords tile;
    tile.bits = bits;
    tile.starts = starts;
    tile.first_run = first_run;
    const uint thread = (uint)THREAD;
    const WordPosition at = word_position(thread, tiles_along);
    if (at.tile == 0u && thread == 0u)
        *count = before[root_words - 1u] + (uint)POPCOUNT(roots[root_words - 1u]);
    const uint is_inside = at.row < rows;
    const uint word_roots = is_inside ? roots[at.word] : 0u, before_word = is_inside ? before[at.word] : 0u;
    number_of_nodes(node_numbers, at.tile, node_counts[at.tile], node_parents, node_pixels, roots, before);
    find_runs(tile, tile_bits[at.tile * BLOCK_SIZE + thread], &run_count, warp_sums, scratch);
    number_runs(tile, numbers, node_numbers, runs + (ulong)at.tile * MAX_RUNS, run_count, word_roots, before_word);

    // A warp writes the 32 pixels of a word.
    const uint first_row = at.row - thread / WORDS, first_column = at.column - thread % WORDS * 32u;
    for (uint pixel = thread; pixel < BLOCK_SIZE * 32u; pixel += BLOCK_SIZE) {
        const uint word = pixel / 32u, bit = 1u << pixel % 32u;
        const uint row = first_row + word / WORDS, column = first_column + pixel % TILE_COLUMNS;
        const uint label = (bits[word] & bit) != 0u ? numbers[run_at(tile, word, bit)] : 0u;
        if (row < rows && column < columns)
            STORE_STREAMING(labels + (ulong)row * columns + column, label);
    }
}
