// Kernel 5: forces.
//
// The stack holds cells to be opened. Of the children of such a cell, those that are far enough
// away, and all bodies, are summed at once in the order of octants. The others go to the stack,
// which therefore never holds more than seven cells of a level, or eight of the last level.
//
// WALK: each step keeps those before it. mod.rs defines the names (`WarpWalk`).
//   WALK_ALONE         Each thread walks for its own body.
//   WALK_ONE_READER    The lanes of a warp walk together and open a cell if at least one of them
//                      has to. Lane 0 reads each node for all of them. A flag in SHARED memory
//                      shows whether a lane has to open a cell.
//   WALK_CACHED        When a cell is opened, eight lanes read its children to SHARED memory at
//                      once.
//   WALK_SHARED_STACK  A warp has one stack in SHARED memory instead of one per thread.
//   WALK_VOTE          A vote of the warp replaces the flag.
//
// The steps from WALK_ONE_READER on visit the same nodes, so they give the same bits.

#define STACK_SIZE (8 * LEVELS)

// Bodies closer than the square root of this, in scaled units, count as being at one position. They
// exert no force on one another.
#define MIN_DISTANCE2 1e-24f

// Numbers that a block writes to `totals`: body terms, cell terms, and the most terms of one body.
#define TOTALS 3

// The tree, as `nodes.cu` and `cells.cu` describe it.
typedef struct {
    GLOBAL const float4* node;
    GLOBAL const uint* child;
    GLOBAL const float* opening2;
    uint n;
} Tree;

// A thread's body.
typedef struct {
    float x, y, z, eps2;
    uint body;
} Target;

typedef struct {
    float x, y, z;
    uint body_terms, cell_terms;
} Sums;

// Adds the attraction of a body or of a cell that is far enough away.
FUNCTION void add_node(Sums* sums, float4 source, const Target* target, float dx, float dy, float dz,
    float r2)
{
    const float softened_r2 = r2 + target->eps2, inv_r = RSQRT_APPROX(softened_r2);
    const float weight = softened_r2 < MIN_DISTANCE2 ? 0.0f : (source.w * inv_r) * (inv_r * inv_r);
    sums->x = FMA(weight, dx, sums->x);
    sums->y = FMA(weight, dy, sums->y);
    sums->z = FMA(weight, dz, sums->z);
}

// Adds the term of an accepted node and counts it.
FUNCTION void add_accepted(
    Sums* sums, int node, float4 source, const Target* target, uint n, float dx, float dy, float dz, float r2)
{
    add_node(sums, source, target, dx, dy, dz, r2);
    sums->body_terms += node < (int)n && (uint)node != target->body;
    sums->cell_terms += node >= (int)n;
}

#if WALK != WALK_ALONE

// Memory of a warp: the children of the cell that it opens, EMPTY after the last one. With
// WALK_ONE_READER, only the first element is used, for the child that is at hand.
typedef struct {
    float4 nodes[8];
    float limit2[8];
    int children[8];
    uint is_near;
} OpenedCell;

// Reads child `k` of a cell to element `slot`.
FUNCTION void read_child(uint cell, int k, const Tree* tree, SHARED_POINTER OpenedCell* opened, int slot)
{
    const int child_node = (int)tree->child[8 * (size_t)cell + k];
    opened->children[slot] = child_node;
    if (child_node >= 0) {
        opened->nodes[slot] = tree->node[child_node];
        opened->limit2[slot] = child_node < (int)tree->n ? -1.0f : tree->opening2[(uint)child_node - tree->n];
    }
}

// Returns whether the condition is true in any lane. `scratch` has one uint per thread.
FUNCTION int any_lane(int condition, SHARED_POINTER OpenedCell* opened, SHARED_POINTER uint* scratch)
{
#if WALK == WALK_VOTE
    return ANY(condition, scratch);
#else
    if (LANE == 0)
        opened->is_near = 0;
    WARP_BARRIER();
    if (condition)
        opened->is_near = 1;
    WARP_BARRIER();
    return opened->is_near != 0;
#endif
}

#if WALK == WALK_ONE_READER
#define SLOT(k) 0
#else
#define SLOT(k) (k)
#endif

#if WALK >= WALK_SHARED_STACK
#define STACK_POINTER SHARED_POINTER uint*
#define IS_WRITER (LANE == 0)
#else
#define STACK_POINTER uint*
#define IS_WRITER 1
#endif

// Opens a cell for all lanes of a warp.
FUNCTION void open_cell(uint cell, const Tree* tree, const Target* target, Sums* sums, STACK_POINTER stack,
    int* top, SHARED_POINTER OpenedCell* opened, SHARED_POINTER uint* scratch)
{
#if WALK >= WALK_CACHED
    if (LANE < 8)
        read_child(cell, LANE, tree, opened, LANE);
    WARP_BARRIER();
#endif
    int child_node = 0;
    for (int k = 0; k < 8 && child_node >= 0; k++) {
#if WALK == WALK_ONE_READER
        if (LANE == 0)
            read_child(cell, k, tree, opened, 0);
        WARP_BARRIER();
#endif
        child_node = opened->children[SLOT(k)];
        if (child_node >= 0) {
            const float4 source = opened->nodes[SLOT(k)];
            const float limit2 = opened->limit2[SLOT(k)];
            const float dx = source.x - target->x, dy = source.y - target->y, dz = source.z - target->z;
            const float r2 = FMA(dx, dx, FMA(dy, dy, dz * dz));
            // NaN counts as far: it makes the sum NaN, and the walk still ends.
            if (any_lane(r2 <= limit2, opened, scratch)) {
                if (IS_WRITER)
                    stack[*top] = (uint)child_node - tree->n;
                *top += 1;
            } else {
                add_accepted(sums, child_node, source, target, tree->n, dx, dy, dz, r2);
            }
        }
#if WALK < WALK_VOTE
        WARP_BARRIER(); // before the next child uses the flag
#endif
    }
    WARP_BARRIER(); // before the next cell uses the memory of the warp
}

#endif

// Adds the terms of a body to the counts of this thread. `counts` has three numbers per thread, in
// SHARED memory because registers are scarce: body terms, cell terms, and the most terms of a body.
FUNCTION void count_terms(const Sums* sums, SHARED_POINTER ulong* counts)
{
    const ulong terms = sums->body_terms + sums->cell_terms;
    counts[THREAD] += sums->body_terms;
    counts[BLOCK_SIZE + THREAD] += sums->cell_terms;
    if (terms > counts[2 * BLOCK_SIZE + THREAD])
        counts[2 * BLOCK_SIZE + THREAD] = terms;
}

// Writes the counts of the block.
FUNCTION void write_totals(SHARED_POINTER const ulong* counts, GLOBAL ulong* RESTRICT totals)
{
    BARRIER();
    if (THREAD != 0)
        return;
    ulong body_terms = 0, cell_terms = 0, most_terms = 0;
    for (int thread = 0; thread < BLOCK_SIZE; thread++) {
        const ulong most = counts[2 * BLOCK_SIZE + thread];
        body_terms += counts[thread];
        cell_terms += counts[BLOCK_SIZE + thread];
        most_terms = most > most_terms ? most : most_terms;
    }
    totals[(size_t)BLOCK_INDEX * TOTALS] = body_terms;
    totals[(size_t)BLOCK_INDEX * TOTALS + 1] = cell_terms;
    totals[(size_t)BLOCK_INDEX * TOTALS + 2] = most_terms;
}

// Bodies are assigned to blocks in turns of BLOCK_SIZE. With at most 32 registers, an SM of 2,048
// threads is full.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, 2048 / BLOCK_SIZE)
walk(GLOBAL const uint* RESTRICT order, GLOBAL const float4* RESTRICT node,
    GLOBAL const float* RESTRICT opening2, GLOBAL const uint* RESTRICT child,
    GLOBAL const double* RESTRICT frame, uint n, GLOBAL ulong* RESTRICT totals, GLOBAL double* RESTRICT ax,
    GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    SHARED ulong counts[TOTALS * BLOCK_SIZE];
    const Tree tree = { node, child, opening2, n };
    const uint root = n - 1;
#if WALK != WALK_ALONE
    SHARED OpenedCell opened_cells[BLOCK_SIZE / WARP_SIZE];
    SHARED uint scratch[BLOCK_SIZE];
    SHARED_POINTER OpenedCell* opened = &opened_cells[THREAD / WARP_SIZE];
#endif
#if WALK >= WALK_SHARED_STACK
    SHARED uint stacks[BLOCK_SIZE / WARP_SIZE][STACK_SIZE];
    SHARED_POINTER uint* stack = stacks[THREAD / WARP_SIZE];
#else
    uint stack[STACK_SIZE];
#endif
    for (int field = 0; field < TOTALS; field++)
        counts[field * BLOCK_SIZE + THREAD] = 0;
    for (uint first = BLOCK_INDEX * BLOCK_SIZE; first < n; first += BLOCK_COUNT * BLOCK_SIZE) {
        const uint thread = first + THREAD;
        // Threads past the last body repeat it, so that they vote as it does.
        const uint position = thread < n ? thread : n - 1;
#if SORTED
        const uint body = order[position];
#else
        const uint body = position;
#endif
        const float4 own = node[body];
        const Target target = { own.x, own.y, own.z, (float)frame[FRAME_EPS2], body };
        Sums sums = { 0.0f, 0.0f, 0.0f, 0, 0 };
        int top = 1;
#if WALK == WALK_ALONE
        stack[0] = root;
        while (top > 0) {
            top -= 1;
            const size_t first_child = 8 * (size_t)stack[top];
            for (int k = 0; k < 8; k++) {
                const int child_node = (int)child[first_child + k];
                if (child_node < 0)
                    break;
                const float4 source = node[child_node];
                const float limit2 = child_node < (int)n ? -1.0f : opening2[(uint)child_node - n];
                const float dx = source.x - target.x, dy = source.y - target.y, dz = source.z - target.z;
                const float r2 = FMA(dx, dx, FMA(dy, dy, dz * dz));
                // NaN counts as far: it makes the sum NaN, and the walk still ends.
                if (r2 <= limit2) {
                    stack[top] = (uint)child_node - n;
                    top += 1;
                } else {
                    add_accepted(&sums, child_node, source, &target, n, dx, dy, dz, r2);
                }
            }
        }
#else
        if (IS_WRITER)
            stack[0] = root;
        WARP_BARRIER();
        while (top > 0) {
            top -= 1;
            open_cell(stack[top], &tree, &target, &sums, stack, &top, opened, scratch);
        }
#endif
        if (thread < n) {
            ax[body] = frame[FRAME_ACCELERATION_UNIT] * (double)sums.x;
            ay[body] = frame[FRAME_ACCELERATION_UNIT] * (double)sums.y;
            az[body] = frame[FRAME_ACCELERATION_UNIT] * (double)sums.z;
            count_terms(&sums, counts);
        }
    }
    write_totals(counts, totals);
}
