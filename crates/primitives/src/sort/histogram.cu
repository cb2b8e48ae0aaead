// Where each digit begins, for all passes from one reading of the keys.
//
// All words of `counts` and `arrived` are 0 between sorts: the last group to arrive, which turns the counts into
// beginnings, leaves them so. WIDE counts have two words, the low one first.

#define DIGITS 256u
#define PASSES ((uint)sizeof(KEY))
#define COUNTS (PASSES * DIGITS)
#define COUNTERS 256u
#define AT_ONCE 4u

#if WIDE
typedef ulong OFFSET;
#define WORDS 2u
#else
typedef uint OFFSET;
#define WORDS 1u
#endif

// Digits of `width` bits from bit `low` on, the last of which begins at bit `last`.
FUNCTION void count(SHARED_POINTER uint* own, KEY key, uint passes, uint low, uint last, uint width)
{
    UNROLL_ALL
    for (uint pass = 0; pass < PASSES; pass++) {
        const uint shift = low + pass * width;
        if (pass < passes) {
            const uint digit = (uint)(key >> (shift < last ? shift : last)) & ((1u << width) - 1u);
            SHARED_ATOMIC_ADD_U32(&own[pass * DIGITS + digit], 1u);
        }
    }
}

FUNCTION void add(GLOBAL uint* counts, uint at, uint v)
{
#if WIDE
    const uint before = ATOMIC_ADD_U32(&counts[2u * at], v);
    if (before + v < before)
        ATOMIC_ADD_U32(&counts[2u * at + 1u], 1u);
#else
    ATOMIC_ADD_U32(&counts[at], v);
#endif
}

FUNCTION OFFSET counted(GLOBAL uint* counts, uint at)
{
#if WIDE
    return (ulong)LOAD_U32(&counts[2u * at]) | (ulong)LOAD_U32(&counts[2u * at + 1u]) << 32;
#else
    return LOAD_U32(&counts[at]);
#endif
}

// `begins` has a row of 2 DIGITS for each pass and this fills the row's first half. Clears what the first pass
// will look back at, and every pass's ticket.
KERNEL(COUNTERS)
sort_histogram(GLOBAL const KEY* RESTRICT keys, ulong n, uint passes, uint low, uint last, uint width,
               GLOBAL uint* counts, GLOBAL uint* arrived, GLOBAL OFFSET* begins, GLOBAL uint* RESTRICT tickets,
               GLOBAL uint* RESTRICT seen, uint seen_words)
{
    SHARED uint own[COUNTS];
    SHARED OFFSET lane_sum[COUNTERS];
    SHARED uint is_last;
    const uint thread = (uint)THREAD;
    const ulong stride = (ulong)BLOCK_COUNT * COUNTERS;
    const ulong first = (ulong)BLOCK_INDEX * COUNTERS + thread;

    for (uint k = thread; k < COUNTS; k += COUNTERS)
        own[k] = 0u;
    for (ulong k = first; k < seen_words; k += stride)
        seen[k] = 0u;
    BARRIER();

    for (ulong i = first; i < n; i += AT_ONCE * stride) {
        KEY key[AT_ONCE];
        UNROLL_ALL
        for (uint k = 0; k < AT_ONCE; k++)
            key[k] = i + k * stride < n ? keys[i + k * stride] : 0;
        UNROLL_ALL
        for (uint k = 0; k < AT_ONCE; k++)
            if (i + k * stride < n)
                count(own, key[k], passes, low, last, width);
    }
    BARRIER();

    for (uint k = thread; k < passes * DIGITS; k += COUNTERS)
        if (own[k] != 0u)
            add(counts, k, own[k]);
    FENCE();
    BARRIER();
    if (thread == 0u)
        is_last = ATOMIC_ADD_U32(arrived, 1u) == (uint)(BLOCK_COUNT - 1) ? 1u : 0u;
    BARRIER();

    // Every group passes these barriers, and only the last works between them. A row of 32 threads has a pass.
    const uint row = thread / 32u, lane = thread % 32u;
    const uint mine = row * DIGITS + lane * 8u;
    const uint working = is_last != 0u && row < passes ? 1u : 0u;
    OFFSET begin[8];
    OFFSET sum = 0;
    if (working != 0u) {
        FENCE();
        for (uint k = 0; k < 8u; k++) {
            begin[k] = sum;
            sum += counted(counts, mine + k);
        }
    }
    lane_sum[thread] = sum;
    BARRIER();
    if (working != 0u) {
        OFFSET before = 0;
        for (uint k = 0; k < lane; k++)
            before += lane_sum[row * 32u + k];
        for (uint k = 0; k < 8u; k++)
            begins[2u * row * DIGITS + lane * 8u + k] = before + begin[k];
        for (uint k = 0; k < 8u * WORDS; k++)
            counts[WORDS * mine + k] = 0u;
        if (lane == 0u)
            tickets[row] = 0u;
        if (thread == 0u)
            *arrived = 0u;
    }
}
