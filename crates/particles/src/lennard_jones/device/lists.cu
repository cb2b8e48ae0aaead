// Builds of the neighbour lists: particles are sorted by cell, and each finds its neighbours in the
// cells next to its own. cells.rs describes the cells. All kernels return at once if the lists are
// valid (CONTROL_REBUILD is 0).
//
// The order of particles within a cell depends on the order of atomic additions. It affects no result,
// because forces are sums of integers.

FUNCTION int must_build(GLOBAL const uint* control)
{
    return control[CONTROL_REBUILD] && !control[CONTROL_FAILED] && !control[CONTROL_OVERFLOW];
}

// Returns the cell of a coordinate along an axis with `count` cells.
FUNCTION uint axis_cell(ulong fraction, uint count)
{
    return (uint)((fraction >> 32) * count >> 32);
}

KERNEL(BLOCK_SIZE)
clear_cells(GLOBAL const uint* RESTRICT control, uint cell_count, GLOBAL uint* RESTRICT cell_counts)
{
    const uint cell = GRID_THREAD;
    if (must_build(control) && cell < cell_count)
        cell_counts[cell] = 0;
}

// Finds the cell of each particle, and its rank among the particles of the cell.
KERNEL(BLOCK_SIZE)
assign_cells(GLOBAL const uint* RESTRICT control, uint n, uint cells_x, uint cells_y, uint cells_z,
    GLOBAL const ulong* RESTRICT x, GLOBAL const ulong* RESTRICT y, GLOBAL const ulong* RESTRICT z,
    GLOBAL uint* cell_counts, GLOBAL uint* RESTRICT cell_of, GLOBAL uint* RESTRICT rank_of)
{
    const uint particle = GRID_THREAD;
    if (!must_build(control) || particle >= n)
        return;
    const uint at = control[CONTROL_SIDE] * n + particle;
    const uint cell_x = axis_cell(x[at], cells_x), cell_y = axis_cell(y[at], cells_y),
               cell_z = axis_cell(z[at], cells_z);
    const uint cell = (cell_z * cells_y + cell_y) * cells_x + cell_x;
    cell_of[particle] = cell;
    rank_of[particle] = ATOMIC_ADD_U32(cell_counts + cell, 1);
}

// Copies the particles to the other side of the state, in the order of their cells. Their positions
// become those of the lists.
KERNEL(BLOCK_SIZE)
sort_particles(GLOBAL uint* control, uint n, GLOBAL const uint* RESTRICT cell_starts,
    GLOBAL const uint* RESTRICT cell_of, GLOBAL const uint* RESTRICT rank_of, GLOBAL ulong* x, GLOBAL ulong* y,
    GLOBAL ulong* z, GLOBAL int* image_x, GLOBAL int* image_y, GLOBAL int* image_z, GLOBAL double* vx,
    GLOBAL double* vy, GLOBAL double* vz, GLOBAL uint* species, GLOBAL uint* order, GLOBAL float4* upper_sides,
    GLOBAL float4* RESTRICT listed)
{
    SHARED uint scratch[1];
    if (!must_build(control))
        return;
    const uint side = control[CONTROL_SIDE];
    const uint particle = GRID_THREAD;
    if (particle < n) {
        const uint sorted = cell_starts[cell_of[particle]] + rank_of[particle];
        const uint from = side * n + particle, to = (1 - side) * n + sorted;
        const float4 upper = FLOAT4(UINT_AS_FLOAT((uint)(x[from] >> 32)), UINT_AS_FLOAT((uint)(y[from] >> 32)),
            UINT_AS_FLOAT((uint)(z[from] >> 32)), UINT_AS_FLOAT(species[from]));
        x[to] = x[from];
        y[to] = y[from];
        z[to] = z[from];
        image_x[to] = image_x[from];
        image_y[to] = image_y[from];
        image_z[to] = image_z[from];
        vx[to] = vx[from];
        vy[to] = vy[from];
        vz[to] = vz[from];
        species[to] = species[from];
        order[to] = order[from];
        upper_sides[(control[CONTROL_STEP] & 1) * n + sorted] = upper;
        listed[sorted] = upper;
    }
    if (is_last_block(control, scratch) && THREAD == 0) {
        control[CONTROL_TICKET] = 0;
        control[CONTROL_SIDE] = 1 - side;
    }
}

// Returns the number of cells next to `cell` along an axis with `count` cells, with the cell itself.
FUNCTION uint neighbour_count(uint cell, uint count)
{
#if IS_PERIODIC
    return count < 3 ? count : 3;
#else
    return 1 + (cell > 0) + (cell + 1 < count);
#endif
}

// Returns number k of these cells. Each cell comes once.
FUNCTION uint neighbour_cell(uint cell, uint count, uint k)
{
#if IS_PERIODIC
    if (count < 3)
        return k;
    const uint shifted = cell + k + count - 1;
    return shifted >= 2 * count ? shifted - 2 * count : shifted >= count ? shifted - count : shifted;
#else
    return (cell > 0 ? cell - 1 : 0) + k;
#endif
}

// Adds the particles of a cell that are within the radius to the list of a particle. Returns the
// number of its neighbours, which may exceed the capacity.
FUNCTION uint add_cell(uint particle, float4 own, uint first, uint end, uint count, GLOBAL const float4* listed,
    float radius2, float scale_x, float scale_y, float scale_z, GLOBAL uint* lists, uint capacity)
{
    for (uint other = first; other < end; other++) {
        const Separation d = separation(own, listed[other], scale_x, scale_y, scale_z);
        if (d.r2 < radius2 && other != particle) {
            if (count < capacity)
                lists[list_position(particle, count, capacity)] = other;
            count++;
        }
    }
    return count;
}

// Finds all particles within the radius of the lists. One thread per particle.
KERNEL(BLOCK_SIZE)
build_lists(GLOBAL uint* control, uint n, uint cells_x, uint cells_y, uint cells_z,
    GLOBAL const uint* RESTRICT cell_starts, GLOBAL const uint* RESTRICT cell_counts,
    GLOBAL const float4* RESTRICT listed, float radius2, float scale_x, float scale_y, float scale_z,
    GLOBAL uint* RESTRICT counts, GLOBAL uint* RESTRICT lists, uint capacity)
{
    SHARED uint scratch[1];
    if (!must_build(control))
        return;
    const uint particle = GRID_THREAD;
    if (particle < n) {
        const float4 own = listed[particle];
        const uint own_x = axis_cell((ulong)FLOAT_AS_UINT(own.x) << 32, cells_x),
                   own_y = axis_cell((ulong)FLOAT_AS_UINT(own.y) << 32, cells_y),
                   own_z = axis_cell((ulong)FLOAT_AS_UINT(own.z) << 32, cells_z);
        uint count = 0;
        for (uint k = 0; k < neighbour_count(own_z, cells_z); k++) {
            const uint cell_z = neighbour_cell(own_z, cells_z, k);
            for (uint j = 0; j < neighbour_count(own_y, cells_y); j++) {
                const uint cell_y = neighbour_cell(own_y, cells_y, j);
                for (uint i = 0; i < neighbour_count(own_x, cells_x); i++) {
                    const uint cell = (cell_z * cells_y + cell_y) * cells_x + neighbour_cell(own_x, cells_x, i);
                    const uint first = cell_starts[cell];
                    count = add_cell(particle, own, first, first + cell_counts[cell], count, listed, radius2,
                        scale_x, scale_y, scale_z, lists, capacity);
                }
            }
        }
        counts[particle] = count;
        if (count > capacity)
            ATOMIC_MAX_U32(control + CONTROL_OVERFLOW_NEXT, count);
    }
    if (is_last_block(control, scratch) && THREAD == 0) {
        control[CONTROL_TICKET] = 0;
        control[CONTROL_REBUILD_NEXT] = 0;
        const uint overflow = LOAD_U32(control + CONTROL_OVERFLOW_NEXT);
        control[CONTROL_OVERFLOW] = overflow;
        // Lists that are too short are built again when they have grown.
        if (overflow == 0) {
            control[CONTROL_REBUILD] = 0;
            control[CONTROL_REBUILDS] += 1;
        }
    }
}
