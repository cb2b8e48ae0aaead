// Accelerations and their time derivatives, all pairs in f64:
//   a = G Σ m d/ρ³,   j = G Σ m (v/ρ³ - 3 (d·v) d/ρ⁵),   d = x_j - x_i,  v = v_j - v_i.
// One thread a body, tiles of sources in SHARED memory.

KERNEL(BLOCK_SIZE)
forces_and_jerks(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT u, GLOBAL const double* RESTRICT v, GLOBAL const double* RESTRICT w,
    GLOBAL const double* RESTRICT mass, int n, double g, double eps, GLOBAL double* RESTRICT ax,
    GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az, GLOBAL double* RESTRICT jx, GLOBAL double* RESTRICT jy,
    GLOBAL double* RESTRICT jz)
{
    SHARED double tile[7][BLOCK_SIZE];
    const int own = BLOCK_INDEX * BLOCK_SIZE + THREAD, i = own < n ? own : n - 1;
    const double px = x[i], py = y[i], pz = z[i], pu = u[i], pv = v[i], pw = w[i];
    double a[3] = { 0, 0, 0 }, j[3] = { 0, 0, 0 };
    for (int first = 0; first < n; first += BLOCK_SIZE) {
        const int s = first + THREAD;
        BARRIER();
        if (s < n) {
            tile[0][THREAD] = x[s];
            tile[1][THREAD] = y[s];
            tile[2][THREAD] = z[s];
            tile[3][THREAD] = u[s];
            tile[4][THREAD] = v[s];
            tile[5][THREAD] = w[s];
            tile[6][THREAD] = mass[s];
        }
        BARRIER();
        const int count = n - first < BLOCK_SIZE ? n - first : BLOCK_SIZE;
        for (int t = 0; t < count; t++) {
            if (first + t == own)
                continue;
            const double dx = tile[0][t] - px, dy = tile[1][t] - py, dz = tile[2][t] - pz;
            const double du = tile[3][t] - pu, dv = tile[4][t] - pv, dw = tile[5][t] - pw;
            const double rho2 = dx * dx + dy * dy + dz * dz + eps * eps;
            const double m = g * tile[6][t] / (rho2 * SQRT64(rho2));
            const double approach = 3.0 * (dx * du + dy * dv + dz * dw) / rho2;
            a[0] += m * dx;
            a[1] += m * dy;
            a[2] += m * dz;
            j[0] += m * (du - approach * dx);
            j[1] += m * (dv - approach * dy);
            j[2] += m * (dw - approach * dz);
        }
    }
    if (own < n) {
        ax[i] = a[0];
        ay[i] = a[1];
        az[i] = a[2];
        jx[i] = j[0];
        jy[i] = j[1];
        jz[i] = j[2];
    }
}
