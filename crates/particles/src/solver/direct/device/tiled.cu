// One tile of sources at a time through SHARED memory; each thread carries TARGETS bodies in registers. Group g
// works on targets g % target_groups against one of `splits` ranges of the sources, so that few targets still fill
// the device. The group that is the last to arrive adds the ranges, in their order, whoever it is: a launch of its own
// for that would cost 4,096 bodies an eighth of their time.
//
// PRECISION 1: f32 coordinates, products and sums. 2: differences taken between coordinates of two f32 parts, so
// that they are right to f32 however near the bodies are; sums of a tile in f32, of tiles in f64. 3: f64.

#if PRECISION == 3
typedef double real;
typedef double4 real4;
typedef double4 sum4;
typedef double part;
#define REAL4 DOUBLE4
#define REAL_FMA FMA64
#define REAL_ROOT rsqrt64
#define REACH(x) (x)
#elif PRECISION == 2
typedef float real;
typedef float4 real4;
typedef double4 sum4;
typedef double part;
#define REAL4 FLOAT4
#define REAL_FMA FMA
#define REAL_ROOT RSQRT_APPROX
#else
typedef float real;
typedef float4 real4;
typedef float4 sum4;
typedef float part;
#define REAL4 FLOAT4
#define REAL_FMA FMA
#define REAL_ROOT RSQRT_APPROX
#endif
#if !defined(REACH)
#define REACH(x) clamp_coordinate(x)
#endif

KERNEL_MIN_BLOCKS(BLOCK_SIZE, RESIDENT)
tiled(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, int n, double g, double eps, double total_mass,
    int target_groups, int sources_per_split, GLOBAL sum4* parts, GLOBAL uint* arrived, GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay,
    GLOBAL double* RESTRICT az
#if POTENTIAL
    , GLOBAL double* RESTRICT potential
#endif
)
{
    SHARED real4 tile[BLOCK_SIZE];
    SHARED int is_last;
    SHARED double scratch[4 * FRAME_SAMPLE];
    SHARED double frame[FRAME_SLOTS];
    // Every group finds the same frame: for few bodies that is quicker than a launch that they all wait for.
    find_frame_in_block(x, y, z, n, g, eps, total_mass, PRECISION != 3, scratch, frame);
#if PRECISION == 2
    SHARED real4 tile_low[BLOCK_SIZE];
    real low[TARGETS][3];
#endif
    const int own = (BLOCK_INDEX % target_groups) * (BLOCK_SIZE * TARGETS);
    const int split = (int)((uint)BLOCK_INDEX / (uint)target_groups); // unsigned: see pairs_once.cu
    const double origin[3] = { frame[FRAME_ORIGIN], frame[FRAME_ORIGIN + 1], frame[FRAME_ORIGIN + 2] };
    const double length = frame[FRAME_LENGTH_SCALE], masses = frame[FRAME_MASS_SCALE];
    const real eps2 = (real)frame[FRAME_EPS2];

    real target[TARGETS][3];
    real sum[TARGETS][4];
#if PRECISION == 2
    double total[TARGETS][4];
#endif
    UNROLL_ALL
    for (int k = 0; k < TARGETS; k++) {
        int i = own + k * BLOCK_SIZE + THREAD;
        i = i < n ? i : n - 1;
        double place[3] = { REACH((x[i] - origin[0]) * length), REACH((y[i] - origin[1]) * length),
            REACH((z[i] - origin[2]) * length) };
        for (int c = 0; c < 3; c++) {
            target[k][c] = (real)place[c];
#if PRECISION == 2
            low[k][c] = (real)(place[c] - (double)target[k][c]);
#endif
        }
        for (int c = 0; c < 4; c++) {
            sum[k][c] = 0;
#if PRECISION == 2
            total[k][c] = 0;
#endif
        }
    }

    const int begin = split * sources_per_split;
    const int end = n - begin < sources_per_split ? n : begin + sources_per_split;
    for (int first = begin; first < end; first += BLOCK_SIZE) {
        const int j = first + THREAD;
        real4 source = REAL4(PADDING_COORDINATE, PADDING_COORDINATE, PADDING_COORDINATE, 0);
#if PRECISION == 2
        real4 source_low = REAL4(0, 0, 0, 0);
#endif
        if (j < end) {
            double place[3] = { REACH((x[j] - origin[0]) * length), REACH((y[j] - origin[1]) * length),
                REACH((z[j] - origin[2]) * length) };
            source = REAL4((real)place[0], (real)place[1], (real)place[2], (real)(mass[j] * masses));
#if PRECISION == 2
            source_low = REAL4((real)(place[0] - (double)source.x), (real)(place[1] - (double)source.y),
                (real)(place[2] - (double)source.z), 0);
#endif
        }
        BARRIER();
        tile[THREAD] = source;
#if PRECISION == 2
        tile_low[THREAD] = source_low;
#endif
        BARRIER();

        // With softening a body's own term is zero times something finite. Without, and in potentials, the tiles that
        // hold targets take it out; the others, nearly all, need not look.
#if defined(POCL_DEVICE_ADDRESS_BITS)
        // PoCL 5.0 miscompiles a choice between loops within a loop with barriers, by chance anew in every build.
        const int holds_own = 1;
#else
        const int holds_own = (POTENTIAL || eps2 < (real)1e-24) && first < own + BLOCK_SIZE * TARGETS && own < first + BLOCK_SIZE;
#endif

#if PRECISION == 2
#define DIFFERENCE(axis, c) ((s.axis - target[k][c]) + (s_low.axis - low[k][c]))
#define LOAD_LOW const real4 s_low = tile_low[t];
#else
#define DIFFERENCE(axis, c) (s.axis - target[k][c])
#define LOAD_LOW
#endif
#if POTENTIAL
#define ADD_POTENTIAL sum[k][3] = REAL_FMA(-m, root, sum[k][3]);
#else
#define ADD_POTENTIAL
#endif
#define ATTRACT(CHECK)                                                                                               \
    {                                                                                                                \
        const real4 s = tile[t];                                                                                     \
        LOAD_LOW                                                                                                     \
        UNROLL_ALL                                                                                              \
        for (int k = 0; k < TARGETS; k++) {                                                                          \
            const real dx = DIFFERENCE(x, 0), dy = DIFFERENCE(y, 1), dz = DIFFERENCE(z, 2);                          \
            real rho2 = REAL_FMA(dx, dx, REAL_FMA(dy, dy, REAL_FMA(dz, dz, eps2)));                                  \
            real m = s.w;                                                                                            \
            CHECK                                                                                                    \
            const real root = REAL_ROOT(rho2);                                                                       \
            const real w = (m * root) * (root * root);                                                               \
            sum[k][0] = REAL_FMA(w, dx, sum[k][0]);                                                                  \
            sum[k][1] = REAL_FMA(w, dy, sum[k][1]);                                                                  \
            sum[k][2] = REAL_FMA(w, dz, sum[k][2]);                                                                  \
            ADD_POTENTIAL                                                                                            \
        }                                                                                                            \
    }
        if (holds_own) {
            UNROLL(4)
            for (int t = 0; t < BLOCK_SIZE; t++)
                ATTRACT(if (first + t == own + k * BLOCK_SIZE + THREAD) { rho2 = 1; m = 0; })
        } else {
            UNROLL(UNROLL_BY)
            for (int t = 0; t < BLOCK_SIZE; t++)
                ATTRACT()
        }
#if PRECISION == 2
        UNROLL_ALL
        for (int k = 0; k < TARGETS; k++)
            for (int c = 0; c < 4; c++) {
                total[k][c] += (double)sum[k][c];
                sum[k][c] = 0;
            }
#endif
    }

    const size_t padded = (size_t)target_groups * (BLOCK_SIZE * TARGETS);
    UNROLL_ALL
    for (int k = 0; k < TARGETS; k++) {
        const size_t at = split * padded + own + k * BLOCK_SIZE + THREAD;
#if PRECISION == 2
        parts[at] = DOUBLE4(total[k][0], total[k][1], total[k][2], total[k][3]);
#else
        parts[at] = REAL4(sum[k][0], sum[k][1], sum[k][2], sum[k][3]);
#endif
    }
    FENCE();
    BARRIER();
    const int splits = (int)((uint)BLOCK_COUNT / (uint)target_groups);
    if (THREAD == 0)
        is_last = (int)ATOMIC_ADD_U32(arrived + BLOCK_INDEX % target_groups, 1) == splits - 1;
    BARRIER();
    if (is_last) {
        FENCE();
        if (THREAD == 0)
            arrived[BLOCK_INDEX % target_groups] = 0;
        for (int k = 0; k < TARGETS; k++) {
            const int i = own + k * BLOCK_SIZE + THREAD;
            if (i < n) {
                double all[4] = { 0, 0, 0, 0 };
                UNROLL(4)
                for (int s = 0; s < splits; s++) {
                    // Written by other groups: not to be had from a cache of this one.
                    GLOBAL const volatile part* one = (GLOBAL const volatile part*)(parts + (s * padded + i));
                    all[0] += one[0];
                    all[1] += one[1];
                    all[2] += one[2];
#if POTENTIAL
                    all[3] += one[3];
#endif
                }
                ax[i] = frame[FRAME_ACCELERATION_UNIT] * all[0];
                ay[i] = frame[FRAME_ACCELERATION_UNIT] * all[1];
                az[i] = frame[FRAME_ACCELERATION_UNIT] * all[2];
#if POTENTIAL
                potential[i] = frame[FRAME_POTENTIAL_UNIT] * all[3];
#endif
            }
        }
    }
}
