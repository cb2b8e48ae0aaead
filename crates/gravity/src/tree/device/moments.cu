// Mass, centre of mass and moments of cells, one launch per generation, from the last to the first.
//
// One thread per cell. A leaf sums its bodies, any other cell its children, in index order. Sums
// are in f64. The results that the next generation reads are rounded to REAL.

typedef struct {
    double m, x, y, z;
#if ORDER >= 2
    double xx, xy, xz, yy, yz, zz;
#endif
#if ORDER >= 3
    double xxx, xxy, xxz, xyy, xyz, xzz, yyy, yyz, yzz, zzz;
#endif
} Moments;

// Adds to `sum` the moments `part`, shifted by (x, y, z): from the centre of the sum to that of the
// part.
FUNCTION void add_moments(Moments* sum, const Moments* part, double x, double y, double z)
{
#if ORDER >= 2
    const double m = part->m;
    sum->xx += part->xx + m * x * x;
    sum->xy += part->xy + m * x * y;
    sum->xz += part->xz + m * x * z;
    sum->yy += part->yy + m * y * y;
    sum->yz += part->yz + m * y * z;
    sum->zz += part->zz + m * z * z;
#endif
#if ORDER >= 3
    sum->xxx += part->xxx + 3.0 * x * part->xx + m * x * x * x;
    sum->xxy += part->xxy + y * part->xx + 2.0 * x * part->xy + m * x * x * y;
    sum->xxz += part->xxz + z * part->xx + 2.0 * x * part->xz + m * x * x * z;
    sum->xyy += part->xyy + x * part->yy + 2.0 * y * part->xy + m * x * y * y;
    sum->xyz += part->xyz + x * part->yz + y * part->xz + z * part->xy + m * x * y * z;
    sum->xzz += part->xzz + x * part->zz + 2.0 * z * part->xz + m * x * z * z;
    sum->yyy += part->yyy + 3.0 * y * part->yy + m * y * y * y;
    sum->yyz += part->yyz + z * part->yy + 2.0 * y * part->yz + m * y * y * z;
    sum->yzz += part->yzz + y * part->zz + 2.0 * z * part->yz + m * y * z * z;
    sum->zzz += part->zzz + 3.0 * z * part->zz + m * z * z * z;
#endif
}

// Returns a body as a cell whose second and third moments are 0.
FUNCTION Moments read_body(GLOBAL const REAL4* high, GLOBAL const REAL4* low, uint body)
{
    Moments result = {0};
    const REAL4 h = high[body];
    result.x = h.x;
    result.y = h.y;
    result.z = h.z;
    result.m = h.w;
#if HAS_LOW
    const REAL4 l = low[body];
    result.x += l.x;
    result.y += l.y;
    result.z += l.z;
#endif
    return result;
}

FUNCTION Moments read_cell(GLOBAL const REAL4* centres, GLOBAL const REAL4* moments, uint cell)
{
    Moments result = {0};
    const REAL4 centre = centres[cell], v0 = moments[(ulong)cell * MOMENT_VECTORS];
    result.m = v0.x;
    result.x = (double)centre.x + (double)v0.y;
    result.y = (double)centre.y + (double)v0.z;
    result.z = (double)centre.z + (double)v0.w;
#if ORDER >= 2
    const REAL4 v1 = moments[(ulong)cell * MOMENT_VECTORS + 1],
                v2 = moments[(ulong)cell * MOMENT_VECTORS + 2];
    result.xx = v1.x;
    result.xy = v1.y;
    result.xz = v1.z;
    result.yy = v1.w;
    result.yz = v2.x;
    result.zz = v2.y;
#endif
#if ORDER >= 3
    const REAL4 v3 = moments[(ulong)cell * MOMENT_VECTORS + 3],
                v4 = moments[(ulong)cell * MOMENT_VECTORS + 4];
    result.xxx = v2.z;
    result.xxy = v2.w;
    result.xxz = v3.x;
    result.xyy = v3.y;
    result.xyz = v3.z;
    result.xzz = v3.w;
    result.yyy = v4.x;
    result.yyz = v4.y;
    result.yzz = v4.z;
    result.zzz = v4.w;
#endif
    return result;
}

// Writes the moments of a cell, except its centre. `layout.cu` describes the vectors.
FUNCTION void write_moments(GLOBAL REAL4* moments, uint cell, const Moments* sum)
{
    const ulong first = (ulong)cell * MOMENT_VECTORS;
#if HAS_LOW
    moments[first] = MAKE_REAL4((REAL)sum->m, low_part(sum->x), low_part(sum->y), low_part(sum->z));
#else
    moments[first] = MAKE_REAL4((REAL)sum->m, 0, 0, 0);
#endif
#if ORDER >= 2
    moments[first + 1] = MAKE_REAL4((REAL)sum->xx, (REAL)sum->xy, (REAL)sum->xz, (REAL)sum->yy);
#endif
#if ORDER == 2
    moments[first + 2] = MAKE_REAL4((REAL)sum->yz, (REAL)sum->zz, 0, 0);
#elif ORDER == 3
    moments[first + 2] = MAKE_REAL4((REAL)sum->yz, (REAL)sum->zz, (REAL)sum->xxx, (REAL)sum->xxy);
    moments[first + 3] = MAKE_REAL4((REAL)sum->xxz, (REAL)sum->xyy, (REAL)sum->xyz, (REAL)sum->xzz);
    moments[first + 4] = MAKE_REAL4((REAL)sum->yyy, (REAL)sum->yyz, (REAL)sum->yzz, (REAL)sum->zzz);
#endif
}

// Returns the centre, along one axis, of the cell with side `side` that contains x.
FUNCTION double cell_middle(double x, double corner, double side)
{
    return corner + (floor((x - corner) / side) + 0.5) * side;
}

// Returns the distance within which a cell is opened: l / theta + δ, with side l and distance δ
// from the cell's geometric centre to its centre of mass (Barnes 1994). `body` is any body of the
// cell.
FUNCTION double opening_distance(const Moments* sum, const Moments* body, double side, double theta,
    GLOBAL const double* RESTRICT frame)
{
    const double corner_x = frame[FRAME_MIDDLE] - 0.5 * frame[FRAME_SIDE],
                 corner_y = frame[FRAME_MIDDLE + 1] - 0.5 * frame[FRAME_SIDE],
                 corner_z = frame[FRAME_MIDDLE + 2] - 0.5 * frame[FRAME_SIDE];
    const double dx = sum->x - cell_middle(body->x, corner_x, side),
                 dy = sum->y - cell_middle(body->y, corner_y, side),
                 dz = sum->z - cell_middle(body->z, corner_z, side);
    return side / theta + SQRT64(dx * dx + dy * dy + dz * dz);
}

// With `is_relative` also writes relative_limits[cell] = (M l³)^(2/5) for the relative acceptance.
KERNEL(BLOCK_SIZE)
find_moments(int generation, double theta, int is_relative, GLOBAL const double* RESTRICT frame,
    GLOBAL const uint* RESTRICT counts, GLOBAL const uint* RESTRICT begin, GLOBAL const uint* RESTRICT end,
    GLOBAL const uint* RESTRICT children, GLOBAL const uchar* RESTRICT level,
    GLOBAL const REAL4* RESTRICT high, GLOBAL const REAL4* RESTRICT low, GLOBAL REAL4* centres,
    GLOBAL REAL4* moments, GLOBAL float* RESTRICT relative_limits)
{
    const uint total = counts[generation], first = first_cell(counts, generation);
    for (uint k = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD; k < total;
         k += (uint)BLOCK_COUNT * BLOCK_SIZE) {
        const uint cell = first + k, cell_children = children[cell];
        const int is_leaf_cell = cell_children == LEAF;
        const uint first_part = is_leaf_cell ? begin[cell] : cell_children >> 3,
                   parts_end = is_leaf_cell ? end[cell] : first_part + (cell_children & 7) + 1;
        Moments sum = {0};
        // The centre is summed relative to the first part. Massless cells then have a centre too,
        // and cells far from the origin lose no digits.
        const Moments reference =
            is_leaf_cell ? read_body(high, low, first_part) : read_cell(centres, moments, first_part);
        double x = 0.0, y = 0.0, z = 0.0;
        for (uint i = first_part; i < parts_end; i++) {
            const Moments part = is_leaf_cell ? read_body(high, low, i) : read_cell(centres, moments, i);
            sum.m += part.m;
            x += part.m * (part.x - reference.x);
            y += part.m * (part.y - reference.y);
            z += part.m * (part.z - reference.z);
        }
        const double inv_mass = sum.m > 0.0 ? 1.0 / sum.m : 0.0;
        sum.x = reference.x + x * inv_mass;
        sum.y = reference.y + y * inv_mass;
        sum.z = reference.z + z * inv_mass;
        for (uint i = first_part; i < parts_end; i++) {
            const Moments part = is_leaf_cell ? read_body(high, low, i) : read_cell(centres, moments, i);
            add_moments(&sum, &part, part.x - sum.x, part.y - sum.y, part.z - sum.z);
        }
        const double side = ldexp(frame[FRAME_SIDE], -(int)level[cell]);
        const Moments body = read_body(high, low, begin[cell]);
        const double distance = opening_distance(&sum, &body, side, theta, frame);
        centres[cell] =
            MAKE_REAL4(high_part(sum.x), high_part(sum.y), high_part(sum.z), (REAL)(distance * distance));
        write_moments(moments, cell, &sum);
        if (is_relative)
            relative_limits[cell] = (float)pow(sum.m * side * side * side, 0.4);
    }
}
