// Chains of one operation: each thread applies x <- operation(x, b, c) to CHAINS independent
// numbers, again and again.
//
// Data: start and out have CHAINS numbers per thread of the grid, number `chain` of thread t at
// index chain * threads + t. second and third have one number per thread, cycles one per block.
// Cost: one operation per number and step.
// Limit: the units that execute the operation, if enough operations are in flight on an SM. With
// one chain of one warp, the limit is the latency of the operation.
//
// Defined by the host (chains.rs): OPERATION, NUMBER, BLOCK_SIZE, CHAINS, STEPS, AFTER_ROUND.

// Cycles of the SM's clock. 0 where the compiler gives no access to it.
#if defined(ON_CUDA)
#define CYCLES() ((ulong)clock64())
#else
#define CYCLES() 0ul
#endif

// ---- Functions in two forms ----
//
// Without a prefix: the functions of the library, with an error of a few ulp. With FAST_: those of
// the special function units, whose error the manuals give for a limited range of arguments.
#if defined(ON_CUDA)
FUNCTION float fast_sqrt(float x)
{
    float result;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
FUNCTION float fast_rsqrt(float x)
{
    float result;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
FUNCTION float fast_reciprocal(float x)
{
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}
#define SIN(x) sinf(x)
#define EXP(x) expf(x)
#define LOG(x) logf(x)
#define POW(x, y) powf(x, y)
#define FAST_RECIPROCAL(x) fast_reciprocal(x)
#define FAST_DIVIDE(x, y) __fdividef(x, y)
#define FAST_SQRT(x) fast_sqrt(x)
#define FAST_RSQRT(x) fast_rsqrt(x)
#define FAST_SIN(x) __sinf(x)
#define FAST_EXP(x) __expf(x)
#define FAST_LOG(x) __logf(x)
#define FAST_POW(x, y) __powf(x, y)
#define MIN_U32(x, y) min(x, y)
#define MULTIPLY_24(x, y) __umul24(x, y)
#else
#define SIN(x) sin(x)
#define EXP(x) exp(x)
#define LOG(x) log(x)
#define POW(x, y) pow(x, y)
#define FAST_RECIPROCAL(x) native_recip(x)
#define FAST_DIVIDE(x, y) native_divide(x, y)
#define FAST_SQRT(x) native_sqrt(x)
#define FAST_RSQRT(x) native_rsqrt(x)
#define FAST_SIN(x) native_sin(x)
#define FAST_EXP(x) native_exp(x)
#define FAST_LOG(x) native_log(x)
#define FAST_POW(x, y) native_powr(x, y)
#define MIN_U32(x, y) min((uint)(x), (uint)(y))
// Both factors must be below 2^24. CUDA takes the lower 24 bits.
#define MULTIPLY_24(x, y) mul24((uint)(x) & 0xffffffu, (uint)(y))
#endif

// ---- Half precision ----
//
// One f16 in a ushort, or two in a uint. NVRTC has no type for them without header files.
#if defined(USES_F16)
#if defined(ON_CUDA)
FUNCTION ushort fma_f16(ushort x, ushort b, ushort c)
{
    ushort result;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(result) : "h"(x), "h"(b), "h"(c));
    return result;
}
FUNCTION uint fma_f16x2(uint x, uint b, uint c)
{
    uint result;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(b), "r"(c));
    return result;
}
FUNCTION uint add_f16x2(uint x, uint b)
{
    uint result;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(b));
    return result;
}
#else
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define fma_f16(x, b, c) as_ushort(fma(as_half(x), as_half(b), as_half(c)))
#define fma_f16x2(x, b, c) as_uint(fma(as_half2(x), as_half2(b), as_half2(c)))
#define add_f16x2(x, b) as_uint(as_half2(x) + as_half2(b))
#endif
#endif

// ---- Operations ----
//
// Some have a second operation, because the compiler would join two equal ones: (x + b) + b is
// x + 2 b, and 1 / (1 / x) is x. In others it keeps the numbers in range. The divisor of a division
// by a variable changes in every step, because the compiler would compute its reciprocal once.
#define ADD(x, b, c) ((x) + (b))
#define MULTIPLY(x, b, c) ((x) * (b))
#define MULTIPLY_ADD_F32(x, b, c) FMA(x, b, c)
// Reads one register, so that the banks of the register file do not limit a single chain.
#define MULTIPLY_ADD_ITSELF(x, b, c) FMA(x, 1e-7f, x)
#define NEGATED_MIN(x, b, c) (-MIN(x, b))
#define RECIPROCAL(x, b, c) (1.0f / (x))
#define DIVIDE(x, b, c) ((b) / (x))
#define SQUARE_ROOT(x, b, c) SQRT(x)
#define RECIPROCAL_SQUARE_ROOT(x, b, c) RSQRT(x)
#define SINE(x, b, c) SIN(x)
#define EXPONENTIAL(x, b, c) EXP(-(x))
#define LOGARITHM(x, b, c) LOG((x) + (b))
#define POWER(x, b, c) POW((x) + (c), b)
#define FAST_RECIPROCAL_ADD(x, b, c) (FAST_RECIPROCAL(x) + (b))
#define FAST_DIVISION(x, b, c) FAST_DIVIDE(b, x)
#define FAST_SQUARE_ROOT(x, b, c) FAST_SQRT(x)
#define FAST_RECIPROCAL_SQUARE_ROOT(x, b, c) FAST_RSQRT(x)
#define FAST_SINE(x, b, c) FAST_SIN(x)
#define FAST_EXPONENTIAL(x, b, c) FAST_EXP(-(x))
#define FAST_LOGARITHM(x, b, c) FAST_LOG((x) + (b))
#define FAST_POWER(x, b, c) FAST_POW((x) + (c), b)
// One multiplication, addition, square root and division, for the flags of the compiler.
#define EXPRESSION(x, b, c) (SQRT((x) * (x) + (b)) / ((x) + (c)))

#define MULTIPLY_ADD_F64(x, b, c) FMA64(x, b, c)
#define SQUARE_ROOT_F64(x, b, c) SQRT64(x)
#define RECIPROCAL_SQUARE_ROOT_F64(x, b, c) RSQRT64(x)
#define SINE_F64(x, b, c) sin((double)(x))
#define EXPONENTIAL_F64(x, b, c) exp(-(double)(x))
#define LOGARITHM_F64(x, b, c) log((double)((x) + (b)))
#define POWER_F64(x, b, c) pow((double)((x) + (c)), (double)(b))

#define MULTIPLY_ADD_F16(x, b, c) fma_f16(x, b, c)
#define MULTIPLY_ADD_F16X2(x, b, c) fma_f16x2(x, b, c)
#define ADD_F16X2(x, b, c) add_f16x2(x, b)

#define ADD_XOR(x, b, c) (((x) + (b)) ^ (c))
#define SHIFT_XOR(x, b, c) (((x) << (b)) ^ (c))
#define MIN_XOR(x, b, c) (MIN_U32(x, b) ^ (c))
#define MULTIPLY_ADD_U32(x, b, c) ((x) * (b) + (c))
// The shift makes the next product depend on the upper bits of this one. Without it, 24-bit
// products need only the lower 24 bits of their factors, and the compiler drops their masks.
#define MULTIPLY_SHIFT(x, b, c) (((x) * (b) >> 8) + (c))
#define MULTIPLY_24_SHIFT(x, b, c) ((MULTIPLY_24(x, b) >> 8) + (c))
#define DIVIDE_BY_VARIABLE(x, b, c) ((c) / ((x) | 1u) + (b))
#define DIVIDE_BY_7(x, b, c) ((x) / 7u + (c))
#define DIVIDE_BY_16(x, b, c) ((x) / 16u + (c))
#define SIGNED_DIVIDE_BY_16(x, b, c) ((x) / 16 + (c))
#define SHIFT_BY_4(x, b, c) (((x) >> 4) + (c))
#define REMAINDER_OF_VARIABLE(x, b, c) ((c) % ((x) | 1u) + (b))
#define REMAINDER_OF_7(x, b, c) ((c) >> ((x) % 7u))
#define REMAINDER_OF_16(x, b, c) ((c) >> ((x) % 16u))
#define MASK(x, b, c) ((c) >> ((x) & ((b) - 1u)))

// Applies the operation rounds * STEPS + tail times. With rounds = 0 and tail = 1, out has the
// results for the arguments in start, second and third.
KERNEL(BLOCK_SIZE)
run_chains(GLOBAL const NUMBER* RESTRICT start, GLOBAL const NUMBER* RESTRICT second,
           GLOBAL const NUMBER* RESTRICT third, int rounds, int tail, GLOBAL NUMBER* RESTRICT out,
           GLOBAL ulong* RESTRICT cycles)
{
    const int thread = BLOCK_INDEX * BLOCK_SIZE + THREAD;
    const int thread_count = BLOCK_COUNT * BLOCK_SIZE;
    const NUMBER b = second[thread];
    const NUMBER c = third[thread];
    NUMBER x[CHAINS];
    UNROLL_ALL
    for (int chain = 0; chain < CHAINS; chain++)
        x[chain] = start[chain * thread_count + thread];

    const ulong before = CYCLES();
    UNROLL(1)
    for (int round = 0; round < rounds; round++) {
        UNROLL_ALL
        for (int step = 0; step < STEPS; step++) {
            UNROLL_ALL
            for (int chain = 0; chain < CHAINS; chain++)
                x[chain] = OPERATION(x[chain], b, c);
        }
        AFTER_ROUND;
    }
    UNROLL(1)
    for (int step = 0; step < tail; step++) {
        UNROLL_ALL
        for (int chain = 0; chain < CHAINS; chain++)
            x[chain] = OPERATION(x[chain], b, c);
    }
    const ulong after = CYCLES();

    UNROLL_ALL
    for (int chain = 0; chain < CHAINS; chain++)
        out[chain * thread_count + thread] = x[chain];
    if (THREAD == 0)
        cycles[BLOCK_INDEX] = after - before;
}
