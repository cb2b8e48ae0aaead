// Kernel 1: the box and the frame.

// The box of some bodies: least x, y, z, greatest x, y, z, and their mass.
#define EXTREMES 7
#define BEYOND 1.7976931348623157e308
#define EMPTY_BOX x0 = y0 = z0 = BEYOND, x1 = y1 = z1 = -BEYOND, m = 0.0
#define JOIN_BOX(lx, ly, lz, gx, gy, gz, of)                                                                          \
    x0 = MIN64(x0, lx), y0 = MIN64(y0, ly), z0 = MIN64(z0, lz), x1 = MAX64(x1, gx), y1 = MAX64(y1, gy),                  \
    z1 = MAX64(z1, gz), m += of

// Over the group, in a fixed order; `fields` is scratch for EXTREMES * BLOCK_SIZE, in which neighbours work on neighbouring words.
FUNCTION void join_in_group(double x0, double y0, double z0, double x1, double y1, double z1, double m,
    SHARED_POINTER double* fields, SHARED_POINTER double* to)
{
    fields[THREAD] = x0;
    fields[BLOCK_SIZE + THREAD] = y0;
    fields[2 * BLOCK_SIZE + THREAD] = z0;
    fields[3 * BLOCK_SIZE + THREAD] = x1;
    fields[4 * BLOCK_SIZE + THREAD] = y1;
    fields[5 * BLOCK_SIZE + THREAD] = z1;
    fields[6 * BLOCK_SIZE + THREAD] = m;
    BARRIER();
    for (int width = BLOCK_SIZE / 2; width > 0; width /= 2) {
        if (THREAD < width) {
            UNROLL_ALL
            for (int e = 0; e < EXTREMES; e++) {
                const double a = fields[e * BLOCK_SIZE + THREAD], b = fields[e * BLOCK_SIZE + THREAD + width];
                fields[e * BLOCK_SIZE + THREAD] = e < 3 ? MIN64(a, b) : e < 6 ? MAX64(a, b) : a + b;
            }
        }
        BARRIER();
    }
    if (THREAD < EXTREMES)
        to[THREAD] = fields[THREAD * BLOCK_SIZE];
    BARRIER();
}

// A chunk of the bodies to each group; the last group to arrive combines them, finds the frame and makes the root.
// All groups go through the same barriers: what those that are not the last find there, nobody reads.
KERNEL(BLOCK_SIZE)
find_box(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, uint n, uint chunk, double g, double eps, GLOBAL double* parts,
    GLOBAL uint* arrived_groups, GLOBAL double* RESTRICT to, GLOBAL uint* RESTRICT node, GLOBAL uint* RESTRICT child,
    GLOBAL uint* RESTRICT awaited, GLOBAL uint* RESTRICT arrived, GLOBAL uint* RESTRICT cells)
{
    SHARED double fields[EXTREMES * BLOCK_SIZE];
    SHARED double joined[EXTREMES];
    SHARED double scratch[4 * FRAME_SAMPLE];
    SHARED double frame[FRAME_SLOTS];
    SHARED int is_last;
    const uint begin = BLOCK_INDEX * chunk, end = begin + chunk < n ? begin + chunk : n;
    double x0, y0, z0, x1, y1, z1, m;
    EMPTY_BOX;
    for (uint i = begin + THREAD; i < end; i += BLOCK_SIZE)
        JOIN_BOX(x[i], y[i], z[i], x[i], y[i], z[i], mass[i]);
    join_in_group(x0, y0, z0, x1, y1, z1, m, fields, joined);
    if (THREAD < EXTREMES)
        parts[BLOCK_INDEX * EXTREMES + THREAD] = joined[THREAD];
    FENCE();
    BARRIER();
    if (THREAD == 0) {
        is_last = (int)ATOMIC_ADD_U32(arrived_groups, 1) == BLOCK_COUNT - 1;
        FENCE();
    }
    BARRIER();
    EMPTY_BOX;
    for (int group = THREAD; group < BLOCK_COUNT; group += BLOCK_SIZE) {
        // Written by other groups: not to be had from a cache of this one.
        GLOBAL const volatile double* part = parts + group * EXTREMES;
        JOIN_BOX(part[0], part[1], part[2], part[3], part[4], part[5], part[6]);
    }
    join_in_group(x0, y0, z0, x1, y1, z1, m, fields, joined);
    find_frame_in_block(x, y, z, (int)n, g, eps, joined[6], 1, scratch, frame);
    if (is_last && THREAD < FRAME_SLOTS)
        to[THREAD] = frame[THREAD];
    if (is_last && THREAD < 3)
        to[CORNER + THREAD] = joined[THREAD];
    if (is_last && THREAD < 8)
        child[THREAD] = (uint)NOTHING;
    if (is_last && THREAD == 0) {
        const double side = MAX64(joined[3] - joined[0], MAX64(joined[4] - joined[1], joined[5] - joined[2]));
        to[SIDE] = side;
        to[STEPS] = side > 0.0 ? 4294967296.0 / side : 0.0;
        node[4 * (size_t)n + 3] = 0;
        awaited[0] = 0;
        arrived[0] = 0;
        *cells = 1;
        *arrived_groups = 0;
    }
}
