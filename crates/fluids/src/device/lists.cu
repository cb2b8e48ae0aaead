// Builds of the neighbour lists: particles are sorted by cell, and each finds its neighbours in the
// rows of cells next to its own. All kernels return at once if the lists are valid (CONTROL_REBUILD
// is 0).
//
// Cells are at least as wide as the radius of the lists along y and z, and narrower along x. Those
// with the same y and z form a row, whose particles follow one another. A particle looks at nine
// rows (three in two dimensions), in each of them at the cells along x that its sphere can reach.
//
// The order of particles within a cell depends on the order of atomic additions. It affects no
// result, because forces are sums of integers.
//
// Limited by the tests of distances: four to eight particles are tested for each one in a list.
//
// Defined by the host: BUILD_LANES, threads per particle of build_lists: 1, or 32 on devices with
// warps.

#if DIMENSIONS == 3
#define ROWS 9
#else
#define ROWS 3
#endif

// Cells cover all fractions of a periodic box, and the middle half of an open one. In 32 bits.
#if IS_PERIODIC
#define CELLS_LOW 0u
#define CELLS_BITS 32
#else
#define CELLS_LOW 0x40000000u
#define CELLS_BITS 31
#endif

FUNCTION int must_build(GLOBAL const uint* control)
{
    return control[CONTROL_REBUILD] && !control[CONTROL_FAILED] && !control[CONTROL_OVERFLOW]
        && !control[CONTROL_WIDEN];
}

// Returns the position of a coordinate along an axis with `count` cells, in units of
// 2^-CELLS_BITS of a cell.
FUNCTION ulong axis_position(uint upper_half, uint count)
{
    return (ulong)(upper_half - CELLS_LOW) * count;
}

FUNCTION uint axis_cell(uint upper_half, uint count)
{
    return (uint)(axis_position(upper_half, count) >> CELLS_BITS);
}

// Returns the cell of a coordinate along z.
FUNCTION uint z_cell(uint upper_half, uint count)
{
#if DIMENSIONS == 3
    return axis_cell(upper_half, count);
#else
    return 0;
#endif
}

// Finds the cell of each particle, and its rank among the particles of the cell.
KERNEL(BLOCK_SIZE)
assign_cells(GLOBAL const uint* RESTRICT control, uint n, uint stride, uint cells_x, uint cells_y, uint cells_z,
    GLOBAL const ulong* RESTRICT x, GLOBAL const ulong* RESTRICT y, GLOBAL const ulong* RESTRICT z,
    GLOBAL uint* cell_counts, GLOBAL uint* RESTRICT cell_of, GLOBAL uint* RESTRICT rank_of)
{
    const uint particle = GRID_THREAD;
    if (!must_build(control) || particle >= n)
        return;
    const uint at = control[CONTROL_SIDE] * stride + particle;
    const uint cell_x = axis_cell((uint)(x[at] >> 32), cells_x), cell_y = axis_cell((uint)(y[at] >> 32), cells_y),
               cell_z = z_cell((uint)(z[at] >> 32), cells_z);
    const uint cell = (cell_z * cells_y + cell_y) * cells_x + cell_x;
    cell_of[particle] = cell;
    rank_of[particle] = ATOMIC_ADD_U32(cell_counts + cell, 1);
}

// Copies the particles to the other side of the state, in the order of their cells. Their positions
// become those of the lists. Clears the counts for the next build.
KERNEL(BLOCK_SIZE)
sort_particles(GLOBAL uint* control, uint n, uint stride, uint cell_count, GLOBAL uint* RESTRICT cell_counts,
    GLOBAL const uint* RESTRICT cell_starts, GLOBAL const uint* RESTRICT cell_of,
    GLOBAL const uint* RESTRICT rank_of, GLOBAL ulong* x, GLOBAL ulong* y, GLOBAL ulong* z, GLOBAL int* image_x,
    GLOBAL int* image_y, GLOBAL int* image_z, GLOBAL double* vx, GLOBAL double* vy, GLOBAL double* vz,
    GLOBAL uint* species, GLOBAL uint* order, GLOBAL float4* upper_sides, GLOBAL float4* RESTRICT listed)
{
    SHARED uint scratch[1];
    if (!must_build(control))
        return;
    const uint side = control[CONTROL_SIDE];
    const uint particle = GRID_THREAD;
    for (uint cell = GRID_THREAD; cell < cell_count; cell += (uint)BLOCK_COUNT * BLOCK_SIZE)
        cell_counts[cell] = 0;
    if (particle < n) {
        const uint sorted = cell_starts[cell_of[particle]] + rank_of[particle];
        const uint from = side * stride + particle, to = (1 - side) * stride + sorted;
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
        upper_sides[(control[CONTROL_STEP] & 1) * stride + sorted] = upper;
        listed[sorted] = upper;
    }
    if (is_last_block(control, scratch) && THREAD == 0) {
        control[CONTROL_TICKET] = 0;
        control[CONTROL_SIDE] = 1 - side;
    }
}

// A row of cells along y or z next to a particle.
typedef struct {
    uint cell;
    // Shortest distance between the particle and the row, in units of length.
    float gap;
    int exists;
} AxisNeighbour;

// Returns number k of up to three rows along an axis with `count` cells. Each comes once.
FUNCTION AxisNeighbour axis_neighbour(uint upper_half, uint count, uint k, float scale)
{
    const ulong position = axis_position(upper_half, count);
    const uint cell = (uint)(position >> CELLS_BITS);
    AxisNeighbour neighbour = { cell + k - 1, 0.0f, 1 };
#if IS_PERIODIC
    if (count < 3) {
        neighbour.cell = k;
        neighbour.exists = k < count;
        return neighbour;
    }
    neighbour.cell = cell + k == 0 ? count - 1 : cell + k - 1 == count ? 0 : cell + k - 1;
#else
    neighbour.exists = cell + k > 0 && cell + k - 1 < count;
#endif
    const float unit = 1.0f / (float)(1ul << CELLS_BITS);
    const float within = (float)(uint)(position & ((1ul << CELLS_BITS) - 1)) * unit;
    const float height = scale * (float)(1ul << CELLS_BITS) / (float)count;
    // Rounding errors must not make the gap longer.
    const float share = k == 1 ? 0.0f : k == 0 ? within - 1e-5f : 1.0f - within - 1e-5f;
    neighbour.gap = share > 0.0f ? share * height : 0.0f;
    return neighbour;
}

// Ranges of sorted particles in a row that a particle can reach. The second one is not empty if the
// first one ends at the end of the box.
typedef struct {
    uint first, end, second_first, second_end;
} RowRanges;

// Returns the ranges of row number `row` for a particle at `own`.
FUNCTION RowRanges row_ranges(uint row, float4 own, uint cells_x, uint cells_y, uint cells_z,
    GLOBAL const uint* cell_starts, float radius2, float scale_x, float scale_y, float scale_z)
{
    RowRanges ranges = { 0, 0, 0, 0 };
    const AxisNeighbour y = axis_neighbour(FLOAT_AS_UINT(own.y), cells_y, row % 3, scale_y);
#if DIMENSIONS == 3
    const AxisNeighbour z = axis_neighbour(FLOAT_AS_UINT(own.z), cells_z, row / 3, scale_z);
#else
    const AxisNeighbour z = { 0, 0.0f, 1 };
#endif
    const float reach2 = radius2 - (y.gap * y.gap + z.gap * z.gap);
    if (!y.exists || !z.exists || !(reach2 > 0.0f))
        return ranges;
    // Farthest fraction along x, with room for rounding errors.
    const float reach = SQRT(reach2) * 1.0001f / scale_x;
    const uint at = FLOAT_AS_UINT(own.x);
    const uint start = (z.cell * cells_y + y.cell) * cells_x;
    uint first = 0, last = cells_x - 1;
    // The sphere reaches around the box where it comes nearer to itself than two cells.
    if (reach < 2147483648.0f - (float)(1ul << CELLS_BITS) / (float)cells_x - 1000.0f) {
        const uint way = (uint)reach + 2;
#if IS_PERIODIC
        first = axis_cell(at - way, cells_x);
        last = axis_cell(at + way, cells_x);
#else
        if (at - CELLS_LOW > way)
            first = axis_cell(at - way, cells_x);
        if (3 * CELLS_LOW - at > way)
            last = axis_cell(at + way, cells_x);
#endif
    }
    ranges.first = cell_starts[start + first];
    ranges.end = cell_starts[start + (first <= last ? last + 1 : cells_x)];
    if (first > last) {
        ranges.second_first = cell_starts[start];
        ranges.second_end = cell_starts[start + last + 1];
    }
    return ranges;
}

// The end of a list that one thread writes: the number of neighbours, which may exceed the
// capacity, and those of the last quad.
typedef struct {
    uint count;
    float4 quad;
} ListEnd;

// Adds a neighbour. Writes the quad when it is full.
FUNCTION void append(ListEnd* list, uint other, uint particle, GLOBAL float4* lists, uint capacity)
{
    const uint slot = list->count % 4;
    const float bits = UINT_AS_FLOAT(other);
    list->quad.x = slot == 0 ? bits : list->quad.x;
    list->quad.y = slot == 1 ? bits : list->quad.y;
    list->quad.z = slot == 2 ? bits : list->quad.z;
    list->quad.w = bits;
    if (slot == 3 && list->count < capacity)
        lists[quad_position(particle, list->count / 4, capacity)] = list->quad;
    list->count++;
}

// Adds the particles of a range that are within the radius to the list of a particle. One thread.
FUNCTION void add_range(ListEnd* list, uint particle, float4 own, uint first, uint end, GLOBAL const float4* listed,
    float radius2, float scale_x, float scale_y, float scale_z, GLOBAL float4* lists, uint capacity)
{
    // Four loads are under way together.
    for (uint start = first; start < end; start += 4) {
        float4 others[4];
        UNROLL_ALL
        for (uint j = 0; j < 4; j++)
            others[j] = listed[start + j < end ? start + j : start];
        UNROLL_ALL
        for (uint j = 0; j < 4; j++) {
            const Separation d = separation(own, others[j], scale_x, scale_y, scale_z);
            if (d.r2 < radius2 && start + j < end && start + j != particle)
                append(list, start + j, particle, lists, capacity);
        }
    }
}

// As add_range, with 32 threads that all have the same arguments. Returns the number of neighbours.
FUNCTION uint add_range_together(uint count, uint particle, float4 own, uint first, uint end,
    GLOBAL const float4* listed, float radius2, float scale_x, float scale_y, float scale_z, GLOBAL uint* lists,
    uint capacity, SHARED_POINTER uint* scratch)
{
    for (uint start = first; start < end; start += 32) {
        const uint other = start + (uint)LANE;
        const Separation d = separation(own, listed[other < end ? other : first], scale_x, scale_y, scale_z);
        const int is_near = d.r2 < radius2 && other < end && other != particle;
        const uint found = BALLOT(is_near, scratch);
        const uint k = count + (uint)POPCOUNT(found & ((1u << LANE) - 1u));
        if (is_near && k < capacity)
            lists[list_position(particle, k, capacity)] = other;
        count += (uint)POPCOUNT(found);
    }
    return count;
}

#if HAS_GHOSTS
// Returns the ranges of ghosts in row number `row`, as row_ranges does. Ghosts follow behind the
// first n particles.
FUNCTION RowRanges ghost_ranges(uint row, float4 own, uint n, uint cells_x, uint cells_y, uint cells_z,
    GLOBAL const uint* ghost_starts, float radius2, float scale_x, float scale_y, float scale_z)
{
    RowRanges ranges = row_ranges(
        row, own, cells_x, cells_y, cells_z, ghost_starts, radius2, scale_x, scale_y, scale_z);
    ranges.first += n;
    ranges.end += n;
    ranges.second_first += n;
    ranges.second_end += n;
    return ranges;
}
#endif

#if BUILD_LANES == 32
// Adds the particles of all rows, whose ranges the first lanes have, with 32 threads. Returns the
// number of neighbours.
FUNCTION uint add_rows_together(uint count, RowRanges mine, uint particle, float4 own, GLOBAL const float4* listed,
    float radius2, float scale_x, float scale_y, float scale_z, GLOBAL uint* entries, uint capacity,
    SHARED_POINTER uint* scratch)
{
    const int has_second = ANY(mine.second_first < mine.second_end, scratch);
    for (int row = 0; row < ROWS; row++) {
        const uint first = SHUFFLE(mine.first, row, scratch), end = SHUFFLE(mine.end, row, scratch);
        count = add_range_together(count, particle, own, first, end, listed, radius2, scale_x, scale_y, scale_z,
            entries, capacity, scratch);
    }
    for (int row = 0; has_second && row < ROWS; row++) {
        const uint first = SHUFFLE(mine.second_first, row, scratch), end = SHUFFLE(mine.second_end, row, scratch);
        count = add_range_together(count, particle, own, first, end, listed, radius2, scale_x, scale_y, scale_z,
            entries, capacity, scratch);
    }
    return count;
}

// Finds the neighbours of a particle with 32 threads and returns their number.
FUNCTION uint find_neighbours(uint particle, uint n, uint cells_x, uint cells_y, uint cells_z,
    GLOBAL const uint* cell_starts, GLOBAL const uint* ghost_starts, GLOBAL const float4* listed, float radius2,
    float scale_x, float scale_y, float scale_z, GLOBAL float4* lists, uint capacity, SHARED_POINTER uint* scratch)
{
    if (particle >= n)
        return 0;
    GLOBAL uint* entries = (GLOBAL uint*)lists;
    const float4 own = listed[particle];
    // Each of the first lanes finds the ranges of one row.
    RowRanges mine = { 0, 0, 0, 0 };
    if (LANE < ROWS)
        mine = row_ranges(
            (uint)LANE, own, cells_x, cells_y, cells_z, cell_starts, radius2, scale_x, scale_y, scale_z);
    uint count = add_rows_together(
        0, mine, particle, own, listed, radius2, scale_x, scale_y, scale_z, entries, capacity, scratch);
#if HAS_GHOSTS
    if (LANE < ROWS)
        mine = ghost_ranges(
            (uint)LANE, own, n, cells_x, cells_y, cells_z, ghost_starts, radius2, scale_x, scale_y, scale_z);
    count = add_rows_together(
        count, mine, particle, own, listed, radius2, scale_x, scale_y, scale_z, entries, capacity, scratch);
#endif
    return count;
}
#else
// Widens the first ranges of a warp to one range for all its lanes, so that they load the same
// particles at the same time. Not where lanes have different rows, or a second range: they would
// find a particle twice. All lanes must call it.
FUNCTION void unite_ranges(RowRanges* ranges, uint row_start, SHARED_POINTER uint* scratch)
{
#if HAS_WARPS
    const uint row_of_first = SHUFFLE(row_start, 0, scratch);
    if (ANY(row_start != row_of_first || ranges->second_first < ranges->second_end, scratch))
        return;
    const int is_empty = ranges->first >= ranges->end;
    uint first = is_empty ? 0xffffffffu : ranges->first, end = is_empty ? 0 : ranges->end;
    UNROLL_ALL
    for (int distance = 16; distance > 0; distance /= 2) {
        const uint other_first = SHUFFLE(first, LANE ^ distance, scratch),
                   other_end = SHUFFLE(end, LANE ^ distance, scratch);
        first = other_first < first ? other_first : first;
        end = other_end > end ? other_end : end;
    }
    ranges->first = first;
    ranges->end = end;
#endif
}

// Adds the particles of one row with one thread. All lanes of a warp must call it.
FUNCTION void add_row(ListEnd* list, RowRanges ranges, uint row_start, uint particle, float4 own,
    GLOBAL const float4* listed, float radius2, float scale_x, float scale_y, float scale_z, GLOBAL float4* lists,
    uint capacity, SHARED_POINTER uint* scratch)
{
    unite_ranges(&ranges, row_start, scratch);
    add_range(list, particle, own, ranges.first, ranges.end, listed, radius2, scale_x, scale_y, scale_z, lists,
        capacity);
    add_range(list, particle, own, ranges.second_first, ranges.second_end, listed, radius2, scale_x, scale_y,
        scale_z, lists, capacity);
}

// Finds the neighbours of a particle with one thread and returns their number.
FUNCTION uint find_neighbours(uint particle, uint n, uint cells_x, uint cells_y, uint cells_z,
    GLOBAL const uint* cell_starts, GLOBAL const uint* ghost_starts, GLOBAL const float4* listed, float radius2,
    float scale_x, float scale_y, float scale_z, GLOBAL float4* lists, uint capacity, SHARED_POINTER uint* scratch)
{
    // Threads past the last particle look for neighbours of it and find none.
    const float4 own = listed[particle < n ? particle : n - 1];
    const float own_radius2 = particle < n ? radius2 : -1.0f;
    const uint row_start =
        z_cell(FLOAT_AS_UINT(own.z), cells_z) * cells_y + axis_cell(FLOAT_AS_UINT(own.y), cells_y);
    ListEnd list = { 0, own };
    for (uint row = 0; row < ROWS; row++) {
        const RowRanges ranges = row_ranges(
            row, own, cells_x, cells_y, cells_z, cell_starts, radius2, scale_x, scale_y, scale_z);
        add_row(&list, ranges, row_start, particle, own, listed, own_radius2, scale_x, scale_y, scale_z, lists,
            capacity, scratch);
#if HAS_GHOSTS
        const RowRanges ghosts = ghost_ranges(
            row, own, n, cells_x, cells_y, cells_z, ghost_starts, radius2, scale_x, scale_y, scale_z);
        add_row(&list, ghosts, row_start, particle, own, listed, own_radius2, scale_x, scale_y, scale_z, lists,
            capacity, scratch);
#endif
    }
    if (list.count % 4 != 0 && list.count < capacity)
        lists[quad_position(particle, list.count / 4, capacity)] = list.quad;
    return list.count;
}
#endif

// Finds all particles and ghosts within the radius of the lists. BUILD_LANES threads per particle.
// `ghost_starts` is used if there are ghosts. It counts them from 0.
KERNEL(BLOCK_SIZE)
build_lists(GLOBAL uint* control, uint n, uint cells_x, uint cells_y, uint cells_z,
    GLOBAL const uint* RESTRICT cell_starts, GLOBAL const uint* RESTRICT ghost_starts,
    GLOBAL const float4* RESTRICT listed, float radius2, float scale_x, float scale_y, float scale_z,
    GLOBAL uint* RESTRICT counts, GLOBAL float4* RESTRICT lists, uint capacity)
{
    SHARED uint scratch[BLOCK_SIZE];
    if (!must_build(control))
        return;
    // All threads of PoCL enter the block below, because a return before a barrier makes it follow
    // the first thread. So its assignments may be repeated.
    const uint rebuilds = control[CONTROL_REBUILDS];
    const uint particle = GRID_THREAD / BUILD_LANES;
    const uint count = find_neighbours(particle, n, cells_x, cells_y, cells_z, cell_starts, ghost_starts, listed,
        radius2, scale_x, scale_y, scale_z, lists, capacity, scratch);
    if (particle < n && (uint)THREAD % BUILD_LANES == 0) {
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
            control[CONTROL_REBUILDS] = rebuilds + 1;
        }
    }
}

// Returns the fraction in an open box of twice the size.
FUNCTION ulong halved(ulong fraction)
{
    return (fraction >> 1) + (1ul << 62);
}

// Moves the particles into an open box of twice the size.
KERNEL(BLOCK_SIZE)
widen_box(GLOBAL const uint* RESTRICT control, uint n, uint stride, GLOBAL ulong* x, GLOBAL ulong* y, GLOBAL ulong* z,
    GLOBAL const uint* RESTRICT species, GLOBAL float4* upper_sides)
{
    const uint particle = GRID_THREAD;
    if (particle >= n)
        return;
    const uint at = control[CONTROL_SIDE] * stride + particle;
    x[at] = halved(x[at]);
    y[at] = halved(y[at]);
#if DIMENSIONS == 3
    z[at] = halved(z[at]);
#endif
    upper_sides[(control[CONTROL_STEP] & 1) * stride + particle] = FLOAT4(UINT_AS_FLOAT((uint)(x[at] >> 32)),
        UINT_AS_FLOAT((uint)(y[at] >> 32)), UINT_AS_FLOAT((uint)(z[at] >> 32)), UINT_AS_FLOAT(species[at]));
}
