// Computes the frame of a sum over all pairs: the origin and the units in which the kernels
// compute.
//
// The frame is computed from the positions in every evaluation, so forces depend on the bodies
// alone. The origin is the median of a sample of the positions. The length unit is the median
// distance of the sample from the origin. Medians ignore bodies far out. All scales are powers of
// two, so scaling changes no digit. (In f32, a body more than 1e11 times as far out as the others
// feels no force, because its acceleration underflows.)
//
// In f64 (`centred` is 0) the origin is (0, 0, 0), because a shift would only add rounding errors.

#define FRAME_SAMPLE 32 // bodies in the sample; at most the smallest block size

// Limit of scaled coordinates. Squared distances stay finite in f32, and forces over such distances
// are zero.
#define MAX_COORDINATE 1e18

// Returns the exponent of the largest power of two that is at most x. Returns 0 for x outside
// 1e-300 .. 1e300, for example for 0, infinity and NaN.
FUNCTION int power_of_two_below(double x)
{
    return x > 1e-300 && x < 1e300 ? ilogb(x) : 0;
}

// Limits a scaled coordinate to +-MAX_COORDINATE. NaN stays NaN.
FUNCTION double clamp_coordinate(double x)
{
    return x > MAX_COORDINATE ? MAX_COORDINATE : x < -MAX_COORDINATE ? -MAX_COORDINATE : x;
}

// Copies the position of this thread's sample body to `position` and to `sample` (x, then y, then
// z). The first FRAME_SAMPLE threads take part. Bodies are sampled at equal spacing in index.
FUNCTION void load_sample(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, int n, SHARED_POINTER double* sample, double* position)
{
    if (THREAD < FRAME_SAMPLE) {
        const int wanted = n < FRAME_SAMPLE ? THREAD : (int)((ulong)n * (ulong)THREAD / FRAME_SAMPLE);
        const int body = wanted < n ? wanted : n - 1;
        position[0] = x[body];
        position[1] = y[body];
        position[2] = z[body];
        sample[THREAD] = position[0];
        sample[FRAME_SAMPLE + THREAD] = position[1];
        sample[2 * FRAME_SAMPLE + THREAD] = position[2];
    }
}

// Writes the median of the sample along each axis to the frame's origin. The thread whose
// coordinate has the middle rank writes it. Equal coordinates rank in thread order, so exactly one
// thread writes.
FUNCTION void write_median_position(
    SHARED_POINTER const double* sample, int count, const double* position, SHARED_POINTER double* frame)
{
    int rank_x = 0, rank_y = 0, rank_z = 0;
    UNROLL(4)
    for (int other = 0; other < count; other++) {
        const double other_x = sample[other], other_y = sample[FRAME_SAMPLE + other],
                     other_z = sample[2 * FRAME_SAMPLE + other];
        const int is_before = other < THREAD;
        rank_x += other_x < position[0] || (other_x == position[0] && is_before);
        rank_y += other_y < position[1] || (other_y == position[1] && is_before);
        rank_z += other_z < position[2] || (other_z == position[2] && is_before);
    }
    const int middle = (count - 1) / 2;
    if (rank_x == middle)
        frame[FRAME_ORIGIN] = position[0];
    if (rank_y == middle)
        frame[FRAME_ORIGIN + 1] = position[1];
    if (rank_z == middle)
        frame[FRAME_ORIGIN + 2] = position[2];
}

// Writes the median of `distances` to the slot FRAME_LENGTH_SCALE, which `write_scales` replaces.
FUNCTION void write_median_distance(
    SHARED_POINTER const double* distances, int count, double distance, SHARED_POINTER double* frame)
{
    int rank = 0;
    UNROLL(4)
    for (int other = 0; other < count; other++)
        rank += distances[other] < distance || (distances[other] == distance && other < THREAD);
    // The upper median: of two bodies, the one that is not the origin.
    if (rank == count / 2)
        frame[FRAME_LENGTH_SCALE] = distance;
}

// Replaces the median distance by the scales and the units that follow from it.
FUNCTION void write_scales(double g, double eps, double total_mass, SHARED_POINTER double* frame)
{
    const int length = power_of_two_below(MAX64(frame[FRAME_LENGTH_SCALE], eps)),
              mass = power_of_two_below(total_mass);
    const double scaled_eps = ldexp(eps, -length);
    frame[FRAME_LENGTH_SCALE] = ldexp(1.0, -length);
    frame[FRAME_MASS_SCALE] = ldexp(1.0, -mass);
    frame[FRAME_EPS2] = scaled_eps * scaled_eps;
    frame[FRAME_ACCELERATION_UNIT] = ldexp(g, mass - 2 * length);
    frame[FRAME_POTENTIAL_UNIT] = ldexp(g, mass - length);
}

// Computes the frame. All threads of the block must call it. `scratch` has 4 * FRAME_SAMPLE
// elements, `frame` has FRAME_UNIT_SLOTS.
FUNCTION void find_frame_in_block(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, int n, double g, double eps, double total_mass, int centred,
    SHARED_POINTER double* scratch, SHARED_POINTER double* frame)
{
    SHARED_POINTER double* distances = scratch + 3 * FRAME_SAMPLE;
    const int count = n < FRAME_SAMPLE ? n : FRAME_SAMPLE;
    double position[3] = { 0.0, 0.0, 0.0 };
    load_sample(x, y, z, n, scratch, position);
    // If no thread has the middle rank, for example because positions are NaN, the origin and the
    // median distance stay 0. Lengths are then in units of the softening, or not scaled without it.
    if (THREAD < FRAME_UNIT_SLOTS)
        frame[THREAD] = 0.0;
    BARRIER();
    if (centred && THREAD < count)
        write_median_position(scratch, count, position, frame);
    BARRIER();
    double distance = 0.0;
    if (THREAD < FRAME_SAMPLE) {
        distance = MAX64(fabs(position[0] - frame[FRAME_ORIGIN]),
            MAX64(fabs(position[1] - frame[FRAME_ORIGIN + 1]), fabs(position[2] - frame[FRAME_ORIGIN + 2])));
        distances[THREAD] = distance;
    }
    BARRIER();
    if (THREAD < count)
        write_median_distance(distances, count, distance, frame);
    BARRIER();
    if (THREAD == 0)
        write_scales(g, eps, total_mass, frame);
    BARRIER();
}

KERNEL(FRAME_SAMPLE)
find_frame(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    int n, double g, double eps, double total_mass, GLOBAL double* RESTRICT frame_out)
{
    SHARED double scratch[4 * FRAME_SAMPLE];
    SHARED double frame[FRAME_UNIT_SLOTS];
    find_frame_in_block(x, y, z, n, g, eps, total_mass, 1, scratch, frame);
    if (THREAD < FRAME_UNIT_SLOTS)
        frame_out[THREAD] = frame[THREAD];
}
