// The frame in which a force evaluation computes, found anew from the positions each time, so that forces are a
// function of the bodies alone. Its origin is the median of a sample and its length the median distance from there,
// so that far bodies spoil neither; its scales are powers of two, which change no digit. (A body more than 1e11 times as
// far out as the others feels nothing in f32: its force is smaller than any number.)
//
//   frame[0..2] origin   [3] length, [4] mass: factors to scaled units   [5] eps², scaled
//   frame[6] acceleration, [7] potential: factors from scaled sums to the user's units, G included
//
// In f64 (`centred` 0) the origin stays where it is: a shift would only round.

#define SAMPLE 32 // no more than the smallest group
#define FRAME 8

// Scaled coordinates are held within this, where squares of distances are finite in f32 and the pull is none.
#define FARTHEST 1e18

// The exponent of the power of two at or below x; 0 where that has no meaning.
FUNCTION int exponent_of(double x)
{
    return x > 1e-300 && x < 1e300 ? ilogb(x) : 0;
}

// What is no number stays none.
FUNCTION double within_reach(double x)
{
    return x > FARTHEST ? FARTHEST : x < -FARTHEST ? -FARTHEST : x;
}

// By all threads of a group; `scratch` has room for 4 x SAMPLE numbers.
FUNCTION void find_frame_in_group(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, int n, double g, double eps, double total_mass, int centred,
    SHARED_POINTER double* scratch, SHARED_POINTER double* frame)
{
    SHARED_POINTER double* extents = scratch + 3 * SAMPLE;
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
    }
    // Where nothing is found for want of numbers, the user's own units.
    if (THREAD < FRAME)
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
    double extent = 0.0;
    if (THREAD < SAMPLE) {
        extent = MAX64(fabs(px - frame[0]), MAX64(fabs(py - frame[1]), fabs(pz - frame[2])));
        extents[THREAD] = extent;
    }
    BARRIER();
    if (THREAD < count) {
        int rank = 0;
        UNROLL(4)
        for (int j = 0; j < count; j++)
            rank += extents[j] < extent || (extents[j] == extent && j < THREAD);
        // The upper median: of two bodies, the one that is not the origin.
        if (rank == count / 2)
            frame[3] = extent;
    }
    BARRIER();
    if (THREAD == 0) {
        const int length = exponent_of(MAX64(frame[3], eps)), total = exponent_of(total_mass);
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
find_frame(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z, int n,
    double g, double eps, double total_mass, GLOBAL double* RESTRICT to)
{
    SHARED double scratch[4 * SAMPLE];
    SHARED double frame[FRAME];
    find_frame_in_group(x, y, z, n, g, eps, total_mass, 1, scratch, frame);
    if (THREAD < FRAME)
        to[THREAD] = frame[THREAD];
}
