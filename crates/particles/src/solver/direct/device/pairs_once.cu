// Every pair once, for both bodies: action and reaction (Newton's third law).
//
// Bodies stand in blocks of BLOCK_SIZE x TARGETS. Round by round, group (I, c) takes block I's bodies into registers and
// meets the blocks I + d (cyclically) for some d, 0 < d <= blocks / 2; with even blocks, d = blocks / 2 is met by the
// lower half alone. The pull on block I is summed in registers, that on block I + d travels with the sources: in step t
// lane l of a warp meets source (l + t) mod 32 and then hands that source's sum to lane l - 1, so after 32 steps
// every sum is home.
//
// Nothing is added by two groups at once, and so every sum has one order:
//   own[c][body]       pull of the round's blocks on block I, by group (I, c) alone
//   others[d][body]    pull on block I + d, by the group that holds (I, d) alone
//
// A pair costs 3 subtractions, 3 FMA, a root, 2 or 4 products and 6 FMA: with the tiled kernel's count twice 13
// issue slots become 17 (15 where all masses are equal), and half the roots.
//
// MIXED: a difference of f32 coordinates errs by 2^-24 of the distance from the origin, which spoils near pairs.
// Pairs nearer than a small share of that distance are met again, with the low parts of their coordinates.

#if defined(ON_CUDA)
#define FROM_NEXT_LANE(v) v = __shfl_sync(0xffffffffu, v, next)
#define HAND_ON(a, b, c) FROM_NEXT_LANE(a); FROM_NEXT_LANE(b); FROM_NEXT_LANE(c)
#define ANY_LANE(condition) __any_sync(0xffffffffu, condition)
#elif defined(__NV_CL_C_VERSION)
FUNCTION float from_lane(float v, int lane)
{
    float r;
    asm("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=f"(r) : "f"(v), "r"(lane));
    return r;
}
FUNCTION int any_lane(int condition)
{
    int r;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; "
                 "selp.s32 %0, 1, 0, q; }" : "=r"(r) : "r"(condition));
    return r;
}
#define FROM_NEXT_LANE(v) v = from_lane(v, next)
#define HAND_ON(a, b, c) FROM_NEXT_LANE(a); FROM_NEXT_LANE(b); FROM_NEXT_LANE(c)
#define ANY_LANE(condition) any_lane(condition)
#else
// No lanes that know one another: sums travel through SHARED memory, and every group looks for near pairs.
#define LANES_THROUGH_MEMORY 1
#define HAND_ON(a, b, c)                                                                                             \
    BARRIER();                                                                                                       \
    handed[0][THREAD] = a;                                                                                           \
    handed[1][THREAD] = b;                                                                                           \
    handed[2][THREAD] = c;                                                                                           \
    BARRIER();                                                                                                       \
    a = handed[0][warp * 32 + next];                                                                                 \
    b = handed[1][warp * 32 + next];                                                                                 \
    c = handed[2][warp * 32 + next]
#define ANY_LANE(condition) 1
#endif

// Scaled coordinates in two f32 parts; past the last body, massless ones that pull nothing.
KERNEL(128)
prepare(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame, int n, int padded,
    GLOBAL float4* RESTRICT high, GLOBAL float4* RESTRICT low)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= padded)
        return;
    float4 h = FLOAT4(PADDING_COORDINATE, PADDING_COORDINATE, PADDING_COORDINATE, 0.0f), l = FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
    if (i < n) {
        const double px = clamp_coordinate((x[i] - frame[FRAME_ORIGIN]) * frame[FRAME_LENGTH_SCALE]), py = clamp_coordinate((y[i] - frame[FRAME_ORIGIN + 1]) * frame[FRAME_LENGTH_SCALE]),
                     pz = clamp_coordinate((z[i] - frame[FRAME_ORIGIN + 2]) * frame[FRAME_LENGTH_SCALE]);
        h = FLOAT4((float)px, (float)py, (float)pz, (float)(mass[i] * frame[FRAME_MASS_SCALE]));
        l = FLOAT4((float)(px - (double)h.x), (float)(py - (double)h.y), (float)(pz - (double)h.z), 0.0f);
    }
    high[i] = h;
    low[i] = l;
}

KERNEL_MIN_BLOCKS(BLOCK_SIZE, RESIDENT)
pairs_once(GLOBAL const float4* RESTRICT high, GLOBAL const float4* RESTRICT low,
    GLOBAL const double* RESTRICT frame, int blocks, int first, int last, int chunk, int fresh, float near_share,
    GLOBAL double* RESTRICT own, GLOBAL double* RESTRICT others)
{
    SHARED float4 tile[2 * BLOCK_SIZE]; // every 32 sources twice over, so that lane l reads l, l + 1, ... l + 31
    SHARED float pulled[BLOCK_SIZE / 32][3][BLOCK_SIZE];
#if defined(LANES_THROUGH_MEMORY)
    SHARED float handed[3][BLOCK_SIZE];
#endif
    // Unsigned on purpose, here and in tiled.cu: from x / y and x % y of one type LLVM makes a pair that PoCL 5.0 does
    // not know to be the same for the whole group, and it runs loops with such bounds and barriers for one thread alone.
    const int I = BLOCK_INDEX % blocks, c = (int)((uint)BLOCK_INDEX / (uint)blocks);
    const int lane = THREAD % 32, warp = THREAD / 32, next = (lane + 1) % 32;
    const size_t padded = (size_t)blocks * (BLOCK_SIZE * TARGETS), mine = (size_t)I * (BLOCK_SIZE * TARGETS) + THREAD;
    const float eps2 = (float)frame[FRAME_EPS2];
#if MIXED
    // Distinct bodies may coincide in f32: their first meeting must add nothing rather than no number.
    const float coarse_eps2 = MAX(eps2, 1e-24f);
#else
    const float coarse_eps2 = eps2;
#endif

    float px[TARGETS], py[TARGETS], pz[TARGETS], pm[TARGETS], ax[TARGETS], ay[TARGETS], az[TARGETS];
#if MIXED
    float nearest[TARGETS];
#endif
    UNROLL_ALL
    for (int k = 0; k < TARGETS; k++) {
        const float4 p = high[mine + k * BLOCK_SIZE];
        px[k] = p.x;
        py[k] = p.y;
        pz[k] = p.z;
        pm[k] = p.w;
        ax[k] = ay[k] = az[k] = 0.0f;
    }

    const int begin = first + c * chunk, limit = begin + chunk < last ? begin + chunk : last;
    // The pairs that the lower half meets: `others` keeps for them what it holds, which is zero where nothing was written.
    // A shorter loop, for a `continue` in a loop with barriers is more than PoCL 5.0 compiles rightly.
    const int end = 2 * (limit - 1) == blocks && 2 * I >= blocks ? limit - 1 : limit;
    for (int d = begin; d < end; d++) {
        const int J = I + d < blocks ? I + d : I + d - blocks;
        for (int s = 0; s < BLOCK_SIZE * TARGETS; s += BLOCK_SIZE) {
            const size_t j = (size_t)J * (BLOCK_SIZE * TARGETS) + s + THREAD;
            const float4 q = high[j];
            tile[warp * 64 + lane] = q;
            tile[warp * 64 + 32 + lane] = q;
            BARRIER();
            for (int g = 0; g < BLOCK_SIZE / 32; g++) {
                float rx = 0.0f, ry = 0.0f, rz = 0.0f;
#if MIXED
                UNROLL_ALL
                for (int k = 0; k < TARGETS; k++)
                    nearest[k] = PADDING_COORDINATE;
#endif
                UNROLL(UNROLL_BY)
                for (int t = 0; t < 32; t++) {
                    const float4 source = tile[g * 64 + lane + t];
                    UNROLL_ALL
                    for (int k = 0; k < TARGETS; k++) {
                        const float dx = source.x - px[k], dy = source.y - py[k], dz = source.z - pz[k];
                        const float rho2 = FMA(dx, dx, FMA(dy, dy, FMA(dz, dz, coarse_eps2)));
                        const float root = RSQRT_APPROX(rho2);
                        const float cube = root * (root * root);
#if MIXED
                        nearest[k] = MIN(nearest[k], rho2);
#endif
#if EQUAL_MASSES
                        const float wi = cube, wj = cube;
#else
                        const float wi = source.w * cube, wj = pm[k] * cube;
#endif
                        ax[k] = FMA(wi, dx, ax[k]);
                        ay[k] = FMA(wi, dy, ay[k]);
                        az[k] = FMA(wi, dz, az[k]);
                        rx = FMA(wj, dx, rx);
                        ry = FMA(wj, dy, ry);
                        rz = FMA(wj, dz, rz);
                    }
                    HAND_ON(rx, ry, rz);
                }
#if MIXED
                int is_near = 0;
                UNROLL_ALL
                for (int k = 0; k < TARGETS; k++)
                    is_near |= nearest[k] < near_share * FMA(px[k], px[k], FMA(py[k], py[k], pz[k] * pz[k]));
                if (ANY_LANE(is_near)) {
                    const size_t there = (size_t)J * (BLOCK_SIZE * TARGETS) + s + g * 32;
                    for (int t = 0; t < 32; t++) {
                        const float4 source = tile[g * 64 + lane + t], source_low = low[there + (lane + t) % 32];
                        UNROLL_ALL
                        for (int k = 0; k < TARGETS; k++) {
                            float dx = source.x - px[k], dy = source.y - py[k], dz = source.z - pz[k];
                            float rho2 = FMA(dx, dx, FMA(dy, dy, FMA(dz, dz, coarse_eps2)));
                            if (rho2 < near_share * FMA(px[k], px[k], FMA(py[k], py[k], pz[k] * pz[k]))) {
                                const float4 own_low = low[mine + k * BLOCK_SIZE];
                                float root = RSQRT_APPROX(rho2);
                                float cube = root * (root * root);
                                const float ex = dx + (source_low.x - own_low.x), ey = dy + (source_low.y - own_low.y),
                                            ez = dz + (source_low.z - own_low.z);
                                rho2 = FMA(ex, ex, FMA(ey, ey, FMA(ez, ez, eps2)));
                                root = RSQRT_APPROX(rho2);
                                const float right = root * (root * root);
                                dx = right * ex - cube * dx;
                                dy = right * ey - cube * dy;
                                dz = right * ez - cube * dz;
#if EQUAL_MASSES
                                const float mi = 1.0f, mj = 1.0f;
#else
                                const float mi = source.w, mj = pm[k];
#endif
                                ax[k] = FMA(mi, dx, ax[k]);
                                ay[k] = FMA(mi, dy, ay[k]);
                                az[k] = FMA(mi, dz, az[k]);
                                rx = FMA(mj, dx, rx);
                                ry = FMA(mj, dy, ry);
                                rz = FMA(mj, dz, rz);
                            }
                        }
                        HAND_ON(rx, ry, rz);
                    }
                }
#endif
                pulled[warp][0][g * 32 + lane] = rx;
                pulled[warp][1][g * 32 + lane] = ry;
                pulled[warp][2][g * 32 + lane] = rz;
            }
            BARRIER();
            for (int a = 0; a < 3; a++) {
                float sum = 0.0f;
                for (int w = 0; w < BLOCK_SIZE / 32; w++)
                    sum += pulled[w][a][THREAD];
                GLOBAL double* to = others + ((size_t)(d - first) * 3 + a) * padded + j;
                *to = (fresh ? 0.0 : *to) - (double)sum;
            }
        }
    }
    UNROLL_ALL
    for (int k = 0; k < TARGETS; k++) {
        const float sum[3] = { ax[k], ay[k], az[k] };
        for (int a = 0; a < 3; a++) {
            GLOBAL double* to = own + ((size_t)c * 3 + a) * padded + mine + k * BLOCK_SIZE;
            *to = (fresh ? 0.0 : *to) + (double)sum[a];
        }
    }
}

// The pairs within each block, for one body at a time: both parts of every coordinate, its own term left out.
KERNEL(BLOCK_SIZE)
within_blocks(GLOBAL const float4* RESTRICT high, GLOBAL const float4* RESTRICT low,
    GLOBAL const double* RESTRICT frame, int blocks, GLOBAL double* RESTRICT sums)
{
    SHARED float4 tile[BLOCK_SIZE];
    SHARED float4 tile_low[BLOCK_SIZE];
    const size_t padded = (size_t)blocks * (BLOCK_SIZE * TARGETS), block = (size_t)(BLOCK_INDEX / TARGETS) * (BLOCK_SIZE * TARGETS);
    const int own = (BLOCK_INDEX % TARGETS) * BLOCK_SIZE + THREAD;
    const float4 p = high[block + own], p_low = low[block + own];
    const float eps2 = (float)frame[FRAME_EPS2];
    double total[3] = { 0, 0, 0 };
    for (int first = 0; first < BLOCK_SIZE * TARGETS; first += BLOCK_SIZE) {
        BARRIER();
        tile[THREAD] = high[block + first + THREAD];
        tile_low[THREAD] = low[block + first + THREAD];
        BARRIER();
        float sum[3] = { 0, 0, 0 };
        UNROLL(8)
        for (int t = 0; t < BLOCK_SIZE; t++) {
            const float4 q = tile[t], q_low = tile_low[t];
            const float dx = (q.x - p.x) + (q_low.x - p_low.x), dy = (q.y - p.y) + (q_low.y - p_low.y),
                        dz = (q.z - p.z) + (q_low.z - p_low.z);
            float rho2 = FMA(dx, dx, FMA(dy, dy, FMA(dz, dz, eps2)));
            rho2 = first + t == own ? 1.0f : rho2;
            const float root = RSQRT_APPROX(rho2);
#if EQUAL_MASSES
            float w = q.w > 0.0f ? root * (root * root) : 0.0f;
#else
            float w = (q.w * root) * (root * root);
#endif
            w = first + t == own ? 0.0f : w;
            sum[0] = FMA(w, dx, sum[0]);
            sum[1] = FMA(w, dy, sum[1]);
            sum[2] = FMA(w, dz, sum[2]);
        }
        for (int a = 0; a < 3; a++)
            total[a] += (double)sum[a];
    }
    for (int a = 0; a < 3; a++)
        sums[a * padded + block + own] = total[a];
}

KERNEL(128)
add_rounds(GLOBAL const double* RESTRICT within, GLOBAL const double* RESTRICT own, int chunks,
    GLOBAL const double* RESTRICT others, int distances, GLOBAL const float4* RESTRICT high,
    GLOBAL const double* RESTRICT frame, int n, int padded, GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay,
    GLOBAL double* RESTRICT az)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
    double sum[3];
    for (int a = 0; a < 3; a++) {
        sum[a] = within[a * (size_t)padded + i];
        UNROLL(4)
        for (int c = 0; c < chunks; c++)
            sum[a] += own[((size_t)c * 3 + a) * padded + i];
        UNROLL(4)
        for (int d = 0; d < distances; d++)
            sum[a] += others[((size_t)d * 3 + a) * padded + i];
    }
#if EQUAL_MASSES
    const double unit = frame[FRAME_ACCELERATION_UNIT] * (double)high[0].w;
#else
    const double unit = frame[FRAME_ACCELERATION_UNIT];
#endif
    ax[i] = unit * sum[0];
    ay[i] = unit * sum[1];
    az[i] = unit * sum[2];
}
