// Steps of a course from the naive matrix product C = A B to register tiles. A has m x k, B k x n
// and C m x n numbers, stored row by row. Neighbouring threads compute neighbouring columns of C,
// so that loads of B and stores of C are coalesced.

// Warm-up: the sum C = A + B, one thread per number. Two loads and a store per operation.
KERNEL_2D(16, 16) add(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* c, int m, int n, int k)
{
    const int column = BLOCK_INDEX * 16 + THREAD;
    const int row = BLOCK_INDEX_Y * 16 + THREAD_Y;
    if (row < m && column < n) {
        const ulong i = (ulong)row * n + column;
        c[i] = a[i] + b[i];
    }
}

// Returns one number of C. Each multiply-add loads two numbers.
FUNCTION float dot_product(GLOBAL const float* a, GLOBAL const float* b, int row, int column, int n, int k)
{
    float sum = 0.0f;
    for (int p = 0; p < k; ++p)
        sum = FMA(a[(ulong)row * k + p], b[(ulong)p * n + column], sum);
    return sum;
}

// One block computes all of C, which has at most 32 x 32 numbers. One SM works.
KERNEL_2D(32, 32) one_block(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* c, int m, int n, int k)
{
    if (THREAD_Y < m && THREAD < n)
        c[THREAD_Y * n + THREAD] = dot_product(a, b, THREAD_Y, THREAD, n, k);
}

// One thread per number of C, in blocks of 32 x 32.
KERNEL_2D(32, 32) many_blocks(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* c, int m, int n, int k)
{
    const int column = BLOCK_INDEX * 32 + THREAD;
    const int row = BLOCK_INDEX_Y * 32 + THREAD_Y;
    if (row < m && column < n)
        c[(ulong)row * n + column] = dot_product(a, b, row, column, n, k);
}

// Tiles of 32 x 32 numbers of A and B in shared memory. Each number that is loaded is used 32
// times. The first barrier waits until the tiles are stored, the second until they are used.
KERNEL_2D(32, 32) shared_tiles(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* c, int m, int n, int k)
{
    SHARED float a_tile[32][32];
    SHARED float b_tile[32][32];
    const int column = BLOCK_INDEX * 32 + THREAD;
    const int row = BLOCK_INDEX_Y * 32 + THREAD_Y;
    float sum = 0.0f;
    for (int first = 0; first < k; first += 32) {
        const int a_column = first + THREAD;
        const int b_row = first + THREAD_Y;
        a_tile[THREAD_Y][THREAD] = row < m && a_column < k ? a[(ulong)row * k + a_column] : 0.0f;
        b_tile[THREAD_Y][THREAD] = b_row < k && column < n ? b[(ulong)b_row * n + column] : 0.0f;
        BARRIER();
        for (int p = 0; p < 32; ++p)
            sum = FMA(a_tile[THREAD_Y][p], b_tile[p][THREAD], sum);
        BARRIER();
    }
    if (row < m && column < n)
        c[(ulong)row * n + column] = sum;
}

// Tiles of 64 x 64 numbers of C. A thread computes 4 x 4 of them in registers: 8 loads from shared
// memory for 16 multiply-adds instead of 2 loads for one.
KERNEL(256) register_tiles(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* c, int m, int n, int k)
{
    SHARED float a_tile[16][64];
    SHARED float b_tile[16][64];
    const int first_row = BLOCK_INDEX_Y * 64;
    const int first_column = BLOCK_INDEX * 64;
    const int thread_row = THREAD / 16;
    const int thread_column = THREAD % 16;
    float sums[4][4];
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
            sums[i][j] = 0.0f;
    for (int first = 0; first < k; first += 16) {
        for (int load = 0; load < 4; ++load) {
            const int row = thread_row + 16 * load;
            const int p = first + thread_column;
            const int in_a = first_row + row < m && p < k;
            a_tile[thread_column][row] = in_a ? a[(ulong)(first_row + row) * k + p] : 0.0f;
            const int b_row = THREAD / 64 + 4 * load;
            const int b_column = THREAD % 64;
            const int in_b = first + b_row < k && first_column + b_column < n;
            b_tile[b_row][b_column] = in_b ? b[(ulong)(first + b_row) * n + first_column + b_column] : 0.0f;
        }
        BARRIER();
        UNROLL_ALL
        for (int p = 0; p < 16; ++p) {
            UNROLL_ALL
            for (int i = 0; i < 4; ++i) {
                UNROLL_ALL
                for (int j = 0; j < 4; ++j)
                    sums[i][j] = FMA(a_tile[p][thread_row + 16 * i], b_tile[p][thread_column + 16 * j], sums[i][j]);
            }
        }
        BARRIER();
    }
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            const int row = first_row + thread_row + 16 * i;
            const int column = first_column + thread_column + 16 * j;
            if (row < m && column < n)
                c[(ulong)row * n + column] = sums[i][j];
        }
    }
}
