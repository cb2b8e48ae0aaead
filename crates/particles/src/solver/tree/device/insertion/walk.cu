// Kernel 5: the forces, and with them what is left of kernel 6: accelerations in the user's units.
//
// A cell on the stack is one to be opened. Of its children those that are far enough away, bodies among them, are summed
// at once, in the order of octants; the others go on the stack, which so never holds more than seven of a level but
// the last, where it may be eight.
//
// VOTE: the lanes of a warp walk together, with one stack in SHARED memory; its first lanes read the children for all,
// and a cell is opened as soon as one lane must. Without: every thread for itself.

#define STACK (8 * LEVELS)

// Bodies nearer than this in the frame's units are at one place, and pull one another nowhere.
#define NEAREST2 1e-24f

// Body and cell terms of this group: all of either kind, and the most of one body.
#define TOTALS 3

KERNEL(WALKERS)
walk(GLOBAL const uint* RESTRICT order, GLOBAL const float4* RESTRICT node, GLOBAL const float* RESTRICT near2,
    GLOBAL const uint* RESTRICT child, GLOBAL const double* RESTRICT frame, uint n, GLOBAL ulong* RESTRICT totals,
    GLOBAL double* RESTRICT ax, GLOBAL double* RESTRICT ay, GLOBAL double* RESTRICT az)
{
    SHARED uint body_terms[WALKERS];
    SHARED uint cell_terms[WALKERS];
    const uint turn = BLOCK_INDEX * WALKERS + THREAD;
    // Past the last body, the last one once more: it votes as it did.
    const uint mine = turn < n ? turn : n - 1;
#if SORTED
    const uint i = order[mine];
#else
    const uint i = mine;
#endif
    const float4 p = node[i];
    const float eps2 = (float)frame[FRAME_EPS2];
    float sx = 0.0f, sy = 0.0f, sz = 0.0f;
    uint bodies = 0, cells = 0;
    int top = 1;
#if VOTE
    SHARED uint stacks[WALKERS / WARP_SIZE][STACK];
    SHARED float4 read_nodes[WALKERS / WARP_SIZE][8];
    SHARED float read_near2[WALKERS / WARP_SIZE][8];
    SHARED int read_children[WALKERS / WARP_SIZE][8];
    SHARED uint scratch[WALKERS];
    const int warp = THREAD / WARP_SIZE;
    if (LANE == 0)
        stacks[warp][0] = 0;
    WARP_BARRIER();
#else
    uint stack[STACK];
    stack[0] = 0;
#endif
    while (top > 0) {
        top -= 1;
#if VOTE
        const size_t first = 8 * (size_t)stacks[warp][top];
        int there = NOTHING;
        if (LANE < 8) {
            there = (int)child[first + LANE];
            if (there >= 0) {
                read_children[warp][LANE] = there;
                read_nodes[warp][LANE] = node[there];
                read_near2[warp][LANE] = there < (int)n ? -1.0f : near2[(uint)there - n];
            }
        }
        const int children = POPCOUNT(BALLOT(there >= 0, scratch));
        WARP_BARRIER();
        for (int k = 0; k < children; k++) {
            const int who = read_children[warp][k];
            const float4 q = read_nodes[warp][k];
            const float limit2 = read_near2[warp][k];
#else
        const size_t first = 8 * (size_t)stack[top];
        for (int k = 0; k < 8; k++) {
            const int who = (int)child[first + k];
            if (who < 0)
                break;
            const float4 q = node[who];
            const float limit2 = who < (int)n ? -1.0f : near2[(uint)who - n];
#endif
            const float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
            const float r2 = FMA(dx, dx, FMA(dy, dy, dz * dz));
            // What is no number is not near: it spoils the sum, not the walk.
#if VOTE
            const int is_near = BALLOT(r2 <= limit2, scratch) != 0;
#else
            const int is_near = r2 <= limit2;
#endif
            if (is_near) {
#if VOTE
                if (LANE == 0)
                    stacks[warp][top] = (uint)who - n;
#else
                stack[top] = (uint)who - n;
#endif
                top += 1;
            } else {
                const float rho2 = r2 + eps2, root = RSQRT_APPROX(rho2);
                const float w = rho2 < NEAREST2 ? 0.0f : (q.w * root) * (root * root);
                sx = FMA(w, dx, sx);
                sy = FMA(w, dy, sy);
                sz = FMA(w, dz, sz);
                bodies += who < (int)n && (uint)who != i;
                cells += who >= (int)n;
            }
        }
#if VOTE
        WARP_BARRIER();
#endif
    }
    if (turn < n) {
        ax[i] = frame[FRAME_ACCELERATION_UNIT] * (double)sx;
        ay[i] = frame[FRAME_ACCELERATION_UNIT] * (double)sy;
        az[i] = frame[FRAME_ACCELERATION_UNIT] * (double)sz;
    }
    body_terms[THREAD] = turn < n ? bodies : 0;
    cell_terms[THREAD] = turn < n ? cells : 0;
    BARRIER();
    if (THREAD == 0) {
        ulong of_bodies = 0, of_cells = 0, most = 0;
        for (int t = 0; t < WALKERS; t++) {
            const ulong both = (ulong)body_terms[t] + cell_terms[t];
            of_bodies += body_terms[t];
            of_cells += cell_terms[t];
            most = both > most ? both : most;
        }
        totals[(size_t)BLOCK_INDEX * TOTALS] = of_bodies;
        totals[(size_t)BLOCK_INDEX * TOTALS + 1] = of_cells;
        totals[(size_t)BLOCK_INDEX * TOTALS + 2] = most;
    }
}
