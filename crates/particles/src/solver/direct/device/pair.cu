// What every all-pairs kernel shares: the root, and a place where no body is.

// Within 2 ulp, denormals as zero: one instruction where the device has one.
#if defined(ON_CUDA)
#define ROOT(x) RSQRT(x)
#elif defined(__NV_CL_C_VERSION)
#define ROOT(x) native_rsqrt((float)(x))
#else
#define ROOT(x) RSQRT(x)
#endif

// 1/sqrt(x) in f64, to about an ulp. NVIDIA's estimate has some 20 bits; with e = 1 - x y² the step
// y (1 + e/2 + 3/8 e²) triples them.
FUNCTION double root64(double x)
{
#if defined(ON_CUDA) || defined(__NV_CL_C_VERSION)
    double y;
#if defined(ON_CUDA)
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
#else
    asm volatile("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
#endif
    double e = FMA64(-x * y, y, 1.0);
    return FMA64(y * e, FMA64(0.375, e, 0.5), y);
#else
    return RSQRT64(x);
#endif
}

// Scaled coordinates of bodies that are only there to fill a tile: so far out that their pull is zero, and so
// near that squares of distances are finite.
#define NOWHERE 1e18f
