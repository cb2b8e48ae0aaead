// Frame, Hilbert keys, and bodies in the order of their keys.

#define DOUBLE_MAX 1.7976931348623157e308

// Writes the frame of bodies with coordinates from `low` to `high`.
FUNCTION void write_frame(GLOBAL double* frame, const double* low, const double* high, double g, double eps,
    double total_mass)
{
    const double widest = MAX64(MAX64(high[0] - low[0], high[1] - low[1]), high[2] - low[2]);
    const double side = widest > 0.0 ? widest : 1.0;
    const int length_exponent = ilogb(MAX64(side, eps)) + 1;
    const int mass_exponent = total_mass > 1e-300 && total_mass < 1e300 ? ilogb(total_mass) : 0;
    frame[FRAME_LENGTH_SCALE] = ldexp(1.0, -length_exponent);
    for (int axis = 0; axis < 3; axis++) {
        const double middle = low[axis] + 0.5 * side;
        frame[FRAME_ORIGIN + axis] = PRECISION == PRECISION_DOUBLE ? 0.0 : middle;
        frame[FRAME_CORNER + axis] = low[axis];
        frame[FRAME_MIDDLE + axis] = (middle - frame[FRAME_ORIGIN + axis]) * frame[FRAME_LENGTH_SCALE];
    }
    const double scaled_eps = ldexp(eps, -length_exponent), eps2 = scaled_eps * scaled_eps;
    frame[FRAME_CELLS_PER_LENGTH] = (double)(1 << COORDINATE_BITS) / side;
    frame[FRAME_SIDE] = ldexp(side, -length_exponent);
    frame[FRAME_MASS_SCALE] = ldexp(1.0, -mass_exponent);
    // A minimum softening of 1e-12 (f64: 1e-30) of the cube makes the distance of a body from
    // itself nonzero, so its acceleration on itself is 0 and not NaN. In mixed precision the walk
    // leaves the body itself out.
    const double min_eps2 = PRECISION == PRECISION_DOUBLE ? 1e-60 : PRECISION == PRECISION_MIXED ? 0.0 : 1e-24;
    frame[FRAME_EPS2] = MAX64(eps2, min_eps2);
    frame[FRAME_ACCELERATION_UNIT] = ldexp(g, mass_exponent - 2 * length_exponent);
    frame[FRAME_POTENTIAL_UNIT] = ldexp(g, mass_exponent - length_exponent);
}

FUNCTION void clear_bounds(double* low, double* high)
{
    for (int axis = 0; axis < 3; axis++) {
        low[axis] = DOUBLE_MAX;
        high[axis] = -DOUBLE_MAX;
    }
}

// Reduces the bounds of all threads of the block. Afterwards bounds[i * BLOCK_SIZE] is low (i = 0,
// 1, 2) or high (i = 3, 4, 5) of the block.
FUNCTION void reduce_bounds(const double* low, const double* high, SHARED_POINTER double* bounds)
{
    for (int axis = 0; axis < 3; axis++) {
        bounds[axis * BLOCK_SIZE + THREAD] = low[axis];
        bounds[(3 + axis) * BLOCK_SIZE + THREAD] = high[axis];
    }
    BARRIER();
    for (int stride = BLOCK_SIZE / 2; stride > 0; stride >>= 1) {
        if (THREAD < stride)
            for (int axis = 0; axis < 3; axis++) {
                SHARED_POINTER double* lowest = bounds + axis * BLOCK_SIZE + THREAD;
                SHARED_POINTER double* highest = bounds + (3 + axis) * BLOCK_SIZE + THREAD;
                *lowest = MIN64(*lowest, lowest[stride]);
                *highest = MAX64(*highest, highest[stride]);
            }
        BARRIER();
    }
}

// Stores the bounds of this block for the last block, which combines them. `is_last` is set in that
// block.
FUNCTION void publish_bounds(SHARED_POINTER const double* bounds, GLOBAL double* block_bounds,
    GLOBAL uint* counts, SHARED_POINTER uint* is_last)
{
    if (THREAD == 0) {
        for (int i = 0; i < 6; i++)
            block_bounds[BLOCK_INDEX * 6 + i] = bounds[i * BLOCK_SIZE];
        DEVICE_FENCE();
        is_last[0] = ATOMIC_ADD_U32(counts + COUNT_ARRIVED, 1) == (uint)BLOCK_COUNT - 1;
        DEVICE_FENCE();
    }
    BARRIER();
}

// Finds the cube around all bodies and writes the frame and the root cell. Each block reduces its
// share of the bodies, and the last block to finish reduces the results of all blocks.
KERNEL(BLOCK_SIZE)
find_frame(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    uint n, double g, double eps, double total_mass, GLOBAL double* block_bounds, GLOBAL double* frame,
    GLOBAL uint* counts, GLOBAL uint* begin, GLOBAL uint* end, GLOBAL uchar* level)
{
    SHARED double bounds[6 * BLOCK_SIZE];
    SHARED uint is_last[1];
    double low[3], high[3];
    clear_bounds(low, high);
    for (uint i = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD; i < n; i += (uint)BLOCK_COUNT * BLOCK_SIZE) {
        const double px = x[i], py = y[i], pz = z[i];
        low[0] = MIN64(low[0], px);
        low[1] = MIN64(low[1], py);
        low[2] = MIN64(low[2], pz);
        high[0] = MAX64(high[0], px);
        high[1] = MAX64(high[1], py);
        high[2] = MAX64(high[2], pz);
    }
    // Round 0 reduces the bounds of the block's threads, round 1 those of all blocks. A loop,
    // because two calls in a row compile to 1,880 instead of 1,504 instructions (NVRTC 13.0,
    // sm_90).
    for (int round = 0; round < 2; round++) {
        reduce_bounds(low, high, bounds);
        if (round == 0) {
            publish_bounds(bounds, block_bounds, counts, is_last);
            clear_bounds(low, high);
            if (is_last[0])
                for (int block = THREAD; block < BLOCK_COUNT; block += BLOCK_SIZE)
                    for (int axis = 0; axis < 3; axis++) {
                        low[axis] = MIN64(low[axis], block_bounds[block * 6 + axis]);
                        high[axis] = MAX64(high[axis], block_bounds[block * 6 + 3 + axis]);
                    }
            BARRIER();
        }
    }
    if (is_last[0] && THREAD == 0) {
        for (int axis = 0; axis < 3; axis++) {
            low[axis] = bounds[axis * BLOCK_SIZE];
            high[axis] = bounds[(3 + axis) * BLOCK_SIZE];
        }
        write_frame(frame, low, high, g, eps, total_mass);
        // One cell in generation 0, and zeros for the counters of the next evaluation.
        for (int slot = 0; slot < COUNT_SLOTS; slot++)
            counts[slot] = slot == 0;
        begin[0] = 0;
        end[0] = n;
        level[0] = 0;
    }
}

// Inserts two zero bits before each bit of a 21-bit number. For example, 0b11 becomes 0b1001.
FUNCTION ulong spread_bits(ulong x)
{
    x = (x | x << 32) & 0x001f00000000fffful;
    x = (x | x << 16) & 0x001f0000ff0000fful;
    x = (x | x << 8) & 0x100f00f00f00f00ful;
    x = (x | x << 4) & 0x10c30c30c30c30c3ul;
    return (x | x << 2) & 0x1249249249249249ul;
}

// Returns the position on the Hilbert curve of the finest cell (x, y, z) (Skilling 2004, AIP Conf.
// Proc. 707, 381). As with Morton keys, keys that agree in their first 3 k bits are in the same
// cell of level k. Consecutive cells of the Hilbert curve always touch.
FUNCTION ulong hilbert_key(uint x, uint y, uint z)
{
    // Undo the rotations and reflections of each level, from the coarsest down.
    for (uint bit = 1u << (COORDINATE_BITS - 1); bit > 1; bit >>= 1) {
        const uint lower_bits = bit - 1;
        x ^= x & bit ? lower_bits : 0;
        uint swapped = (x ^ y) & lower_bits;
        if (y & bit)
            x ^= lower_bits;
        else {
            x ^= swapped;
            y ^= swapped;
        }
        swapped = (x ^ z) & lower_bits;
        if (z & bit)
            x ^= lower_bits;
        else {
            x ^= swapped;
            z ^= swapped;
        }
    }
    // Gray code.
    y ^= x;
    z ^= y;
    uint flipped = 0;
    for (uint bit = 1u << (COORDINATE_BITS - 1); bit > 1; bit >>= 1)
        flipped ^= z & bit ? bit - 1 : 0;
    return spread_bits(x ^ flipped) << 2 | spread_bits(y ^ flipped) << 1 | spread_bits(z ^ flipped);
}

// Returns the finest cell of a coordinate. The far face of the cube belongs to the last cell, and
// NaN goes to cell 0.
FUNCTION uint finest_cell(double x, double corner, double cells_per_length)
{
    const double cell = (x - corner) * cells_per_length;
    const uint last_cell = (1u << COORDINATE_BITS) - 1;
    return cell > 0.0 ? (cell < (double)((1 << COORDINATE_BITS) - 1) ? (uint)cell : last_cell) : 0;
}

// Writes the key and the index of each body, one thread per body. Both are sorted afterwards.
KERNEL(BLOCK_SIZE)
find_keys(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    uint n, GLOBAL const double* RESTRICT frame, GLOBAL ulong* RESTRICT keys, GLOBAL uint* RESTRICT order)
{
    const uint i = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (i < n) {
        const double scale = frame[FRAME_CELLS_PER_LENGTH];
        keys[i] = hilbert_key(finest_cell(x[i], frame[FRAME_CORNER], scale),
            finest_cell(y[i], frame[FRAME_CORNER + 1], scale),
            finest_cell(z[i], frame[FRAME_CORNER + 2], scale));
        order[i] = i;
    }
}

// Copies the bodies into the order of their keys, in scaled units. high = (position, mass), low =
// (low parts of the position, 0) in mixed precision.
KERNEL(BLOCK_SIZE)
gather_bodies(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const double* RESTRICT mass, uint n,
    GLOBAL const double* RESTRICT frame, GLOBAL const uint* RESTRICT order, GLOBAL REAL4* RESTRICT high,
    GLOBAL REAL4* RESTRICT low)
{
    const uint sorted = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (sorted < n) {
        const uint i = order[sorted];
        const double px = (x[i] - frame[FRAME_ORIGIN]) * frame[FRAME_LENGTH_SCALE],
                     py = (y[i] - frame[FRAME_ORIGIN + 1]) * frame[FRAME_LENGTH_SCALE],
                     pz = (z[i] - frame[FRAME_ORIGIN + 2]) * frame[FRAME_LENGTH_SCALE];
        const REAL scaled_mass = (REAL)(mass[i] * frame[FRAME_MASS_SCALE]);
        high[sorted] = MAKE_REAL4(high_part(px), high_part(py), high_part(pz), scaled_mass);
#if HAS_LOW
        low[sorted] = MAKE_REAL4(low_part(px), low_part(py), low_part(pz), 0.0f);
#endif
    }
}
