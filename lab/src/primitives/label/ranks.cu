// Part of the kernels that number components in the order of their first pixels.
//
// Layout: bit p % 32 of roots[p / 32] is set if p is the first pixel of a component. before[w] is
// the number of bits that are set in all words before w.

// Returns the number of the component whose first pixel is `pixel`, from 1 on.
FUNCTION uint number_of(GLOBAL const uint* roots, GLOBAL const uint* before, uint pixel)
{
    const uint word = pixel / 32u, bits_below = (1u << pixel % 32u) - 1u;
    return before[word] + (uint)POPCOUNT(roots[word] & bits_below) + 1u;
}
