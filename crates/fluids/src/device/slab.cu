// One rank of several: particles that change their rank, and ghosts. slab/part.rs describes the
// steps of a build. Lists of particles have the order of atomic additions, which affects no result.
//
// All kernels have one thread per particle, ghost or record. They are limited by memory. A build
// reads and writes about 100 bytes per particle, and a step 30 bytes per ghost.

#if HAS_GHOSTS

// Numbers of a particle (64 bits), and of a ghost (32 bits), in messages.
#define PARTICLE_WORDS 10
#define GHOST_WORDS 7

// Returns the number of a particle in the columns of the state.
FUNCTION uint state_index(GLOBAL const uint* control, uint stride, uint particle)
{
    return control[CONTROL_SIDE] * stride + particle;
}

FUNCTION ulong joined(uint low, uint high)
{
    return (ulong)low | (ulong)high << 32;
}

// Finds the lowest and the highest upper halves of the fractions. `extent` has the three lowest
// ones, then the three highest ones.
KERNEL(BLOCK_SIZE)
find_extent(GLOBAL const uint* RESTRICT control, uint n, uint stride, GLOBAL const ulong* RESTRICT x,
    GLOBAL const ulong* RESTRICT y, GLOBAL const ulong* RESTRICT z, GLOBAL uint* extent)
{
    if (GRID_THREAD >= n)
        return;
    const uint at = state_index(control, stride, GRID_THREAD);
    const uint upper[3] = { (uint)(x[at] >> 32), (uint)(y[at] >> 32), (uint)(z[at] >> 32) };
    UNROLL_ALL
    for (int axis = 0; axis < 3; axis++) {
        // Most particles change nothing and need no atomic operation.
        if (upper[axis] < LOAD_U32(extent + axis))
            ATOMIC_MIN_U32(extent + axis, upper[axis]);
        if (upper[axis] > LOAD_U32(extent + 3 + axis))
            ATOMIC_MAX_U32(extent + 3 + axis, upper[axis]);
    }
}

// Adds the work of each particle to its bin along an axis with these coordinates. `counts` has the
// lengths of the last lists.
KERNEL(BLOCK_SIZE)
count_work(GLOBAL const uint* RESTRICT control, uint n, uint stride, GLOBAL const ulong* RESTRICT coordinate,
    uint low, ulong span, uint bins, GLOBAL const uint* RESTRICT counts, uint work_per_particle, GLOBAL ulong* work)
{
    const uint particle = GRID_THREAD;
    if (particle >= n)
        return;
    const uint upper = (uint)(coordinate[state_index(control, stride, particle)] >> 32);
    add_u64(work + (ulong)(upper - low) * bins / span, work_per_particle + counts[particle]);
}

// Appends the particles inside a window along an axis to a list, or those outside of it. `length`
// is the length of the list.
KERNEL(BLOCK_SIZE)
select_particles(GLOBAL const uint* RESTRICT control, uint n, uint stride, GLOBAL const ulong* RESTRICT coordinate,
    uint low, ulong span, int selects_inside, GLOBAL uint* RESTRICT selected, GLOBAL uint* length)
{
    const uint particle = GRID_THREAD;
    if (particle >= n)
        return;
    const uint upper = (uint)(coordinate[state_index(control, stride, particle)] >> 32);
    const int is_inside = (ulong)(upper - low) < span;
    if (is_inside == selects_inside)
        selected[ATOMIC_ADD_U32(length, 1)] = particle;
}

// Columns of the state.
#define COLUMN_PARAMETERS                                                                                     \
    GLOBAL ulong *RESTRICT x, GLOBAL ulong *RESTRICT y, GLOBAL ulong *RESTRICT z, GLOBAL int *RESTRICT image_x, \
        GLOBAL int *RESTRICT image_y, GLOBAL int *RESTRICT image_z, GLOBAL double *RESTRICT vx,               \
        GLOBAL double *RESTRICT vy, GLOBAL double *RESTRICT vz, GLOBAL uint *RESTRICT species,                \
        GLOBAL uint *RESTRICT order

// Copies selected particles to records. The host adds the identifiers.
KERNEL(BLOCK_SIZE)
pack_particles(GLOBAL const uint* RESTRICT control, uint count, uint stride, GLOBAL const uint* RESTRICT selected,
    GLOBAL ulong* RESTRICT records, COLUMN_PARAMETERS)
{
    if (GRID_THREAD >= count)
        return;
    const uint at = state_index(control, stride, selected[GRID_THREAD]);
    GLOBAL ulong* record = records + (ulong)GRID_THREAD * PARTICLE_WORDS;
    GLOBAL double* velocity = (GLOBAL double*)(record + 3);
    record[0] = x[at];
    record[1] = y[at];
    record[2] = z[at];
    velocity[0] = vx[at];
    velocity[1] = vy[at];
    velocity[2] = vz[at];
    record[6] = 0;
    record[7] = joined((uint)image_x[at], (uint)image_y[at]);
    record[8] = joined((uint)image_z[at], order[at]);
    record[9] = species[at];
}

// Copies records to the particles with these indices.
KERNEL(BLOCK_SIZE)
place_particles(GLOBAL const uint* RESTRICT control, uint count, uint stride, GLOBAL const uint* RESTRICT targets,
    GLOBAL const ulong* RESTRICT records, COLUMN_PARAMETERS)
{
    if (GRID_THREAD >= count)
        return;
    const uint at = state_index(control, stride, targets[GRID_THREAD]);
    GLOBAL const ulong* record = records + (ulong)GRID_THREAD * PARTICLE_WORDS;
    GLOBAL const double* velocity = (GLOBAL const double*)(record + 3);
    x[at] = record[0];
    y[at] = record[1];
    z[at] = record[2];
    vx[at] = velocity[0];
    vy[at] = velocity[1];
    vz[at] = velocity[2];
    image_x[at] = (int)(uint)record[7];
    image_y[at] = (int)(uint)(record[7] >> 32);
    image_z[at] = (int)(uint)record[8];
    order[at] = (uint)(record[8] >> 32);
    species[at] = (uint)record[9];
}

// Copies selected particles to a message of ghosts: lower and upper halves of the fractions, and
// the species.
KERNEL(BLOCK_SIZE)
pack_ghosts(GLOBAL const uint* RESTRICT control, uint count, uint stride, GLOBAL const uint* RESTRICT selected,
    GLOBAL const ulong* RESTRICT x, GLOBAL const ulong* RESTRICT y, GLOBAL const ulong* RESTRICT z,
    GLOBAL const uint* RESTRICT species, GLOBAL uint* RESTRICT words)
{
    if (GRID_THREAD >= count)
        return;
    const uint at = state_index(control, stride, selected[GRID_THREAD]);
    const ulong fractions[3] = { x[at], y[at], z[at] };
    GLOBAL uint* ghost = words + (ulong)GRID_THREAD * GHOST_WORDS;
    UNROLL_ALL
    for (int axis = 0; axis < 3; axis++) {
        ghost[2 * axis] = (uint)fractions[axis];
        ghost[2 * axis + 1] = (uint)(fractions[axis] >> 32);
    }
    ghost[6] = species[at];
}

#if !IS_ALL_PAIRS
// Finds the cell of each ghost, and its rank among the ghosts of the cell.
KERNEL(BLOCK_SIZE)
assign_ghost_cells(uint count, GLOBAL const uint* RESTRICT words, uint cells_x, uint cells_y, uint cells_z,
    GLOBAL uint* ghost_counts, GLOBAL uint* RESTRICT cell_of, GLOBAL uint* RESTRICT rank_of)
{
    if (GRID_THREAD >= count)
        return;
    GLOBAL const uint* ghost = words + (ulong)GRID_THREAD * GHOST_WORDS;
    const uint cell_x = axis_cell(ghost[1], cells_x), cell_y = axis_cell(ghost[3], cells_y),
               cell_z = z_cell(ghost[5], cells_z);
    const uint cell = (cell_z * cells_y + cell_y) * cells_x + cell_x;
    cell_of[GRID_THREAD] = cell;
    rank_of[GRID_THREAD] = ATOMIC_ADD_U32(ghost_counts + cell, 1);
}

// Finds the index of each ghost behind the first n particles, in the order of cells. Clears the
// counts for the next build.
KERNEL(BLOCK_SIZE)
find_ghost_slots(uint count, uint n, uint cell_count, GLOBAL uint* RESTRICT ghost_counts,
    GLOBAL const uint* RESTRICT ghost_starts, GLOBAL const uint* RESTRICT cell_of,
    GLOBAL const uint* RESTRICT rank_of, GLOBAL uint* RESTRICT slots)
{
    for (uint cell = GRID_THREAD; cell < cell_count; cell += (uint)BLOCK_COUNT * BLOCK_SIZE)
        ghost_counts[cell] = 0;
    if (GRID_THREAD < count)
        slots[GRID_THREAD] = n + ghost_starts[cell_of[GRID_THREAD]] + rank_of[GRID_THREAD];
}
#endif

// Copies ghosts to their indices.
KERNEL(BLOCK_SIZE)
place_ghosts(GLOBAL const uint* RESTRICT control, uint count, uint stride, GLOBAL const uint* RESTRICT slots,
    GLOBAL const uint* RESTRICT words, GLOBAL ulong* RESTRICT x, GLOBAL ulong* RESTRICT y,
    GLOBAL ulong* RESTRICT z, GLOBAL uint* RESTRICT species, GLOBAL float4* RESTRICT upper_sides,
    GLOBAL float4* RESTRICT listed)
{
    if (GRID_THREAD >= count)
        return;
    const uint slot = slots[GRID_THREAD], at = state_index(control, stride, slot);
    GLOBAL const uint* ghost = words + (ulong)GRID_THREAD * GHOST_WORDS;
    x[at] = joined(ghost[0], ghost[1]);
    y[at] = joined(ghost[2], ghost[3]);
    z[at] = joined(ghost[4], ghost[5]);
    species[at] = ghost[6];
    const float4 upper = FLOAT4(UINT_AS_FLOAT(ghost[1]), UINT_AS_FLOAT(ghost[3]), UINT_AS_FLOAT(ghost[5]),
        UINT_AS_FLOAT(ghost[6]));
    upper_sides[(control[CONTROL_STEP] & 1) * stride + slot] = upper;
    listed[slot] = upper;
}

// Copies the positions of selected particles to a message: upper halves of the fractions, or lower
// and upper halves.
KERNEL(BLOCK_SIZE)
pack_positions(GLOBAL const uint* RESTRICT control, uint count, uint stride, GLOBAL const uint* RESTRICT selected,
    int has_all_bits, GLOBAL const ulong* RESTRICT x, GLOBAL const ulong* RESTRICT y,
    GLOBAL const ulong* RESTRICT z, GLOBAL uint* RESTRICT words)
{
    if (GRID_THREAD >= count)
        return;
    const uint at = state_index(control, stride, selected[GRID_THREAD]);
    const ulong fractions[3] = { x[at], y[at], z[at] };
    const uint words_per_axis = has_all_bits ? 2 : 1;
    GLOBAL uint* message = words + (ulong)GRID_THREAD * 3 * words_per_axis;
    UNROLL_ALL
    for (uint axis = 0; axis < 3; axis++) {
        if (has_all_bits)
            message[words_per_axis * axis] = (uint)fractions[axis];
        message[words_per_axis * axis + words_per_axis - 1] = (uint)(fractions[axis] >> 32);
    }
}

// Moves the ghosts at these indices to the positions of a message.
KERNEL(BLOCK_SIZE)
place_positions(GLOBAL const uint* RESTRICT control, uint count, uint stride, GLOBAL const uint* RESTRICT slots,
    int has_all_bits, GLOBAL const uint* RESTRICT words, GLOBAL ulong* RESTRICT x, GLOBAL ulong* RESTRICT y,
    GLOBAL ulong* RESTRICT z, GLOBAL const uint* RESTRICT species, GLOBAL float4* RESTRICT upper_sides)
{
    if (GRID_THREAD >= count)
        return;
    const uint slot = slots[GRID_THREAD], at = state_index(control, stride, slot);
    const uint words_per_axis = has_all_bits ? 2 : 1;
    GLOBAL const uint* message = words + (ulong)GRID_THREAD * 3 * words_per_axis;
    const uint upper_x = message[words_per_axis - 1], upper_y = message[2 * words_per_axis - 1],
               upper_z = message[3 * words_per_axis - 1];
    // Only energies use the columns.
    if (has_all_bits) {
        x[at] = joined(message[0], upper_x);
        y[at] = joined(message[2], upper_y);
        z[at] = joined(message[4], upper_z);
    }
    upper_sides[(control[CONTROL_STEP] & 1) * stride + slot] = FLOAT4(
        UINT_AS_FLOAT(upper_x), UINT_AS_FLOAT(upper_y), UINT_AS_FLOAT(upper_z), UINT_AS_FLOAT(species[at]));
}

#endif
