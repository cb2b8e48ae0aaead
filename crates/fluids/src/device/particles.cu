// Particles of a fluid on a device: arithmetic and memory that the kernels share. Other files
// follow this one. lennard_jones/arithmetic.rs is the reference: every operation is rounded once,
// in the same order, and forces are sums of integers, so the bits are those of the CPU.
//
// The state has two sides of `stride` particles each, of which the first n are used. Sorting copies
// the particles from one side to the other, and CONTROL_SIDE tells which one is current. Particles
// are in the order of their cells.
//
// One rank of several (HAS_GHOSTS) has a part of the particles. Copies of particles of other ranks,
// the ghosts, follow behind the first n in columns that forces and energies read. With all pairs,
// particles and ghosts fill a side.
//
// Upper halves of the fractions are in `upper`, as bits of float4 (x, y, z, species). It has two
// sides as well: a step reads those of CONTROL_STEP % 2 and writes the others, because other
// threads still read the old ones.
//
// Kernels take the next step only if they may: the lists must be valid, and the target must not be
// reached. Otherwise they return at once. So the host queues steps and builds of lists without
// knowing when lists become invalid.
//
// Defined by the host: BLOCK_SIZE, LANES (threads per particle), SPECIES, IS_SWITCHED, IS_PERIODIC,
// DIMENSIONS, IS_ALL_PAIRS, HAS_GHOSTS, HAS_WIDE_SUMS.

#if defined(ON_OPENCL)
#pragma OPENCL FP_CONTRACT OFF
#endif

#define GRID_THREAD ((uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD)

// Words of `control`. Blocks set words with the suffix NEXT. The last block of a kernel copies them
// to the words without it, so all blocks of a kernel read the same ones.
#define CONTROL_STEP 0           // steps done, modulo 2^32
#define CONTROL_TARGET 1         // value of CONTROL_STEP at the end of the batch
#define CONTROL_REBUILD 2        // 1 if the lists are not valid
#define CONTROL_REBUILD_NEXT 3
#define CONTROL_SIDE 4           // current side of the state
#define CONTROL_TICKET 5         // blocks that are done
#define CONTROL_OVERFLOW 6       // most neighbours of a particle, if they do not fit into its list
#define CONTROL_FAILED 7         // 2^32 - 1 - user's index of the first particle that moves too far, or 0
#define CONTROL_IS_FINAL 8       // 1 if the last half kick of the batch is done
#define CONTROL_REBUILDS 9       // builds of the lists
#define CONTROL_FAILED_NEXT 10
#define CONTROL_OVERFLOW_NEXT 11
#define CONTROL_START 12         // value of CONTROL_STEP at the start of the batch
#define CONTROL_IS_KICKED 13     // rescaling: 1 between the end of a step and the start of the next one
#define CONTROL_WIDEN 14         // 1 if a particle has left the middle half of an open box
#define CONTROL_WIDEN_NEXT 15
#define CONTROL_GENERATION 16    // grid barriers passed
#define CONTROL_WORDS 17

// Numbers of a pair of species in `pairs`.
#define PAIR_CUTOFF2 0
#define PAIR_NEAR2 1
#define PAIR_DAMPING2 2
#define PAIR_REPULSION 3
#define PAIR_ATTRACTION 4
#define PAIR_SWITCH_START 5
#define PAIR_SWITCH_A 6
#define PAIR_SWITCH_B 7
#define PAIR_SLOTS 8

// Product and sum that the compiler must not fuse.
#if defined(ON_CUDA)
#define PRODUCT(a, b) __fmul_rn(a, b)
#define ROUND_TO_INT(x) __float2int_rn(x)
#define ROUND_TO_LONG(x) __float2ll_rn(x)
#define ROUND_DOUBLE_TO_LONG(x) __double2ll_rn(x)
#define PRODUCT64(a, b) __dmul_rn(a, b)
typedef long long i64;
#else
#define PRODUCT(a, b) ((a) * (b))
#define ROUND_TO_INT(x) convert_int_sat_rte(x)
#define ROUND_TO_LONG(x) convert_long_sat_rte(x)
#define ROUND_DOUBLE_TO_LONG(x) convert_long_sat_rte(x)
#define PRODUCT64(a, b) ((a) * (b))
typedef long i64;
#endif

// Loads of numbers that another block has written in the same launch.
#define LOAD_U64(p) (*(const volatile GLOBAL ulong*)(p))
#define LOAD_F64(p) (*(const volatile GLOBAL double*)(p))

// Vector between two particles and its squared length, in units of length.
typedef struct {
    float x, y, z, r2;
} Separation;

FUNCTION Separation separation(float4 a, float4 b, float scale_x, float scale_y, float scale_z)
{
    Separation d;
    // Differences wrap around, which gives the nearest image.
    d.x = PRODUCT((float)(int)(FLOAT_AS_UINT(a.x) - FLOAT_AS_UINT(b.x)), scale_x);
    d.y = PRODUCT((float)(int)(FLOAT_AS_UINT(a.y) - FLOAT_AS_UINT(b.y)), scale_y);
#if DIMENSIONS == 3
    d.z = PRODUCT((float)(int)(FLOAT_AS_UINT(a.z) - FLOAT_AS_UINT(b.z)), scale_z);
    d.r2 = FMA(d.x, d.x, FMA(d.y, d.y, PRODUCT(d.z, d.z)));
#else
    d.z = 0.0f;
    d.r2 = FMA(d.x, d.x, PRODUCT(d.y, d.y));
#endif
    return d;
}

// Returns the force divided by the distance, scaled by 2^`force_bits` of the reference.
FUNCTION float pair_term(GLOBAL const float* pair, float r2)
{
    const float inv_r2 = 1.0f / (r2 + pair[PAIR_DAMPING2]);
    const float inv_r6 = PRODUCT(PRODUCT(inv_r2, inv_r2), inv_r2);
    const float bracket = FMA(pair[PAIR_REPULSION], inv_r6, -pair[PAIR_ATTRACTION]);
    const float plain = PRODUCT(PRODUCT(inv_r2, inv_r6), bracket);
#if IS_SWITCHED
    const float r = SQRT(r2), beyond = r - pair[PAIR_SWITCH_START];
    if (beyond <= 0.0f)
        return plain;
    const float polynomial = FMA(pair[PAIR_SWITCH_B], beyond, pair[PAIR_SWITCH_A]);
    return plain + PRODUCT(PRODUCT(beyond, beyond), polynomial) / r;
#else
    return plain;
#endif
}

// Returns the constants of a pair of species.
FUNCTION GLOBAL const float* pair_constants(GLOBAL const float* pairs, uint a, uint b)
{
#if SPECIES == 1
    // The same for all pairs, so that the compiler keeps the constants in registers.
    return pairs;
#else
    return pairs + (a * SPECIES + b) * PAIR_SLOTS;
#endif
}

// Position of quad number `quad` of a particle in the lists. A quad has four neighbours, as bits of
// float4. Threads of a warp that work on neighbouring particles, LANES of them on each, read
// neighbouring quads.
FUNCTION ulong quad_position(uint particle, uint quad, uint capacity)
{
    const uint particles_per_warp = 32 / LANES;
    const uint warp = particle / particles_per_warp, row = quad / LANES;
    const uint lane = particle % particles_per_warp * LANES + quad % LANES;
    return ((ulong)warp * (capacity / (4 * LANES)) + row) * 32 + lane;
}

// Position of neighbour number k of a particle in the lists, as an array of uint.
FUNCTION ulong list_position(uint particle, uint k, uint capacity)
{
    return 4 * quad_position(particle, k / 4, capacity) + k % 4;
}

// Marks this block as done. Returns true in all threads of the last block.
FUNCTION int is_last_block(GLOBAL uint* control, SHARED_POINTER uint* scratch)
{
    DEVICE_FENCE();
    BARRIER();
    if (THREAD == 0)
        scratch[0] = ATOMIC_ADD_U32(control + CONTROL_TICKET, 1) == (uint)BLOCK_COUNT - 1 ? 1 : 0;
    BARRIER();
    return scratch[0] != 0;
}

// Adds to an integer of 64 bits. Without an atomic addition of this width, the halves are added one
// after the other: each overflow of the lower half is carried once, in any order of additions.
FUNCTION void add_u64(GLOBAL ulong* sum, ulong value)
{
#if defined(ON_CUDA)
    atomicAdd(sum, value);
#else
    GLOBAL uint* halves = (GLOBAL uint*)sum;
    const uint low = (uint)value;
    const uint before = ATOMIC_ADD_U32(halves, low);
    const uint carry = before + low < low ? 1 : 0;
    ATOMIC_ADD_U32(halves + 1, (uint)(value >> 32) + carry);
#endif
}

// Adds the sum of a value over the block. All threads must call it.
FUNCTION void add_block_sum(GLOBAL ulong* sum, i64 value, SHARED_POINTER ulong* scratch)
{
    BARRIER();
    scratch[THREAD] = (ulong)value;
    BARRIER();
    for (int distance = BLOCK_SIZE / 2; distance > 0; distance /= 2) {
        if (THREAD < distance)
            scratch[THREAD] += scratch[THREAD + distance];
        BARRIER();
    }
    if (THREAD == 0)
        add_u64(sum, scratch[0]);
}

// A sum of energies or momenta, as `WideSum` of sums.rs, which is the reference.
typedef struct {
    i64 whole, rest, large_terms;
} WideSum;

#define SUM_FRACTIONS 4294967296.0
#define LARGEST_TERM 68719476736.0

// Adds a term, in units of the sum.
FUNCTION void add_term(WideSum* sum, double term)
{
    // NaN is too large as well.
    const int fits = fabs(term) < LARGEST_TERM;
    const double bounded = fits ? term : LARGEST_TERM;
    const i64 whole = ROUND_DOUBLE_TO_LONG(bounded);
    sum->whole += whole;
    sum->rest += ROUND_DOUBLE_TO_LONG(PRODUCT64(bounded - (double)whole, SUM_FRACTIONS));
    sum->large_terms += fits ? 0 : 1;
}

// Moves all but 32 bits of the rest to the other word.
FUNCTION void carry_sum(WideSum* sum)
{
    sum->whole += sum->rest >> 32;
    sum->rest &= 0xffffffff;
}

// Bounds a sum over the pairs of one particle, such that sums over particles fit.
FUNCTION void bound_sum(WideSum* sum)
{
    carry_sum(sum);
    if (sum->whole < (i64)LARGEST_TERM && sum->whole > -(i64)LARGEST_TERM)
        return;
    sum->whole = (i64)LARGEST_TERM;
    sum->rest = 0;
    sum->large_terms += 1;
}

// Returns the kinetic energy of a particle in units of the sum, with the operations of
// `HostFluid::motion_sums`.
FUNCTION double kinetic_term(double mass, double vx, double vy, double vz, double to_unit)
{
    const double v2 = FMA64(vx, vx, FMA64(vy, vy, PRODUCT64(vz, vz)));
    return PRODUCT64(PRODUCT64(PRODUCT64(0.5, mass), v2), to_unit);
}
