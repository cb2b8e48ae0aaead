// All-pairs gravity, tiled.
//
// Each thread block has BLOCK_SIZE x TARGETS_PER_THREAD targets in registers and streams sources
// through SHARED memory, one tile of BLOCK_SIZE bodies at a time. The sources are split into
// ranges, so that few targets still fill the device. Thread block b computes the target block
// b % target_blocks with the range b / target_blocks. For example, 4,096 bodies in target blocks of
// 256 and 16 ranges of sources are 256 thread blocks. The last thread block of each target block to
// finish adds the partial sums of the ranges, always in the same order. A separate launch for this
// addition would take an eighth of the time of 4,096 bodies.
//
// Cost per interaction: 13 issue slots (3 subtractions, 3 FMA, 1 reciprocal square root, 3
// multiplications, 3 FMA). On an H200 an FMA that reads three different registers issues at 68% of
// the peak rate. That limits this kernel to 2.1e12 interactions/s in f32. With 8,192 bodies and
// more, pairs_once.cu is faster in f32.
//
// In mixed precision, differences of coordinates are correct to f32 however near the bodies are.

// real: coordinates and sums over a tile. partial: sums over a range of sources.
#if PRECISION == PRECISION_DOUBLE
typedef double real;
typedef double4 real4;
#define REAL4 DOUBLE4
#define REAL_FMA FMA64
#define REAL_RSQRT rsqrt64
#define CLAMP_COORDINATE(x) (x)
#else
typedef float real;
typedef float4 real4;
#define REAL4 FLOAT4
#define REAL_FMA FMA
#define REAL_RSQRT RSQRT_APPROX
#define CLAMP_COORDINATE(x) clamp_coordinate(x)
#endif

#if PRECISION == PRECISION_SINGLE
typedef float partial;
typedef float4 partial4;
#else
typedef double partial;
typedef double4 partial4;
#endif

#define TARGETS_PER_BLOCK (BLOCK_SIZE * TARGETS_PER_THREAD)

// The targets are all bodies, or with TARGET_RANGE those from targets_begin to targets_end - 1.
#if TARGET_RANGE
#define TARGETS_BEGIN targets_begin
#define TARGETS_END targets_end
#else
#define TARGETS_BEGIN 0
#define TARGETS_END n
#endif

// PoCL 5.0 miscompiles a choice between two loops inside a loop with barriers. Whether it does
// changes at random from build to build. It therefore gets only one loop.
#if defined(POCL_DEVICE_ADDRESS_BITS)
#define ALWAYS_SKIP_SELF 1
#else
#define ALWAYS_SKIP_SELF 0
#endif

// The slots of the frame that scale a body.
typedef struct {
    double origin[3], length_scale, mass_scale;
} BodyScale;

// A body in the registers of a thread. `sum` is acceleration and potential.
typedef struct {
    real position[3];
    real sum[4];
#if PRECISION == PRECISION_MIXED
    real low[3];     // low parts of the position
    double total[4]; // sum over the tiles before this one
#endif
} Target;

// Computes the scaled position of a body in f64.
FUNCTION void scale_position(double* position, GLOBAL const double* RESTRICT x,
    GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z, int body, BodyScale scale)
{
    position[0] = CLAMP_COORDINATE((x[body] - scale.origin[0]) * scale.length_scale);
    position[1] = CLAMP_COORDINATE((y[body] - scale.origin[1]) * scale.length_scale);
    position[2] = CLAMP_COORDINATE((z[body] - scale.origin[2]) * scale.length_scale);
}

// Loads this thread's targets. Threads past the last body load the last body, and do not write
// results. Those past the last target load other bodies and do not write results either.
FUNCTION void load_targets(Target* targets, GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, int n, int first_target, BodyScale scale)
{
    UNROLL_ALL
    for (int t = 0; t < TARGETS_PER_THREAD; t++) {
        int body = first_target + t * BLOCK_SIZE + THREAD;
        body = body < n ? body : n - 1;
        double position[3];
        scale_position(position, x, y, z, body, scale);
        for (int axis = 0; axis < 3; axis++) {
            targets[t].position[axis] = (real)position[axis];
#if PRECISION == PRECISION_MIXED
            targets[t].low[axis] = (real)(position[axis] - (double)targets[t].position[axis]);
#endif
        }
        for (int c = 0; c < 4; c++) {
            targets[t].sum[c] = 0;
#if PRECISION == PRECISION_MIXED
            targets[t].total[c] = 0;
#endif
        }
    }
}

// Adds the attraction of one source to the sums of a target. Adds 0 if `is_self`. `source_low` is
// used in mixed precision only.
FUNCTION void add_interaction(Target* target, real4 source, real4 source_low, real eps2, int is_self)
{
#if PRECISION == PRECISION_MIXED
    const real dx = (source.x - target->position[0]) + (source_low.x - target->low[0]),
               dy = (source.y - target->position[1]) + (source_low.y - target->low[1]),
               dz = (source.z - target->position[2]) + (source_low.z - target->low[2]);
#else
    const real dx = source.x - target->position[0], dy = source.y - target->position[1],
               dz = source.z - target->position[2];
#endif
    real rho2 = REAL_FMA(dx, dx, REAL_FMA(dy, dy, REAL_FMA(dz, dz, eps2)));
    real mass = source.w;
    if (is_self) {
        rho2 = 1;
        mass = 0;
    }
    const real inv_r = REAL_RSQRT(rho2);
    const real weight = (mass * inv_r) * (inv_r * inv_r);
    target->sum[0] = REAL_FMA(weight, dx, target->sum[0]);
    target->sum[1] = REAL_FMA(weight, dy, target->sum[1]);
    target->sum[2] = REAL_FMA(weight, dz, target->sum[2]);
#if POTENTIAL
    target->sum[3] = REAL_FMA(-mass, inv_r, target->sum[3]);
#endif
}

// Returns the low parts of a source, 0 unless in mixed precision.
FUNCTION real4 load_low(SHARED_POINTER const real4* tile_low, int source)
{
#if PRECISION == PRECISION_MIXED
    return tile_low[source];
#else
    return REAL4(0, 0, 0, 0);
#endif
}

// Adds the attraction of all sources of a tile to this thread's targets.
FUNCTION void add_tile(
    Target* targets, SHARED_POINTER const real4* tile, SHARED_POINTER const real4* tile_low, real eps2)
{
    UNROLL(UNROLL_BY)
    for (int source = 0; source < BLOCK_SIZE; source++) {
        const real4 body = tile[source], low = load_low(tile_low, source);
        UNROLL_ALL
        for (int t = 0; t < TARGETS_PER_THREAD; t++)
            add_interaction(&targets[t], body, low, eps2, 0);
    }
}

// As `add_tile`, for a tile that may contain targets: a body does not attract itself.
FUNCTION void add_tile_without_self(Target* targets, SHARED_POINTER const real4* tile,
    SHARED_POINTER const real4* tile_low, real eps2, int first_source, int first_target)
{
    UNROLL(4)
    for (int source = 0; source < BLOCK_SIZE; source++) {
        const real4 body = tile[source], low = load_low(tile_low, source);
        UNROLL_ALL
        for (int t = 0; t < TARGETS_PER_THREAD; t++)
            add_interaction(&targets[t], body, low, eps2,
                first_source + source == first_target + t * BLOCK_SIZE + THREAD);
    }
}

// A source: scaled position and mass, and in mixed precision the low parts of the position.
typedef struct {
    real4 body, low;
} Source;

// Loads a source. Past the end of the range it is massless padding.
FUNCTION Source load_source(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, int index, int end, BodyScale scale)
{
    real4 body = REAL4(PADDING_COORDINATE, PADDING_COORDINATE, PADDING_COORDINATE, 0);
    real4 low = REAL4(0, 0, 0, 0);
    if (index < end) {
        double position[3];
        scale_position(position, x, y, z, index, scale);
        body = REAL4((real)position[0], (real)position[1], (real)position[2],
            (real)(mass[index] * scale.mass_scale));
#if PRECISION == PRECISION_MIXED
        low = REAL4((real)(position[0] - (double)body.x), (real)(position[1] - (double)body.y),
            (real)(position[2] - (double)body.z), 0);
#endif
    }
    const Source source = { body, low };
    return source;
}

// Moves the f32 sums of a tile to the f64 totals, in mixed precision.
FUNCTION void add_tile_to_totals(Target* targets)
{
#if PRECISION == PRECISION_MIXED
    UNROLL_ALL
    for (int t = 0; t < TARGETS_PER_THREAD; t++)
        for (int c = 0; c < 4; c++) {
            targets[t].total[c] += (double)targets[t].sum[c];
            targets[t].sum[c] = 0;
        }
#endif
}

// Writes this thread's sums over one range of sources. `first` is the element of its first target.
FUNCTION void write_partial_sums(const Target* targets, GLOBAL partial4* partial_sums, size_t first)
{
    UNROLL_ALL
    for (int t = 0; t < TARGETS_PER_THREAD; t++) {
#if PRECISION == PRECISION_MIXED
        const double* sum = targets[t].total;
        partial_sums[first + t * BLOCK_SIZE] = DOUBLE4(sum[0], sum[1], sum[2], sum[3]);
#else
        const real* sum = targets[t].sum;
        partial_sums[first + t * BLOCK_SIZE] = REAL4(sum[0], sum[1], sum[2], sum[3]);
#endif
    }
}

// Adds the partial sums of one target over all ranges, in order. `partial_sums` is [split][target].
FUNCTION void add_partial_sums(
    double* sum, GLOBAL const partial4* partial_sums, int splits, size_t padded_count, int target)
{
    UNROLL(4)
    for (int split = 0; split < splits; split++) {
        // Volatile, because other thread blocks wrote it: it must not come from this SM's cache.
        GLOBAL const volatile partial* part
            = (GLOBAL const volatile partial*)(partial_sums + (split * padded_count + target));
        sum[0] += part[0];
        sum[1] += part[1];
        sum[2] += part[2];
#if POTENTIAL
        sum[3] += part[3];
#endif
    }
}

// Adds the attraction of the sources begin .. end - 1 to this thread's targets. All threads of the
// block must call it.
FUNCTION void add_range(Target* targets, GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, int begin, int end,
    int first_target, BodyScale scale, real eps2, SHARED_POINTER real4* tile, SHARED_POINTER real4* tile_low)
{
    for (int first_source = begin; first_source < end; first_source += BLOCK_SIZE) {
        const Source source = load_source(x, y, z, mass, first_source + THREAD, end, scale);
        BARRIER();
        tile[THREAD] = source.body;
#if PRECISION == PRECISION_MIXED
        tile_low[THREAD] = source.low;
#endif
        BARRIER();
        // With softening a body's own term is 0 times a finite number. Without softening, and in
        // potentials, tiles that contain targets must skip it. Nearly all tiles contain none. (Not
        // a function: that changed the code of the potential kernels by up to 9%.)
        const int must_skip_self = ALWAYS_SKIP_SELF
            || ((POTENTIAL || eps2 < (real)1e-24) && first_source < first_target + TARGETS_PER_BLOCK
                && first_target < first_source + BLOCK_SIZE);
        if (must_skip_self)
            add_tile_without_self(targets, tile, tile_low, eps2, first_source, first_target);
        else
            add_tile(targets, tile, tile_low, eps2);
        add_tile_to_totals(targets);
    }
}

// Adds the partial sums of this thread's targets and writes them in the user's units. `begin` and
// `end` are the range of all targets. `potential` is not used if POTENTIAL is 0.
FUNCTION void write_results(GLOBAL const partial4* partial_sums, int splits, size_t padded_count,
    int first_target, int begin, int end, SHARED_POINTER const double* frame, GLOBAL double* RESTRICT ax,
    GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az, GLOBAL double* RESTRICT potential)
{
    for (int t = 0; t < TARGETS_PER_THREAD; t++) {
        const int body = first_target + t * BLOCK_SIZE + THREAD;
        if (body < end) {
            double sum[4] = { 0, 0, 0, 0 };
            add_partial_sums(sum, partial_sums, splits, padded_count, body - begin);
            ax[body] = frame[FRAME_ACCELERATION_UNIT] * sum[0];
            ay[body] = frame[FRAME_ACCELERATION_UNIT] * sum[1];
            az[body] = frame[FRAME_ACCELERATION_UNIT] * sum[2];
#if POTENTIAL
            potential[body] = frame[FRAME_POTENTIAL_UNIT] * sum[3];
#endif
        }
    }
}

#if POTENTIAL
#define POTENTIAL_OUTPUT potential
#else
#define POTENTIAL_OUTPUT ((GLOBAL double*)0)
#endif

// `partial_sums` has one element per split and padded target. `blocks_done` counts the thread
// blocks that finished each target block and is all 0 between launches.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
tiled(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, int n, double g, double eps, double total_mass, int target_blocks,
    int sources_per_split, GLOBAL partial4* partial_sums, GLOBAL uint* blocks_done,
    GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az
#if POTENTIAL
    , GLOBAL double* RESTRICT potential
#endif
#if TARGET_RANGE
    , int targets_begin, int targets_end
#endif
)
{
    SHARED real4 tile[BLOCK_SIZE];
    SHARED int is_last;
    SHARED double scratch[4 * FRAME_SAMPLE];
    SHARED double frame[FRAME_UNIT_SLOTS];
#if PRECISION == PRECISION_MIXED
    SHARED real4 tile_low[BLOCK_SIZE];
#else
    SHARED_POINTER real4* tile_low = 0;
#endif
    // Every thread block computes the same frame. For few bodies that is faster than a separate
    // launch that all of them wait for.
    find_frame_in_block(x, y, z, n, g, eps, total_mass, PRECISION != PRECISION_DOUBLE, scratch, frame);
    const int target_block = BLOCK_INDEX % target_blocks;
    const int first_target = TARGETS_BEGIN + target_block * TARGETS_PER_BLOCK;
    // Unsigned divisions: see pairs_once.cu.
    const int split = (int)((uint)BLOCK_INDEX / (uint)target_blocks);
    const BodyScale scale = { { frame[FRAME_ORIGIN], frame[FRAME_ORIGIN + 1], frame[FRAME_ORIGIN + 2] },
        frame[FRAME_LENGTH_SCALE], frame[FRAME_MASS_SCALE] };
    const real eps2 = (real)frame[FRAME_EPS2];
    Target targets[TARGETS_PER_THREAD];
    load_targets(targets, x, y, z, n, first_target, scale);

    const int begin = split * sources_per_split;
    const int end = n - begin < sources_per_split ? n : begin + sources_per_split;
    add_range(targets, x, y, z, mass, begin, end, first_target, scale, eps2, tile, tile_low);

    const size_t padded_count = (size_t)target_blocks * TARGETS_PER_BLOCK;
    write_partial_sums(targets, partial_sums, split * padded_count + (first_target - TARGETS_BEGIN) + THREAD);
    DEVICE_FENCE();
    BARRIER();
    const int splits = (int)((uint)BLOCK_COUNT / (uint)target_blocks);
    if (THREAD == 0)
        is_last = (int)ATOMIC_ADD_U32(blocks_done + target_block, 1) == splits - 1;
    BARRIER();
    if (is_last) {
        DEVICE_FENCE();
        if (THREAD == 0)
            blocks_done[target_block] = 0;
        write_results(partial_sums, splits, padded_count, first_target, TARGETS_BEGIN, TARGETS_END, frame, ax, ay,
            az, POTENTIAL_OUTPUT);
    }
}
