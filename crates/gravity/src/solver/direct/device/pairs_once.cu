// All-pairs gravity, each pair evaluated once for both of its bodies (Newton's third law).
//
// Bodies are divided into body blocks of BODIES_PER_BLOCK = BLOCK_SIZE x TARGETS_PER_THREAD. The
// work is cut into rounds, one launch each. In a round, thread block (I, c) loads body block I into
// registers and pairs it with the source blocks I + offset (cyclic) for the offsets of chunk c. All
// rounds together cover the offsets 1 .. body_blocks / 2. For example, with 5 body blocks the
// offsets are 1 and 2. If the number of body blocks is even, the largest offset would pair the same
// two blocks twice, so only the lower half of the target blocks uses it. The pairs within a body
// block (offset 0) are computed by `within_blocks`.
//
// The force on the targets is summed in registers. The reaction on the sources rotates through the
// lanes of the warp. In rotation t, lane l evaluates source (l + t) mod 32 and then passes the sum
// of that source to lane l - 1. After 32 rotations every sum is back at its source.
//
// In each round, only one thread block writes to an element of the sums. So every sum has a fixed
// order, and there are no atomics.
//   own_sums[c][axis][body]            force on body block I, written by thread block (I, c)
//   reaction_sums[offset][axis][body]  force on body block I + offset, written by the thread block
//                                      that pairs the two; counted from the round's first offset
//
// The chunks of all rounds are divided into SEGMENTS segments. The sums of a segment are added in
// the order of the rounds, in each round first the own sums and then the reactions. The sums of the
// segments are the leaves of a binary tree: ((s0 + s1) + (s2 + s3)) + ... A rank that computes some
// of the segments can therefore add its part of the tree before it sends it to the others, and the
// result has the same bits for any number of ranks.
//
// Cost per pair: 3 subtractions, 3 FMA, 1 reciprocal square root, 2 or 4 multiplications and 6 FMA.
// These are 17 issue slots for two interactions (15 if all masses are equal). The tiled kernel
// needs 2 x 13 and two reciprocal square roots.
//
// MIXED: a difference of f32 coordinates has an error of 2^-24 of the distance from the origin.
// That is too much for near pairs. Pairs nearer than a small fraction of that distance are
// therefore corrected with the low parts of their coordinates.

#define WARPS (BLOCK_SIZE / WARP_SIZE)
#define BODIES_PER_BLOCK (BLOCK_SIZE * TARGETS_PER_THREAD)
// Bodies of a block of `add_round`.
#define SUM_BODIES (SUM_BLOCK_SIZE / SEGMENTS)

typedef struct {
    float x, y, z;
} Sum3;

// A body in the registers of a thread: high parts of its scaled position, mass, and sum of forces.
typedef struct {
    float x, y, z, mass;
    Sum3 force;
#if MIXED
    float nearest_rho2; // smallest softened squared distance to a source of the warp tile
#endif
} Target;

// Constants of all pairs. `coarse_eps2` is the softening of `add_pair`, `eps2` that of the
// correction. A pair is near if rho² < near_factor |target|².
typedef struct {
    float eps2, coarse_eps2, near_factor;
} PairConstants;

// Position of this thread in its block.
typedef struct {
    int warp, lane, next_lane;
} WarpPosition;

// Reactions on the sources of a tile by the targets of one warp.
typedef float WarpReactions[3][BLOCK_SIZE];

// Rotates a sum through the lanes: each lane takes the sum of `next_lane`. `scratch` has
// 3 * BLOCK_SIZE elements without HAS_WARPS, else it is not used.
FUNCTION void rotate_lanes(Sum3* sum, WarpPosition thread, SHARED_POINTER float* scratch)
{
#if HAS_WARPS
    sum->x = SHUFFLE_F(sum->x, thread.next_lane, 0);
    sum->y = SHUFFLE_F(sum->y, thread.next_lane, 0);
    sum->z = SHUFFLE_F(sum->z, thread.next_lane, 0);
#else
    const int next_thread = thread.warp * WARP_SIZE + thread.next_lane;
    BARRIER();
    scratch[THREAD] = sum->x;
    scratch[BLOCK_SIZE + THREAD] = sum->y;
    scratch[2 * BLOCK_SIZE + THREAD] = sum->z;
    BARRIER();
    sum->x = scratch[next_thread];
    sum->y = scratch[BLOCK_SIZE + next_thread];
    sum->z = scratch[2 * BLOCK_SIZE + next_thread];
#endif
}

// Writes scaled coordinates in two f32 parts. Elements past the last body are massless padding.
KERNEL(128)
prepare(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame, int n, int padded_count,
    GLOBAL float4* RESTRICT high, GLOBAL float4* RESTRICT low)
{
    const int i = BLOCK_INDEX * 128 + THREAD;
    if (i >= padded_count)
        return;
    float4 h = FLOAT4(PADDING_COORDINATE, PADDING_COORDINATE, PADDING_COORDINATE, 0.0f),
           l = FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
    if (i < n) {
        const double px = clamp_coordinate(SCALED_COORDINATE(frame, 0, x[i])),
                     py = clamp_coordinate(SCALED_COORDINATE(frame, 1, y[i])),
                     pz = clamp_coordinate(SCALED_COORDINATE(frame, 2, z[i]));
        h = FLOAT4((float)px, (float)py, (float)pz, (float)(mass[i] * frame[FRAME_MASS_SCALE]));
        l = FLOAT4((float)(px - (double)h.x), (float)(py - (double)h.y), (float)(pz - (double)h.z), 0.0f);
    }
    high[i] = h;
    low[i] = l;
}

// Loads the targets of this thread, every BLOCK_SIZE-th body from `bodies` on.
FUNCTION void load_targets(Target* targets, GLOBAL const float4* RESTRICT bodies)
{
    UNROLL_ALL
    for (int t = 0; t < TARGETS_PER_THREAD; t++) {
        const float4 body = bodies[t * BLOCK_SIZE];
        targets[t].x = body.x;
        targets[t].y = body.y;
        targets[t].z = body.z;
        targets[t].mass = body.w;
        targets[t].force.x = targets[t].force.y = targets[t].force.z = 0.0f;
    }
}

// Adds the mutual attraction of one pair: m_source d / rho³ to the force on the target and
// m_target d / rho³ to the reaction on the source, whose sign `write_reaction` changes. With equal
// masses both leave the mass out, and `acceleration_unit` contains it.
FUNCTION void add_pair(Target* target, float4 source, Sum3* reaction, float coarse_eps2)
{
    const float dx = source.x - target->x, dy = source.y - target->y, dz = source.z - target->z;
    const float rho2 = softened_r2(dx, dy, dz, coarse_eps2);
    const float inv_r3 = inverse_cube(rho2);
#if MIXED
    target->nearest_rho2 = MIN(target->nearest_rho2, rho2);
#endif
#if EQUAL_MASSES
    const float force_weight = inv_r3, reaction_weight = inv_r3;
#else
    const float force_weight = source.w * inv_r3, reaction_weight = target->mass * inv_r3;
#endif
    target->force.x = FMA(force_weight, dx, target->force.x);
    target->force.y = FMA(force_weight, dy, target->force.y);
    target->force.z = FMA(force_weight, dz, target->force.z);
    reaction->x = FMA(reaction_weight, dx, reaction->x);
    reaction->y = FMA(reaction_weight, dy, reaction->y);
    reaction->z = FMA(reaction_weight, dz, reaction->z);
}

// Returns the source that `lane` evaluates in this rotation. The tile has each 32 sources twice, so
// the index needs no wrapping.
FUNCTION float4 rotated_source(SHARED_POINTER const float4* tile, int warp_tile, int lane, int rotation)
{
    return tile[warp_tile * 2 * WARP_SIZE + lane + rotation];
}

// Adds the pairs of this thread's targets with the 32 sources of one warp tile. Returns the
// reaction on source `lane` of the warp tile.
FUNCTION Sum3 add_warp_tile(Target* targets, SHARED_POINTER const float4* tile, int warp_tile,
    PairConstants constants, WarpPosition thread, SHARED_POINTER float* rotation_scratch)
{
    Sum3 reaction = { 0.0f, 0.0f, 0.0f };
#if MIXED
    UNROLL_ALL
    for (int t = 0; t < TARGETS_PER_THREAD; t++)
        targets[t].nearest_rho2 = PADDING_COORDINATE; // larger than that of any near pair
#endif
    UNROLL(UNROLL_BY)
    for (int rotation = 0; rotation < WARP_SIZE; rotation++) {
        const float4 source = rotated_source(tile, warp_tile, thread.lane, rotation);
        UNROLL_ALL
        for (int t = 0; t < TARGETS_PER_THREAD; t++)
            add_pair(&targets[t], source, &reaction, constants.coarse_eps2);
        rotate_lanes(&reaction, thread, rotation_scratch);
    }
    return reaction;
}

#if MIXED

// Returns whether a pair of this target with this softened squared distance needs the correction.
FUNCTION int is_near(const Target* target, float rho2, float near_factor)
{
    return rho2 < near_factor * FMA(target->x, target->x, FMA(target->y, target->y, target->z * target->z));
}

// Returns whether one of the targets has a near pair in the warp tile that was added last.
FUNCTION int has_near_pair(const Target* targets, float near_factor)
{
    int found = 0;
    UNROLL_ALL
    for (int t = 0; t < TARGETS_PER_THREAD; t++)
        found |= is_near(&targets[t], targets[t].nearest_rho2, near_factor);
    return found;
}

// Replaces the contribution of a near pair in f32 by one computed from high and low parts of the
// coordinates: adds the difference of the two. Does nothing if the pair is not near.
FUNCTION void correct_near_pair(Target* target, GLOBAL const float4* RESTRICT target_low, float4 source,
    float4 source_low, Sum3* reaction, PairConstants constants)
{
    const float dx = source.x - target->x, dy = source.y - target->y, dz = source.z - target->z;
    const float coarse_rho2 = softened_r2(dx, dy, dz, constants.coarse_eps2);
    if (is_near(target, coarse_rho2, constants.near_factor)) {
        const float4 low = *target_low;
        const float coarse_inv_r3 = inverse_cube(coarse_rho2);
        const float exact_dx = dx + (source_low.x - low.x), exact_dy = dy + (source_low.y - low.y),
                    exact_dz = dz + (source_low.z - low.z);
        const float inv_r3 = inverse_cube(softened_r2(exact_dx, exact_dy, exact_dz, constants.eps2));
        const float change_x = inv_r3 * exact_dx - coarse_inv_r3 * dx,
                    change_y = inv_r3 * exact_dy - coarse_inv_r3 * dy,
                    change_z = inv_r3 * exact_dz - coarse_inv_r3 * dz;
#if EQUAL_MASSES
        const float source_mass = 1.0f, target_mass = 1.0f;
#else
        const float source_mass = source.w, target_mass = target->mass;
#endif
        target->force.x = FMA(source_mass, change_x, target->force.x);
        target->force.y = FMA(source_mass, change_y, target->force.y);
        target->force.z = FMA(source_mass, change_z, target->force.z);
        reaction->x = FMA(target_mass, change_x, reaction->x);
        reaction->y = FMA(target_mass, change_y, reaction->y);
        reaction->z = FMA(target_mass, change_z, reaction->z);
    }
}

// Corrects the near pairs of one warp tile, in the same rotations as `add_warp_tile`. `target_low`
// has the low parts of this thread's targets, `source_low` those of the 32 sources.
FUNCTION void correct_near_pairs(Target* targets, GLOBAL const float4* RESTRICT target_low,
    SHARED_POINTER const float4* tile, int warp_tile, GLOBAL const float4* RESTRICT source_low,
    Sum3* reaction, PairConstants constants, WarpPosition thread, SHARED_POINTER float* rotation_scratch)
{
    for (int rotation = 0; rotation < WARP_SIZE; rotation++) {
        const float4 source = rotated_source(tile, warp_tile, thread.lane, rotation);
        const float4 low = source_low[(thread.lane + rotation) % WARP_SIZE];
        UNROLL_ALL
        for (int t = 0; t < TARGETS_PER_THREAD; t++)
            correct_near_pair(&targets[t], target_low + t * BLOCK_SIZE, source, low, reaction, constants);
        rotate_lanes(reaction, thread, rotation_scratch);
    }
}

#endif

// Adds the pairs of this thread's targets with all sources of a tile. Stores the reaction on each
// source in the `warp_reactions` of this warp. `target_low` and `source_low` point to the low parts
// of this thread's first target and of the first source.
FUNCTION void add_tile(Target* targets, SHARED_POINTER const float4* tile,
    GLOBAL const float4* RESTRICT target_low, GLOBAL const float4* RESTRICT source_low,
    PairConstants constants, WarpPosition thread, SHARED_POINTER WarpReactions* warp_reactions,
    SHARED_POINTER float* rotation_scratch)
{
    for (int warp_tile = 0; warp_tile < WARPS; warp_tile++) {
        Sum3 reaction = add_warp_tile(targets, tile, warp_tile, constants, thread, rotation_scratch);
#if MIXED
#if HAS_WARPS
        if (ANY(has_near_pair(targets, constants.near_factor), 0))
#endif
            // Without warps, every warp tile is corrected: a vote would cost as much.
            correct_near_pairs(targets, target_low, tile, warp_tile, source_low + warp_tile * WARP_SIZE,
                &reaction, constants, thread, rotation_scratch);
#endif
        warp_reactions[thread.warp][0][warp_tile * WARP_SIZE + thread.lane] = reaction.x;
        warp_reactions[thread.warp][1][warp_tile * WARP_SIZE + thread.lane] = reaction.y;
        warp_reactions[thread.warp][2][warp_tile * WARP_SIZE + thread.lane] = reaction.z;
    }
}

// Adds the reactions of all warps on source THREAD of a tile and writes them, with the other sign,
// to the sums of `body`.
FUNCTION void write_reaction(SHARED_POINTER const WarpReactions* warp_reactions,
    GLOBAL double* RESTRICT reaction_sums, int offset_in_round, size_t body, size_t padded_count)
{
    for (int axis = 0; axis < 3; axis++) {
        float sum = 0.0f;
        for (int warp = 0; warp < WARPS; warp++)
            sum += warp_reactions[warp][axis][THREAD];
        reaction_sums[((size_t)offset_in_round * 3 + axis) * padded_count + body] = 0.0 - (double)sum;
    }
}

// Writes the forces on this thread's targets to `own_sums`.
FUNCTION void write_forces(const Target* targets, GLOBAL double* RESTRICT own_sums, int chunk,
    size_t first_target, size_t padded_count)
{
    UNROLL_ALL
    for (int t = 0; t < TARGETS_PER_THREAD; t++) {
        const float force[3] = { targets[t].force.x, targets[t].force.y, targets[t].force.z };
        for (int axis = 0; axis < 3; axis++)
            own_sums[((size_t)chunk * 3 + axis) * padded_count + first_target + t * BLOCK_SIZE]
                = (double)force[axis];
    }
}

// Returns the end of this thread block's offsets, which start at `begin`. The largest offset is
// left out in the upper half of the target blocks if the number of body blocks is even.
// `sum_chunks` does not read the elements of `reaction_sums` that are not written for this reason.
// (The loop over offsets is made shorter, because PoCL 5.0 miscompiles a `continue` in a loop with
// barriers.)
FUNCTION int end_of_chunk(int begin, int offsets_per_chunk, int end_offset, int target_block, int body_blocks)
{
    const int end = begin + offsets_per_chunk < end_offset ? begin + offsets_per_chunk : end_offset;
    return 2 * (end - 1) == body_blocks && 2 * target_block >= body_blocks ? end - 1 : end;
}

// Computes one round: the offsets first_offset .. end_offset - 1, `offsets_per_chunk` of them per
// thread block. `high` and `low` are the parts of positions and masses that `prepare` writes.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
pairs_once(GLOBAL const float4* RESTRICT high, GLOBAL const float4* RESTRICT low,
    GLOBAL const double* RESTRICT frame, int body_blocks, int first_offset, int end_offset,
    int offsets_per_chunk, float near_factor, GLOBAL double* RESTRICT own_sums,
    GLOBAL double* RESTRICT reaction_sums)
{
    SHARED float4 tile[2 * BLOCK_SIZE]; // each 32 sources twice: lane l reads entries l .. l + 31
    SHARED WarpReactions warp_reactions[WARPS];
#if HAS_WARPS
    SHARED_POINTER float* rotation_scratch = 0;
#else
    SHARED float rotation_scratch[3 * BLOCK_SIZE];
#endif
    // The division is unsigned on purpose, here and in tiled.cu. LLVM combines x / y and x % y of
    // one type. PoCL 5.0 does not see that the result is the same in all threads, and runs loops
    // with such bounds and barriers for one thread only.
    const int target_block = BLOCK_INDEX % body_blocks;
    const int chunk = (int)((uint)BLOCK_INDEX / (uint)body_blocks);
    const int lane = THREAD % WARP_SIZE, warp = THREAD / WARP_SIZE;
    const WarpPosition thread = { warp, lane, (lane + 1) % WARP_SIZE };
    const size_t padded_count = (size_t)body_blocks * BODIES_PER_BLOCK;
    const size_t first_target = (size_t)target_block * BODIES_PER_BLOCK + THREAD;
    const float eps2 = (float)frame[FRAME_EPS2];
#if MIXED
    // Distinct bodies may coincide in f32. `add_pair` must then add 0, not NaN.
    const PairConstants constants = { eps2, MAX(eps2, 1e-24f), near_factor };
#else
    const PairConstants constants = { eps2, eps2, near_factor };
#endif
    Target targets[TARGETS_PER_THREAD];
    load_targets(targets, high + first_target);

    const int begin = first_offset + chunk * offsets_per_chunk;
    const int end = end_of_chunk(begin, offsets_per_chunk, end_offset, target_block, body_blocks);
    for (int offset = begin; offset < end; offset++) {
        const int source_block = target_block + offset < body_blocks ? target_block + offset
                                                                     : target_block + offset - body_blocks;
        for (int tile_start = 0; tile_start < BODIES_PER_BLOCK; tile_start += BLOCK_SIZE) {
            const size_t first_source = (size_t)source_block * BODIES_PER_BLOCK + tile_start;
            const float4 source = high[first_source + THREAD];
            tile[warp * 2 * WARP_SIZE + lane] = source;
            tile[warp * 2 * WARP_SIZE + WARP_SIZE + lane] = source;
            BARRIER();
            add_tile(targets, tile, low + first_target, low + first_source, constants, thread, warp_reactions,
                rotation_scratch);
            BARRIER();
            write_reaction(warp_reactions, reaction_sums, offset - first_offset, first_source + THREAD,
                padded_count);
        }
    }
    write_forces(targets, own_sums, chunk, first_target, padded_count);
}

// Adds the force of one source on one target to `sum`, from high and low parts of the coordinates.
// Adds 0 if both are the same body.
FUNCTION void add_source(float* sum, float4 target, float4 target_low, float4 source, float4 source_low,
    float eps2, int source_index, int target_index)
{
    const float dx = (source.x - target.x) + (source_low.x - target_low.x),
                dy = (source.y - target.y) + (source_low.y - target_low.y),
                dz = (source.z - target.z) + (source_low.z - target_low.z);
    float rho2 = softened_r2(dx, dy, dz, eps2);
    rho2 = source_index == target_index ? 1.0f : rho2;
    const float inv_r = RSQRT_APPROX(rho2);
#if EQUAL_MASSES
    float weight = source.w > 0.0f ? inv_r * (inv_r * inv_r) : 0.0f; // padding has no mass
#else
    float weight = (source.w * inv_r) * (inv_r * inv_r);
#endif
    weight = source_index == target_index ? 0.0f : weight;
    sum[0] = FMA(weight, dx, sum[0]);
    sum[1] = FMA(weight, dy, sum[1]);
    sum[2] = FMA(weight, dz, sum[2]);
}

// Sums the pairs within each body block, one thread per body, from both parts of the coordinates.
KERNEL(BLOCK_SIZE)
within_blocks(GLOBAL const float4* RESTRICT high, GLOBAL const float4* RESTRICT low,
    GLOBAL const double* RESTRICT frame, int body_blocks, GLOBAL double* RESTRICT sums)
{
    SHARED float4 tile[BLOCK_SIZE];
    SHARED float4 tile_low[BLOCK_SIZE];
    const size_t padded_count = (size_t)body_blocks * BODIES_PER_BLOCK;
    const size_t first_body = (size_t)(BLOCK_INDEX / TARGETS_PER_THREAD) * BODIES_PER_BLOCK;
    // Indices of targets and sources count from the first body of the body block.
    const int target_index = (BLOCK_INDEX % TARGETS_PER_THREAD) * BLOCK_SIZE + THREAD;
    const float4 target = high[first_body + target_index], target_low = low[first_body + target_index];
    const float eps2 = (float)frame[FRAME_EPS2];
    double total[3] = { 0, 0, 0 };
    for (int tile_start = 0; tile_start < BODIES_PER_BLOCK; tile_start += BLOCK_SIZE) {
        BARRIER();
        tile[THREAD] = high[first_body + tile_start + THREAD];
        tile_low[THREAD] = low[first_body + tile_start + THREAD];
        BARRIER();
        float sum[3] = { 0, 0, 0 };
        UNROLL(8)
        for (int source = 0; source < BLOCK_SIZE; source++)
            add_source(sum, target, target_low, tile[source], tile_low[source], eps2, tile_start + source,
                target_index);
        for (int axis = 0; axis < 3; axis++)
            total[axis] += (double)sum[axis];
    }
    for (int axis = 0; axis < 3; axis++)
        sums[axis * padded_count + first_body + target_index] = total[axis];
}

// Chunks whose sums are in `own_sums` and `reaction_sums`, numbered over all rounds, and the
// division of all chunks into segments.
typedef struct {
    int first_chunk, end_chunk, all_chunks, offsets_per_chunk, body_blocks;
} ChunkRange;

// Returns the first chunk of a segment. Segments may be empty.
FUNCTION int segment_start(int segment, int all_chunks)
{
    return (int)((ulong)all_chunks * (ulong)segment / SEGMENTS);
}

// Adds the sums of the chunks begin .. end - 1 on one axis of a body to `sum`.
FUNCTION double sum_chunks(double sum, int begin, int end, ChunkRange range,
    GLOBAL const double* RESTRICT own_sums, GLOBAL const double* RESTRICT reaction_sums, int axis, int body,
    size_t padded_count)
{
    UNROLL(4)
    for (int chunk = begin; chunk < end; chunk++)
        sum += own_sums[((size_t)(chunk - range.first_chunk) * 3 + axis) * padded_count + body];
    // If the number of body blocks is even, only the upper half of them gets reactions of the
    // largest offset. Offset o is in chunk (o - 1) / offsets_per_chunk.
    const int largest = range.body_blocks / 2;
    const int is_left_out
        = 2 * largest == range.body_blocks && 2 * (body / BODIES_PER_BLOCK) < range.body_blocks;
    const int offsets_end = is_left_out ? largest - 1 : largest;
    const int first = begin * range.offsets_per_chunk,
              last = end * range.offsets_per_chunk < offsets_end ? end * range.offsets_per_chunk : offsets_end;
    const int first_in_memory = range.first_chunk * range.offsets_per_chunk;
    UNROLL(4)
    for (int offset = first; offset < last; offset++)
        sum += reaction_sums[((size_t)(offset - first_in_memory) * 3 + axis) * padded_count + body];
    return sum;
}

// Sum over the leaves of a binary tree, which are added in order. `level0` to `level3` are the sums
// of complete left subtrees of 1, 2, 4 and 8 leaves. `total` is the result if the number of leaves
// is a power of two, at most 16.
typedef struct {
    double level0, level1, level2, level3, total;
} TreeSum;

// Adds leaf number `leaf`. Each set bit at the end of the number completes a subtree.
FUNCTION void add_leaf(TreeSum* tree, int leaf, double value)
{
    double sum = value;
    if (leaf & 1) {
        sum = tree->level0 + sum;
        if (leaf & 2) {
            sum = tree->level1 + sum;
            if (leaf & 4) {
                sum = tree->level2 + sum;
                if (leaf & 8)
                    sum = tree->level3 + sum;
                else
                    tree->level3 = sum;
            } else
                tree->level2 = sum;
        } else
            tree->level1 = sum;
    } else
        tree->level0 = sum;
    tree->total = sum;
}

// Returns the unit of the sums in the user's units.
FUNCTION double acceleration_unit(GLOBAL const double* RESTRICT frame, GLOBAL const float4* RESTRICT high)
{
#if EQUAL_MASSES
    return frame[FRAME_ACCELERATION_UNIT] * (double)high[0].w;
#else
    return frame[FRAME_ACCELERATION_UNIT];
#endif
}

// Adds all sums if one round has all chunks, and converts them to the user's units. One block per
// axis of SUM_BODIES bodies, one thread per segment of each of them: with a thread per body, few
// bodies would leave most of a GPU idle for as long as a thread waits for its loads.
KERNEL(SUM_BLOCK_SIZE)
add_round(GLOBAL const double* RESTRICT within, GLOBAL const double* RESTRICT own_sums,
    GLOBAL const double* RESTRICT reaction_sums, int all_chunks, int offsets_per_chunk, int body_blocks,
    GLOBAL const float4* RESTRICT high, GLOBAL const double* RESTRICT frame, int n, int padded_count,
    GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    SHARED double segment_sums[SEGMENTS][SUM_BODIES];
    const int axis = BLOCK_INDEX % 3, segment = THREAD / SUM_BODIES, column = THREAD % SUM_BODIES;
    const int i = BLOCK_INDEX / 3 * SUM_BODIES + column;
    const ChunkRange range = { 0, all_chunks, all_chunks, offsets_per_chunk, body_blocks };
    segment_sums[segment][column] = sum_chunks(0.0, segment_start(segment, all_chunks),
        segment_start(segment + 1, all_chunks), range, own_sums, reaction_sums, axis, i, padded_count);
    // The binary tree of `TreeSum`, level by level.
    for (int distance = 1; distance < SEGMENTS; distance *= 2) {
        BARRIER();
        if (segment % (2 * distance) == 0)
            segment_sums[segment][column] += segment_sums[segment + distance][column];
    }
    if (segment == 0 && i < n) {
        GLOBAL double* acceleration = axis == 0 ? ax : axis == 1 ? ay : az;
        const double sum = within[axis * (size_t)padded_count + i] + segment_sums[0][column];
        acceleration[i] = acceleration_unit(frame, high) * sum;
    }
}

// Adds the sums of the chunks first_chunk .. end_chunk - 1, which one launch has written, to those
// of their segments. The launch with the first chunk of a segment replaces its sum. One thread per
// axis of each body.
KERNEL(128)
add_to_segments(GLOBAL const double* RESTRICT own_sums, GLOBAL const double* RESTRICT reaction_sums,
    int first_chunk, int end_chunk, int all_chunks, int offsets_per_chunk, int body_blocks, int padded_count,
    GLOBAL double* RESTRICT segment_sums)
{
    const int axis = BLOCK_INDEX % 3, i = BLOCK_INDEX / 3 * 128 + THREAD;
    if (i >= padded_count)
        return;
    const ChunkRange range = { first_chunk, end_chunk, all_chunks, offsets_per_chunk, body_blocks };
    for (int segment = 0; segment < SEGMENTS; segment++) {
        const int start = segment_start(segment, all_chunks), stop = segment_start(segment + 1, all_chunks);
        const int begin = start < first_chunk ? first_chunk : start, end = stop < end_chunk ? stop : end_chunk;
        if (begin < end) {
            GLOBAL double* to = segment_sums + ((size_t)segment * 3 + axis) * padded_count + i;
            const double before = begin == start ? 0.0 : *to;
            *to = sum_chunks(before, begin, end, range, own_sums, reaction_sums, axis, i, padded_count);
        }
    }
}

// Returns the sum of the rows first_row .. first_row + rows - 1 of one axis of a body, added as a
// binary tree. `rows` is a power of two, at most SEGMENTS.
FUNCTION double sum_rows(GLOBAL const double* RESTRICT sums, int first_row, int rows, int axis, int body,
    size_t padded_count)
{
    TreeSum tree = { 0, 0, 0, 0, 0 };
    UNROLL(4)
    for (int leaf = 0; leaf < rows; leaf++)
        add_leaf(&tree, leaf, sums[((size_t)(first_row + leaf) * 3 + axis) * padded_count + body]);
    return tree.total;
}

// Adds the segments of the nodes first_node .. end_node - 1 of the tree. A node has
// `segments_per_node` segments, a power of two. Rows of `segment_sums` and `node_sums` are
// [segment or node][axis][body]. One thread per axis of each body.
KERNEL(128)
add_segments(GLOBAL const double* RESTRICT segment_sums, int first_node, int end_node, int segments_per_node,
    int padded_count, GLOBAL double* RESTRICT node_sums)
{
    const int axis = BLOCK_INDEX % 3, i = BLOCK_INDEX / 3 * 128 + THREAD;
    if (i >= padded_count)
        return;
    for (int node = first_node; node < end_node; node++)
        node_sums[((size_t)node * 3 + axis) * padded_count + i]
            = sum_rows(segment_sums, node * segments_per_node, segments_per_node, axis, i, padded_count);
}

// Adds all nodes and the pairs within body blocks, and converts them to the user's units. One
// thread per axis of each body.
KERNEL(128)
add_nodes(GLOBAL const double* RESTRICT within, GLOBAL const double* RESTRICT node_sums, int nodes,
    GLOBAL const float4* RESTRICT high, GLOBAL const double* RESTRICT frame, int n, int padded_count,
    GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    const int axis = BLOCK_INDEX % 3, i = BLOCK_INDEX / 3 * 128 + THREAD;
    if (i >= n)
        return;
    GLOBAL double* acceleration = axis == 0 ? ax : axis == 1 ? ay : az;
    const double sum = within[axis * (size_t)padded_count + i]
        + sum_rows(node_sums, 0, nodes, axis, i, padded_count);
    acceleration[i] = acceleration_unit(frame, high) * sum;
}
