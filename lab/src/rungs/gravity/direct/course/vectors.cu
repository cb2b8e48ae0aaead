// All-pairs gravity of the second course, in f32: every thread sums the forces on its bodies, with
// a body's own term, which softening keeps finite and whose difference is zero.
//
// LAYOUT: how `bodies` contains the bodies, and what a thread loads of one. vectors.rs defines the
// names (`BodyLayout`).
//   LAYOUT_STRUCTS  structures of 7 floats (x, y, z, velocity, mass): four loads of a stride of 28
//                   bytes
//   LAYOUT_ARRAYS   a structure of arrays (x, y, z, mass): four loads
//   LAYOUT_FLOAT4   float4 (x, y, z, mass): one load of 16 bytes
// TILED 1: a block loads BLOCK_SIZE bodies at a time into shared memory, as float4.
//
// The loop over targets has the stride of the grid, so any number of blocks is correct. All threads
// of a warp load the same source, so a load is one request. The kernels are limited by requests to
// the L1 cache (LAYOUT_STRUCTS and LAYOUT_ARRAYS) or by arithmetic.

#define FLOATS_PER_STRUCTURE 7
#define STRUCTURE_MASS 6

FUNCTION float4 load_body(GLOBAL const float* RESTRICT bodies, int n, int i)
{
#if LAYOUT == LAYOUT_STRUCTS
    GLOBAL const float* body = bodies + FLOATS_PER_STRUCTURE * (size_t)i;
    return FLOAT4(body[0], body[1], body[2], body[STRUCTURE_MASS]);
#elif LAYOUT == LAYOUT_ARRAYS
    const size_t stride = n;
    return FLOAT4(bodies[i], bodies[stride + i], bodies[2 * stride + i], bodies[3 * stride + i]);
#else
    return ((GLOBAL const float4*)bodies)[i];
#endif
}

// Writes the scaled bodies in f32. Velocities stay as they are.
KERNEL(128)
convert_bodies(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame,
    int n, GLOBAL float* RESTRICT bodies)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
#if LAYOUT == LAYOUT_STRUCTS
    const size_t first = FLOATS_PER_STRUCTURE * (size_t)i, stride = 1, mass_slot = STRUCTURE_MASS;
#elif LAYOUT == LAYOUT_ARRAYS
    const size_t first = i, stride = n, mass_slot = 3;
#else
    const size_t first = 4 * (size_t)i, stride = 1, mass_slot = 3;
#endif
    bodies[first] = (float)SCALED_COORDINATE(frame, 0, x[i]);
    bodies[first + stride] = (float)SCALED_COORDINATE(frame, 1, y[i]);
    bodies[first + 2 * stride] = (float)SCALED_COORDINATE(frame, 2, z[i]);
    bodies[first + mass_slot * stride] = (float)(mass[i] * frame[FRAME_MASS_SCALE]);
}

// Converts the sums, three numbers per body, to accelerations in the user's units.
KERNEL(128)
scale_sums(GLOBAL const float* RESTRICT sums, GLOBAL const double* RESTRICT frame, int n,
    GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
    ax[i] = frame[FRAME_ACCELERATION_UNIT] * sums[3 * (size_t)i];
    ay[i] = frame[FRAME_ACCELERATION_UNIT] * sums[3 * (size_t)i + 1];
    az[i] = frame[FRAME_ACCELERATION_UNIT] * sums[3 * (size_t)i + 2];
}

// Sum of forces on a target.
typedef struct {
    float x, y, z;
} Sum;

FUNCTION void add_interaction(Sum* sum, float4 target, float4 source, float eps2)
{
    const float dx = source.x - target.x, dy = source.y - target.y, dz = source.z - target.z;
    const float inv_r = RSQRT(dx * dx + dy * dy + dz * dz + eps2);
    const float weight = source.w * (inv_r * inv_r * inv_r);
    sum->x += dx * weight;
    sum->y += dy * weight;
    sum->z += dz * weight;
}

FUNCTION void write_sum(GLOBAL float* RESTRICT sums, int i, const Sum* sum)
{
    sums[3 * (size_t)i] = sum->x;
    sums[3 * (size_t)i + 1] = sum->y;
    sums[3 * (size_t)i + 2] = sum->z;
}

#if TILED

// In the course, the loop over targets ends for each thread by itself, and threads without a body
// miss the barriers of the others. Here it ends for a whole block, so n need not be a multiple of
// the block size.
KERNEL(BLOCK_SIZE)
sum_pairs(GLOBAL const float* RESTRICT bodies, GLOBAL float* RESTRICT sums, float eps2, int n)
{
    SHARED float4 tile[BLOCK_SIZE];
    for (int first = BLOCK_INDEX * BLOCK_SIZE; first < n; first += BLOCK_COUNT * BLOCK_SIZE) {
        const int own = first + THREAD;
        const float4 target = load_body(bodies, n, own < n ? own : n - 1);
        Sum sum = { 0.0f, 0.0f, 0.0f };
        for (int first_source = 0; first_source < n; first_source += BLOCK_SIZE) {
            const int loaded = first_source + THREAD;
            BARRIER();
            tile[THREAD] = loaded < n ? load_body(bodies, n, loaded) : FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
            BARRIER();
            UNROLL(UNROLL_BY)
            for (int source = 0; source < BLOCK_SIZE; source++)
                add_interaction(&sum, target, tile[source], eps2);
        }
        if (own < n)
            write_sum(sums, own, &sum);
    }
}

#else

KERNEL(BLOCK_SIZE)
sum_pairs(GLOBAL const float* RESTRICT bodies, GLOBAL float* RESTRICT sums, float eps2, int n)
{
    for (int i = BLOCK_INDEX * BLOCK_SIZE + THREAD; i < n; i += BLOCK_COUNT * BLOCK_SIZE) {
        const float4 target = load_body(bodies, n, i);
        Sum sum = { 0.0f, 0.0f, 0.0f };
        UNROLL(UNROLL_BY)
        for (int source = 0; source < n; source++)
            add_interaction(&sum, target, load_body(bodies, n, source), eps2);
        write_sum(sums, i, &sum);
    }
}

#endif
