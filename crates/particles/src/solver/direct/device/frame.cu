// The frame in which a force evaluation computes, found anew from the positions each time, so that forces are a
// function of the bodies alone: its origin is the median of a sample (one far body does not move it), its scales
// are powers of two, which change no digit.
//
//   frame[0..2] origin   [3] length, [4] mass: factors to scaled units   [5] eps², scaled
//   frame[6] acceleration, [7] potential: factors from scaled sums to the user's units, G included

FUNCTION double power_of_two_below(double x)
{
    return x > 1e-300 && x < 1e300 ? ldexp(1.0, ilogb(x)) : 1.0;
}

KERNEL(SAMPLE)
find_frame(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, int n, double g, double eps, int centred, GLOBAL double* RESTRICT frame)
{
    LOCAL double sample[3][SAMPLE];
    LOCAL double weight[SAMPLE];
    LOCAL double origin[3];
    int count = n < SAMPLE ? n : SAMPLE;
    int i = (int)((ulong)n * (ulong)THREAD / SAMPLE);
    if (n <= SAMPLE)
        i = THREAD < n ? THREAD : n - 1;
    double own[3] = { x[i], y[i], z[i] };
    for (int c = 0; c < 3; c++)
        sample[c][THREAD] = own[c];
    weight[THREAD] = mass[i];
    if (THREAD < 3)
        origin[THREAD] = 0.0;
    BARRIER();
    if (centred && THREAD < count) {
        int rank[3] = { 0, 0, 0 };
        for (int j = 0; j < count; j++)
            for (int c = 0; c < 3; c++) {
                double other = sample[c][j];
                rank[c] += other < own[c] || (other == own[c] && j < THREAD);
            }
        for (int c = 0; c < 3; c++)
            if (rank[c] == (count - 1) / 2)
                origin[c] = own[c];
    }
    BARRIER();
    if (THREAD < 3)
        frame[THREAD] = origin[THREAD];
    double extent = 0.0;
    for (int c = 0; c < 3; c++)
        extent = MAX64(extent, fabs(own[c] - origin[c]));
    BARRIER();
    sample[0][THREAD] = extent;
    BARRIER();
    if (THREAD == 0) {
        double total = 0.0;
        extent = eps;
        for (int j = 0; j < count; j++) {
            extent = MAX64(extent, sample[0][j]);
            total += weight[j];
        }
        double length = 1.0 / power_of_two_below(extent);
        double masses = 1.0 / power_of_two_below(total / count * n);
        frame[3] = length;
        frame[4] = masses;
        frame[5] = (eps * length) * (eps * length);
        // Divided first: the square of an inverse length may leave the range where the product does not.
        frame[7] = g * (length / masses);
        frame[6] = frame[7] * length;
    }
}
