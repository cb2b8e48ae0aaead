// Arithmetic and memory accesses that the kernels of waves share. Other files follow this one.
//
// Fields have the layout of layout.rs: rows start `pitch` values apart and planes `plane` values,
// and ghost nodes surround them. Every operation is rounded once, in the order of the reference.
//
// Defined by the host: REAL, IS_DOUBLE, RADIUS, VECTOR (16 bytes of REAL), VECTOR_WIDTH,
// IS_VARIABLE.

#if defined(ON_OPENCL)
#pragma OPENCL FP_CONTRACT OFF
#endif

#if IS_DOUBLE
#define FMA_REAL(a, b, c) FMA64(a, b, c)
#else
#define FMA_REAL(a, b, c) FMA(a, b, c)
#endif

// Product that the compiler must not fuse with a later addition.
#if defined(ON_OPENCL)
#define PRODUCT(a, b) ((a) * (b))
#elif IS_DOUBLE
#define PRODUCT(a, b) __dmul_rn(a, b)
#else
#define PRODUCT(a, b) __fmul_rn(a, b)
#endif

// Loads and stores of vectors: of u, which other threads read too, and of values that one thread
// reads or writes once per step and that need no place in a cache.
#if defined(ON_CUDA)
#define LOAD_SHARED_VALUES(p) __ldg((const VECTOR*)(p))
#define LOAD_ONCE(p) __ldcs((const VECTOR*)(p))
#define STORE_ONCE(p, value) __stcs((VECTOR*)(p), value)
#else
#define LOAD_SHARED_VALUES(p) (*(GLOBAL const VECTOR*)(p))
#define LOAD_ONCE(p) (*(GLOBAL const VECTOR*)(p))
#define STORE_ONCE(p, value) (*(GLOBAL VECTOR*)(p) = (value))
#endif

// Copies a vector to an array of VECTOR_WIDTH values.
FUNCTION void unpack(REAL* values, VECTOR vector)
{
    values[0] = vector.x;
    values[1] = vector.y;
#if VECTOR_WIDTH == 4
    values[2] = vector.z;
    values[3] = vector.w;
#endif
}

FUNCTION VECTOR pack(const REAL* values)
{
    VECTOR vector;
    vector.x = values[0];
    vector.y = values[1];
#if VECTOR_WIDTH == 4
    vector.z = values[2];
    vector.w = values[3];
#endif
    return vector;
}

// Vectors, and values, on either side of a vector that its neighbours along x are in.
#define SIDE_VECTORS ((RADIUS + VECTOR_WIDTH - 1) / VECTOR_WIDTH)
#define SIDE_WIDTH (SIDE_VECTORS * VECTOR_WIDTH)

// Stores the vector of a thread. Values from column nx on are zero, as beyond an absorbing side.
// Images are written there later.
FUNCTION void store_vector(GLOBAL REAL* to, REAL* values, int columns_left)
{
    if (columns_left < VECTOR_WIDTH) {
        UNROLL_ALL
        for (int c = 1; c < VECTOR_WIDTH; c++)
            values[c] = c < columns_left ? values[c] : (REAL)0;
    }
    STORE_ONCE(to, pack(values));
}

// Returns zero if |value| is below 2^15 times the smallest normal number.
FUNCTION REAL zero_if_tiny(REAL value)
{
#if IS_DOUBLE
    const REAL tiny = 0x1p-1007;
#else
    const REAL tiny = 0x1p-111f;
#endif
    return fabs(value) < tiny ? (REAL)0 : value;
}

// Returns u one step later, from `sum` = A u, u and u one step earlier.
FUNCTION REAL next_value(REAL courant, REAL sum, REAL u, REAL previous)
{
    return zero_if_tiny(FMA_REAL(courant, sum, FMA_REAL((REAL)2, u, -previous)));
}

// Parameters of all kernels that advance a field. The axis along which they march is z, or y in two
// dimensions. Planes are those across this axis, so in two dimensions a plane is a row.
//
// u:          u at the time of the step
// field:      u one step earlier, which becomes u one step later
// courant:    v per node, with the layout of u. Not read unless IS_VARIABLE.
// first:      position of the first node of plane 0
// rows:       rows of a plane, 1 in two dimensions
// begin, end: planes to advance
// chunk:      planes per block
//
// Blocks along x are tiles of a plane, row by row. Blocks along y are chunks of planes.
#define ADVANCE_PARAMETERS                                                                                    \
    GLOBAL const REAL *RESTRICT u, GLOBAL REAL *RESTRICT field, GLOBAL const REAL *RESTRICT courant,          \
        REAL uniform_courant, REAL centre, REAL march1, REAL march2, REAL march3, REAL march4, REAL row1,     \
        REAL row2, REAL row3, REAL row4, REAL x1, REAL x2, REAL x3, REAL x4, ulong first, ulong plane,        \
        int pitch, int nx, int rows, int begin, int end, int chunk

// Number of tiles of a row.
#define TILES(nx, width) (((nx) + (width) - 1) / (width))
