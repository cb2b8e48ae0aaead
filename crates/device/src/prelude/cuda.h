// The kernel dialect for CUDA C++, as NVRTC compiles it (without header files). opencl.h defines
// the same macros for OpenCL C. Kernels use only what both define, so each compiles for both.

// Distinguishes the compilers, for example in `#if defined(ON_CUDA)`. opencl.h defines ON_OPENCL.
#define ON_CUDA 1

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long long ulong;

// ---- Functions ----
//
// KERNEL(T) f(...)                a kernel with blocks of T threads
// KERNEL_2D(X, Y) f(...)          a kernel with blocks of X * Y threads
// KERNEL_3D(X, Y, Z) f(...)       a kernel with blocks of X * Y * Z threads
// KERNEL_MIN_BLOCKS(T, B) f(...)  as KERNEL(T), with so few registers that an SM can run B blocks
// FUNCTION int f(...)             a function that kernels call, always inlined
//
// If the host defines MAX_REGISTERS, it limits the registers per thread of all kernels of the file,
// except for those with KERNEL_MIN_BLOCKS, which have their own limit.
#define KERNEL(T) extern "C" __global__ LAUNCH_BOUNDS(T) void
#define KERNEL_2D(X, Y) KERNEL((X) * (Y))
#define KERNEL_3D(X, Y, Z) KERNEL((X) * (Y) * (Z))
#define KERNEL_MIN_BLOCKS(T, B) extern "C" __global__ __launch_bounds__(T, B) void
#define FUNCTION static __device__ __forceinline__
// Empty if the host defines MAX_REGISTERS: the compiler ignores that limit for a kernel with
// bounds.
#define LAUNCH_BOUNDS(T) __launch_bounds__(T)

// ---- Memory ----
//
// SHARED float tile[64];          an array in shared memory. Only at the outer scope of a kernel.
// CONSTANT const float table[4] = {...};
//                                 a table in constant memory. Only at file scope.
// f(int n DYNAMIC_SHARED(float, tile)) { USE_DYNAMIC_SHARED(float, tile); ... }
//                                 an array in shared memory whose size the host sets. It follows
//                                 the last parameter, without a comma. The kernel starts with its
//                                 use.
// CONSTANT_ARRAY(float4, sources, 1024);
//                                 an array in constant memory that the host writes. Only at file
//                                 scope. Kernels that use it have a parameter for it:
//                                 f(CONSTANT_POINTER const float4* sources_argument)
// CONSTANT_VALUES(sources)[i]     an element of such an array, in the kernel itself
// GLOBAL, SHARED_POINTER, CONSTANT_POINTER
//                                 the memory that a pointer points to, such as `GLOBAL float* from`
// RESTRICT                        no other pointer of the kernel points to the same memory
#define GLOBAL
#define SHARED __shared__
#define SHARED_POINTER
#define DYNAMIC_SHARED(T, a)
#define USE_DYNAMIC_SHARED(T, a)                                                                   \
    extern __shared__ double2 dynamic_shared_memory[];                                             \
    T* const a = (T*)dynamic_shared_memory
#define CONSTANT __constant__
#define CONSTANT_POINTER
#define CONSTANT_ARRAY(T, a, n)                                                                    \
    extern "C" {                                                                                   \
    __constant__ T a[n];                                                                           \
    }
#define CONSTANT_VALUES(a) a
#define RESTRICT __restrict__

// ---- Textures ----
//
// TEXTURE_1D(t), TEXTURE_2D(t)    parameters of a kernel: textures of floats
// READ_TEXTURE_1D(t, i)           texel i, for 0 <= i < length
// READ_TEXTURE_2D(t, u, v)        the value at float coordinates. Texel i covers i to i + 1, or the
//                                 whole width 0 to 1 if the texture has normalised coordinates.
#define TEXTURE_1D(t) cudaTextureObject_t t
#define TEXTURE_2D(t) cudaTextureObject_t t
#define READ_TEXTURE_1D(t, i) tex1Dfetch<float>(t, i)
#define READ_TEXTURE_2D(t, u, v) tex2D<float>(t, u, v)

// ---- Indices ----
//
// Of type int, along x, y (suffix _Y) and z (suffix _Z). The host defines BLOCK_SIZE where a kernel
// needs it.
// BLOCK_INDEX   index of the block within the grid
// BLOCK_COUNT   number of blocks of the grid
// THREAD        index of the thread within its block. Neighbours along x are in the same warp.
#define BLOCK_INDEX ((int)blockIdx.x)
#define BLOCK_INDEX_Y ((int)blockIdx.y)
#define BLOCK_INDEX_Z ((int)blockIdx.z)
#define BLOCK_COUNT ((int)gridDim.x)
#define BLOCK_COUNT_Y ((int)gridDim.y)
#define BLOCK_COUNT_Z ((int)gridDim.z)
#define THREAD ((int)threadIdx.x)
#define THREAD_Y ((int)threadIdx.y)
#define THREAD_Z ((int)threadIdx.z)

// ---- Synchronisation ----
//
// BARRIER()       waits for all threads of the block. Each then sees what the others wrote before.
// BLOCK_FENCE()   orders the writes of this thread for all threads of its block: those before the
//                 fence become visible before those after it.
// DEVICE_FENCE()  the same for all threads of the device
// SYSTEM_FENCE()  the same for all threads of all devices and of the host. On an OpenCL device
//                 without such a fence it is DEVICE_FENCE.
#define BARRIER() __syncthreads()
#define BLOCK_FENCE() __threadfence_block()
#define DEVICE_FENCE() __threadfence()
#define SYSTEM_FENCE() __threadfence_system()

// ---- Loops ----
//
// UNROLL(n) unrolls the next loop n times, UNROLL_ALL completely.
#define PRAGMA_OF(text) _Pragma(#text)
#define UNROLL(n) PRAGMA_OF(unroll n)
#define UNROLL_ALL PRAGMA_OF(unroll)

// ---- Arithmetic ----
//
// Without a suffix for float, with 64 for double. RSQRT has an error of at most 2 ulp.
#define RSQRT(x) rsqrtf(x)
#define RSQRT64(x) rsqrt((double)(x))
#define SQRT(x) sqrtf(x)
#define SQRT64(x) sqrt((double)(x))
#define FMA(a, b, c) fmaf(a, b, c)
#define FMA64(a, b, c) fma((double)(a), (double)(b), (double)(c))
#define MIN(a, b) fminf(a, b)
#define MAX(a, b) fmaxf(a, b)
#define MIN64(a, b) fmin((double)(a), (double)(b))
#define MAX64(a, b) fmax((double)(a), (double)(b))

// ---- Vectors ----
//
// float4 and double4 with components x, y, z, w. FLOAT4 and DOUBLE4 construct them.
// CUDA 13 deprecates its own double4, because its alignment will change. The widest load below
// compute capability 10 is 16 bytes, hence the alignment here.
struct __align__(16) Double4 {
    double x, y, z, w;
};
#define double4 Double4
#define DOUBLE4(x, y, z, w) (double4{(double)(x), (double)(y), (double)(z), (double)(w)})
#define FLOAT4(x, y, z, w) make_float4(x, y, z, w)

// ---- Bits ----
//
// FLOAT_AS_UINT, UINT_AS_FLOAT   the same 32 bits as the other type
// POPCOUNT                       number of bits that are set in a uint
// LEADING_ZEROS_U64              number of leading zero bits of a ulong, 64 for 0
#define FLOAT_AS_UINT(x) __float_as_uint(x)
#define UINT_AS_FLOAT(u) __uint_as_float(u)
#define POPCOUNT(u) __popc(u)
#define LEADING_ZEROS_U64(u) __clzll((long long)(u))

// ---- Atomics ----
//
// On a number in global memory: U32 is a uint, U64 a ulong, F32 a float, F64 a double. Each returns
// the value before. ATOMIC_CAS_U32(p, expected, desired) stores `desired` if the value is
// `expected`. The others, ATOMIC_ADD_U32(p, v) and so on, store
// ADD, SUB       old + v, old - v
// EXCHANGE       v
// MIN, MAX       the smaller and the larger one of old and v
// AND, OR, XOR   the bits of old and v combined
// INC            old >= v ? 0 : old + 1
// DEC            old == 0 || old > v ? v : old - 1
// HAS_ATOMICS_U64, HAS_ATOMIC_ADD_F32 and HAS_ATOMIC_ADD_F64 are 1 or 0: an OpenCL device may lack
// these types. Their macros are then not defined.
#define ATOMIC_ADD_U32(p, v) atomicAdd((uint*)(p), (uint)(v))
#define ATOMIC_SUB_U32(p, v) atomicSub((uint*)(p), (uint)(v))
#define ATOMIC_EXCHANGE_U32(p, v) atomicExch((uint*)(p), (uint)(v))
#define ATOMIC_MIN_U32(p, v) atomicMin((uint*)(p), (uint)(v))
#define ATOMIC_MAX_U32(p, v) atomicMax((uint*)(p), (uint)(v))
#define ATOMIC_AND_U32(p, v) atomicAnd((uint*)(p), (uint)(v))
#define ATOMIC_OR_U32(p, v) atomicOr((uint*)(p), (uint)(v))
#define ATOMIC_XOR_U32(p, v) atomicXor((uint*)(p), (uint)(v))
#define ATOMIC_INC_U32(p, v) atomicInc((uint*)(p), (uint)(v))
#define ATOMIC_DEC_U32(p, v) atomicDec((uint*)(p), (uint)(v))
#define ATOMIC_CAS_U32(p, e, w) atomicCAS((uint*)(p), (uint)(e), (uint)(w))
#define HAS_ATOMICS_U64 1
#define ATOMIC_ADD_U64(p, v) atomicAdd((ulong*)(p), (ulong)(v))
#define ATOMIC_SUB_U64(p, v) atomicAdd((ulong*)(p), 0ull - (ulong)(v))
#define ATOMIC_EXCHANGE_U64(p, v) atomicExch((ulong*)(p), (ulong)(v))
#define ATOMIC_MIN_U64(p, v) atomicMin((ulong*)(p), (ulong)(v))
#define ATOMIC_MAX_U64(p, v) atomicMax((ulong*)(p), (ulong)(v))
#define ATOMIC_AND_U64(p, v) atomicAnd((ulong*)(p), (ulong)(v))
#define ATOMIC_OR_U64(p, v) atomicOr((ulong*)(p), (ulong)(v))
#define ATOMIC_XOR_U64(p, v) atomicXor((ulong*)(p), (ulong)(v))
#define ATOMIC_CAS_U64(p, e, w) atomicCAS((ulong*)(p), (ulong)(e), (ulong)(w))
#define HAS_ATOMIC_ADD_F32 1
#define HAS_ATOMIC_ADD_F64 1
#define ATOMIC_ADD_F32(p, v) atomicAdd((float*)(p), (float)(v))
#define ATOMIC_ADD_F64(p, v) atomicAdd((double*)(p), (double)(v))
// Atomic for the threads of the block, and for all devices and the host. HAS_ATOMIC_SCOPES is 0 on
// OpenCL, where both are atomic for the device.
#define HAS_ATOMIC_SCOPES 1
#define ATOMIC_ADD_BLOCK_U32(p, v) atomicAdd_block((uint*)(p), (uint)(v))
#define ATOMIC_ADD_SYSTEM_U32(p, v) atomicAdd_system((uint*)(p), (uint)(v))
// On a number in shared memory.
#define SHARED_ATOMIC_ADD_U32(p, v) atomicAdd((uint*)(p), (uint)(v))
#define SHARED_ATOMIC_CAS_U32(p, e, w) atomicCAS((uint*)(p), (uint)(e), (uint)(w))
#define SHARED_ATOMIC_ADD_U64(p, v) atomicAdd((ulong*)(p), (ulong)(v))
// Loads and stores of a uint that blocks share: never served from a register or a stale cache line.
#define LOAD_U32(p) (*(const volatile uint*)(p))
#define STORE_U32(p, v) (*(volatile uint*)(p) = (uint)(v))

// ---- Warps ----
//
// Only in kernels with one-dimensional blocks of whole warps. A warp is WARP_SIZE neighbouring
// threads that run together. LANE is the index of the thread within its warp. All lanes of a warp
// must reach each of the following in uniform control flow. On a device without warps, all threads
// of the block must, and the values go through `scratch`: shared memory with one uint per thread.
// HAS_WARPS is 1 or 0, for kernels with another algorithm for such a device.
//
// ANY(condition, scratch)          whether the condition is true in any lane of the warp
// ALL(condition, scratch)          whether it is true in all of them
// BALLOT(condition, scratch)       a mask with one bit per lane, set where the condition is true
// SHUFFLE(value, lane, scratch)    the value of another lane, of type uint
// SHUFFLE_F(value, lane, scratch)  the same for float
// MATCH_ANY(value, scratch)        a mask of the lanes with the same uint as this one
// MATCH_ALL(value, scratch)        a mask of all lanes if their uints are equal, else 0
// WARP_BARRIER()                   waits for the lanes of the warp. Each then sees what the others
//                                  wrote to shared memory before.
#define WARP_SIZE 32
#define LANE (THREAD & 31)
#define HAS_WARPS 1
#define ANY(condition, scratch) __any_sync(0xffffffffu, condition)
#define ALL(condition, scratch) __all_sync(0xffffffffu, condition)
#define BALLOT(condition, scratch) __ballot_sync(0xffffffffu, condition)
#define SHUFFLE(value, lane, scratch) __shfl_sync(0xffffffffu, (uint)(value), lane)
#define SHUFFLE_F(value, lane, scratch) __shfl_sync(0xffffffffu, (float)(value), lane)
// Not static, so that the compiler does not warn where it is not used.
inline __device__ uint warp_match_all(uint value)
{
    int is_equal;
    return __match_all_sync(0xffffffffu, value, &is_equal);
}
#define MATCH_ANY(value, scratch) __match_any_sync(0xffffffffu, (uint)(value))
#define MATCH_ALL(value, scratch) warp_match_all((uint)(value))
#define WARP_BARRIER() __syncwarp()
