// All-pairs gravity in the optimisation steps of a course on GPU programming. RUNG is the number of
// steps taken. Each step keeps those before it, except that the tiles bring the `if` back.
// Everything is in f32 and needs softening.
//
//   0 one thread for all bodies   4 reciprocal square root    8 without the `if`
//   1 one thread per body         5 two loops, no `if`        9 terms arranged for FMA
//   2 structure of arrays         6 tiles in SHARED memory   10 unrolled further (UNROLL_BY)
//   3 parameters in CONSTANT      7 unrolled                 11, 12 other compiler flags

typedef struct {
    float mass, x, y, z, u, v, w, ax, ay, az;
} Body;

// Writes the scaled bodies in f32, as structures (RUNG < 2) or as arrays x, y, z, mass of one
// buffer.
KERNEL(128)
convert_bodies(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame,
    int n, GLOBAL float* RESTRICT bodies)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
    const float px = (float)SCALED_COORDINATE(frame, 0, x[i]), py = (float)SCALED_COORDINATE(frame, 1, y[i]),
                pz = (float)SCALED_COORDINATE(frame, 2, z[i]), m = (float)(mass[i] * frame[FRAME_MASS_SCALE]);
#if RUNG < 2
    GLOBAL Body* body = (GLOBAL Body*)bodies + i;
    body->x = px;
    body->y = py;
    body->z = pz;
    body->mass = m;
#else
    bodies[i] = px;
    bodies[(size_t)n + i] = py;
    bodies[2 * (size_t)n + i] = pz;
    bodies[3 * (size_t)n + i] = m;
#endif
}

// Converts the sums to accelerations in the user's units.
KERNEL(128)
scale_sums(GLOBAL const float* RESTRICT sums, GLOBAL const double* RESTRICT frame, int n,
    GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
    ax[i] = frame[FRAME_ACCELERATION_UNIT] * sums[i];
    ay[i] = frame[FRAME_ACCELERATION_UNIT] * sums[(size_t)n + i];
    az[i] = frame[FRAME_ACCELERATION_UNIT] * sums[2 * (size_t)n + i];
}

FUNCTION float inverse_sqrt(float x)
{
#if RUNG < 4
    return 1.0f / SQRT(x);
#else
    return RSQRT(x);
#endif
}

// Returns the softened squared distance.
FUNCTION float softened_r2(float dx, float dy, float dz, float eps2)
{
#if RUNG < 9
    return (dx * dx + dy * dy + dz * dz) + eps2;
#else
    return dx * dx + (dy * dy + (dz * dz + eps2));
#endif
}

// Position of the target and the sum of forces on it.
typedef struct {
    float x, y, z, ax, ay, az;
} Target;

// Adds the attraction of a source at (x, y, z).
FUNCTION void add_interaction(Target* target, float x, float y, float z, float mass, float eps2)
{
    const float dx = x - target->x, dy = y - target->y, dz = z - target->z;
    const float inv_r = inverse_sqrt(softened_r2(dx, dy, dz, eps2));
    const float weight = mass * inv_r * inv_r * inv_r;
    target->ax += weight * dx;
    target->ay += weight * dy;
    target->az += weight * dz;
}

// Writes the sum of forces on target i of n to the arrays ax, ay, az of one buffer.
FUNCTION void write_sum(GLOBAL float* RESTRICT sums, int n, int i, const Target* target)
{
    sums[i] = target->ax;
    sums[(size_t)n + i] = target->ay;
    sums[2 * (size_t)n + i] = target->az;
}

#if RUNG < 2

KERNEL(BLOCK_SIZE)
sum_pairs(GLOBAL const float* RESTRICT bodies, float eps2, int n, GLOBAL float* RESTRICT sums)
{
    GLOBAL const Body* body = (GLOBAL const Body*)bodies;
#if RUNG == 0
    if (THREAD > 0)
        return;
    for (int i = 0; i < n; i++) {
#else
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) {
#endif
        Target target = { body[i].x, body[i].y, body[i].z, 0.0f, 0.0f, 0.0f };
        for (int j = 0; j < n; j++)
            if (i != j)
                add_interaction(&target, body[j].x, body[j].y, body[j].z, body[j].mass, eps2);
        write_sum(sums, n, i, &target);
    }
}

#else

#if RUNG == 2
#define PARAMETERS float eps2, int n
#define READ_PARAMETERS
#else
// Both compilers keep a kernel's read-only parameter block in constant memory.
#define PARAMETERS CONSTANT_POINTER const float* RESTRICT parameters
#define READ_PARAMETERS                                                                            \
    const float eps2 = parameters[0];                                                              \
    const int n = (int)FLOAT_AS_UINT(parameters[1]);
#endif

#if RUNG < 6

KERNEL(BLOCK_SIZE)
sum_pairs(GLOBAL const float* RESTRICT bodies, PARAMETERS, GLOBAL float* RESTRICT sums)
{
    READ_PARAMETERS
    GLOBAL const float *x = bodies, *y = bodies + n, *z = bodies + 2 * (size_t)n,
                       *mass = bodies + 3 * (size_t)n;
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) {
        Target target = { x[i], y[i], z[i], 0.0f, 0.0f, 0.0f };
#if RUNG < 5
        for (int j = 0; j < n; j++)
            if (i != j)
                add_interaction(&target, x[j], y[j], z[j], mass[j], eps2);
#else
        for (int j = 0; j < i; j++)
            add_interaction(&target, x[j], y[j], z[j], mass[j], eps2);
        for (int j = i + 1; j < n; j++)
            add_interaction(&target, x[j], y[j], z[j], mass[j], eps2);
#endif
        write_sum(sums, n, i, &target);
    }
}

#else

#if RUNG == 6
#define UNROLL_SOURCES UNROLL(1)
#else
#define UNROLL_SOURCES UNROLL(UNROLL_BY)
#endif

KERNEL(BLOCK_SIZE)
sum_pairs(GLOBAL const float* RESTRICT bodies, PARAMETERS, GLOBAL float* RESTRICT sums)
{
    READ_PARAMETERS
    SHARED float tile[4][BLOCK_SIZE]; // x, y, z, mass
    GLOBAL const float *x = bodies, *y = bodies + n, *z = bodies + 2 * (size_t)n,
                       *mass = bodies + 3 * (size_t)n;
    // Threads past the last body help to load tiles.
    const int own = BLOCK_INDEX * BLOCK_SIZE + THREAD, i = own < n ? own : n - 1;
    Target target = { x[i], y[i], z[i], 0.0f, 0.0f, 0.0f };
    for (int first_source = 0; first_source < n; first_source += BLOCK_SIZE) {
        const int loaded = first_source + THREAD;
        BARRIER();
        // Filled up with massless bodies, so that the loop below has a fixed length.
        tile[0][THREAD] = loaded < n ? x[loaded] : 0.0f;
        tile[1][THREAD] = loaded < n ? y[loaded] : 0.0f;
        tile[2][THREAD] = loaded < n ? z[loaded] : 0.0f;
        tile[3][THREAD] = loaded < n ? mass[loaded] : 0.0f;
        BARRIER();
        UNROLL_SOURCES
        for (int source = 0; source < BLOCK_SIZE; source++) {
#if RUNG < 8
            if (first_source + source != i)
#endif
                add_interaction(
                    &target, tile[0][source], tile[1][source], tile[2][source], tile[3][source], eps2);
        }
    }
    if (own < n)
        write_sum(sums, n, i, &target);
}

#endif
#endif
