// The state of the bodies on a device: a column a component, in f64, and one thread a body.
//
// `halt` is 0 until a step leaves a number that is not finite. From then on nothing moves: the host hears of it some
// steps later, and must find the bodies as that step left them.
//
// Sums are taken in an order that depends on n alone: each thread adds every (groups x BLOCK_SIZE)th term, the threads of
// a group add pairwise, and the host adds the groups. Roundings are carried along (two-sum, Knuth, TAOCP 2, 4.2.2), so
// that a drift which is measured is the integrator's.

#define INDEX ((unsigned int)BLOCK_INDEX * BLOCK_SIZE + (unsigned int)THREAD)
#define STRIDE ((unsigned int)BLOCK_COUNT * BLOCK_SIZE)
#define IS_FINITE(x) ((x) - (x) == 0.0)

KERNEL(BLOCK_SIZE) kick(
    unsigned int n, double dt, GLOBAL const unsigned int* RESTRICT halt,
    GLOBAL double* RESTRICT vx, GLOBAL double* RESTRICT vy, GLOBAL double* RESTRICT vz,
    GLOBAL const double* RESTRICT ax, GLOBAL const double* RESTRICT ay, GLOBAL const double* RESTRICT az)
{
    unsigned int i = INDEX;
    if (i >= n || halt[0]) return;
    vx[i] += dt * ax[i];
    vy[i] += dt * ay[i];
    vz[i] += dt * az[i];
}

KERNEL(BLOCK_SIZE) drift(
    unsigned int n, double dt, GLOBAL const unsigned int* RESTRICT halt,
    GLOBAL double* RESTRICT x, GLOBAL double* RESTRICT y, GLOBAL double* RESTRICT z,
    GLOBAL const double* RESTRICT vx, GLOBAL const double* RESTRICT vy, GLOBAL const double* RESTRICT vz)
{
    unsigned int i = INDEX;
    if (i >= n || halt[0]) return;
    x[i] += dt * vx[i];
    y[i] += dt * vy[i];
    z[i] += dt * vz[i];
}

KERNEL(BLOCK_SIZE) kick_and_drift(
    unsigned int n, double kick_dt, double drift_dt, GLOBAL const unsigned int* RESTRICT halt,
    GLOBAL double* RESTRICT x, GLOBAL double* RESTRICT y, GLOBAL double* RESTRICT z,
    GLOBAL double* RESTRICT vx, GLOBAL double* RESTRICT vy, GLOBAL double* RESTRICT vz,
    GLOBAL const double* RESTRICT ax, GLOBAL const double* RESTRICT ay, GLOBAL const double* RESTRICT az)
{
    unsigned int i = INDEX;
    if (i >= n || halt[0]) return;
    double u = vx[i] + kick_dt * ax[i], v = vy[i] + kick_dt * ay[i], w = vz[i] + kick_dt * az[i];
    vx[i] = u;
    vy[i] = v;
    vz[i] = w;
    x[i] += drift_dt * u;
    y[i] += drift_dt * v;
    z[i] += drift_dt * w;
}

// to = start + sum of the first `count` terms.
KERNEL(BLOCK_SIZE) set_from_start(
    unsigned int n, int count, GLOBAL const unsigned int* RESTRICT halt,
    GLOBAL double* RESTRICT to, GLOBAL const double* start,
    double weight0, GLOBAL const double* term0, double weight1, GLOBAL const double* term1,
    double weight2, GLOBAL const double* term2, double weight3, GLOBAL const double* term3)
{
    unsigned int i = INDEX;
    if (i >= n || halt[0]) return;
    double sum = start[i];
    if (count > 0) sum += weight0 * term0[i];
    if (count > 1) sum += weight1 * term1[i];
    if (count > 2) sum += weight2 * term2[i];
    if (count > 3) sum += weight3 * term3[i];
    to[i] = sum;
}

KERNEL(BLOCK_SIZE) check(
    unsigned int n, unsigned int number, GLOBAL unsigned int* halt,
    GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT vx, GLOBAL const double* RESTRICT vy, GLOBAL const double* RESTRICT vz,
    GLOBAL const double* RESTRICT ax, GLOBAL const double* RESTRICT ay, GLOBAL const double* RESTRICT az)
{
    unsigned int i = INDEX;
    if (i >= n) return;
    int fine = IS_FINITE(x[i]) && IS_FINITE(y[i]) && IS_FINITE(z[i])
        && IS_FINITE(vx[i]) && IS_FINITE(vy[i]) && IS_FINITE(vz[i])
        && IS_FINITE(ax[i]) && IS_FINITE(ay[i]) && IS_FINITE(az[i]);
    // Whoever writes writes the same, and what was written first stays.
    if (!fine && halt[0] == 0) halt[0] = number;
}

typedef struct { double sum; double rest; } Sum;

FUNCTION Sum plus(Sum a, double term)
{
    Sum total;
    total.sum = a.sum + term;
    double added = total.sum - a.sum;
    total.rest = a.rest + ((a.sum - (total.sum - added)) + (term - added));
    return total;
}

// The sum over a group, in its first thread.
FUNCTION double group_sum(Sum own, SHARED_POINTER double* sums, SHARED_POINTER double* rests)
{
    sums[THREAD] = own.sum;
    rests[THREAD] = own.rest;
    BARRIER();
    for (int width = BLOCK_SIZE / 2; width > 0; width /= 2) {
        if (THREAD < width) {
            Sum pair;
            pair.sum = sums[THREAD];
            pair.rest = rests[THREAD] + rests[THREAD + width];
            pair = plus(pair, sums[THREAD + width]);
            sums[THREAD] = pair.sum;
            rests[THREAD] = pair.rest;
        }
        BARRIER();
    }
    double total = sums[0] + rests[0];
    BARRIER();
    return total;
}

#define STORE(k, own)                                        \
    do {                                                     \
        double part = group_sum(own, sums, rests);           \
        if (THREAD == 0) parts[(k) * BLOCK_COUNT + BLOCK_INDEX] = part; \
    } while (0)

// parts: m v^2, m v (3), m x cross v (3), each with an entry a group.
KERNEL(BLOCK_SIZE) motion(
    unsigned int n, GLOBAL double* RESTRICT parts, GLOBAL const double* RESTRICT mass,
    GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT vx, GLOBAL const double* RESTRICT vy, GLOBAL const double* RESTRICT vz)
{
    SHARED double sums[BLOCK_SIZE];
    SHARED double rests[BLOCK_SIZE];
    Sum nothing;
    nothing.sum = 0.0;
    nothing.rest = 0.0;
    Sum energy = nothing, px = nothing, py = nothing, pz = nothing, lx = nothing, ly = nothing, lz = nothing;
    for (unsigned int i = INDEX; i < n; i += STRIDE) {
        double m = mass[i], u = vx[i], v = vy[i], w = vz[i];
        energy = plus(energy, m * (u * u + v * v + w * w));
        px = plus(px, m * u);
        py = plus(py, m * v);
        pz = plus(pz, m * w);
        lx = plus(lx, m * (y[i] * w - z[i] * v));
        ly = plus(ly, m * (z[i] * u - x[i] * w));
        lz = plus(lz, m * (x[i] * v - y[i] * u));
    }
    STORE(0, energy);
    STORE(1, px);
    STORE(2, py);
    STORE(3, pz);
    STORE(4, lx);
    STORE(5, ly);
    STORE(6, lz);
}

// parts: m phi, an entry a group.
KERNEL(BLOCK_SIZE) weighted(
    unsigned int n, GLOBAL double* RESTRICT parts, GLOBAL const double* RESTRICT mass,
    GLOBAL const double* RESTRICT potential)
{
    SHARED double sums[BLOCK_SIZE];
    SHARED double rests[BLOCK_SIZE];
    Sum energy;
    energy.sum = 0.0;
    energy.rest = 0.0;
    for (unsigned int i = INDEX; i < n; i += STRIDE) energy = plus(energy, mass[i] * potential[i]);
    STORE(0, energy);
}

// The largest or the least over a group, in its first thread.
#define GROUP_BEST(own, best)                                                                     \
    do {                                                                                          \
        values[THREAD] = own;                                                                     \
        BARRIER();                                                                                \
        for (int width = BLOCK_SIZE / 2; width > 0; width /= 2) {                                    \
            if (THREAD < width) values[THREAD] = best(values[THREAD], values[THREAD + width]);      \
            BARRIER();                                                                            \
        }                                                                                         \
        if (THREAD == 0) parts[BLOCK_INDEX] = values[0];                                                \
    } while (0)

// parts: the largest a^2 of each group.
KERNEL(BLOCK_SIZE) largest_acceleration2(
    unsigned int n, GLOBAL double* RESTRICT parts,
    GLOBAL const double* RESTRICT ax, GLOBAL const double* RESTRICT ay, GLOBAL const double* RESTRICT az)
{
    SHARED double values[BLOCK_SIZE];
    double largest = 0.0;
    for (unsigned int i = INDEX; i < n; i += STRIDE)
        largest = MAX64(largest, ax[i] * ax[i] + ay[i] * ay[i] + az[i] * az[i]);
    GROUP_BEST(largest, MAX64);
}

// parts: the least of r^3 / g (m + m') and r^2 / v^2 over the pairs of each group's bodies.
KERNEL(BLOCK_SIZE) shortest_pair_time2(
    unsigned int n, double g, double longest, GLOBAL double* RESTRICT parts, GLOBAL const double* RESTRICT mass,
    GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT vx, GLOBAL const double* RESTRICT vy, GLOBAL const double* RESTRICT vz)
{
    SHARED double values[BLOCK_SIZE];
    double shortest = longest;
    for (unsigned int i = INDEX; i < n; i += STRIDE) {
        for (unsigned int j = 0; j < i; j++) {
            double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            double du = vx[j] - vx[i], dv = vy[j] - vy[i], dw = vz[j] - vz[i];
            double r2 = dx * dx + dy * dy + dz * dz, v2 = du * du + dv * dv + dw * dw;
            double fall2 = r2 * sqrt(r2) / (g * (mass[i] + mass[j]));
            // Two at one place and speed have no time of passing: 0 / 0 is left out.
            shortest = MIN64(shortest, MIN64(fall2, r2 / v2));
        }
    }
    GROUP_BEST(shortest, MIN64);
}
