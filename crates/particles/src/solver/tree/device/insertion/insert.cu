// Kernel 2: the octree by insertion.

// Whether a condition holds for any thread of the group; a barrier, too. `word` is a SHARED uint.
#if defined(ON_CUDA)
#define GROUP_ANY(condition, word) __syncthreads_or(condition)
#else
FUNCTION int group_any(int condition, __local uint* word)
{
    BARRIER();
    if (THREAD == 0)
        *word = 0;
    BARRIER();
    if (condition)
        *word = 1;
    BARRIER();
    return *word != 0;
}
#define GROUP_ANY(condition, word) group_any(condition, word)
#endif

// What decides where a body goes: its grid coordinates, and among those that share them its number.
typedef struct {
    uint x, y, z, i;
} Key;

typedef struct {
    GLOBAL uint* node;
    GLOBAL uint* child;
    GLOBAL uint* parent;
    GLOBAL uint* awaited;
    GLOBAL uint* arrived;
    GLOBAL uint* witness;
    GLOBAL uint* cells;
} Tree;

// What is no number goes to 0.
FUNCTION uint grid_step(double steps)
{
    return steps > 0.0 ? steps < 4294967295.0 ? (uint)steps : 0xffffffffu : 0u;
}

FUNCTION Key key_of_body(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT frame, uint i)
{
    Key key;
    key.x = grid_step((x[i] - frame[CORNER]) * frame[STEPS]);
    key.y = grid_step((y[i] - frame[CORNER + 1]) * frame[STEPS]);
    key.z = grid_step((z[i] - frame[CORNER + 2]) * frame[STEPS]);
    key.i = i;
    return key;
}

// Another group may just have made the cell, so no cache is to be trusted. The witness's number matters only below the grid.
FUNCTION Key key_of_cell(Tree tree, uint n, uint c, uint* level)
{
    GLOBAL const uint* header = tree.node + 4 * ((size_t)n + c);
    Key key;
    key.x = LOAD_U32(header);
    key.y = LOAD_U32(header + 1);
    key.z = LOAD_U32(header + 2);
    *level = LOAD_U32(header + 3);
    key.i = *level > GRID_LEVELS ? LOAD_U32(tree.witness + c) : 0u;
    return key;
}

// The first level at which the two part.
FUNCTION uint parting_level(Key a, Key b)
{
    const uint apart = (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z);
    if (apart != 0)
        return (uint)LEADING_ZEROS_U64((ulong)apart) - 32u;
    // Numbers have 30 bits, 34 fewer than the word.
    return GRID_LEVELS + ((uint)LEADING_ZEROS_U64((ulong)(a.i ^ b.i)) - 34u) / 3u;
}

FUNCTION uint octant(Key key, uint level)
{
    if (level >= GRID_LEVELS)
        return (key.i >> (27u - 3u * (level - GRID_LEVELS))) & 7u;
    const uint shift = 31u - level;
    return ((key.x >> shift) & 1u) | ((key.y >> shift) & 1u) << 1 | ((key.z >> shift) & 1u) << 2;
}

// One attempt to insert a body, from `cell` downwards; says whether it succeeded, and leaves in `cell` the deepest one
// that was found to hold the body, where the next attempt starts. A lock is held from its compare-and-swap to the last line,
// without a barrier or a wait in between: whoever meets it may try again until it is gone.
FUNCTION int attempt(Tree tree, GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT frame, uint n, Key key, uint* cell, uint* level)
{
    GLOBAL uint* slot;
    int there;
    Key other = key;
    int is_inside;
    do {
        slot = tree.child + (8 * (size_t)*cell + octant(key, *level));
        there = (int)LOAD_U32(slot);
        is_inside = 0;
        if (there >= (int)n) {
            uint below;
            other = key_of_cell(tree, n, (uint)there - n, &below);
            if (parting_level(key, other) >= below) {
                is_inside = 1;
                *cell = (uint)there - n;
                *level = below;
            }
        }
    } while (is_inside);

    if (there == LOCKED || ATOMIC_CAS_U32(slot, there, LOCKED) != (uint)there)
        return 0;
    uint held = key.i;
    if (there != NOTHING) {
        // A body or a cell is in the way: a new cell above it holds both.
        if (there < (int)n)
            other = key_of_body(x, y, z, frame, (uint)there);
        const uint made = ATOMIC_ADD_U32(tree.cells, 1), parts_at = parting_level(key, other);
        GLOBAL uint* header = tree.node + 4 * ((size_t)n + made);
        header[0] = key.x;
        header[1] = key.y;
        header[2] = key.z;
        header[3] = parts_at;
        tree.witness[made] = key.i;
        const uint of_body = octant(key, parts_at), of_other = octant(other, parts_at);
        for (uint k = 0; k < 8; k++)
            tree.child[8 * (size_t)made + k] = k == of_body ? key.i : k == of_other ? (uint)there : (uint)NOTHING;
        tree.parent[made] = *cell;
        tree.arrived[made] = 0;
        if (there < (int)n) {
            tree.awaited[made] = 0;
            ATOMIC_ADD_U32(tree.awaited + *cell, 1);
        } else {
            tree.awaited[made] = 1;
            tree.parent[(uint)there - n] = made;
        }
        FENCE(); // the new cell is seen before the pointer to it
        held = n + made;
    }
    STORE_U32(slot, held);
    return 1;
}

// A coordinate in the frame, held where squares of distances are finite in f32. (`clamp_coordinate` of frame.cu, which
// has a kernel of its own that need not be compiled with this one.)
FUNCTION uint coordinate_bits(double x)
{
    return FLOAT_AS_UINT((float)(x > 1e18 ? 1e18 : x < -1e18 ? -1e18 : x));
}

// The body's place and mass in the frame, for the kernels after this one.
FUNCTION void place_body(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame,
    GLOBAL uint* RESTRICT node, uint i)
{
    GLOBAL uint* to = node + 4 * (size_t)i;
    to[0] = coordinate_bits((x[i] - frame[FRAME_ORIGIN]) * frame[FRAME_LENGTH_SCALE]);
    to[1] = coordinate_bits((y[i] - frame[FRAME_ORIGIN + 1]) * frame[FRAME_LENGTH_SCALE]);
    to[2] = coordinate_bits((z[i] - frame[FRAME_ORIGIN + 2]) * frame[FRAME_LENGTH_SCALE]);
    to[3] = FLOAT_AS_UINT((float)(mass[i] * frame[FRAME_MASS_SCALE]));
}

// Bodies go to threads in turn. THROTTLED: whoever failed waits until the group's other warps have had their attempt,
// rather than ask again for what is not ready.
#if THROTTLED
#define UNFINISHED(condition, word) GROUP_ANY(condition, word)
#else
#define UNFINISHED(condition, word) (condition)
#endif

KERNEL(BLOCK_SIZE)
insert(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, GLOBAL const double* RESTRICT frame, uint n, GLOBAL uint* node,
    GLOBAL uint* child, GLOBAL uint* parent, GLOBAL uint* awaited, GLOBAL uint* arrived, GLOBAL uint* witness,
    GLOBAL uint* cells)
{
    Tree tree;
    tree.node = node;
    tree.child = child;
    tree.parent = parent;
    tree.awaited = awaited;
    tree.arrived = arrived;
    tree.witness = witness;
    tree.cells = cells;
    SHARED uint word;
    uint i = BLOCK_INDEX * BLOCK_SIZE + THREAD, cell = 0, level = 0;
    int is_new = 1, unfinished;
    Key key;
    key.x = key.y = key.z = key.i = 0;
    do {
        if (i < n) {
            if (is_new) {
                place_body(x, y, z, mass, frame, node, i);
                key = key_of_body(x, y, z, frame, i);
                cell = level = 0;
            }
            is_new = attempt(tree, x, y, z, frame, n, key, &cell, &level);
            if (is_new)
                i += BLOCK_COUNT * BLOCK_SIZE;
        }
        unfinished = UNFINISHED(i < n, &word);
    } while (unfinished);
}
