// Kernel 5: forces. It also does the part of kernel 6 that is left here: accelerations in the
// user's units.
//
// The stack holds cells to be opened. Of the children of such a cell, those that are far enough
// away, and all bodies, are summed at once in the order of octants. The others go to the stack,
// which therefore never holds more than seven cells of a level, or eight of the last level.
//
// VOTE 1: the lanes of a warp walk together with one stack in SHARED memory. The first eight lanes
// read the children for all lanes, and a cell is opened if at least one lane has to. VOTE 0: each
// thread walks alone.

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

#if VOTE
// Children of the cell that a warp is opening.
typedef struct {
    float4 nodes[8];
    float limit2[8];
    int children[8];
} OpenedCell;

// Opens a cell for all lanes of a warp. The first eight lanes read its children.
FUNCTION void open_cell(uint cell, const Tree* tree, const Target* target, Sums* sums,
    SHARED_POINTER uint* stack, int* top, SHARED_POINTER OpenedCell* opened, SHARED_POINTER uint* scratch)
{
    const size_t first = 8 * (size_t)cell;
    int read_child = EMPTY;
    if (LANE < 8) {
        read_child = (int)tree->child[first + LANE];
        if (read_child >= 0) {
            opened->children[LANE] = read_child;
            opened->nodes[LANE] = tree->node[read_child];
            opened->limit2[LANE] =
                read_child < (int)tree->n ? -1.0f : tree->opening2[(uint)read_child - tree->n];
        }
    }
    const int child_count = POPCOUNT(BALLOT(read_child >= 0, scratch));
    WARP_BARRIER();
    for (int k = 0; k < child_count; k++) {
        const int child_node = opened->children[k];
        const float4 source = opened->nodes[k];
        const float limit2 = opened->limit2[k];
        const float dx = source.x - target->x, dy = source.y - target->y, dz = source.z - target->z;
        const float r2 = FMA(dx, dx, FMA(dy, dy, dz * dz));
        // NaN counts as far: it makes the sum NaN, and the walk still ends.
        const int is_near = BALLOT(r2 <= limit2, scratch) != 0;
        if (is_near) {
            if (LANE == 0)
                stack[*top] = (uint)child_node - tree->n;
            *top += 1;
        } else {
            add_node(sums, source, target, dx, dy, dz, r2);
            sums->body_terms += child_node < (int)tree->n && (uint)child_node != target->body;
            sums->cell_terms += child_node >= (int)tree->n;
        }
    }
    WARP_BARRIER();
}
#endif

// Sums the numbers of terms over the block. `body_terms` and `cell_terms` are SHARED scratch
// memory.
FUNCTION void write_totals(uint own_body_terms, uint own_cell_terms, SHARED_POINTER uint* body_terms,
    SHARED_POINTER uint* cell_terms, GLOBAL ulong* RESTRICT totals)
{
    body_terms[THREAD] = own_body_terms;
    cell_terms[THREAD] = own_cell_terms;
    BARRIER();
    if (THREAD != 0)
        return;
    ulong all_body_terms = 0, all_cell_terms = 0, max_terms = 0;
    for (int thread = 0; thread < BLOCK_SIZE; thread++) {
        const ulong terms = (ulong)body_terms[thread] + cell_terms[thread];
        all_body_terms += body_terms[thread];
        all_cell_terms += cell_terms[thread];
        max_terms = terms > max_terms ? terms : max_terms;
    }
    totals[(size_t)BLOCK_INDEX * TOTALS] = all_body_terms;
    totals[(size_t)BLOCK_INDEX * TOTALS + 1] = all_cell_terms;
    totals[(size_t)BLOCK_INDEX * TOTALS + 2] = max_terms;
}

KERNEL(BLOCK_SIZE)
walk(GLOBAL const uint* RESTRICT order, GLOBAL const float4* RESTRICT node,
    GLOBAL const float* RESTRICT opening2, GLOBAL const uint* RESTRICT child,
    GLOBAL const double* RESTRICT frame, uint n, GLOBAL ulong* RESTRICT totals, GLOBAL double* RESTRICT ax,
    GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    SHARED uint body_terms[BLOCK_SIZE];
    SHARED uint cell_terms[BLOCK_SIZE];
    const uint thread = BLOCK_INDEX * BLOCK_SIZE + THREAD;
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
#if VOTE
    const Tree tree = { node, child, opening2, n };
    SHARED uint stacks[BLOCK_SIZE / WARP_SIZE][STACK_SIZE];
    SHARED OpenedCell opened_cells[BLOCK_SIZE / WARP_SIZE];
    SHARED uint scratch[BLOCK_SIZE];
    const int warp = THREAD / WARP_SIZE;
    if (LANE == 0)
        stacks[warp][0] = 0;
    WARP_BARRIER();
    while (top > 0) {
        top -= 1;
        open_cell(stacks[warp][top], &tree, &target, &sums, stacks[warp], &top, &opened_cells[warp], scratch);
    }
#else
    // Not a function: that costs 32 instead of 31 registers and, with SORTED, 8 more instructions
    // (NVRTC 13.0, sm_90).
    uint stack[STACK_SIZE];
    stack[0] = 0;
    while (top > 0) {
        top -= 1;
        const size_t first = 8 * (size_t)stack[top];
        for (int k = 0; k < 8; k++) {
            const int child_node = (int)child[first + k];
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
                add_node(&sums, source, &target, dx, dy, dz, r2);
                sums.body_terms += child_node < (int)n && (uint)child_node != body;
                sums.cell_terms += child_node >= (int)n;
            }
        }
    }
#endif
    if (thread < n) {
        ax[body] = frame[FRAME_ACCELERATION_UNIT] * (double)sums.x;
        ay[body] = frame[FRAME_ACCELERATION_UNIT] * (double)sums.y;
        az[body] = frame[FRAME_ACCELERATION_UNIT] * (double)sums.z;
    }
    write_totals(
        thread < n ? sums.body_terms : 0, thread < n ? sums.cell_terms : 0, body_terms, cell_terms, totals);
}
