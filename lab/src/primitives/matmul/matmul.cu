// Matrix product C = alpha op(A) op(B) + beta C, with op(A) of m x k and op(B) of k x n numbers.
// All matrices are dense and stored row by row. TRANSPOSED_A and TRANSPOSED_B are 1 if op is the
// transposition: A is then stored as k rows of m numbers, B as n rows of k numbers.
//
// A block computes a tile of TILE_M x TILE_N numbers of C. It reads tiles of A and B with TILE_K
// numbers along k from device memory to registers, and stores them in shared memory as
// a_tile[k][row] and b_tile[k][column]. There are two pairs of tiles, so that a thread stores the
// next tiles while others still read the current ones: one barrier per tile.
//
// A thread computes ROWS x COLUMNS numbers of C in registers. A step along k costs it ROWS +
// COLUMNS numbers from shared memory and ROWS * COLUMNS multiply-adds.
//
// A warp is 4 x 8 threads. The numbers of a thread are groups of WIDTH neighbours (16 bytes) in
// steps of 4 or 8 groups, so that 8 lanes read 128 neighbouring bytes of b_tile and one address of
// a_tile: no bank conflicts.
//
// Each number of C is one sum in the order of k, by fused multiply-adds. Its bits are those of
// `matmul_reference`, for every strategy and device.

#define WARP_ROWS 4
#define WARP_COLUMNS 8
// Numbers of C that a warp computes.
#define WARP_TILE_M (WARP_ROWS * ROWS)
#define WARP_TILE_N (WARP_COLUMNS * COLUMNS)
#define WARPS_ALONG_N (TILE_N / WARP_TILE_N)
#define BLOCK_SIZE ((TILE_M / ROWS) * (TILE_N / COLUMNS))
// Loads of WIDTH numbers per thread and tile.
#define A_LOADS (TILE_M * TILE_K / WIDTH / BLOCK_SIZE)
#define B_LOADS (TILE_N * TILE_K / WIDTH / BLOCK_SIZE)
// Four more numbers per row spread the stores of a tile that is read along k over all banks.
#define A_STRIDE (TILE_M + 4)
#define B_STRIDE (TILE_N + 4)
// Whether the tile is read from memory along k.
#define A_ALONG_K (!TRANSPOSED_A)
#define B_ALONG_K TRANSPOSED_B
// Tile rows that blocks with neighbouring indices cover before they advance along n. Blocks that
// run at the same time then share tiles of A and B in the L2 cache.
#define TILE_ROWS_PER_GROUP 8

#if WIDTH == 4
#define GET(v, i) ((i) == 0 ? (v).x : (i) == 1 ? (v).y : (i) == 2 ? (v).z : (v).w)
#else
#define GET(v, i) ((i) == 0 ? (v).x : (v).y)
#endif

// Loads WIDTH numbers at (row, column) of a matrix with `rows` rows of `columns` numbers. Numbers
// outside the matrix are 0. With ALIGNED, columns is a multiple of WIDTH.
FUNCTION VECTOR load_vector(GLOBAL const NUMBER* matrix, int row, int column, int rows, int columns)
{
    VECTOR v;
#if ALIGNED
    if (row < rows && column < columns)
        return *(GLOBAL const VECTOR*)(matrix + (ulong)row * columns + column);
    v.x = v.y = 0;
#if WIDTH == 4
    v.z = v.w = 0;
#endif
#else
    GLOBAL const NUMBER* from = matrix + (ulong)row * columns + column;
    const int count = row < rows ? columns - column : 0;
    v.x = count > 0 ? from[0] : (NUMBER)0;
    v.y = count > 1 ? from[1] : (NUMBER)0;
#if WIDTH == 4
    v.z = count > 2 ? from[2] : (NUMBER)0;
    v.w = count > 3 ? from[3] : (NUMBER)0;
#endif
#endif
    return v;
}

// Loads the part of a tile that this thread stores. `first` is the first row (of A) or column (of
// B) of the tile, and `extent` their number in the matrix. `width` is TILE_M or TILE_N.
FUNCTION void load_tile(VECTOR* staged, GLOBAL const NUMBER* matrix, int first, int extent, int width,
                        int first_k, int k, int along_k, int loads)
{
    UNROLL_ALL
    for (int load = 0; load < loads; ++load) {
        const int index = THREAD + load * BLOCK_SIZE;
        if (along_k) {
            const int line = index / (TILE_K / WIDTH);
            const int group = index % (TILE_K / WIDTH);
            staged[load] = load_vector(matrix, first + line, first_k + group * WIDTH, extent, k);
        } else {
            const int line = index / (width / WIDTH);
            const int group = index % (width / WIDTH);
            staged[load] = load_vector(matrix, first_k + line, first + group * WIDTH, k, extent);
        }
    }
}

// Stores the numbers of `load_tile` as tile[k][row or column].
FUNCTION void store_tile(SHARED_POINTER NUMBER* tile, const VECTOR* staged, int width, int stride,
                         int along_k, int loads)
{
    UNROLL_ALL
    for (int load = 0; load < loads; ++load) {
        const int index = THREAD + load * BLOCK_SIZE;
        if (along_k) {
            const int line = index / (TILE_K / WIDTH);
            const int group = index % (TILE_K / WIDTH);
            UNROLL_ALL
            for (int i = 0; i < WIDTH; ++i)
                tile[(group * WIDTH + i) * stride + line] = GET(staged[load], i);
        } else {
            const int line = index / (width / WIDTH);
            const int group = index % (width / WIDTH);
            *(SHARED_POINTER VECTOR*)(tile + line * stride + group * WIDTH) = staged[load];
        }
    }
}

// Loads `count` numbers for one k from a tile: groups of WIDTH, `step` numbers apart.
FUNCTION void load_fragment(NUMBER* fragment, SHARED_POINTER const NUMBER* from, int count, int step)
{
    UNROLL_ALL
    for (int group = 0; group < count / WIDTH; ++group) {
        const VECTOR v = *(SHARED_POINTER const VECTOR*)(from + group * step);
        UNROLL_ALL
        for (int i = 0; i < WIDTH; ++i)
            fragment[group * WIDTH + i] = GET(v, i);
    }
}

// Writes WIDTH numbers of C. C is not read if beta is 0, so that it may contain NaN.
FUNCTION void write_vector(GLOBAL NUMBER* c, int row, int column, int n, const NUMBER* sums,
                           NUMBER alpha, NUMBER beta)
{
    GLOBAL NUMBER* to = c + (ulong)row * n + column;
    UNROLL_ALL
    for (int i = 0; i < WIDTH; ++i) {
        if (ALIGNED || column + i < n)
            to[i] = beta == 0 ? alpha * sums[i] : MULTIPLY_ADD(beta, to[i], alpha * sums[i]);
    }
}

KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS)
matmul(GLOBAL const NUMBER* RESTRICT a, GLOBAL const NUMBER* RESTRICT b, GLOBAL NUMBER* c, int m, int n,
       int k, NUMBER alpha, NUMBER beta)
{
    // Arrays of vectors, because an array of numbers is only aligned for one number.
    SHARED VECTOR a_tile_vectors[2 * TILE_K * A_STRIDE / WIDTH];
    SHARED VECTOR b_tile_vectors[2 * TILE_K * B_STRIDE / WIDTH];
    SHARED_POINTER NUMBER* const a_tiles = (SHARED_POINTER NUMBER*)a_tile_vectors;
    SHARED_POINTER NUMBER* const b_tiles = (SHARED_POINTER NUMBER*)b_tile_vectors;

    // Position of the tile in C.
    const int tile_rows = (m + TILE_M - 1) / TILE_M;
    const int tile_columns = (n + TILE_N - 1) / TILE_N;
    const int group_size = TILE_ROWS_PER_GROUP * tile_columns;
    const int group = BLOCK_INDEX / group_size;
    const int first_tile_row = group * TILE_ROWS_PER_GROUP;
    const int rows_left = tile_rows - first_tile_row;
    const int rows_in_group = rows_left < TILE_ROWS_PER_GROUP ? rows_left : TILE_ROWS_PER_GROUP;
    const int in_group = BLOCK_INDEX % group_size;
    const int first_row = (first_tile_row + in_group % rows_in_group) * TILE_M;
    const int first_column = in_group / rows_in_group * TILE_N;

    // Position of the thread's first group in the tile.
    const int warp = THREAD / 32;
    const int lane = THREAD % 32;
    const int row = warp / WARPS_ALONG_N * WARP_TILE_M + lane / WARP_COLUMNS * WIDTH;
    const int column = warp % WARPS_ALONG_N * WARP_TILE_N + lane % WARP_COLUMNS * WIDTH;

    NUMBER sums[ROWS][COLUMNS];
    UNROLL_ALL
    for (int i = 0; i < ROWS; ++i) {
        UNROLL_ALL
        for (int j = 0; j < COLUMNS; ++j)
            sums[i][j] = 0;
    }

    VECTOR staged_a[A_LOADS];
    VECTOR staged_b[B_LOADS];
    load_tile(staged_a, a, first_row, m, TILE_M, 0, k, A_ALONG_K, A_LOADS);
    load_tile(staged_b, b, first_column, n, TILE_N, 0, k, B_ALONG_K, B_LOADS);
    store_tile(a_tiles, staged_a, TILE_M, A_STRIDE, A_ALONG_K, A_LOADS);
    store_tile(b_tiles, staged_b, TILE_N, B_STRIDE, B_ALONG_K, B_LOADS);
    BARRIER();

    int parity = 0;
    for (int first_k = 0; first_k < k; first_k += TILE_K) {
        const int has_next = first_k + TILE_K < k;
        if (has_next) {
            load_tile(staged_a, a, first_row, m, TILE_M, first_k + TILE_K, k, A_ALONG_K, A_LOADS);
            load_tile(staged_b, b, first_column, n, TILE_N, first_k + TILE_K, k, B_ALONG_K, B_LOADS);
        }
        SHARED_POINTER const NUMBER* a_tile = a_tiles + parity * TILE_K * A_STRIDE + row;
        SHARED_POINTER const NUMBER* b_tile = b_tiles + parity * TILE_K * B_STRIDE + column;
        // The numbers for the next k are loaded before those for this k are used.
        NUMBER a_fragments[2][ROWS];
        NUMBER b_fragments[2][COLUMNS];
        load_fragment(a_fragments[0], a_tile, ROWS, WARP_ROWS * WIDTH);
        load_fragment(b_fragments[0], b_tile, COLUMNS, WARP_COLUMNS * WIDTH);
        UNROLL_ALL
        for (int step = 0; step < TILE_K; ++step) {
            if (step + 1 < TILE_K) {
                load_fragment(a_fragments[(step + 1) % 2], a_tile + (step + 1) * A_STRIDE, ROWS,
                              WARP_ROWS * WIDTH);
                load_fragment(b_fragments[(step + 1) % 2], b_tile + (step + 1) * B_STRIDE, COLUMNS,
                              WARP_COLUMNS * WIDTH);
            }
            UNROLL_ALL
            for (int i = 0; i < ROWS; ++i) {
                UNROLL_ALL
                for (int j = 0; j < COLUMNS; ++j)
                    sums[i][j] = MULTIPLY_ADD(a_fragments[step % 2][i], b_fragments[step % 2][j], sums[i][j]);
            }
        }
        if (has_next) {
            parity = 1 - parity;
            store_tile(a_tiles + parity * TILE_K * A_STRIDE, staged_a, TILE_M, A_STRIDE, A_ALONG_K, A_LOADS);
            store_tile(b_tiles + parity * TILE_K * B_STRIDE, staged_b, TILE_N, B_STRIDE, B_ALONG_K, B_LOADS);
            BARRIER();
        }
    }

    UNROLL_ALL
    for (int i = 0; i < ROWS; ++i) {
        const int c_row = first_row + row + i / WIDTH * WARP_ROWS * WIDTH + i % WIDTH;
        UNROLL_ALL
        for (int group = 0; group < COLUMNS / WIDTH; ++group) {
            const int c_column = first_column + column + group * WARP_COLUMNS * WIDTH;
            if (c_row < m && c_column < n)
                write_vector(c, c_row, c_column, n, sums[i] + group * WIDTH, alpha, beta);
        }
    }
}
