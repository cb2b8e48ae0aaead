// Running sums in one launch: a group reads a tile, learns the sum of all tiles before it, and writes the tile's sums.
//
// A tile leaves its own sum for others to see; the last of SPAN tiles (a row) leaves the row's; the last of SPAN rows
// (a page) leaves the sum of everything up to its end. So the sum before a tile is that of the pages before, the rows
// before on its page, and the tiles before in its row: at most 2 SPAN - 1 numbers, looked at all at once and always
// added in the same order. A look-back that takes whatever is there first (Merrill & Garland 2016) waits as little but
// adds in an order that timing decides.
//
// Tiles are numbered by tickets, so a group waits only for groups that have begun. `from` and `to` may be one buffer:
// a tile has read all of its numbers before it writes.
//
// Invariants: *tickets is 0 between launches. `seen` has no word with this launch's stamp when it begins.

#define WARPS (THREADS / 32u)
#define SPAN 32u
#define A_LOAD ((uint)(16u / sizeof(NUMBER)))
#define WORDS ((uint)(sizeof(NUMBER) / 4u))
#define TILE (THREADS * LOADS * A_LOAD)

// Aligned words of 64 bits are read and written whole.
#define LOAD_U64(p) (*(GLOBAL const volatile ulong*)(p))
#define STORE_U64(p, v) (*(GLOBAL volatile ulong*)(p) = (ulong)(v))

#if defined(ON_CUDA)
#define READ_ONCE(p) __ldcs(p)
#define WRITE_ONCE(p, v) __stcs(p, v)
#else
#define READ_ONCE(p) (*(p))
#define WRITE_ONCE(p, v) (*(p) = (v))
#endif
#if defined(ON_CUDA) || defined(__NV_CL_C_VERSION)
#define UNROLL_LOADS UNROLL_ALL
#else
// Unrolled, the barriers between lanes would be many.
#define UNROLL_LOADS
#endif

typedef union {
    NUMBER number;
    uint word[WORDS];
} Bits;

typedef union {
    uint4 wide;
    NUMBER number[A_LOAD];
} Load;

FUNCTION NUMBER from_lane(NUMBER v, uint lane, SHARED_POINTER uint* scratch)
{
    Bits bits;
    bits.number = v;
    UNROLL_ALL
    for (uint k = 0; k < WORDS; k++)
        bits.word[k] = SHUFFLE(bits.word[k], (int)lane, scratch);
    return bits.number;
}

// Every word has the launch's stamp in its upper half, so that a number is there when its words are.
FUNCTION void leave(GLOBAL ulong* seen, uint at, NUMBER v, uint stamp)
{
    Bits bits;
    bits.number = v;
    UNROLL_ALL
    for (uint k = 0; k < WORDS; k++)
        STORE_U64(&seen[(ulong)at * WORDS + k], (ulong)stamp << 32 | bits.word[k]);
}

FUNCTION NUMBER wait_for(GLOBAL ulong* seen, uint at, uint stamp)
{
    Bits bits;
    UNROLL_ALL
    for (uint k = 0; k < WORDS; k++) {
        ulong word = LOAD_U64(&seen[(ulong)at * WORDS + k]);
        while ((uint)(word >> 32) != stamp)
            word = LOAD_U64(&seen[(ulong)at * WORDS + k]);
        bits.word[k] = (uint)word;
    }
    return bits.number;
}

KERNEL(THREADS)
scan(GLOBAL const NUMBER* from, GLOBAL NUMBER* to, ulong n, uint inclusive, GLOBAL uint* tickets, GLOBAL ulong* seen,
     uint stamp)
{
    SHARED uint scratch[THREADS];
    SHARED NUMBER warp_sum[WARPS];
    SHARED NUMBER pages_before, rows_before, tiles_before;
    SHARED uint ticket;
    const uint thread = (uint)THREAD, lane = thread % 32u, warp = thread / 32u;

    if (thread == 0u) {
        ticket = ATOMIC_ADD_U32(tickets, 1u);
        if (ticket == (uint)BLOCK_COUNT - 1u)
            *tickets = 0u;
    }
    BARRIER();
    const uint tile = ticket;
    const uint row = tile / SPAN, page = row / SPAN;
    const uint rows_begin = (uint)BLOCK_COUNT, pages_begin = rows_begin + ((uint)BLOCK_COUNT - 1u) / SPAN + 1u;
    const ulong begin = (ulong)tile * TILE;
    const uint length = n - begin < TILE ? (uint)(n - begin) : TILE;
    // A warp's loads lie one after the other, as do the lanes' in each.
    const uint mine = (warp * LOADS * 32u + lane) * A_LOAD;

    Load load[LOADS];
    if (length == TILE) {
        UNROLL_LOADS
        for (uint k = 0; k < LOADS; k++)
            load[k].wide = READ_ONCE((GLOBAL const uint4*)(from + begin + mine + k * 32u * A_LOAD));
    } else {
        UNROLL_LOADS
        for (uint k = 0; k < LOADS; k++) {
            UNROLL_ALL
            for (uint j = 0; j < A_LOAD; j++) {
                const uint at = mine + k * 32u * A_LOAD + j;
                load[k].number[j] = at < length ? from[begin + at] : (NUMBER)0;
            }
        }
    }

    // What the warp has before each of this lane's loads.
    NUMBER before[LOADS];
    NUMBER sum_of_warp = 0;
    UNROLL_LOADS
    for (uint k = 0; k < LOADS; k++) {
        NUMBER sum = load[k].number[0];
        UNROLL_ALL
        for (uint j = 1; j < A_LOAD; j++)
            sum += load[k].number[j];
        for (uint reach = 1; reach < 32u; reach *= 2u) {
            const NUMBER below = from_lane(sum, lane >= reach ? lane - reach : lane, scratch);
            sum = lane >= reach ? below + sum : sum;
        }
        const NUMBER below = from_lane(sum, lane > 0u ? lane - 1u : 0u, scratch);
        before[k] = lane > 0u ? sum_of_warp + below : sum_of_warp;
        sum_of_warp += from_lane(sum, 31u, scratch);
    }
    if (lane == 0u)
        warp_sum[warp] = sum_of_warp;
    BARRIER();
    NUMBER before_warp = 0, sum_of_tile = 0;
    for (uint w = 0; w < WARPS; w++) {
        before_warp = w == warp ? sum_of_tile : before_warp;
        sum_of_tile += warp_sum[w];
    }

    // The first warp looks at the row, the second at the page, its last lane at the pages before.
    NUMBER found = 0;
    if (thread == 0u)
        leave(seen, tile, sum_of_tile, stamp);
    if (thread < 32u && lane < tile % SPAN)
        found = wait_for(seen, row * SPAN + lane, stamp);
    if (thread >= 32u && thread < 64u && lane < row % SPAN)
        found = wait_for(seen, rows_begin + page * SPAN + lane, stamp);
    if (thread == 63u)
        pages_before = page > 0u ? wait_for(seen, pages_begin + page - 1u, stamp) : (NUMBER)0;
    for (uint reach = 16; reach > 0u; reach /= 2u)
        found += from_lane(found, lane ^ reach, scratch);
    if (thread == 0u) {
        tiles_before = found;
        if (tile % SPAN == SPAN - 1u)
            leave(seen, rows_begin + row, found + sum_of_tile, stamp);
    }
    if (thread == 32u)
        rows_before = found;
    BARRIER();
    const NUMBER on_page = rows_before + tiles_before;
    if (thread == 0u && tile % (SPAN * SPAN) == SPAN * SPAN - 1u)
        leave(seen, pages_begin + page, pages_before + (on_page + sum_of_tile), stamp);

    const NUMBER before_all = pages_before + on_page + before_warp;
    UNROLL_LOADS
    for (uint k = 0; k < LOADS; k++) {
        NUMBER sum = before_all + before[k];
        UNROLL_ALL
        for (uint j = 0; j < A_LOAD; j++) {
            const NUMBER next = sum + load[k].number[j];
            load[k].number[j] = inclusive != 0u ? next : sum;
            sum = next;
        }
    }
    if (length == TILE) {
        UNROLL_LOADS
        for (uint k = 0; k < LOADS; k++)
            WRITE_ONCE((GLOBAL uint4*)(to + begin + mine + k * 32u * A_LOAD), load[k].wide);
    } else {
        UNROLL_LOADS
        for (uint k = 0; k < LOADS; k++) {
            UNROLL_ALL
            for (uint j = 0; j < A_LOAD; j++) {
                const uint at = mine + k * 32u * A_LOAD + j;
                if (at < length)
                    to[begin + at] = load[k].number[j];
            }
        }
    }
}
