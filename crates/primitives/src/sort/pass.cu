// One pass of the sort: a digit of every key, one reading and one writing (Adinets & Merrill 2022).
//
// A group takes a tile of keys and ranks them stably by their digit: within a warp by asking which lanes have the
// same digit, across warps by counting first. Where the tile's keys of a digit go follows from the tiles before it:
// each leaves, for each digit, its own count and later the count up to its end, and a group looks back over as many
// counts as it must. The order of tiles is that of the tickets, so a group waits only for groups that have begun.
// Nothing depends on timing: the result is the one stable order.

#define DIGITS 256u
#define TILE (THREADS * ITEMS)
#define WARPS (THREADS / 32u)

#if WIDE
typedef ulong OFFSET;
#else
typedef uint OFFSET;
#endif

// The counters of the warps, then the keys, then the values.
#define COUNTER_BYTES (WARPS * DIGITS * 4u)
#define KEY_BYTES (TILE * sizeof(KEY))
#define ROOM ((COUNTER_BYTES > KEY_BYTES ? COUNTER_BYTES : KEY_BYTES) / sizeof(ulong))

// What a tile leaves for those after it, a word a digit: nothing, its count, or the count of all tiles up to it.
#define OWN (1u << 30)
#define UP_TO (2u << 30)
#define STATE (3u << 30)

#if defined(ON_CUDA) || defined(__NV_CL_C_VERSION)
#define UNROLL_ITEMS UNROLL_ALL
#else
// Unrolled, the barriers between lanes would be many.
#define UNROLL_ITEMS
#endif

// The lanes whose digit is the same as this one's.
FUNCTION uint alike(uint digit, SHARED_POINTER uint* scratch)
{
#if defined(ON_CUDA) || defined(__NV_CL_C_VERSION)
    uint lanes = 0xffffffffu;
    UNROLL_ALL
    for (uint bit = 0; bit < 8u; bit++) {
        const uint set = (digit >> bit) & 1u;
        lanes &= BALLOT(set != 0u, scratch) ^ (set - 1u);
    }
    return lanes;
#else
    BARRIER();
    scratch[THREAD] = digit;
    BARRIER();
    uint lanes = 0u;
    for (int lane = 0; lane < WARP_SIZE; lane++)
        lanes |= (scratch[THREAD - LANE + lane] == digit ? 1u : 0u) << lane;
    return lanes;
#endif
}

// The keys of this digit in all tiles before this one.
FUNCTION uint keys_before(GLOBAL uint* seen, uint tile, uint digit)
{
    uint before = 0u;
    uint next = tile;
    while (next > 0u) {
        // Several at once: a word's way is long, and a tile may have to look far.
        uint word[LOOK];
        UNROLL_ALL
        for (uint k = 0; k < LOOK; k++)
            word[k] = LOAD_U32(&seen[(next > k ? next - 1u - k : 0u) * DIGITS + digit]);
        uint open = 1u;
        UNROLL_ALL
        for (uint k = 0; k < LOOK; k++) {
            if (open != 0u && next > 0u) {
                const uint state = word[k] & STATE;
                before += word[k] & ~STATE;
                next = state == UP_TO ? 0u : next - (state == OWN ? 1u : 0u);
                open = state == OWN ? 1u : 0u;
            }
        }
    }
    return before;
}

// Keys first.. first + n; n is below 2^30 and, but for a pass's last launch, a multiple of TILE. Where digits begin is in
// row 2 pass + turn of `begins`, and for the next launch of the pass this one leaves it in the other row of the two.
// `all_seen` has two sides of `rows` rows, used in turn: this launch finds its own clear, and clears `next_rows` of the
// other.
KERNEL_MIN_BLOCKS(THREADS, RESIDENT)
sort_pass(GLOBAL const KEY* RESTRICT keys, GLOBAL const uint* RESTRICT values, GLOBAL KEY* RESTRICT to_keys,
          GLOBAL uint* RESTRICT to_values, ulong first, uint n, uint shift, uint bits, uint pass, uint turn,
          GLOBAL OFFSET* begins, GLOBAL uint* tickets, uint first_tile, GLOBAL uint* all_seen, uint side,
          uint rows, uint next_rows)
{
    SHARED ulong room[ROOM];
    SHARED OFFSET target[DIGITS];
    SHARED uint scratch[THREADS];
    SHARED uint warp_sum[WARPS];
    SHARED uint ticket;
    SHARED_POINTER uint* counter = (SHARED_POINTER uint*)room;
    SHARED_POINTER KEY* moved_key = (SHARED_POINTER KEY*)room;
    SHARED_POINTER uint* moved_value = (SHARED_POINTER uint*)room;

    const uint thread = (uint)THREAD;
    const uint lane = thread % 32u, warp = thread / 32u;
    const uint mask = (1u << bits) - 1u;
    SHARED_POINTER uint* own = counter + warp * DIGITS;

    if (thread == 0u)
        ticket = ATOMIC_ADD_U32(&tickets[pass], 1u) - first_tile;
    for (uint k = thread; k < WARPS * DIGITS; k += THREADS)
        counter[k] = 0u;
    BARRIER();
    const uint tile = ticket;
    const uint length = n - tile * TILE < TILE ? n - tile * TILE : TILE;
    const ulong begin = first + tile * TILE;
    const uint mine = warp * 32u * ITEMS + lane;
    GLOBAL uint* seen = all_seen + side * rows * DIGITS;
    GLOBAL uint* other = all_seen + (1u - side) * rows * DIGITS;

    // What is missing in the last tile counts as the largest keys, and so comes to lie behind the others.
    KEY key[ITEMS];
    if (length == TILE) {
        UNROLL_ITEMS
        for (uint k = 0; k < ITEMS; k++)
            key[k] = keys[begin + mine + 32u * k];
    } else {
        UNROLL_ITEMS
        for (uint k = 0; k < ITEMS; k++)
            key[k] = mine + 32u * k < length ? keys[begin + mine + 32u * k] : ~(KEY)0;
    }
    UNROLL_ITEMS
    for (uint k = 0; k < ITEMS; k++)
        SHARED_ATOMIC_ADD_U32(&own[(uint)(key[k] >> shift) & mask], 1u);
    BARRIER();

    uint total = 0u;
    if (thread < DIGITS) {
        UNROLL_ITEMS
        for (uint w = 0; w < WARPS; w++)
            total += counter[w * DIGITS + thread];
        STORE_U32(&seen[tile * DIGITS + thread], total | (tile == 0u ? UP_TO : OWN));
        for (uint row = tile; row < next_rows; row += (uint)BLOCK_COUNT)
            other[row * DIGITS + thread] = 0u;
    }
    uint sum = total;
    for (uint reach = 1; reach < 32u; reach *= 2u) {
        const uint below = SHUFFLE(sum, lane >= reach ? lane - reach : lane, scratch);
        sum += lane >= reach ? below : 0u;
    }
    if (lane == 31u)
        warp_sum[warp] = sum;
    BARRIER();
    uint start = sum - total;
    for (uint w = 0; w < warp; w++)
        start += warp_sum[w];
    if (thread < DIGITS) {
        uint at = start;
        UNROLL_ITEMS
        for (uint w = 0; w < WARPS; w++) {
            const uint count = counter[w * DIGITS + thread];
            counter[w * DIGITS + thread] = at;
            at += count;
        }
    }
    BARRIER();

    uint place[ITEMS];
    UNROLL_ITEMS
    for (uint k = 0; k < ITEMS; k++) {
        const uint digit = (uint)(key[k] >> shift) & mask;
        const uint lanes = alike(digit, scratch);
        const uint below = (uint)POPCOUNT(lanes & ((1u << lane) - 1u));
        const uint at = own[digit];
        place[k] = at + below;
        WARP_BARRIER();
        if (below == 0u)
            own[digit] = at + (uint)POPCOUNT(lanes);
        WARP_BARRIER();
    }
    BARRIER();
    UNROLL_ITEMS
    for (uint k = 0; k < ITEMS; k++)
        moved_key[place[k]] = key[k];

    uint value[ITEMS];
    UNROLL_ITEMS
    for (uint k = 0; k < ITEMS; k++)
        value[k] = mine + 32u * k < length ? values[begin + mine + 32u * k] : 0u;

    if (thread < DIGITS) {
        const uint before = keys_before(seen, tile, thread);
        if (tile > 0u)
            STORE_U32(&seen[tile * DIGITS + thread], (before + total) | UP_TO);
        const OFFSET from = begins[(2u * pass + turn) * DIGITS + thread] + before;
        if (tile == (uint)BLOCK_COUNT - 1u)
            begins[(2u * pass + 1u - turn) * DIGITS + thread] = from + total;
        target[thread] = from - start;
    }
    BARRIER();

    OFFSET to[ITEMS];
    UNROLL_ITEMS
    for (uint k = 0; k < ITEMS; k++) {
        const uint at = thread + k * THREADS;
        const KEY moved = moved_key[at];
        to[k] = target[(uint)(moved >> shift) & mask] + at;
        if (at < length)
            to_keys[to[k]] = moved;
    }
    BARRIER();
    UNROLL_ITEMS
    for (uint k = 0; k < ITEMS; k++)
        moved_value[place[k]] = value[k];
    BARRIER();
    UNROLL_ITEMS
    for (uint k = 0; k < ITEMS; k++) {
        const uint at = thread + k * THREADS;
        if (at < length)
            to_values[to[k]] = moved_value[at];
    }
}
