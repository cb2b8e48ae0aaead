// Atomic operations on numbers in global memory.
//
// Data: `data` has 2^k numbers. Operation i of n works on number i mod 2^k, or on a random one,
// with a value that follows from i. Operation i is done by thread i mod T of a grid of T threads,
// so the lanes of a warp work on neighbouring numbers.
// Cost: one atomic operation, which reads and writes a number in the L2 cache.
// Limit: for many numbers, the rate of the units at the L2 cache that do the operations. For few
// numbers, operations on the same number wait for one another.
//
// Defined by the host (mod.rs):
// BLOCK_SIZE  threads per block
// WIDTH       bits of a number: 32 or 64
// RETURNS     use of the value before the operation: RETURNS_UNUSED, RETURNS_SUMMED per thread, or
//             RETURNS_STORED
// HAS_F64     1 if the device has double precision, else 0
// SLOTS       numbers per block of the atomics with a scope

// Largest value of the counters that wrap.
#define COUNTER_LIMIT 99u

#if WIDTH == 32
typedef uint word_t;
typedef float real_t;
#define ATOMIC(name) ATOMIC_##name##_U32
#define AS_WORD(x) FLOAT_AS_UINT(x)
#define AS_REAL(u) UINT_AS_FLOAT(u)
#define HAS_ATOMIC_ADD_REAL HAS_ATOMIC_ADD_F32
#define ATOMIC_ADD_REAL(p, v) ATOMIC_ADD_F32(p, v)
#else
typedef ulong word_t;
#if HAS_F64
typedef double real_t;
#endif
#define ATOMIC(name) ATOMIC_##name##_U64
#define HAS_ATOMIC_ADD_REAL HAS_ATOMIC_ADD_F64
#define ATOMIC_ADD_REAL(p, v) ATOMIC_ADD_F64(p, v)
#if defined(ON_CUDA)
#define AS_WORD(x) ((ulong)__double_as_longlong(x))
#define AS_REAL(u) __longlong_as_double((long long)(u))
#else
#define AS_WORD(x) as_ulong(x)
#define AS_REAL(u) as_double(u)
#endif
#endif

FUNCTION uint hash_of(uint i)
{
    const uint hash = i * 2654435761u;
    return hash ^ hash >> 15;
}

// Returns a value with random bits.
FUNCTION word_t random_of(uint i)
{
#if WIDTH == 32
    return hash_of(i);
#else
    return (ulong)hash_of(i) << 32 | hash_of(~i);
#endif
}

// Returns a value with one random bit.
FUNCTION word_t bit_of(uint i)
{
    return (word_t)1 << (hash_of(i) & (uint)(WIDTH - 1));
}

// Returns the index of the number that operation i works on. mask: 2^k - 1.
FUNCTION uint index_of(uint i, uint mask, int is_random)
{
    return (is_random ? hash_of(i ^ 0x55555555u) : i) & mask;
}

#if RETURNS == RETURNS_UNUSED
#define USE_OLD(i, operation) (void)(operation)
#elif RETURNS == RETURNS_SUMMED
#define USE_OLD(i, operation) sum += (operation)
#else
#define USE_OLD(i, operation) old_values[i] = (operation)
#endif

// Does `operation` on number p for all operations i of the thread.
#define DO_ALL(operation)                                                                          \
    for (uint i = first; i < n; i += stride) {                                                     \
        GLOBAL word_t* p = data + index_of(i, mask, is_random);                                    \
        USE_OLD(i, operation);                                                                     \
    }                                                                                              \
    break

// data: mask + 1 numbers. old_values: one number per thread if they are summed, one per operation
// if it is 2, else at least one.
KERNEL(BLOCK_SIZE)
update_words(GLOBAL word_t* data, uint n, uint mask, int is_random, int operation, GLOBAL word_t* old_values)
{
    const uint first = (uint)(BLOCK_INDEX * BLOCK_SIZE + THREAD);
    const uint stride = (uint)(BLOCK_COUNT * BLOCK_SIZE);
    word_t sum = 0;
    switch (operation) {
    case ADD: DO_ALL(ATOMIC(ADD)(p, random_of(i)));
    case SUB: DO_ALL(ATOMIC(SUB)(p, random_of(i)));
    case EXCHANGE: DO_ALL(ATOMIC(EXCHANGE)(p, i + 1u));
    case MINIMUM: DO_ALL(ATOMIC(MIN)(p, random_of(i)));
    case MAXIMUM: DO_ALL(ATOMIC(MAX)(p, random_of(i)));
    case AND: DO_ALL(ATOMIC(AND)(p, ~bit_of(i)));
    case OR: DO_ALL(ATOMIC(OR)(p, bit_of(i)));
    case XOR: DO_ALL(ATOMIC(XOR)(p, random_of(i)));
    case CAS: DO_ALL(ATOMIC(CAS)(p, 0, i + 1u));
#if WIDTH == 32
    case INC: DO_ALL(ATOMIC_INC_U32(p, COUNTER_LIMIT));
    case DEC: DO_ALL(ATOMIC_DEC_U32(p, COUNTER_LIMIT));
    case RACING_ADD:
        for (uint i = first; i < n; i += stride) {
            GLOBAL word_t* p = data + index_of(i, mask, is_random);
            STORE_U32(p, LOAD_U32(p) + 1u);
        }
        break;
#endif
    }
    if (RETURNS == RETURNS_SUMMED)
        old_values[first] = sum;
}

#if WIDTH == 32 || HAS_F64
// Adds a value by compare-and-swap: tries again until no other thread has changed the number.
FUNCTION void add_real_by_cas(GLOBAL real_t* p, real_t value)
{
    GLOBAL word_t* word = (GLOBAL word_t*)p;
    word_t old = *word;
    for (;;) {
        const word_t seen = ATOMIC(CAS)(word, old, AS_WORD(AS_REAL(old) + value));
        if (seen == old)
            break;
        old = seen;
    }
}

// Adds small integers, whose sums are exact, to floats or doubles. by_cas: by compare-and-swap,
// also if the hardware has an addition.
KERNEL(BLOCK_SIZE) add_reals(GLOBAL real_t* data, uint n, uint mask, int is_random, int by_cas)
{
    const uint first = (uint)(BLOCK_INDEX * BLOCK_SIZE + THREAD);
    const uint stride = (uint)(BLOCK_COUNT * BLOCK_SIZE);
#if HAS_ATOMIC_ADD_REAL
    if (!by_cas) {
        for (uint i = first; i < n; i += stride)
            ATOMIC_ADD_REAL(data + index_of(i, mask, is_random), (real_t)(1u + (hash_of(i) & 7u)));
    } else
#endif
        for (uint i = first; i < n; i += stride)
            add_real_by_cas(data + index_of(i, mask, is_random), (real_t)(1u + (hash_of(i) & 7u)));
}
#endif

#if WIDTH == 32

// Adds to numbers that only the threads of one block use, with atomics of several scopes. data:
// SLOTS numbers per block.
KERNEL(BLOCK_SIZE) add_in_scope(GLOBAL uint* data, uint n, int scope)
{
    GLOBAL uint* p = data + (BLOCK_INDEX * SLOTS + THREAD % SLOTS);
    const uint first = (uint)(BLOCK_INDEX * BLOCK_SIZE + THREAD);
    const uint stride = (uint)(BLOCK_COUNT * BLOCK_SIZE);
    for (uint i = first; i < n; i += stride) {
        if (scope == BLOCK_SCOPE)
            ATOMIC_ADD_BLOCK_U32(p, random_of(i));
        else if (scope == DEVICE_SCOPE)
            ATOMIC_ADD_U32(p, random_of(i));
        else
            ATOMIC_ADD_SYSTEM_U32(p, random_of(i));
    }
}

// Reports which atomics the device has.
KERNEL(1) report_support(GLOBAL uint* support)
{
    support[0] = HAS_ATOMICS_U64;
    support[1] = HAS_ATOMIC_ADD_F32;
    support[2] = HAS_ATOMIC_ADD_F64;
    support[3] = HAS_ATOMIC_SCOPES;
}
#endif
