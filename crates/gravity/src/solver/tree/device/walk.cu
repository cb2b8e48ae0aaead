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
// Cells and bodies close to the box compared with its size are near. Near cells are opened. In
// mixed precision, near bodies are found when their positions are loaded for a sum, and go to a
// third list (`walk_near.cu`). `walk_tile.cu` has the terms.

// Terms of `near_distance2`: four times the rounding error of an f32 coordinate, relative to the
// coordinate, and a distance of which the cube is far within the range of f32.
#define NEAR_RESOLUTION 2.4e-7f
#define NEAR_MINIMUM 1e-10f
#define STACK_SIZE 768
#define STACK_RESERVE (8 * GENERATIONS)
// A leaf with at most this many bodies is summed body by body at any distance.
#define SMALL_LEAF (ORDER == 1 ? 1 : ORDER == 2 ? 2 : 4)
// Larger than any acceleration in scaled units.
#define MAX_ACCELERATION 3e38f

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
    uint bodies, near_bodies, far_cells, stack_top;
    uint body_terms, cell_terms;
} Progress;

// Returns the square of the distance from the box up to which cells and bodies are near: an eighth
// of the largest half side, as in `near.rs`. It is larger than the rounding errors of the box and
// of f32 coordinates, and than the distances of which the cube is above the range of f32.
FUNCTION float near_distance2(const Box* box)
{
    const float half_side = MAX(MAX(box->half_x, box->half_y), box->half_z),
                middle = MAX(MAX(fabs(box->centre_x), fabs(box->centre_y)), fabs(box->centre_z));
    const float margin = 0.125f * half_side + NEAR_RESOLUTION * (half_side + middle) + NEAR_MINIMUM;
    return margin * margin;
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
    box.near2 = near_distance2(&box);
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
// RELATIVE, r² ≥ (M l³)^(2/5) `stretch2`. solver/tree/cpu.rs describes both criteria. Near cells
// are opened in every precision.
FUNCTION TestedCell test_cell(uint cell, const Box* box, float stretch2, const Tree* tree,
    GLOBAL const double* RESTRICT frame)
{
    TestedCell tested = { cell, tree->children[cell], 0, 0, 0, 0 };
    const REAL4 centre = tree->centres[cell];
    const float dx = MAX(fabs(FROM_MIDDLE(centre.x, 0) - box->centre_x) - box->half_x, 0.0f),
                dy = MAX(fabs(FROM_MIDDLE(centre.y, 1) - box->centre_y) - box->half_y, 0.0f),
                dz = MAX(fabs(FROM_MIDDLE(centre.z, 2) - box->centre_z) - box->half_z, 0.0f);
    float limit2 = MAX((float)centre.w, box->near2);
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

#if HAS_NEAR
// As `flush_cells`, for listed near bodies.
FUNCTION void flush_near_bodies(FieldSum* sums, uint enough, const Target* target, const Box* box,
    REAL eps2, const Tree* tree, GLOBAL const double* RESTRICT frame, Progress* progress,
    const Workspace* work)
{
    while (progress->near_bodies >= enough) {
        const uint count = progress->near_bodies < WARP_SIZE ? progress->near_bodies : WARP_SIZE;
        progress->near_bodies -= count;
        const uint body = work->near_bodies[progress->near_bodies + (uint)LANE];
        add_near_bodies(sums, body, count, target, box, eps2, tree, frame, work);
    }
}
#endif

// As `flush_cells`, for listed bodies. Near ones go to their list first.
FUNCTION void flush_bodies(FieldSum* sums, uint enough, const Target* target, const Box* box, REAL eps2,
    const Tree* tree, GLOBAL const double* RESTRICT frame, Progress* progress, const Workspace* work)
{
    while (progress->bodies >= enough) {
        const uint count = progress->bodies < WARP_SIZE ? progress->bodies : WARP_SIZE;
        progress->bodies -= count;
        const uint body = work->bodies[progress->bodies + (uint)LANE];
        const Field field = sum_bodies(body, count, target, box, eps2, tree, &progress->near_bodies, work);
        add_field(sums, &field);
#if HAS_NEAR
        flush_near_bodies(sums, WARP_SIZE, target, box, eps2, tree, frame, progress, work);
#endif
    }
#if HAS_NEAR
    flush_near_bodies(sums, enough, target, box, eps2, tree, frame, progress, work);
#endif
}

// Lists the bodies of the lanes' opened leaves, one per lane and iteration, and sums over them.
FUNCTION void sum_opened_leaves(FieldSum* sums, TestedCell* tested, const Target* target, const Box* box,
    REAL eps2, const Tree* tree, GLOBAL const double* RESTRICT frame, Progress* progress,
    const Workspace* work)
{
    uint waiting = BALLOT(tested->next_body < tested->bodies_end, work->scratch);
    int is_waiting = 1;
    while (is_waiting) {
        if (tested->next_body < tested->bodies_end) {
            work->bodies[progress->bodies + (uint)POPCOUNT(waiting & work->lower_lanes)] = tested->next_body;
            tested->next_body++;
        }
        progress->bodies += (uint)POPCOUNT(waiting);
        progress->body_terms += (uint)POPCOUNT(waiting);
        waiting = BALLOT(tested->next_body < tested->bodies_end, work->scratch);
        is_waiting = waiting != 0;
        WARP_BARRIER();
        const uint enough = progress->stack_top > 0 || is_waiting ? WARP_SIZE : 1;
        flush_bodies(sums, enough, target, box, eps2, tree, frame, progress, work);
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
        sum_opened_leaves(sums, &tested, target, box, eps2, tree, frame, progress, work);
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
    GLOBAL const double* x, GLOBAL const double* y, GLOBAL const double* z, double alpha, GLOBAL const double* px, GLOBAL const double* py, GLOBAL const double* pz,
    GLOBAL double* ax, GLOBAL double* ay, GLOBAL double* az, GLOBAL double* RESTRICT potential,
    GLOBAL ulong* RESTRICT statistics)
{
    SHARED uint stack[STACK_SIZE];
    SHARED uint far_cells[2 * WARP_SIZE];
    SHARED uint listed_bodies[2 * WARP_SIZE];
#if HAS_NEAR
    SHARED uint near_bodies[2 * WARP_SIZE];
#else
    SHARED_POINTER uint* near_bodies = 0;
#endif
    SHARED REAL4 tile[TILE_SIZE];
    SHARED uint scratch[WARP_SIZE];
    SHARED uint tile_bodies[WARP_SIZE];
    const Tree tree = { begin, end, children, centres, moments, relative_limits, high, low, order, x,
        y, z };
    uint group_count = 0;
    for (int width_class = 0; width_class < WIDTH_CLASSES; width_class++)
        group_count += counts[COUNT_CLASS + width_class];
    const Workspace work = { stack, far_cells, listed_bodies, near_bodies, tile,
        tile_bodies, scratch, (1u << LANE) - 1u };
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
