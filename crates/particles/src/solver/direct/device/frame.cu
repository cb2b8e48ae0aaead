// The frame in which a force evaluation computes, found anew from the positions each time, so that forces are a
// function of the bodies alone: its origin is the median of a sample (one far body does not move it), its scales
// are powers of two, which change no digit.
//
//   frame[0..2] origin   [3] length, [4] mass: factors to scaled units   [5] eps², scaled
//   frame[6] acceleration, [7] potential: factors from scaled sums to the user's units, G included

// The exponent of the power of two at or below x; 0 where that has no meaning.
FUNCTION int exponent_of(double x)
{
    return x > 1e-300 && x < 1e300 ? ilogb(x) : 0;
}

KERNEL(SAMPLE)
find_frame(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, int n, double g, double eps, int centred, GLOBAL double* RESTRICT frame)
{
    LOCAL double sample[3 * SAMPLE];
    LOCAL double extents[SAMPLE];
    LOCAL double masses[SAMPLE];
    LOCAL double origin[3];
    const int count = n < SAMPLE ? n : SAMPLE;
    const int wanted = n < SAMPLE ? THREAD : (int)((ulong)n * (ulong)THREAD / SAMPLE);
    const int i = wanted < n ? wanted : n - 1;
    const double px = x[i], py = y[i], pz = z[i];
    sample[THREAD] = px;
    sample[SAMPLE + THREAD] = py;
    sample[2 * SAMPLE + THREAD] = pz;
    masses[THREAD] = THREAD < count ? mass[i] : 0.0;
    if (THREAD < 3)
        origin[THREAD] = 0.0;
    BARRIER();
    if (centred && THREAD < count) {
        int rx = 0, ry = 0, rz = 0;
        UNROLL(4)
        for (int j = 0; j < count; j++) {
            const double ox = sample[j], oy = sample[SAMPLE + j], oz = sample[2 * SAMPLE + j];
            const int before = j < THREAD;
            rx += ox < px || (ox == px && before);
            ry += oy < py || (oy == py && before);
            rz += oz < pz || (oz == pz && before);
        }
        const int middle = (count - 1) / 2;
        if (rx == middle)
            origin[0] = px;
        if (ry == middle)
            origin[1] = py;
        if (rz == middle)
            origin[2] = pz;
    }
    BARRIER();
    extents[THREAD] = MAX64(fabs(px - origin[0]), MAX64(fabs(py - origin[1]), fabs(pz - origin[2])));
    for (int width = SAMPLE / 2; width > 0; width /= 2) {
        BARRIER();
        if (THREAD < width) {
            extents[THREAD] = MAX64(extents[THREAD], extents[THREAD + width]);
            masses[THREAD] += masses[THREAD + width];
        }
    }
    if (THREAD == 0) {
        const int length = exponent_of(MAX64(extents[0], eps)), total = exponent_of(masses[0] / count * n);
        const double scaled_eps = ldexp(eps, -length);
        frame[0] = origin[0];
        frame[1] = origin[1];
        frame[2] = origin[2];
        frame[3] = ldexp(1.0, -length);
        frame[4] = ldexp(1.0, -total);
        frame[5] = scaled_eps * scaled_eps;
        frame[6] = ldexp(g, total - 2 * length);
        frame[7] = ldexp(g, total - length);
    }
}
