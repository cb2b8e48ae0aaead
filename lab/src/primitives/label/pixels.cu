// Labels of single pixels in images and volumes: minimum propagation, and union-find over all
// pixels. Both leave the index of the component's first pixel in every pixel. number.cu turns these
// into numbers.
//
// Layout: pixel (plane, row, column) has the index (plane * rows + row) * columns + column.
// labels[pixel] is the index of an earlier or equal pixel of the same component, or BACKGROUND.
//
// Propagation: a sweep reads 5 labels of 4 bytes per pixel with sides as neighbours, 4 of them from
// the cache, and writes those that change. A label moves at least one pixel per sweep, so the
// number of sweeps is the longest path from a pixel to the first one of its component. Near the
// percolation threshold such paths are longer than the image is wide.
//
// Union-find: the three kernels read 1 + 4 + 4 bytes and write 4 + 4 bytes per pixel. On top of
// that there are random accesses to parents, which are bound by the latency of the L2 cache.
//
// Defined by the host (pixels.rs): IS_VOLUME, HAS_CORNERS. Invariant: fewer than 2^32 - 1 pixels.

#define BLOCK_SIZE 256u
// Larger than the index of any pixel.
#define BACKGROUND 0xffffffffu

// The 27 steps to a pixel itself (13) and around it, in the order of their indices.
#define STEP_PLANE(step) ((step) / 9 - 1)
#define STEP_ROW(step) ((step) / 3 % 3 - 1)
#define STEP_COLUMN(step) ((step) % 3 - 1)
#define NO_STEP 13
#if IS_VOLUME
#define FIRST_STEP 0
#define STEPS_END 27
#else
#define FIRST_STEP 9
#define STEPS_END 18
#endif
#if HAS_CORNERS
#define IS_NEIGHBOUR(step) ((step) != NO_STEP)
#else
#define IS_NEIGHBOUR(step)                                                                         \
    ((step) == 4 || (step) == 10 || (step) == 12 || (step) == 14 || (step) == 16 || (step) == 22)
#endif

// Extents of the mask, and the position of this thread's pixel.
typedef struct {
    uint planes, rows, columns;
    uint plane, row, column;
} Position;

FUNCTION Position position_of(uint pixel, uint planes, uint rows, uint columns)
{
    Position at;
    at.planes = planes;
    at.rows = rows;
    at.columns = columns;
    at.column = pixel % columns;
    at.row = pixel / columns % rows;
    at.plane = pixel / columns / rows;
    return at;
}

// Returns whether a step leads to a pixel of the mask. A coordinate below 0 wraps to a number above
// every extent.
FUNCTION uint is_inside(Position at, int step)
{
    return at.plane + (uint)STEP_PLANE(step) < at.planes && at.row + (uint)STEP_ROW(step) < at.rows
        && at.column + (uint)STEP_COLUMN(step) < at.columns;
}

// Returns the distance between the indices of a pixel and of its neighbour. Negative ones wrap.
FUNCTION uint distance_of(Position at, int step)
{
    return ((uint)STEP_PLANE(step) * at.rows + (uint)STEP_ROW(step)) * at.columns + (uint)STEP_COLUMN(step);
}

// mask, labels: n pixels. Every pixel that is set gets its own index.
KERNEL(256) start_labels(GLOBAL const uchar* RESTRICT mask, GLOBAL uint* RESTRICT labels, uint n)
{
    const uint pixel = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (pixel < n)
        labels[pixel] = mask[pixel] != 0u ? pixel : BACKGROUND;
}

// One sweep of the propagation: every pixel that is set takes the smallest label of its neighbours.
// labels: planes * rows * columns pixels. Threads read labels that others write in the same sweep.
// An old value only delays the result, because labels never grow. *changed becomes 1 if any label
// changes.
KERNEL(256) propagate(GLOBAL uint* labels, uint planes, uint rows, uint columns, GLOBAL uint* changed)
{
    const uint pixel = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (pixel < planes * rows * columns && labels[pixel] != BACKGROUND) {
        const Position at = position_of(pixel, planes, rows, columns);
        const uint before = labels[pixel];
        uint lowest = before;
        UNROLL_ALL
        for (int step = FIRST_STEP; step < STEPS_END; step++) {
            if (IS_NEIGHBOUR(step) && is_inside(at, step)) {
                const uint label = labels[pixel + distance_of(at, step)];
                lowest = label < lowest ? label : lowest;
            }
        }
        if (lowest < before) {
            labels[pixel] = lowest;
            *changed = 1u;
        }
    }
}

// Merges the trees of two pixels. The earlier root becomes the root of both.
FUNCTION void unite_pixels(GLOBAL uint* labels, uint a, uint b)
{
    a = find_root(labels, a);
    b = find_root(labels, b);
    while (a != b) {
        const uint later = a > b ? a : b, earlier = a > b ? b : a;
        const uint found = ATOMIC_CAS_U32(&labels[later], later, earlier);
        // Another thread may have linked the later one. Its root is then merged instead.
        a = found == later ? earlier : find_root(labels, found);
        b = found == later ? earlier : find_root(labels, earlier);
    }
}

// Merges every pixel that is set with its earlier neighbours. labels: planes * rows * columns.
KERNEL(256) merge_pixels(GLOBAL uint* labels, uint planes, uint rows, uint columns)
{
    const uint pixel = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (pixel < planes * rows * columns && LOAD_U32(&labels[pixel]) != BACKGROUND) {
        const Position at = position_of(pixel, planes, rows, columns);
        UNROLL_ALL
        for (int step = FIRST_STEP; step < NO_STEP; step++) {
            if (IS_NEIGHBOUR(step) && is_inside(at, step)) {
                const uint neighbour = pixel + distance_of(at, step);
                if (LOAD_U32(&labels[neighbour]) != BACKGROUND)
                    unite_pixels(labels, pixel, neighbour);
            }
        }
    }
}

// Replaces the label of every pixel that is set by the index of its root. labels: n pixels.
KERNEL(256) flatten(GLOBAL uint* labels, uint n)
{
    const uint pixel = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (pixel < n && LOAD_U32(&labels[pixel]) != BACKGROUND) {
        uint root = LOAD_U32(&labels[pixel]);
        for (uint parent = LOAD_U32(&labels[root]); parent != root; parent = LOAD_U32(&labels[root]))
            root = parent;
        STORE_U32(&labels[pixel], root);
    }
}
