// Groups of neighbouring bodies that walk the tree together.
//
// The sorted bodies are cut into runs of GROUP_BODIES bodies. A run is split where the box around
// its bodies would become wider than MAX_GROUP_WIDTH times the smallest octant that contains one of
// their leaves. Where the density is uniform, runs stay whole. They are split at edges between
// dense and sparse regions and where the curve leaves a clump. No group is then wide where bodies
// are dense.
//
// Groups that are wide compared with that limit interact with the most bodies, so they are handed
// out first. The width class of a group is 0 for the widest and WIDTH_CLASSES - 1 for the
// narrowest. sizes[i] = (bodies of the group) + (class << 8) if i is the first body of a group,
// otherwise 0. For example, a group of 30 bodies in class 2 has the size 30 + 512.

// Box around some bodies.
typedef struct {
    REAL low_x, low_y, low_z, high_x, high_y, high_z;
    REAL width;       // of the widest side
    REAL octant_side; // of the smallest octant that contains a leaf of a body
} Extent;

// Returns `extent` enlarged by a body at `p`.
FUNCTION Extent enlarged_extent(Extent extent, REAL4 p, REAL octant_side)
{
    Extent larger;
    larger.low_x = p.x < extent.low_x ? p.x : extent.low_x;
    larger.low_y = p.y < extent.low_y ? p.y : extent.low_y;
    larger.low_z = p.z < extent.low_z ? p.z : extent.low_z;
    larger.high_x = p.x > extent.high_x ? p.x : extent.high_x;
    larger.high_y = p.y > extent.high_y ? p.y : extent.high_y;
    larger.high_z = p.z > extent.high_z ? p.z : extent.high_z;
    larger.width = REAL_MAX(
        REAL_MAX(larger.high_x - larger.low_x, larger.high_y - larger.low_y), larger.high_z - larger.low_z);
    larger.octant_side = octant_side < extent.octant_side ? octant_side : extent.octant_side;
    return larger;
}

// Sets `extent` to the position of one body if `is_first`, otherwise to `larger`.
FUNCTION void set_extent(Extent* extent, int is_first, REAL4 position, REAL octant_side, const Extent* larger)
{
    if (is_first) {
        extent->low_x = extent->high_x = position.x;
        extent->low_y = extent->high_y = position.y;
        extent->low_z = extent->high_z = position.z;
        extent->width = 0;
        extent->octant_side = octant_side;
    } else {
        extent->low_x = larger->low_x;
        extent->low_y = larger->low_y;
        extent->low_z = larger->low_z;
        extent->high_x = larger->high_x;
        extent->high_y = larger->high_y;
        extent->high_z = larger->high_z;
        extent->width = larger->width;
        extent->octant_side = larger->octant_side;
    }
}

FUNCTION int width_class(Extent extent)
{
    const REAL position = extent.width / (extent.octant_side * (REAL)MAX_GROUP_WIDTH) * (WIDTH_CLASSES - 1);
    return position < WIDTH_CLASSES - 1 ? WIDTH_CLASSES - 1 - (int)position : 0;
}

// Splits the runs from first_run to end_run - 1 into groups, one thread per run.
KERNEL(BLOCK_SIZE)
split_runs(uint n, uint first_run, uint end_run, GLOBAL const double* RESTRICT frame,
    GLOBAL const REAL4* RESTRICT high, GLOBAL const uchar* RESTRICT octant_level,
    GLOBAL uint* RESTRICT sizes, GLOBAL uint* counts)
{
    SHARED uint class_groups[WIDTH_CLASSES];
    if (THREAD < WIDTH_CLASSES)
        class_groups[THREAD] = 0;
    BARRIER();
    const uint run = first_run + (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (run < end_run) {
        const uint run_begin = run * GROUP_BODIES,
                   run_end = n - run_begin < GROUP_BODIES ? n : run_begin + GROUP_BODIES;
        uint group_begin = run_begin;
        Extent extent = {0};
        // One iteration past the last body ends the last group.
        for (uint i = run_begin; i <= run_end; i++) {
            const uint body = i < run_end ? i : run_end - 1;
            if (i < run_end)
                sizes[i] = 0;
            const REAL4 position = high[body];
            const REAL octant_side = (REAL)ldexp(frame[FRAME_SIDE], -(int)octant_level[body]);
            const Extent larger = enlarged_extent(extent, position, octant_side);
            const int is_too_wide = larger.width > (REAL)MAX_GROUP_WIDTH * larger.octant_side;
            if (i > group_begin && (i == run_end || is_too_wide)) {
                const int group_class = width_class(extent);
                sizes[group_begin] = (i - group_begin) | (uint)group_class << 8;
                SHARED_ATOMIC_ADD_U32(class_groups + group_class, 1);
                group_begin = i;
            }
            set_extent(&extent, i == group_begin, position, octant_side, &larger);
        }
    }
    BARRIER();
    if (THREAD < WIDTH_CLASSES && class_groups[THREAD] > 0)
        ATOMIC_ADD_U32(counts + COUNT_CLASS + THREAD, class_groups[THREAD]);
}

// Lists the first bodies of all groups of the bodies first_body .. end_body - 1, ordered by class.
// The order within a class is arbitrary, and no result depends on it.
KERNEL(BLOCK_SIZE)
order_groups(uint first_body, uint end_body, GLOBAL const uint* RESTRICT sizes, GLOBAL uint* counts,
    GLOBAL uint* RESTRICT groups)
{
    SHARED uint class_groups[WIDTH_CLASSES];
    SHARED uint class_begin[WIDTH_CLASSES];
    if (THREAD < WIDTH_CLASSES)
        class_groups[THREAD] = 0;
    BARRIER();
    const uint body = first_body + (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    const uint size = body < end_body ? sizes[body] : 0;
    uint rank = 0;
    if (size > 0)
        rank = SHARED_ATOMIC_ADD_U32(class_groups + (size >> 8), 1);
    BARRIER();
    if (THREAD < WIDTH_CLASSES && class_groups[THREAD] > 0) {
        uint wider_groups = 0;
        for (int wider = 0; wider < THREAD; wider++)
            wider_groups += counts[COUNT_CLASS + wider];
        class_begin[THREAD] =
            wider_groups + ATOMIC_ADD_U32(counts + COUNT_PLACED + THREAD, class_groups[THREAD]);
    }
    BARRIER();
    if (size > 0)
        groups[rank + class_begin[size >> 8]] = body;
}
