// Near bodies of the tree walk in mixed precision: differences of coordinates as exact as those in
// f64, with operations in f32.
//
// Coordinates of a tile are relative to the first body of the group and in a unit in which they are
// at most 1. Each is computed in f64 and divided into three parts:
//
//   high     a multiple of 2^-20
//   middle   a multiple of 2^-43, at most 2^-21
//   low      the rest, at most 2^-44, rounded to f32
//
// Differences of high parts and of middle parts are exact in f32. Their sum is exact where they
// nearly cancel, so the sum of all three has an error of 2^-24 of itself, or of 2^-68 of the unit.
// A body costs 25 operations per target instead of 13.

#if HAS_NEAR

// Returns whether a body at `position` is near the box.
FUNCTION int is_near_body(REAL4 position, const Box* box)
{
    const float dx = MAX(fabs(position.x - box->centre_x) - box->half_x, 0.0f),
                dy = MAX(fabs(position.y - box->centre_y) - box->half_y, 0.0f),
                dz = MAX(fabs(position.z - box->centre_z) - box->half_z, 0.0f);
    return FMA(dx, dx, FMA(dy, dy, dz * dz)) <= box->near2;
}

// The three parts of a position, and the mass of the body in high.w.
typedef struct {
    float4 high, middle, low;
} NearPosition;

// Unit of length of the tile: `scale` converts from scaled lengths.
typedef struct {
    double user_scale; // converts from the user's lengths
    float scale;       // a power of two
} NearUnit;

// Returns the unit in which all near bodies are within 1 of each body of the group.
FUNCTION NearUnit near_unit(const Box* box, GLOBAL const double* RESTRICT frame)
{
    // Two near bodies are at most 2 half sides and two margins apart, and `near2` is not 0.
    const float extent = MAX(MAX(box->half_x, box->half_y), box->half_z) + SQRT(box->near2);
    NearUnit unit;
    // 2^(-e - 3) for extents from 2^e on, from the bits of the exponent.
    unit.scale = UINT_AS_FLOAT((251u - (FLOAT_AS_UINT(extent) >> 23)) << 23);
    unit.user_scale = frame[FRAME_LENGTH_SCALE] * (double)unit.scale;
    return unit;
}

// Divides a coordinate into three parts, the elements 0 to 2 of `parts`.
FUNCTION void divide_coordinate(float* parts, double coordinate)
{
    const double high = rint(coordinate * 1048576.0) * (1.0 / 1048576.0), rest = coordinate - high;
    const double middle = rint(rest * 8796093022208.0) * (1.0 / 8796093022208.0);
    parts[0] = (float)high;
    parts[1] = (float)middle;
    parts[2] = (float)(rest - middle);
}

// Returns the position of the body with index `body` in the user's order, relative to the body
// `origin`. The mass is 0.
FUNCTION NearPosition near_position(uint body, uint origin, const Tree* tree, double user_scale)
{
    float x[3], y[3], z[3];
    divide_coordinate(x, (tree->x[body] - tree->x[origin]) * user_scale);
    divide_coordinate(y, (tree->y[body] - tree->y[origin]) * user_scale);
    divide_coordinate(z, (tree->z[body] - tree->z[origin]) * user_scale);
    const NearPosition position = { FLOAT4(x[0], y[0], z[0], 0.0f), FLOAT4(x[1], y[1], z[1], 0.0f),
        FLOAT4(x[2], y[2], z[2], 0.0f) };
    return position;
}

// Adds the field of one near body of the tile at `target`. Adds 0 if `is_self`.
FUNCTION void add_near_body(Field* field, SHARED_POINTER const float4* source, const NearPosition* target,
    float eps2, int is_self)
{
    const float4 high = source[0], middle = source[1], low = source[2];
    const float x = ((high.x - target->high.x) + (middle.x - target->middle.x)) + (low.x - target->low.x),
                y = ((high.y - target->high.y) + (middle.y - target->middle.y)) + (low.y - target->low.y),
                z = ((high.z - target->high.z) + (middle.z - target->middle.z)) + (low.z - target->low.z);
    const float rho2 = FMA(x, x, FMA(y, y, FMA(z, z, eps2)));
    const float inv_r = RSQRT(is_self ? 1.0f : rho2), mass = is_self ? 0.0f : high.w;
    const float weight = mass * inv_r * (inv_r * inv_r);
    field->x = FMA(weight, x, field->x);
    field->y = FMA(weight, y, field->y);
    field->z = FMA(weight, z, field->z);
#if POTENTIAL
    field->potential = FMA(-mass, inv_r, field->potential);
#endif
}

// Adds the field of up to WARP_SIZE near bodies at each lane's target. Each of the first `count`
// lanes brings one of them, `body`.
FUNCTION void add_near_bodies(FieldSum* sums, uint body, uint count, const Target* target, const Box* box,
    const Tree* tree, GLOBAL const double* RESTRICT frame, const Workspace* work)
{
    const NearUnit unit = near_unit(box, frame);
    const uint origin = tree->order[box->first];
    WARP_BARRIER();
    if ((uint)LANE < count) {
        const NearPosition source = near_position(tree->order[body], origin, tree, unit.user_scale);
        SHARED_POINTER float4* entry = work->tile + LANE * NEAR_VECTORS;
        entry[0] = FLOAT4(source.high.x, source.high.y, source.high.z, tree->high[body].w);
        entry[1] = source.middle;
        entry[2] = source.low;
        work->tile_bodies[LANE] = body;
    }
    WARP_BARRIER();
    const NearPosition own = near_position(tree->order[target->body], origin, tree, unit.user_scale);
    const float eps2 = (float)frame[FRAME_EPS2] * (unit.scale * unit.scale);
    Field field = {0};
    UNROLL(2)
    for (int entry = 0; entry < (int)count; entry++)
        add_near_body(&field, work->tile + entry * NEAR_VECTORS, &own, eps2,
            work->tile_bodies[entry] == target->body);
    const double scale = (double)unit.scale;
    sums->x += scale * scale * (double)field.x;
    sums->y += scale * scale * (double)field.y;
    sums->z += scale * scale * (double)field.z;
#if POTENTIAL
    sums->potential += scale * (double)field.potential;
#endif
}

#endif
