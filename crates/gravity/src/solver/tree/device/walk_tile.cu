// Terms of the tree walk: the sums over tiles of bodies and of cells. `walk.cu` describes the walk.
//
// With x the vector from the body to the cell's centre of mass, u² = 1 / (r² + eps²), Q = 3 M_ij,
// h = tr(Q) / 2, O = 15/2 M_ijk and t = 3/2 M_ijj:
//
//   a = u³ (x (m + u² (-h + u² (5/2 xQx + 5 tx - 7/3 u² Oxxx))) - u² (Qx + t - u² Oxx))
//
// A body costs 13 operations per target, a cell with its quadrupole about 32.
//
// Products and sums are fused explicitly wherever they could be. The accelerations therefore have
// the same bits with and without potentials.

// Vectors of a cell in the tile.
#define TILE_VECTORS (ORDER == 1 ? 1 : ORDER == 2 ? 3 : 6)
// Near bodies have a list, and terms of their own. Without it they are summed like all others.
#define HAS_NEAR (PRECISION == PRECISION_MIXED)
#define TILE_SIZE (WARP_SIZE * TILE_VECTORS)
// Entries of a tile without a source have mass 0 and lie at (OUTSIDE, OUTSIDE, OUTSIDE), away from
// all bodies.
#define OUTSIDE ((REAL)16)
#define NO_BODY 0xffffffffu
// The opening test compares f32 distances. Coordinates are relative to the centre of the cube.
#if PRECISION == PRECISION_DOUBLE
#define FROM_MIDDLE(coordinate, axis) ((float)((coordinate) - frame[FRAME_MIDDLE + axis]))
#else
#define FROM_MIDDLE(coordinate, axis) (coordinate)
#endif

#if PRECISION == PRECISION_SINGLE
typedef float SUM;
#else
typedef double SUM;
#endif

// Acceleration and potential due to one tile.
typedef struct {
    REAL x, y, z, potential;
} Field;

// Acceleration and potential due to all tiles.
typedef struct {
    SUM x, y, z, potential;
} FieldSum;

// Bounding box of a group, and the smallest acceleration of its bodies in the previous step. Cells
// and bodies within the square root of `near2` of the box are near.
typedef struct {
    float centre_x, centre_y, centre_z, half_x, half_y, half_z, near2, min_acceleration;
} Box;

// The body of a lane. In mixed precision its position is relative to the centre of the box.
typedef struct {
    REAL x, y, z;
    uint body;
} Target;

// The tree and the sorted bodies. `layout.cu` describes the arrays.
typedef struct {
    GLOBAL const uint* begin;
    GLOBAL const uint* end;
    GLOBAL const uint* children;
    GLOBAL const REAL4* centres;
    GLOBAL const REAL4* moments;
    GLOBAL const float* relative_limits;
    GLOBAL const REAL4* high;
    GLOBAL const REAL4* low;
    GLOBAL const uint* order;
    GLOBAL const double* x; // positions in the user's order and units
    GLOBAL const double* y;
    GLOBAL const double* z;
} Tree;

// A warp's SHARED memory and a lane mask.
typedef struct {
    SHARED_POINTER uint* stack;       // [STACK_SIZE] cells to be tested
    SHARED_POINTER uint* far_cells;   // [2 * WARP_SIZE] accepted cells that are not summed yet
    SHARED_POINTER uint* bodies;      // [2 * WARP_SIZE] listed bodies that are in no tile yet
    SHARED_POINTER uint* near_bodies; // [2 * WARP_SIZE] near ones of those in tiles, if HAS_NEAR
    SHARED_POINTER REAL4* tile;       // [TILE_SIZE] sources that are being summed
    SHARED_POINTER uint* tile_bodies; // [WARP_SIZE] indices of the bodies in the tile, or NO_BODY
    SHARED_POINTER uint* scratch;     // [WARP_SIZE] for BALLOT
    uint lower_lanes;                 // bits of the lanes below this one
} Workspace;

FUNCTION void add_field(FieldSum* sum, const Field* field)
{
    sum->x += (SUM)field->x;
    sum->y += (SUM)field->y;
    sum->z += (SUM)field->z;
#if POTENTIAL
    sum->potential += (SUM)field->potential;
#endif
}

// Adds the field of a body of `mass` at (x, y, z) from the target, without the potential if
// `is_self`. `rho2` is the softened square of the distance. The acceleration of a body due to
// itself is 0 because x = y = z = 0.
FUNCTION void add_pair(Field* field, REAL mass, REAL x, REAL y, REAL z, REAL rho2, int is_self)
{
    const REAL inv_r = REAL_RSQRT(rho2);
    const REAL weight = mass * inv_r * (inv_r * inv_r);
    field->x = REAL_FMA(weight, x, field->x);
    field->y = REAL_FMA(weight, y, field->y);
    field->z = REAL_FMA(weight, z, field->z);
#if POTENTIAL
    field->potential -= is_self ? 0 : mass * inv_r;
#endif
}

// Returns the position of a body in the frame of the targets, and its mass.
FUNCTION REAL4 body_of_tile(uint body, const Box* box, const Tree* tree)
{
    const REAL4 high = tree->high[body];
#if HAS_LOW
    const REAL4 low = tree->low[body];
    return MAKE_REAL4((high.x - box->centre_x) + low.x, (high.y - box->centre_y) + low.y,
        (high.z - box->centre_z) + low.z, high.w);
#else
    return high;
#endif
}

#if HAS_NEAR
// Returns whether a body at (x, y, z) from the centre of the box is near the box.
FUNCTION int is_near(REAL x, REAL y, REAL z, const Box* box)
{
    const float dx = MAX(fabs(x) - box->half_x, 0.0f), dy = MAX(fabs(y) - box->half_y, 0.0f),
                dz = MAX(fabs(z) - box->half_z, 0.0f);
    return FMA(dx, dx, FMA(dy, dy, dz * dz)) <= box->near2;
}
#endif

// Returns the field of up to WARP_SIZE bodies at each lane's target. Each of the first `count`
// lanes brings one of them, `body`. Near bodies are left out and appended to their list, which must
// have room for `count` more.
FUNCTION Field sum_bodies(uint body, uint count, const Target* target, const Box* box, REAL eps2,
    const Tree* tree, uint* near_count, const Workspace* work)
{
    REAL4 source = MAKE_REAL4(OUTSIDE, OUTSIDE, OUTSIDE, 0);
    if ((uint)LANE < count)
        source = body_of_tile(body, box, tree);
    uint entry = (uint)LANE, far_count = count;
#if HAS_NEAR
    // Far bodies move up in the tile. The entries behind them are empty.
    const int is_left_out = (uint)LANE < count && is_near(source.x, source.y, source.z, box);
    const uint near_lanes = BALLOT(is_left_out, work->scratch);
    const uint rank = (uint)POPCOUNT(near_lanes & work->lower_lanes);
    entry = is_left_out ? WARP_SIZE - 1 - rank : (uint)LANE - rank;
    far_count -= (uint)POPCOUNT(near_lanes);
    if (is_left_out) {
        work->near_bodies[*near_count + rank] = body;
        source = MAKE_REAL4(OUTSIDE, OUTSIDE, OUTSIDE, 0);
    }
    *near_count += (uint)POPCOUNT(near_lanes);
#endif
    WARP_BARRIER();
    work->tile[entry] = source;
#if POTENTIAL
    work->tile_bodies[entry] = entry < far_count ? body : NO_BODY;
#endif
    WARP_BARRIER();
    Field field = {0};
    const int padded = ((int)far_count + 7) & ~7;
    UNROLL(UNROLL_BODIES)
    for (int k = 0; k < padded; k++) {
        const REAL4 other = work->tile[k];
        const REAL x = other.x - target->x, y = other.y - target->y, z = other.z - target->z;
        const REAL rho2 = REAL_FMA(x, x, REAL_FMA(y, y, REAL_FMA(z, z, eps2)));
        add_pair(&field, other.w, x, y, z, rho2, POTENTIAL && work->tile_bodies[k] == target->body);
    }
    return field;
}

// Loads cell `cell` into entry LANE of the tile, as
//   (x y z m) (Qxx Qxy Qxz Qyy) (Qyz Qzz -h tx)
//   (ty tz Oxxx Oxxy) (Oxxz Oxyy Oxyz Oxzz) (Oyyy Oyyz Oyzz Ozzz)
// Lanes from `count` on load a cell without mass. The caller's barrier follows.
FUNCTION void load_cell(uint cell, uint count, const Box* box, const Tree* tree, SHARED_POINTER REAL4* tile)
{
    REAL4 centre_mass = MAKE_REAL4(OUTSIDE, OUTSIDE, OUTSIDE, 0);
#if ORDER >= 2
    REAL4 v1 = MAKE_REAL4(0, 0, 0, 0), v2 = MAKE_REAL4(0, 0, 0, 0);
#endif
#if ORDER >= 3
    REAL4 v3 = MAKE_REAL4(0, 0, 0, 0), v4 = MAKE_REAL4(0, 0, 0, 0);
#endif
    if ((uint)LANE < count) {
        const REAL4 centre = tree->centres[cell];
        GLOBAL const REAL4* RESTRICT vectors = tree->moments + (ulong)cell * MOMENT_VECTORS;
        const REAL4 v0 = vectors[0];
#if HAS_LOW
        centre_mass = MAKE_REAL4((centre.x - box->centre_x) + v0.y, (centre.y - box->centre_y) + v0.z,
            (centre.z - box->centre_z) + v0.w, v0.x);
#else
        centre_mass = MAKE_REAL4(centre.x, centre.y, centre.z, v0.x);
#endif
#if ORDER >= 2
        v1 = vectors[1];
        v2 = vectors[2];
#endif
#if ORDER >= 3
        v3 = vectors[3];
        v4 = vectors[4];
#endif
    }
    WARP_BARRIER();
    SHARED_POINTER REAL4* entry = tile + LANE * TILE_VECTORS;
    entry[0] = centre_mass;
#if ORDER >= 2
    const REAL minus_h = (REAL)-1.5 * (v1.x + v1.w + v2.y);
    entry[1] = MAKE_REAL4(3 * v1.x, 3 * v1.y, 3 * v1.z, 3 * v1.w);
#endif
#if ORDER == 2
    entry[2] = MAKE_REAL4(3 * v2.x, 3 * v2.y, minus_h, 0);
#elif ORDER == 3
    const REAL f = (REAL)7.5, g = (REAL)1.5;
    entry[2] = MAKE_REAL4(3 * v2.x, 3 * v2.y, minus_h, g * (v2.z + v3.y + v3.w));
    entry[3] = MAKE_REAL4(g * (v2.w + v4.x + v4.z), g * (v3.x + v4.y + v4.w), f * v2.z, f * v2.w);
    entry[4] = MAKE_REAL4(f * v3.x, f * v3.y, f * v3.z, f * v3.w);
    entry[5] = MAKE_REAL4(f * v4.x, f * v4.y, f * v4.z, f * v4.w);
#endif
}

#if ORDER == 1
// Adds the field of one cell of the tile at `target`.
FUNCTION void add_cell(Field* field, SHARED_POINTER const REAL4* entry, const Target* target, REAL eps2)
{
    const REAL4 source = entry[0];
    const REAL x = source.x - target->x, y = source.y - target->y, z = source.z - target->z;
    const REAL u = REAL_RSQRT(REAL_FMA(x, x, REAL_FMA(y, y, REAL_FMA(z, z, eps2))));
    const REAL u2 = u * u, u3 = u * u2;
    const REAL weight = source.w * u3;
    field->x = REAL_FMA(weight, x, field->x);
    field->y = REAL_FMA(weight, y, field->y);
    field->z = REAL_FMA(weight, z, field->z);
#if POTENTIAL
    field->potential = REAL_FMA(-source.w, u, field->potential);
#endif
}
#else

// Multipole terms of one cell in the formula of the header.
typedef struct {
    REAL radial;    // factor of u² x, besides m
    REAL x, y, z;   // Qx + t - u² Oxx
    REAL potential; // factor of u² in the potential, besides m
} Multipole;

#if ORDER == 3
// Adds the octupole terms of a cell of the tile. (x, y, z) points from the target to the cell.
FUNCTION void add_octupole(Multipole* sum, SHARED_POINTER const REAL4* entry, REAL tx, REAL x, REAL y, REAL z,
    REAL u2)
{
    const REAL4 v3 = entry[3], v4 = entry[4], v5 = entry[5];
    const REAL ty = v3.x, tz = v3.y;
    const REAL Oxxx = v3.z, Oxxy = v3.w, Oxxz = v4.x, Oxyy = v4.y, Oxyz = v4.z, Oxzz = v4.w;
    const REAL Oyyy = v5.x, Oyyz = v5.y, Oyzz = v5.z, Ozzz = v5.w;
    // The symmetric matrix Ox.
    const REAL xx = REAL_FMA(Oxxx, x, REAL_FMA(Oxxy, y, Oxxz * z)),
               xy = REAL_FMA(Oxxy, x, REAL_FMA(Oxyy, y, Oxyz * z)),
               xz = REAL_FMA(Oxxz, x, REAL_FMA(Oxyz, y, Oxzz * z)),
               yy = REAL_FMA(Oxyy, x, REAL_FMA(Oyyy, y, Oyyz * z)),
               yz = REAL_FMA(Oxyz, x, REAL_FMA(Oyyz, y, Oyzz * z)),
               zz = REAL_FMA(Oxzz, x, REAL_FMA(Oyzz, y, Ozzz * z));
    // Oxx, u⁴ Oxxx and u² tx.
    const REAL oxx_x = REAL_FMA(xx, x, REAL_FMA(xy, y, xz * z)),
               oxx_y = REAL_FMA(xy, x, REAL_FMA(yy, y, yz * z)),
               oxx_z = REAL_FMA(xz, x, REAL_FMA(yz, y, zz * z));
    const REAL oxxx = u2 * (u2 * REAL_FMA(oxx_x, x, REAL_FMA(oxx_y, y, oxx_z * z))),
               t_dot_x = u2 * REAL_FMA(tx, x, REAL_FMA(ty, y, tz * z));
    sum->radial += REAL_FMA((REAL)5, t_dot_x, (REAL)(-7.0 / 3.0) * oxxx);
    sum->x += REAL_FMA(-u2, oxx_x, tx);
    sum->y += REAL_FMA(-u2, oxx_y, ty);
    sum->z += REAL_FMA(-u2, oxx_z, tz);
#if POTENTIAL
    sum->potential += REAL_FMA((REAL)(-1.0 / 3.0), oxxx, t_dot_x);
#endif
}
#endif

// Adds the field of one cell of the tile at `target`.
FUNCTION void add_cell(Field* field, SHARED_POINTER const REAL4* entry, const Target* target, REAL eps2)
{
    const REAL4 source = entry[0];
    const REAL x = source.x - target->x, y = source.y - target->y, z = source.z - target->z;
    const REAL u = REAL_RSQRT(REAL_FMA(x, x, REAL_FMA(y, y, REAL_FMA(z, z, eps2))));
    const REAL u2 = u * u, u3 = u * u2;
    const REAL4 v1 = entry[1], v2 = entry[2];
    const REAL Qxx = v1.x, Qxy = v1.y, Qxz = v1.z, Qyy = v1.w, Qyz = v2.x, Qzz = v2.y, minus_h = v2.z;
    Multipole sum;
    sum.x = REAL_FMA(Qxx, x, REAL_FMA(Qxy, y, Qxz * z));
    sum.y = REAL_FMA(Qxy, x, REAL_FMA(Qyy, y, Qyz * z));
    sum.z = REAL_FMA(Qxz, x, REAL_FMA(Qyz, y, Qzz * z));
    const REAL xqx = u2 * REAL_FMA(sum.x, x, REAL_FMA(sum.y, y, sum.z * z));
    sum.radial = REAL_FMA((REAL)2.5, xqx, minus_h);
#if POTENTIAL
    sum.potential = REAL_FMA((REAL)0.5, xqx, minus_h * (REAL)(1.0 / 3.0));
#endif
#if ORDER == 3
    add_octupole(&sum, entry, v2.w, x, y, z, u2);
#endif
    const REAL radial = REAL_FMA(u2, sum.radial, source.w) * u3;
    const REAL minus_u5 = -u2 * u3;
    field->x = REAL_FMA(radial, x, REAL_FMA(minus_u5, sum.x, field->x));
    field->y = REAL_FMA(radial, y, REAL_FMA(minus_u5, sum.y, field->y));
    field->z = REAL_FMA(radial, z, REAL_FMA(minus_u5, sum.z, field->z));
#if POTENTIAL
    field->potential = REAL_FMA(-u, REAL_FMA(u2, sum.potential, source.w), field->potential);
#endif
}
#endif

// Returns the field of up to WARP_SIZE cells at each lane's target. Each of the first `count` lanes
// brings one of them, `cell`.
FUNCTION Field sum_cells(uint cell, uint count, const Target* target, const Box* box, REAL eps2,
    const Tree* tree, SHARED_POINTER REAL4* tile)
{
    load_cell(cell, count, box, tree, tile);
    WARP_BARRIER();
    Field field = {0};
    const int padded = ((int)count + 3) & ~3;
    UNROLL(UNROLL_CELLS)
    for (int entry = 0; entry < padded; entry++)
        add_cell(&field, tile + entry * TILE_VECTORS, target, eps2);
    return field;
}
