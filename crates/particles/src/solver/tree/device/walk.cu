// The walk: a warp a group of neighbours, a lane a body.
//
// Cells to look at lie on a stack in SHARED memory. Each turn takes as many as there are lanes from its top and tests them,
// a lane a cell, against the box around the group: cells far enough away are listed, others opened, and their children
// or, of leaves, their bodies listed. As soon as a list fills the lanes, each lane fetches one of its entries and all
// bodies of the group meet them all. What is summed, and in which order, depends on the tree's form alone.
//
// Turns take fewer cells when the stack runs full, down to one: a cell's children are eight at most, the tree has 22
// generations, and so SPARE entries always suffice.
//
// With x from the body to the cell's centre, u² = 1 / (r² + eps²), Q = 3 M_ij, h = tr(Q) / 2, O = 15/2 M_ijk, t = 3/2 M_ijj:
//
//   a = u³ (x (m + u² (-h + u² (5/2 xQx + 5 tx - 7/3 u² Oxxx))) - u² (Qx + t - u² Oxx))
//
// 13 operations a body, some 32 a cell with its quadrupole.

#define STACK 768
#define SPARE (8 * GENERATIONS)
#define FEW (ORDER == 1 ? 1 : ORDER == 2 ? 2 : 4)
#define TILE (ORDER == 1 ? 1 : ORDER == 2 ? 3 : 6)
// More than any acceleration; and where no body is.
#define FAR_PULL 3e38f
#define OUTSIDE ((REAL)16)

// Boxes and distances are compared in f32, from the cube's middle.
#if PRECISION == 2
#define FROM_MIDDLE(v, axis) ((float)((v) - frame[13 + axis]))
#else
#define FROM_MIDDLE(v, axis) (v)
#endif

#if PRECISION == 0
#define SUM float
#else
#define SUM double
#endif

typedef struct {
    REAL x, y, z, potential;
} Pull;

typedef struct {
    SUM x, y, z, potential;
} Sums;

FUNCTION void add_pull(Sums* to, const Pull* pull)
{
    to->x += (SUM)pull->x;
    to->y += (SUM)pull->y;
    to->z += (SUM)pull->z;
#if POTENTIAL
    to->potential += (SUM)pull->potential;
#endif
}

// The bodies of the group meet body `j` of each lane; lanes past `count` bring none. `i` is the lane's own body.
FUNCTION Pull meet_bodies(uint j, uint count, uint i, REAL tx, REAL ty, REAL tz, REAL cx, REAL cy, REAL cz, REAL eps2,
    GLOBAL const REAL4* RESTRICT high, GLOBAL const REAL4* RESTRICT low, SHARED_POINTER REAL4* tile, SHARED_POINTER uint* names)
{
    REAL4 s = MAKE4(OUTSIDE, OUTSIDE, OUTSIDE, 0);
    if ((uint)LANE < count) {
        s = high[j];
#if HAS_LOW
        const REAL4 l = low[j];
        s = MAKE4((s.x - cx) + l.x, (s.y - cy) + l.y, (s.z - cz) + l.z, s.w);
#endif
    }
    WARP_BARRIER();
    tile[LANE] = s;
#if POTENTIAL
    names[LANE] = (uint)LANE < count ? j : LEAF;
#endif
    WARP_BARRIER();
    Pull pull = {0};
    const int turns = ((int)count + 7) & ~7;
    UNROLL(UNROLL_BODIES)
    for (int k = 0; k < turns; k++) {
        const REAL4 b = tile[k];
        const REAL x = b.x - tx, y = b.y - ty, z = b.z - tz;
        const REAL u = R_SQRT(R_FMA(x, x, R_FMA(y, y, R_FMA(z, z, eps2))));
        const REAL w = b.w * u * (u * u);
        pull.x = R_FMA(w, x, pull.x);
        pull.y = R_FMA(w, y, pull.y);
        pull.z = R_FMA(w, z, pull.z);
#if POTENTIAL
        pull.potential -= names[k] == i ? 0 : b.w * u;
#endif
    }
    return pull;
}

// The same with cell `c` of each lane.
FUNCTION Pull meet_cells(uint c, uint count, REAL tx, REAL ty, REAL tz, REAL cx, REAL cy, REAL cz, REAL eps2,
    GLOBAL const REAL4* RESTRICT reach, GLOBAL const REAL4* RESTRICT records, SHARED_POINTER REAL4* tile)
{
    REAL4 s = MAKE4(OUTSIDE, OUTSIDE, OUTSIDE, 0);
#if ORDER >= 2
    REAL4 q = MAKE4(0, 0, 0, 0), p = MAKE4(0, 0, 0, 0);
#endif
#if ORDER >= 3
    REAL4 o = MAKE4(0, 0, 0, 0), n = MAKE4(0, 0, 0, 0);
#endif
    if ((uint)LANE < count) {
        const REAL4 centre = reach[c];
        GLOBAL const REAL4* RESTRICT record = records + (ulong)c * RECORD;
        const REAL4 first = record[0];
#if HAS_LOW
        s = MAKE4((centre.x - cx) + first.y, (centre.y - cy) + first.z, (centre.z - cz) + first.w, first.x);
#else
        s = MAKE4(centre.x, centre.y, centre.z, first.x);
#endif
#if ORDER >= 2
        q = record[1];
        p = record[2];
#endif
#if ORDER >= 3
        o = record[3];
        n = record[4];
#endif
    }
    WARP_BARRIER();
    tile[LANE * TILE] = s;
#if ORDER >= 2
    // (Qxx Qxy Qxz Qyy) (Qyz Qzz -h ...)
    const REAL h = (REAL)-1.5 * (q.x + q.w + p.y);
    tile[LANE * TILE + 1] = MAKE4(3 * q.x, 3 * q.y, 3 * q.z, 3 * q.w);
#endif
#if ORDER == 2
    tile[LANE * TILE + 2] = MAKE4(3 * p.x, 3 * p.y, h, 0);
#elif ORDER == 3
    // ... tx) (ty tz Oxxx Oxxy) (Oxxz Oxyy Oxyz Oxzz) (Oyyy Oyyz Oyzz Ozzz)
    const REAL f = (REAL)7.5, g = (REAL)1.5;
    tile[LANE * TILE + 2] = MAKE4(3 * p.x, 3 * p.y, h, g * (p.z + o.y + o.w));
    tile[LANE * TILE + 3] = MAKE4(g * (p.w + n.x + n.z), g * (o.x + n.y + n.w), f * p.z, f * p.w);
    tile[LANE * TILE + 4] = MAKE4(f * o.x, f * o.y, f * o.z, f * o.w);
    tile[LANE * TILE + 5] = MAKE4(f * n.x, f * n.y, f * n.z, f * n.w);
#endif
    WARP_BARRIER();
    Pull pull = {0};
    const int turns = ((int)count + 3) & ~3;
    UNROLL(UNROLL_CELLS)
    for (int k = 0; k < turns; k++) {
        const REAL4 b = tile[k * TILE];
        const REAL x = b.x - tx, y = b.y - ty, z = b.z - tz;
        const REAL u = R_SQRT(R_FMA(x, x, R_FMA(y, y, R_FMA(z, z, eps2))));
        const REAL u2 = u * u, u3 = u * u2;
#if ORDER == 1
        const REAL w = b.w * u3;
        pull.x = R_FMA(w, x, pull.x);
        pull.y = R_FMA(w, y, pull.y);
        pull.z = R_FMA(w, z, pull.z);
#if POTENTIAL
        pull.potential = R_FMA(-b.w, u, pull.potential);
#endif
#else
        const REAL4 q2 = tile[k * TILE + 1], p2 = tile[k * TILE + 2];
        REAL qx = R_FMA(q2.x, x, R_FMA(q2.y, y, q2.z * z));
        REAL qy = R_FMA(q2.y, x, R_FMA(q2.w, y, p2.x * z));
        REAL qz = R_FMA(q2.z, x, R_FMA(p2.x, y, p2.y * z));
        const REAL xqx = u2 * R_FMA(qx, x, R_FMA(qy, y, qz * z));
        REAL w = R_FMA((REAL)2.5, xqx, p2.z);
#if POTENTIAL
        REAL v = R_FMA((REAL)0.5, xqx, p2.z * (REAL)(1.0 / 3.0));
#endif
#if ORDER == 3
        const REAL4 t2 = tile[k * TILE + 3], o2 = tile[k * TILE + 4], n2 = tile[k * TILE + 5];
        // Rows of O x, symmetric.
        const REAL xx = R_FMA(t2.z, x, R_FMA(t2.w, y, o2.x * z)), xy = R_FMA(t2.w, x, R_FMA(o2.y, y, o2.z * z)),
                   xz = R_FMA(o2.x, x, R_FMA(o2.z, y, o2.w * z));
        const REAL yy = R_FMA(o2.y, x, R_FMA(n2.x, y, n2.y * z)), yz = R_FMA(o2.z, x, R_FMA(n2.y, y, n2.z * z));
        const REAL zz = R_FMA(o2.w, x, R_FMA(n2.z, y, n2.w * z));
        const REAL ox = u2 * R_FMA(xx, x, R_FMA(xy, y, xz * z)), oy = u2 * R_FMA(xy, x, R_FMA(yy, y, yz * z)),
                   oz = u2 * R_FMA(xz, x, R_FMA(yz, y, zz * z));
        const REAL oxx = u2 * R_FMA(ox, x, R_FMA(oy, y, oz * z)), tx_ = u2 * R_FMA(p2.w, x, R_FMA(t2.x, y, t2.y * z));
        w += R_FMA((REAL)5, tx_, (REAL)(-7.0 / 3.0) * oxx);
        qx += p2.w - ox;
        qy += t2.x - oy;
        qz += t2.y - oz;
#if POTENTIAL
        v += R_FMA((REAL)(-1.0 / 3.0), oxx, tx_);
#endif
#endif
        w = R_FMA(u2, w, b.w);
        w *= u3;
        const REAL h = -u2 * u3;
        pull.x = R_FMA(w, x, R_FMA(h, qx, pull.x));
        pull.y = R_FMA(w, y, R_FMA(h, qy, pull.y));
        pull.z = R_FMA(w, z, R_FMA(h, qz, pull.z));
#if POTENTIAL
        pull.potential = R_FMA(-u, R_FMA(u2, v, b.w), pull.potential);
#endif
#endif
    }
    return pull;
}

// `alpha` 0: geometric. `statistics`: of each warp body terms, cell terms, and the most terms of a body.
KERNEL_MIN_BLOCKS(WARP_SIZE, WALKERS)
walk(GLOBAL uint* counts, GLOBAL const uint* RESTRICT groups, GLOBAL const uint* RESTRICT sizes, GLOBAL const uint* RESTRICT begin,
    GLOBAL const uint* RESTRICT end, GLOBAL const uint* RESTRICT child, GLOBAL const REAL4* RESTRICT reach,
    GLOBAL const REAL4* RESTRICT records, GLOBAL const float* RESTRICT relative, GLOBAL const REAL4* RESTRICT high,
    GLOBAL const REAL4* RESTRICT low, GLOBAL const double* RESTRICT frame, GLOBAL const uint* RESTRICT order, double alpha,
    GLOBAL const double* px, GLOBAL const double* py, GLOBAL const double* pz, GLOBAL double* ax, GLOBAL double* ay,
    GLOBAL double* az, GLOBAL double* RESTRICT potential, GLOBAL ulong* RESTRICT statistics)
{
    SHARED uint stack[STACK];
    SHARED uint far_cells[2 * WARP_SIZE];
    SHARED uint near_bodies[2 * WARP_SIZE];
    SHARED REAL4 tile[WARP_SIZE * TILE];
    SHARED uint scratch[WARP_SIZE];
    SHARED uint names[WARP_SIZE];
    uint total = 0;
    for (int c = 0; c < CLASSES; c++)
        total += counts[CLASS_COUNTS + c];
    const uint below = (1u << LANE) - 1u;
    const REAL eps2 = (REAL)frame[10];
    ulong body_terms = 0, cell_terms = 0, most = 0;

    uint number = (uint)BLOCK_INDEX;
    while (number < total) {
        const uint first = groups[number], bodies = sizes[first] & 255;
        // Lanes without a body repeat the last one.
        const uint i = first + ((uint)LANE < bodies ? (uint)LANE : bodies - 1);
        const REAL4 own = high[i];
        const uint user = order[i];
#if RELATIVE
        const double sx = px[user], sy = py[user], sz = pz[user];
        tile[LANE] = MAKE4(own.x, own.y, own.z, (REAL)(SQRT64(sx * sx + sy * sy + sz * sz) / frame[11]));
#else
        tile[LANE] = own;
#endif
        WARP_BARRIER();
        // The box around the group, and its smallest acceleration.
        float lx = FROM_MIDDLE(own.x, 0), ly = FROM_MIDDLE(own.y, 1), lz = FROM_MIDDLE(own.z, 2), ux = lx, uy = ly, uz = lz, pulled = FAR_PULL;
        for (int k = 0; k < WARP_SIZE; k++) {
            const REAL4 p = tile[k];
            lx = MIN(lx, FROM_MIDDLE(p.x, 0));
            ly = MIN(ly, FROM_MIDDLE(p.y, 1));
            lz = MIN(lz, FROM_MIDDLE(p.z, 2));
            ux = MAX(ux, FROM_MIDDLE(p.x, 0));
            uy = MAX(uy, FROM_MIDDLE(p.y, 1));
            uz = MAX(uz, FROM_MIDDLE(p.z, 2));
            pulled = MIN(pulled, (float)p.w);
        }
        const float cx = 0.5f * (lx + ux), cy = 0.5f * (ly + uy), cz = 0.5f * (lz + uz);
        const float wx = 0.5f * (ux - lx), wy = 0.5f * (uy - ly), wz = 0.5f * (uz - lz);
#if HAS_LOW
        const REAL4 l = low[i];
        const REAL tx = (own.x - cx) + l.x, ty = (own.y - cy) + l.y, tz = (own.z - cz) + l.z;
#else
        const REAL tx = own.x, ty = own.y, tz = own.z;
#endif
#if RELATIVE
        // r² ≥ (M l³)^{2/5} (1 / alpha |a|)^{2/5}
        const float stretch2 = (float)pow(alpha * (double)pulled, -0.4);
#endif

        Sums sums = {0};
        uint met_cells = 0, met_bodies = 0;
        uint top = 1, cells = 0, found = 0;
        if (LANE == 0)
            stack[0] = 0;
        WARP_BARRIER();
        while (top > 0) {
            const uint room = top + SPARE < STACK ? (STACK - SPARE - top) / 7 + 1 : 1;
            uint take = top < WARP_SIZE ? top : WARP_SIZE;
            take = take < room ? take : room;
            uint c = 0, children = LEAF, from = 0, to = 0;
            int is_far = 0, is_opened = 0;
            if ((uint)LANE < take) {
                c = stack[top - 1 - (uint)LANE];
                children = child[c];
                const REAL4 r = reach[c];
                const float dx = MAX(fabs(FROM_MIDDLE(r.x, 0) - cx) - wx, 0.0f), dy = MAX(fabs(FROM_MIDDLE(r.y, 1) - cy) - wy, 0.0f),
                            dz = MAX(fabs(FROM_MIDDLE(r.z, 2) - cz) - wz, 0.0f);
                float limit2 = (float)r.w;
#if RELATIVE
                limit2 = MAX(limit2, relative[c] * stretch2);
#endif
                // What is no number counts as far: it spoils the sum either way, and quickly.
                is_far = !(FMA(dx, dx, FMA(dy, dy, dz * dz)) <= limit2);
                if (children == LEAF) {
                    from = begin[c];
                    to = end[c];
                    is_far = is_far && to - from > FEW;
                    if (is_far)
                        to = from;
                } else
                    is_opened = !is_far;
            }
            top -= take;
            // All have read before anything is written over.
            WARP_BARRIER();
            const uint opened = BALLOT(is_opened, scratch);
            const uint ones = BALLOT(is_opened && (children & 1), scratch), twos = BALLOT(is_opened && (children & 2), scratch),
                       fours = BALLOT(is_opened && (children & 4), scratch);
            const uint accepted = BALLOT(is_far, scratch);
            if (is_opened) {
                const uint at = top
                    + (uint)(POPCOUNT(opened & below) + POPCOUNT(ones & below) + 2 * POPCOUNT(twos & below)
                        + 4 * POPCOUNT(fours & below));
                const uint number_of = (children & 7) + 1;
                for (uint k = 0; k < number_of; k++)
                    stack[at + k] = (children >> 3) + k;
            }
            top += (uint)(POPCOUNT(opened) + POPCOUNT(ones) + 2 * POPCOUNT(twos) + 4 * POPCOUNT(fours));
            if (is_far)
                far_cells[cells + (uint)POPCOUNT(accepted & below)] = c;
            cells += (uint)POPCOUNT(accepted);
            met_cells += (uint)POPCOUNT(accepted);
            WARP_BARRIER();
            // Once nothing is left to look at, what is left in the lists is met as well.
            const uint enough = top > 0 ? WARP_SIZE : 1;
            while (cells >= enough) {
                const uint count = cells < WARP_SIZE ? cells : WARP_SIZE;
                cells -= count;
                const uint c = far_cells[cells + (uint)LANE];
                const Pull pull = meet_cells(c, count, tx, ty, tz, cx, cy, cz, eps2, reach, records, tile);
                add_pull(&sums, &pull);
            }
            uint waiting = BALLOT(from < to, scratch);
            int is_waiting = 1;
            while (is_waiting) {
                if (from < to)
                    near_bodies[found + (uint)POPCOUNT(waiting & below)] = from++;
                found += (uint)POPCOUNT(waiting);
                met_bodies += (uint)POPCOUNT(waiting);
                waiting = BALLOT(from < to, scratch);
                is_waiting = waiting != 0;
                WARP_BARRIER();
                const uint plenty = top > 0 || is_waiting ? WARP_SIZE : 1;
                while (found >= plenty) {
                    const uint count = found < WARP_SIZE ? found : WARP_SIZE;
                    found -= count;
                    const uint j = near_bodies[found + (uint)LANE];
                    const Pull pull = meet_bodies(j, count, i, tx, ty, tz, cx, cy, cz, eps2, high, low, tile, names);
                    add_pull(&sums, &pull);
                }
            }
        }
        if ((uint)LANE < bodies) {
            ax[user] = (double)sums.x * frame[11];
            ay[user] = (double)sums.y * frame[11];
            az[user] = (double)sums.z * frame[11];
#if POTENTIAL
            potential[user] = (double)sums.potential * frame[12];
#endif
        }
        // Every body meets itself too, and feels nothing of it.
        const uint others = met_bodies > 0 ? met_bodies - 1 : 0;
        body_terms += (ulong)bodies * others;
        cell_terms += (ulong)bodies * met_cells;
        const ulong terms = met_cells + others;
        most = terms > most ? terms : most;
#if HAS_LANES
        uint next = 0;
        if (LANE == 0)
            next = ATOMIC_ADD_U32(counts + TICKET, 1);
        number = (uint)BLOCK_COUNT + SHUFFLE(next, 0, scratch);
#else
        number += (uint)BLOCK_COUNT;
#endif
        WARP_BARRIER();
    }
    if (LANE == 0) {
        statistics[3 * BLOCK_INDEX] = body_terms;
        statistics[3 * BLOCK_INDEX + 1] = cell_terms;
        statistics[3 * BLOCK_INDEX + 2] = most;
    }
}
