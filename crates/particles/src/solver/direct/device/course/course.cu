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

// Writes the scaled bodies in f32, as structures or as columns.
KERNEL(128)
convert_bodies(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame,
    int n,
#if RUNG < 2
    GLOBAL float* RESTRICT bodies
#else
    GLOBAL float* RESTRICT body_x, GLOBAL float* RESTRICT body_y, GLOBAL float* RESTRICT body_z,
    GLOBAL float* RESTRICT body_mass
#endif
)
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
    body_x[i] = px;
    body_y[i] = py;
    body_z[i] = pz;
    body_mass[i] = m;
#endif
}

// Converts the sums to accelerations in the user's units.
KERNEL(128)
scale_sums(GLOBAL const float* RESTRICT sum_x, GLOBAL const float* RESTRICT sum_y,
    GLOBAL const float* RESTRICT sum_z, GLOBAL const double* RESTRICT frame, int n, GLOBAL double* RESTRICT ax,
    GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
    ax[i] = frame[FRAME_ACCELERATION_UNIT] * sum_x[i];
    ay[i] = frame[FRAME_ACCELERATION_UNIT] * sum_y[i];
    az[i] = frame[FRAME_ACCELERATION_UNIT] * sum_z[i];
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

// Writes the sum of forces on target i.
FUNCTION void write_sum(
    GLOBAL float* RESTRICT ax, GLOBAL float* RESTRICT ay, GLOBAL float* RESTRICT az, int i, const Target* target)
{
    ax[i] = target->ax;
    ay[i] = target->ay;
    az[i] = target->az;
}

#define SUM_COLUMNS GLOBAL float *RESTRICT ax, GLOBAL float *RESTRICT ay, GLOBAL float *RESTRICT az

#if RUNG < 2

KERNEL(BLOCK_SIZE)
sum_pairs(GLOBAL const float* RESTRICT bodies, SUM_COLUMNS, float eps2, int n)
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
        write_sum(ax, ay, az, i, &target);
    }
}

#else

// Parameters of the kernels below: columns, eps^2, dt and n. The course passes them as arguments at
// first, and from rung 3 on in constant memory. On CUDA that includes the addresses of the columns,
// so the kernels have no parameters. OpenCL has no pointers in constant memory.
#define SOURCE_COLUMNS                                                                             \
    GLOBAL const float *RESTRICT x, GLOBAL const float *RESTRICT y,                                \
        GLOBAL const float *RESTRICT z, GLOBAL const float *RESTRICT mass
#define MOVED_COLUMNS                                                                              \
    GLOBAL float *RESTRICT x, GLOBAL float *RESTRICT y, GLOBAL float *RESTRICT z,                  \
        GLOBAL float *RESTRICT u, GLOBAL float *RESTRICT v, GLOBAL float *RESTRICT w,              \
        GLOBAL const float *RESTRICT ax, GLOBAL const float *RESTRICT ay,                          \
        GLOBAL const float *RESTRICT az

#if RUNG == 2
#define SUM_PARAMETERS SOURCE_COLUMNS, SUM_COLUMNS, float eps2, int n
#define ADVANCE_PARAMETERS MOVED_COLUMNS, float dt, int n
#define READ_SUM_PARAMETERS
#define READ_ADVANCE_PARAMETERS
#else

CONSTANT_ARRAY(int, counts, 1);
CONSTANT_ARRAY(float, numbers, 2);
#define COUNT_BODIES 0
#define NUMBER_EPS2 0
#define NUMBER_DT 1
#define READ_COUNT const int n = CONSTANT_VALUES(counts)[COUNT_BODIES];
#define READ_EPS2 const float eps2 = CONSTANT_VALUES(numbers)[NUMBER_EPS2];
#define READ_DT const float dt = CONSTANT_VALUES(numbers)[NUMBER_DT];

#if defined(ON_CUDA)
// Addresses, in the order mass, position, velocity, acceleration.
CONSTANT_ARRAY(ulong, columns, 10);
#define SUM_PARAMETERS
#define ADVANCE_PARAMETERS
#define READ_SUM_PARAMETERS                                                                        \
    READ_COUNT READ_EPS2                                                                           \
    const float* RESTRICT mass = (const float*)columns[0];                                         \
    const float* RESTRICT x = (const float*)columns[1];                                            \
    const float* RESTRICT y = (const float*)columns[2];                                            \
    const float* RESTRICT z = (const float*)columns[3];                                            \
    float* RESTRICT ax = (float*)columns[7];                                                       \
    float* RESTRICT ay = (float*)columns[8];                                                       \
    float* RESTRICT az = (float*)columns[9];
#define READ_ADVANCE_PARAMETERS                                                                    \
    READ_COUNT READ_DT                                                                             \
    float* RESTRICT x = (float*)columns[1];                                                        \
    float* RESTRICT y = (float*)columns[2];                                                        \
    float* RESTRICT z = (float*)columns[3];                                                        \
    float* RESTRICT u = (float*)columns[4];                                                        \
    float* RESTRICT v = (float*)columns[5];                                                        \
    float* RESTRICT w = (float*)columns[6];                                                        \
    const float* RESTRICT ax = (const float*)columns[7];                                           \
    const float* RESTRICT ay = (const float*)columns[8];                                           \
    const float* RESTRICT az = (const float*)columns[9];
#else
#define CONSTANT_PARAMETERS                                                                        \
    CONSTANT_POINTER const int *counts_argument, CONSTANT_POINTER const float *numbers_argument
#define SUM_PARAMETERS SOURCE_COLUMNS, SUM_COLUMNS, CONSTANT_PARAMETERS
#define ADVANCE_PARAMETERS MOVED_COLUMNS, CONSTANT_PARAMETERS
#define READ_SUM_PARAMETERS READ_COUNT READ_EPS2
#define READ_ADVANCE_PARAMETERS READ_COUNT READ_DT
#endif
#endif

#if RUNG < 4

// Kick and drift of the course's program: v += a dt, x += v dt.
KERNEL(BLOCK_SIZE)
advance_bodies(ADVANCE_PARAMETERS)
{
    READ_ADVANCE_PARAMETERS
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) {
        u[i] += ax[i] * dt;
        v[i] += ay[i] * dt;
        w[i] += az[i] * dt;
        x[i] += u[i] * dt;
        y[i] += v[i] * dt;
        z[i] += w[i] * dt;
    }
}

#endif

#if RUNG < 6

KERNEL(BLOCK_SIZE)
sum_pairs(SUM_PARAMETERS)
{
    READ_SUM_PARAMETERS
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
        write_sum(ax, ay, az, i, &target);
    }
}

#else

#if RUNG == 6
#define UNROLL_SOURCES UNROLL(1)
#else
#define UNROLL_SOURCES UNROLL(UNROLL_BY)
#endif

KERNEL(BLOCK_SIZE)
sum_pairs(SUM_PARAMETERS)
{
    READ_SUM_PARAMETERS
    SHARED float tile[4][BLOCK_SIZE]; // x, y, z, mass
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
        write_sum(ax, ay, az, i, &target);
}

#endif
#endif
