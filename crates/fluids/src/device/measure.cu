// Energy, virial, kinetic energy and momentum of all particles, as sums in fixed point.
//
// LANES threads per particle share its neighbours.

// Numbers of a pair of species in `energy_pairs`, in f64.
#define ENERGY_CUTOFF2 0
#define ENERGY_DAMPING2 1
#define ENERGY_FORCE_REPULSION 2
#define ENERGY_FORCE_ATTRACTION 3
#define ENERGY_SWITCH_START 4
#define ENERGY_SWITCH_A 5
#define ENERGY_SWITCH_B 6
#define ENERGY_REPULSION 7
#define ENERGY_ATTRACTION 8
#define ENERGY_SHIFT 9
#define ENERGY_SWITCH_A3 10
#define ENERGY_SWITCH_B4 11
#define ENERGY_SLOTS 12

#define SUM_POTENTIAL 0
#define SUM_VIRIAL 1
#define SUM_KINETIC 2
#define SUM_MOMENTUM 3
#define WORDS_PER_SUM 3

// Returns the force divided by the distance in f64, scaled as in the reference.
FUNCTION double pair_term64(GLOBAL const double* pair, double r2)
{
    const double inv_r2 = 1.0 / (r2 + pair[ENERGY_DAMPING2]);
    const double inv_r6 = PRODUCT64(PRODUCT64(inv_r2, inv_r2), inv_r2);
    const double bracket = FMA64(pair[ENERGY_FORCE_REPULSION], inv_r6, -pair[ENERGY_FORCE_ATTRACTION]);
    const double plain = PRODUCT64(PRODUCT64(inv_r2, inv_r6), bracket);
#if IS_SWITCHED
    const double r = SQRT64(r2), beyond = r - pair[ENERGY_SWITCH_START];
    if (beyond <= 0.0)
        return plain;
    const double polynomial = FMA64(pair[ENERGY_SWITCH_B], beyond, pair[ENERGY_SWITCH_A]);
    return plain + PRODUCT64(PRODUCT64(beyond, beyond), polynomial) / r;
#else
    return plain;
#endif
}

// Returns the energy of a pair in units of energy.
FUNCTION double pair_energy(GLOBAL const double* pair, double r2)
{
    const double inv_r2 = 1.0 / (r2 + pair[ENERGY_DAMPING2]);
    const double inv_r6 = PRODUCT64(PRODUCT64(inv_r2, inv_r2), inv_r2);
    double energy =
        FMA64(inv_r6, FMA64(pair[ENERGY_REPULSION], inv_r6, -pair[ENERGY_ATTRACTION]), pair[ENERGY_SHIFT]);
#if IS_SWITCHED
    const double beyond = SQRT64(r2) - pair[ENERGY_SWITCH_START];
    if (beyond > 0.0) {
        const double polynomial = FMA64(pair[ENERGY_SWITCH_B4], beyond, pair[ENERGY_SWITCH_A3]);
        energy -= PRODUCT64(PRODUCT64(PRODUCT64(beyond, beyond), beyond), polynomial);
    }
#endif
    return energy;
}

// Adds energy and virial of one pair.
FUNCTION void add_energy(WideSum* potential, WideSum* virial, GLOBAL const double* pair, double r2,
    double virial_scale)
{
    if (!(r2 < pair[ENERGY_CUTOFF2]))
        return;
    add_term(potential, pair_energy(pair, r2));
    add_term(virial, PRODUCT64(PRODUCT64(pair_term64(pair, r2), r2), virial_scale));
}

// Adds the sum over the block to sum number `index`. All threads must call it.
FUNCTION void add_wide_sum(GLOBAL ulong* sums, int index, WideSum sum, SHARED_POINTER ulong* scratch)
{
    GLOBAL ulong* words = sums + index * WORDS_PER_SUM;
    add_block_sum(words, sum.whole, scratch);
    add_block_sum(words + 1, sum.rest, scratch);
    add_block_sum(words + 2, sum.large_terms, scratch);
}

// Adds energy and virial of the pairs of each particle, and its motion, to `sums`. Pairs count
// twice.
KERNEL(BLOCK_SIZE)
measure(GLOBAL const uint* RESTRICT control, uint n, uint stride, GLOBAL const ulong* RESTRICT x,
    GLOBAL const ulong* RESTRICT y, GLOBAL const ulong* RESTRICT z, GLOBAL const uint* RESTRICT species,
    GLOBAL const double* RESTRICT vx, GLOBAL const double* RESTRICT vy, GLOBAL const double* RESTRICT vz,
    GLOBAL const uint* RESTRICT counts, GLOBAL const float4* RESTRICT lists, uint capacity,
    GLOBAL const double* RESTRICT energy_pairs, GLOBAL const double* RESTRICT mass, double scale_x, double scale_y,
    double scale_z, double virial_scale, double kinetic_scale, double momentum_unit, GLOBAL ulong* sums)
{
    SHARED ulong scratch[BLOCK_SIZE];
    const uint side = control[CONTROL_SIDE] * stride, particle = GRID_THREAD / LANES, lane = (uint)THREAD % LANES;
    const WideSum none = { 0, 0, 0 };
    WideSum potential = none, virial = none, kinetic = none, momentum_x = none, momentum_y = none, momentum_z = none;
    if (particle < n) {
        const uint at = side + particle, count = neighbour_total(particle, stride, counts);
        for (uint k = lane; k < count; k += LANES) {
            const uint other = neighbour(particle, k, lists, capacity);
            if (other == particle)
                continue;
            const double dx = PRODUCT64((double)(i64)(x[at] - x[side + other]), scale_x),
                         dy = PRODUCT64((double)(i64)(y[at] - y[side + other]), scale_y),
                         dz = PRODUCT64((double)(i64)(z[at] - z[side + other]), scale_z);
            const double r2 = FMA64(dx, dx, FMA64(dy, dy, PRODUCT64(dz, dz)));
            const uint pair = species[at] * SPECIES + species[side + other];
            add_energy(&potential, &virial, energy_pairs + pair * ENERGY_SLOTS, r2, virial_scale);
        }
        bound_sum(&potential);
        bound_sum(&virial);
        if (lane == 0) {
            const double m = mass[species[at]];
            add_term(&kinetic, kinetic_term(m, vx[at], vy[at], vz[at], kinetic_scale));
            add_term(&momentum_x, PRODUCT64(m, vx[at]) / momentum_unit);
            add_term(&momentum_y, PRODUCT64(m, vy[at]) / momentum_unit);
            add_term(&momentum_z, PRODUCT64(m, vz[at]) / momentum_unit);
        }
    }
    add_wide_sum(sums, SUM_POTENTIAL, potential, scratch);
    add_wide_sum(sums, SUM_VIRIAL, virial, scratch);
    add_wide_sum(sums, SUM_KINETIC, kinetic, scratch);
    add_wide_sum(sums, SUM_MOMENTUM, momentum_x, scratch);
    add_wide_sum(sums, SUM_MOMENTUM + 1, momentum_y, scratch);
    add_wide_sum(sums, SUM_MOMENTUM + 2, momentum_z, scratch);
}
