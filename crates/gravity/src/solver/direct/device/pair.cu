// Reciprocal square roots and the padding position of the all-pairs kernels.

// 1/sqrt(x) in f32, within 2 ulp, with denormals as zero. One instruction where the device has one.
#if defined(ON_CUDA)
#define RSQRT_APPROX(x) RSQRT(x)
#elif defined(__NV_CL_C_VERSION)
#define RSQRT_APPROX(x) native_rsqrt((float)(x))
#else
#define RSQRT_APPROX(x) RSQRT(x)
#endif

// Returns 1/sqrt(x) in f64, to about one ulp. NVIDIA's estimate y has about 20 correct bits. With
// e = 1 - x y², the correction y (1 + e/2 + 3/8 e²) triples that number.
FUNCTION double rsqrt64(double x)
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

// Returns the softened squared distance dx² + dy² + dz² + eps².
FUNCTION float softened_r2(float dx, float dy, float dz, float eps2)
{
    return FMA(dx, dx, FMA(dy, dy, FMA(dz, dz, eps2)));
}

// Returns r2^(-3/2).
FUNCTION float inverse_cube(float r2)
{
    const float inv_r = RSQRT_APPROX(r2);
    return inv_r * (inv_r * inv_r);
}

// Scaled coordinates of the massless bodies that fill up a tile. They are so far out that their
// force is zero, and so near that squared distances are finite.
#define PADDING_COORDINATE 1e18f
