// All-pairs gravity as a course on GPU programming makes it fast, step by step: RUNG is the number of steps taken.
// Each step keeps those before it, except that the tiles bring the `if` back. All in f32 and with softening.
//
//   0 one thread for all          4 reciprocal square root       8 without the `if`
//   1 one thread a body           5 two loops, no `if`            9 terms arranged for FMA
//   2 structure of arrays         6 tiles in SHARED memory        10 unrolled further (UNROLL_BY)
//   3 parameters in CONSTANT      7 unrolled                     11, 12: the same text, other compiler flags

typedef struct {
    float mass, x, y, z, u, v, w, ax, ay, az;
} Body;

// The scaled bodies in f32, as structures (RUNG < 2) or as arrays x, y, z, mass of one buffer.
KERNEL(128)
convert(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame, int n, GLOBAL float* RESTRICT bodies)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
    const float px = (float)((x[i] - frame[FRAME_ORIGIN]) * frame[FRAME_LENGTH_SCALE]), py = (float)((y[i] - frame[FRAME_ORIGIN + 1]) * frame[FRAME_LENGTH_SCALE]),
                pz = (float)((z[i] - frame[FRAME_ORIGIN + 2]) * frame[FRAME_LENGTH_SCALE]), m = (float)(mass[i] * frame[FRAME_MASS_SCALE]);
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

KERNEL(128)
scale(GLOBAL const float* RESTRICT sums, GLOBAL const double* RESTRICT frame, int n, GLOBAL double* RESTRICT ax,
    GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= n)
        return;
    ax[i] = frame[FRAME_ACCELERATION_UNIT] * sums[i];
    ay[i] = frame[FRAME_ACCELERATION_UNIT] * sums[(size_t)n + i];
    az[i] = frame[FRAME_ACCELERATION_UNIT] * sums[2 * (size_t)n + i];
}

#if RUNG < 4
#define INVERSE(x) (1.0f / SQRT(x))
#else
#define INVERSE(x) RSQRT(x)
#endif

#if RUNG < 9
#define SQUARE(dx, dy, dz) ((dx * dx + dy * dy + dz * dz) + eps2)
#else
#define SQUARE(dx, dy, dz) (dx * dx + (dy * dy + (dz * dz + eps2)))
#endif

#define ATTRACT(sx, sy, sz, sm)                                                                                      \
    {                                                                                                                \
        const float dx = (sx) - px, dy = (sy) - py, dz = (sz) - pz;                                                  \
        const float inverse = INVERSE(SQUARE(dx, dy, dz));                                                           \
        const float w = (sm) * inverse * inverse * inverse;                                                          \
        ax += w * dx;                                                                                                \
        ay += w * dy;                                                                                                \
        az += w * dz;                                                                                                \
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
        const float px = body[i].x, py = body[i].y, pz = body[i].z;
        float ax = 0.0f, ay = 0.0f, az = 0.0f;
        for (int j = 0; j < n; j++)
            if (i != j)
                ATTRACT(body[j].x, body[j].y, body[j].z, body[j].mass)
        sums[i] = ax;
        sums[(size_t)n + i] = ay;
        sums[2 * (size_t)n + i] = az;
    }
}

#else

#if RUNG == 2
#define PARAMETERS float eps2, int n
#else
// Both compilers keep a kernel's read-only parameter block in constant memory.
#define PARAMETERS CONSTANT_POINTER const float* RESTRICT parameters
#endif

KERNEL(BLOCK_SIZE)
sum_pairs(GLOBAL const float* RESTRICT bodies, PARAMETERS, GLOBAL float* RESTRICT sums)
{
#if RUNG > 2
    const float eps2 = parameters[0];
    const int n = (int)FLOAT_AS_UINT(parameters[1]);
#endif
    GLOBAL const float *x = bodies, *y = bodies + n, *z = bodies + 2 * (size_t)n, *mass = bodies + 3 * (size_t)n;
    const int own = BLOCK_INDEX * BLOCK_SIZE + THREAD;
#if RUNG < 6
    const int i = own;
    if (i < n) {
        const float px = x[i], py = y[i], pz = z[i];
        float ax = 0.0f, ay = 0.0f, az = 0.0f;
#if RUNG < 5
        for (int j = 0; j < n; j++)
            if (i != j)
                ATTRACT(x[j], y[j], z[j], mass[j])
#else
        for (int j = 0; j < i; j++)
            ATTRACT(x[j], y[j], z[j], mass[j])
        for (int j = i + 1; j < n; j++)
            ATTRACT(x[j], y[j], z[j], mass[j])
#endif
#else
    // Threads past the last body help to load tiles.
    SHARED float tile[4][BLOCK_SIZE];
    const int i = own < n ? own : n - 1;
    {
        const float px = x[i], py = y[i], pz = z[i];
        float ax = 0.0f, ay = 0.0f, az = 0.0f;
        for (int first = 0; first < n; first += BLOCK_SIZE) {
            const int s = first + THREAD;
            BARRIER();
            // Filled up with massless bodies, so that the loop below has a fixed length.
            tile[0][THREAD] = s < n ? x[s] : 0.0f;
            tile[1][THREAD] = s < n ? y[s] : 0.0f;
            tile[2][THREAD] = s < n ? z[s] : 0.0f;
            tile[3][THREAD] = s < n ? mass[s] : 0.0f;
            BARRIER();
#if RUNG == 6
            UNROLL(1)
#else
            UNROLL(UNROLL_BY)
#endif
            for (int t = 0; t < BLOCK_SIZE; t++) {
#if RUNG < 8
                if (first + t != i)
#endif
                    ATTRACT(tile[0][t], tile[1][t], tile[2][t], tile[3][t])
            }
        }
#endif
        if (own < n) {
            sums[i] = ax;
            sums[(size_t)n + i] = ay;
            sums[2 * (size_t)n + i] = az;
        }
    }
}

#endif
