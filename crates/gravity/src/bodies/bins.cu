// Bins of projected bodies for pictures. analysis/bins.rs of the model is the reference and
// describes the method. All sums are integers, so both have the same bits.
//
// The pyramids of all layers are in one array. Level k of a layer starts after its levels 0 to
// k - 1, and rows start at the top. A body that is not shown has the x coordinate NOT_SHOWN.
//
// Defined by the host: BLOCK_SIZE, POSITION_BITS, STEPS_PER_LEVEL, NEIGHBOURS, HIDDEN.

#define GRID_THREAD ((uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD)
#define NOT_SHOWN 0xffffffffu

// One level of a pyramid.
typedef struct {
    uint width, height;
    uint start; // index of its first pixel
} Level;

FUNCTION Level next_level(Level finer)
{
    Level level;
    level.width = (finer.width + 1) / 2;
    level.height = (finer.height + 1) / 2;
    level.start = finer.start + finer.width * finer.height;
    return level;
}

// Adds to an integer of 64 bits. Without an atomic addition of this width, the two halves are added
// one after the other: each overflow of the lower half is carried once, in any order of additions.
FUNCTION void add_u64(GLOBAL ulong* sum, ulong value)
{
#if defined(ON_CUDA)
    atomicAdd(sum, value);
#else
    GLOBAL uint* halves = (GLOBAL uint*)sum;
    const uint low = (uint)value;
    const uint before = ATOMIC_ADD_U32(halves, low);
    const uint carry = before + low < low ? 1 : 0;
    const uint high = (uint)(value >> 32) + carry;
    if (high > 0)
        ATOMIC_ADD_U32(halves + 1, high);
#endif
}

// Sets all counts and sums to 0.
KERNEL(BLOCK_SIZE)
clear_bins(uint pixel_count, GLOBAL uint* RESTRICT counts, GLOBAL ulong* RESTRICT sums)
{
    const uint pixel = GRID_THREAD;
    if (pixel >= pixel_count)
        return;
    counts[pixel] = 0;
    sums[pixel] = 0;
}

// Projects the bodies and counts those in each pixel of level 0. The position in pixels is
// width / 2 + r / pixel_size and height / 2 - u / pixel_size, with r and u along the axes `right`
// and `up`. Products are fused with additions explicitly, as in the reference.
KERNEL(BLOCK_SIZE)
project_bodies(uint body_count, GLOBAL const double* RESTRICT x, GLOBAL const double* RESTRICT y,
    GLOBAL const double* RESTRICT z, GLOBAL const uchar* RESTRICT layer, double centre_x, double centre_y,
    double centre_z, double right_x, double right_y, double right_z, double up_x, double up_y, double up_z,
    double pixel_size, uint width, uint height, uint pixels_per_layer, GLOBAL uint* RESTRICT pixel_x,
    GLOBAL uint* RESTRICT pixel_y, GLOBAL uint* RESTRICT counts)
{
    const uint body = GRID_THREAD;
    if (body >= body_count)
        return;
    const double dx = x[body] - centre_x, dy = y[body] - centre_y, dz = z[body] - centre_z;
    const double along_right = FMA64(dz, right_z, FMA64(dy, right_y, dx * right_x));
    const double along_up = FMA64(dz, up_z, FMA64(dy, up_y, dx * up_x));
    const double column = 0.5 * (double)width + along_right / pixel_size;
    const double row = 0.5 * (double)height - along_up / pixel_size;
    // False for NaN.
    const int is_inside = column >= 0.0 && column < (double)width && row >= 0.0 && row < (double)height;
    if (layer[body] == HIDDEN || !is_inside) {
        pixel_x[body] = NOT_SHOWN;
        return;
    }
    const double steps = (double)(1 << POSITION_BITS);
    const uint fixed_x = (uint)(column * steps), fixed_y = (uint)(row * steps);
    pixel_x[body] = fixed_x;
    pixel_y[body] = fixed_y;
    const uint pixel = (fixed_y >> POSITION_BITS) * width + (fixed_x >> POSITION_BITS);
    ATOMIC_ADD_U32(counts + (uint)layer[body] * pixels_per_layer + pixel, 1);
}

// Counts the bodies in each pixel of a level from those of the finer level, whose size is given.
// One thread per pixel, and BLOCK_INDEX_Y is the layer.
KERNEL(BLOCK_SIZE)
coarsen_counts(uint finer_width, uint finer_height, uint finer_start, uint pixels_per_layer,
    GLOBAL uint* counts)
{
    const Level finer = { finer_width, finer_height, finer_start };
    const Level level = next_level(finer);
    const uint pixel = GRID_THREAD;
    if (pixel >= level.width * level.height)
        return;
    GLOBAL uint* of_layer = counts + (uint)BLOCK_INDEX_Y * pixels_per_layer;
    const uint x = 2 * (pixel % level.width), y = 2 * (pixel / level.width);
    const uint x_end = x + 1 < finer_width ? x + 2 : x + 1, y_end = y + 1 < finer_height ? y + 2 : y + 1;
    uint sum = 0;
    for (uint row = y; row < y_end; row++)
        for (uint column = x; column < x_end; column++)
            sum += of_layer[finer_start + row * finer_width + column];
    of_layer[level.start + pixel] = sum;
}

// Returns the number of bodies in a pixel and its eight neighbours.
FUNCTION uint block_sum(GLOBAL const uint* counts, const Level* level, uint x, uint y)
{
    const uint left = x > 0 ? x - 1 : 0, right = x + 1 < level->width ? x + 1 : x;
    const uint top = y > 0 ? y - 1 : 0, bottom = y + 1 < level->height ? y + 1 : y;
    uint sum = 0;
    for (uint row = top; row <= bottom; row++)
        for (uint column = left; column <= right; column++)
            sum += counts[level->start + row * level->width + column];
    return sum;
}

// Returns how many of the increasing `thresholds` are at most `value`.
FUNCTION uint count_reached(GLOBAL const uint* thresholds, uint threshold_count, uint value)
{
    uint low = 0, high = threshold_count;
    while (low < high) {
        const uint middle = (low + high) / 2;
        if (thresholds[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Returns log2 of the side of a body's patch, in units of 1 / STEPS_PER_LEVEL.
FUNCTION uint patch_size(GLOBAL const uint* counts, GLOBAL const uint* thresholds, Level level,
    uint level_count, uint x, uint y)
{
    for (uint k = 0;; k++) {
        const uint shift = POSITION_BITS + k;
        const uint around = block_sum(counts, &level, x >> shift, y >> shift);
        if (around >= NEIGHBOURS || k + 1 == level_count) {
            const uint largest = k * STEPS_PER_LEVEL;
            return largest - count_reached(thresholds, largest, around);
        }
        level = next_level(level);
    }
}

// Distributes `mass` over the four pixels around a position on level k.
FUNCTION void add_cloud(GLOBAL ulong* sums, const Level* level, uint k, uint fixed_x, uint fixed_y, ulong mass)
{
    const int one = 1 << POSITION_BITS;
    // Position from the centre of the first pixel of the level, in fractions of its pixels. The
    // shift of a negative number rounds down.
    const int x = (int)(fixed_x >> k) - one / 2, y = (int)(fixed_y >> k) - one / 2;
    const int last_x = (int)level->width - 1, last_y = (int)level->height - 1;
    const int fraction_x = x & (one - 1), fraction_y = y & (one - 1);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < 2; i++) {
            int column = (x >> POSITION_BITS) + i, row = (y >> POSITION_BITS) + j;
            column = column < 0 ? 0 : column > last_x ? last_x : column;
            row = row < 0 ? 0 : row > last_y ? last_y : row;
            const ulong weight =
                (ulong)(i ? fraction_x : one - fraction_x) * (ulong)(j ? fraction_y : one - fraction_y);
            if (weight > 0)
                add_u64(sums + level->start + (uint)row * level->width + (uint)column, mass * weight);
        }
}

// Distributes the mass of each body over two levels. `mass` is in mass units.
KERNEL(BLOCK_SIZE)
deposit_mass(uint body_count, GLOBAL const uint* RESTRICT pixel_x, GLOBAL const uint* RESTRICT pixel_y,
    GLOBAL const uchar* RESTRICT layer, GLOBAL const ulong* RESTRICT mass,
    GLOBAL const uint* RESTRICT thresholds, uint width, uint height, uint level_count, uint pixels_per_layer,
    GLOBAL const uint* RESTRICT counts, GLOBAL ulong* sums)
{
    const uint body = GRID_THREAD;
    if (body >= body_count || pixel_x[body] == NOT_SHOWN)
        return;
    const uint fixed_x = pixel_x[body], fixed_y = pixel_y[body];
    const uint first_pixel = (uint)layer[body] * pixels_per_layer;
    Level level = { width, height, 0 };
    const uint size = patch_size(counts + first_pixel, thresholds, level, level_count, fixed_x, fixed_y);
    const uint below = size / STEPS_PER_LEVEL, fraction = size % STEPS_PER_LEVEL;
    for (uint k = 0; k < below; k++)
        level = next_level(level);
    GLOBAL ulong* of_layer = sums + first_pixel;
    add_cloud(of_layer, &level, below, fixed_x, fixed_y, mass[body] * (ulong)(STEPS_PER_LEVEL - fraction));
    if (fraction > 0) {
        level = next_level(level);
        add_cloud(of_layer, &level, below + 1, fixed_x, fixed_y, mass[body] * (ulong)fraction);
    }
}
