// Mass, centre and moments of cells, from the last generation to the first: leaves from their bodies, other
// cells from their children, in order. Sums are taken in f64; what is kept between generations is REAL.

typedef struct {
    double m, x, y, z;
#if ORDER >= 2
    double xx, xy, xz, yy, yz, zz;
#endif
#if ORDER >= 3
    double xxx, xxy, xxz, xyy, xyz, xzz, yyy, yyz, yzz, zzz;
#endif
} Moments;

// Adds what a mass, with its own moments `o`, has about a centre that lies -(x, y, z) away.
FUNCTION void add_moments(Moments* to, const Moments* o, double x, double y, double z)
{
#if ORDER >= 2
    const double m = o->m;
    to->xx += o->xx + m * x * x;
    to->xy += o->xy + m * x * y;
    to->xz += o->xz + m * x * z;
    to->yy += o->yy + m * y * y;
    to->yz += o->yz + m * y * z;
    to->zz += o->zz + m * z * z;
#endif
#if ORDER >= 3
    to->xxx += o->xxx + 3.0 * x * o->xx + m * x * x * x;
    to->xxy += o->xxy + y * o->xx + 2.0 * x * o->xy + m * x * x * y;
    to->xxz += o->xxz + z * o->xx + 2.0 * x * o->xz + m * x * x * z;
    to->xyy += o->xyy + x * o->yy + 2.0 * y * o->xy + m * x * y * y;
    to->xyz += o->xyz + x * o->yz + y * o->xz + z * o->xy + m * x * y * z;
    to->xzz += o->xzz + x * o->zz + 2.0 * z * o->xz + m * x * z * z;
    to->yyy += o->yyy + 3.0 * y * o->yy + m * y * y * y;
    to->yyz += o->yyz + z * o->yy + 2.0 * y * o->yz + m * y * y * z;
    to->yzz += o->yzz + y * o->zz + 2.0 * z * o->yz + m * y * z * z;
    to->zzz += o->zzz + 3.0 * z * o->zz + m * z * z * z;
#endif
}

FUNCTION Moments body_moments(GLOBAL const REAL4* high, GLOBAL const REAL4* low, uint i)
{
    Moments o = {0};
    const REAL4 h = high[i];
    o.x = h.x;
    o.y = h.y;
    o.z = h.z;
    o.m = h.w;
#if HAS_LOW
    const REAL4 l = low[i];
    o.x += l.x;
    o.y += l.y;
    o.z += l.z;
#endif
    return o;
}

FUNCTION Moments cell_moments(GLOBAL const REAL4* reach, GLOBAL const REAL4* records, uint c)
{
    Moments o = {0};
    const REAL4 centre = reach[c], first = records[(ulong)c * RECORD];
    o.m = first.x;
    o.x = (double)centre.x + (double)first.y;
    o.y = (double)centre.y + (double)first.z;
    o.z = (double)centre.z + (double)first.w;
#if ORDER >= 2
    const REAL4 second = records[(ulong)c * RECORD + 1], third = records[(ulong)c * RECORD + 2];
    o.xx = second.x;
    o.xy = second.y;
    o.xz = second.z;
    o.yy = second.w;
    o.yz = third.x;
    o.zz = third.y;
#endif
#if ORDER >= 3
    const REAL4 fourth = records[(ulong)c * RECORD + 3], fifth = records[(ulong)c * RECORD + 4];
    o.xxx = third.z;
    o.xxy = third.w;
    o.xxz = fourth.x;
    o.xyy = fourth.y;
    o.xyz = fourth.z;
    o.xzz = fourth.w;
    o.yyy = fifth.x;
    o.yyz = fifth.y;
    o.yzz = fifth.z;
    o.zzz = fifth.w;
#endif
    return o;
}

// The middle, along one axis, of the cell of side `side` that holds x.
FUNCTION double middle_of(double x, double corner, double side)
{
    return corner + (floor((x - corner) / side) + 0.5) * side;
}

KERNEL(BLOCK_SIZE)
find_moments(int generation, double theta, int is_relative, GLOBAL const double* RESTRICT frame,
    GLOBAL const uint* RESTRICT counts, GLOBAL const uint* RESTRICT begin, GLOBAL const uint* RESTRICT end,
    GLOBAL const uint* RESTRICT child, GLOBAL const uchar* RESTRICT level, GLOBAL const REAL4* RESTRICT high,
    GLOBAL const REAL4* RESTRICT low, GLOBAL REAL4* reach, GLOBAL REAL4* records, GLOBAL float* RESTRICT relative)
{
    const uint total = counts[generation], first = first_of(counts, generation);
    for (uint k = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD; k < total; k += (uint)BLOCK_COUNT * BLOCK_SIZE) {
        const uint c = first + k, children = child[c];
        const int is_leaf = children == LEAF;
        const uint from = is_leaf ? begin[c] : children >> 3, to = is_leaf ? end[c] : from + (children & 7) + 1;
        // The centre is counted from the first part: massless cells have one too, and digits stay.
        Moments sum = {0};
        const Moments start = is_leaf ? body_moments(high, low, from) : cell_moments(reach, records, from);
        double x = 0.0, y = 0.0, z = 0.0;
        for (uint i = from; i < to; i++) {
            const Moments part = is_leaf ? body_moments(high, low, i) : cell_moments(reach, records, i);
            sum.m += part.m;
            x += part.m * (part.x - start.x);
            y += part.m * (part.y - start.y);
            z += part.m * (part.z - start.z);
        }
        const double per_mass = sum.m > 0.0 ? 1.0 / sum.m : 0.0;
        sum.x = start.x + x * per_mass;
        sum.y = start.y + y * per_mass;
        sum.z = start.z + z * per_mass;
        for (uint i = from; i < to; i++) {
            const Moments part = is_leaf ? body_moments(high, low, i) : cell_moments(reach, records, i);
            add_moments(&sum, &part, part.x - sum.x, part.y - sum.y, part.z - sum.z);
        }
        // Any of its bodies tells where the cell lies.
        const double side = ldexp(frame[8], -(int)level[c]);
        const uint any = begin[c];
        const Moments body = body_moments(high, low, any);
        const double ex = frame[13] - 0.5 * frame[8], ey = frame[14] - 0.5 * frame[8], ez = frame[15] - 0.5 * frame[8];
        const double ox = sum.x - middle_of(body.x, ex, side), oy = sum.y - middle_of(body.y, ey, side),
                     oz = sum.z - middle_of(body.z, ez, side);
        const double near = side / theta + SQRT64(ox * ox + oy * oy + oz * oz);
        reach[c] = MAKE4(high_part(sum.x), high_part(sum.y), high_part(sum.z), (REAL)(near * near));
        const ulong r = (ulong)c * RECORD;
#if HAS_LOW
        records[r] = MAKE4((REAL)sum.m, low_part(sum.x), low_part(sum.y), low_part(sum.z));
#else
        records[r] = MAKE4((REAL)sum.m, 0, 0, 0);
#endif
#if ORDER >= 2
        records[r + 1] = MAKE4((REAL)sum.xx, (REAL)sum.xy, (REAL)sum.xz, (REAL)sum.yy);
#endif
#if ORDER == 2
        records[r + 2] = MAKE4((REAL)sum.yz, (REAL)sum.zz, 0, 0);
#elif ORDER == 3
        records[r + 2] = MAKE4((REAL)sum.yz, (REAL)sum.zz, (REAL)sum.xxx, (REAL)sum.xxy);
        records[r + 3] = MAKE4((REAL)sum.xxz, (REAL)sum.xyy, (REAL)sum.xyz, (REAL)sum.xzz);
        records[r + 4] = MAKE4((REAL)sum.yyy, (REAL)sum.yyz, (REAL)sum.yzz, (REAL)sum.zzz);
#endif
        if (is_relative)
            relative[c] = (float)pow(sum.m * side * side * side, 0.4);
    }
}
