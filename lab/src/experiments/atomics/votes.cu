// Votes and matches of the lanes of a warp.
//
// In each round every lane has a random number, and all lanes of the warp get the result of the
// vote.
// Cost: one vote and a few integer operations per round.
// Limit: issue of instructions. A device without warps exchanges the numbers through shared memory.
//
// Defined by the host (votes.rs): BLOCK_SIZE.

// Returns the random number of a thread in a round.
FUNCTION uint number_of(uint thread, uint round)
{
    const uint hash = (thread + round * 2246822519u) * 2654435761u;
    return hash ^ hash >> 15;
}

// sums: one number per thread of the grid, the sum of its results. Sums wrap.
KERNEL(BLOCK_SIZE) vote(GLOBAL uint* RESTRICT sums, int rounds, int kind)
{
    SHARED uint scratch[BLOCK_SIZE];
    const uint thread = (uint)(BLOCK_INDEX * BLOCK_SIZE + THREAD);
    // Votes do not use `scratch` on CUDA, whose compiler warns about an unused variable.
    scratch[THREAD] = 0u;
    uint sum = scratch[THREAD];
    if (kind == VOTE_ANY) {
        for (int round = 0; round < rounds; round++)
            sum += ANY((number_of(thread, (uint)round) & 31u) == 0u, scratch) ? 1u : 0u;
    } else if (kind == VOTE_ALL) {
        for (int round = 0; round < rounds; round++)
            sum += ALL((number_of(thread, (uint)round) & 31u) != 0u, scratch) ? 1u : 0u;
    } else if (kind == VOTE_BALLOT) {
        for (int round = 0; round < rounds; round++)
            sum += BALLOT((number_of(thread, (uint)round) & 1u) != 0u, scratch);
    } else if (kind == VOTE_MATCH_ANY) {
        for (int round = 0; round < rounds; round++)
            sum += MATCH_ANY(number_of(thread, (uint)round) & 7u, scratch);
    } else {
        // Half of the warps have equal numbers in all lanes.
        for (int round = 0; round < rounds; round++) {
            const uint shared_number = number_of(thread / WARP_SIZE, (uint)round);
            const uint number = shared_number & 1u ? shared_number : number_of(thread, (uint)round) & 7u;
            sum += MATCH_ALL(number, scratch);
        }
    }
    sums[thread] = sum;
}
