// Grid of points and the term of one charge, shared by all kernels of the experiment.
//
// Point (i, j, k) has the coordinates x0 + i h, y0 + j h, z0 + k h, each rounded once. Its
// potential is element i + nx (j + ny k). There are at most 2^30 points.
//
// Defined by the host (mod.rs): EPS2, the square that keeps the term of a charge at a point finite.

// Parameters of a kernel that describe the grid.
#define POINT_GRID int nx, int ny, int nz, float x0, float y0, float z0, float h

// Returns the coordinate of the points with this index.
FUNCTION float coordinate_of(int index, float origin, float h)
{
    return FMA((float)index, h, origin);
}

// Returns dy² + dz² + EPS2 for a charge, which is the same for all points of a row.
FUNCTION float row_distance2(float4 charge, float y, float z)
{
    const float dy = y - charge.y;
    const float dz = z - charge.z;
    return FMA(dy, dy, FMA(dz, dz, EPS2));
}

// Adds q / r for one charge and one point.
FUNCTION float add_term(float sum, float4 charge, float x, float distance2)
{
    const float dx = x - charge.x;
    return FMA(charge.w, RSQRT(FMA(dx, dx, distance2)), sum);
}
