// Potential of point charges on a grid: one thread per charge (scatter) or per point (gather).
//
// Cost of a term: 3 differences, 3 multiply-adds, a reciprocal square root and the multiply-add of
// the sum. Limit: the atomics of the scatter kernel, which all threads execute on the same point at
// about the same time. For the gather kernels, instructions: half of them are loads, loop counters
// and dy and dz, which neighbouring threads compute again.
//
// Charges: float4 of x, y, z and charge. Defined by the host (mod.rs): BLOCK_SIZE, CHUNK, and the
// definitions of point_grid.cu.

#if defined(ON_CUDA)
#define ATOMIC_ADD_FLOAT(p, v) atomicAdd(p, v)
#else
// OpenCL 1.2 has no atomic addition of floats: exchanges the bits until no other thread was faster.
FUNCTION void add_float(GLOBAL float* to, float amount)
{
    uint seen = LOAD_U32((GLOBAL uint*)to);
    uint expected;
    do {
        expected = seen;
        seen = ATOMIC_CAS_U32((GLOBAL uint*)to, expected, FLOAT_AS_UINT(UINT_AS_FLOAT(expected) + amount));
    } while (seen != expected);
}
#define ATOMIC_ADD_FLOAT(p, v) add_float(p, v)
#endif

// Charges of one launch of `gather_constant`.
CONSTANT_ARRAY(float4, chunk, CHUNK);

// potential: nx ny nz sums, all set to 0.
KERNEL(BLOCK_SIZE) clear_potential(POINT_GRID, GLOBAL float* potential)
{
    const int point = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (point < nx * ny * nz)
        potential[point] = 0.0f;
}

// Each thread adds the terms of one charge to all points. potential: sums, 0 before the launch.
KERNEL(BLOCK_SIZE)
scatter(GLOBAL const float4* RESTRICT charges, int charge_count, POINT_GRID, GLOBAL float* potential)
{
    const int index = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (index < charge_count) {
        const float4 charge = charges[index];
        for (int row = 0; row < ny * nz; row++) {
            const float y = coordinate_of(row % ny, y0, h);
            const float z = coordinate_of(row / ny, z0, h);
            const float distance2 = row_distance2(charge, y, z);
            GLOBAL float* row_potential = potential + row * nx;
            for (int i = 0; i < nx; i++)
                ATOMIC_ADD_FLOAT(row_potential + i, add_term(0.0f, charge, coordinate_of(i, x0, h), distance2));
        }
    }
}

// Each thread sums the terms of all charges for one point.
KERNEL(BLOCK_SIZE)
gather(GLOBAL const float4* RESTRICT charges, int charge_count, POINT_GRID, GLOBAL float* RESTRICT potential)
{
    const int point = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (point < nx * ny * nz) {
        const int row = point / nx;
        const float x = coordinate_of(point % nx, x0, h);
        const float y = coordinate_of(row % ny, y0, h);
        const float z = coordinate_of(row / ny, z0, h);
        float sum = 0.0f;
        for (int index = 0; index < charge_count; index++) {
            const float4 charge = charges[index];
            sum = add_term(sum, charge, x, row_distance2(charge, y, z));
        }
        potential[point] = sum;
    }
}

// Adds the terms of the `charge_count` charges in constant memory to the potential, or stores them
// if this is the first chunk.
KERNEL(BLOCK_SIZE)
gather_constant(CONSTANT_POINTER const float4* chunk_argument, int charge_count, int is_first, POINT_GRID,
    GLOBAL float* RESTRICT potential)
{
    const int point = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (point < nx * ny * nz) {
        const int row = point / nx;
        const float x = coordinate_of(point % nx, x0, h);
        const float y = coordinate_of(row % ny, y0, h);
        const float z = coordinate_of(row / ny, z0, h);
        float sum = 0.0f;
        for (int index = 0; index < charge_count; index++) {
            const float4 charge = CONSTANT_VALUES(chunk)[index];
            sum = add_term(sum, charge, x, row_distance2(charge, y, z));
        }
        potential[point] = is_first ? sum : potential[point] + sum;
    }
}
