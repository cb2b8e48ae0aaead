// y <- a x + y, twice with different factors: the example of the course's chapter on OpenACC.
//
// x, y: n floats. An update loads x and y and stores y: 12 bytes and two operations, so memory
// bandwidth is the limit. Both updates in one pass need half of the bytes.
//
// Loops are grid-stride loops, so any number of blocks computes all elements. The blocks are the
// gangs of OpenACC, and the threads of a block are its vector.
//
// Defined by the host (mod.rs): BLOCK_SIZE.

#define FIRST_INDEX ((ulong)BLOCK_INDEX * BLOCK_SIZE + THREAD)
#define THREAD_COUNT ((ulong)BLOCK_COUNT * BLOCK_SIZE)

KERNEL(BLOCK_SIZE) saxpy(ulong n, float a, GLOBAL const float* RESTRICT x, GLOBAL float* RESTRICT y)
{
    for (ulong i = FIRST_INDEX; i < n; i += THREAD_COUNT)
        y[i] = FMA(a, x[i], y[i]);
}

// Both updates in one pass: y <- b x + (a x + y).
KERNEL(BLOCK_SIZE)
saxpy_twice(ulong n, float a, float b, GLOBAL const float* RESTRICT x, GLOBAL float* RESTRICT y)
{
    for (ulong i = FIRST_INDEX; i < n; i += THREAD_COUNT)
        y[i] = FMA(b, x[i], FMA(a, x[i], y[i]));
}

// Both updates of four neighbours. x and y are aligned to 16 bytes. The elements after the last
// whole vector, fewer than four, are updated by the first block.
KERNEL(BLOCK_SIZE)
saxpy_twice_vectors(ulong n, float a, float b, GLOBAL const float* RESTRICT x, GLOBAL float* RESTRICT y)
{
    GLOBAL const float4* RESTRICT x_vectors = (GLOBAL const float4*)x;
    GLOBAL float4* RESTRICT y_vectors = (GLOBAL float4*)y;
    for (ulong i = FIRST_INDEX; i < n / 4; i += THREAD_COUNT) {
        const float4 u = x_vectors[i];
        const float4 v = y_vectors[i];
        y_vectors[i] = FLOAT4(FMA(b, u.x, FMA(a, u.x, v.x)), FMA(b, u.y, FMA(a, u.y, v.y)),
                              FMA(b, u.z, FMA(a, u.z, v.z)), FMA(b, u.w, FMA(a, u.w, v.w)));
    }
    const ulong rest = n / 4 * 4 + THREAD;
    if (BLOCK_INDEX == 0 && rest < n)
        y[rest] = FMA(b, x[rest], FMA(a, x[rest], y[rest]));
}

// Nested loops over the rows and columns of a matrix: `loop gang vector` on the outer loop. Each
// thread updates whole rows, so neighbouring threads access elements that are a row apart.
KERNEL(BLOCK_SIZE)
thread_per_row(ulong rows, ulong columns, float a, GLOBAL const float* RESTRICT x, GLOBAL float* RESTRICT y)
{
    for (ulong row = FIRST_INDEX; row < rows; row += THREAD_COUNT)
        for (ulong column = 0; column < columns; column++)
            y[row * columns + column] = FMA(a, x[row * columns + column], y[row * columns + column]);
}

// `loop gang` on the outer and `loop vector` on the inner loop. Each block updates whole rows, and
// neighbouring threads access neighbouring elements.
KERNEL(BLOCK_SIZE)
block_per_row(ulong rows, ulong columns, float a, GLOBAL const float* RESTRICT x, GLOBAL float* RESTRICT y)
{
    for (ulong row = BLOCK_INDEX; row < rows; row += BLOCK_COUNT)
        for (ulong column = THREAD; column < columns; column += BLOCK_SIZE)
            y[row * columns + column] = FMA(a, x[row * columns + column], y[row * columns + column]);
}
