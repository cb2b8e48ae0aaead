// Sums of the same terms in different orders, by one thread.
//
// Data: out has 4 numbers: (large - large) + 1, large + (-large + 1), and the sum of 1 / i for
// i = 1 ... terms from the largest to the smallest term and in the opposite order.
// Cost: one division and one addition per term.
// Limit: the latency of the addition, because each one waits for the one before.
//
// Defined by the host (sums.rs): REAL.
KERNEL(1) sum_in_orders(GLOBAL REAL* out, REAL large, REAL one, int terms)
{
    out[0] = (large + -large) + one;
    out[1] = large + (-large + one);
    REAL forward = 0;
    for (int i = 1; i <= terms; i++)
        forward += one / (REAL)i;
    out[2] = forward;
    REAL backward = 0;
    for (int i = terms; i >= 1; i--)
        backward += one / (REAL)i;
    out[3] = backward;
}
