// Digit histograms of all passes of the sort, and where each digit value begins in the output, from
// one read of the keys.
//
// Each block counts its keys in shared memory and adds the counts to `counts`. The last block to
// finish turns the counts into exclusive prefix sums, one per pass, and clears `counts`.
//
// Defined by the host (device.rs): KEY (uint or ulong), WIDE_OFFSETS (1: 64-bit counts and
// offsets).
//
// Invariant: `counts` and *arrived are 0 between sorts. A 64-bit count is two words, low word
// first.

// Values of a digit of 8 bits.
#define RADIX 256u
#define MAX_PASSES ((uint)sizeof(KEY))
#define BLOCK_SIZE 256u
#define KEYS_IN_FLIGHT 4u
// In the prefix sum, a warp has one pass and each lane has RADIX / 32 neighbouring digit values.
#define VALUES_PER_LANE 8u

#if WIDE_OFFSETS
typedef ulong OFFSET;
#define WORDS_PER_COUNT 2u
#else
typedef uint OFFSET;
#define WORDS_PER_COUNT 1u
#endif

// Counts the digits of one key. Digit `pass` has `width` bits and begins at bit low + pass * width,
// or at bit `last` if that is less.
FUNCTION void count_digits(SHARED_POINTER uint* block_counts, KEY key, uint passes, uint low, uint last, uint width)
{
    UNROLL_ALL
    for (uint pass = 0; pass < MAX_PASSES; pass++) {
        const uint shift = low + pass * width;
        if (pass < passes) {
            const uint digit = (uint)(key >> (shift < last ? shift : last)) & ((1u << width) - 1u);
            SHARED_ATOMIC_ADD_U32(&block_counts[pass * RADIX + digit], 1u);
        }
    }
}

// Counts the digits of every `stride`-th key from `first_key` on.
FUNCTION void count_keys(SHARED_POINTER uint* block_counts, GLOBAL const KEY* RESTRICT keys, ulong n, ulong first_key,
                         ulong stride, uint passes, uint low, uint last, uint width)
{
    for (ulong first = first_key; first < n; first += KEYS_IN_FLIGHT * stride) {
        KEY key[KEYS_IN_FLIGHT];
        UNROLL_ALL
        for (uint load = 0; load < KEYS_IN_FLIGHT; load++)
            key[load] = first + load * stride < n ? keys[first + load * stride] : 0;
        UNROLL_ALL
        for (uint load = 0; load < KEYS_IN_FLIGHT; load++)
            if (first + load * stride < n)
                count_digits(block_counts, key[load], passes, low, last, width);
    }
}

FUNCTION void add_to_count(GLOBAL uint* counts, uint index, uint amount)
{
#if WIDE_OFFSETS
    const uint before = ATOMIC_ADD_U32(&counts[2u * index], amount);
    if (before + amount < before)
        ATOMIC_ADD_U32(&counts[2u * index + 1u], 1u);
#else
    ATOMIC_ADD_U32(&counts[index], amount);
#endif
}

FUNCTION OFFSET load_count(GLOBAL uint* counts, uint index)
{
#if WIDE_OFFSETS
    return (ulong)LOAD_U32(&counts[2u * index]) | (ulong)LOAD_U32(&counts[2u * index + 1u]) << 32;
#else
    return LOAD_U32(&counts[index]);
#endif
}

// Writes the prefix sums of the counts to `begins`, and clears the counts and tickets. Every block
// calls it and passes its barriers, but only the last block (is_last) has work between them.
FUNCTION void write_begins(uint is_last, uint passes, GLOBAL uint* counts, GLOBAL uint* arrived, GLOBAL OFFSET* begins,
                           GLOBAL uint* RESTRICT tickets, SHARED_POINTER OFFSET* lane_sum)
{
    const uint thread = (uint)THREAD;
    const uint pass = thread / 32u, lane = thread % 32u;
    const uint first = pass * RADIX + lane * VALUES_PER_LANE;
    const uint is_working = is_last != 0u && pass < passes ? 1u : 0u;
    OFFSET begin[VALUES_PER_LANE];
    OFFSET sum = 0;
    if (is_working != 0u) {
        DEVICE_FENCE();
        for (uint value = 0; value < VALUES_PER_LANE; value++) {
            begin[value] = sum;
            sum += load_count(counts, first + value);
        }
    }
    lane_sum[thread] = sum;
    BARRIER();
    if (is_working != 0u) {
        OFFSET before = 0;
        for (uint other = 0; other < lane; other++)
            before += lane_sum[pass * 32u + other];
        for (uint value = 0; value < VALUES_PER_LANE; value++)
            begins[2u * pass * RADIX + lane * VALUES_PER_LANE + value] = before + begin[value];
        for (uint word = 0; word < VALUES_PER_LANE * WORDS_PER_COUNT; word++)
            counts[WORDS_PER_COUNT * first + word] = 0u;
        if (lane == 0u)
            tickets[pass] = 0u;
        if (thread == 0u)
            *arrived = 0u;
    }
}

// begins: two rows of RADIX offsets per pass, of which this fills the first. tickets: one per pass,
// cleared. tile_states: its first `state_words` words, which the first launch of the first pass
// uses, are cleared.
KERNEL(BLOCK_SIZE)
sort_histogram(GLOBAL const KEY* RESTRICT keys, ulong n, uint passes, uint low, uint last, uint width,
               GLOBAL uint* counts, GLOBAL uint* arrived, GLOBAL OFFSET* begins, GLOBAL uint* RESTRICT tickets,
               GLOBAL uint* RESTRICT tile_states, uint state_words)
{
    SHARED uint block_counts[MAX_PASSES * RADIX];
    SHARED OFFSET lane_sum[BLOCK_SIZE];
    SHARED uint is_last;
    const uint thread = (uint)THREAD;
    const ulong stride = (ulong)BLOCK_COUNT * BLOCK_SIZE;
    const ulong first = (ulong)BLOCK_INDEX * BLOCK_SIZE + thread;

    for (uint index = thread; index < MAX_PASSES * RADIX; index += BLOCK_SIZE)
        block_counts[index] = 0u;
    for (ulong word = first; word < state_words; word += stride)
        tile_states[word] = 0u;
    BARRIER();
    count_keys(block_counts, keys, n, first, stride, passes, low, last, width);
    BARRIER();

    for (uint index = thread; index < passes * RADIX; index += BLOCK_SIZE)
        if (block_counts[index] != 0u)
            add_to_count(counts, index, block_counts[index]);
    DEVICE_FENCE();
    BARRIER();
    if (thread == 0u)
        is_last = ATOMIC_ADD_U32(arrived, 1u) == (uint)(BLOCK_COUNT - 1) ? 1u : 0u;
    BARRIER();
    write_begins(is_last, passes, counts, arrived, begins, tickets, lane_sum);
}
