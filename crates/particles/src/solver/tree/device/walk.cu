// Tree walk: one warp per group of neighbouring bodies, one lane per body.
//
// The stack in SHARED memory holds cells to be tested. Each iteration pops up to WARP_SIZE cells
// and tests them against the box around the group, one lane per cell. A cell that is far enough
// away goes to a list. Any other cell is opened: its children go to the stack or, if it is a leaf,
// its bodies go to a second list. As soon as a list has WARP_SIZE entries, each lane loads one of
// them into SHARED memory and every body of the group sums over all of them. The terms and their
// order depend only on the tree.
//
// When the stack gets full, an iteration pops fewer cells, down to one. A cell has at most eight
// children and the tree has 22 generations, so STACK_RESERVE entries are always enough for popping
// one cell at a time.
//
// With x the vector from the body to the cell's centre of mass, u² = 1 / (r² + eps²), Q = 3 M_ij,
// h = tr(Q) / 2, O = 15/2 M_ijk and t = 3/2 M_ijj:
//
//   a = u³ (x (m + u² (-h + u² (5/2 xQx + 5 tx - 7/3 u² Oxxx))) - u² (Qx + t - u² Oxx))
//
// A body costs 13 operations per target, a cell with its quadrupole about 32.
//
// Products and sums are fused explicitly wherever they could be. The accelerations therefore have
// the same bits with and without potentials.

#define STACK_SIZE 768
#define STACK_RESERVE (8 * GENERATIONS)
// A leaf with at most this many bodies is summed body by body at any distance.
#define SMALL_LEAF (ORDER == 1 ? 1 : ORDER == 2 ? 2 : 4)
// Vectors of a cell in the tile.
#define TILE_VECTORS (ORDER == 1 ? 1 : ORDER == 2 ? 3 : 6)
// Entries of a tile without a source have mass 0 and lie at (OUTSIDE, OUTSIDE, OUTSIDE), away from
// all bodies.
#define OUTSIDE ((REAL)16)
#define NO_BODY 0xffffffffu
// Larger than any acceleration in scaled units.
#define MAX_ACCELERATION 3e38f

// The opening test compares f32 distances. Coordinates are relative to the centre of the cube.
#if PRECISION == 2
#define FROM_MIDDLE(coordinate, axis) ((float)((coordinate) - frame[FRAME_MIDDLE + axis]))
#else
#define FROM_MIDDLE(coordinate, axis) (coordinate)
#endif

#if PRECISION == 0
typedef float SUM;
#else
typedef double SUM;
#endif

// Acceleration and potential due to one tile.
typedef struct {
    REAL x, y, z, potential;
} Field;

// Acceleration and potential due to all tiles.
typedef struct {
    SUM x, y, z, potential;
} FieldSum;

// Bounding box of a group and the smallest acceleration of its bodies in the previous step.
typedef struct {
    float centre_x, centre_y, centre_z, half_x, half_y, half_z, min_acceleration;
} Box;

// The body of a lane. In mixed precision its position is relative to the centre of the box.
typedef struct {
    REAL x, y, z;
    uint body;
} Target;

// The tree and the sorted bodies. `layout.cu` describes the arrays.
typedef struct {
    GLOBAL const uint* begin;
    GLOBAL const uint* end;
    GLOBAL const uint* children;
    GLOBAL const REAL4* centres;
    GLOBAL const REAL4* moments;
    GLOBAL const float* relative_limits;
    GLOBAL const REAL4* high;
    GLOBAL const REAL4* low;
} Tree;

// A warp's SHARED memory and a lane mask.
typedef struct {
    SHARED_POINTER uint* stack;       // [STACK_SIZE] cells to be tested
    SHARED_POINTER uint* far_cells;   // [2 * WARP_SIZE] accepted cells that are not summed yet
    SHARED_POINTER uint* near_bodies; // [2 * WARP_SIZE] listed bodies that are not summed yet
    SHARED_POINTER REAL4* tile;       // [WARP_SIZE * TILE_VECTORS] sources that are being summed
    SHARED_POINTER uint* tile_bodies; // [WARP_SIZE] indices of the bodies in the tile, or NO_BODY
    SHARED_POINTER uint* scratch;     // [WARP_SIZE] for BALLOT
    uint lower_lanes;                 // bits of the lanes below this one
} Workspace;

// Result of the opening test of a lane's cell.
typedef struct {
    uint cell, children;
    uint next_body, bodies_end; // bodies of an opened leaf, otherwise empty
    int is_far, is_opened;      // is_opened is for cells with children only
} TestedCell;

// Lanes for which a condition holds, one bit per lane. For example, a lane that opens a cell with
// six children sets its bit in opened, opened_bit0 and opened_bit2, because 6 - 1 = 0b101.
typedef struct {
    uint opened;                                // cells with children that are opened
    uint opened_bit0, opened_bit1, opened_bit2; // of those, this bit of (children - 1) is set
    uint far;
} Votes;

// Lengths of the lists and the numbers of terms of the walk of one group. The same for all lanes.
typedef struct {
    uint near_bodies, far_cells, stack_top;
    uint body_terms, cell_terms;
} Progress;

FUNCTION void add_field(FieldSum* sum, const Field* field)
{
    sum->x += (SUM)field->x;
    sum->y += (SUM)field->y;
    sum->z += (SUM)field->z;
#if POTENTIAL
    sum->potential += (SUM)field->potential;
#endif
}

// Adds the field of one body of the tile at `target`. The acceleration of a body due to itself is 0
// because x = y = z = 0.
FUNCTION void add_body(Field* field, int entry, const Target* target, REAL eps2, const Workspace* work)
{
    const REAL4 source = work->tile[entry];
    const REAL x = source.x - target->x, y = source.y - target->y, z = source.z - target->z;
    const REAL inv_r = REAL_RSQRT(REAL_FMA(x, x, REAL_FMA(y, y, REAL_FMA(z, z, eps2))));
    const REAL weight = source.w * inv_r * (inv_r * inv_r);
    field->x = REAL_FMA(weight, x, field->x);
    field->y = REAL_FMA(weight, y, field->y);
    field->z = REAL_FMA(weight, z, field->z);
#if POTENTIAL
    field->potential -= work->tile_bodies[entry] == target->body ? 0 : source.w * inv_r;
#endif
}

// Returns the field of up to WARP_SIZE bodies at each lane's target. Each of the first `count`
// lanes brings one of them, `body`.
FUNCTION Field sum_bodies(uint body, uint count, const Target* target, const Box* box, REAL eps2,
    const Tree* tree, const Workspace* work)
{
    REAL4 source = MAKE_REAL4(OUTSIDE, OUTSIDE, OUTSIDE, 0);
    if ((uint)LANE < count) {
        source = tree->high[body];
#if HAS_LOW
        const REAL4 low = tree->low[body];
        source = MAKE_REAL4((source.x - box->centre_x) + low.x, (source.y - box->centre_y) + low.y,
            (source.z - box->centre_z) + low.z, source.w);
#endif
    }
    WARP_BARRIER();
    work->tile[LANE] = source;
#if POTENTIAL
    work->tile_bodies[LANE] = (uint)LANE < count ? body : NO_BODY;
#endif
    WARP_BARRIER();
    Field field = {0};
    const int padded = ((int)count + 7) & ~7;
    UNROLL(UNROLL_BODIES)
    for (int entry = 0; entry < padded; entry++)
        add_body(&field, entry, target, eps2, work);
    return field;
}

// Loads cell `cell` into entry LANE of the tile, as
//   (x y z m) (Qxx Qxy Qxz Qyy) (Qyz Qzz -h tx)
//   (ty tz Oxxx Oxxy) (Oxxz Oxyy Oxyz Oxzz) (Oyyy Oyyz Oyzz Ozzz)
// Lanes from `count` on load a cell without mass. The caller's barrier follows.
FUNCTION void load_cell(uint cell, uint count, const Box* box, const Tree* tree, SHARED_POINTER REAL4* tile)
{
    REAL4 centre_mass = MAKE_REAL4(OUTSIDE, OUTSIDE, OUTSIDE, 0);
#if ORDER >= 2
    REAL4 v1 = MAKE_REAL4(0, 0, 0, 0), v2 = MAKE_REAL4(0, 0, 0, 0);
#endif
#if ORDER >= 3
    REAL4 v3 = MAKE_REAL4(0, 0, 0, 0), v4 = MAKE_REAL4(0, 0, 0, 0);
#endif
    if ((uint)LANE < count) {
        const REAL4 centre = tree->centres[cell];
        GLOBAL const REAL4* RESTRICT vectors = tree->moments + (ulong)cell * MOMENT_VECTORS;
        const REAL4 v0 = vectors[0];
#if HAS_LOW
        centre_mass = MAKE_REAL4((centre.x - box->centre_x) + v0.y, (centre.y - box->centre_y) + v0.z,
            (centre.z - box->centre_z) + v0.w, v0.x);
#else
        centre_mass = MAKE_REAL4(centre.x, centre.y, centre.z, v0.x);
#endif
#if ORDER >= 2
        v1 = vectors[1];
        v2 = vectors[2];
#endif
#if ORDER >= 3
        v3 = vectors[3];
        v4 = vectors[4];
#endif
    }
    WARP_BARRIER();
    SHARED_POINTER REAL4* entry = tile + LANE * TILE_VECTORS;
    entry[0] = centre_mass;
#if ORDER >= 2
    const REAL minus_h = (REAL)-1.5 * (v1.x + v1.w + v2.y);
    entry[1] = MAKE_REAL4(3 * v1.x, 3 * v1.y, 3 * v1.z, 3 * v1.w);
#endif
#if ORDER == 2
    entry[2] = MAKE_REAL4(3 * v2.x, 3 * v2.y, minus_h, 0);
#elif ORDER == 3
    const REAL f = (REAL)7.5, g = (REAL)1.5;
    entry[2] = MAKE_REAL4(3 * v2.x, 3 * v2.y, minus_h, g * (v2.z + v3.y + v3.w));
    entry[3] = MAKE_REAL4(g * (v2.w + v4.x + v4.z), g * (v3.x + v4.y + v4.w), f * v2.z, f * v2.w);
    entry[4] = MAKE_REAL4(f * v3.x, f * v3.y, f * v3.z, f * v3.w);
    entry[5] = MAKE_REAL4(f * v4.x, f * v4.y, f * v4.z, f * v4.w);
#endif
}

#if ORDER == 1
// Adds the field of one cell of the tile at `target`.
FUNCTION void add_cell(Field* field, SHARED_POINTER const REAL4* entry, const Target* target, REAL eps2)
{
    const REAL4 source = entry[0];
    const REAL x = source.x - target->x, y = source.y - target->y, z = source.z - target->z;
    const REAL u = REAL_RSQRT(REAL_FMA(x, x, REAL_FMA(y, y, REAL_FMA(z, z, eps2))));
    const REAL u2 = u * u, u3 = u * u2;
    const REAL weight = source.w * u3;
    field->x = REAL_FMA(weight, x, field->x);
    field->y = REAL_FMA(weight, y, field->y);
    field->z = REAL_FMA(weight, z, field->z);
#if POTENTIAL
    field->potential = REAL_FMA(-source.w, u, field->potential);
#endif
}
#else

// Multipole terms of one cell in the formula of the header.
typedef struct {
    REAL radial;    // factor of u² x, besides m
    REAL x, y, z;   // Qx + t - u² Oxx
    REAL potential; // factor of u² in the potential, besides m
} Multipole;

#if ORDER == 3
// Adds the octupole terms of a cell of the tile. (x, y, z) points from the target to the cell.
FUNCTION void add_octupole(Multipole* sum, SHARED_POINTER const REAL4* entry, REAL tx, REAL x, REAL y, REAL z,
    REAL u2)
{
    const REAL4 v3 = entry[3], v4 = entry[4], v5 = entry[5];
    const REAL ty = v3.x, tz = v3.y;
    const REAL Oxxx = v3.z, Oxxy = v3.w, Oxxz = v4.x, Oxyy = v4.y, Oxyz = v4.z, Oxzz = v4.w;
    const REAL Oyyy = v5.x, Oyyz = v5.y, Oyzz = v5.z, Ozzz = v5.w;
    // The symmetric matrix Ox.
    const REAL xx = REAL_FMA(Oxxx, x, REAL_FMA(Oxxy, y, Oxxz * z)),
               xy = REAL_FMA(Oxxy, x, REAL_FMA(Oxyy, y, Oxyz * z)),
               xz = REAL_FMA(Oxxz, x, REAL_FMA(Oxyz, y, Oxzz * z)),
               yy = REAL_FMA(Oxyy, x, REAL_FMA(Oyyy, y, Oyyz * z)),
               yz = REAL_FMA(Oxyz, x, REAL_FMA(Oyyz, y, Oyzz * z)),
               zz = REAL_FMA(Oxzz, x, REAL_FMA(Oyzz, y, Ozzz * z));
    // Oxx, u⁴ Oxxx and u² tx.
    const REAL oxx_x = REAL_FMA(xx, x, REAL_FMA(xy, y, xz * z)),
               oxx_y = REAL_FMA(xy, x, REAL_FMA(yy, y, yz * z)),
               oxx_z = REAL_FMA(xz, x, REAL_FMA(yz, y, zz * z));
    const REAL oxxx = u2 * (u2 * REAL_FMA(oxx_x, x, REAL_FMA(oxx_y, y, oxx_z * z))),
               t_dot_x = u2 * REAL_FMA(tx, x, REAL_FMA(ty, y, tz * z));
    sum->radial += REAL_FMA((REAL)5, t_dot_x, (REAL)(-7.0 / 3.0) * oxxx);
    sum->x += REAL_FMA(-u2, oxx_x, tx);
    sum->y += REAL_FMA(-u2, oxx_y, ty);
    sum->z += REAL_FMA(-u2, oxx_z, tz);
#if POTENTIAL
    sum->potential += REAL_FMA((REAL)(-1.0 / 3.0), oxxx, t_dot_x);
#endif
}
#endif

// Adds the field of one cell of the tile at `target`.
FUNCTION void add_cell(Field* field, SHARED_POINTER const REAL4* entry, const Target* target, REAL eps2)
{
    const REAL4 source = entry[0];
    const REAL x = source.x - target->x, y = source.y - target->y, z = source.z - target->z;
    const REAL u = REAL_RSQRT(REAL_FMA(x, x, REAL_FMA(y, y, REAL_FMA(z, z, eps2))));
    const REAL u2 = u * u, u3 = u * u2;
    const REAL4 v1 = entry[1], v2 = entry[2];
    const REAL Qxx = v1.x, Qxy = v1.y, Qxz = v1.z, Qyy = v1.w, Qyz = v2.x, Qzz = v2.y, minus_h = v2.z;
    Multipole sum;
    sum.x = REAL_FMA(Qxx, x, REAL_FMA(Qxy, y, Qxz * z));
    sum.y = REAL_FMA(Qxy, x, REAL_FMA(Qyy, y, Qyz * z));
    sum.z = REAL_FMA(Qxz, x, REAL_FMA(Qyz, y, Qzz * z));
    const REAL xqx = u2 * REAL_FMA(sum.x, x, REAL_FMA(sum.y, y, sum.z * z));
    sum.radial = REAL_FMA((REAL)2.5, xqx, minus_h);
#if POTENTIAL
    sum.potential = REAL_FMA((REAL)0.5, xqx, minus_h * (REAL)(1.0 / 3.0));
#endif
#if ORDER == 3
    add_octupole(&sum, entry, v2.w, x, y, z, u2);
#endif
    const REAL radial = REAL_FMA(u2, sum.radial, source.w) * u3;
    const REAL minus_u5 = -u2 * u3;
    field->x = REAL_FMA(radial, x, REAL_FMA(minus_u5, sum.x, field->x));
    field->y = REAL_FMA(radial, y, REAL_FMA(minus_u5, sum.y, field->y));
    field->z = REAL_FMA(radial, z, REAL_FMA(minus_u5, sum.z, field->z));
#if POTENTIAL
    field->potential = REAL_FMA(-u, REAL_FMA(u2, sum.potential, source.w), field->potential);
#endif
}
#endif

// Returns the field of up to WARP_SIZE cells at each lane's target. Each of the first `count` lanes
// brings one of them, `cell`.
FUNCTION Field sum_cells(uint cell, uint count, const Target* target, const Box* box, REAL eps2,
    const Tree* tree, SHARED_POINTER REAL4* tile)
{
    load_cell(cell, count, box, tree, tile);
    WARP_BARRIER();
    Field field = {0};
    const int padded = ((int)count + 3) & ~3;
    UNROLL(UNROLL_CELLS)
    for (int entry = 0; entry < padded; entry++)
        add_cell(&field, tile + entry * TILE_VECTORS, target, eps2);
    return field;
}

// Returns the box around the bodies in the tile, one per lane, and the minimum of their w.
FUNCTION Box bounding_box(REAL4 own, SHARED_POINTER const REAL4* tile, GLOBAL const double* RESTRICT frame)
{
    float low_x = FROM_MIDDLE(own.x, 0), low_y = FROM_MIDDLE(own.y, 1), low_z = FROM_MIDDLE(own.z, 2),
          high_x = low_x, high_y = low_y, high_z = low_z, min_acceleration = MAX_ACCELERATION;
    for (int lane = 0; lane < WARP_SIZE; lane++) {
        const REAL4 body = tile[lane];
        low_x = MIN(low_x, FROM_MIDDLE(body.x, 0));
        low_y = MIN(low_y, FROM_MIDDLE(body.y, 1));
        low_z = MIN(low_z, FROM_MIDDLE(body.z, 2));
        high_x = MAX(high_x, FROM_MIDDLE(body.x, 0));
        high_y = MAX(high_y, FROM_MIDDLE(body.y, 1));
        high_z = MAX(high_z, FROM_MIDDLE(body.z, 2));
        min_acceleration = MIN(min_acceleration, (float)body.w);
    }
    Box box;
    box.centre_x = 0.5f * (low_x + high_x);
    box.centre_y = 0.5f * (low_y + high_y);
    box.centre_z = 0.5f * (low_z + high_z);
    box.half_x = 0.5f * (high_x - low_x);
    box.half_y = 0.5f * (high_y - low_y);
    box.half_z = 0.5f * (high_z - low_z);
    box.min_acceleration = min_acceleration;
    return box;
}

// Returns how many cells to pop from a stack of `top` cells. Each replaces itself by at most eight
// children.
FUNCTION uint cells_to_test(uint top)
{
    const uint fitting = top + STACK_RESERVE < STACK_SIZE ? (STACK_SIZE - STACK_RESERVE - top) / 7 + 1 : 1;
    const uint wanted = top < WARP_SIZE ? top : WARP_SIZE;
    return wanted < fitting ? wanted : fitting;
}

// Tests the lane's cell against the box of the group: geometric acceptance (Barnes 1994) and, with
// RELATIVE, r² ≥ (M l³)^(2/5) `stretch2`. solver/tree/cpu.rs describes both criteria.
FUNCTION TestedCell test_cell(uint cell, const Box* box, float stretch2, const Tree* tree,
    GLOBAL const double* RESTRICT frame)
{
    TestedCell tested = { cell, tree->children[cell], 0, 0, 0, 0 };
    const REAL4 centre = tree->centres[cell];
    const float dx = MAX(fabs(FROM_MIDDLE(centre.x, 0) - box->centre_x) - box->half_x, 0.0f),
                dy = MAX(fabs(FROM_MIDDLE(centre.y, 1) - box->centre_y) - box->half_y, 0.0f),
                dz = MAX(fabs(FROM_MIDDLE(centre.z, 2) - box->centre_z) - box->half_z, 0.0f);
    float limit2 = (float)centre.w;
#if RELATIVE
    limit2 = MAX(limit2, tree->relative_limits[cell] * stretch2);
#endif
    // NaN counts as far. The sum becomes NaN in either case, and this ends the walk sooner.
    tested.is_far = !(FMA(dx, dx, FMA(dy, dy, dz * dz)) <= limit2);
    if (tested.children == LEAF) {
        tested.next_body = tree->begin[cell];
        tested.bodies_end = tree->end[cell];
        tested.is_far = tested.is_far && tested.bodies_end - tested.next_body > SMALL_LEAF;
        if (tested.is_far)
            tested.bodies_end = tested.next_body;
    } else
        tested.is_opened = !tested.is_far;
    return tested;
}

FUNCTION Votes vote(const TestedCell* tested, SHARED_POINTER uint* scratch)
{
    Votes votes;
    votes.opened = BALLOT(tested->is_opened, scratch);
    votes.opened_bit0 = BALLOT(tested->is_opened && (tested->children & 1), scratch);
    votes.opened_bit1 = BALLOT(tested->is_opened && (tested->children & 2), scratch);
    votes.opened_bit2 = BALLOT(tested->is_opened && (tested->children & 4), scratch);
    votes.far = BALLOT(tested->is_far, scratch);
    return votes;
}

// Returns the total number of children of the opened cells of the lanes in `lanes`.
FUNCTION uint count_children(const Votes* votes, uint lanes)
{
    return (uint)(POPCOUNT(votes->opened & lanes) + POPCOUNT(votes->opened_bit0 & lanes)
        + 2 * POPCOUNT(votes->opened_bit1 & lanes) + 4 * POPCOUNT(votes->opened_bit2 & lanes));
}

// Pushes the children of opened cells and lists the cells that are far enough away.
FUNCTION void push_and_list(const TestedCell* tested, const Votes* votes, Progress* progress,
    const Workspace* work)
{
    if (tested->is_opened) {
        const uint position = progress->stack_top + count_children(votes, work->lower_lanes);
        const uint child_count = (tested->children & 7) + 1;
        for (uint child = 0; child < child_count; child++)
            work->stack[position + child] = (tested->children >> 3) + child;
    }
    progress->stack_top += count_children(votes, 0xffffffffu);
    if (tested->is_far)
        work->far_cells[progress->far_cells + (uint)POPCOUNT(votes->far & work->lower_lanes)] = tested->cell;
    progress->far_cells += (uint)POPCOUNT(votes->far);
    progress->cell_terms += (uint)POPCOUNT(votes->far);
}

// Sums over listed cells, from the end of the list, until fewer than `enough` are left.
FUNCTION void flush_cells(FieldSum* sums, uint enough, const Target* target, const Box* box, REAL eps2,
    const Tree* tree, Progress* progress, const Workspace* work)
{
    while (progress->far_cells >= enough) {
        const uint count = progress->far_cells < WARP_SIZE ? progress->far_cells : WARP_SIZE;
        progress->far_cells -= count;
        const uint cell = work->far_cells[progress->far_cells + (uint)LANE];
        const Field field = sum_cells(cell, count, target, box, eps2, tree, work->tile);
        add_field(sums, &field);
    }
}

// As `flush_cells`, for listed bodies.
FUNCTION void flush_bodies(FieldSum* sums, uint enough, const Target* target, const Box* box, REAL eps2,
    const Tree* tree, Progress* progress, const Workspace* work)
{
    while (progress->near_bodies >= enough) {
        const uint count = progress->near_bodies < WARP_SIZE ? progress->near_bodies : WARP_SIZE;
        progress->near_bodies -= count;
        const uint body = work->near_bodies[progress->near_bodies + (uint)LANE];
        const Field field = sum_bodies(body, count, target, box, eps2, tree, work);
        add_field(sums, &field);
    }
}

// Lists the bodies of the lanes' opened leaves, one per lane and iteration, and sums over them.
FUNCTION void sum_opened_leaves(FieldSum* sums, TestedCell* tested, const Target* target, const Box* box,
    REAL eps2, const Tree* tree, Progress* progress, const Workspace* work)
{
    uint waiting = BALLOT(tested->next_body < tested->bodies_end, work->scratch);
    int is_waiting = 1;
    while (is_waiting) {
        if (tested->next_body < tested->bodies_end)
            work->near_bodies[progress->near_bodies + (uint)POPCOUNT(waiting & work->lower_lanes)] =
                tested->next_body++;
        progress->near_bodies += (uint)POPCOUNT(waiting);
        progress->body_terms += (uint)POPCOUNT(waiting);
        waiting = BALLOT(tested->next_body < tested->bodies_end, work->scratch);
        is_waiting = waiting != 0;
        WARP_BARRIER();
        const uint enough = progress->stack_top > 0 || is_waiting ? WARP_SIZE : 1;
        flush_bodies(sums, enough, target, box, eps2, tree, progress, work);
    }
}

// Walks the tree for one group and adds the field at each lane's target to `sums`.
FUNCTION void walk_tree(FieldSum* sums, const Target* target, const Box* box, float stretch2, REAL eps2,
    const Tree* tree, GLOBAL const double* RESTRICT frame, Progress* progress, const Workspace* work)
{
    progress->stack_top = 1;
    if (LANE == 0)
        work->stack[0] = 0;
    WARP_BARRIER();
    while (progress->stack_top > 0) {
        const uint tests = cells_to_test(progress->stack_top);
        TestedCell tested = { 0, LEAF, 0, 0, 0, 0 };
        if ((uint)LANE < tests)
            tested = test_cell(work->stack[progress->stack_top - 1 - (uint)LANE], box, stretch2, tree, frame);
        progress->stack_top -= tests;
        // All lanes must have read their cells before the stack is overwritten.
        WARP_BARRIER();
        const Votes votes = vote(&tested, work->scratch);
        push_and_list(&tested, &votes, progress, work);
        WARP_BARRIER();
        // When the stack is empty, lists are summed to the end.
        flush_cells(sums, progress->stack_top > 0 ? WARP_SIZE : 1, target, box, eps2, tree, progress, work);
        sum_opened_leaves(sums, &tested, target, box, eps2, tree, progress, work);
    }
}

// Returns (1 / alpha |a|)^(2/5) with the smallest acceleration |a| of the group, or 0 if RELATIVE
// is 0.
FUNCTION float relative_stretch2(double alpha, const Box* box)
{
#if RELATIVE
    return (float)pow(alpha * (double)box->min_acceleration, -0.4);
#else
    return 0.0f;
#endif
}

// Writes the field of one body in the user's units.
FUNCTION void write_field(const FieldSum* sums, uint user_index, GLOBAL const double* RESTRICT frame,
    GLOBAL double* ax, GLOBAL double* ay, GLOBAL double* az, GLOBAL double* RESTRICT potential)
{
    ax[user_index] = (double)sums->x * frame[FRAME_ACCELERATION_UNIT];
    ay[user_index] = (double)sums->y * frame[FRAME_ACCELERATION_UNIT];
    az[user_index] = (double)sums->z * frame[FRAME_ACCELERATION_UNIT];
#if POTENTIAL
    potential[user_index] = (double)sums->potential * frame[FRAME_POTENTIAL_UNIT];
#endif
}

// Returns the next group of this warp. Warps that take groups from a counter share the work better.
// Without shuffles each warp takes every BLOCK_COUNT-th group.
FUNCTION uint next_group(uint group, GLOBAL uint* counts, SHARED_POINTER uint* scratch)
{
#if HAS_WARP_SHUFFLE
    uint ticket = 0;
    if (LANE == 0)
        ticket = ATOMIC_ADD_U32(counts + COUNT_TICKET, 1);
    return (uint)BLOCK_COUNT + SHUFFLE(ticket, 0, scratch);
#else
    return group + (uint)BLOCK_COUNT;
#endif
}

// Walks the tree for all groups. `alpha` is the tolerance of the relative acceptance, and (px, py,
// pz) are the accelerations of the previous step. Both are unused with RELATIVE 0. Each warp writes
// three numbers from statistics[3 * BLOCK_INDEX] on: its body terms, its cell terms, and the most
// terms of one body.
KERNEL_MIN_BLOCKS(WARP_SIZE, MIN_BLOCKS_PER_SM)
walk(GLOBAL uint* counts, GLOBAL const uint* RESTRICT groups, GLOBAL const uint* RESTRICT sizes,
    GLOBAL const uint* RESTRICT begin, GLOBAL const uint* RESTRICT end, GLOBAL const uint* RESTRICT children,
    GLOBAL const REAL4* RESTRICT centres, GLOBAL const REAL4* RESTRICT moments,
    GLOBAL const float* RESTRICT relative_limits, GLOBAL const REAL4* RESTRICT high,
    GLOBAL const REAL4* RESTRICT low, GLOBAL const double* RESTRICT frame, GLOBAL const uint* RESTRICT order,
    double alpha, GLOBAL const double* px, GLOBAL const double* py, GLOBAL const double* pz,
    GLOBAL double* ax, GLOBAL double* ay, GLOBAL double* az, GLOBAL double* RESTRICT potential,
    GLOBAL ulong* RESTRICT statistics)
{
    SHARED uint stack[STACK_SIZE];
    SHARED uint far_cells[2 * WARP_SIZE];
    SHARED uint near_bodies[2 * WARP_SIZE];
    SHARED REAL4 tile[WARP_SIZE * TILE_VECTORS];
    SHARED uint scratch[WARP_SIZE];
    SHARED uint tile_bodies[WARP_SIZE];
    const Tree tree = { begin, end, children, centres, moments, relative_limits, high, low };
    uint group_count = 0;
    for (int width_class = 0; width_class < WIDTH_CLASSES; width_class++)
        group_count += counts[COUNT_CLASS + width_class];
    const Workspace work = { stack, far_cells, near_bodies, tile, tile_bodies, scratch, (1u << LANE) - 1u };
    const REAL eps2 = (REAL)frame[FRAME_EPS2];
    ulong max_terms = 0, cell_terms = 0, body_terms = 0;

    uint group = (uint)BLOCK_INDEX;
    while (group < group_count) {
        const uint first = groups[group], bodies = sizes[first] & 255;
        // Lanes without a body repeat the last one.
        const uint body = first + ((uint)LANE < bodies ? (uint)LANE : bodies - 1);
        const REAL4 own = high[body];
        const uint user_index = order[body];
#if RELATIVE
        const double sx = px[user_index], sy = py[user_index], sz = pz[user_index];
        tile[LANE] = MAKE_REAL4(own.x, own.y, own.z,
            (REAL)(SQRT64(sx * sx + sy * sy + sz * sz) / frame[FRAME_ACCELERATION_UNIT]));
#else
        tile[LANE] = own;
#endif
        WARP_BARRIER();
        const Box box = bounding_box(own, tile, frame);
#if HAS_LOW
        const REAL4 own_low = low[body];
        const Target target = { (own.x - box.centre_x) + own_low.x, (own.y - box.centre_y) + own_low.y,
            (own.z - box.centre_z) + own_low.z, body };
#else
        const Target target = { own.x, own.y, own.z, body };
#endif
        const float stretch2 = relative_stretch2(alpha, &box);
        FieldSum sums = {0};
        Progress progress = {0};
        walk_tree(&sums, &target, &box, stretch2, eps2, &tree, frame, &progress, &work);
        if ((uint)LANE < bodies)
            write_field(&sums, user_index, frame, ax, ay, az, potential);
        // The list of bodies includes the target, which is not counted.
        const uint others = progress.body_terms > 0 ? progress.body_terms - 1 : 0;
        body_terms += (ulong)bodies * others;
        cell_terms += (ulong)bodies * progress.cell_terms;
        const ulong terms = progress.cell_terms + others;
        max_terms = terms > max_terms ? terms : max_terms;
        group = next_group(group, counts, scratch);
        WARP_BARRIER();
    }
    if (LANE == 0) {
        statistics[3 * BLOCK_INDEX] = body_terms;
        statistics[3 * BLOCK_INDEX + 1] = cell_terms;
        statistics[3 * BLOCK_INDEX + 2] = max_terms;
    }
}
