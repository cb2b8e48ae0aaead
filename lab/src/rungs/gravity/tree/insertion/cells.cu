// Kernels 3 and 4: sums over cells, and bodies in the order of the tree.
//
//   opening2[c]    squared opening distance, (l / theta + δ)², with side l and distance δ of the
//                  centre of mass from the geometric centre. A body nearer to the centre of mass
//                  must open the cell. Negative if no body ever has to
//   body_count[c]  bodies in the cell (this array contained the representatives before)
//   start[c]       WAITING: position of the first body of the cell in the order, EMPTY until the
//                  cell above has written it, ORDERED when the bodies of the cell are in the order.
//                  Otherwise: number of bodies in the siblings in earlier octants
//
// WAITING: how threads treat cells whose children (kernel 3) or parent (kernel 4) are not finished.
// mod.rs defines the names (`Waiting`).
//   POLL_ALL      They poll all children of the cell until all are summed.
//   POLL_MISSING  They note the missing children in shared memory and poll only these.
//   NO_WAITING    Bottom-up, the thread that finishes the last child of a cell continues with the
//                 cell. Top-down, each cell adds up where its bodies start on the path to the root.
//
// Kernel 4 polls its own cell, so the first two differ only in kernel 3. A thread polls a cell at
// most MAX_POLLS times and then continues with its next cell. Of the cells that are left, at least
// one has no unfinished cell below it (kernel 3) or above it (kernel 4), and its thread comes to
// it. So no thread waits for ever, whatever the numbers of the cells, if all blocks run at the same
// time: the launches are cooperative. On OpenCL, the threads of a block may run one after the
// other. There is one block, and all its threads poll once before any thread polls again.

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
    const double side = ldexp(frame[FRAME_SIDE], -halvings);
    const double opening_distance = side / theta + SQRT64(offset2) + 4e-7 * max_coordinate;
    *opening2 = is_point ? -1.0f : (float)(opening_distance * opening_distance);
    for (int axis = 0; axis < 3; axis++)
        own[axis] = FLOAT_AS_UINT(centre_of_mass[axis]);
    own[3] = FLOAT_AS_UINT((float)mass);
}

// Sums one cell. Children are added in the order of octants, so the sum has one order. It is in
// f64, so only the result is rounded. Children move to the front of the cell's eight slots.
FUNCTION void sum_cell(GLOBAL const double* RESTRICT frame, double theta, uint n, uint cell,
    GLOBAL uint* node, GLOBAL uint* child, GLOBAL uint* body_count, GLOBAL uint* start,
    GLOBAL float* opening2)
{
    GLOBAL uint* own = node + 4 * ((size_t)n + cell);
    const uint level = own[3];
    double centre[3];
    for (int axis = 0; axis < 3; axis++)
        centre[axis] = SCALED_COORDINATE(frame, axis, frame[FRAME_CORNER + axis])
            + frame[FRAME_SIDE] * ldexp(interval_middle(own[axis], level), -GRID_LEVELS);

#if WAITING != NO_WAITING
    start[cell] = cell == n - 1 ? 0u : (uint)EMPTY;
#endif
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
#if WAITING == NO_WAITING
                start[child_cell] = bodies;
#endif
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

#if WAITING != NO_WAITING

#define MAX_POLLS 16
#define ORDERED (-2) // the bodies of the cell are in the order

// The threads of a block on OpenCL poll in turns, see above. On CUDA each thread goes on by itself.
#if defined(ON_CUDA)
#define IS_UNFINISHED(condition, flag) (condition)
#else
#define IS_UNFINISHED(condition, flag) BLOCK_ANY(condition, flag)
#endif

// Cells of a thread: `first`, `first` + `stride` and so on, below `count`. `k` is the one it is at,
// `left` are not finished.
typedef struct {
    uint first, stride, count, k, polls, left;
} OwnCells;

FUNCTION OwnCells own_cells(uint count)
{
    OwnCells cells;
    cells.first = cells.k = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    cells.stride = BLOCK_COUNT * BLOCK_SIZE;
    cells.count = count;
    cells.polls = 0;
    cells.left = cells.first < count ? (count - cells.first - 1) / cells.stride + 1 : 0;
    return cells;
}

// Moves on to the next cell, from the last one to the first.
FUNCTION void go_to_next_cell(OwnCells* cells)
{
    cells->k = cells->count - cells->k > cells->stride ? cells->k + cells->stride : cells->first;
    cells->polls = 0;
}

#if WAITING == POLL_ALL

// Returns whether all children of a cell are summed.
FUNCTION int has_summed_children(uint n, uint cell, GLOBAL const uint* child, GLOBAL const uint* finished)
{
    int missing = 0;
    for (uint octant = 0; octant < 8; octant++) {
        const int child_node = (int)LOAD_U32(child + (8 * (size_t)cell + octant));
        if (child_node >= (int)n)
            missing += LOAD_U32(finished + ((uint)child_node - n)) == 0;
    }
    return missing == 0;
}

#else

// Polls the children of a cell that are missing, and returns how many still are. `count` is their
// number after the previous poll. Before the first poll, the children are read and those that are
// cells are noted. Each thread has a column of `missing`, so neighbouring threads use neighbouring
// banks.
//
// (The first loop is empty in later polls, instead of a choice between the two loops, which PoCL
// miscompiles in a loop with barriers: see tiled.cu.)
FUNCTION int poll_missing(uint n, uint cell, int is_first_poll, int count, GLOBAL const uint* child,
    GLOBAL const uint* finished, SHARED_POINTER uint* missing)
{
    const uint unread = is_first_poll ? 8 : 0;
    for (uint octant = 0; octant < unread; octant++) {
        const int child_node = (int)child[8 * (size_t)cell + octant];
        if (child_node >= (int)n) {
            missing[count * BLOCK_SIZE + THREAD] = (uint)child_node - n;
            count += 1;
        }
    }
    while (count > 0 && LOAD_U32(finished + missing[(count - 1) * BLOCK_SIZE + THREAD]) != 0)
        count -= 1;
    return count;
}

#endif

// Kernel 3. Threads start from the newest cells, which have the lowest numbers and mostly no cells
// below them.
KERNEL(BLOCK_SIZE)
sum_cells(GLOBAL const double* RESTRICT frame, double theta, uint n, GLOBAL uint* node, GLOBAL uint* child,
    GLOBAL const uint* RESTRICT parent, GLOBAL const uint* RESTRICT child_cells, GLOBAL uint* finished,
    GLOBAL uint* body_count, GLOBAL uint* start, GLOBAL float* opening2, GLOBAL const uint* RESTRICT cell_count)
{
    SHARED uint flag;
    OwnCells cells = own_cells(*cell_count);
    const uint newest = n - cells.count;
#if WAITING == POLL_MISSING
    SHARED uint missing[8 * BLOCK_SIZE];
    int missing_count = 0;
#endif
    int is_unfinished;
    do {
        if (cells.left > 0) {
            const uint cell = newest + cells.k;
            if (finished[cell] != 0) {
                go_to_next_cell(&cells);
            } else {
#if WAITING == POLL_MISSING
                const int is_first_poll = cells.polls == 0;
                missing_count = poll_missing(
                    n, cell, is_first_poll, is_first_poll ? 0 : missing_count, child, finished, missing);
                const int is_ready = missing_count == 0;
#else
                const int is_ready = has_summed_children(n, cell, child, finished);
#endif
                cells.polls += 1;
                if (is_ready) {
                    DEVICE_FENCE(); // sums of the children, after their flags
                    sum_cell(frame, theta, n, cell, node, child, body_count, start, opening2);
                    DEVICE_FENCE(); // the sum, before its flag
                    STORE_U32(finished + cell, 1);
                    cells.left -= 1;
                }
                if (is_ready || cells.polls == MAX_POLLS)
                    go_to_next_cell(&cells);
            }
        }
        is_unfinished = IS_UNFINISHED(cells.left > 0, &flag);
    } while (is_unfinished);
}

// Writes the bodies of a cell to the order, from `position` on, and the starts of its child cells.
FUNCTION void order_cell(uint n, uint cell, uint position, GLOBAL const uint* RESTRICT child,
    GLOBAL const uint* RESTRICT body_count, GLOBAL uint* start, GLOBAL uint* RESTRICT order)
{
    for (uint k = 0; k < 8; k++) {
        const int child_node = (int)child[8 * (size_t)cell + k];
        if (child_node >= (int)n) {
            STORE_U32(start + ((uint)child_node - n), position);
            position += body_count[(uint)child_node - n];
        } else if (child_node >= 0) {
            order[position++] = (uint)child_node;
        }
    }
}

// Kernel 4. Threads start from the root, which is the oldest cell. A cell waits until the cell
// above has written its start.
KERNEL(BLOCK_SIZE)
order_bodies(uint n, GLOBAL const uint* RESTRICT child, GLOBAL const uint* RESTRICT parent,
    GLOBAL const uint* RESTRICT body_count, GLOBAL uint* start, GLOBAL uint* RESTRICT order,
    GLOBAL const uint* RESTRICT cell_count)
{
    SHARED uint flag;
    OwnCells cells = own_cells(*cell_count);
    int is_unfinished;
    do {
        if (cells.left > 0) {
            const uint cell = n - 1 - cells.k;
            const int position = (int)LOAD_U32(start + cell);
            cells.polls += 1;
            if (position >= 0) {
                order_cell(n, cell, (uint)position, child, body_count, start, order);
                start[cell] = (uint)ORDERED;
                cells.left -= 1;
            }
            if (position != EMPTY || cells.polls == MAX_POLLS)
                go_to_next_cell(&cells);
        }
        is_unfinished = IS_UNFINISHED(cells.left > 0, &flag);
    } while (is_unfinished);
}

#else

// Kernel 3. Threads start from the newest cells, because most of them have no cells below them.
KERNEL(BLOCK_SIZE)
sum_cells(GLOBAL const double* RESTRICT frame, double theta, uint n, GLOBAL uint* node, GLOBAL uint* child,
    GLOBAL const uint* RESTRICT parent, GLOBAL const uint* RESTRICT child_cells, GLOBAL uint* finished,
    GLOBAL uint* body_count, GLOBAL uint* start, GLOBAL float* opening2, GLOBAL const uint* RESTRICT cell_count)
{
    const uint newest = n - *cell_count;
    for (uint own = newest + BLOCK_INDEX * BLOCK_SIZE + THREAD; own < n; own += BLOCK_COUNT * BLOCK_SIZE) {
        uint cell = own;
        int is_ready = child_cells[cell] == 0;
        while (is_ready) {
            sum_cell(frame, theta, n, cell, node, child, body_count, start, opening2);
            is_ready = 0;
            if (cell != n - 1) {
                cell = parent[cell];
                DEVICE_FENCE();
                is_ready = ATOMIC_ADD_U32(finished + cell, 1) + 1 == child_cells[cell];
                DEVICE_FENCE();
            }
        }
    }
}

// Kernel 4. Writes the indices of the bodies in the order of the tree.
KERNEL(BLOCK_SIZE)
order_bodies(uint n, GLOBAL const uint* RESTRICT child, GLOBAL const uint* RESTRICT parent,
    GLOBAL const uint* RESTRICT body_count, GLOBAL uint* start, GLOBAL uint* RESTRICT order,
    GLOBAL const uint* RESTRICT cell_count)
{
    const uint cells = *cell_count;
    for (uint k = BLOCK_INDEX * BLOCK_SIZE + THREAD; k < cells; k += BLOCK_COUNT * BLOCK_SIZE) {
        const uint cell = n - 1 - k;
        uint position = 0;
        for (uint ancestor = cell; ancestor != n - 1; ancestor = parent[ancestor])
            position += start[ancestor];
        for (uint octant = 0; octant < 8; octant++) {
            const int child_node = (int)child[8 * (size_t)cell + octant];
            if (child_node >= (int)n)
                position += body_count[(uint)child_node - n];
            else if (child_node >= 0)
                order[position++] = (uint)child_node;
        }
    }
}

#endif
