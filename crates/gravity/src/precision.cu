// Values of PRECISION.
//
// PRECISION_SINGLE: coordinates, products and sums in f32.
// PRECISION_MIXED: coordinates are the sum of two f32 parts, high + low, with about 48 significant
//   bits. Products are in f32. The sum over a tile is in f32, the sum over tiles in f64.
// PRECISION_DOUBLE: everything in f64.

#define PRECISION_SINGLE 1
#define PRECISION_MIXED 2
#define PRECISION_DOUBLE 3
