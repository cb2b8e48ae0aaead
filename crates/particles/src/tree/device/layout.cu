// What the kernels of the tree share: numbers, the frame of an evaluation, and how cells are kept.
//
// Lengths are scaled by a power of two near the side of the cube around all bodies (or the softening, where that is longer),
// masses by one near their sum; so f32 holds them in metres and in parsecs. They are counted from the cube's middle, in f64
// from where the user does: a shift would only round.
//
//   frame[0..2] origin   [3] to scaled lengths   [4..6] corner   [7] to cells of the finest level   [8] scaled side
//   frame[9] to scaled masses   [10] eps², scaled   [11] acceleration, [12] potential: to the user's units, G included
//   frame[13..15] the cube's middle, scaled, from the origin
//
// PRECISION: 0 single, 1 mixed, 2 double. A number of mixed precision has two parts, high + low, some 48 bits.
//
// A cell is a run of sorted bodies, begin to end, at a level; child = first child * 8 + (children - 1), or LEAF. In the
// walk it is reach[cell] = (centre of mass, squared distance below which it is opened) and RECORD vectors:
//   (mass, low part of the centre) (Mxx Mxy Mxz Myy) (Myz Mzz Mxxx Mxxy) (Mxxz Mxyy Mxyz Mxzz) (Myyy Myyz Myzz Mzzz)
// as far as ORDER (1, 2, 3) needs them, with the moments M_ij = Σ m d_i d_j and M_ijk = Σ m d_i d_j d_k. Their traces stay:
// a softened field is not harmonic.

#if PRECISION == 2
typedef double REAL;
typedef double4 REAL4;
#define MAKE4(x, y, z, w) DOUBLE4(x, y, z, w)
#define R_SQRT(x) RSQRT64(x)
#define R_FMA(a, b, c) FMA64(a, b, c)
#define R_MAX(a, b) MAX64(a, b)
#define R_ABS(x) fabs((double)(x))
#define HAS_LOW 0
#else
typedef float REAL;
typedef float4 REAL4;
#define MAKE4(x, y, z, w) FLOAT4(x, y, z, w)
#define R_SQRT(x) RSQRT(x)
#define R_FMA(a, b, c) FMA(a, b, c)
#define R_MAX(a, b) MAX(a, b)
#define R_ABS(x) fabs((float)(x))
#define HAS_LOW (PRECISION == 1)
#endif

#define BITS 21
#define GENERATIONS (BITS + 1)
#define LEAF 0xffffffffu
#define RECORD (ORDER == 1 ? 1 : ORDER == 2 ? 3 : 5)

// counts: cells of each generation, then groups of each class, groups of each class that have their place, the
// groups whose walk has begun, and the groups of find_frame that are done.
#define CLASSES 16
#define CLASS_COUNTS 24
#define PLACED (CLASS_COUNTS + CLASSES)
#define TICKET (PLACED + CLASSES)
#define ARRIVED (TICKET + 1)
#define COUNTS 64

FUNCTION REAL high_part(double x)
{
    return (REAL)x;
}

FUNCTION REAL low_part(double x)
{
    return (REAL)(x - (double)(REAL)x);
}

// The cells of a generation come after those of the generations before it.
FUNCTION uint first_of(GLOBAL const uint* counts, int generation)
{
    uint first = 0;
    for (int g = 0; g < generation; g++)
        first += counts[g];
    return first;
}
