// Distances from the matrix units (CUDA, from compute capability 8.0 on).
//
// With coordinates relative to the centre of a block of targets,  s ρ² = s |x_i|² + s (|x_j|² + eps²) - 2 x_i·(s x_j)
// is a product of a row of the target and a column of the source: 16 terms once every number is split into parts of
// 11 bits (TF32), two instructions for 16 x 8 pairs. The factor s = m^-2 takes the source's mass in: with
// y = (s ρ²)^{-1/2},  y³ = m³ ρ^-3  is its weight on s x_j. The weights, split in two as well, then meet
// (s x_j, s) in two more instructions, which sum
//     a_i = Σ_j y³ s x_j  -  x_i Σ_j y³ s.
// The matrix units truncate their sums, so those are added up in f32 after every 64 sources.
//
// Differences of large numbers make this wrong for near pairs. Bodies are therefore sorted along a Morton curve, and
// tiles of sources that come closer to the block than half its size are summed plainly.

#define WARPS 8
#define ROWS 4                        // row tiles of 16 targets a warp
#define BLOCK_SIZE (WARPS * 32)
#define TARGETS (WARPS * 16 * ROWS)   // of a block
#define TILE 128                      // sources of a tile
#define BATCH 256                     // sources in SHARED memory at once
#define NEAR 0.5f                     // share of the block's half diagonal

FUNCTION uint spread10(uint v)
{
    v = (v | v << 16) & 0x030000ffu;
    v = (v | v << 8) & 0x0300f00fu;
    v = (v | v << 4) & 0x030c30c3u;
    return (v | v << 2) & 0x09249249u;
}

FUNCTION uint cell(double x)
{
    const double c = (x * 0.25 + 0.5) * 1024.0;
    return c < 0.0 ? 0u : c > 1023.0 ? 1023u : (uint)c;
}

// Curve position and index in one number, so that equal cells have an order too.
KERNEL(128)
curve_keys(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT frame, int n, GLOBAL ulong* RESTRICT keys)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    ulong key = ~(ulong)0;
    if (i < n)
        key = (ulong)(spread10(cell((x[i] - frame[0]) * frame[3])) << 2 | spread10(cell((y[i] - frame[1]) * frame[3])) << 1
                  | spread10(cell((z[i] - frame[2]) * frame[3]))) << 32 | (ulong)i;
    keys[i] = key;
}

// One step of a bitonic sort: runs of `run` keys, partners `apart`.
KERNEL(128)
sort_step(GLOBAL ulong* RESTRICT keys, int run, int apart)
{
    const int t = BLOCK_INDEX * 128 + THREAD;
    const int i = 2 * apart * (t / apart) + t % apart, j = i + apart;
    const ulong a = keys[i], b = keys[j];
    if ((a > b) == ((i & run) == 0)) {
        keys[i] = b;
        keys[j] = a;
    }
}

// Scaled bodies in curve order: coordinates in f64, mass over the mean mass, and that to the power -2.
KERNEL(128)
gather(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame, GLOBAL const ulong* RESTRICT keys, int n,
    GLOBAL double* RESTRICT place, GLOBAL float* RESTRICT weight)
{
    const int at = BLOCK_INDEX * 128 + THREAD;
    if (at >= n)
        return;
    const int i = (int)(keys[at] & 0xffffffffu);
    place[at] = (x[i] - frame[0]) * frame[3];
    place[n + at] = (y[i] - frame[1]) * frame[3];
    place[2 * (size_t)n + at] = (z[i] - frame[2]) * frame[3];
    const double m = mass[i] * frame[4] * n;
    weight[at] = (float)m;
    weight[n + at] = m > 1e-12 ? (float)(1.0 / (m * m)) : 0.0f;
}

// Boxes around every `run` bodies in a row: low corners, then high ones, each in its column.
KERNEL(128)
boxes(GLOBAL const double* RESTRICT place, int n, int run, int count, GLOBAL float* RESTRICT box)
{
    const int b = BLOCK_INDEX * 128 + THREAD;
    if (b >= count)
        return;
    for (int c = 0; c < 3; c++) {
        double low = 1e300, high = -1e300;
        for (int i = b * run; i < n && i < (b + 1) * run; i++) {
            low = MIN64(low, place[c * (size_t)n + i]);
            high = MAX64(high, place[c * (size_t)n + i]);
        }
        box[c * count + b] = (float)low;
        box[(3 + c) * count + b] = (float)high;
    }
}

FUNCTION float tf32(float x)
{
    uint y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return UINT_AS_FLOAT(y);
}

FUNCTION void multiply(float* d, const float* a, float b0, float b1, const float* c)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(FLOAT_AS_UINT(a[0])), "r"(FLOAT_AS_UINT(a[1])), "r"(FLOAT_AS_UINT(a[2])), "r"(FLOAT_AS_UINT(a[3])),
        "r"(FLOAT_AS_UINT(b0)), "r"(FLOAT_AS_UINT(b1)), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

FUNCTION int is_near(const float* tile_box, int tiles, int tile, const float* low, const float* high, float reach2)
{
    float gap2 = 0.0f;
    for (int c = 0; c < 3; c++) {
        const float gap = MAX(0.0f, MAX(tile_box[c * tiles + tile] - high[c], low[c] - tile_box[(3 + c) * tiles + tile]));
        gap2 = FMA(gap, gap, gap2);
    }
    return gap2 <= reach2;
}

KERNEL_MIN_BLOCKS(BLOCK_SIZE, 2)
matrix_pairs(const double* RESTRICT place, const float* RESTRICT weight, const double* RESTRICT frame,
    const float* RESTRICT tile_box, const float* RESTRICT block_box, int n, int tiles, int blocks, int tiles_per_split,
    float4* RESTRICT parts)
{
    SHARED float4 column[BATCH * 4]; // terms of ρ²: of source j, for lane k of 4, terms k, k + 4, k + 8, k + 12
    SHARED float summand[BATCH * 8]; // s x, s y, s z, s and their low parts, as the matrix instruction reads them
    SHARED float4 plain[TILE];
    const int block = BLOCK_INDEX % blocks, split = BLOCK_INDEX / blocks;
    const int lane = THREAD % 32, warp = THREAD / 32, row = lane / 4, quarter = lane % 4;
    const float eps2 = (float)frame[5];
    const double *x = place, *y = place + n, *z = place + 2 * (size_t)n;
    const float* power = weight + n;

    float low[3], high[3], reach2 = 0.0f;
    double centre[3];
    for (int c = 0; c < 3; c++) {
        low[c] = block_box[c * blocks + block];
        high[c] = block_box[(3 + c) * blocks + block];
        centre[c] = 0.5 * ((double)low[c] + (double)high[c]);
        const float half_side = 0.5f * (high[c] - low[c]);
        reach2 = FMA(half_side, half_side, reach2);
    }
    reach2 *= NEAR * NEAR;

    float rows[ROWS][2][4];
    UNROLL_ALL
    for (int m = 0; m < ROWS; m++)
        UNROLL(2)
        for (int h = 0; h < 2; h++) {
            const int at = block * TARGETS + (warp * ROWS + m) * 16 + row + 8 * h, i = at < n ? at : n - 1;
            const float p[3] = { (float)(x[i] - centre[0]), (float)(y[i] - centre[1]), (float)(z[i] - centre[2]) };
            float ph[3], pl[3];
            for (int c = 0; c < 3; c++) {
                ph[c] = tf32(p[c]);
                pl[c] = tf32(p[c] - ph[c]);
            }
            const float square = FMA(p[0], p[0], FMA(p[1], p[1], p[2] * p[2]));
            const float sh = tf32(square), sm = tf32(square - sh), sl = tf32(square - sh - sm);
            const float terms[16] = { ph[0], ph[1], ph[2], ph[0], ph[1], ph[2], pl[0], pl[1], pl[2], 1.0f, 1.0f, 1.0f,
                sh, sh, sm, sl };
            UNROLL(4)
            for (int k = 0; k < 4; k++)
                rows[m][k / 2][(k % 2) * 2 + h] = quarter == 0 ? terms[4 * k]
                    : quarter == 1                             ? terms[4 * k + 1]
                    : quarter == 2                             ? terms[4 * k + 2]
                                                               : terms[4 * k + 3];
        }
    float sum[ROWS][4], total[ROWS][4], near_sum[2][3];
    UNROLL_ALL
    for (int m = 0; m < ROWS; m++)
        for (int k = 0; k < 4; k++)
            total[m][k] = 0.0f;
    for (int k = 0; k < 2; k++)
        for (int c = 0; c < 3; c++)
            near_sum[k][c] = 0.0f;
    const float zero[4] = { 0.0f, 0.0f, 0.0f, 0.0f };

    const int end = tiles < (split + 1) * tiles_per_split ? tiles : (split + 1) * tiles_per_split;
    for (int tile = split * tiles_per_split; tile < end;) {
        if (is_near(tile_box, tiles, tile, low, high, reach2)) {
            BARRIER();
            if (THREAD < TILE) {
                const int j = tile * TILE + THREAD;
                plain[THREAD] = j < n ? FLOAT4((float)(x[j] - centre[0]), (float)(y[j] - centre[1]),
                                    (float)(z[j] - centre[2]), weight[j])
                                      : FLOAT4(NOWHERE, NOWHERE, NOWHERE, 0.0f);
            }
            BARRIER();
            float p[2][3];
            for (int k = 0; k < 2; k++) {
                const int at = block * TARGETS + k * BLOCK_SIZE + THREAD, i = at < n ? at : n - 1;
                p[k][0] = (float)(x[i] - centre[0]);
                p[k][1] = (float)(y[i] - centre[1]);
                p[k][2] = (float)(z[i] - centre[2]);
            }
            UNROLL(4)
            for (int t = 0; t < TILE; t++) {
                const float4 q = plain[t];
                const int own = tile * TILE + t - block * TARGETS - THREAD;
                UNROLL(2)
                for (int k = 0; k < 2; k++) {
                    const float dx = q.x - p[k][0], dy = q.y - p[k][1], dz = q.z - p[k][2];
                    float rho2 = FMA(dx, dx, FMA(dy, dy, FMA(dz, dz, eps2)));
                    rho2 = own == k * BLOCK_SIZE ? 1.0f : rho2;
                    const float root = ROOT(rho2), w = (q.w * root) * (root * root);
                    near_sum[k][0] = FMA(w, dx, near_sum[k][0]);
                    near_sum[k][1] = FMA(w, dy, near_sum[k][1]);
                    near_sum[k][2] = FMA(w, dz, near_sum[k][2]);
                }
            }
            tile++;
            continue;
        }
        int far_tiles = 1;
        while (far_tiles < BATCH / TILE && tile + far_tiles < end
            && !is_near(tile_box, tiles, tile + far_tiles, low, high, reach2))
            far_tiles++;
        BARRIER();
        for (int t = THREAD; t < far_tiles * TILE; t += BLOCK_SIZE) {
            const int j = tile * TILE + t;
            const float s = j < n ? power[j] : 0.0f;
            float q[4] = { 0.0f, 0.0f, 0.0f, s }, square = 1e30f; // without mass: infinitely far
            if (s > 0.0f) {
                const float dx = (float)(x[j] - centre[0]), dy = (float)(y[j] - centre[1]), dz = (float)(z[j] - centre[2]);
                q[0] = s * dx;
                q[1] = s * dy;
                q[2] = s * dz;
                square = s * FMA(dx, dx, FMA(dy, dy, FMA(dz, dz, eps2)));
            }
            float h[3], l[3];
            for (int c = 0; c < 3; c++) {
                h[c] = tf32(-2.0f * q[c]);
                l[c] = tf32(-2.0f * q[c] - h[c]);
            }
            const float ch = tf32(square), cm = tf32(square - ch), cl = tf32(square - ch - cm);
            const float sh = tf32(s), sl = tf32(s - sh);
            const float terms[16] = { h[0], h[1], h[2], l[0], l[1], l[2], h[0], h[1], h[2], ch, cm, cl, sh, sl, sh, sh };
            for (int k = 0; k < 4; k++)
                column[t * 4 + k] = FLOAT4(terms[k], terms[k + 4], terms[k + 8], terms[k + 12]);
            for (int k = 0; k < 8; k++) {
                const float part = k < 4 ? tf32(q[k]) : tf32(q[k - 4] - tf32(q[k - 4]));
                summand[(t / 8) * 64 + (k * 4 + t % 8 / 2) * 2 + t % 2] = part;
            }
        }
        BARRIER();
        for (int first = 0; first < far_tiles * TILE; first += 64) {
            UNROLL(8)
            for (int g = 0; g < 8; g++) {
                const float4 b = column[(first + 8 * g + row) * 4 + quarter];
                const float b0 = summand[(first + 8 * g) * 8 + 2 * lane], b1 = summand[(first + 8 * g) * 8 + 2 * lane + 1];
                UNROLL_ALL
                for (int m = 0; m < ROWS; m++) {
                    float d[4], w[4], rest[4];
                    multiply(d, rows[m][0], b.x, b.y, zero);
                    multiply(d, rows[m][1], b.z, b.w, d);
                    for (int k = 0; k < 4; k++) {
                        const float root = ROOT(d[k]);
                        w[k] = root * (root * root);
                        rest[k] = w[k] - UINT_AS_FLOAT(FLOAT_AS_UINT(w[k]) & 0xffffe000u);
                    }
                    // Results lie as (row, 2q), (row, 2q + 1), (row + 8, ...); inputs as (row, q), (row + 8, q), (row, q + 4), ...
                    const float upper[4] = { w[0], w[2], w[1], w[3] }, lower[4] = { rest[0], rest[2], rest[1], rest[3] };
                    multiply(sum[m], upper, b0, b1, g == 0 ? zero : sum[m]);
                    multiply(sum[m], lower, b0, b1, sum[m]);
                }
            }
            UNROLL_ALL
            for (int m = 0; m < ROWS; m++)
                for (int k = 0; k < 4; k++)
                    total[m][k] += sum[m][k];
        }
        tile += far_tiles;
    }

    // Columns 0 to 3 hold the sums, 4 to 7 those with the low parts.
    BARRIER();
    float* far_sum = (float*)column;
    UNROLL_ALL
    for (int m = 0; m < ROWS; m++)
        UNROLL(4)
        for (int k = 0; k < 4; k++) {
            const float both = total[m][k] + __shfl_xor_sync(0xffffffffu, total[m][k], 2);
            if (quarter < 2)
                far_sum[((warp * ROWS + m) * 16 + row + 8 * (k / 2)) * 4 + 2 * quarter + k % 2] = both;
        }
    BARRIER();
    for (int k = 0; k < 2; k++) {
        const int own = k * BLOCK_SIZE + THREAD, at = block * TARGETS + own, i = at < n ? at : n - 1;
        const float* f = far_sum + 4 * own;
        parts[(size_t)split * blocks * TARGETS + at]
            = FLOAT4(near_sum[k][0] + FMA(-(float)(x[i] - centre[0]), f[3], f[0]),
                near_sum[k][1] + FMA(-(float)(y[i] - centre[1]), f[3], f[1]),
                near_sum[k][2] + FMA(-(float)(z[i] - centre[2]), f[3], f[2]), 0.0f);
    }
}

KERNEL(128)
scatter(GLOBAL const float4* RESTRICT parts, GLOBAL const double* RESTRICT frame, GLOBAL const ulong* RESTRICT keys, int n,
    int padded, int splits, GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    const int at = BLOCK_INDEX * 128 + THREAD;
    if (at >= n)
        return;
    double sum[3] = { 0, 0, 0 };
    for (int s = 0; s < splits; s++) {
        const float4 part = parts[(size_t)s * padded + at];
        sum[0] += part.x;
        sum[1] += part.y;
        sum[2] += part.z;
    }
    const int i = (int)(keys[at] & 0xffffffffu);
    const double unit = frame[6] / n;
    ax[i] = unit * sum[0];
    ay[i] = unit * sum[1];
    az[i] = unit * sum[2];
}
