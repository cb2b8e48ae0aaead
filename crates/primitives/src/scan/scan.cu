// Prefix sums in one launch: a block loads a tile, waits for the sum of all earlier tiles, and
// writes the sums of the tile.
//
// Tiles form rows of SPAN tiles, and rows form pages of SPAN rows. A tile publishes its own sum.
// The last tile of a row also publishes the sum of the row. The last tile of a page also publishes
// the sum of everything up to the end of the page. The sum before a tile is then
//
//   all earlier pages + earlier rows of its page + earlier tiles of its row,
//
// at most 2 SPAN - 1 numbers. A block reads them all at once and always adds them in the same
// order. A decoupled look-back (Merrill & Garland 2016) waits about as long, but adds in an order
// that depends on timing.
//
// Tiles are numbered by tickets, so a block only waits for blocks that have started. `from` and
// `to` may be the same buffer, because a block loads its whole tile before it writes.
//
// Speed: every number is read and written once, so memory bandwidth is the limit if enough bytes
// are in flight. A block holds its tile from the first load to the last store. With a lifetime of t
// seconds per block, a device that holds h bytes of tiles moves 2 h / t bytes per second. An H200
// took t = 9.8 us at 2.64 TB/s, with 3 blocks of 32 KiB on each of 132 SMs: h = 13 MB. Most of the
// lifetime is latency: the ticket, the loads, the wait for the slowest of the earlier tiles, and
// two or three round trips through the L2 cache for published sums (tile, row, page). More tiles
// per SM hide it. Registers limit their number to 3, because a tile takes 16 of about 40 registers
// per thread. With TILE_IN_SHARED = 1 the tile waits in shared memory, of which an H200 has 227 KB
// per SM: 5 tiles of 44 KiB. Every thread reads only what it loaded itself, so this needs no
// barrier, and 32 lanes access 32 neighbouring vectors, so there are no bank conflicts. From
// compute capability 8.0 on the loads go to shared memory without passing through registers
// (cp.async).
//
// Where the tile waits does not change a bit of the result.
//
// Defined by the host (device.rs): NUMBER, BLOCK_SIZE, LOADS_PER_THREAD (loads of 16 bytes),
// TILE_IN_SHARED, MIN_BLOCKS_PER_SM, POLL_DELAY_NS (pause between two looks at a published sum).
//
// Invariants: *tickets is 0 between launches. No word of `published` has the stamp of this launch
// at its start.

#define WARPS (BLOCK_SIZE / 32u)
#define SPAN 32u
// Numbers in a load of 16 bytes.
#define VECTOR_WIDTH ((uint)(16u / sizeof(NUMBER)))
// 32-bit words of a number.
#define WORDS_PER_NUMBER ((uint)(sizeof(NUMBER) / 4u))
// Numbers in one load of all lanes of a warp.
#define ROW_OF_LANES (32u * VECTOR_WIDTH)
#define TILE_SIZE (BLOCK_SIZE * LOADS_PER_THREAD * VECTOR_WIDTH)

// Aligned 64-bit words are loaded and stored as a whole.
#define LOAD_U64(p) (*(GLOBAL const volatile ulong*)(p))
#define STORE_U64(p, v) (*(GLOBAL volatile ulong*)(p) = (ulong)(v))

// Loads and stores that bypass the cache where the device supports it: each number is used once.
#if defined(ON_CUDA)
#define LOAD_STREAMING(p) __ldcs(p)
#define STORE_STREAMING(p, v) __stcs(p, v)
#else
#define LOAD_STREAMING(p) (*(p))
#define STORE_STREAMING(p, v) (*(p) = (v))
#endif
#if defined(ON_CUDA) && POLL_DELAY_NS > 0
#define PAUSE() __nanosleep(POLL_DELAY_NS)
#else
#define PAUSE()
#endif
#if defined(ON_CUDA) || defined(__NV_CL_C_VERSION)
#define UNROLL_LOADS UNROLL_ALL
#else
// Without warp intrinsics an unrolled loop would repeat the barriers of each iteration.
#define UNROLL_LOADS
#endif

typedef union {
    NUMBER number;
    uint word[WORDS_PER_NUMBER];
} NumberBits;

typedef union {
    uint4 vector;
    NUMBER number[VECTOR_WIDTH];
} Load;

// The thread's numbers of the tile: LOADS_PER_THREAD vectors in shared memory or in registers. The
// vectors of load k of all lanes are neighbours in shared memory, as in the tile.
#if TILE_IN_SHARED
typedef SHARED_POINTER uint4* Held;
#define HELD_VECTOR(held, k) ((held)[(k) * 32u])
#else
typedef uint4* Held;
#define HELD_VECTOR(held, k) ((held)[k])
#endif

// Where a tile is, and where the sums of the rows and pages begin in `published`.
typedef struct {
    uint tile, row, page;
    uint first_row, first_page;
} TilePosition;

// Returns the value of another lane.
FUNCTION NUMBER shuffle_number(NUMBER value, uint lane, SHARED_POINTER uint* scratch)
{
    NumberBits bits;
    bits.number = value;
    UNROLL_ALL
    for (uint k = 0; k < WORDS_PER_NUMBER; k++)
        bits.word[k] = SHUFFLE(bits.word[k], (int)lane, scratch);
    return bits.number;
}

// Publishes a sum for other blocks. Each 64-bit word has 32 bits of the number and, in its upper
// half, the stamp of the launch, so a reader knows for each word whether it is there.
FUNCTION void publish(GLOBAL ulong* published, uint index, NUMBER sum, uint stamp)
{
    NumberBits bits;
    bits.number = sum;
    UNROLL_ALL
    for (uint k = 0; k < WORDS_PER_NUMBER; k++)
        STORE_U64(&published[(ulong)index * WORDS_PER_NUMBER + k], (ulong)stamp << 32 | bits.word[k]);
}

// Waits for a published sum and returns it.
FUNCTION NUMBER wait_for_sum(GLOBAL ulong* published, uint index, uint stamp)
{
    NumberBits bits;
    UNROLL_ALL
    for (uint k = 0; k < WORDS_PER_NUMBER; k++) {
        ulong word = LOAD_U64(&published[(ulong)index * WORDS_PER_NUMBER + k]);
        while ((uint)(word >> 32) != stamp) {
            PAUSE();
            word = LOAD_U64(&published[(ulong)index * WORDS_PER_NUMBER + k]);
        }
        bits.word[k] = (uint)word;
    }
    return bits.number;
}

#if TILE_IN_SHARED && defined(ON_CUDA) && __CUDA_ARCH__ >= 800
// Starts copying a vector to shared memory.
FUNCTION void load_vector(Held held, uint k, GLOBAL const uint4* from)
{
    const uint target = (uint)__cvta_generic_to_shared(&HELD_VECTOR(held, k));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from) : "memory");
}

// Waits for the vectors that this thread has started to copy.
#define WAIT_FOR_LOADS() asm volatile("cp.async.wait_all;" ::: "memory")
#else
#define load_vector(held, k, from) (HELD_VECTOR(held, k) = LOAD_STREAMING(from))
#define WAIT_FOR_LOADS()
#endif

// Requests the cache lines of the tile that has the number of this block from memory, into the L2
// cache. Blocks start almost in the order of their numbers, so some block is about to load it. The
// loads then do not wait for the ticket, whose atomic takes about as long as a load from memory.
// Any other order costs time but changes no result.
FUNCTION void prefetch_tile(GLOBAL const NUMBER* from, ulong n)
{
#if defined(ON_CUDA)
    const uint line = 128u / (uint)sizeof(NUMBER);
    const ulong begin = (ulong)BLOCK_INDEX * TILE_SIZE;
    for (uint i = (uint)THREAD; i < TILE_SIZE / line; i += BLOCK_SIZE) {
        if (begin + i * line < n)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(from + begin + i * line));
    }
#endif
}

// Loads the thread's numbers of the tile at `from`. `first` is the index of the first. Numbers
// beyond the end of the tile are 0.
FUNCTION void load_numbers(Held held, GLOBAL const NUMBER* from, uint first, uint length)
{
    if (length == TILE_SIZE) {
        UNROLL_LOADS
        for (uint k = 0; k < LOADS_PER_THREAD; k++)
            load_vector(held, k, (GLOBAL const uint4*)(from + first + k * ROW_OF_LANES));
        WAIT_FOR_LOADS();
    } else {
        UNROLL_LOADS
        for (uint k = 0; k < LOADS_PER_THREAD; k++) {
            Load load;
            UNROLL_ALL
            for (uint j = 0; j < VECTOR_WIDTH; j++) {
                const uint index = first + k * ROW_OF_LANES + j;
                load.number[j] = index < length ? from[index] : (NUMBER)0;
            }
            HELD_VECTOR(held, k) = load.vector;
        }
    }
}

// Writes the sum of all numbers of the warp before each of this lane's loads to `before`. Returns
// the sum of the warp.
FUNCTION NUMBER scan_warp(NUMBER before[LOADS_PER_THREAD], Held held, SHARED_POINTER uint* scratch)
{
    const uint lane = (uint)THREAD % 32u;
    NUMBER warp_sum = 0;
    UNROLL_LOADS
    for (uint k = 0; k < LOADS_PER_THREAD; k++) {
        Load load;
        load.vector = HELD_VECTOR(held, k);
        NUMBER sum = load.number[0];
        UNROLL_ALL
        for (uint j = 1; j < VECTOR_WIDTH; j++)
            sum += load.number[j];
        for (uint offset = 1; offset < 32u; offset *= 2u) {
            const NUMBER below = shuffle_number(sum, lane >= offset ? lane - offset : lane, scratch);
            sum = lane >= offset ? below + sum : sum;
        }
        const NUMBER below = shuffle_number(sum, lane > 0u ? lane - 1u : 0u, scratch);
        before[k] = lane > 0u ? warp_sum + below : warp_sum;
        warp_sum += shuffle_number(sum, 31u, scratch);
    }
    return warp_sum;
}

// Returns the sums of one load. `sum` is the sum of everything before it.
FUNCTION Load sums_of_load(Load load, NUMBER sum, uint is_inclusive)
{
    UNROLL_ALL
    for (uint j = 0; j < VECTOR_WIDTH; j++) {
        const NUMBER next = sum + load.number[j];
        load.number[j] = is_inclusive != 0u ? next : sum;
        sum = next;
    }
    return load;
}

// Writes the sums of the thread's numbers to the tile at `to`. `before` is the sum of everything
// before the warp's part of the tile, and before_load[k] the sum within that part before load k.
FUNCTION void store_sums(GLOBAL NUMBER* to, Held held, NUMBER before, const NUMBER before_load[LOADS_PER_THREAD],
                         uint is_inclusive, uint first, uint length)
{
    UNROLL_LOADS
    for (uint k = 0; k < LOADS_PER_THREAD; k++) {
        Load load;
        load.vector = HELD_VECTOR(held, k);
        load = sums_of_load(load, before + before_load[k], is_inclusive);
        const uint index = first + k * ROW_OF_LANES;
        if (length == TILE_SIZE) {
            STORE_STREAMING((GLOBAL uint4*)(to + index), load.vector);
        } else {
            UNROLL_ALL
            for (uint j = 0; j < VECTOR_WIDTH; j++)
                if (index + j < length)
                    to[index + j] = load.number[j];
        }
    }
}

// Publishes the sum of the tile, and those of its row and page if it is their last tile. Returns
// the sum of all earlier tiles: those in earlier pages, in earlier rows of the page, and in the
// row. `pages`, `rows` and `tiles` hold these three sums. Every thread of the block calls it.
FUNCTION NUMBER sum_of_earlier_tiles(GLOBAL ulong* published, TilePosition at, NUMBER tile_sum, uint stamp,
                                     SHARED_POINTER NUMBER* pages, SHARED_POINTER NUMBER* rows,
                                     SHARED_POINTER NUMBER* tiles, SHARED_POINTER uint* scratch)
{
    const uint thread = (uint)THREAD, lane = thread % 32u;

    // The first warp sums the earlier tiles of the row, the second the earlier rows of the page.
    // The last lane of the second also waits for the earlier pages.
    NUMBER earlier = 0;
    if (thread == 0u)
        publish(published, at.tile, tile_sum, stamp);
    if (thread < 32u && lane < at.tile % SPAN)
        earlier = wait_for_sum(published, at.row * SPAN + lane, stamp);
    if (thread >= 32u && thread < 64u && lane < at.row % SPAN)
        earlier = wait_for_sum(published, at.first_row + at.page * SPAN + lane, stamp);
    if (thread == 63u)
        *pages = at.page > 0u ? wait_for_sum(published, at.first_page + at.page - 1u, stamp) : (NUMBER)0;
    for (uint offset = 16; offset > 0u; offset /= 2u)
        earlier += shuffle_number(earlier, lane ^ offset, scratch);
    if (thread == 0u) {
        *tiles = earlier;
        if (at.tile % SPAN == SPAN - 1u)
            publish(published, at.first_row + at.row, earlier + tile_sum, stamp);
    }
    if (thread == 32u)
        *rows = earlier;
    BARRIER();
    const NUMBER on_page = *rows + *tiles;
    if (thread == 0u && at.tile % (SPAN * SPAN) == SPAN * SPAN - 1u)
        publish(published, at.first_page + at.page, *pages + (on_page + tile_sum), stamp);
    return *pages + on_page;
}

// from, to: n numbers each, aligned to 16 bytes. published: WORDS_PER_NUMBER words for each tile,
// then for each row, then for each page.
KERNEL_MIN_BLOCKS(BLOCK_SIZE, MIN_BLOCKS_PER_SM)
scan(GLOBAL const NUMBER* from, GLOBAL NUMBER* to, ulong n, uint is_inclusive, GLOBAL uint* tickets,
     GLOBAL ulong* published, uint stamp)
{
#if TILE_IN_SHARED
    SHARED uint4 tile[BLOCK_SIZE * LOADS_PER_THREAD];
#endif
    SHARED uint scratch[BLOCK_SIZE];
    SHARED NUMBER warp_sums[WARPS];
    SHARED NUMBER earlier_pages, earlier_rows, earlier_tiles;
    SHARED uint ticket;
    const uint thread = (uint)THREAD, lane = thread % 32u, warp = thread / 32u;

    if (thread == 0u) {
        ticket = ATOMIC_ADD_U32(tickets, 1u);
        if (ticket == (uint)BLOCK_COUNT - 1u)
            *tickets = 0u;
    }
    prefetch_tile(from, n);
    BARRIER();
    TilePosition at;
    at.tile = ticket;
    at.row = at.tile / SPAN;
    at.page = at.row / SPAN;
    at.first_row = (uint)BLOCK_COUNT;
    at.first_page = at.first_row + ((uint)BLOCK_COUNT - 1u) / SPAN + 1u;
    const ulong begin = (ulong)at.tile * TILE_SIZE;
    const uint length = n - begin < TILE_SIZE ? (uint)(n - begin) : TILE_SIZE;
    // A warp has neighbouring rows of lanes, one per load.
    const uint first = (warp * LOADS_PER_THREAD * 32u + lane) * VECTOR_WIDTH;

#if TILE_IN_SHARED
    const Held held = tile + warp * LOADS_PER_THREAD * 32u + lane;
#else
    uint4 held[LOADS_PER_THREAD];
#endif
    load_numbers(held, from + begin, first, length);
    NUMBER before_load[LOADS_PER_THREAD];
    const NUMBER warp_sum = scan_warp(before_load, held, scratch);
    if (lane == 0u)
        warp_sums[warp] = warp_sum;
    BARRIER();
    NUMBER before_warp = 0, tile_sum = 0;
    for (uint w = 0; w < WARPS; w++) {
        before_warp = w == warp ? tile_sum : before_warp;
        tile_sum += warp_sums[w];
    }

    const NUMBER before_tile = sum_of_earlier_tiles(
        published, at, tile_sum, stamp, &earlier_pages, &earlier_rows, &earlier_tiles, scratch);
    store_sums(to + begin, held, before_tile + before_warp, before_load, is_inclusive, first, length);
}
