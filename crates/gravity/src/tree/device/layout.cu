// Layout of the tree in device memory, shared by the kernels that build it and those that walk it.
//
// Units. The kernels compute in scaled units (frame_slots.cu): lengths are divided by a power of
// two near the side of the cube around all bodies (or near the softening, if that is longer),
// masses by a power of two near their sum. The origin is the centre of the cube. In f64 the user's
// origin is kept, because a shift would only add rounding.
//
// Cells. Cell c contains the sorted bodies begin[c] .. end[c] - 1. level[c] is the number of times
// that the cube is halved to get the cell. children[c] is 8 * (first child) + (number of children)
// - 1 or LEAF. For example, a cell with the three children 40, 41 and 42 has children[c] = 322. The
// walk reads
//   centres[c] = (centre of mass, squared opening distance): a nearer cell is opened
//   moments[c * MOMENT_VECTORS ...]: as many of the following vectors as ORDER (1, 2 or 3) needs,
//     (mass, low part of the centre) (Mxx Mxy Mxz Myy) (Myz Mzz Mxxx Mxxy) (Mxxz Mxyy Mxyz Mxzz)
//     (Myyy Myyz Myzz Mzzz)
// where M_ij = Σ m d_i d_j and M_ijk = Σ m d_i d_j d_k, with d the offset from the centre of mass.
// The traces are kept because a softened field is not harmonic.

#if PRECISION == PRECISION_DOUBLE
typedef double REAL;
typedef double4 REAL4;
#define MAKE_REAL4(x, y, z, w) DOUBLE4(x, y, z, w)
#define REAL_RSQRT(x) RSQRT64(x)
#define REAL_FMA(a, b, c) FMA64(a, b, c)
#define REAL_MAX(a, b) MAX64(a, b)
#define HAS_LOW 0
#else
typedef float REAL;
typedef float4 REAL4;
#define MAKE_REAL4(x, y, z, w) FLOAT4(x, y, z, w)
#define REAL_RSQRT(x) RSQRT(x)
#define REAL_FMA(a, b, c) FMA(a, b, c)
#define REAL_MAX(a, b) MAX(a, b)
#define HAS_LOW (PRECISION == PRECISION_MIXED)
#endif

// Bits per coordinate of a key, hence the finest level. Each generation of cells has a higher
// level.
#define COORDINATE_BITS 21
#define GENERATIONS (COORDINATE_BITS + 1)
#define LEAF 0xffffffffu
#define MOMENT_VECTORS (ORDER == 1 ? 1 : ORDER == 2 ? 3 : 5)

// Slots of `counts`. Slots 0 .. GENERATIONS - 1 are the numbers of cells of each generation.
#define WIDTH_CLASSES 16
#define COUNT_CLASS 24                              // groups of each width class
#define COUNT_PLACED (COUNT_CLASS + WIDTH_CLASSES)  // groups of each class placed by `order_groups`
#define COUNT_TICKET (COUNT_PLACED + WIDTH_CLASSES) // groups taken by warps after their first
#define COUNT_ARRIVED (COUNT_TICKET + 1)            // blocks of `find_frame` that have finished
#define COUNT_SLOTS 64

FUNCTION REAL high_part(double x)
{
    return (REAL)x;
}

FUNCTION REAL low_part(double x)
{
    return (REAL)(x - (double)(REAL)x);
}

// Returns the first cell of a generation. Generations are stored one after the other.
FUNCTION uint first_cell(GLOBAL const uint* counts, int generation)
{
    uint first = 0;
    for (int earlier = 0; earlier < generation; earlier++)
        first += counts[earlier];
    return first;
}
