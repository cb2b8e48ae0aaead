//! AVX-512, foundation and DQ.
#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::*;

use super::{Kernel, Vector};

/// Sixteen f32.
#[derive(Clone, Copy)]
pub struct F32s(__m512);

/// Eight f64.
#[derive(Clone, Copy)]
pub struct F64s(__m512d);

/// # Safety
/// The machine must have AVX-512 F and DQ.
#[target_feature(enable = "avx512f,avx512dq")]
pub unsafe fn enter<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<F32s, F64s>()
}

macro_rules! avx512 {
    ($name:ident, $scalar:ty, $lanes:literal, $terms:literal, $load:ident, $store:ident, $set1:ident, $add:ident,
     $sub:ident, $mul:ident, $fmadd:ident, $fnmadd:ident, $andnot:ident, $max:ident, $cmp:ident, $maskz_mov:ident,
     |$x:ident| $rsqrt:expr) => {
        // SAFETY: here and in each method, a value exists only inside `enter`, so the machine has AVX-512 F and DQ;
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
                Self(unsafe { $maskz_mov($cmp::<_CMP_NEQ_UQ>(a.0, b.0), self.0) })
            }
            #[inline(always)]
            fn greater_mask(self, other: Self) -> u32 {
                // SAFETY: see above.
                u32::from(unsafe { $cmp::<_CMP_GT_OQ>(self.0, other.0) })
            }
        }
    };
}

// vrsqrt14 errs by at most 2⁻¹⁴: one term leaves 3e-8 in f32, three leave 5e-16 in f64.
avx512!(
    F32s,
    f32,
    16,
    1,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_mul_ps,
    _mm512_fmadd_ps,
    _mm512_fnmadd_ps,
    _mm512_andnot_ps,
    _mm512_max_ps,
    _mm512_cmp_ps_mask,
    _mm512_maskz_mov_ps,
    |x| _mm512_rsqrt14_ps(x)
);
avx512!(
    F64s,
    f64,
    8,
    3,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_set1_pd,
    _mm512_add_pd,
    _mm512_sub_pd,
    _mm512_mul_pd,
    _mm512_fmadd_pd,
    _mm512_fnmadd_pd,
    _mm512_andnot_pd,
    _mm512_max_pd,
    _mm512_cmp_pd_mask,
    _mm512_maskz_mov_pd,
    |x| _mm512_rsqrt14_pd(x)
);
