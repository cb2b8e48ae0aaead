// Kernel 6: kick and drift, v += a dt and x += v dt, in the user's units.

KERNEL(BLOCK_SIZE)
integrate(GLOBAL double* RESTRICT x, GLOBAL double* RESTRICT y, GLOBAL double* RESTRICT z,
    GLOBAL double* RESTRICT u, GLOBAL double* RESTRICT v, GLOBAL double* RESTRICT w,
    GLOBAL const double* RESTRICT ax, GLOBAL const double* RESTRICT ay, GLOBAL const double* RESTRICT az,
    double dt, uint n)
{
    for (uint i = BLOCK_INDEX * BLOCK_SIZE + THREAD; i < n; i += BLOCK_COUNT * BLOCK_SIZE) {
        u[i] += ax[i] * dt;
        v[i] += ay[i] * dt;
        w[i] += az[i] * dt;
        x[i] += u[i] * dt;
        y[i] += v[i] * dt;
        z[i] += w[i] * dt;
    }
}
