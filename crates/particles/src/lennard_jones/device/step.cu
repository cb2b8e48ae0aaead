// Time steps: forces over the neighbour lists or over all pairs, kicks and drifts.
//
// Velocity Verlet with dt: v += dt/2 a, x += dt v, v += dt/2 a. Two half kicks follow one another at
// the same force, so a kernel does both and the drift after them. The first half kick of a batch uses
// the stored forces, and the last one stores them.
//
// Defined by the host: IS_ALL_PAIRS.

#define FIRST_STEP 0
#define MIDDLE_STEP 1
#define LAST_KICK 2

// Sums of the force on a particle, in 32 and in 64 bits.
typedef struct {
    int x, y, z;
    int is_near;
} NarrowSum;

typedef struct {
    i64 x, y, z;
} Force;

FUNCTION void add_pair(NarrowSum* sum, float4 own, float4 other, GLOBAL const float* pairs, float scale_x,
    float scale_y, float scale_z)
{
    const Separation d = separation(own, other, scale_x, scale_y, scale_z);
    GLOBAL const float* pair = pair_constants(pairs, FLOAT_AS_UINT(own.w), FLOAT_AS_UINT(other.w));
    if (!(d.r2 < pair[PAIR_CUTOFF2]))
        return;
    const float weight = pair_term(pair, d.r2);
    sum->is_near |= d.r2 < pair[PAIR_NEAR2];
    sum->x += ROUND_TO_INT(PRODUCT(weight, d.x));
    sum->y += ROUND_TO_INT(PRODUCT(weight, d.y));
#if DIMENSIONS == 3
    sum->z += ROUND_TO_INT(PRODUCT(weight, d.z));
#endif
}

// As add_pair, with sums of 64 bits.
FUNCTION void add_pair_wide(Force* sum, float4 own, float4 other, GLOBAL const float* pairs, float scale_x,
    float scale_y, float scale_z)
{
    const Separation d = separation(own, other, scale_x, scale_y, scale_z);
    GLOBAL const float* pair = pair_constants(pairs, FLOAT_AS_UINT(own.w), FLOAT_AS_UINT(other.w));
    if (!(d.r2 < pair[PAIR_CUTOFF2]))
        return;
    const float weight = pair_term(pair, d.r2);
    sum->x += ROUND_TO_LONG(PRODUCT(weight, d.x));
    sum->y += ROUND_TO_LONG(PRODUCT(weight, d.y));
    sum->z += ROUND_TO_LONG(PRODUCT(weight, d.z));
}

// Returns the force on a particle. With several lanes per particle, all of them get it.
FUNCTION Force sum_forces(uint particle, uint n, GLOBAL const float4* upper, GLOBAL const uint* counts,
    GLOBAL const uint* lists, uint capacity, GLOBAL const float* pairs, float scale_x, float scale_y,
    float scale_z, SHARED_POINTER uint* scratch)
{
    const uint lane = (uint)THREAD % LANES;
    const float4 own = upper[particle];
    NarrowSum sum = { 0, 0, 0, 0 };
#if IS_ALL_PAIRS
    const uint count = n;
#else
    const uint count = counts[particle];
#endif
    for (uint k = lane; k < count; k += LANES) {
#if IS_ALL_PAIRS
        const uint other = k;
        if (other == particle)
            continue;
#else
        const uint other = lists[list_position(particle, k, capacity)];
#endif
        add_pair(&sum, own, upper[other], pairs, scale_x, scale_y, scale_z);
    }
#if LANES > 1
    UNROLL_ALL
    for (uint distance = LANES / 2; distance > 0; distance /= 2) {
        const int from = LANE ^ (int)distance;
        sum.x += (int)SHUFFLE((uint)sum.x, from, scratch);
        sum.y += (int)SHUFFLE((uint)sum.y, from, scratch);
        sum.z += (int)SHUFFLE((uint)sum.z, from, scratch);
        sum.is_near |= (int)SHUFFLE((uint)sum.is_near, from, scratch);
    }
#endif
    Force force = { sum.x, sum.y, sum.z };
    if (sum.is_near) {
        // A large force may not fit into 32 bits. This is rare, so every lane sums all pairs.
        force.x = force.y = force.z = 0;
        for (uint k = 0; k < count; k++) {
#if IS_ALL_PAIRS
            const uint other = k;
            if (other == particle)
                continue;
#else
            const uint other = lists[list_position(particle, k, capacity)];
#endif
            add_pair_wide(&force, own, upper[other], pairs, scale_x, scale_y, scale_z);
        }
    }
    return force;
}

// Moves a fraction by `step` and counts the image if it leaves the box.
FUNCTION void move_fraction(GLOBAL ulong* fraction, GLOBAL int* image, i64 step)
{
    const ulong before = *fraction, after = before + (ulong)step;
    if (step >= 0 && after < before)
        *image += 1;
    else if (step < 0 && after > before)
        *image -= 1;
    *fraction = after;
}

// One coordinate of a particle: kicks and drifts. Returns the upper half of the new fraction, and
// sets `is_too_far` if the particle would move by more than `limit`.
FUNCTION uint kick_and_drift(int kind, i64 force, double kick, double drift, double limit,
    GLOBAL double* velocity, GLOBAL ulong* fraction, GLOBAL int* image, int* is_too_far)
{
    double v = FMA64(kick, (double)force, *velocity);
    if (kind == MIDDLE_STEP)
        v = FMA64(kick, (double)force, v);
    *velocity = v;
    if (kind != LAST_KICK) {
        const double step = PRODUCT64(v, drift);
        if (fabs(step) < limit)
            move_fraction(fraction, image, ROUND_DOUBLE_TO_LONG(step));
        else
            *is_too_far = 1;
    }
    return (uint)(*fraction >> 32);
}

// Returns true if the kernel may do its work. All blocks get the same answer, because only the last
// block of a kernel changes what it depends on.
FUNCTION int may_step(GLOBAL const uint* control, int kind)
{
    if (control[CONTROL_REBUILD] || control[CONTROL_FAILED] || control[CONTROL_OVERFLOW])
        return 0;
    const uint step = control[CONTROL_STEP], target = control[CONTROL_TARGET], start = control[CONTROL_START];
    if (kind == FIRST_STEP)
        return step == start && target != start;
    if (kind == MIDDLE_STEP)
        return step != start && step != target;
    return step == target && !control[CONTROL_IS_FINAL];
}

// Takes one step, or the first or last half of one (`kind`). `state` arrays have two sides. `kick` has
// dt / 2m per species, for forces as integers. One particle per LANES threads.
KERNEL(BLOCK_SIZE)
take_step(int kind, uint n, GLOBAL uint* control, GLOBAL float4* upper_sides, GLOBAL const float4* RESTRICT listed,
    GLOBAL const uint* RESTRICT counts, GLOBAL const uint* RESTRICT lists, uint capacity,
    GLOBAL const float* RESTRICT pairs, float scale_x, float scale_y, float scale_z,
    GLOBAL const double* RESTRICT kick, double drift_x, double drift_y, double drift_z, double limit_x,
    double limit_y, double limit_z, float half_skin2, GLOBAL ulong* x, GLOBAL ulong* y, GLOBAL ulong* z,
    GLOBAL int* image_x, GLOBAL int* image_y, GLOBAL int* image_z, GLOBAL double* vx, GLOBAL double* vy,
    GLOBAL double* vz, GLOBAL ulong* force_x, GLOBAL ulong* force_y, GLOBAL ulong* force_z,
    GLOBAL const uint* order)
{
    SHARED uint scratch[BLOCK_SIZE];
    if (!may_step(control, kind))
        return;
    const uint step = control[CONTROL_STEP], side = control[CONTROL_SIDE] * n;
    GLOBAL const float4* upper = upper_sides + (step & 1) * n;
    GLOBAL float4* next_upper = upper_sides + (1 - (step & 1)) * n;
    const uint wanted = GRID_THREAD / LANES;
    // Threads past the last particle repeat it and write nothing.
    const uint particle = wanted < n ? wanted : n - 1;
    Force force;
    if (kind == FIRST_STEP) {
        force.x = (i64)force_x[particle];
        force.y = (i64)force_y[particle];
        force.z = (i64)force_z[particle];
    } else
        force = sum_forces(
            particle, n, upper, counts, lists, capacity, pairs, scale_x, scale_y, scale_z, scratch);
    if (wanted < n && (uint)THREAD % LANES == 0) {
        const uint at = side + particle;
        const float4 own = upper[particle];
        const double half_kick = kick[FLOAT_AS_UINT(own.w)];
        int is_too_far = 0;
        const uint new_x = kick_and_drift(
            kind, force.x, half_kick, drift_x, limit_x, vx + at, x + at, image_x + at, &is_too_far);
        const uint new_y = kick_and_drift(
            kind, force.y, half_kick, drift_y, limit_y, vy + at, y + at, image_y + at, &is_too_far);
#if DIMENSIONS == 3
        const uint new_z = kick_and_drift(
            kind, force.z, half_kick, drift_z, limit_z, vz + at, z + at, image_z + at, &is_too_far);
#else
        const uint new_z = 0;
#endif
        if (kind == LAST_KICK) {
            force_x[particle] = (ulong)force.x;
            force_y[particle] = (ulong)force.y;
            force_z[particle] = (ulong)force.z;
        } else {
            const float4 moved = FLOAT4(UINT_AS_FLOAT(new_x), UINT_AS_FLOAT(new_y), UINT_AS_FLOAT(new_z), own.w);
            next_upper[particle] = moved;
#if !IS_ALL_PAIRS
            const Separation way = separation(moved, listed[particle], scale_x, scale_y, scale_z);
            if (!(way.r2 <= half_skin2))
                control[CONTROL_REBUILD_NEXT] = 1;
#endif
            if (is_too_far)
                ATOMIC_MAX_U32(control + CONTROL_FAILED_NEXT, n - order[at]);
        }
    }
    if (is_last_block(control, scratch) && THREAD == 0) {
        control[CONTROL_TICKET] = 0;
        if (kind == LAST_KICK)
            control[CONTROL_IS_FINAL] = 1;
        else {
            control[CONTROL_STEP] = step + 1;
            control[CONTROL_REBUILD] = LOAD_U32(control + CONTROL_REBUILD_NEXT);
            control[CONTROL_FAILED] = LOAD_U32(control + CONTROL_FAILED_NEXT);
        }
    }
}
