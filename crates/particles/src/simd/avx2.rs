//! AVX2 with FMA.
#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::*;

use super::{Kernel, Vector};

/// Eight f32.
#[derive(Clone, Copy)]
pub struct F32s(__m256);

/// Four f64.
#[derive(Clone, Copy)]
pub struct F64s(__m256d);

/// # Safety
/// The machine must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub unsafe fn enter<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<F32s, F64s>()
}

macro_rules! avx2 {
    ($name:ident, $scalar:ty, $lanes:literal, $terms:literal, $load:ident, $store:ident, $set1:ident, $add:ident,
     $sub:ident, $mul:ident, $fmadd:ident, $fnmadd:ident, $andnot:ident, $max:ident, $cmp:ident, $and:ident, $movemask:ident,
     |$x:ident| $rsqrt:expr) => {
        // SAFETY: here and in each method, a value exists only inside `enter`, so the machine has AVX2 and FMA;
        // `load` and `store` check the slice's length first.
        unsafe impl Vector for $name {
            type Scalar = $scalar;
            const LANES: usize = $lanes;
            const RSQRT_TERMS: usize = $terms;

            #[inline(always)]
            fn splat(x: $scalar) -> Self {
                // SAFETY: see above.
                Self(unsafe { $set1(x) })
            }
            #[inline(always)]
            fn load(from: &[$scalar]) -> Self {
                assert!(from.len() >= $lanes);
                // SAFETY: see above.
                Self(unsafe { $load(from.as_ptr()) })
            }
            #[inline(always)]
            fn store(self, to: &mut [$scalar]) {
                assert!(to.len() >= $lanes);
                // SAFETY: see above.
                unsafe { $store(to.as_mut_ptr(), self.0) }
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $add(self.0, other.0) })
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $sub(self.0, other.0) })
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $mul(self.0, other.0) })
            }
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $fmadd(self.0, b.0, c.0) })
            }
            #[inline(always)]
            fn neg_mul_add(self, b: Self, c: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $fnmadd(self.0, b.0, c.0) })
            }
            #[inline(always)]
            fn abs(self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $andnot($set1(-0.0), self.0) })
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $max(self.0, other.0) })
            }
            #[inline(always)]
            fn rsqrt_estimate(self) -> Self {
                let $x = self.0;
                // SAFETY: see above.
                Self(unsafe { $rsqrt })
            }
            #[inline(always)]
            fn zero_where_equal(self, a: Self, b: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $and(self.0, $cmp::<_CMP_NEQ_UQ>(a.0, b.0)) })
            }
            #[inline(always)]
            fn greater_mask(self, other: Self) -> u32 {
                // SAFETY: see above.
                unsafe { $movemask($cmp::<_CMP_GT_OQ>(self.0, other.0)) as u32 }
            }
        }
    };
}

// vrsqrtps errs by at most 1.5 × 2⁻¹²: two terms of the series leave 1e-9.
avx2!(
    F32s,
    f32,
    8,
    2,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_add_ps,
    _mm256_sub_ps,
    _mm256_mul_ps,
    _mm256_fmadd_ps,
    _mm256_fnmadd_ps,
    _mm256_andnot_ps,
    _mm256_max_ps,
    _mm256_cmp_ps,
    _mm256_and_ps,
    _mm256_movemask_ps,
    |x| _mm256_rsqrt_ps(x)
);
// There is no estimate for f64, and one through f32 would lose its range: divide and root instead.
avx2!(
    F64s,
    f64,
    4,
    0,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_set1_pd,
    _mm256_add_pd,
    _mm256_sub_pd,
    _mm256_mul_pd,
    _mm256_fmadd_pd,
    _mm256_fnmadd_pd,
    _mm256_andnot_pd,
    _mm256_max_pd,
    _mm256_cmp_pd,
    _mm256_and_pd,
    _mm256_movemask_pd,
    |x| _mm256_div_pd(_mm256_set1_pd(1.0), _mm256_sqrt_pd(x))
);
