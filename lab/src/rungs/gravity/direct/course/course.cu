// All-pairs gravity in the optimisation steps of a course on GPU programming. RUNG is the last step
// taken, a RUNG_... that mod.rs defines (`CourseKernel`). Each step keeps those before it, except
// that the tiles bring the `if` back. Everything is in f32, or in f64 if DOUBLE is 1, and needs
// softening. The steps after RUNG_FMA differ in UNROLL_BY and in the flags of the compiler.

#if DOUBLE
typedef double real;
#define REAL_SQRT SQRT64
#define REAL_RSQRT RSQRT64
#else
typedef float real;
#define REAL_SQRT SQRT
#define REAL_RSQRT RSQRT
#endif

typedef struct {
    real mass, x, y, z, u, v, w, ax, ay, az;
} Body;

// Writes the scaled bodies, as structures or as columns.
KERNEL(128)
convert_bodies(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame,
    int n,
#if RUNG < RUNG_ARRAYS
    GLOBAL real* RESTRICT bodies
#else
    GLOBAL real* RESTRICT body_x, GLOBAL real* RESTRICT body_y, GLOBAL real* RESTRICT body_z,
    GLOBAL real* RESTRICT body_mass
#endif
)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
    const real px = (real)SCALED_COORDINATE(frame, 0, x[i]), py = (real)SCALED_COORDINATE(frame, 1, y[i]),
               pz = (real)SCALED_COORDINATE(frame, 2, z[i]), m = (real)(mass[i] * frame[FRAME_MASS_SCALE]);
#if RUNG < RUNG_ARRAYS
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
scale_sums(GLOBAL const real* RESTRICT sum_x, GLOBAL const real* RESTRICT sum_y,
    GLOBAL const real* RESTRICT sum_z, GLOBAL const double* RESTRICT frame, int n, GLOBAL double* RESTRICT ax,
    GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
    ax[i] = frame[FRAME_ACCELERATION_UNIT] * sum_x[i];
    ay[i] = frame[FRAME_ACCELERATION_UNIT] * sum_y[i];
    az[i] = frame[FRAME_ACCELERATION_UNIT] * sum_z[i];
}

FUNCTION real inverse_sqrt(real x)
{
#if RUNG < RUNG_RSQRT
    return (real)1 / REAL_SQRT(x);
#else
    return REAL_RSQRT(x);
#endif
}

// Returns the softened squared distance.
FUNCTION real softened_r2(real dx, real dy, real dz, real eps2)
{
#if RUNG < RUNG_FMA
    return (dx * dx + dy * dy + dz * dz) + eps2;
#else
    return dx * dx + (dy * dy + (dz * dz + eps2));
#endif
}

// Position of the target and the sum of forces on it.
typedef struct {
    real x, y, z, ax, ay, az;
} Target;

// Adds the attraction of a source at (x, y, z).
FUNCTION void add_interaction(Target* target, real x, real y, real z, real mass, real eps2)
{
    const real dx = x - target->x, dy = y - target->y, dz = z - target->z;
    const real inv_r = inverse_sqrt(softened_r2(dx, dy, dz, eps2));
    const real weight = mass * inv_r * inv_r * inv_r;
    target->ax += weight * dx;
    target->ay += weight * dy;
    target->az += weight * dz;
}

// Writes the sum of forces on target i.
FUNCTION void write_sum(
    GLOBAL real* RESTRICT ax, GLOBAL real* RESTRICT ay, GLOBAL real* RESTRICT az, int i, const Target* target)
{
    ax[i] = target->ax;
    ay[i] = target->ay;
    az[i] = target->az;
}

#define SUM_COLUMNS GLOBAL real *RESTRICT ax, GLOBAL real *RESTRICT ay, GLOBAL real *RESTRICT az

#if RUNG < RUNG_ARRAYS

KERNEL(BLOCK_SIZE)
sum_pairs(GLOBAL const real* RESTRICT bodies, SUM_COLUMNS, real eps2, int n)
{
    GLOBAL const Body* body = (GLOBAL const Body*)bodies;
#if RUNG == RUNG_ONE_THREAD
    for (int i = 0; i < n; i++) {
#else
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) {
#endif
        Target target = { body[i].x, body[i].y, body[i].z, (real)0, (real)0, (real)0 };
        for (int j = 0; j < n; j++)
            if (i != j)
                add_interaction(&target, body[j].x, body[j].y, body[j].z, body[j].mass, eps2);
        write_sum(ax, ay, az, i, &target);
    }
}

#else

// Parameters of the kernels below: columns, eps^2, dt and n. The course passes them as arguments at
// first, and from RUNG_CONSTANT on in constant memory. On CUDA that includes the addresses of the
// columns, so the kernels have no parameters. OpenCL has no pointers in constant memory.
#define SOURCE_COLUMNS                                                                             \
    GLOBAL const real *RESTRICT x, GLOBAL const real *RESTRICT y,                                  \
        GLOBAL const real *RESTRICT z, GLOBAL const real *RESTRICT mass
#define MOVED_COLUMNS                                                                              \
    GLOBAL real *RESTRICT x, GLOBAL real *RESTRICT y, GLOBAL real *RESTRICT z,                     \
        GLOBAL real *RESTRICT u, GLOBAL real *RESTRICT v, GLOBAL real *RESTRICT w,                 \
        GLOBAL const real *RESTRICT ax, GLOBAL const real *RESTRICT ay,                            \
        GLOBAL const real *RESTRICT az

#if RUNG == RUNG_ARRAYS
#define SUM_PARAMETERS SOURCE_COLUMNS, SUM_COLUMNS, real eps2, int n
#define ADVANCE_PARAMETERS MOVED_COLUMNS, real dt, int n
#define READ_SUM_PARAMETERS
#define READ_ADVANCE_PARAMETERS
#else

CONSTANT_ARRAY(int, counts, 1);
CONSTANT_ARRAY(real, numbers, 2);
#define COUNT_BODIES 0
#define NUMBER_EPS2 0
#define NUMBER_DT 1
#define READ_COUNT const int n = CONSTANT_VALUES(counts)[COUNT_BODIES];
#define READ_EPS2 const real eps2 = CONSTANT_VALUES(numbers)[NUMBER_EPS2];
#define READ_DT const real dt = CONSTANT_VALUES(numbers)[NUMBER_DT];

#if defined(ON_CUDA)
// Addresses, in the order mass, position, velocity, acceleration.
CONSTANT_ARRAY(ulong, columns, 10);
#define SUM_PARAMETERS
#define ADVANCE_PARAMETERS
#define READ_SUM_PARAMETERS                                                                        \
    READ_COUNT READ_EPS2                                                                           \
    const real* RESTRICT mass = (const real*)columns[0];                                           \
    const real* RESTRICT x = (const real*)columns[1];                                              \
    const real* RESTRICT y = (const real*)columns[2];                                              \
    const real* RESTRICT z = (const real*)columns[3];                                              \
    real* RESTRICT ax = (real*)columns[7];                                                         \
    real* RESTRICT ay = (real*)columns[8];                                                         \
    real* RESTRICT az = (real*)columns[9];
#define READ_ADVANCE_PARAMETERS                                                                    \
    READ_COUNT READ_DT                                                                             \
    real* RESTRICT x = (real*)columns[1];                                                          \
    real* RESTRICT y = (real*)columns[2];                                                          \
    real* RESTRICT z = (real*)columns[3];                                                          \
    real* RESTRICT u = (real*)columns[4];                                                          \
    real* RESTRICT v = (real*)columns[5];                                                          \
    real* RESTRICT w = (real*)columns[6];                                                          \
    const real* RESTRICT ax = (const real*)columns[7];                                             \
    const real* RESTRICT ay = (const real*)columns[8];                                             \
    const real* RESTRICT az = (const real*)columns[9];
#else
#define CONSTANT_PARAMETERS                                                                        \
    CONSTANT_POINTER const int *counts_argument, CONSTANT_POINTER const real *numbers_argument
#define SUM_PARAMETERS SOURCE_COLUMNS, SUM_COLUMNS, CONSTANT_PARAMETERS
#define ADVANCE_PARAMETERS MOVED_COLUMNS, CONSTANT_PARAMETERS
#define READ_SUM_PARAMETERS READ_COUNT READ_EPS2
#define READ_ADVANCE_PARAMETERS READ_COUNT READ_DT
#endif
#endif

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

#if RUNG < RUNG_TILE

KERNEL(BLOCK_SIZE)
sum_pairs(SUM_PARAMETERS)
{
    READ_SUM_PARAMETERS
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) {
        Target target = { x[i], y[i], z[i], (real)0, (real)0, (real)0 };
#if RUNG < RUNG_TWO_LOOPS
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

#if RUNG == RUNG_TILE
#define UNROLL_SOURCES UNROLL(1)
#else
#define UNROLL_SOURCES UNROLL(UNROLL_BY)
#endif

KERNEL(BLOCK_SIZE)
sum_pairs(SUM_PARAMETERS)
{
    READ_SUM_PARAMETERS
    SHARED real tile[4][BLOCK_SIZE]; // x, y, z, mass
    // Threads past the last body help to load tiles.
    const int own = BLOCK_INDEX * BLOCK_SIZE + THREAD, i = own < n ? own : n - 1;
    Target target = { x[i], y[i], z[i], (real)0, (real)0, (real)0 };
    for (int first_source = 0; first_source < n; first_source += BLOCK_SIZE) {
        const int loaded = first_source + THREAD;
        BARRIER();
        // Filled up with massless bodies, so that the loop below has a fixed length.
        tile[0][THREAD] = loaded < n ? x[loaded] : (real)0;
        tile[1][THREAD] = loaded < n ? y[loaded] : (real)0;
        tile[2][THREAD] = loaded < n ? z[loaded] : (real)0;
        tile[3][THREAD] = loaded < n ? mass[loaded] : (real)0;
        BARRIER();
        UNROLL_SOURCES
        for (int source = 0; source < BLOCK_SIZE; source++) {
#if RUNG < RUNG_NO_IF
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
