// Forces of a fluid with one species, from the kernels of a course on GPU programming to cells:
//
//   f_i = Σ_j (48 / r¹⁴ − 24 / r⁸) d,   d = x_i − x_j to the nearest image, r < cutoff
//
// with σ = ε = 1. Coordinates are fractions of the box in 32 bits: differences wrap around, which
// gives the nearest image. Sums are in f32. serial.rs lists the errors of the course's code.
//
// All pairs cost n² terms, and arithmetic is the limit. With cells the cost is about 81 / 4π times
// the number of pairs within the cutoff, and loads are the limit.
//
// Defined by the host: BLOCK_SIZE, REPULSION, ATTRACTION, ONE_DIVISION (the form of the pair term).

#define GRID_THREAD ((uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD)

// A particle of the course, with the fractions in place of the coordinates. The host writes 10
// words.
typedef struct {
    uint x, y, z;
    float vx, vy, vz, fx, fy, fz, mass;
} Particle;

typedef struct {
    uint x, y, z;
} Fractions;

typedef struct {
    float scale_x, scale_y, scale_z, cutoff2;
} Box;

typedef struct {
    float x, y, z, r2;
} Separation;

typedef struct {
    float x, y, z;
} Force;

FUNCTION Separation separation(Fractions a, Fractions b, Box box)
{
    Separation d;
    d.x = (float)(int)(a.x - b.x) * box.scale_x;
    d.y = (float)(int)(a.y - b.y) * box.scale_y;
    d.z = (float)(int)(a.z - b.z) * box.scale_z;
    d.r2 = d.x * d.x + d.y * d.y + d.z * d.z;
    return d;
}

// Returns the force divided by the distance as the course computes it, with two divisions.
FUNCTION float course_term(float r2)
{
    const float r4 = r2 * r2, r8 = r4 * r4, r14 = r8 * r4 * r2;
    return REPULSION / r14 - ATTRACTION / r8;
}

// Returns the same with one division.
FUNCTION float one_division_term(float r2)
{
    const float inv_r2 = 1.0f / r2, inv_r6 = inv_r2 * inv_r2 * inv_r2;
    return inv_r2 * inv_r6 * (REPULSION * inv_r6 - ATTRACTION);
}

// Adds the force of a pair. Pairs beyond the cutoff get the weight 0 without a branch.
FUNCTION void add_term(Force* sum, Separation d, float term, Box box)
{
    const float weight = d.r2 < box.cutoff2 ? term : 0.0f;
    sum->x += weight * d.x;
    sum->y += weight * d.y;
    sum->z += weight * d.z;
}

// Adds the force of a pair where a particle may meet itself. Damping keeps that term finite, and
// its vector is 0. With one division there is no damping, and the term of the particle itself,
// which is not finite, is replaced by 0.
FUNCTION void add_pair(Force* sum, Separation d, int is_self, float damping2, Box box)
{
#if ONE_DIVISION
    add_term(sum, d, is_self ? 0.0f : one_division_term(d.r2), box);
#else
    add_term(sum, d, course_term(d.r2 + damping2), box);
#endif
}

FUNCTION Fractions fractions_of(GLOBAL const Particle* particle)
{
    Fractions fractions = { particle->x, particle->y, particle->z };
    return fractions;
}

// The course's first kernel: one thread per particle, structures, and an `if` for each pair.
KERNEL(BLOCK_SIZE)
sum_structs(GLOBAL uint* words, uint n, float scale_x, float scale_y, float scale_z, float cutoff2)
{
    GLOBAL Particle* particles = (GLOBAL Particle*)words;
    const Box box = { scale_x, scale_y, scale_z, cutoff2 };
    const uint target = GRID_THREAD;
    if (target >= n)
        return;
    Force sum = { 0.0f, 0.0f, 0.0f };
    for (uint source = 0; source < n; source++)
        if (source != target) {
            const Separation d = separation(fractions_of(particles + target), fractions_of(particles + source), box);
            add_term(&sum, d, course_term(d.r2), box);
        }
    particles[target].fx = sum.x;
    particles[target].fy = sum.y;
    particles[target].fz = sum.z;
}

// The course's second kernel: damping replaces the `if`.
KERNEL(BLOCK_SIZE)
sum_structs_damped(GLOBAL uint* words, uint n, float scale_x, float scale_y, float scale_z, float cutoff2,
    float damping2)
{
    GLOBAL Particle* particles = (GLOBAL Particle*)words;
    const Box box = { scale_x, scale_y, scale_z, cutoff2 };
    const uint target = GRID_THREAD;
    if (target >= n)
        return;
    Force sum = { 0.0f, 0.0f, 0.0f };
    for (uint source = 0; source < n; source++) {
        const Separation d = separation(fractions_of(particles + target), fractions_of(particles + source), box);
        add_term(&sum, d, course_term(d.r2 + damping2), box);
    }
    particles[target].fx = sum.x;
    particles[target].fy = sum.y;
    particles[target].fz = sum.z;
}

// One array per coordinate: neighbouring threads load and store neighbouring words.
KERNEL(BLOCK_SIZE)
sum_arrays(GLOBAL const uint* RESTRICT x, GLOBAL const uint* RESTRICT y, GLOBAL const uint* RESTRICT z, uint n,
    float scale_x, float scale_y, float scale_z, float cutoff2, float damping2, GLOBAL float* RESTRICT fx,
    GLOBAL float* RESTRICT fy, GLOBAL float* RESTRICT fz)
{
    const Box box = { scale_x, scale_y, scale_z, cutoff2 };
    const uint target = GRID_THREAD;
    if (target >= n)
        return;
    const Fractions own = { x[target], y[target], z[target] };
    Force sum = { 0.0f, 0.0f, 0.0f };
    for (uint source = 0; source < n; source++) {
        const Fractions other = { x[source], y[source], z[source] };
        add_pair(&sum, separation(own, other, box), source == target, damping2, box);
    }
    fx[target] = sum.x;
    fy[target] = sum.y;
    fz[target] = sum.z;
}

// A block loads BLOCK_SIZE sources at a time into shared memory, and all its threads use them.
KERNEL(BLOCK_SIZE)
sum_tiles(GLOBAL const uint* RESTRICT x, GLOBAL const uint* RESTRICT y, GLOBAL const uint* RESTRICT z, uint n,
    float scale_x, float scale_y, float scale_z, float cutoff2, float damping2, GLOBAL float* RESTRICT fx,
    GLOBAL float* RESTRICT fy, GLOBAL float* RESTRICT fz)
{
    SHARED uint tile_x[BLOCK_SIZE];
    SHARED uint tile_y[BLOCK_SIZE];
    SHARED uint tile_z[BLOCK_SIZE];
    const Box box = { scale_x, scale_y, scale_z, cutoff2 };
    // Threads past the last particle help to load tiles.
    const uint wanted = GRID_THREAD, target = wanted < n ? wanted : n - 1;
    const Fractions own = { x[target], y[target], z[target] };
    Force sum = { 0.0f, 0.0f, 0.0f };
    for (uint first = 0; first < n; first += BLOCK_SIZE) {
        const uint loaded = first + (uint)THREAD, left = n - first;
        BARRIER();
        if (loaded < n) {
            tile_x[THREAD] = x[loaded];
            tile_y[THREAD] = y[loaded];
            tile_z[THREAD] = z[loaded];
        }
        BARRIER();
        const uint count = left < BLOCK_SIZE ? left : BLOCK_SIZE;
        for (uint source = 0; source < count; source++) {
            const Fractions other = { tile_x[source], tile_y[source], tile_z[source] };
            add_pair(&sum, separation(own, other, box), first + source == target, damping2, box);
        }
    }
    if (wanted < n) {
        fx[target] = sum.x;
        fy[target] = sum.y;
        fz[target] = sum.z;
    }
}

// ---- Cells ----
//
// Cells have sides of at least the cutoff, so all neighbours of a particle are in its cell and in
// those next to it. Particles are sorted by cell in every evaluation. Their order within a cell,
// and with it the last bits of the sums, depends on the order of atomic additions.

// Returns the cell of a fraction along an axis with `count` cells.
FUNCTION uint axis_cell(uint fraction, uint count)
{
    return (uint)((ulong)fraction * count >> 32);
}

KERNEL(BLOCK_SIZE)
clear_cells(uint cell_count, GLOBAL uint* RESTRICT counts)
{
    const uint cell = GRID_THREAD;
    if (cell < cell_count)
        counts[cell] = 0;
}

// Finds the cell of each particle, and its rank among the particles of the cell.
KERNEL(BLOCK_SIZE)
assign_cells(uint n, uint cells_x, uint cells_y, uint cells_z, GLOBAL const uint* RESTRICT x,
    GLOBAL const uint* RESTRICT y, GLOBAL const uint* RESTRICT z, GLOBAL uint* counts, GLOBAL uint* RESTRICT cell_of,
    GLOBAL uint* RESTRICT rank_of)
{
    const uint particle = GRID_THREAD;
    if (particle >= n)
        return;
    const uint cell_x = axis_cell(x[particle], cells_x), cell_y = axis_cell(y[particle], cells_y),
               cell_z = axis_cell(z[particle], cells_z);
    const uint cell = (cell_z * cells_y + cell_y) * cells_x + cell_x;
    cell_of[particle] = cell;
    rank_of[particle] = ATOMIC_ADD_U32(counts + cell, 1);
}

// Copies the coordinates in the order of the cells, with the index of each particle as the fourth
// word of `sorted`.
KERNEL(BLOCK_SIZE)
sort_by_cell(uint n, GLOBAL const uint* RESTRICT starts, GLOBAL const uint* RESTRICT cell_of,
    GLOBAL const uint* RESTRICT rank_of, GLOBAL const uint* RESTRICT x, GLOBAL const uint* RESTRICT y,
    GLOBAL const uint* RESTRICT z, GLOBAL float4* RESTRICT sorted)
{
    const uint particle = GRID_THREAD;
    if (particle < n)
        sorted[starts[cell_of[particle]] + rank_of[particle]] = FLOAT4(UINT_AS_FLOAT(x[particle]),
            UINT_AS_FLOAT(y[particle]), UINT_AS_FLOAT(z[particle]), UINT_AS_FLOAT(particle));
}

// Returns number k of the cells next to `cell` along an axis, of which there are at most 3.
FUNCTION uint neighbour_cell(uint cell, uint count, uint k)
{
    return count < 3 ? k : (cell + count - 1 + k) % count;
}

// One thread per particle, which visits the particles of up to 27 cells.
KERNEL(BLOCK_SIZE)
sum_cells(uint n, uint cells_x, uint cells_y, uint cells_z, GLOBAL const uint* RESTRICT starts,
    GLOBAL const uint* RESTRICT counts, GLOBAL const float4* RESTRICT sorted, float scale_x, float scale_y,
    float scale_z, float cutoff2, GLOBAL float* RESTRICT fx, GLOBAL float* RESTRICT fy, GLOBAL float* RESTRICT fz)
{
    const Box box = { scale_x, scale_y, scale_z, cutoff2 };
    const uint target = GRID_THREAD;
    if (target >= n)
        return;
    const float4 self = sorted[target];
    const Fractions own = { FLOAT_AS_UINT(self.x), FLOAT_AS_UINT(self.y), FLOAT_AS_UINT(self.z) };
    const uint own_x = axis_cell(own.x, cells_x), own_y = axis_cell(own.y, cells_y), own_z = axis_cell(own.z, cells_z);
    Force sum = { 0.0f, 0.0f, 0.0f };
    for (uint k = 0; k < 3 && k < cells_z; k++)
        for (uint j = 0; j < 3 && j < cells_y; j++) {
            const uint row = neighbour_cell(own_z, cells_z, k) * cells_y + neighbour_cell(own_y, cells_y, j);
            for (uint i = 0; i < 3 && i < cells_x; i++) {
                const uint cell = row * cells_x + neighbour_cell(own_x, cells_x, i);
                const uint first = starts[cell], end = first + counts[cell];
                for (uint source = first; source < end; source++) {
                    const float4 there = sorted[source];
                    const Fractions other = { FLOAT_AS_UINT(there.x), FLOAT_AS_UINT(there.y), FLOAT_AS_UINT(there.z) };
                    const Separation d = separation(own, other, box);
                    // Most particles of these cells are beyond the cutoff, so the branch pays here.
                    if (d.r2 < cutoff2 && source != target)
                        add_term(&sum, d, one_division_term(d.r2), box);
                }
            }
        }
    const uint particle = FLOAT_AS_UINT(self.w);
    fx[particle] = sum.x;
    fy[particle] = sum.y;
    fz[particle] = sum.z;
}
