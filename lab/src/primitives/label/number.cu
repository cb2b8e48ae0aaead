// Numbers of components from the indices of their first pixels (pixels.cu, tiles.cu).
//
// Cost: mark_roots reads 4 bytes per pixel and writes two words per 32 pixels. A prefix sum reads
// and writes one of them. number_pixels reads and writes 4 bytes per pixel, and looks up the number
// of the first pixel: 8 bytes at a random position. The words take a quarter of a byte per pixel,
// so those of 10^8 pixels are in the L2 cache. Bound by memory bandwidth.

#define BLOCK_SIZE 256u
#define BACKGROUND 0xffffffffu

// labels: n pixels, with the index of the first pixel of the component, or BACKGROUND. roots and
// counts: a word for each 32 pixels. Blocks are whole warps, and warps are whole words.
KERNEL(256) mark_roots(GLOBAL const uint* RESTRICT labels, uint n, GLOBAL uint* RESTRICT roots, GLOBAL uint* RESTRICT counts)
{
    SHARED uint scratch[BLOCK_SIZE];
    const uint pixel = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    const uint word = BALLOT(pixel < n && labels[pixel] == pixel, scratch);
    if (pixel < n && LANE == 0) {
        roots[pixel / 32u] = word;
        counts[pixel / 32u] = (uint)POPCOUNT(word);
    }
}

// labels: n pixels, as for mark_roots. They are replaced by the numbers of their components, or 0.
// roots, before: as in ranks.cu. count: the number of components.
KERNEL(256) number_pixels(GLOBAL uint* RESTRICT labels, uint n, GLOBAL const uint* RESTRICT roots,
                          GLOBAL const uint* RESTRICT before, GLOBAL uint* RESTRICT count)
{
    const uint pixel = (uint)BLOCK_INDEX * BLOCK_SIZE + (uint)THREAD;
    if (pixel < n) {
        const uint label = labels[pixel];
        labels[pixel] = label == BACKGROUND ? 0u : number_of(roots, before, label);
        if (pixel == n - 1u)
            *count = before[pixel / 32u] + (uint)POPCOUNT(roots[pixel / 32u]);
    }
}
