// Groups of neighbours along the curve that walk together: runs of GROUP_BODIES bodies, parted where the box around them
// would be wider than SPREAD times the smallest part of the grid that a leaf of theirs fills. In even places runs stay
// whole; where dense meets sparse, or the curve leaves a clump, they part, and no group is wide where bodies are dense.
//
// Groups that are wide for their place meet the most bodies: they are handed out first. A group's class is how wide it
// is, 0 the widest. sizes[i] of the first body of a group is its bodies + (class << 8), of all others 0.

// A thread a run.
KERNEL(BLOCK_SIZE)
part_runs(uint n, GLOBAL const double* RESTRICT frame, GLOBAL const REAL4* RESTRICT high, GLOBAL const uchar* RESTRICT slot,
    GLOBAL uint* RESTRICT sizes, GLOBAL uint* counts)
{
    SHARED uint classes[CLASSES];
    if (THREAD < CLASSES)
        classes[THREAD] = 0;
    BARRIER();
    const uint runs = (n + GROUP_BODIES - 1) / GROUP_BODIES;
    const uint run = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (run < runs) {
        const uint from = run * GROUP_BODIES, to = n - from < GROUP_BODIES ? n : from + GROUP_BODIES;
        uint start = from;
        REAL lx = 0, ly = 0, lz = 0, hx = 0, hy = 0, hz = 0, width = 0, smallest = 0;
        // One turn past the last body ends the last part.
        for (uint i = from; i <= to; i++) {
            const uint body = i < to ? i : to - 1;
            if (i < to)
                sizes[i] = 0;
            const REAL4 p = high[body];
            const REAL side = (REAL)ldexp(frame[8], -(int)slot[body]);
            const REAL ax = p.x < lx ? p.x : lx, ay = p.y < ly ? p.y : ly, az = p.z < lz ? p.z : lz;
            const REAL bx = p.x > hx ? p.x : hx, by = p.y > hy ? p.y : hy, bz = p.z > hz ? p.z : hz;
            const REAL wide = R_MAX(R_MAX(bx - ax, by - ay), bz - az);
            const REAL least = side < smallest ? side : smallest;
            if (i > start && (i == to || wide > (REAL)SPREAD * least)) {
                const REAL share = width / (smallest * (REAL)SPREAD) * (CLASSES - 1);
                const int narrow = share < CLASSES - 1 ? CLASSES - 1 - (int)share : 0;
                sizes[start] = (i - start) | (uint)narrow << 8;
                SHARED_ATOMIC_ADD_U32(classes + narrow, 1);
                start = i;
            }
            if (i == start) {
                lx = hx = p.x;
                ly = hy = p.y;
                lz = hz = p.z;
                width = 0;
                smallest = side;
            } else {
                lx = ax;
                ly = ay;
                lz = az;
                hx = bx;
                hy = by;
                hz = bz;
                width = wide;
                smallest = least;
            }
        }
    }
    BARRIER();
    if (THREAD < CLASSES && classes[THREAD] > 0)
        ATOMIC_ADD_U32(counts + CLASS_COUNTS + THREAD, classes[THREAD]);
}

// The groups' first bodies in the order of their classes. Within a class in any order: nothing depends on it.
KERNEL(BLOCK_SIZE)
order_groups(uint n, GLOBAL const uint* RESTRICT sizes, GLOBAL uint* counts, GLOBAL uint* RESTRICT groups)
{
    SHARED uint classes[CLASSES];
    SHARED uint places[CLASSES];
    if (THREAD < CLASSES)
        classes[THREAD] = 0;
    BARRIER();
    const uint i = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    const uint size = i < n ? sizes[i] : 0;
    uint place = 0;
    if (size > 0)
        place = SHARED_ATOMIC_ADD_U32(classes + (size >> 8), 1);
    BARRIER();
    if (THREAD < CLASSES && classes[THREAD] > 0) {
        uint before = 0;
        for (int c = 0; c < THREAD; c++)
            before += counts[CLASS_COUNTS + c];
        places[THREAD] = before + ATOMIC_ADD_U32(counts + PLACED + THREAD, classes[THREAD]);
    }
    BARRIER();
    if (size > 0)
        groups[place + places[size >> 8]] = i;
}
