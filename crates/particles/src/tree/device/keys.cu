// From positions to keys along Hilbert's curve, and bodies in the order of their keys.

#define FARTHEST 1.7976931348623157e308

// From what the groups found.
FUNCTION void write_frame(GLOBAL double* frame, const double* low, const double* high, double g, double eps,
    double total_mass)
{
    const double wide = MAX64(MAX64(high[0] - low[0], high[1] - low[1]), high[2] - low[2]);
    const double side = wide > 0.0 ? wide : 1.0;
    const int unit = ilogb(MAX64(side, eps)) + 1;
    const int total = total_mass > 1e-300 && total_mass < 1e300 ? ilogb(total_mass) : 0;
    frame[3] = ldexp(1.0, -unit);
    for (int c = 0; c < 3; c++) {
        const double middle = low[c] + 0.5 * side;
        frame[c] = PRECISION == 2 ? 0.0 : middle;
        frame[4 + c] = low[c];
        frame[13 + c] = (middle - frame[c]) * frame[3];
    }
    const double scaled_eps = ldexp(eps, -unit), eps2 = scaled_eps * scaled_eps;
    frame[7] = (double)(1 << BITS) / side;
    frame[8] = ldexp(side, -unit);
    frame[9] = ldexp(1.0, -total);
    // Two bodies nearer than this share of the cube are taken to be so far apart; a body does not pull itself.
    frame[10] = MAX64(eps2, PRECISION == 2 ? 1e-60 : 1e-24);
    frame[11] = ldexp(g, total - 2 * unit);
    frame[12] = ldexp(g, total - unit);
}

// The cube around all bodies: groups find the ends of their share, the last to arrive of all shares.
KERNEL(BLOCK_SIZE)
find_frame(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z, uint n, double g,
    double eps, double total_mass, GLOBAL double* shares, GLOBAL double* frame, GLOBAL uint* counts,
    GLOBAL uint* begin, GLOBAL uint* end, GLOBAL uchar* level)
{
    SHARED double ends[6 * BLOCK_SIZE];
    SHARED uint is_last[1];
    double low[3], high[3];
    for (int c = 0; c < 3; c++) {
        low[c] = FARTHEST;
        high[c] = -FARTHEST;
    }
    for (uint i = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD; i < n; i += (uint)BLOCK_COUNT * BLOCK_SIZE) {
        const double px = x[i], py = y[i], pz = z[i];
        low[0] = MIN64(low[0], px);
        low[1] = MIN64(low[1], py);
        low[2] = MIN64(low[2], pz);
        high[0] = MAX64(high[0], px);
        high[1] = MAX64(high[1], py);
        high[2] = MAX64(high[2], pz);
    }
    // Twice: a group's threads, and the groups' shares.
    for (int round = 0; round < 2; round++) {
        for (int c = 0; c < 3; c++) {
            ends[c * BLOCK_SIZE + THREAD] = low[c];
            ends[(3 + c) * BLOCK_SIZE + THREAD] = high[c];
        }
        BARRIER();
        for (int step = BLOCK_SIZE / 2; step > 0; step >>= 1) {
            if (THREAD < step)
                for (int c = 0; c < 3; c++) {
                    SHARED_POINTER double* l = ends + c * BLOCK_SIZE + THREAD;
                    SHARED_POINTER double* h = ends + (3 + c) * BLOCK_SIZE + THREAD;
                    *l = MIN64(*l, l[step]);
                    *h = MAX64(*h, h[step]);
                }
            BARRIER();
        }
        if (round == 0) {
            if (THREAD == 0) {
                for (int c = 0; c < 6; c++)
                    shares[BLOCK_INDEX * 6 + c] = ends[c * BLOCK_SIZE];
                FENCE();
                is_last[0] = ATOMIC_ADD_U32(counts + ARRIVED, 1) == (uint)BLOCK_COUNT - 1;
                FENCE();
            }
            BARRIER();
            for (int c = 0; c < 3; c++) {
                low[c] = FARTHEST;
                high[c] = -FARTHEST;
            }
            if (is_last[0])
                for (int k = THREAD; k < BLOCK_COUNT; k += BLOCK_SIZE)
                    for (int c = 0; c < 3; c++) {
                        low[c] = MIN64(low[c], shares[k * 6 + c]);
                        high[c] = MAX64(high[c], shares[k * 6 + 3 + c]);
                    }
            BARRIER();
        }
    }
    if (is_last[0] && THREAD == 0) {
        for (int c = 0; c < 3; c++) {
            low[c] = ends[c * BLOCK_SIZE];
            high[c] = ends[(3 + c) * BLOCK_SIZE];
        }
        write_frame(frame, low, high, g, eps, total_mass);
        // The root, and what the next evaluation starts with.
        for (int k = 0; k < COUNTS; k++)
            counts[k] = k == 0;
        begin[0] = 0;
        end[0] = n;
        level[0] = 0;
    }
}

// Puts two zero bits before each bit of a 21-bit number.
FUNCTION ulong spread(ulong x)
{
    x = (x | x << 32) & 0x001f00000000fffful;
    x = (x | x << 16) & 0x001f0000ff0000fful;
    x = (x | x << 8) & 0x100f00f00f00f00ful;
    x = (x | x << 4) & 0x10c30c30c30c30c3ul;
    return (x | x << 2) & 0x1249249249249249ul;
}

// Where a cell of the finest level lies on the curve (Skilling 2004). Keys that agree in the first 3 k bits lie in one cell
// of level k, as with Morton's, and consecutive cells always touch.
FUNCTION ulong hilbert_key(uint x, uint y, uint z)
{
    for (uint q = 1u << (BITS - 1); q > 1; q >>= 1) {
        const uint p = q - 1;
        x ^= x & q ? p : 0;
        uint t = (x ^ y) & p;
        if (y & q)
            x ^= p;
        else {
            x ^= t;
            y ^= t;
        }
        t = (x ^ z) & p;
        if (z & q)
            x ^= p;
        else {
            x ^= t;
            z ^= t;
        }
    }
    y ^= x;
    z ^= y;
    uint t = 0;
    for (uint q = 1u << (BITS - 1); q > 1; q >>= 1)
        t ^= z & q ? q - 1 : 0;
    return spread(x ^ t) << 2 | spread(y ^ t) << 1 | spread(z ^ t);
}

// The far faces belong to the last cells; what is no number, to the first.
FUNCTION uint finest_cell(double x, double corner, double per_length)
{
    const double cell = (x - corner) * per_length;
    return cell > 0.0 ? (cell < (double)((1 << BITS) - 1) ? (uint)cell : (1u << BITS) - 1) : 0;
}

KERNEL(BLOCK_SIZE)
find_keys(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z, uint n,
    GLOBAL const double* RESTRICT frame, GLOBAL ulong* RESTRICT keys, GLOBAL uint* RESTRICT order)
{
    const uint i = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (i < n) {
        const double per_length = frame[7];
        keys[i] = hilbert_key(finest_cell(x[i], frame[4], per_length), finest_cell(y[i], frame[5], per_length),
            finest_cell(z[i], frame[6], per_length));
        order[i] = i;
    }
}

// Bodies in curve order, scaled: (position, mass), and the low parts of positions.
KERNEL(BLOCK_SIZE)
gather(GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y, GLOBAL const double* RESTRICT z,
    GLOBAL const double* RESTRICT mass, uint n, GLOBAL const double* RESTRICT frame, GLOBAL const uint* RESTRICT order,
    GLOBAL REAL4* RESTRICT high, GLOBAL REAL4* RESTRICT low)
{
    const uint k = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (k < n) {
        const uint i = order[k];
        const double px = (x[i] - frame[0]) * frame[3], py = (y[i] - frame[1]) * frame[3], pz = (z[i] - frame[2]) * frame[3];
        high[k] = MAKE4(high_part(px), high_part(py), high_part(pz), (REAL)(mass[i] * frame[9]));
#if HAS_LOW
        low[k] = MAKE4(low_part(px), low_part(py), low_part(pz), 0.0f);
#endif
    }
}
