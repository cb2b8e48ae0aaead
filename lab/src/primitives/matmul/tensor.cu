// Matrix product C = A B with tensor cores, for CUDA devices only. TF32 (compute capability 8.0 and
// higher): f32 numbers are rounded to 10 bits after the binary point, and products are added in
// f32. F64 (capability 9.0 and higher): IEEE products and sums.
//
// The instruction mma multiplies a 16 x 8 fragment of A with an 8 x 8 fragment of B. The lanes of a
// warp hold the fragments: with g = lane / 4 and t = lane % 4, a lane holds A(g, t), A(g + 8, t),
// A(g, t + 4), A(g + 8, t + 4), B(t, g), B(t + 4, g), and C(g, 2t), C(g, 2t + 1), C(g + 8, 2t),
// C(g + 8, 2t + 1).
//
// A block of 8 warps computes TILE_M x TILE_N numbers of C, a warp WARP_TILE_M x WARP_TILE_N.
// Tiles of A and B are copied asynchronously from device memory to shared memory, STAGES - 1 tiles
// ahead. Rows of the tiles in shared memory are padded, so that the 32 lanes of a fragment load use
// different banks. m and n are multiples of the tile, and k of TILE_K.

#define WARPS_ALONG_N (TILE_N / WARP_TILE_N)
#define BLOCK_SIZE ((TILE_M / WARP_TILE_M) * WARPS_ALONG_N * 32)
// Numbers per asynchronous copy of 16 bytes.
#define WIDTH (16 / (int)sizeof(NUMBER))
#define A_STRIDE (TILE_K + 4)
#define B_STRIDE (TILE_N + B_PAD)
#define A_NUMBERS (TILE_M * A_STRIDE)
#define B_NUMBERS (TILE_K * B_STRIDE)
#define M_FRAGMENTS (WARP_TILE_M / 16)
#define N_FRAGMENTS (WARP_TILE_N / 8)
#define TILE_ROWS_PER_GROUP 8

FUNCTION void copy_async(NUMBER* to, const NUMBER* from)
{
    const uint address = (uint)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from));
}

// Starts the copies of one tile of A and one of B.
FUNCTION void copy_tiles(NUMBER* a_tile, NUMBER* b_tile, const NUMBER* a, const NUMBER* b, int n, int k)
{
    UNROLL_ALL
    for (int load = 0; load < TILE_M * TILE_K / WIDTH / BLOCK_SIZE; ++load) {
        const int index = THREAD + load * BLOCK_SIZE;
        const int row = index / (TILE_K / WIDTH);
        const int column = index % (TILE_K / WIDTH) * WIDTH;
        copy_async(a_tile + row * A_STRIDE + column, a + (ulong)row * k + column);
    }
    UNROLL_ALL
    for (int load = 0; load < TILE_N * TILE_K / WIDTH / BLOCK_SIZE; ++load) {
        const int index = THREAD + load * BLOCK_SIZE;
        const int row = index / (TILE_N / WIDTH);
        const int column = index % (TILE_N / WIDTH) * WIDTH;
        copy_async(b_tile + row * B_STRIDE + column, b + (ulong)row * n + column);
    }
}

#if IS_DOUBLE
typedef double Operand;

FUNCTION Operand to_operand(double x)
{
    return x;
}

FUNCTION void multiply_add(NUMBER* c, const Operand* a, const Operand* b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
#else
typedef uint Operand;

FUNCTION Operand to_operand(float x)
{
    uint rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
}

FUNCTION void multiply_add(NUMBER* c, const Operand* a, const Operand* b)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

// Multiplies 8 numbers along k of the tiles. a and b point to the warp's first row and column.
FUNCTION void multiply_fragments(NUMBER sums[M_FRAGMENTS][N_FRAGMENTS][4], const NUMBER* a, const NUMBER* b)
{
    const int g = LANE / 4;
    const int t = LANE % 4;
    Operand a_fragments[M_FRAGMENTS][4];
    Operand b_fragments[N_FRAGMENTS][2];
    UNROLL_ALL
    for (int i = 0; i < M_FRAGMENTS; ++i) {
        const NUMBER* from = a + (i * 16 + g) * A_STRIDE + t;
        a_fragments[i][0] = to_operand(from[0]);
        a_fragments[i][1] = to_operand(from[8 * A_STRIDE]);
        a_fragments[i][2] = to_operand(from[4]);
        a_fragments[i][3] = to_operand(from[8 * A_STRIDE + 4]);
    }
    UNROLL_ALL
    for (int j = 0; j < N_FRAGMENTS; ++j) {
        const NUMBER* from = b + t * B_STRIDE + j * 8 + g;
        b_fragments[j][0] = to_operand(from[0]);
        b_fragments[j][1] = to_operand(from[4 * B_STRIDE]);
    }
    UNROLL_ALL
    for (int i = 0; i < M_FRAGMENTS; ++i) {
        UNROLL_ALL
        for (int j = 0; j < N_FRAGMENTS; ++j)
            multiply_add(sums[i][j], a_fragments[i], b_fragments[j]);
    }
}

KERNEL(BLOCK_SIZE)
tensor_matmul(GLOBAL const NUMBER* RESTRICT a, GLOBAL const NUMBER* RESTRICT b, GLOBAL NUMBER* RESTRICT c,
              int m, int n, int k)
{
    extern __shared__ __align__(16) NUMBER tiles[];
    NUMBER* a_tiles = tiles;
    NUMBER* b_tiles = tiles + STAGES * A_NUMBERS;

    const int tile_rows = m / TILE_M;
    const int group_size = TILE_ROWS_PER_GROUP * (n / TILE_N);
    const int first_tile_row = BLOCK_INDEX / group_size * TILE_ROWS_PER_GROUP;
    const int rows_left = tile_rows - first_tile_row;
    const int rows_in_group = rows_left < TILE_ROWS_PER_GROUP ? rows_left : TILE_ROWS_PER_GROUP;
    const int in_group = BLOCK_INDEX % group_size;
    const int first_row = (first_tile_row + in_group % rows_in_group) * TILE_M;
    const int first_column = in_group / rows_in_group * TILE_N;
    a += (ulong)first_row * k;
    b += first_column;

    const int warp = THREAD / 32;
    const int row = warp / WARPS_ALONG_N * WARP_TILE_M;
    const int column = warp % WARPS_ALONG_N * WARP_TILE_N;
    NUMBER sums[M_FRAGMENTS][N_FRAGMENTS][4] = {};

    const int tile_count = k / TILE_K;
    UNROLL_ALL
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < tile_count)
            copy_tiles(a_tiles + stage * A_NUMBERS, b_tiles + stage * B_NUMBERS, a + stage * TILE_K,
                       b + (ulong)stage * TILE_K * n, n, k);
        asm volatile("cp.async.commit_group;");
    }
    for (int tile = 0; tile < tile_count; ++tile) {
        // At most STAGES - 2 later groups of copies may be running: this tile has arrived.
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        BARRIER();
        const int next = tile + STAGES - 1;
        if (next < tile_count)
            copy_tiles(a_tiles + next % STAGES * A_NUMBERS, b_tiles + next % STAGES * B_NUMBERS,
                       a + next * TILE_K, b + (ulong)next * TILE_K * n, n, k);
        asm volatile("cp.async.commit_group;");
        const NUMBER* a_tile = a_tiles + tile % STAGES * A_NUMBERS + row * A_STRIDE;
        const NUMBER* b_tile = b_tiles + tile % STAGES * B_NUMBERS + column;
        UNROLL_ALL
        for (int step = 0; step < TILE_K; step += 8)
            multiply_fragments(sums, a_tile + step, b_tile + step * B_STRIDE);
    }

    const int g = LANE / 4;
    const int t = LANE % 4;
    UNROLL_ALL
    for (int i = 0; i < M_FRAGMENTS; ++i) {
        UNROLL_ALL
        for (int j = 0; j < N_FRAGMENTS; ++j) {
            NUMBER* to = c + (ulong)(first_row + row + i * 16 + g) * n + first_column + column + j * 8 + 2 * t;
            *(PAIR*)to = PAIR{sums[i][j][0], sums[i][j][1]};
            *(PAIR*)(to + 8 * (ulong)n) = PAIR{sums[i][j][2], sums[i][j][3]};
        }
    }
}
