// Forces on particles: over the neighbour lists, or over all pairs with tiles in shared memory.
// `total` is the number of all particles, with ghosts. Only all pairs use it.

// Largest integer of a pair force, as LARGEST_INTEGER of the reference.
#define LARGEST_FORCE 1152921504606846976.0f

// Rounds a component of a pair force to an integer of 64 bits.
FUNCTION i64 wide_integer(float force)
{
    const float below = force < LARGEST_FORCE ? force : LARGEST_FORCE;
    return ROUND_TO_LONG(below > -LARGEST_FORCE ? below : -LARGEST_FORCE);
}

// Integers of the sums over all neighbours. Of 32 bits, a large force may not fit.
#if HAS_WIDE_SUMS
typedef i64 force_integer;
#define FORCE_INTEGER(x) wide_integer(x)
#else
typedef int force_integer;
#define FORCE_INTEGER(x) ROUND_TO_INT(x)
#endif

// Sums of the force on a particle, in integers of that type and in 64 bits.
typedef struct {
    force_integer x, y, z;
    int is_near;
} ForceSum;

typedef struct {
    i64 x, y, z;
} Force;

// Adds the force of a pair within the cutoff.
FUNCTION void add_pair(ForceSum* sum, float4 own, float4 other, GLOBAL const float* pairs, float scale_x,
    float scale_y, float scale_z)
{
    const Separation d = separation(own, other, scale_x, scale_y, scale_z);
    GLOBAL const float* pair = pair_constants(pairs, FLOAT_AS_UINT(own.w), FLOAT_AS_UINT(other.w));
    if (!(d.r2 < pair[PAIR_CUTOFF2]))
        return;
    const float weight = pair_term(pair, d.r2);
#if !HAS_WIDE_SUMS
    sum->is_near |= d.r2 < pair[PAIR_NEAR2];
#endif
    sum->x += FORCE_INTEGER(PRODUCT(weight, d.x));
    sum->y += FORCE_INTEGER(PRODUCT(weight, d.y));
#if DIMENSIONS == 3
    sum->z += FORCE_INTEGER(PRODUCT(weight, d.z));
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
    sum->x += wide_integer(PRODUCT(weight, d.x));
    sum->y += wide_integer(PRODUCT(weight, d.y));
    sum->z += wide_integer(PRODUCT(weight, d.z));
}

// Returns the number of particles that `neighbour` enumerates.
FUNCTION uint neighbour_total(uint particle, uint total, GLOBAL const uint* counts)
{
#if IS_ALL_PAIRS
    return total;
#else
    return counts[particle];
#endif
}

// Returns neighbour number k of a particle. With all pairs, one of them is the particle itself.
FUNCTION uint neighbour(uint particle, uint k, GLOBAL const float4* lists, uint capacity)
{
#if IS_ALL_PAIRS
    return k;
#else
    return ((GLOBAL const uint*)lists)[list_position(particle, k, capacity)];
#endif
}

// Adds the forces of every LANES-th quad of neighbours. With all pairs, blocks load tiles of
// particles, and all threads of the block must call this.
FUNCTION ForceSum sum_neighbours(uint particle, float4 own, uint total, GLOBAL const float4* upper,
    GLOBAL const uint* counts, GLOBAL const float4* lists, uint capacity, GLOBAL const float* pairs, float scale_x,
    float scale_y, float scale_z, SHARED_POINTER float4* tile)
{
    ForceSum sum = { 0, 0, 0, 0 };
    const uint lane = (uint)THREAD % LANES;
#if IS_ALL_PAIRS
    for (uint first = 0; first < total; first += BLOCK_SIZE) {
        const uint loaded = first + (uint)THREAD;
        BARRIER();
        if (loaded < total)
            tile[THREAD] = upper[loaded];
        BARRIER();
        const uint end = total - first < BLOCK_SIZE ? total - first : BLOCK_SIZE;
        for (uint k = lane; k < end; k += LANES)
            if (first + k != particle)
                add_pair(&sum, own, tile[k], pairs, scale_x, scale_y, scale_z);
    }
#else
    const uint count = counts[particle];
    for (uint quad = lane; 4 * quad < count; quad += LANES) {
        const float4 entries = lists[quad_position(particle, quad, capacity)];
        const uint left = count - 4 * quad;
        // Four loads are under way together. Those past the end load the particle itself.
        const float4 a = upper[FLOAT_AS_UINT(entries.x)],
                     b = upper[left > 1 ? FLOAT_AS_UINT(entries.y) : particle],
                     c = upper[left > 2 ? FLOAT_AS_UINT(entries.z) : particle],
                     d = upper[left > 3 ? FLOAT_AS_UINT(entries.w) : particle];
        add_pair(&sum, own, a, pairs, scale_x, scale_y, scale_z);
        if (left > 1)
            add_pair(&sum, own, b, pairs, scale_x, scale_y, scale_z);
        if (left > 2)
            add_pair(&sum, own, c, pairs, scale_x, scale_y, scale_z);
        if (left > 3)
            add_pair(&sum, own, d, pairs, scale_x, scale_y, scale_z);
    }
#endif
    return sum;
}

// Returns a value of another lane.
FUNCTION force_integer shuffled(force_integer value, int from, SHARED_POINTER uint* scratch)
{
#if HAS_WIDE_SUMS
    const uint low = SHUFFLE((uint)value, from, scratch);
    const uint high = SHUFFLE((uint)((ulong)value >> 32), from, scratch);
    return (force_integer)(low | (ulong)high << 32);
#else
    return (force_integer)SHUFFLE((uint)value, from, scratch);
#endif
}

// Returns the force on a particle. With several lanes per particle, all of them get it.
FUNCTION Force sum_forces(uint particle, uint total, GLOBAL const float4* upper, GLOBAL const uint* counts,
    GLOBAL const float4* lists, uint capacity, GLOBAL const float* pairs, float scale_x, float scale_y,
    float scale_z, SHARED_POINTER uint* scratch, SHARED_POINTER float4* tile)
{
    const float4 own = upper[particle];
    ForceSum sum = sum_neighbours(
        particle, own, total, upper, counts, lists, capacity, pairs, scale_x, scale_y, scale_z, tile);
#if LANES > 1
    UNROLL_ALL
    for (uint distance = LANES / 2; distance > 0; distance /= 2) {
        const int from = LANE ^ (int)distance;
        sum.x += shuffled(sum.x, from, scratch);
        sum.y += shuffled(sum.y, from, scratch);
        sum.z += shuffled(sum.z, from, scratch);
        sum.is_near |= (int)SHUFFLE((uint)sum.is_near, from, scratch);
    }
#endif
    Force force = { sum.x, sum.y, sum.z };
    if (sum.is_near) {
        // A large force may not fit into 32 bits. This is rare, so every lane sums all pairs.
        force.x = force.y = force.z = 0;
        const uint count = neighbour_total(particle, total, counts);
        for (uint k = 0; k < count; k++) {
            const uint other = neighbour(particle, k, lists, capacity);
            if (other != particle)
                add_pair_wide(&force, own, upper[other], pairs, scale_x, scale_y, scale_z);
        }
    }
    return force;
}
