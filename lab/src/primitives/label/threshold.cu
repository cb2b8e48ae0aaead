// Mask of the pixels of an image above a threshold:  mask[i] = image[i] > threshold.
//
// A thread compares 4 neighbouring pixels: one load of 16 bytes and one store of 4. 4 bytes are
// read and one is written per pixel: bound by memory bandwidth.

// image: n pixels, mask: n pixels. Both are aligned to 16 bytes.
KERNEL(256) apply_threshold(GLOBAL const float* RESTRICT image, float threshold, GLOBAL uchar* RESTRICT mask, ulong n)
{
    const ulong group = (ulong)BLOCK_INDEX * 256u + (uint)THREAD;
    const ulong first = group * 4u;
    if (first + 4u <= n) {
        const float4 pixels = ((GLOBAL const float4*)image)[group];
        // The first pixel is in the lowest byte.
        const uint set = (pixels.x > threshold ? 1u : 0u) | (pixels.y > threshold ? 1u << 8 : 0u)
            | (pixels.z > threshold ? 1u << 16 : 0u) | (pixels.w > threshold ? 1u << 24 : 0u);
        ((GLOBAL uint*)mask)[group] = set;
    } else {
        for (ulong pixel = first; pixel < n; pixel++)
            mask[pixel] = image[pixel] > threshold ? 1u : 0u;
    }
}
