// Accelerations and their time derivatives (jerks), all pairs in f64:
//   a = G Σ m d/ρ³,   j = G Σ m (v/ρ³ - 3 (d·v) d/ρ⁵),
//   d = x_j - x_i,   v = v_j - v_i,   ρ² = |d|² + eps².
// One thread per body, tiles of BLOCK_SIZE sources in SHARED memory.

// A body or a difference of two bodies: position and velocity.
typedef struct {
    double x, y, z, u, v, w;
} PhasePoint;

// Adds the acceleration a and jerk j at distance `d` of a body of this mass.
FUNCTION void add_force_and_jerk(double* a, double* j, PhasePoint d, double mass, double g, double eps)
{
    const double rho2 = d.x * d.x + d.y * d.y + d.z * d.z + eps * eps;
    const double weight = g * mass / (rho2 * SQRT64(rho2));
    const double approach = 3.0 * (d.x * d.u + d.y * d.v + d.z * d.w) / rho2;
    a[0] += weight * d.x;
    a[1] += weight * d.y;
    a[2] += weight * d.z;
    j[0] += weight * (d.u - approach * d.x);
    j[1] += weight * (d.v - approach * d.y);
    j[2] += weight * (d.w - approach * d.z);
}

// The targets are the bodies targets_begin .. targets_end - 1.
KERNEL(BLOCK_SIZE)
forces_and_jerks(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT u, GLOBAL const double* RESTRICT v,
    GLOBAL const double* RESTRICT w, GLOBAL const double* RESTRICT mass, int n, int targets_begin,
    int targets_end, double g, double eps, GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay,
    GLOBAL double* RESTRICT az, GLOBAL double* RESTRICT jx, GLOBAL double* RESTRICT jy,
    GLOBAL double* RESTRICT jz)
{
    SHARED double tile[7][BLOCK_SIZE]; // x, y, z, u, v, w, mass
    // Threads past the last target compute forces that they do not write: they load tiles.
    const int own = targets_begin + BLOCK_INDEX * BLOCK_SIZE + THREAD, i = own < n ? own : n - 1;
    const PhasePoint target = { x[i], y[i], z[i], u[i], v[i], w[i] };
    double a[3] = { 0, 0, 0 }, j[3] = { 0, 0, 0 };
    for (int first_source = 0; first_source < n; first_source += BLOCK_SIZE) {
        const int loaded = first_source + THREAD;
        BARRIER();
        if (loaded < n) {
            tile[0][THREAD] = x[loaded];
            tile[1][THREAD] = y[loaded];
            tile[2][THREAD] = z[loaded];
            tile[3][THREAD] = u[loaded];
            tile[4][THREAD] = v[loaded];
            tile[5][THREAD] = w[loaded];
            tile[6][THREAD] = mass[loaded];
        }
        BARRIER();
        const int count = n - first_source < BLOCK_SIZE ? n - first_source : BLOCK_SIZE;
        for (int source = 0; source < count; source++) {
            if (first_source + source == own)
                continue;
            const PhasePoint d = { tile[0][source] - target.x, tile[1][source] - target.y,
                tile[2][source] - target.z, tile[3][source] - target.u, tile[4][source] - target.v,
                tile[5][source] - target.w };
            add_force_and_jerk(a, j, d, tile[6][source], g, eps);
        }
    }
    if (own < targets_end) {
        ax[i] = a[0];
        ay[i] = a[1];
        az[i] = a[2];
        jx[i] = j[0];
        jy[i] = j[1];
        jz[i] = j[2];
    }
}
