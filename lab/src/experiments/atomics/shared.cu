// Additions to numbers in shared memory, timed by the clock of the SM.
//
// Data: SLOTS numbers of 8 bytes per block. Lane l of each warp adds to number slots[l], `rounds`
// times.
// Cost: one atomic operation per round.
// Limit: the banks of the shared memory. Number s of 4 bytes is in bank s mod 32. Operations on the
// same number follow one another.
//
// Defined by the host (shared.rs): BLOCK_SIZE, SLOTS.

// Cycles of the SM's clock. 0 where the compiler gives no access to it.
#if defined(ON_CUDA)
#define CYCLES() ((ulong)clock64())
#else
#define CYCLES() 0ul
#endif

FUNCTION void add_float(SHARED_POINTER float* p, float value)
{
#if defined(ON_CUDA)
    atomicAdd(p, value);
#else
    SHARED_POINTER uint* word = (SHARED_POINTER uint*)p;
    uint old = *(SHARED_POINTER volatile uint*)word;
    for (;;) {
        const uint seen = SHARED_ATOMIC_CAS_U32(word, old, FLOAT_AS_UINT(UINT_AS_FLOAT(old) + value));
        if (seen == old)
            break;
        old = seen;
    }
#endif
}

// slots: one index below SLOTS per lane. totals: SLOTS numbers per block, as integers. cycles: one
// count per block.
KERNEL(BLOCK_SIZE)
update_shared(GLOBAL const uint* RESTRICT slots, int rounds, int kind, GLOBAL ulong* RESTRICT totals,
              GLOBAL ulong* RESTRICT cycles)
{
    SHARED ulong numbers[SLOTS];
    SHARED_POINTER uint* words = (SHARED_POINTER uint*)numbers;
    SHARED_POINTER float* floats = (SHARED_POINTER float*)numbers;
    const uint slot = slots[LANE];
    const uint value = 1u + ((uint)THREAD & 7u);
    for (int index = THREAD; index < SLOTS; index += BLOCK_SIZE)
        numbers[index] = 0ul;

    BARRIER();
    const ulong before = CYCLES();
    if (kind == U32) {
        UNROLL(8)
        for (int round = 0; round < rounds; round++)
            SHARED_ATOMIC_ADD_U32(words + slot, value);
    } else if (kind == F32) {
        UNROLL(8)
        for (int round = 0; round < rounds; round++)
            add_float(floats + slot, (float)value);
    } else if (kind == RACING_U32) {
        SHARED_POINTER volatile uint* word = words + slot;
        UNROLL(8)
        for (int round = 0; round < rounds; round++)
            *word += value;
    }
#if HAS_ATOMICS_U64
    else {
        UNROLL(8)
        for (int round = 0; round < rounds; round++)
            SHARED_ATOMIC_ADD_U64(numbers + slot, (ulong)value);
    }
#endif
    BARRIER();
    const ulong after = CYCLES();

    for (int index = THREAD; index < SLOTS; index += BLOCK_SIZE) {
        const ulong total = kind == U64 ? numbers[index] : kind == F32 ? (ulong)floats[index] : words[index];
        totals[BLOCK_INDEX * SLOTS + index] = total;
    }
    if (THREAD == 0)
        cycles[BLOCK_INDEX] = after - before;
}
