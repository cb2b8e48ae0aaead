// Absorbing layers and images beyond sides.
//
// n counts nodes from the outside inwards and L = thickness. With D and D2 the first and second
// derivative along the normal:
//
//   psi = tiny(fma(b, psi, a D u))                n < L
//   zeta = tiny(fma(b, zeta, a (D2 u + D psi)))   n < L
//   u' = fma(v, D psi + zeta, u')                 n < L + RADIUS, where psi = zeta = 0 from L on
//
// tiny is zero_if_tiny.
//
// D psi needs new values of psi at neighbours, so one thread or one block does a whole line. About
// 32 bytes per node of a layer in single precision: bound by memory bandwidth.
//
// Defined by the host (layers.rs): LINE_THREADS and LINES for absorb_rows, BLOCK_SIZE for the
// others.

// Arguments of absorbing kernels. Distances are modulo 2^64.
//
// coefficients: a for n < L, then b for n < L
// first:        position of node n = 0 of line (0, 0)
// normal:       distance from node n to n + 1
#define LAYER_PARAMETERS                                                                                      \
    GLOBAL const REAL *RESTRICT u, GLOBAL REAL *RESTRICT next, GLOBAL const REAL *RESTRICT courant,           \
        REAL uniform_courant, GLOBAL REAL *RESTRICT psi, GLOBAL REAL *RESTRICT zeta,                          \
        GLOBAL const REAL *RESTRICT coefficients, int thickness, REAL first1, REAL first2, REAL first3,       \
        REAL first4, REAL second_centre, REAL second1, REAL second2, REAL second3, REAL second4, ulong first, \
        ulong normal

// Returns D of the window at its node RADIUS. Inwards is towards higher indices.
FUNCTION REAL derivative(const REAL* window, const REAL* weights)
{
    REAL sum = PRODUCT(weights[0], window[RADIUS + 1] - window[RADIUS - 1]);
    UNROLL_ALL
    for (int r = 2; r <= RADIUS; r++)
        sum = FMA_REAL(weights[r - 1], window[RADIUS + r] - window[RADIUS - r], sum);
    return sum;
}

// Returns D2 of the window at its node RADIUS.
FUNCTION REAL second_derivative(const REAL* window, REAL centre, const REAL* weights)
{
    REAL sum = PRODUCT(centre, window[RADIUS]);
    UNROLL_ALL
    for (int r = 1; r <= RADIUS; r++)
        sum = FMA_REAL(weights[r - 1], window[RADIUS - r] + window[RADIUS + r], sum);
    return sum;
}

// A thread per line along y or z marches inwards. Lines of neighbouring threads are neighbours
// along x. The window of u covers the nodes n - RADIUS to n + 2 RADIUS, because psi is RADIUS nodes
// ahead.
//
// columns, lines: lines along x and along the other axis, whose strides are 1 and `other`
// The memory index of node n of line (i, b) is memory_first + b memory_other + n memory_normal + i.
KERNEL(BLOCK_SIZE)
absorb_lines(
    LAYER_PARAMETERS,
    ulong other,
    int columns,
    int lines,
    ulong memory_first,
    ulong memory_normal,
    ulong memory_other)
{
    const int i = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i >= columns)
        return;
    const REAL first_weights[4] = {first1, first2, first3, first4};
    const REAL second_weights[4] = {second1, second2, second3, second4};
    for (int line = BLOCK_INDEX_Y; line < lines; line += BLOCK_COUNT_Y) {
        ulong at = first + (ulong)line * other + (uint)i;
        ulong memory = memory_first + (ulong)line * memory_other + (uint)i;
        REAL values[3 * RADIUS + 1], psis[2 * RADIUS + 1];
        // The window of n = -RADIUS, without its last node.
        UNROLL_ALL
        for (int k = 0; k < 3 * RADIUS; k++)
            values[k] = k < RADIUS ? (REAL)0 : u[at + (k - 2 * RADIUS) * normal];
        UNROLL_ALL
        for (int k = 0; k < 2 * RADIUS; k++)
            psis[k] = (REAL)0;
        for (int n = -RADIUS; n < thickness + RADIUS; n++) {
            const int ahead = n + RADIUS;
            values[3 * RADIUS] = (REAL)0;
            psis[2 * RADIUS] = (REAL)0;
            if (ahead < thickness) {
                values[3 * RADIUS] = u[at + 2 * RADIUS * normal + n * normal];
                const ulong index = memory + (ulong)ahead * memory_normal;
                const REAL slope = derivative(values + RADIUS, first_weights);
                const REAL damped = PRODUCT(coefficients[ahead], slope);
                psis[2 * RADIUS] = zero_if_tiny(FMA_REAL(coefficients[thickness + ahead], psi[index], damped));
                psi[index] = psis[2 * RADIUS];
            }
            if (n >= 0) {
                REAL term = derivative(psis, first_weights);
                if (n < thickness) {
                    const ulong index = memory + (ulong)n * memory_normal;
                    const REAL curvature = second_derivative(values, second_centre, second_weights);
                    const REAL damped = PRODUCT(coefficients[n], curvature + term);
                    const REAL new_zeta =
                        zero_if_tiny(FMA_REAL(coefficients[thickness + n], zeta[index], damped));
                    zeta[index] = new_zeta;
                    term = term + new_zeta;
                }
                const ulong node = at + n * normal;
                next[node] = FMA_REAL(IS_VARIABLE ? courant[node] : uniform_courant, term, next[node]);
            }
            UNROLL_ALL
            for (int k = 0; k < 3 * RADIUS; k++)
                values[k] = values[k + 1];
            UNROLL_ALL
            for (int k = 0; k < 2 * RADIUS; k++)
                psis[k] = psis[k + 1];
        }
    }
}

#if LINE_THREADS > 0
// LINE_THREADS neighbouring threads per line along x, one per node. LINE_THREADS is at least
// L + RADIUS. A block has LINES lines of one plane. psi and zeta have the order (plane, row, n).
KERNEL(LINE_THREADS* LINES)
absorb_rows(LAYER_PARAMETERS, int pitch, ulong plane, int rows, int planes, ulong memory_first)
{
    SHARED REAL psis[LINES][LINE_THREADS + 2 * RADIUS];

    const int n = THREAD % LINE_THREADS, line = THREAD / LINE_THREADS;
    const int j = BLOCK_INDEX * LINES + line;
    const int is_layer = j < rows && n < thickness;
    const int is_changed = j < rows && n < thickness + RADIUS;
    const REAL first_weights[4] = {first1, first2, first3, first4};
    const REAL second_weights[4] = {second1, second2, second3, second4};
    const REAL a = is_layer ? coefficients[n] : (REAL)0;
    const REAL b = is_layer ? coefficients[thickness + n] : (REAL)0;
    if (n < RADIUS) {
        psis[line][n] = (REAL)0;
        psis[line][LINE_THREADS + RADIUS + n] = (REAL)0;
    }
    for (int k = BLOCK_INDEX_Y; k < planes; k += BLOCK_COUNT_Y) {
        const ulong node = first + (ulong)k * plane + (ulong)j * (uint)pitch + (ulong)n * normal;
        const ulong index = memory_first + ((ulong)k * (uint)rows + (uint)j) * (uint)thickness + (uint)n;
        REAL values[2 * RADIUS + 1];
        REAL new_psi = (REAL)0, old_zeta = (REAL)0, old_next = (REAL)0, v = uniform_courant;
        if (is_changed) {
            old_next = next[node];
            if (IS_VARIABLE)
                v = courant[node];
        }
        if (is_layer) {
            old_zeta = zeta[index];
            UNROLL_ALL
            for (int r = -RADIUS; r <= RADIUS; r++)
                values[RADIUS + r] = u[node + r * normal];
            new_psi = zero_if_tiny(FMA_REAL(b, psi[index], PRODUCT(a, derivative(values, first_weights))));
            psi[index] = new_psi;
        }
        psis[line][n + RADIUS] = new_psi;
        BARRIER();
        if (is_changed) {
            REAL window[2 * RADIUS + 1];
            UNROLL_ALL
            for (int r = 0; r <= 2 * RADIUS; r++)
                window[r] = psis[line][n + r];
            REAL term = derivative(window, first_weights);
            if (is_layer) {
                const REAL curvature = second_derivative(values, second_centre, second_weights);
                const REAL new_zeta = zero_if_tiny(FMA_REAL(b, old_zeta, PRODUCT(a, curvature + term)));
                zeta[index] = new_zeta;
                term = term + new_zeta;
            }
            next[node] = FMA_REAL(v, term, old_next);
        }
        BARRIER();
    }
}
#endif

// Writes the images of the nodes next to a side: the ghost node r beyond node (a, b) of the side is
// `sign` times the node r inside. Distances are modulo 2^64.
KERNEL(BLOCK_SIZE)
write_images(
    GLOBAL REAL* RESTRICT field,
    REAL sign,
    ulong first,
    ulong normal,
    ulong stride_a,
    int count_a,
    ulong stride_b,
    int count_b)
{
    const int a = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (a >= count_a)
        return;
    for (int b = BLOCK_INDEX_Y; b < count_b; b += BLOCK_COUNT_Y) {
        const ulong at = first + (ulong)a * stride_a + (ulong)b * stride_b;
        UNROLL_ALL
        for (int r = 1; r <= RADIUS; r++)
            field[at - r * normal] = sign * field[at + r * normal];
    }
}
