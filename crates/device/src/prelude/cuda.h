// The dialect, for CUDA C++ as NVRTC compiles it (no header files). opencl.h says the same in OpenCL C.

#define ON_CUDA 1

typedef unsigned char uchar;
typedef unsigned int uint;
typedef unsigned long long ulong;

// Kernel functions of groups of T threads; KERNEL_MIN_BLOCKS wants at least B groups on a multiprocessor.
#define KERNEL(T) extern "C" __global__ __launch_bounds__(T) void
#define KERNEL_MIN_BLOCKS(T, B) extern "C" __global__ __launch_bounds__(T, B) void
#define FUNCTION static __device__ __forceinline__

// Memory: GLOBAL, SHARED_POINTER and CONSTANT_POINTER qualify what a pointer points to; SHARED declares an
// array of the group, in the kernel's own scope; CONSTANT a table, at file scope.
#define GLOBAL
#define SHARED __shared__
#define SHARED_POINTER
#define CONSTANT __constant__
#define CONSTANT_POINTER
#define RESTRICT __restrict__

#define BLOCK_INDEX ((int)blockIdx.x)
#define BLOCK_COUNT ((int)gridDim.x)
#define THREAD ((int)threadIdx.x)

// BARRIER: all threads of the group; what they wrote before, they see after. FENCE: what this thread wrote
// before is seen by every thread of the device before what it writes after.
#define BARRIER() __syncthreads()
#define FENCE() __threadfence()

#define PRAGMA_OF(text) _Pragma(#text)
#define UNROLL(n) PRAGMA_OF(unroll n)
#define UNROLL_ALL PRAGMA_OF(unroll)

// Without a suffix for float, with 64 for double. RSQRT is within 2 ulp.
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

// CUDA 13 deprecates its own double4, whose alignment is to change; 16 bytes is the widest load below CC 10.
struct __align__(16) Double4 {
    double x, y, z, w;
};
#define double4 Double4
#define DOUBLE4(x, y, z, w) (double4{(double)(x), (double)(y), (double)(z), (double)(w)})
#define FLOAT4(x, y, z, w) make_float4(x, y, z, w)

#define FLOAT_AS_UINT(x) __float_as_uint(x)
#define UINT_AS_FLOAT(u) __uint_as_float(u)

// On uint in global memory; each gives the value before. ATOMIC_CAS_U32(p, expected, wanted).
#define ATOMIC_ADD_U32(p, v) atomicAdd((uint*)(p), (uint)(v))
#define ATOMIC_MIN_U32(p, v) atomicMin((uint*)(p), (uint)(v))
#define ATOMIC_MAX_U32(p, v) atomicMax((uint*)(p), (uint)(v))
#define ATOMIC_CAS_U32(p, e, w) atomicCAS((uint*)(p), (uint)(e), (uint)(w))
// The same in SHARED memory.
#define SHARED_ATOMIC_ADD_U32(p, v) atomicAdd((uint*)(p), (uint)(v))
// Another group's word as it is now, not as a cache has it; and a word for other groups to see.
#define LOAD_U32(p) (*(const volatile uint*)(p))
#define STORE_U32(p, v) (*(volatile uint*)(p) = (uint)(v))

#define POPCOUNT(u) __popc(u)
#define LEADING_ZEROS_U64(u) __clzll((long long)(u))

// Lanes: WARP_SIZE threads in a row that step together. Each of these is for all lanes of the warp at once, in uniform
// control flow; where a device has no such lanes, for all threads of the group, through `scratch`, which is SHARED
// memory of a uint a thread.
//   BALLOT          a bit for each lane whose condition holds     SHUFFLE(_F)   another lane's value
//   WARP_BARRIER    the lanes wait; what they wrote to SHARED memory before, they see after
#define WARP_SIZE 32
#define LANE (THREAD & 31)
#define BALLOT(condition, scratch) __ballot_sync(0xffffffffu, condition)
#define SHUFFLE(value, lane, scratch) __shfl_sync(0xffffffffu, (uint)(value), lane)
#define SHUFFLE_F(value, lane, scratch) __shfl_sync(0xffffffffu, (float)(value), lane)
#define WARP_BARRIER() __syncwarp()
