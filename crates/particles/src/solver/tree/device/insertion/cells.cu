// Kernels 3 and 4: what a cell weighs and where its bodies stand in the order of the tree.
//
//   near2[c]    a body nearer to the cell's centre of mass than the root of this must open it: (l / theta + δ)², δ the
//               distance of the centre of mass from the cell's centre. Negative where nobody need ever open it
//   count[c]    bodies in the cell (the array was `witness` until now)
//   before[c]   bodies in the siblings in octants before
//
// Bottom-up, nobody waits: the thread that brings the last of a cell's children goes on with the cell. The document has
// threads poll for a mass that is not there yet; that needs every child to have been numbered after its parent (here
// edges are cut by later cells) and threads that go on while others of their group spin (a processor's OpenCL runs
// them one after the other). Top-down likewise: a cell that wants its start adds up the way to the root.

FUNCTION float of_bits(GLOBAL const uint* word)
{
    return UINT_AS_FLOAT(LOAD_U32(word));
}

// The middle of the grid's cells that share `level` bits with this coordinate, in steps.
FUNCTION double middle(uint coordinate, uint level)
{
    const uint prefix = level >= GRID_LEVELS ? 0xffffffffu : ~(0xffffffffu >> level);
    return (double)(coordinate & prefix) + ldexp(0.5, (int)(level >= GRID_LEVELS ? 0 : GRID_LEVELS - level));
}

// Children in the order of octants, so that the sum has one order; in f64, so that only its result is rounded.
FUNCTION void sum_cell(GLOBAL const double* RESTRICT frame, double theta, uint n, uint c, GLOBAL uint* node,
    GLOBAL uint* child, GLOBAL uint* count, GLOBAL uint* before, GLOBAL float* near2)
{
    GLOBAL uint* own = node + 4 * ((size_t)n + c);
    const uint level = own[3];
    double centre[3];
    for (int a = 0; a < 3; a++)
        centre[a] = (frame[CORNER + a] - frame[FRAME_ORIGIN + a] + frame[SIDE] * ldexp(middle(own[a], level), -GRID_LEVELS)) * frame[FRAME_LENGTH_SCALE];

    double mass = 0.0, moment[3] = { 0.0, 0.0, 0.0 };
    float first[3] = { 0.0f, 0.0f, 0.0f };
    int is_point = 1;
    uint bodies = 0, children = 0;
    for (uint k = 0; k < 8; k++) {
        const int there = (int)child[8 * (size_t)c + k];
        if (there >= 0) {
            // Another group may just have summed it: LOAD goes past the caches.
            GLOBAL const uint* from = node + 4 * (size_t)there;
            const float p[3] = { of_bits(from), of_bits(from + 1), of_bits(from + 2) };
            const double m = (double)of_bits(from + 3);
            for (int a = 0; a < 3; a++) {
                if (children == 0)
                    first[a] = p[a];
                is_point = is_point && p[a] == first[a];
                moment[a] += m * (double)p[a];
            }
            mass += m;
            if (there >= (int)n) {
                const uint cell = (uint)there - n;
                is_point = is_point && of_bits((GLOBAL const uint*)near2 + cell) < 0.0f;
                before[cell] = bodies;
                bodies += LOAD_U32(count + cell);
            } else {
                bodies += 1;
            }
            if (children != k) {
                child[8 * (size_t)c + children] = (uint)there;
                child[8 * (size_t)c + k] = (uint)NOTHING;
            }
            children += 1;
        }
    }

    // Bodies at one point act as one on everyone and not at all on one another; massless ones on nobody.
    is_point = is_point || !(mass > 0.0);
    float at[3];
    double offset2 = 0.0, farthest = 0.0;
    for (int a = 0; a < 3; a++) {
        at[a] = is_point ? first[a] : (float)(moment[a] / mass);
        offset2 += ((double)at[a] - centre[a]) * ((double)at[a] - centre[a]);
        farthest = MAX64(farthest, fabs(centre[a]));
    }
    // Places are rounded to f32, 2^-24 of them: a body must not be found outside its own cell.
    const double l = ldexp(frame[SIDE] * frame[FRAME_LENGTH_SCALE], -(int)(level < GRID_LEVELS ? level : GRID_LEVELS));
    const double near = l / theta + SQRT64(offset2) + 4e-7 * farthest;
    near2[c] = is_point ? -1.0f : (float)(near * near);
    count[c] = bodies;
    for (int a = 0; a < 3; a++)
        own[a] = FLOAT_AS_UINT(at[a]);
    own[3] = FLOAT_AS_UINT((float)mass);
}

// From the last cell, where most that await no other are, to the first.
KERNEL(BLOCK_SIZE)
moments(GLOBAL const double* RESTRICT frame, double theta, uint n, GLOBAL uint* node, GLOBAL uint* child,
    GLOBAL const uint* RESTRICT parent, GLOBAL const uint* RESTRICT awaited, GLOBAL uint* arrived, GLOBAL uint* count,
    GLOBAL uint* before, GLOBAL float* near2, GLOBAL const uint* RESTRICT cells)
{
    const uint all = *cells;
    for (uint k = BLOCK_INDEX * BLOCK_SIZE + THREAD; k < all; k += BLOCK_COUNT * BLOCK_SIZE) {
        uint c = all - 1 - k;
        int is_ready = awaited[c] == 0;
        while (is_ready) {
            sum_cell(frame, theta, n, c, node, child, count, before, near2);
            is_ready = 0;
            if (c != 0) {
                c = parent[c];
                FENCE();
                is_ready = ATOMIC_ADD_U32(arrived + c, 1) + 1 == awaited[c];
                FENCE();
            }
        }
    }
}

KERNEL(BLOCK_SIZE)
arrange(uint n, GLOBAL const uint* RESTRICT child, GLOBAL const uint* RESTRICT parent,
    GLOBAL const uint* RESTRICT count, GLOBAL const uint* RESTRICT before, GLOBAL uint* RESTRICT order,
    GLOBAL const uint* RESTRICT cells)
{
    const uint all = *cells;
    for (uint c = BLOCK_INDEX * BLOCK_SIZE + THREAD; c < all; c += BLOCK_COUNT * BLOCK_SIZE) {
        uint start = 0;
        for (uint a = c; a != 0; a = parent[a])
            start += before[a];
        for (uint k = 0; k < 8; k++) {
            const int there = (int)child[8 * (size_t)c + k];
            if (there >= (int)n)
                start += count[(uint)there - n];
            else if (there >= 0)
                order[start++] = (uint)there;
        }
    }
}
