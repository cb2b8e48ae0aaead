// The copy with an offset of patterns.cu, read through a one-dimensional texture. A texture fetch
// goes through the texture unit, with its addressing and format conversion, to the same caches.
//
// Defined by the host (patterns.rs): BLOCK_SIZE.

// to[i] = from[i + offset] for i < n. The texture has n + offset texels.
KERNEL(BLOCK_SIZE) copy_shifted_texture(TEXTURE_1D(from), int offset, int n, GLOBAL float* RESTRICT to)
{
    const int index = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (index < n)
        to[index] = READ_TEXTURE_1D(from, index + offset);
}
