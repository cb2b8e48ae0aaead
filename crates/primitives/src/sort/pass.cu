// One pass of the radix sort: distributes all pairs by one digit of their keys, reading and writing
// each pair once (onesweep: Adinets & Merrill 2022, arXiv:2206.01784).
//
// A block takes a tile of TILE_SIZE pairs and ranks the keys stably by their digit. Within a warp
// it finds the lanes with the same digit (lanes_with_digit), across warps it counts the digits
// first. It then needs, for each digit value, the number of keys in all earlier tiles. Each tile
// publishes its own counts, and later the counts of all tiles up to and including itself. A block
// looks back over earlier tiles until it finds the latter (count_in_earlier_tiles). Tiles are
// numbered by tickets, so a block only waits for blocks that have started. There is exactly one
// stable order, so the result does not depend on timing.
//
// Defined by the host (device.rs): KEY (uint or ulong), WIDE_OFFSETS (1: 64-bit offsets),
// BLOCK_SIZE, ITEMS_PER_THREAD, MIN_BLOCKS_PER_SM, LOOKBACK_WINDOW (tiles whose counts are loaded
// together).

// Values of a digit of 8 bits.
#define RADIX 256u
#define TILE_SIZE (BLOCK_SIZE * ITEMS_PER_THREAD)
#define WARPS (BLOCK_SIZE / 32u)

#if WIDE_OFFSETS
typedef ulong OFFSET;
#else
typedef uint OFFSET;
#endif

// One array in shared memory holds the digit counts of the warps, then the keys, then the values.
#define COUNT_BYTES (WARPS * RADIX * 4u)
#define KEY_BYTES (TILE_SIZE * sizeof(KEY))
#define SHARED_WORDS ((COUNT_BYTES > KEY_BYTES ? COUNT_BYTES : KEY_BYTES) / sizeof(ulong))

// State of a tile for one digit value: 0 (nothing published), or a count and one of two flags.
#define STATE_TILE_COUNT (1u << 30)
#define STATE_TOTAL_COUNT (2u << 30)
#define STATE_MASK (3u << 30)

#if defined(ON_CUDA) || defined(__NV_CL_C_VERSION)
#define HAS_WARP_INTRINSICS 1
#define UNROLL_ITEMS UNROLL_ALL
#else
// Without warp intrinsics an unrolled loop would repeat the barriers of each iteration.
#define HAS_WARP_INTRINSICS 0
#define UNROLL_ITEMS
#endif

// Returns a mask of the lanes of the warp that have the same digit as this one.
FUNCTION uint lanes_with_digit(uint digit, SHARED_POINTER uint* scratch)
{
#if HAS_WARP_INTRINSICS
    uint lanes = 0xffffffffu;
    UNROLL_ALL
    for (uint bit = 0; bit < 8u; bit++) {
        const uint is_set = (digit >> bit) & 1u;
        lanes &= BALLOT(is_set != 0u, scratch) ^ (is_set - 1u);
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

// Returns the number of keys with this digit value in all tiles before `tile`. Waits until their
// states allow it.
FUNCTION uint count_in_earlier_tiles(GLOBAL uint* states, uint tile, uint digit)
{
    uint count = 0u;
    uint next = tile; // tiles that are still to be counted
    while (next > 0u) {
        // Several loads at once, because their latency is long and a tile may have to look far
        // back.
        uint window[LOOKBACK_WINDOW];
        UNROLL_ALL
        for (uint k = 0; k < LOOKBACK_WINDOW; k++)
            window[k] = LOAD_U32(&states[(next > k ? next - 1u - k : 0u) * RADIX + digit]);
        uint is_published = 1u;
        UNROLL_ALL
        for (uint k = 0; k < LOOKBACK_WINDOW; k++) {
            if (is_published != 0u && next > 0u) {
                const uint flag = window[k] & STATE_MASK;
                count += window[k] & ~STATE_MASK;
                next = flag == STATE_TOTAL_COUNT ? 0u : next - (flag == STATE_TILE_COUNT ? 1u : 0u);
                is_published = flag == STATE_TILE_COUNT ? 1u : 0u;
            }
        }
    }
    return count;
}

// Takes the next ticket of the pass and clears the warps' digit counts. Returns the number of the
// tile within this launch.
FUNCTION uint start_tile(GLOBAL uint* tickets, uint pass, uint first_tile, SHARED_POINTER uint* ticket,
                         SHARED_POINTER uint* warp_counts)
{
    if ((uint)THREAD == 0u)
        *ticket = ATOMIC_ADD_U32(&tickets[pass], 1u) - first_tile;
    for (uint k = (uint)THREAD; k < WARPS * RADIX; k += BLOCK_SIZE)
        warp_counts[k] = 0u;
    BARRIER();
    return *ticket;
}

// Loads the thread's keys. Item k of lane l of warp w is pair 32 (w ITEMS_PER_THREAD + k) + l of
// the tile. Items beyond the end of the tile get the largest key, so they rank behind all others.
FUNCTION void load_keys(KEY key[ITEMS_PER_THREAD], GLOBAL const KEY* RESTRICT keys, ulong begin, uint first_item, uint length)
{
    if (length == TILE_SIZE) {
        UNROLL_ITEMS
        for (uint item = 0; item < ITEMS_PER_THREAD; item++)
            key[item] = keys[begin + first_item + 32u * item];
    } else {
        UNROLL_ITEMS
        for (uint item = 0; item < ITEMS_PER_THREAD; item++)
            key[item] = first_item + 32u * item < length ? keys[begin + first_item + 32u * item] : ~(KEY)0;
    }
}

FUNCTION void load_values(uint value[ITEMS_PER_THREAD], GLOBAL const uint* RESTRICT values, ulong begin,
                          uint first_item, uint length)
{
    UNROLL_ITEMS
    for (uint item = 0; item < ITEMS_PER_THREAD; item++)
        value[item] = first_item + 32u * item < length ? values[begin + first_item + 32u * item] : 0u;
}

FUNCTION void count_digits(SHARED_POINTER uint* counts, const KEY key[ITEMS_PER_THREAD], uint shift, uint mask)
{
    UNROLL_ITEMS
    for (uint item = 0; item < ITEMS_PER_THREAD; item++)
        SHARED_ATOMIC_ADD_U32(&counts[(uint)(key[item] >> shift) & mask], 1u);
}

// Returns the exclusive prefix sum of `count` over the threads of the block.
FUNCTION uint sum_of_lower_threads(uint count, SHARED_POINTER uint* warp_sum, SHARED_POINTER uint* scratch)
{
    const uint lane = (uint)THREAD % 32u, warp = (uint)THREAD / 32u;
    uint sum = count;
    for (uint offset = 1; offset < 32u; offset *= 2u) {
        const uint below = SHUFFLE(sum, lane >= offset ? lane - offset : lane, scratch);
        sum += lane >= offset ? below : 0u;
    }
    if (lane == 31u)
        warp_sum[warp] = sum;
    BARRIER();
    uint before = sum - count;
    for (uint other = 0; other < warp; other++)
        before += warp_sum[other];
    return before;
}

// Replaces the warps' counts of one digit value by the positions in the sorted tile at which the
// warps' keys of that value begin. `begin` is the position of the first.
FUNCTION void counts_to_positions(SHARED_POINTER uint* warp_counts, uint digit, uint begin)
{
    uint position = begin;
    UNROLL_ITEMS
    for (uint warp = 0; warp < WARPS; warp++) {
        const uint count = warp_counts[warp * RADIX + digit];
        warp_counts[warp * RADIX + digit] = position;
        position += count;
    }
}

// Writes each key's position in the sorted tile to `position`. `next` is the warp's row of
// positions by digit value, which this advances.
FUNCTION void rank_keys(uint position[ITEMS_PER_THREAD], const KEY key[ITEMS_PER_THREAD], SHARED_POINTER uint* next,
                        uint shift, uint mask, SHARED_POINTER uint* scratch)
{
    const uint lane = (uint)THREAD % 32u;
    UNROLL_ITEMS
    for (uint item = 0; item < ITEMS_PER_THREAD; item++) {
        const uint digit = (uint)(key[item] >> shift) & mask;
        const uint lanes = lanes_with_digit(digit, scratch);
        const uint lower_lanes = (uint)POPCOUNT(lanes & ((1u << lane) - 1u));
        const uint first = next[digit];
        position[item] = first + lower_lanes;
        WARP_BARRIER();
        if (lower_lanes == 0u)
            next[digit] = first + (uint)POPCOUNT(lanes);
        WARP_BARRIER();
    }
}

// Adds up the warps' counts of one digit value and publishes the sum as the tile's count. Returns
// it.
FUNCTION uint publish_tile_count(SHARED_POINTER const uint* warp_counts, GLOBAL uint* states, uint tile, uint digit)
{
    uint tile_count = 0u;
    UNROLL_ITEMS
    for (uint warp = 0; warp < WARPS; warp++)
        tile_count += warp_counts[warp * RADIX + digit];
    STORE_U32(&states[tile * RADIX + digit], tile_count | (tile == 0u ? STATE_TOTAL_COUNT : STATE_TILE_COUNT));
    return tile_count;
}

// Publishes the count of one digit value in all tiles up to and including this one. Returns the
// count without this one.
FUNCTION uint publish_total_count(GLOBAL uint* states, uint tile, uint digit, uint tile_count)
{
    const uint earlier = count_in_earlier_tiles(states, tile, digit);
    if (tile > 0u)
        STORE_U32(&states[tile * RADIX + digit], (earlier + tile_count) | STATE_TOTAL_COUNT);
    return earlier;
}

// Writes the sorted tile's keys to their places in the output, and those places to `to`.
// digit_target[d] is the place of the first key of digit value d, minus its position in the tile.
FUNCTION void write_keys(OFFSET to[ITEMS_PER_THREAD], GLOBAL KEY* RESTRICT to_keys, SHARED_POINTER const KEY* sorted_keys,
                         SHARED_POINTER const OFFSET* digit_target, uint shift, uint mask, uint length)
{
    UNROLL_ITEMS
    for (uint item = 0; item < ITEMS_PER_THREAD; item++) {
        const uint source = (uint)THREAD + item * BLOCK_SIZE;
        const KEY key = sorted_keys[source];
        to[item] = digit_target[(uint)(key >> shift) & mask] + source;
        if (source < length)
            to_keys[to[item]] = key;
    }
}

// Moves the values the same way as the keys: through shared memory to `position`, then to `to`.
FUNCTION void move_values(const uint value[ITEMS_PER_THREAD], const uint position[ITEMS_PER_THREAD],
                          const OFFSET to[ITEMS_PER_THREAD], GLOBAL uint* RESTRICT to_values,
                          SHARED_POINTER uint* sorted_values, uint length)
{
    UNROLL_ITEMS
    for (uint item = 0; item < ITEMS_PER_THREAD; item++)
        sorted_values[position[item]] = value[item];
    BARRIER();
    UNROLL_ITEMS
    for (uint item = 0; item < ITEMS_PER_THREAD; item++) {
        const uint source = (uint)THREAD + item * BLOCK_SIZE;
        if (source < length)
            to_values[to[item]] = sorted_values[source];
    }
}

// Sorts pairs first to first + n by `bits` bits of the key from bit `shift` on.
//
// n is below 2^30 and a multiple of TILE_SIZE, except in the last launch of a pass. `first_tile` is
// the tile at `first`. tickets: one per pass.
//
// begins: two rows of RADIX offsets per pass. Row 2 pass + parity says where the keys of each digit
// value begin. The last tile writes the other row for the next launch of the pass.
//
// all_states: two halves of `max_tiles` rows of RADIX states, used alternately. Half `side` is 0 at
// the start of this launch. This launch clears `next_tiles` rows of the other half for the next
// one.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
sort_pass(GLOBAL const KEY* RESTRICT keys, GLOBAL const uint* RESTRICT values, GLOBAL KEY* RESTRICT to_keys,
          GLOBAL uint* RESTRICT to_values, ulong first, uint n, uint shift, uint bits, uint pass, uint parity,
          GLOBAL OFFSET* begins, GLOBAL uint* tickets, uint first_tile, GLOBAL uint* all_states, uint side,
          uint max_tiles, uint next_tiles)
{
    SHARED ulong shared_words[SHARED_WORDS];
    SHARED OFFSET digit_target[RADIX];
    SHARED uint scratch[BLOCK_SIZE];
    SHARED uint warp_sum[WARPS];
    SHARED uint ticket;
    SHARED_POINTER uint* warp_counts = (SHARED_POINTER uint*)shared_words;
    SHARED_POINTER KEY* sorted_keys = (SHARED_POINTER KEY*)shared_words;

    const uint thread = (uint)THREAD;
    const uint lane = thread % 32u, warp = thread / 32u;
    const uint mask = (1u << bits) - 1u;
    SHARED_POINTER uint* own_counts = warp_counts + warp * RADIX;

    const uint tile = start_tile(tickets, pass, first_tile, &ticket, warp_counts);
    const uint length = n - tile * TILE_SIZE < TILE_SIZE ? n - tile * TILE_SIZE : TILE_SIZE;
    const ulong begin = first + tile * TILE_SIZE;
    const uint first_item = warp * 32u * ITEMS_PER_THREAD + lane;
    GLOBAL uint* states = all_states + side * max_tiles * RADIX;
    GLOBAL uint* next_states = all_states + (1u - side) * max_tiles * RADIX;

    KEY key[ITEMS_PER_THREAD];
    load_keys(key, keys, begin, first_item, length);
    count_digits(own_counts, key, shift, mask);
    BARRIER();

    // From here on thread d < RADIX is responsible for digit value d.
    uint tile_count = 0u;
    if (thread < RADIX) {
        tile_count = publish_tile_count(warp_counts, states, tile, thread);
        for (uint row = tile; row < next_tiles; row += (uint)BLOCK_COUNT)
            next_states[row * RADIX + thread] = 0u;
    }
    const uint digit_begin = sum_of_lower_threads(tile_count, warp_sum, scratch);
    if (thread < RADIX)
        counts_to_positions(warp_counts, thread, digit_begin);
    BARRIER();

    uint position[ITEMS_PER_THREAD];
    rank_keys(position, key, own_counts, shift, mask, scratch);
    BARRIER();
    UNROLL_ITEMS
    for (uint item = 0; item < ITEMS_PER_THREAD; item++)
        sorted_keys[position[item]] = key[item];

    uint value[ITEMS_PER_THREAD];
    load_values(value, values, begin, first_item, length);

    if (thread < RADIX) {
        const uint earlier = publish_total_count(states, tile, thread, tile_count);
        const OFFSET target = begins[(2u * pass + parity) * RADIX + thread] + earlier;
        if (tile == (uint)BLOCK_COUNT - 1u)
            begins[(2u * pass + 1u - parity) * RADIX + thread] = target + tile_count;
        digit_target[thread] = target - digit_begin;
    }
    BARRIER();

    OFFSET to[ITEMS_PER_THREAD];
    write_keys(to, to_keys, sorted_keys, digit_target, shift, mask, length);
    BARRIER();
    move_values(value, position, to, to_values, (SHARED_POINTER uint*)shared_words, length);
}
