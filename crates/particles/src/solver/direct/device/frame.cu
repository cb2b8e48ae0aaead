// The frame in which a force evaluation computes, found anew from the positions each time, so that forces are a
// function of the bodies alone: its origin is the median of a sample (one far body does not move it), its scales
// are powers of two, which change no digit.
//
//   frame[0..2] origin   [3] length, [4] mass: factors to scaled units   [5] eps², scaled
//   frame[6] acceleration, [7] potential: factors from scaled sums to the user's units, G included
//
// In f64 (`centred` 0) the origin stays where it is: a shift would only round.

#define SAMPLE 32 // no more than the smallest group
#define FRAME 8

// The exponent of the power of two at or below x; 0 where that has no meaning.
FUNCTION int exponent_of(double x)
{
    return x > 1e-300 && x < 1e300 ? ilogb(x) : 0;
}

// By all threads of a group; `scratch` has room for 5 x SAMPLE numbers.
FUNCTION void find_frame_in_group(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, int n, double g, double eps, int centred,
    LOCAL_POINTER double* scratch, LOCAL_POINTER double* frame)
{
    LOCAL_POINTER double* extents = scratch + 3 * SAMPLE;
    LOCAL_POINTER double* masses = scratch + 4 * SAMPLE;
    const int count = n < SAMPLE ? n : SAMPLE;
    double px = 0.0, py = 0.0, pz = 0.0;
    if (THREAD < SAMPLE) {
        const int wanted = n < SAMPLE ? THREAD : (int)((ulong)n * (ulong)THREAD / SAMPLE);
        const int i = wanted < n ? wanted : n - 1;
        px = x[i];
        py = y[i];
        pz = z[i];
        scratch[THREAD] = px;
        scratch[SAMPLE + THREAD] = py;
        scratch[2 * SAMPLE + THREAD] = pz;
        masses[THREAD] = THREAD < count ? mass[i] : 0.0;
    }
    if (THREAD < 3)
        frame[THREAD] = 0.0;
    BARRIER();
    if (centred && THREAD < count) {
        int rx = 0, ry = 0, rz = 0;
        UNROLL(4)
        for (int j = 0; j < count; j++) {
            const double ox = scratch[j], oy = scratch[SAMPLE + j], oz = scratch[2 * SAMPLE + j];
            const int before = j < THREAD;
            rx += ox < px || (ox == px && before);
            ry += oy < py || (oy == py && before);
            rz += oz < pz || (oz == pz && before);
        }
        const int middle = (count - 1) / 2;
        if (rx == middle)
            frame[0] = px;
        if (ry == middle)
            frame[1] = py;
        if (rz == middle)
            frame[2] = pz;
    }
    BARRIER();
    if (THREAD < SAMPLE)
        extents[THREAD] = MAX64(fabs(px - frame[0]), MAX64(fabs(py - frame[1]), fabs(pz - frame[2])));
    for (int width = SAMPLE / 2; width > 0; width /= 2) {
        BARRIER();
        if (THREAD < width) {
            extents[THREAD] = MAX64(extents[THREAD], extents[THREAD + width]);
            masses[THREAD] += masses[THREAD + width];
        }
    }
    if (THREAD == 0) {
        const int length = exponent_of(MAX64(extents[0], eps)), total = exponent_of(n < SAMPLE ? masses[0] : masses[0] * ((double)n * (1.0 / SAMPLE)));
        const double scaled_eps = ldexp(eps, -length);
        frame[3] = ldexp(1.0, -length);
        frame[4] = ldexp(1.0, -total);
        frame[5] = scaled_eps * scaled_eps;
        frame[6] = ldexp(g, total - 2 * length);
        frame[7] = ldexp(g, total - length);
    }
    BARRIER();
}

KERNEL(SAMPLE)
find_frame(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, int n, double g, double eps, GLOBAL double* RESTRICT to)
{
    LOCAL double scratch[5 * SAMPLE];
    LOCAL double frame[FRAME];
    find_frame_in_group(x, y, z, mass, n, g, eps, 1, scratch, frame);
    if (THREAD < FRAME)
        to[THREAD] = frame[THREAD];
}
