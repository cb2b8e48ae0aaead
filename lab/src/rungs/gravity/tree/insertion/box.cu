// Kernel 1: the cube around all bodies, the frame, and the root cell.

#define DOUBLE_MAX 1.7976931348623157e308

// Bounds and total mass of some bodies. In memory, a box is the BOX_FIELDS numbers low x, y, z,
// high x, y, z and mass.
#define BOX_FIELDS 7
typedef struct {
    double mass, high_z, high_y, high_x, low_z, low_y, low_x;
} Box;

FUNCTION void clear_box(Box* box)
{
    box->low_x = box->low_y = box->low_z = DOUBLE_MAX;
    box->high_x = box->high_y = box->high_z = -DOUBLE_MAX;
    box->mass = 0.0;
}

// Enlarges the box by body i.
FUNCTION void add_body(Box* box, GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, uint i)
{
    box->low_x = MIN64(box->low_x, x[i]);
    box->low_y = MIN64(box->low_y, y[i]);
    box->low_z = MIN64(box->low_z, z[i]);
    box->high_x = MAX64(box->high_x, x[i]);
    box->high_y = MAX64(box->high_y, y[i]);
    box->high_z = MAX64(box->high_z, z[i]);
    box->mass += mass[i];
}

// Enlarges the box by one that another block wrote. Volatile, because this block's L1 cache may be
// stale.
FUNCTION void add_box(Box* box, GLOBAL const volatile double* fields)
{
    box->low_x = MIN64(box->low_x, fields[0]);
    box->low_y = MIN64(box->low_y, fields[1]);
    box->low_z = MIN64(box->low_z, fields[2]);
    box->high_x = MAX64(box->high_x, fields[3]);
    box->high_y = MAX64(box->high_y, fields[4]);
    box->high_z = MAX64(box->high_z, fields[5]);
    box->mass += fields[6];
}

// Joins the boxes of all threads of the block, in a fixed order, and writes the result to `joined`.
// `fields` is scratch memory for BOX_FIELDS * BLOCK_SIZE numbers. Neighbouring threads use
// neighbouring addresses.
FUNCTION void join_in_block(const Box* box, SHARED_POINTER double* fields, SHARED_POINTER double* joined)
{
    fields[THREAD] = box->low_x;
    fields[BLOCK_SIZE + THREAD] = box->low_y;
    fields[2 * BLOCK_SIZE + THREAD] = box->low_z;
    fields[3 * BLOCK_SIZE + THREAD] = box->high_x;
    fields[4 * BLOCK_SIZE + THREAD] = box->high_y;
    fields[5 * BLOCK_SIZE + THREAD] = box->high_z;
    fields[6 * BLOCK_SIZE + THREAD] = box->mass;
    BARRIER();
    for (int stride = BLOCK_SIZE / 2; stride > 0; stride /= 2) {
        if (THREAD < stride) {
            UNROLL_ALL
            for (int field = 0; field < BOX_FIELDS; field++) {
                SHARED_POINTER double* own = fields + field * BLOCK_SIZE + THREAD;
                const double a = own[0], b = own[stride];
                own[0] = field < 3 ? MIN64(a, b) : field < 6 ? MAX64(a, b) : a + b;
            }
        }
        BARRIER();
    }
    if (THREAD < BOX_FIELDS)
        joined[THREAD] = fields[THREAD * BLOCK_SIZE];
    BARRIER();
}

// Writes the box of this block to `block_boxes` and sets `is_last` in the block that is the last to
// do so.
FUNCTION void publish_box(SHARED_POINTER const double* joined, GLOBAL double* block_boxes,
    GLOBAL uint* arrived_blocks, SHARED_POINTER int* is_last)
{
    if (THREAD < BOX_FIELDS)
        block_boxes[BLOCK_INDEX * BOX_FIELDS + THREAD] = joined[THREAD];
    DEVICE_FENCE();
    BARRIER();
    if (THREAD == 0) {
        *is_last = (int)ATOMIC_ADD_U32(arrived_blocks, 1) == BLOCK_COUNT - 1;
        DEVICE_FENCE();
    }
    BARRIER();
}

// Each block joins the boxes of a chunk of the bodies. The last block to finish joins the results,
// finds the frame and makes the root. All blocks pass the same barriers. The results of the other
// blocks after their first `join_in_block` are not used.
KERNEL(BLOCK_SIZE)
find_box(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, uint n, uint chunk, double g, double eps, GLOBAL double* block_boxes,
    GLOBAL uint* arrived_blocks, GLOBAL double* RESTRICT frame, GLOBAL uint* RESTRICT node,
    GLOBAL uint* RESTRICT child, GLOBAL uint* RESTRICT child_cells, GLOBAL uint* RESTRICT finished,
    GLOBAL uint* RESTRICT cell_count)
{
    SHARED double fields[BOX_FIELDS * BLOCK_SIZE];
    SHARED double joined[BOX_FIELDS];
    SHARED double scratch[4 * FRAME_SAMPLE];
    SHARED double found_frame[FRAME_UNIT_SLOTS];
    SHARED int is_last;
    const uint begin = BLOCK_INDEX * chunk, end = begin + chunk < n ? begin + chunk : n;
    Box box;
    clear_box(&box);
    for (uint i = begin + THREAD; i < end; i += BLOCK_SIZE)
        add_body(&box, x, y, z, mass, i);
    join_in_block(&box, fields, joined);
    publish_box(joined, block_boxes, arrived_blocks, &is_last);
    clear_box(&box);
    for (int block = THREAD; block < BLOCK_COUNT; block += BLOCK_SIZE)
        add_box(&box, block_boxes + block * BOX_FIELDS);
    join_in_block(&box, fields, joined);
    find_frame_in_block(x, y, z, (int)n, g, eps, joined[6], 1, scratch, found_frame);
    if (is_last && THREAD < FRAME_UNIT_SLOTS)
        frame[THREAD] = found_frame[THREAD];
    if (is_last && THREAD < 3)
        frame[FRAME_CORNER + THREAD] = joined[THREAD];
    if (is_last && THREAD < 8)
        child[8 * (size_t)(n - 1) + THREAD] = (uint)EMPTY;
    if (is_last && THREAD == 0) {
        const double side = MAX64(joined[3] - joined[0], MAX64(joined[4] - joined[1], joined[5] - joined[2]));
        frame[FRAME_SIDE] = side * found_frame[FRAME_LENGTH_SCALE];
        frame[FRAME_CELLS_PER_LENGTH] = side > 0.0 ? 4294967296.0 / side : 0.0;
        node[4 * (2 * (size_t)n - 1) + 3] = 0; // level of the root
        child_cells[n - 1] = 0;
        finished[n - 1] = 0;
        *cell_count = 1;
        *arrived_blocks = 0;
    }
}
