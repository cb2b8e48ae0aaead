// State of the bodies on a device: positions, velocities and accelerations as columns of f64.
// One thread per body.
//
// `failed_check` is one word. It is 0 until a check finds a non-finite value, and from then on the
// number of that check. Once it is set, no kernel moves a body: the host reads the word several
// steps later and must find the bodies as the failed step left them.
//
// The order of a sum depends only on the number of bodies. Each thread adds every kth term, where k
// is the number of threads, the threads of a block add pairwise, and the host adds the blocks.
// Rounding errors are summed as well (two-sum, Knuth, TAOCP 2, 4.2.2), so that a measured drift of
// the energy, for example, is due to the integrator and not to the summation.

// Index of this thread in the grid, and the number of threads in the grid.
#define GRID_THREAD ((unsigned int)BLOCK_INDEX * BLOCK_SIZE + (unsigned int)THREAD)
#define GRID_SIZE ((unsigned int)BLOCK_COUNT * BLOCK_SIZE)

#define IS_FINITE(x) ((x) - (x) == 0.0)

// Rows of the sums that `sum_motion` writes. Each row has one entry per block.
#define ROW_MV2 0
#define ROW_MOMENTUM 1
#define ROW_ANGULAR_MOMENTUM 4

// v += dt a
KERNEL(BLOCK_SIZE) kick(
    unsigned int body_count, double dt, GLOBAL const unsigned int* RESTRICT failed_check,
    GLOBAL double* RESTRICT vx, GLOBAL double* RESTRICT vy, GLOBAL double* RESTRICT vz,
    GLOBAL const double* RESTRICT ax, GLOBAL const double* RESTRICT ay, GLOBAL const double* RESTRICT az)
{
    unsigned int body = GRID_THREAD;
    if (body >= body_count || failed_check[0]) return;
    vx[body] += dt * ax[body];
    vy[body] += dt * ay[body];
    vz[body] += dt * az[body];
}

// x += dt v
KERNEL(BLOCK_SIZE) drift(
    unsigned int body_count, double dt, GLOBAL const unsigned int* RESTRICT failed_check,
    GLOBAL double* RESTRICT x, GLOBAL double* RESTRICT y, GLOBAL double* RESTRICT z,
    GLOBAL const double* RESTRICT vx, GLOBAL const double* RESTRICT vy, GLOBAL const double* RESTRICT vz)
{
    unsigned int body = GRID_THREAD;
    if (body >= body_count || failed_check[0]) return;
    x[body] += dt * vx[body];
    y[body] += dt * vy[body];
    z[body] += dt * vz[body];
}

// v += kick_dt a, then x += drift_dt v
KERNEL(BLOCK_SIZE) kick_and_drift(
    unsigned int body_count, double kick_dt, double drift_dt, GLOBAL const unsigned int* RESTRICT failed_check,
    GLOBAL double* RESTRICT x, GLOBAL double* RESTRICT y, GLOBAL double* RESTRICT z,
    GLOBAL double* RESTRICT vx, GLOBAL double* RESTRICT vy, GLOBAL double* RESTRICT vz,
    GLOBAL const double* RESTRICT ax, GLOBAL const double* RESTRICT ay, GLOBAL const double* RESTRICT az)
{
    unsigned int body = GRID_THREAD;
    if (body >= body_count || failed_check[0]) return;
    double new_vx = vx[body] + kick_dt * ax[body];
    double new_vy = vy[body] + kick_dt * ay[body];
    double new_vz = vz[body] + kick_dt * az[body];
    vx[body] = new_vx;
    vy[body] = new_vy;
    vz[body] = new_vz;
    x[body] += drift_dt * new_vx;
    y[body] += drift_dt * new_vy;
    z[body] += drift_dt * new_vz;
}

// result = start + sum of the first `term_count` products weight x term
KERNEL(BLOCK_SIZE) set_from_start(
    unsigned int body_count, int term_count, GLOBAL const unsigned int* RESTRICT failed_check,
    GLOBAL double* RESTRICT result, GLOBAL const double* start,
    double weight0, GLOBAL const double* term0, double weight1, GLOBAL const double* term1,
    double weight2, GLOBAL const double* term2, double weight3, GLOBAL const double* term3)
{
    unsigned int body = GRID_THREAD;
    if (body >= body_count || failed_check[0]) return;
    double sum = start[body];
    if (term_count > 0) sum += weight0 * term0[body];
    if (term_count > 1) sum += weight1 * term1[body];
    if (term_count > 2) sum += weight2 * term2[body];
    if (term_count > 3) sum += weight3 * term3[body];
    result[body] = sum;
}

// Writes `check_number` to `failed_check` if a component of the state is not finite.
KERNEL(BLOCK_SIZE) check_finite(
    unsigned int body_count, unsigned int check_number, GLOBAL unsigned int* failed_check,
    GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT vx, GLOBAL const double* RESTRICT vy, GLOBAL const double* RESTRICT vz,
    GLOBAL const double* RESTRICT ax, GLOBAL const double* RESTRICT ay, GLOBAL const double* RESTRICT az)
{
    unsigned int body = GRID_THREAD;
    if (body >= body_count) return;
    int all_finite = IS_FINITE(x[body]) && IS_FINITE(y[body]) && IS_FINITE(z[body])
        && IS_FINITE(vx[body]) && IS_FINITE(vy[body]) && IS_FINITE(vz[body])
        && IS_FINITE(ax[body]) && IS_FINITE(ay[body]) && IS_FINITE(az[body]);
    // All threads of one check write the same number. A later check does not overwrite it.
    if (!all_finite && failed_check[0] == 0) failed_check[0] = check_number;
}

// A sum and the rounding errors of its additions: the result is sum + error.
typedef struct { double sum; double error; } Sum;

// Adds one term with Knuth's two-sum, which gives the rounding error of the addition exactly.
FUNCTION Sum add_term(Sum before, double term)
{
    Sum after;
    after.sum = before.sum + term;
    double added = after.sum - before.sum;
    after.error = before.error + ((before.sum - (after.sum - added)) + (term - added));
    return after;
}

// Returns the sum over the threads of a block, to all of them. `sums` and `errors` have one entry
// per thread.
FUNCTION double block_sum(Sum thread_sum, SHARED_POINTER double* sums, SHARED_POINTER double* errors)
{
    sums[THREAD] = thread_sum.sum;
    errors[THREAD] = thread_sum.error;
    BARRIER();
    for (int width = BLOCK_SIZE / 2; width > 0; width /= 2) {
        if (THREAD < width) {
            Sum pair;
            pair.sum = sums[THREAD];
            pair.error = errors[THREAD] + errors[THREAD + width];
            pair = add_term(pair, sums[THREAD + width]);
            sums[THREAD] = pair.sum;
            errors[THREAD] = pair.error;
        }
        BARRIER();
    }
    double total = sums[0] + errors[0];
    BARRIER();
    return total;
}

// Writes the sum over a block to its entry of row `row`.
FUNCTION void store_block_sum(
    GLOBAL double* RESTRICT block_results, int row, Sum thread_sum,
    SHARED_POINTER double* sums, SHARED_POINTER double* errors)
{
    double total = block_sum(thread_sum, sums, errors);
    if (THREAD == 0) block_results[row * BLOCK_COUNT + BLOCK_INDEX] = total;
}

// block_results: m v^2, the three components of m v and the three of m x cross v, one row each.
KERNEL(BLOCK_SIZE) sum_motion(
    unsigned int body_count, GLOBAL double* RESTRICT block_results, GLOBAL const double* RESTRICT mass,
    GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT vx, GLOBAL const double* RESTRICT vy, GLOBAL const double* RESTRICT vz)
{
    SHARED double sums[BLOCK_SIZE];
    SHARED double errors[BLOCK_SIZE];
    Sum zero;
    zero.sum = 0.0;
    zero.error = 0.0;
    Sum mv2 = zero, px = zero, py = zero, pz = zero, lx = zero, ly = zero, lz = zero;
    for (unsigned int body = GRID_THREAD; body < body_count; body += GRID_SIZE) {
        double m = mass[body], u = vx[body], v = vy[body], w = vz[body];
        mv2 = add_term(mv2, m * (u * u + v * v + w * w));
        px = add_term(px, m * u);
        py = add_term(py, m * v);
        pz = add_term(pz, m * w);
        lx = add_term(lx, m * (y[body] * w - z[body] * v));
        ly = add_term(ly, m * (z[body] * u - x[body] * w));
        lz = add_term(lz, m * (x[body] * v - y[body] * u));
    }
    store_block_sum(block_results, ROW_MV2, mv2, sums, errors);
    store_block_sum(block_results, ROW_MOMENTUM, px, sums, errors);
    store_block_sum(block_results, ROW_MOMENTUM + 1, py, sums, errors);
    store_block_sum(block_results, ROW_MOMENTUM + 2, pz, sums, errors);
    store_block_sum(block_results, ROW_ANGULAR_MOMENTUM, lx, sums, errors);
    store_block_sum(block_results, ROW_ANGULAR_MOMENTUM + 1, ly, sums, errors);
    store_block_sum(block_results, ROW_ANGULAR_MOMENTUM + 2, lz, sums, errors);
}

// block_results: sum of m phi, one entry per block.
KERNEL(BLOCK_SIZE) sum_mass_potential(
    unsigned int body_count, GLOBAL double* RESTRICT block_results, GLOBAL const double* RESTRICT mass,
    GLOBAL const double* RESTRICT potential)
{
    SHARED double sums[BLOCK_SIZE];
    SHARED double errors[BLOCK_SIZE];
    Sum energy;
    energy.sum = 0.0;
    energy.error = 0.0;
    for (unsigned int body = GRID_THREAD; body < body_count; body += GRID_SIZE)
        energy = add_term(energy, mass[body] * potential[body]);
    store_block_sum(block_results, 0, energy, sums, errors);
}

// Defines a function that reduces one value per thread over a block with `op` (MIN64 or MAX64) and
// writes the block's entry of `block_results`.
#define DEFINE_STORE_BLOCK(name, op)                                                                    \
    FUNCTION void name(                                                                                 \
        GLOBAL double* RESTRICT block_results, double thread_value, SHARED_POINTER double* values)      \
    {                                                                                                   \
        values[THREAD] = thread_value;                                                                  \
        BARRIER();                                                                                      \
        for (int width = BLOCK_SIZE / 2; width > 0; width /= 2) {                                       \
            if (THREAD < width) values[THREAD] = op(values[THREAD], values[THREAD + width]);            \
            BARRIER();                                                                                  \
        }                                                                                               \
        if (THREAD == 0) block_results[BLOCK_INDEX] = values[0];                                        \
    }

DEFINE_STORE_BLOCK(store_block_max, MAX64)
DEFINE_STORE_BLOCK(store_block_min, MIN64)

// block_results: the largest |a|^2 of each block.
KERNEL(BLOCK_SIZE) largest_acceleration2(
    unsigned int body_count, GLOBAL double* RESTRICT block_results,
    GLOBAL const double* RESTRICT ax, GLOBAL const double* RESTRICT ay, GLOBAL const double* RESTRICT az)
{
    SHARED double values[BLOCK_SIZE];
    double largest = 0.0;
    for (unsigned int body = GRID_THREAD; body < body_count; body += GRID_SIZE)
        largest = MAX64(largest, ax[body] * ax[body] + ay[body] * ay[body] + az[body] * az[body]);
    store_block_max(block_results, largest, values);
}

// block_results: the smallest of r^3 / g (m + m') and r^2 / v^2, the squared times in which a pair
// collides or passes, over the pairs of each block's bodies with all bodies of lower index. The
// bodies of all blocks are targets_begin .. targets_end - 1. `longest` is the result where there is
// no pair.
KERNEL(BLOCK_SIZE) shortest_pair_time2(
    unsigned int body_count, unsigned int targets_begin, unsigned int targets_end, double g, double longest,
    GLOBAL double* RESTRICT block_results, GLOBAL const double* RESTRICT mass,
    GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT vx, GLOBAL const double* RESTRICT vy, GLOBAL const double* RESTRICT vz)
{
    SHARED double values[BLOCK_SIZE];
    double shortest2 = longest;
    for (unsigned int target = targets_begin + GRID_THREAD; target < targets_end; target += GRID_SIZE) {
        for (unsigned int source = 0; source < target; source++) {
            double dx = x[source] - x[target], dy = y[source] - y[target], dz = z[source] - z[target];
            double dvx = vx[source] - vx[target], dvy = vy[source] - vy[target], dvz = vz[source] - vz[target];
            double r2 = dx * dx + dy * dy + dz * dz, v2 = dvx * dvx + dvy * dvy + dvz * dvz;
            double collision_time2 = r2 * sqrt(r2) / (g * (mass[target] + mass[source]));
            double passing_time2 = r2 / v2;
            // Two bodies with equal position and velocity give 0 / 0 = NaN, which MIN64 ignores.
            shortest2 = MIN64(shortest2, MIN64(collision_time2, passing_time2));
        }
    }
    store_block_min(block_results, shortest2, values);
}
