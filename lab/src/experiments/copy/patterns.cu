// Copies that show how the addresses of a warp become memory transactions.
//
// A warp of 32 threads accesses the memory in sectors of 32 bytes and in lines of 128 bytes. Its 32
// neighbouring floats are one line if they start at a multiple of 128 bytes. With an offset they
// are parts of two lines, and with a stride s they are spread over s lines.
//
// Cost: 4 bytes read and 4 bytes written per copied float are useful. The transactions move more.
// Limit: memory bandwidth, shared by useful and useless bytes.
//
// Defined by the host (patterns.rs): BLOCK_SIZE.

// to[i] = from[i + offset] for i < n. `from` has n + offset floats.
KERNEL(BLOCK_SIZE)
copy_shifted(GLOBAL const float* RESTRICT from, ulong offset, ulong n, GLOBAL float* RESTRICT to)
{
    const ulong index = (ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (index < n)
        to[index] = from[index + offset];
}

// to[i] = from[i] for the multiples i < n of the stride. `from` and `to` have n floats.
KERNEL(BLOCK_SIZE)
copy_strided(GLOBAL const float* RESTRICT from, ulong stride, ulong n, GLOBAL float* RESTRICT to)
{
    const ulong index = ((ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD) * stride;
    if (index < n)
        to[index] = from[index];
}
