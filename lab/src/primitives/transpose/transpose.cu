// Transpose of a matrix in row-major order:  to[column][row] = from[row][column].
//
// A block transposes a tile of TILE x TILE elements. Global memory is accessed in vectors of
// VECTOR_WIDTH neighbouring elements of a row, on both sides:
//
//   1. Each thread loads pieces of VECTOR_WIDTH x VECTOR_WIDTH elements, one vector per row, and
//      issues all loads before it uses the first.
//   2. It transposes its pieces in registers and stores their columns as vectors in shared memory.
//   3. After a barrier, the threads read the vectors in the order of the output and store them.
//
// Every element is read and written once: bound by memory bandwidth. That needs enough loads in
// flight (step 1) and long runs of neighbouring bytes in both matrices. The rows of a tile of 64
// floats are runs of 256 bytes. Blocks that run at the same time extend them (tile_of_block).
//
// Bank conflicts: shared memory has 32 banks of 4 bytes. A warp's access to vectors of 16 bytes is
// served in 4 phases of 8 lanes (PHASE_LANES). A vector takes 4 banks: those with the number of its
// slot modulo 8. A phase has no conflict if these 8 numbers differ. Column x of the tile has SLOTS
// vectors, a multiple of 8. For 64 x 64 floats, where SLOTS = 16:
//
//   without swizzle, slot = 16 x + group of rows
//     step 2: 8 lanes have x = 0, 4, ..., 28 and the same group: slots 0, 64, 128, ...
//             modulo 8 all are 0, a conflict of 8 lanes
//   with swizzle, slot = 16 x + (group of rows ^ (x / 4) % 8)
//     step 2: (x / 4) % 8 = 0 ... 7, so the slots modulo 8 are group ^ 0 ... group ^ 7: all differ
//     step 3: 8 lanes have the same x and groups 8 g ... 8 g + 7: slots modulo 8 are (0 ... 7) ^ s
//             with the same s for all: all differ
//
// The same holds for vectors of 8 bytes (phases of 16 lanes) and 4 bytes (32 lanes). Elements of 1
// and 2 bytes that are accessed one by one share a bank with their neighbours, so the swizzle
// counts in banks (SWIZZLE_UNIT). Single bytes have tiles of 64 x 64, whose columns have 16 banks:
// there a conflict of 2 lanes remains.
//
// Defined by the host (device.rs): ELEMENT, VECTOR (VECTOR_WIDTH elements), VECTOR_WIDTH,
// VECTOR_BYTES, TILE, BLOCK_SIZE, MIN_BLOCKS_PER_SM, STRIP, STREAMING_STORES.
//
// Invariant: rows and columns are multiples of VECTOR_WIDTH.

// Vectors in a row or column of a tile.
#define SLOTS (TILE / VECTOR_WIDTH)
// Rows of SLOTS vectors that the threads of a block cover at once.
#define ROWS_PER_PASS (BLOCK_SIZE / SLOTS)
#define PIECES_PER_THREAD (SLOTS / ROWS_PER_PASS)
#define VECTORS_PER_THREAD (TILE / ROWS_PER_PASS)
// Lanes whose accesses to shared memory are served together.
#define PHASE_LANES (VECTOR_BYTES > 4u ? 128u / VECTOR_BYTES : 32u)
// Vectors in a bank, 1 for those that fill it.
#define SWIZZLE_UNIT (VECTOR_BYTES < 4u ? 4u / VECTOR_BYTES : 1u)
// Number of different swizzles: one per lane of a phase, or as many as a column has slots for.
#define SWIZZLES (PHASE_LANES * SWIZZLE_UNIT < SLOTS ? PHASE_LANES : SLOTS / SWIZZLE_UNIT)

// Loads and stores that mark their cache lines as the first to be evicted: each is used once.
#if defined(ON_CUDA)
#define LOAD_STREAMING(p) __ldcs(p)
#else
#define LOAD_STREAMING(p) (*(p))
#endif
#if defined(ON_CUDA) && STREAMING_STORES
#define STORE(p, v) __stcs(p, v)
#else
#define STORE(p, v) (*(p) = (v))
#endif

typedef union {
    VECTOR vector;
    ELEMENT element[VECTOR_WIDTH];
} VectorElements;

typedef struct {
    VectorElements row[VECTOR_WIDTH];
} Piece;

// Rows and columns of the input, in groups of VECTOR_WIDTH.
typedef struct {
    ulong row_groups, column_groups;
} MatrixSize;

// Index of a tile along the rows and columns of the input.
typedef struct {
    uint row, column;
} TileIndex;

// Returns the number of groups of a tile that lie within the matrix. `groups` is the extent of the
// matrix along one side, and `tile` the index of the tile along it.
FUNCTION uint groups_in_tile(ulong groups, uint tile)
{
    const ulong left = groups - (ulong)tile * SLOTS;
    return left < SLOTS ? (uint)left : SLOTS;
}

// Returns the slot in shared memory of the vector with the rows of `row_group` in a column of the
// tile.
FUNCTION uint slot_of(uint column, uint row_group)
{
    return column * SLOTS + (row_group ^ (column / VECTOR_WIDTH % SWIZZLES * SWIZZLE_UNIT));
}

// Loads the thread's pieces of a tile. Pieces beyond the end of the matrix are not loaded.
FUNCTION void load_pieces(Piece piece[PIECES_PER_THREAD], GLOBAL const VECTOR* from, TileIndex tile, MatrixSize size)
{
    const uint column_group = (uint)THREAD % SLOTS, first_group = (uint)THREAD / SLOTS;
    const uint row_groups = groups_in_tile(size.row_groups, tile.row);
    const uint is_inside = column_group < groups_in_tile(size.column_groups, tile.column);
    from += ((ulong)tile.row * SLOTS + first_group) * VECTOR_WIDTH * size.column_groups
        + ((ulong)tile.column * SLOTS + column_group);
    UNROLL_ALL
    for (uint k = 0; k < PIECES_PER_THREAD; k++) {
        if (is_inside && first_group + k * ROWS_PER_PASS < row_groups) {
            UNROLL_ALL
            for (uint i = 0; i < VECTOR_WIDTH; i++)
                piece[k].row[i].vector = LOAD_STREAMING(from + i * size.column_groups);
        }
        from += ROWS_PER_PASS * VECTOR_WIDTH * size.column_groups;
    }
}

// Stores the columns of the thread's pieces in shared memory.
FUNCTION void transpose_pieces(SHARED_POINTER VECTOR* columns, const Piece piece[PIECES_PER_THREAD])
{
    const uint column_group = (uint)THREAD % SLOTS, first_group = (uint)THREAD / SLOTS;
    UNROLL_ALL
    for (uint k = 0; k < PIECES_PER_THREAD; k++) {
        UNROLL_ALL
        for (uint j = 0; j < VECTOR_WIDTH; j++) {
            VectorElements column;
            UNROLL_ALL
            for (uint i = 0; i < VECTOR_WIDTH; i++)
                column.element[i] = piece[k].row[i].element[j];
            columns[slot_of(column_group * VECTOR_WIDTH + j, first_group + k * ROWS_PER_PASS)] = column.vector;
        }
    }
}

// Writes the columns of a tile of the input as rows of the output.
FUNCTION void store_columns(GLOBAL VECTOR* to, SHARED_POINTER const VECTOR* columns, TileIndex tile, MatrixSize size)
{
    const uint row_group = (uint)THREAD % SLOTS, first_column = (uint)THREAD / SLOTS;
    const uint column_count = groups_in_tile(size.column_groups, tile.column) * VECTOR_WIDTH;
    const uint is_inside = row_group < groups_in_tile(size.row_groups, tile.row);
    to += ((ulong)tile.column * TILE + first_column) * size.row_groups + ((ulong)tile.row * SLOTS + row_group);
    UNROLL_ALL
    for (uint k = 0; k < VECTORS_PER_THREAD; k++) {
        const uint column = first_column + k * ROWS_PER_PASS;
        if (is_inside && column < column_count)
            STORE(to, columns[slot_of(column, row_group)]);
        to += ROWS_PER_PASS * size.row_groups;
    }
}

// Returns the tile of a block. Tiles are ordered in strips of STRIP rows of tiles. Within a strip
// they go down its columns. The blocks that run at the same time then cover a rectangle of tiles
// with long rows in both matrices. With STRIP = 1 they cover a row of tiles, and in the output only
// the columns that one tile writes.
FUNCTION TileIndex tile_of_block(MatrixSize size)
{
    const uint tile_rows = (uint)((size.row_groups + SLOTS - 1u) / SLOTS);
    const uint tile_columns = (uint)((size.column_groups + SLOTS - 1u) / SLOTS);
    const uint block = (uint)BLOCK_INDEX;
    const uint first_row = block / (STRIP * tile_columns) * STRIP;
    const uint in_strip = block - first_row * tile_columns;
    const uint height = tile_rows - first_row < STRIP ? tile_rows - first_row : STRIP;
    TileIndex tile;
    tile.row = first_row + in_strip % height;
    tile.column = in_strip / height;
    return tile;
}

// from: rows x columns elements. to: columns x rows elements, another buffer. Both are aligned to
// 16 bytes. There is one block per tile.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
transpose(GLOBAL const uchar* RESTRICT from, GLOBAL uchar* RESTRICT to, ulong rows, ulong columns)
{
    SHARED VECTOR tile_columns[TILE * SLOTS];
    MatrixSize size;
    size.row_groups = rows / VECTOR_WIDTH;
    size.column_groups = columns / VECTOR_WIDTH;
    const TileIndex tile = tile_of_block(size);
    Piece piece[PIECES_PER_THREAD];
    load_pieces(piece, (GLOBAL const VECTOR*)from, tile, size);
    transpose_pieces(tile_columns, piece);
    BARRIER();
    store_columns((GLOBAL VECTOR*)to, tile_columns, tile, size);
}

// Returns the pair of tiles that a block exchanges, by the one with row <= column. Row r of the
// tiles has tiles - r such pairs. Two rows together have the same number for all lines of blocks:
// rows r and tiles - 1 - r have tiles + 1 if `tiles` is even, and rows r and tiles - r have `tiles`
// if it is odd, where row 0 is alone.
FUNCTION TileIndex pair_of_block(uint tiles)
{
    const uint is_even = 1u - tiles % 2u;
    const uint line = (uint)BLOCK_INDEX / (tiles + is_even);
    const uint in_line = (uint)BLOCK_INDEX % (tiles + is_even);
    TileIndex tile;
    if (in_line >= line + is_even) {
        tile.row = line;
        tile.column = in_line - is_even;
    } else {
        tile.row = tiles - is_even - line;
        tile.column = tiles - 1u - in_line;
    }
    return tile;
}

// matrix: side x side elements, aligned to 16 bytes. There are tiles * (tiles + 1) / 2 blocks for
// tiles * tiles tiles. A block loads a pair of tiles before it writes either. A tile on the
// diagonal is both tiles of its pair: it is loaded twice, and the same values are written twice.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, 2)
transpose_in_place(GLOBAL uchar* matrix, ulong side)
{
    SHARED VECTOR upper_columns[TILE * SLOTS];
    SHARED VECTOR lower_columns[TILE * SLOTS];
    GLOBAL VECTOR* vectors = (GLOBAL VECTOR*)matrix;
    MatrixSize size;
    size.row_groups = side / VECTOR_WIDTH;
    size.column_groups = size.row_groups;
    const TileIndex upper = pair_of_block((uint)((size.row_groups + SLOTS - 1u) / SLOTS));
    TileIndex lower;
    lower.row = upper.column;
    lower.column = upper.row;
    Piece upper_piece[PIECES_PER_THREAD], lower_piece[PIECES_PER_THREAD];
    load_pieces(upper_piece, vectors, upper, size);
    load_pieces(lower_piece, vectors, lower, size);
    transpose_pieces(upper_columns, upper_piece);
    transpose_pieces(lower_columns, lower_piece);
    BARRIER();
    store_columns(vectors, upper_columns, upper, size);
    store_columns(vectors, lower_columns, lower, size);
}
