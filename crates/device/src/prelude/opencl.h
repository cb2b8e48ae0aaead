// The kernel dialect for OpenCL C 1.2 and later. cuda.h defines the same macros for CUDA C++ and
// documents each of them.

#define ON_OPENCL 1

#if defined(cl_khr_fp64) && __OPENCL_C_VERSION__ < 120
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define KERNEL(T) KERNEL_3D(T, 1, 1)
#define KERNEL_2D(X, Y) KERNEL_3D(X, Y, 1)
#define KERNEL_3D(X, Y, Z) __kernel __attribute__((reqd_work_group_size(X, Y, Z))) void
// OpenCL cannot limit registers per kernel. If the host defines MAX_REGISTERS, NVIDIA's driver
// limits those of all kernels of the file, and other drivers ignore it.
#define KERNEL_MIN_BLOCKS(T, B) KERNEL(T)
// Always inlined, because PoCL ignores barriers in functions that are not.
#define FUNCTION static inline __attribute__((always_inline))

#define GLOBAL __global
#define SHARED __local
#define SHARED_POINTER __local
#define DYNAMIC_SHARED(T, a) , __local T* a
#define USE_DYNAMIC_SHARED(T, a)
#define CONSTANT __constant
#define CONSTANT_POINTER __constant
#define CONSTANT_ARRAY(T, a, n)
#define CONSTANT_VALUES(a) a##_argument
#define RESTRICT restrict

#define TEXTURE_1D(t) __read_only image1d_buffer_t t
#define TEXTURE_2D(t) __read_only image2d_t t, sampler_t t##_sampler
#define READ_TEXTURE_1D(t, i) (read_imagef(t, (int)(i)).x)
#define READ_TEXTURE_2D(t, u, v) (read_imagef(t, t##_sampler, (float2)(u, v)).x)

#define BLOCK_INDEX ((int)get_group_id(0))
#define BLOCK_INDEX_Y ((int)get_group_id(1))
#define BLOCK_INDEX_Z ((int)get_group_id(2))
#define BLOCK_COUNT ((int)get_num_groups(0))
#define BLOCK_COUNT_Y ((int)get_num_groups(1))
#define BLOCK_COUNT_Z ((int)get_num_groups(2))
#define THREAD ((int)get_local_id(0))
#define THREAD_Y ((int)get_local_id(1))
#define THREAD_Z ((int)get_local_id(2))

#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define BLOCK_FENCE() mem_fence(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
// OpenCL C 1.2 has fences only within a block. NVIDIA's compiler accepts PTX, which has one for the
// device.
#if defined(__NV_CL_C_VERSION)
#define DEVICE_FENCE() asm volatile("membar.gl;" ::: "memory")
#elif __OPENCL_C_VERSION__ >= 300 && defined(__opencl_c_atomic_scope_device)                                  \
    || __OPENCL_C_VERSION__ >= 200 && __OPENCL_C_VERSION__ < 300
#define DEVICE_FENCE() atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device)
#else
#define DEVICE_FENCE() mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif
#if defined(__NV_CL_C_VERSION)
#define SYSTEM_FENCE() asm volatile("membar.sys;" ::: "memory")
#elif defined(__opencl_c_atomic_scope_all_devices)
#define SYSTEM_FENCE()                                                                             \
    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_all_svm_devices)
#else
#define SYSTEM_FENCE() DEVICE_FENCE()
#endif

#define PRAGMA_OF(text) _Pragma(#text)
#define UNROLL(n) PRAGMA_OF(unroll n)
#define UNROLL_ALL PRAGMA_OF(unroll)

#define RSQRT(x) rsqrt((float)(x))
#define RSQRT64(x) rsqrt((double)(x))
#define SQRT(x) sqrt((float)(x))
#define SQRT64(x) sqrt((double)(x))
#define FMA(a, b, c) fma((float)(a), (float)(b), (float)(c))
#define FMA64(a, b, c) fma((double)(a), (double)(b), (double)(c))
#define MIN(a, b) fmin((float)(a), (float)(b))
#define MAX(a, b) fmax((float)(a), (float)(b))
#define MIN64(a, b) fmin((double)(a), (double)(b))
#define MAX64(a, b) fmax((double)(a), (double)(b))

#define FLOAT4(x, y, z, w) ((float4)(x, y, z, w))
#define DOUBLE4(x, y, z, w) ((double4)(x, y, z, w))

#define FLOAT_AS_UINT(x) as_uint((float)(x))
#define UINT_AS_FLOAT(u) as_float((uint)(u))

#define ATOMIC_ADD_U32(p, v) atomic_add((volatile __global uint*)(p), (uint)(v))
#define ATOMIC_SUB_U32(p, v) atomic_sub((volatile __global uint*)(p), (uint)(v))
#define ATOMIC_EXCHANGE_U32(p, v) atomic_xchg((volatile __global uint*)(p), (uint)(v))
#define ATOMIC_MIN_U32(p, v) atomic_min((volatile __global uint*)(p), (uint)(v))
#define ATOMIC_MAX_U32(p, v) atomic_max((volatile __global uint*)(p), (uint)(v))
#define ATOMIC_AND_U32(p, v) atomic_and((volatile __global uint*)(p), (uint)(v))
#define ATOMIC_OR_U32(p, v) atomic_or((volatile __global uint*)(p), (uint)(v))
#define ATOMIC_XOR_U32(p, v) atomic_xor((volatile __global uint*)(p), (uint)(v))
#define ATOMIC_CAS_U32(p, e, w) atomic_cmpxchg((volatile __global uint*)(p), (uint)(e), (uint)(w))
// OpenCL's increment and decrement have no limit at which they wrap.
FUNCTION uint atomic_inc_to(volatile __global uint* p, uint limit)
{
    uint old = *p;
    for (;;) {
        const uint seen = atomic_cmpxchg(p, old, old >= limit ? 0u : old + 1u);
        if (seen == old)
            return old;
        old = seen;
    }
}
FUNCTION uint atomic_dec_from(volatile __global uint* p, uint limit)
{
    uint old = *p;
    for (;;) {
        const uint seen = atomic_cmpxchg(p, old, old == 0u || old > limit ? limit : old - 1u);
        if (seen == old)
            return old;
        old = seen;
    }
}
#define ATOMIC_INC_U32(p, v) atomic_inc_to((volatile __global uint*)(p), (uint)(v))
#define ATOMIC_DEC_U32(p, v) atomic_dec_from((volatile __global uint*)(p), (uint)(v))
#if defined(cl_khr_int64_base_atomics) && defined(cl_khr_int64_extended_atomics)
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
#define HAS_ATOMICS_U64 1
#define ATOMIC_ADD_U64(p, v) atom_add((volatile __global ulong*)(p), (ulong)(v))
#define ATOMIC_SUB_U64(p, v) atom_sub((volatile __global ulong*)(p), (ulong)(v))
#define ATOMIC_EXCHANGE_U64(p, v) atom_xchg((volatile __global ulong*)(p), (ulong)(v))
#define ATOMIC_MIN_U64(p, v) atom_min((volatile __global ulong*)(p), (ulong)(v))
#define ATOMIC_MAX_U64(p, v) atom_max((volatile __global ulong*)(p), (ulong)(v))
#define ATOMIC_AND_U64(p, v) atom_and((volatile __global ulong*)(p), (ulong)(v))
#define ATOMIC_OR_U64(p, v) atom_or((volatile __global ulong*)(p), (ulong)(v))
#define ATOMIC_XOR_U64(p, v) atom_xor((volatile __global ulong*)(p), (ulong)(v))
#define ATOMIC_CAS_U64(p, e, w) atom_cmpxchg((volatile __global ulong*)(p), (ulong)(e), (ulong)(w))
#define SHARED_ATOMIC_ADD_U64(p, v) atom_add((volatile __local ulong*)(p), (ulong)(v))
#else
#define HAS_ATOMICS_U64 0
#endif
#if defined(__NV_CL_C_VERSION)
FUNCTION float atomic_add_float(volatile __global float* p, float v)
{
    float old;
    asm volatile("atom.global.add.f32 %0, [%1], %2;" : "=f"(old) : "l"(p), "f"(v) : "memory");
    return old;
}
#define HAS_ATOMIC_ADD_F32 1
#define ATOMIC_ADD_F32(p, v) atomic_add_float((volatile __global float*)(p), (float)(v))
#else
#define HAS_ATOMIC_ADD_F32 0
#endif
#define HAS_ATOMIC_ADD_F64 0
#define HAS_ATOMIC_SCOPES 0
#define ATOMIC_ADD_BLOCK_U32(p, v) ATOMIC_ADD_U32(p, v)
#define ATOMIC_ADD_SYSTEM_U32(p, v) ATOMIC_ADD_U32(p, v)
#define SHARED_ATOMIC_ADD_U32(p, v) atomic_add((volatile __local uint*)(p), (uint)(v))
#define SHARED_ATOMIC_CAS_U32(p, e, w) atomic_cmpxchg((volatile __local uint*)(p), (uint)(e), (uint)(w))
#define LOAD_U32(p) (*(const volatile __global uint*)(p))
#define STORE_U32(p, v) (*(volatile __global uint*)(p) = (uint)(v))

#define POPCOUNT(u) ((int)popcount((uint)(u)))
#define LEADING_ZEROS_U64(u) ((int)clz((ulong)(u)))

#define WARP_SIZE 32
#define LANE (THREAD & 31)
#if defined(__NV_CL_C_VERSION)
FUNCTION uint warp_ballot(int condition)
{
    uint mask;
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
                 : "=r"(mask) : "r"(condition));
    return mask;
}
FUNCTION int warp_any(int condition)
{
    int result;
    asm volatile("{ .reg .pred p, q; setp.ne.s32 p, %1, 0; vote.sync.any.pred q, p, 0xffffffff; "
                 "selp.s32 %0, 1, 0, q; }" : "=r"(result) : "r"(condition));
    return result;
}
FUNCTION uint warp_shuffle(uint value, int lane)
{
    uint result;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, 0xffffffff;" : "=r"(result) : "r"(value), "r"(lane));
    return result;
}
FUNCTION uint warp_match(uint value)
{
    uint mask;
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(mask) : "r"(value));
    return mask;
}
#define HAS_WARPS 1
#define MATCH_ANY(value, scratch) warp_match((uint)(value))
#define MATCH_ALL(value, scratch) (warp_match((uint)(value)) == 0xffffffffu ? 0xffffffffu : 0u)
#define ANY(condition, scratch) warp_any((condition) ? 1 : 0)
#define ALL(condition, scratch) (!warp_any((condition) ? 0 : 1))
#define BALLOT(condition, scratch) warp_ballot((condition) ? 1 : 0)
#define SHUFFLE(value, lane, scratch) warp_shuffle((uint)(value), lane)
#define SHUFFLE_F(value, lane, scratch) as_float(warp_shuffle(as_uint((float)(value)), lane))
#define WARP_BARRIER() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")
#else
FUNCTION uint warp_ballot(int condition, __local uint* scratch)
{
    BARRIER();
    scratch[THREAD] = condition ? 1u : 0u;
    BARRIER();
    uint mask = 0;
    for (int lane = 0; lane < WARP_SIZE; lane++)
        mask |= scratch[THREAD - LANE + lane] << lane;
    return mask;
}
FUNCTION uint warp_shuffle(uint value, int lane, __local uint* scratch)
{
    BARRIER();
    scratch[THREAD] = value;
    BARRIER();
    return scratch[THREAD - LANE + lane];
}
FUNCTION uint warp_match(uint value, __local uint* scratch)
{
    BARRIER();
    scratch[THREAD] = value;
    BARRIER();
    uint mask = 0;
    for (int lane = 0; lane < WARP_SIZE; lane++)
        mask |= (scratch[THREAD - LANE + lane] == value ? 1u : 0u) << lane;
    return mask;
}
#define HAS_WARPS 0
#define MATCH_ANY(value, scratch) warp_match((uint)(value), scratch)
#define MATCH_ALL(value, scratch) (MATCH_ANY(value, scratch) == 0xffffffffu ? 0xffffffffu : 0u)
#define ANY(condition, scratch) (BALLOT(condition, scratch) != 0u)
#define ALL(condition, scratch) (BALLOT(condition, scratch) == 0xffffffffu)
#define BALLOT(condition, scratch) warp_ballot((condition) ? 1 : 0, scratch)
#define SHUFFLE(value, lane, scratch) warp_shuffle((uint)(value), lane, scratch)
#define SHUFFLE_F(value, lane, scratch) as_float(warp_shuffle(as_uint((float)(value)), lane, scratch))
#define WARP_BARRIER() BARRIER()
#endif
