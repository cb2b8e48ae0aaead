// Litmus tests of the memory model: in which order does a thread see two writes of another thread?
//
// Data: trial i has X in line 2 i and Y in line 2 i + 1 of `cells`. A line is 32 words, 128 bytes.
// Before the trial X = 1 and Y = 2. Its two threads do one of
//
//     test               first thread       second thread
//     COURSE             X = 10, Y = 20     A = X, B = Y
//     MESSAGE_PASSING    X = 10, Y = 20     B = Y, A = X
//     STORE_BUFFERING    X = 10, B = Y      Y = 20, A = X
//
// each with the fence FENCE between its two accesses. A goes to x_read[i], B to y_read[i].
// Cost: four accesses of lines that no other trial uses.
// Limit: the latency of the memory, and of the fences.
//
// Reorderings are rare. They become more frequent if both threads run at the same time (the blocks
// meet at the start), if delays are random, and if other blocks load the memory system (Alglave et
// al. 2015, "GPU concurrency: weak behaviours and programming assumptions"). Every thread is the
// first thread of one trial and the second thread of another, so that a launch has as many trials
// as threads. Nothing waits without a limit, because blocks need not run at the same time.
//
// Defined by the host (mod.rs):
// ACCESS           kind of the accesses: ACCESS_PLAIN, ACCESS_VOLATILE or ACCESS_ATOMIC (relaxed)
// FENCE            FENCE_NONE, FENCE_BLOCK, FENCE_DEVICE or FENCE_SYSTEM
// BLOCK_SIZE       threads per block, a multiple of 64
// MAX_WAITS        largest number of times that a block looks whether the others have arrived
// MAX_TRIAL_WAITS  the same before each trial, for blocks whose threads run one after the other, as
//                  on a CPU. 0: blocks meet only at the start.
// MAX_DELAY        largest random delay, in iterations of a loop: a power of two minus one
// STRESS_ACCESSES  accesses of each thread of a block that only loads the memory system
// STRESS_WORDS     number of words that these blocks access, a power of two

#define OLD_X 1u
#define OLD_Y 2u
#define NEW_X 10u
#define NEW_Y 20u

// Words of a line.
#define LINE_WORDS 32

// IS_ORDERED: whether the memory model orders accesses of this kind by fences. IS_FULL_FENCE:
// whether the fences are sequentially consistent, so that they also order a write before a read.
// Accesses that are neither atomic nor volatile race, and no model orders them. For CUDA this is
// the memory consistency model of PTX, in which a volatile access is a relaxed one of system scope.
#if defined(ON_CUDA)
#define IS_ORDERED (ACCESS >= ACCESS_VOLATILE)
#define IS_FULL_FENCE 1
#elif defined(__NV_CL_C_VERSION)
#define IS_ORDERED (ACCESS == ACCESS_ATOMIC)
#define IS_FULL_FENCE 1
#elif defined(__opencl_c_atomic_scope_device) && defined(__opencl_c_atomic_order_seq_cst)
#define IS_ORDERED (ACCESS == ACCESS_ATOMIC)
#define IS_FULL_FENCE 1
#define HAS_C11_ATOMICS
#else
#define IS_ORDERED 0
#define IS_FULL_FENCE 0
#endif

#if ACCESS == ACCESS_PLAIN
#define LOAD(address) (*(address))
#define STORE(address, value) (*(address) = (value))
#elif ACCESS == ACCESS_VOLATILE
#define LOAD(address) LOAD_U32(address)
#define STORE(address, value) STORE_U32(address, value)
#elif defined(ON_CUDA) || defined(__NV_CL_C_VERSION)
FUNCTION uint load_relaxed(GLOBAL const uint* address)
{
    uint value;
    asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}
FUNCTION void store_relaxed(GLOBAL uint* address, uint value)
{
    asm volatile("st.relaxed.gpu.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
#define LOAD(address) load_relaxed(address)
#define STORE(address, value) store_relaxed(address, value)
#elif defined(HAS_C11_ATOMICS)
#define AS_ATOMIC(address) ((volatile __global atomic_uint*)(address))
#define LOAD(address) atomic_load_explicit(AS_ATOMIC(address), memory_order_relaxed, memory_scope_device)
#define STORE(address, value)                                                                      \
    atomic_store_explicit(AS_ATOMIC(address), value, memory_order_relaxed, memory_scope_device)
#else
#define LOAD(address) atomic_or((volatile __global uint*)(address), 0u)
#define STORE(address, value) atomic_xchg((volatile __global uint*)(address), value)
#endif

// The fences of the dialect for OpenCL do not order a write before a read.
#if defined(HAS_C11_ATOMICS)
#define FULL_FENCE(scope) atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, scope)
#endif
#if FENCE == FENCE_NONE
#define ORDER_ACCESSES()
#elif FENCE == FENCE_BLOCK && defined(HAS_C11_ATOMICS)
#define ORDER_ACCESSES() FULL_FENCE(memory_scope_work_group)
#elif FENCE == FENCE_BLOCK
#define ORDER_ACCESSES() BLOCK_FENCE()
#elif defined(HAS_C11_ATOMICS)
#define ORDER_ACCESSES() FULL_FENCE(memory_scope_device)
#elif FENCE == FENCE_DEVICE
#define ORDER_ACCESSES() DEVICE_FENCE()
#else
#define ORDER_ACCESSES() SYSTEM_FENCE()
#endif

FUNCTION void run_first_thread(int test, GLOBAL uint* x, GLOBAL uint* y, GLOBAL uint* y_read)
{
    if (test == STORE_BUFFERING) {
        STORE(x, NEW_X);
        ORDER_ACCESSES();
        *y_read = LOAD(y);
    } else {
        STORE(x, NEW_X);
        ORDER_ACCESSES();
        STORE(y, NEW_Y);
    }
}

FUNCTION void run_second_thread(int test, GLOBAL uint* x, GLOBAL uint* y, GLOBAL uint* x_read,
                                GLOBAL uint* y_read)
{
    if (test == STORE_BUFFERING) {
        STORE(y, NEW_Y);
        ORDER_ACCESSES();
        *x_read = LOAD(x);
    } else if (test == MESSAGE_PASSING) {
        const uint b = LOAD(y);
        ORDER_ACCESSES();
        const uint a = LOAD(x);
        *x_read = a;
        *y_read = b;
    } else {
        const uint a = LOAD(x);
        ORDER_ACCESSES();
        const uint b = LOAD(y);
        *x_read = a;
        *y_read = b;
    }
}

FUNCTION uint next_random(uint state)
{
    return state * 1664525u + 1013904223u;
}

// Waits until *count has reached `target`, or `max_waits` times. Both numbers may wrap.
FUNCTION void wait_for(GLOBAL uint* count, uint target, int max_waits)
{
    for (int wait = 0; wait < max_waits && (int)(LOAD_U32(count) - target) < 0; wait++)
        ;
}

// Waits for all blocks of this launch. meeting[0] counts the blocks of all launches.
FUNCTION void meet_blocks(GLOBAL uint* meeting, uint launch)
{
    if (THREAD == 0) {
        ATOMIC_ADD_U32(meeting, 1u);
        wait_for(meeting, launch * (uint)BLOCK_COUNT, MAX_WAITS);
    }
    BARRIER();
}

// Waits until the other block has done as many trials as this one. Each block counts its trials in
// a line of `meeting`, without atomics, because its threads run one after the other.
FUNCTION void meet_partner(GLOBAL uint* meeting, int partner)
{
    GLOBAL uint* own_count = meeting + LINE_WORDS * (1 + BLOCK_INDEX);
    const uint count = LOAD_U32(own_count) + 1u;
    STORE_U32(own_count, count);
    wait_for(meeting + LINE_WORDS * (1 + partner), count, MAX_TRIAL_WAITS);
}

// Keeps the memory system busy with reads and writes of random words.
FUNCTION void load_memory(GLOBAL uint* stress, uint random)
{
    for (int access = 0; access < STRESS_ACCESSES; access++) {
        random = next_random(random);
        GLOBAL uint* word = stress + ((random >> 8) & (uint)(STRESS_WORDS - 1));
        if (random & 128u)
            STORE_U32(word, random);
        else
            random += LOAD_U32(word);
    }
}

// Runs `rounds` trials per thread of the first `test_blocks` blocks. If block_shift is not 0, it is
// half of test_blocks, and the first thread of a trial is thread t of block b, the second one
// thread t of block (b + block_shift) mod test_blocks. If it is 0, the second one is thread (t +
// BLOCK_SIZE / 2) mod BLOCK_SIZE of block b. Blocks from test_blocks on load the memory system.
//
// cells: 2 LINE_WORDS words per trial. x_read, y_read: one word per trial. meeting: a line, and one
// per block with trials. stress: STRESS_WORDS words. launch: number of launches with this one.
KERNEL(BLOCK_SIZE)
run_trials(GLOBAL uint* cells, GLOBAL uint* x_read, GLOBAL uint* y_read, GLOBAL uint* meeting,
           GLOBAL uint* stress, int test, int rounds, int test_blocks, int block_shift, uint launch)
{
    // One number per warp, so that its lanes stay together.
    const uint warp = (uint)(BLOCK_INDEX * BLOCK_SIZE + THREAD) / 32u;
    uint random = next_random(launch * 2246822519u + warp * 2654435761u);
    meet_blocks(meeting, launch);
    if (BLOCK_INDEX >= test_blocks) {
        load_memory(stress, random + (uint)THREAD);
    } else {
        const int thread_shift = block_shift > 0 ? 0 : BLOCK_SIZE / 2;
        const int partner_block = (BLOCK_INDEX + test_blocks - block_shift) % test_blocks;
        const int partner_thread = (THREAD + BLOCK_SIZE - thread_shift) % BLOCK_SIZE;
        // A thread of the second half does the trial of its partner first, so that both threads of
        // a trial have the same turn.
        const int own_turn = block_shift > 0 ? BLOCK_INDEX >= block_shift : THREAD >= thread_shift;
        for (int round = 0; round < rounds; round++) {
            const uint own = (uint)((round * test_blocks + BLOCK_INDEX) * BLOCK_SIZE + THREAD);
            const uint other = (uint)((round * test_blocks + partner_block) * BLOCK_SIZE + partner_thread);
            for (int turn = 0; turn < 2; turn++) {
                const uint trial = turn == own_turn ? own : other;
                GLOBAL uint* x = cells + (ulong)trial * (2 * LINE_WORDS);
                GLOBAL uint* y = x + LINE_WORDS;
                random = next_random(random);
                for (uint left = random >> 8 & (uint)MAX_DELAY; left > 0u; left--)
                    random = next_random(random);
                if (MAX_TRIAL_WAITS > 0)
                    meet_partner(meeting, partner_block);
                if (turn == own_turn)
                    run_first_thread(test, x, y, y_read + trial);
                else
                    run_second_thread(test, x, y, x_read + trial, y_read + trial);
            }
        }
    }
}

// Prepares `trials` trials: old values of X and Y, and 0 for the values that are read.
KERNEL(BLOCK_SIZE)
reset_trials(GLOBAL uint* cells, GLOBAL uint* x_read, GLOBAL uint* y_read, int trials)
{
    const int trial = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (trial < trials) {
        cells[(ulong)trial * (2 * LINE_WORDS)] = OLD_X;
        cells[(ulong)trial * (2 * LINE_WORDS) + LINE_WORDS] = OLD_Y;
        x_read[trial] = 0u;
        y_read[trial] = 0u;
    }
}

// Adds the outcomes of `trials` trials to counts[0 ... 4]. Bit 0 of the index: A is the new X. Bit
// 1: B is the new Y. Index 4: A or B is neither old nor new.
KERNEL(BLOCK_SIZE)
count_outcomes(GLOBAL const uint* x_read, GLOBAL const uint* y_read, int trials, GLOBAL uint* counts)
{
    SHARED uint block_counts[5];
    const int trial = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    if (THREAD < 5)
        block_counts[THREAD] = 0u;
    BARRIER();
    if (trial < trials) {
        const uint a = x_read[trial];
        const uint b = y_read[trial];
        const int is_valid = (a == OLD_X || a == NEW_X) && (b == OLD_Y || b == NEW_Y);
        const int outcome = is_valid ? (a == NEW_X) + 2 * (b == NEW_Y) : 4;
        SHARED_ATOMIC_ADD_U32(&block_counts[outcome], 1u);
    }
    BARRIER();
    if (THREAD < 5)
        ATOMIC_ADD_U32(&counts[THREAD], block_counts[THREAD]);
}

// Reports the guarantees of the memory model for this build.
KERNEL(1) report_guarantees(GLOBAL uint* guarantees)
{
    guarantees[0] = IS_ORDERED;
    guarantees[1] = IS_FULL_FENCE;
}
