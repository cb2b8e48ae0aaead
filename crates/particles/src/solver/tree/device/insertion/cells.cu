// Kernels 3 and 4: sums over cells, and bodies in the order of the tree.
//
//   opening2[c]       squared opening distance, (l / theta + δ)², with side l and distance δ of the
//                     centre of mass from the geometric centre. A body nearer to the centre of mass
//                     must open the cell. Negative if no body ever has to
//   body_count[c]     bodies in the cell (this array contained the representatives before)
//   bodies_before[c]  bodies in the siblings in earlier octants
//
// Both kernels work without waiting. Bottom-up, the thread that finishes the last child of a cell
// continues with the cell. Burtscher & Pingali let threads poll for a mass that is not ready.
// Polling requires that every child has a higher number than its parent (here later cells split
// edges). It also requires that threads make progress while others of their block spin (OpenCL on a
// CPU runs the threads of a block one after the other). Top-down, each cell computes where its
// bodies start by a sum over the path to the root.

FUNCTION float load_float(GLOBAL const uint* address)
{
    return UINT_AS_FLOAT(LOAD_U32(address));
}

// Returns the middle, in grid steps, of the interval of coordinates that share their first `level`
// bits with `coordinate`.
FUNCTION double interval_middle(uint coordinate, uint level)
{
    const uint prefix = level >= GRID_LEVELS ? 0xffffffffu : ~(0xffffffffu >> level);
    return (double)(coordinate & prefix) + ldexp(0.5, (int)(level >= GRID_LEVELS ? 0 : GRID_LEVELS - level));
}

// Writes the sums of a cell: its centre of mass, mass, opening distance and number of bodies. `own`
// is its node.
FUNCTION void write_cell(GLOBAL const double* RESTRICT frame, double theta, GLOBAL uint* own, uint level,
    const double* centre, const float* centre_of_mass, double mass, int is_point, GLOBAL float* opening2)
{
    double offset2 = 0.0, max_coordinate = 0.0;
    for (int axis = 0; axis < 3; axis++) {
        const double offset = (double)centre_of_mass[axis] - centre[axis];
        offset2 += offset * offset;
        max_coordinate = MAX64(max_coordinate, fabs(centre[axis]));
    }
    // Positions are rounded to f32, 2^-24 of their size. The last term keeps a body inside its own
    // cell.
    const int halvings = (int)(level < GRID_LEVELS ? level : GRID_LEVELS);
    const double side = ldexp(frame[FRAME_SIDE] * frame[FRAME_LENGTH_SCALE], -halvings);
    const double opening_distance = side / theta + SQRT64(offset2) + 4e-7 * max_coordinate;
    *opening2 = is_point ? -1.0f : (float)(opening_distance * opening_distance);
    for (int axis = 0; axis < 3; axis++)
        own[axis] = FLOAT_AS_UINT(centre_of_mass[axis]);
    own[3] = FLOAT_AS_UINT((float)mass);
}

// Sums one cell. Children are added in the order of octants, so the sum has one order. It is in
// f64, so only the result is rounded. Children move to the front of the cell's eight slots.
FUNCTION void sum_cell(GLOBAL const double* RESTRICT frame, double theta, uint n, uint cell,
    GLOBAL uint* node, GLOBAL uint* child, GLOBAL uint* body_count, GLOBAL uint* bodies_before,
    GLOBAL float* opening2)
{
    GLOBAL uint* own = node + 4 * ((size_t)n + cell);
    const uint level = own[3];
    double centre[3];
    for (int axis = 0; axis < 3; axis++)
        centre[axis] = (frame[FRAME_CORNER + axis] - frame[FRAME_ORIGIN + axis]
                           + frame[FRAME_SIDE] * ldexp(interval_middle(own[axis], level), -GRID_LEVELS))
            * frame[FRAME_LENGTH_SCALE];

    double mass = 0.0, moment[3] = { 0.0, 0.0, 0.0 };
    float first[3] = { 0.0f, 0.0f, 0.0f }; // position of the first child
    int is_point = 1;                      // all bodies are at one position
    uint bodies = 0, children = 0;
    for (uint octant = 0; octant < 8; octant++) {
        const int child_node = (int)child[8 * (size_t)cell + octant];
        if (child_node >= 0) {
            // Another block may just have summed the child, so the loads bypass L1.
            GLOBAL const uint* from = node + 4 * (size_t)child_node;
            const float position[3] = { load_float(from), load_float(from + 1), load_float(from + 2) };
            const double child_mass = (double)load_float(from + 3);
            for (int axis = 0; axis < 3; axis++) {
                if (children == 0)
                    first[axis] = position[axis];
                is_point = is_point && position[axis] == first[axis];
                moment[axis] += child_mass * (double)position[axis];
            }
            mass += child_mass;
            if (child_node >= (int)n) {
                const uint child_cell = (uint)child_node - n;
                is_point = is_point && load_float((GLOBAL const uint*)opening2 + child_cell) < 0.0f;
                bodies_before[child_cell] = bodies;
                bodies += LOAD_U32(body_count + child_cell);
            } else {
                bodies += 1;
            }
            if (children != octant) {
                child[8 * (size_t)cell + children] = (uint)child_node;
                child[8 * (size_t)cell + octant] = (uint)EMPTY;
            }
            children += 1;
        }
    }

    // Bodies at one position act as one body on all others and not on one another. Massless bodies
    // act on none.
    is_point = is_point || !(mass > 0.0);
    float centre_of_mass[3];
    for (int axis = 0; axis < 3; axis++)
        centre_of_mass[axis] = is_point ? first[axis] : (float)(moment[axis] / mass);
    body_count[cell] = bodies;
    write_cell(frame, theta, own, level, centre, centre_of_mass, mass, is_point, opening2 + cell);
}

// Kernel 3. Threads start from the last cell, because most cells without child cells have high
// numbers.
KERNEL(BLOCK_SIZE)
sum_cells(GLOBAL const double* RESTRICT frame, double theta, uint n, GLOBAL uint* node, GLOBAL uint* child,
    GLOBAL const uint* RESTRICT parent, GLOBAL const uint* RESTRICT child_cells, GLOBAL uint* summed_children,
    GLOBAL uint* body_count, GLOBAL uint* bodies_before, GLOBAL float* opening2,
    GLOBAL const uint* RESTRICT cell_count)
{
    const uint cells = *cell_count;
    for (uint k = BLOCK_INDEX * BLOCK_SIZE + THREAD; k < cells; k += BLOCK_COUNT * BLOCK_SIZE) {
        uint cell = cells - 1 - k;
        int is_ready = child_cells[cell] == 0;
        while (is_ready) {
            sum_cell(frame, theta, n, cell, node, child, body_count, bodies_before, opening2);
            is_ready = 0;
            if (cell != 0) {
                cell = parent[cell];
                DEVICE_FENCE();
                is_ready = ATOMIC_ADD_U32(summed_children + cell, 1) + 1 == child_cells[cell];
                DEVICE_FENCE();
            }
        }
    }
}

// Kernel 4. Writes the indices of the bodies in the order of the tree.
KERNEL(BLOCK_SIZE)
order_bodies(uint n, GLOBAL const uint* RESTRICT child, GLOBAL const uint* RESTRICT parent,
    GLOBAL const uint* RESTRICT body_count, GLOBAL const uint* RESTRICT bodies_before,
    GLOBAL uint* RESTRICT order, GLOBAL const uint* RESTRICT cell_count)
{
    const uint cells = *cell_count;
    for (uint cell = BLOCK_INDEX * BLOCK_SIZE + THREAD; cell < cells; cell += BLOCK_COUNT * BLOCK_SIZE) {
        uint position = 0;
        for (uint ancestor = cell; ancestor != 0; ancestor = parent[ancestor])
            position += bodies_before[ancestor];
        for (uint k = 0; k < 8; k++) {
            const int child_node = (int)child[8 * (size_t)cell + k];
            if (child_node >= (int)n)
                position += body_count[(uint)child_node - n];
            else if (child_node >= 0)
                order[position++] = (uint)child_node;
        }
    }
}
