// Time steps: forces, kicks and drifts, and the two thermostats. ensemble.rs has the equations.
//
// Velocity Verlet with dt: v += dt/2 a, x += dt v, v += dt/2 a. Two half kicks follow one another
// at the same force, so a kernel does both and the drift after them. The first half kick of a batch
// uses the stored forces, and the last one stores them. Langevin dynamics has two drifts of dt/2
// with the noise between them.
//
// Stochastic rescaling needs the kinetic energy after a step before the next one starts. Its steps
// have two parts: forces, the second half kick and the sum, and then the scaling and the first half
// of the next step.
//
// A launch takes one step, or several with a barrier of all blocks after each. The blocks must then
// be resident together.
//
// Defined by the host: ENSEMBLE, STEP_THREADS_PER_SM (threads of take_force_step that fit on an
// SM).

#define ENSEMBLE_NVE 0
#define ENSEMBLE_LANGEVIN 1
#define ENSEMBLE_RESCALING 2

// Kinds of steps.
#define FIRST_STEP 0      // half kick with the stored forces, drift
#define MIDDLE_STEP 1     // forces, two half kicks, drift
#define LAST_KICK 2       // forces, half kick
#define KICK_AND_SUM 3    // rescaling: forces, half kick, kinetic energy
#define SCALE_AND_DRIFT 4 // rescaling: scaling, half kick with the stored forces, drift

// Numbers of `motion`.
#define MOTION_DRIFT 0          // fractions of the box per velocity, three axes
#define MOTION_LIMIT 3          // longest drift in fractions, three axes
#define MOTION_DECAY 6          // factor of velocities (Langevin) or of the kinetic energy (rescaling)
#define MOTION_SHARE 7          // rescaling: (1 - decay) kT / 2
#define MOTION_TO_UNIT 8        // kinetic energy to units of its sum
#define MOTION_UNIT 9
#define MOTION_SPECIES 10       // then MOTION_SPECIES_SLOTS numbers per species
#define MOTION_SPECIES_SLOTS 3
#define MOTION_KICK 0           // dt / 2m, for forces as integers
#define MOTION_WIDTH 1          // width of the noise
#define MOTION_MASS 2

// Columns of the state, at the current side.
typedef struct {
    GLOBAL ulong *x, *y, *z;
    GLOBAL int *image_x, *image_y, *image_z;
    GLOBAL double *vx, *vy, *vz;
    GLOBAL ulong *force_x, *force_y, *force_z;
} State;

// One coordinate of a particle.
typedef struct {
    ulong fraction;
    double v;
    int image_change;
    int is_too_far;
} Coordinate;

// Moves a coordinate, and counts the image if it leaves the box.
FUNCTION void drift(Coordinate* c, double factor, double limit)
{
    const double step = PRODUCT64(c->v, factor);
    if (!(fabs(step) < limit)) {
        c->is_too_far = 1;
        return;
    }
    const i64 way = ROUND_DOUBLE_TO_LONG(step);
    const ulong after = c->fraction + (ulong)way;
    if (way >= 0 && after < c->fraction)
        c->image_change += 1;
    else if (way < 0 && after > c->fraction)
        c->image_change -= 1;
    c->fraction = after;
}

// Returns a coordinate after the kicks and drifts of a step. `has_drift` is 0 if the step ends with
// a kick, and `factor` multiplies the velocity first.
FUNCTION Coordinate move_coordinate(int kind, int has_drift, ulong fraction, double v, i64 force, double factor,
    GLOBAL const double* motion, int axis, uint species, double noise_number)
{
    GLOBAL const double* of_species = motion + MOTION_SPECIES + species * MOTION_SPECIES_SLOTS;
    const double kick = of_species[MOTION_KICK];
    const double drift_factor = motion[MOTION_DRIFT + axis], limit = motion[MOTION_LIMIT + axis];
    Coordinate c = { fraction, v, 0, 0 };
    if (kind == SCALE_AND_DRIFT)
        c.v = PRODUCT64(c.v, factor);
    if (kind != SCALE_AND_DRIFT || has_drift)
        c.v = FMA64(kick, (double)force, c.v);
    if (kind == MIDDLE_STEP)
        c.v = FMA64(kick, (double)force, c.v);
    if (!has_drift)
        return c;
    drift(&c, drift_factor, limit);
#if ENSEMBLE == ENSEMBLE_LANGEVIN
    if (!c.is_too_far) {
        c.v = FMA64(of_species[MOTION_WIDTH], noise_number, PRODUCT64(motion[MOTION_DECAY], c.v));
        drift(&c, drift_factor, limit);
    }
#endif
    return c;
}

// Writes a coordinate. Returns 1 if it is outside the middle half of the box.
FUNCTION int store_coordinate(Coordinate c, int has_drift, GLOBAL ulong* fraction, GLOBAL int* image,
    GLOBAL double* velocity)
{
    *velocity = c.v;
    if (has_drift)
        *fraction = c.fraction;
    if (c.image_change != 0)
        *image += c.image_change;
    const ulong top = c.fraction >> 62;
    return top == 0 || top == 3;
}

// Reports a particle that has moved too far for the lists, the step or an open box. `failed` is the
// value of CONTROL_FAILED for it.
FUNCTION void check_move(float4 moved, GLOBAL const float4* listed, int is_too_far, int is_outside, uint failed,
    GLOBAL uint* control, float scale_x, float scale_y, float scale_z, float half_skin2)
{
    if (is_too_far)
        ATOMIC_MAX_U32(control + CONTROL_FAILED_NEXT, failed);
#if !IS_PERIODIC
    if (is_outside)
        STORE_U32(control + CONTROL_WIDEN_NEXT, 1);
#endif
#if !IS_ALL_PAIRS
    const Separation way = separation(moved, *listed, scale_x, scale_y, scale_z);
    if (!(way.r2 <= half_skin2))
        STORE_U32(control + CONTROL_REBUILD_NEXT, 1);
#endif
}

// Takes a particle through a step and stores it. Adds its kinetic energy to the sum where the step
// needs it.
FUNCTION void move_particle(WideSum* kinetic, int kind, int has_drift, uint particle, Force force, double scaling, float4 own,
    const State* state, GLOBAL uint* control, GLOBAL float4* next_upper, GLOBAL const float4* listed,
    GLOBAL const double* motion, float scale_x, float scale_y, float scale_z, float half_skin2,
    GLOBAL const uint* order, GLOBAL const ulong* ids, ulong seed, ulong step)
{
    const uint species = FLOAT_AS_UINT(own.w);
    if (kind == FIRST_STEP || kind == SCALE_AND_DRIFT) {
        force.x = (i64)state->force_x[particle];
        force.y = (i64)state->force_y[particle];
        force.z = (i64)state->force_z[particle];
    }
#if ENSEMBLE == ENSEMBLE_LANGEVIN
    Noise numbers = { 0.0, 0.0, 0.0 };
    if (has_drift)
        numbers = noise(seed, step, ids[order[particle]]);
#else
    const Noise numbers = { 0.0, 0.0, 0.0 };
#endif
    const Coordinate new_x = move_coordinate(kind, has_drift, state->x[particle], state->vx[particle], force.x,
                         scaling, motion, 0, species, numbers.x),
                     new_y = move_coordinate(kind, has_drift, state->y[particle], state->vy[particle], force.y,
                         scaling, motion, 1, species, numbers.y);
    int is_outside = store_coordinate(new_x, has_drift, state->x + particle, state->image_x + particle,
        state->vx + particle);
    is_outside |= store_coordinate(new_y, has_drift, state->y + particle, state->image_y + particle,
        state->vy + particle);
    int is_too_far = new_x.is_too_far | new_y.is_too_far;
#if DIMENSIONS == 3
    const Coordinate new_z = move_coordinate(kind, has_drift, state->z[particle], state->vz[particle], force.z,
        scaling, motion, 2, species, numbers.z);
    is_outside |= store_coordinate(new_z, has_drift, state->z + particle, state->image_z + particle,
        state->vz + particle);
    is_too_far |= new_z.is_too_far;
    const uint upper_z = (uint)(new_z.fraction >> 32);
    const double vz = new_z.v;
#else
    const uint upper_z = 0;
    const double vz = PRODUCT64(state->vz[particle], scaling);
    state->vz[particle] = vz;
#endif
    if (kind == LAST_KICK || kind == KICK_AND_SUM) {
        state->force_x[particle] = (ulong)force.x;
        state->force_y[particle] = (ulong)force.y;
        state->force_z[particle] = (ulong)force.z;
    }
    if (has_drift) {
        const float4 moved = FLOAT4(UINT_AS_FLOAT((uint)(new_x.fraction >> 32)),
            UINT_AS_FLOAT((uint)(new_y.fraction >> 32)), UINT_AS_FLOAT(upper_z), own.w);
        next_upper[particle] = moved;
        check_move(moved, listed + particle, is_too_far, is_outside, 0xffffffffu - order[particle], control, scale_x,
            scale_y, scale_z, half_skin2);
    }
#if ENSEMBLE == ENSEMBLE_RESCALING
    if (kind == KICK_AND_SUM)
        add_term(kinetic, kinetic_term(motion[MOTION_SPECIES + species * MOTION_SPECIES_SLOTS + MOTION_MASS],
            new_x.v, new_y.v, vz, motion[MOTION_TO_UNIT]));
#endif
}

// Returns true if a kernel may take a step of this kind. All blocks get the same answer.
FUNCTION int may_step(SHARED_POINTER const uint* words, int kind)
{
    if (words[CONTROL_REBUILD] || words[CONTROL_FAILED] || words[CONTROL_OVERFLOW] || words[CONTROL_WIDEN])
        return 0;
    const uint step = words[CONTROL_STEP], target = words[CONTROL_TARGET], start = words[CONTROL_START];
    if (kind == FIRST_STEP)
        return step == start && target != start;
    if (kind == MIDDLE_STEP)
        return step != start && step != target;
    if (kind == LAST_KICK)
        return step == target && !words[CONTROL_IS_FINAL];
    if (kind == KICK_AND_SUM)
        return step != start && !words[CONTROL_IS_KICKED] && !words[CONTROL_IS_FINAL];
    return words[CONTROL_IS_KICKED] != 0;
}

// Returns the factor of all velocities, with the operations of `rescaling_factor_with`. `numbers`
// has two random numbers per step of the batch.
FUNCTION double rescaling_factor(WideSum sum, uint step_in_batch, GLOBAL const double* motion,
    GLOBAL const double* numbers)
{
    // As `WideSum::bounded_value`.
    carry_sum(&sum);
    const double fractions = FMA64((double)sum.whole, SUM_FRACTIONS, (double)sum.rest);
    const double in_units = PRODUCT64(fractions, 1.0 / SUM_FRACTIONS);
    const double kinetic = PRODUCT64(in_units, motion[MOTION_UNIT]);
    if (kinetic <= 0.0)
        return 1.0;
    const double decay = motion[MOTION_DECAY], first = numbers[2 * step_in_batch],
                 others = numbers[2 * step_in_batch + 1];
    const double share = motion[MOTION_SHARE] / kinetic;
    const double squares = PRODUCT64(first, first) + others;
    const double mixed = PRODUCT64(2.0 * first, SQRT64(PRODUCT64(decay, share)));
    const double factor2 = (decay + PRODUCT64(share, squares)) + mixed;
    const double factor = SQRT64(factor2 > 0.0 ? factor2 : 0.0);
    return first + SQRT64(decay / share) > 0.0 ? factor : -factor;
}

// Ends a step in one thread of the last block: updates the words of `control` for the next kernel.
// One rank of several leaves the sum of kinetic energies to the host, which writes the factor.
FUNCTION void finish_step(int kind, int has_drift, SHARED_POINTER const uint* words, GLOBAL uint* control,
    GLOBAL ulong* kinetic_sum, GLOBAL double* factor, GLOBAL const double* motion, GLOBAL const double* numbers)
{
    control[CONTROL_TICKET] = 0;
    const uint step = words[CONTROL_STEP];
#if ENSEMBLE == ENSEMBLE_RESCALING
    if (kind == KICK_AND_SUM) {
#if !HAS_GHOSTS
        DEVICE_FENCE();
        const uint step_in_batch = step - words[CONTROL_START] - 1;
        const WideSum sum = { (i64)LOAD_U64(kinetic_sum), (i64)LOAD_U64(kinetic_sum + 1), 0 };
        *factor = rescaling_factor(sum, step_in_batch, motion, numbers);
        kinetic_sum[0] = 0;
        kinetic_sum[1] = 0;
#endif
        control[CONTROL_IS_KICKED] = 1;
        return;
    }
    control[CONTROL_IS_KICKED] = 0;
#endif
    if (!has_drift) {
        control[CONTROL_IS_FINAL] = 1;
        return;
    }
    control[CONTROL_STEP] = step + 1;
    control[CONTROL_REBUILD] = LOAD_U32(control + CONTROL_REBUILD_NEXT);
    control[CONTROL_FAILED] = LOAD_U32(control + CONTROL_FAILED_NEXT);
    control[CONTROL_WIDEN] = LOAD_U32(control + CONTROL_WIDEN_NEXT);
}

// Copies the words of `control` to shared memory.
FUNCTION void load_words(GLOBAL const uint* control, SHARED_POINTER uint* words)
{
    BARRIER();
    if (THREAD < CONTROL_WORDS)
        words[THREAD] = LOAD_U32(control + THREAD);
    BARRIER();
}

// Waits until all blocks have finished the step. `generation` is CONTROL_GENERATION before it.
FUNCTION void wait_for_blocks(GLOBAL uint* control, uint generation, int is_last)
{
    if (THREAD == 0) {
        DEVICE_FENCE();
        if (is_last)
            STORE_U32(control + CONTROL_GENERATION, generation + 1);
        while (LOAD_U32(control + CONTROL_GENERATION) == generation) {
        }
        DEVICE_FENCE();
    }
    BARRIER();
}

// Parameters of the kernels, and the arguments that pass them on. `first_step` is the number of
// steps before the batch.
#define STEP_PARAMETERS                                                                                       \
    uint n, uint stride, GLOBAL uint *control, GLOBAL float4 *upper_sides,                                    \
        GLOBAL const float4 *RESTRICT listed, GLOBAL const uint *RESTRICT counts,                             \
        GLOBAL const float4 *RESTRICT lists, uint capacity,                                                   \
        GLOBAL const float *RESTRICT pairs, float scale_x, float scale_y, float scale_z,                      \
        GLOBAL const double *RESTRICT motion, float half_skin2, GLOBAL ulong *x, GLOBAL ulong *y,             \
        GLOBAL ulong *z, GLOBAL int *image_x, GLOBAL int *image_y, GLOBAL int *image_z, GLOBAL double *vx,    \
        GLOBAL double *vy, GLOBAL double *vz, GLOBAL ulong *force_x, GLOBAL ulong *force_y,                   \
        GLOBAL ulong *force_z, GLOBAL const uint *RESTRICT order, GLOBAL const ulong *RESTRICT ids,           \
        ulong seed, ulong first_step, GLOBAL ulong *kinetic_sum, GLOBAL double *factor,                       \
        GLOBAL const double *RESTRICT numbers
#define STEP_ARGUMENTS                                                                                        \
    n, stride, control, upper_sides, listed, counts, lists, capacity, pairs, scale_x, scale_y, scale_z,       \
        motion, half_skin2, x, y, z, image_x, image_y, image_z, vx, vy, vz, force_x, force_y, force_z, order, \
        ids, seed, first_step, kinetic_sum, factor, numbers

// Shared memory of the kernels.
#if IS_ALL_PAIRS
#define TILE_SIZE BLOCK_SIZE
#else
#define TILE_SIZE 1
#endif
#define STEP_SHARED                                                                                           \
    SHARED uint scratch[BLOCK_SIZE];                                                                          \
    SHARED ulong sums[BLOCK_SIZE];                                                                            \
    SHARED uint words[CONTROL_WORDS];                                                                         \
    SHARED float4 tile[TILE_SIZE];

// Returns whether a step of this kind moves the particles.
FUNCTION int has_drift(int kind, SHARED_POINTER const uint* words)
{
    return kind != LAST_KICK && kind != KICK_AND_SUM
        && (kind != SCALE_AND_DRIFT || words[CONTROL_STEP] != words[CONTROL_TARGET]);
}

// Takes one particle per LANES threads through a step, from particle `first` on in the first block.
// Adds kinetic energies as `move_particle` does.
FUNCTION void step_particles(WideSum* kinetic, int kind, uint first, SHARED_POINTER uint* scratch, SHARED_POINTER const uint* words,
    SHARED_POINTER float4* tile, STEP_PARAMETERS)
{
    const uint step = words[CONTROL_STEP];
    GLOBAL const float4* upper = upper_sides + (step & 1) * stride;
    const uint wanted = first + GRID_THREAD / LANES;
    // Threads past the last particle repeat it and write nothing.
    const uint particle = wanted < n ? wanted : n - 1;
    Force force = { 0, 0, 0 };
    if (kind != FIRST_STEP && kind != SCALE_AND_DRIFT)
        force = sum_forces(
            particle, stride, upper, counts, lists, capacity, pairs, scale_x, scale_y, scale_z, scratch, tile);
    if (wanted >= n || (uint)THREAD % LANES != 0)
        return;
    const uint side = words[CONTROL_SIDE] * stride;
    const State state = { x + side, y + side, z + side, image_x + side, image_y + side, image_z + side, vx + side,
        vy + side, vz + side, force_x, force_y, force_z };
    const double scaling = kind == SCALE_AND_DRIFT ? LOAD_F64(factor) : 1.0;
    move_particle(kinetic, kind, has_drift(kind, words), particle, force, scaling, upper[particle], &state, control,
        upper_sides + (1 - (step & 1)) * stride, listed, motion, scale_x, scale_y, scale_z, half_skin2, order + side,
        ids, seed, first_step + (step - words[CONTROL_START]));
}

// Ends a step. Returns true in all threads of the last block.
FUNCTION int end_step(int kind, WideSum kinetic, SHARED_POINTER uint* scratch, SHARED_POINTER ulong* sums,
    SHARED_POINTER const uint* words, STEP_PARAMETERS)
{
#if ENSEMBLE == ENSEMBLE_RESCALING
    if (kind == KICK_AND_SUM) {
        add_block_sum(kinetic_sum, kinetic.whole, sums);
        add_block_sum(kinetic_sum + 1, kinetic.rest, sums);
    }
#endif
    const int is_last = is_last_block(control, scratch);
    if (is_last && THREAD == 0)
        finish_step(kind, has_drift(kind, words), words, control, kinetic_sum, factor, motion, numbers);
    return is_last;
}

// Takes one step of a kind without the sum of forces, or the last kick. LANES threads per particle.
KERNEL(BLOCK_SIZE)
take_step(int kind, STEP_PARAMETERS)
{
    STEP_SHARED
    load_words(control, words);
    if (!may_step(words, kind))
        return;
    WideSum kinetic = { 0, 0, 0 };
    step_particles(&kinetic, kind, 0, scratch, words, tile, STEP_ARGUMENTS);
    end_step(kind, kinetic, scratch, sums, words, STEP_ARGUMENTS);
}

// The kind of a step in the middle of a batch that sums forces.
#if ENSEMBLE == ENSEMBLE_RESCALING
#define FORCE_STEP KICK_AND_SUM
#else
#define FORCE_STEP MIDDLE_STEP
#endif

// Takes one step in the middle of a batch, as `take_step` does. With a constant kind it has fewer
// registers, and more threads wait for memory together.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, STEP_THREADS_PER_SM / BLOCK_SIZE)
take_force_step(STEP_PARAMETERS)
{
    STEP_SHARED
    load_words(control, words);
    if (!may_step(words, FORCE_STEP))
        return;
    WideSum kinetic = { 0, 0, 0 };
    step_particles(&kinetic, FORCE_STEP, 0, scratch, words, tile, STEP_ARGUMENTS);
    end_step(FORCE_STEP, kinetic, scratch, sums, words, STEP_ARGUMENTS);
}

// Takes up to `steps` steps in the middle of a batch. Ends when the lists become invalid. Any
// number of blocks that are resident together.
KERNEL(BLOCK_SIZE)
take_steps(uint steps, STEP_PARAMETERS)
{
    STEP_SHARED
    for (uint done = 0; done < steps; done++) {
#if ENSEMBLE == ENSEMBLE_RESCALING
        UNROLL_ALL
        for (int part = 0; part < 2; part++) {
            const int kind = part == 0 ? FORCE_STEP : SCALE_AND_DRIFT;
#else
        {
            const int kind = FORCE_STEP;
#endif
            load_words(control, words);
            if (!may_step(words, kind))
                return;
            WideSum kinetic = { 0, 0, 0 };
            for (uint first = 0; first < n; first += (uint)BLOCK_COUNT * (BLOCK_SIZE / LANES))
                step_particles(&kinetic, kind, first, scratch, words, tile, STEP_ARGUMENTS);
            const int is_last = end_step(kind, kinetic, scratch, sums, words, STEP_ARGUMENTS);
            wait_for_blocks(control, words[CONTROL_GENERATION], is_last);
        }
    }
}
