// Kernel 2: the octree, built by inserting bodies one by one.

// Position of a body in the tree: its grid coordinates and, among bodies that share them, its
// index.
typedef struct {
    uint x, y, z, i;
} Key;

// `nodes.cu` describes the arrays.
typedef struct {
    GLOBAL uint* node;
    GLOBAL uint* child;
    GLOBAL uint* parent;
    GLOBAL uint* child_cells;
    GLOBAL uint* finished;
    GLOBAL uint* representative;
    GLOBAL uint* cell_count;
} Tree;

// Returns a grid coordinate. NaN becomes 0.
FUNCTION uint grid_coordinate(double steps)
{
    return steps > 0.0 ? steps < 4294967295.0 ? (uint)steps : 0xffffffffu : 0u;
}

FUNCTION Key body_key(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT frame, uint i)
{
    Key key;
    key.x = grid_coordinate((x[i] - frame[FRAME_CORNER]) * frame[FRAME_CELLS_PER_LENGTH]);
    key.y = grid_coordinate((y[i] - frame[FRAME_CORNER + 1]) * frame[FRAME_CELLS_PER_LENGTH]);
    key.z = grid_coordinate((z[i] - frame[FRAME_CORNER + 2]) * frame[FRAME_CELLS_PER_LENGTH]);
    key.i = i;
    return key;
}

// Returns the key and the level of a cell. Another block may just have made the cell, so the loads
// bypass L1. The index of the representative matters only below the grid.
FUNCTION Key cell_key(Tree tree, uint n, uint cell, uint* level)
{
    GLOBAL const uint* header = tree.node + 4 * ((size_t)n + cell);
    Key key;
    key.x = LOAD_U32(header);
    key.y = LOAD_U32(header + 1);
    key.z = LOAD_U32(header + 2);
    *level = LOAD_U32(header + 3);
    key.i = *level > GRID_LEVELS ? LOAD_U32(tree.representative + cell) : 0u;
    return key;
}

// Returns the first level at which the two keys are in different octants.
FUNCTION uint splitting_level(Key a, Key b)
{
    const uint different_bits = (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z);
    if (different_bits != 0)
        return (uint)LEADING_ZEROS_U64((ulong)different_bits) - 32u;
    // Indices have 30 bits, 34 fewer than the 64-bit operand.
    return GRID_LEVELS + ((uint)LEADING_ZEROS_U64((ulong)(a.i ^ b.i)) - 34u) / 3u;
}

FUNCTION uint octant(Key key, uint level)
{
    if (level >= GRID_LEVELS)
        return (key.i >> (27u - 3u * (level - GRID_LEVELS))) & 7u;
    const uint shift = 31u - level;
    return ((key.x >> shift) & 1u) | ((key.y >> shift) & 1u) << 1 | ((key.z >> shift) & 1u) << 2;
}

// Makes a cell below `parent` that contains a body and the node `old_node`, and returns its number.
FUNCTION uint make_cell(Tree tree, uint n, uint parent, Key key, int old_node, Key old_key)
{
    const uint cell = n - 1 - ATOMIC_ADD_U32(tree.cell_count, 1), level = splitting_level(key, old_key);
    GLOBAL uint* header = tree.node + 4 * ((size_t)n + cell);
    header[0] = key.x;
    header[1] = key.y;
    header[2] = key.z;
    header[3] = level;
    tree.representative[cell] = key.i;
    const uint body_octant = octant(key, level), old_octant = octant(old_key, level);
    for (uint k = 0; k < 8; k++)
        tree.child[8 * (size_t)cell + k] =
            k == body_octant ? key.i : k == old_octant ? (uint)old_node : (uint)EMPTY;
    tree.parent[cell] = parent;
    tree.finished[cell] = 0;
    if (old_node < (int)n) {
        tree.child_cells[cell] = 0;
        ATOMIC_ADD_U32(tree.child_cells + parent, 1);
    } else {
        tree.child_cells[cell] = 1;
        tree.parent[(uint)old_node - n] = cell;
    }
    return cell;
}

// Tries once to insert a body, from `cell` downwards, and returns 1 on success. `cell` and `level`
// are set to the deepest cell found that contains the body, where the next attempt starts. A lock
// is held from its compare-and-swap to the last line, without a barrier or a wait in between. A
// thread that finds the slot locked can therefore retry until the lock is released.
FUNCTION int try_insert(Tree tree, GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT frame, uint n, Key key, uint* cell,
    uint* level)
{
    GLOBAL uint* slot;
    int old_node;
    Key old_key = key;
    int is_inside;
    do {
        slot = tree.child + (8 * (size_t)*cell + octant(key, *level));
        old_node = (int)LOAD_U32(slot);
        is_inside = 0;
        if (old_node >= (int)n) {
            uint old_level;
            old_key = cell_key(tree, n, (uint)old_node - n, &old_level);
            if (splitting_level(key, old_key) >= old_level) {
                is_inside = 1;
                *cell = (uint)old_node - n;
                *level = old_level;
            }
        }
    } while (is_inside);

    if (old_node == LOCKED || ATOMIC_CAS_U32(slot, old_node, LOCKED) != (uint)old_node)
        return 0;
    uint new_node = key.i;
    if (old_node != EMPTY) {
        // The slot contains a body or a cell: a new cell above it contains both.
        if (old_node < (int)n)
            old_key = body_key(x, y, z, frame, (uint)old_node);
        const uint made = make_cell(tree, n, *cell, key, old_node, old_key);
        DEVICE_FENCE(); // the new cell must be visible before the pointer to it
        new_node = n + made;
    }
    STORE_U32(slot, new_node);
    return 1;
}

// Returns the bits of a scaled coordinate, limited to 1e18 so that squared distances are finite in
// f32. (`clamp_coordinate` in frame.cu does the same. That file also has a kernel, which is not
// needed here.)
FUNCTION uint coordinate_bits(double x)
{
    return FLOAT_AS_UINT((float)(x > 1e18 ? 1e18 : x < -1e18 ? -1e18 : x));
}

// Writes the body's scaled position and mass, which the later kernels read.
FUNCTION void write_body(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame,
    GLOBAL uint* RESTRICT node, uint i)
{
    GLOBAL uint* body = node + 4 * (size_t)i;
    body[0] = coordinate_bits((x[i] - frame[FRAME_ORIGIN]) * frame[FRAME_LENGTH_SCALE]);
    body[1] = coordinate_bits((y[i] - frame[FRAME_ORIGIN + 1]) * frame[FRAME_LENGTH_SCALE]);
    body[2] = coordinate_bits((z[i] - frame[FRAME_ORIGIN + 2]) * frame[FRAME_LENGTH_SCALE]);
    body[3] = FLOAT_AS_UINT((float)(mass[i] * frame[FRAME_MASS_SCALE]));
}

// THROTTLED: a thread that failed waits until the other warps of the block have made their attempt,
// because an immediate retry would only poll a lock that is still held.
#if THROTTLED
#define IS_UNFINISHED(condition, flag) BLOCK_ANY(condition, flag)
#else
#define IS_UNFINISHED(condition, flag) (condition)
#endif

// Thread t inserts bodies t, t + (number of threads), and so on.
KERNEL(BLOCK_SIZE)
insert_bodies(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame,
    uint n, GLOBAL uint* node, GLOBAL uint* child, GLOBAL uint* parent, GLOBAL uint* child_cells,
    GLOBAL uint* finished, GLOBAL uint* representative, GLOBAL uint* cell_count)
{
    Tree tree;
    tree.node = node;
    tree.child = child;
    tree.parent = parent;
    tree.child_cells = child_cells;
    tree.finished = finished;
    tree.representative = representative;
    tree.cell_count = cell_count;
    SHARED uint flag;
    uint body = BLOCK_INDEX * BLOCK_SIZE + THREAD, cell = n - 1, level = 0;
    int is_new = 1, is_unfinished;
    Key key;
    key.x = key.y = key.z = key.i = 0;
    do {
        if (body < n) {
            if (is_new) {
                write_body(x, y, z, mass, frame, node, body);
                key = body_key(x, y, z, frame, body);
                cell = n - 1;
                level = 0;
            }
            is_new = try_insert(tree, x, y, z, frame, n, key, &cell, &level);
            if (is_new)
                body += BLOCK_COUNT * BLOCK_SIZE;
        }
        is_unfinished = IS_UNFINISHED(body < n, &flag);
    } while (is_unfinished);
}
