// An `if` inside a loop, with a short or a long body on both sides.
//
// Thread i does `rounds` rounds. In round r it computes one of two bodies of BODY fused
// multiply-adds, chosen by bit r mod 32 of conditions[i].
// Cost: 2 BODY operations per round.
// Limit: arithmetic. Of a short body, compilers compute both sides and select, or execute each side
// under a predicate. Then both sides cost time for every condition. Of a long body, they branch.
// Then a warp skips a side that none of its lanes takes.
//
// Defined by the host (predication.rs): BLOCK_SIZE, BODY.

// conditions, results: one per thread.
KERNEL(BLOCK_SIZE)
choose_bodies(GLOBAL const uint* RESTRICT conditions, uint n, int rounds, GLOBAL float* RESTRICT results)
{
    const uint i = (uint)BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (i < n) {
        const uint condition = conditions[i];
        float x = 1.0f;
        UNROLL(1)
        for (int round = 0; round < rounds; round++) {
            if (condition >> (round & 31) & 1u) {
                UNROLL_ALL
                for (int count = 0; count < BODY; count++)
                    x = FMA(x, 0.984375f, 0.25f);
            } else {
                UNROLL_ALL
                for (int count = 0; count < BODY; count++)
                    x = FMA(x, 0.96875f, -0.5f);
            }
        }
        results[i] = x;
    }
}
