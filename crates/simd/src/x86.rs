//! Registers of AVX2 with FMA, and of AVX-512 (F and DQ).
#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::*;

use crate::{MAX_LANES, Real, SimdKernel, SingleVector, Vector};

/// Eight f32.
#[derive(Clone, Copy)]
pub struct Avx2F32(__m256);

/// Four f64.
#[derive(Clone, Copy)]
pub struct Avx2F64(__m256d);

/// Sixteen f32.
#[derive(Clone, Copy)]
pub struct Avx512F32(__m512);

/// Eight f64.
#[derive(Clone, Copy)]
pub struct Avx512F64(__m512d);

/// Runs a kernel with AVX2 registers. The fence orders streaming stores before later stores.
///
/// # Safety
/// The machine must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub unsafe fn run_with_avx2<K: SimdKernel>(kernel: K) -> K::Output {
    let output = kernel.run::<Avx2F32, Avx2F64>();
    _mm_sfence();
    output
}

/// Runs a kernel with AVX-512 registers. The fence orders streaming stores before later stores.
///
/// # Safety
/// The machine must have AVX-512 F and DQ.
#[target_feature(enable = "avx512f,avx512dq")]
pub unsafe fn run_with_avx512<K: SimdKernel>(kernel: K) -> K::Output {
    let output = kernel.run::<Avx512F32, Avx512F64>();
    _mm_sfence();
    output
}

macro_rules! vector {
    ($name:ident: [$scalar:ty; $lanes:literal], rsqrt terms $terms:literal,
     $load:ident $store:ident $stream:ident $set1:ident $add:ident $sub:ident $mul:ident $div:ident $fmadd:ident $fnmadd:ident $andnot:ident $max:ident,
     rsqrt |$x:ident| $rsqrt:expr,
     zero_where_equal |$v:ident, $a:ident, $b:ident| $zero_where_equal:expr,
     zero_if_tiny |$t:ident| $zero_if_tiny:expr,
     greater_mask |$p:ident, $q:ident| $greater_mask:expr) => {
        // SAFETY: here and in each method, a value exists only inside the `run_with` function of
        // its instruction set, so the machine has that set. `load` and `store` check the length of
        // the slice.
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
            fn store_streaming(self, to: &mut [$scalar]) {
                assert!(to.len() >= $lanes && to.as_ptr().align_offset(size_of::<Self>()) == 0);
                // SAFETY: see above. The slice is aligned, and `run_with` ends with a store fence.
                unsafe { $stream(to.as_mut_ptr(), self.0) }
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
            fn div(self, other: Self) -> Self {
                // SAFETY: see above.
                Self(unsafe { $div(self.0, other.0) })
            }
            #[inline(always)]
            fn fused_mul_add(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
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
                let ($v, $a, $b) = (self.0, a.0, b.0);
                // SAFETY: see above.
                Self(unsafe { $zero_where_equal })
            }
            #[inline(always)]
            fn zero_if_tiny(self) -> Self {
                let $t = self.0;
                // SAFETY: see above.
                Self(unsafe { $zero_if_tiny })
            }
            #[inline(always)]
            fn greater_mask(self, other: Self) -> u32 {
                let ($p, $q) = (self.0, other.0);
                // SAFETY: see above.
                unsafe { $greater_mask }
            }
        }
    };
}

// The relative error of vrsqrtps is at most 1.5 × 2⁻¹². With two terms of the series it is 1e-9.
vector!(
    Avx2F32: [f32; 8], rsqrt terms 2,
    _mm256_loadu_ps _mm256_storeu_ps _mm256_stream_ps _mm256_set1_ps _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_div_ps _mm256_fmadd_ps
    _mm256_fnmadd_ps _mm256_andnot_ps _mm256_max_ps,
    rsqrt |x| _mm256_rsqrt_ps(x),
    zero_where_equal |v, a, b| _mm256_and_ps(v, _mm256_cmp_ps::<_CMP_NEQ_UQ>(a, b)),
    zero_if_tiny |t| {
        let size = _mm256_andnot_ps(_mm256_set1_ps(-0.0), t);
        _mm256_and_ps(t, _mm256_cmp_ps::<_CMP_NLT_UQ>(size, _mm256_set1_ps(f32::TINY)))
    },
    greater_mask |p, q| _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(p, q)) as u32
);
// AVX2 has no estimate for f64, and one in f32 would lose its range. Division and square root
// replace it.
vector!(
    Avx2F64: [f64; 4], rsqrt terms 0,
    _mm256_loadu_pd _mm256_storeu_pd _mm256_stream_pd _mm256_set1_pd _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_div_pd _mm256_fmadd_pd
    _mm256_fnmadd_pd _mm256_andnot_pd _mm256_max_pd,
    rsqrt |x| _mm256_div_pd(_mm256_set1_pd(1.0), _mm256_sqrt_pd(x)),
    zero_where_equal |v, a, b| _mm256_and_pd(v, _mm256_cmp_pd::<_CMP_NEQ_UQ>(a, b)),
    zero_if_tiny |t| {
        let size = _mm256_andnot_pd(_mm256_set1_pd(-0.0), t);
        _mm256_and_pd(t, _mm256_cmp_pd::<_CMP_NLT_UQ>(size, _mm256_set1_pd(f64::TINY)))
    },
    greater_mask |p, q| _mm256_movemask_pd(_mm256_cmp_pd::<_CMP_GT_OQ>(p, q)) as u32
);
// The relative error of vrsqrt14 is at most 2⁻¹⁴. It is 3e-8 with one term of the series in f32,
// and 5e-16 with three terms in f64.
vector!(
    Avx512F32: [f32; 16], rsqrt terms 1,
    _mm512_loadu_ps _mm512_storeu_ps _mm512_stream_ps _mm512_set1_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_div_ps _mm512_fmadd_ps
    _mm512_fnmadd_ps _mm512_andnot_ps _mm512_max_ps,
    rsqrt |x| _mm512_rsqrt14_ps(x),
    zero_where_equal |v, a, b| _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(a, b), v),
    // Below TINY, these bits of the exponent are zero.
    zero_if_tiny |t| _mm512_maskz_mov_ps(_mm512_test_epi32_mask(_mm512_castps_si512(t), _mm512_set1_epi32(0x7800_0000)), t),
    greater_mask |p, q| u32::from(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(p, q))
);
vector!(
    Avx512F64: [f64; 8], rsqrt terms 3,
    _mm512_loadu_pd _mm512_storeu_pd _mm512_stream_pd _mm512_set1_pd _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_div_pd _mm512_fmadd_pd
    _mm512_fnmadd_pd _mm512_andnot_pd _mm512_max_pd,
    rsqrt |x| _mm512_rsqrt14_pd(x),
    zero_where_equal |v, a, b| _mm512_maskz_mov_pd(_mm512_cmp_pd_mask::<_CMP_NEQ_UQ>(a, b), v),
    // Below TINY, these bits of the exponent are zero.
    zero_if_tiny |t| _mm512_maskz_mov_pd(_mm512_test_epi64_mask(_mm512_castpd_si512(t), _mm512_set1_epi64(0x7F00_0000_0000_0000)), t),
    greater_mask |p, q| u32::from(_mm512_cmp_pd_mask::<_CMP_GT_OQ>(p, q))
);

// SAFETY: here and in each method, a value exists only inside `run_with_avx2`, so the machine has
// AVX2. Slices are checked for their length.
unsafe impl SingleVector for Avx2F32 {
    type Integers = __m256i;

    #[inline(always)]
    fn no_integers() -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    fn difference(own: i32, others: &[i32]) -> Self {
        assert!(others.len() >= 8);
        // SAFETY: see above.
        unsafe {
            let others = _mm256_loadu_si256(others.as_ptr().cast());
            Self(_mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_set1_epi32(own), others)))
        }
    }
    #[inline(always)]
    unsafe fn gathered_difference(own: i32, others: &[i32], indices: &[u32]) -> Self {
        assert!(indices.len() >= 8);
        // SAFETY: see above. The caller guarantees that all indices are within `others`.
        unsafe {
            let indices = _mm256_loadu_si256(indices.as_ptr().cast());
            let others = _mm256_i32gather_epi32::<4>(others.as_ptr(), indices);
            Self(_mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_set1_epi32(own), others)))
        }
    }
    #[inline(always)]
    fn from_differences(others: &[f64], own: f64) -> Self {
        assert!(others.len() >= 8);
        // SAFETY: see above.
        unsafe {
            let own = _mm256_set1_pd(own);
            let low = _mm256_sub_pd(_mm256_loadu_pd(others.as_ptr()), own);
            let high = _mm256_sub_pd(_mm256_loadu_pd(others.as_ptr().add(4)), own);
            Self(_mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low)))
        }
    }
    #[inline(always)]
    fn add_rounded(self, sums: __m256i) -> __m256i {
        // SAFETY: see above.
        unsafe { _mm256_add_epi32(sums, _mm256_cvtps_epi32(self.0)) }
    }
    #[inline(always)]
    fn sum_integers(sums: __m256i) -> i32 {
        let mut lanes = [0i32; 8];
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums) };
        lanes.into_iter().fold(0, i32::wrapping_add)
    }
    #[inline(always)]
    fn keep_lanes(self, mask: u32) -> Self {
        // SAFETY: see above.
        unsafe {
            let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let found = _mm256_and_si256(_mm256_set1_epi32(mask as i32), bits);
            Self(_mm256_and_ps(self.0, _mm256_castsi256_ps(_mm256_cmpeq_epi32(found, bits))))
        }
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_sqrt_ps(self.0) })
    }
}

// SAFETY: here and in each method, a value exists only inside `run_with_avx512`, so the machine has
// AVX-512 F. Slices are checked for their length.
unsafe impl SingleVector for Avx512F32 {
    type Integers = __m512i;

    #[inline(always)]
    fn no_integers() -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    fn difference(own: i32, others: &[i32]) -> Self {
        assert!(others.len() >= 16);
        // SAFETY: see above.
        unsafe {
            let others = _mm512_loadu_si512(others.as_ptr().cast());
            Self(_mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_set1_epi32(own), others)))
        }
    }
    #[inline(always)]
    unsafe fn gathered_difference(own: i32, others: &[i32], indices: &[u32]) -> Self {
        assert!(indices.len() >= 16);
        // SAFETY: see above. The caller guarantees that all indices are within `others`.
        unsafe {
            let indices = _mm512_loadu_si512(indices.as_ptr().cast());
            let others = _mm512_i32gather_epi32::<4>(indices, others.as_ptr());
            Self(_mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_set1_epi32(own), others)))
        }
    }
    #[inline(always)]
    fn from_differences(others: &[f64], own: f64) -> Self {
        assert!(others.len() >= 16);
        // SAFETY: see above.
        unsafe {
            let own = _mm512_set1_pd(own);
            let low = _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_loadu_pd(others.as_ptr()), own));
            let high = _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_loadu_pd(others.as_ptr().add(8)), own));
            Self(_mm512_insertf32x8::<1>(_mm512_castps256_ps512(low), high))
        }
    }
    #[inline(always)]
    fn add_rounded(self, sums: __m512i) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_add_epi32(sums, _mm512_cvtps_epi32(self.0)) }
    }
    #[inline(always)]
    fn sum_integers(sums: __m512i) -> i32 {
        // SAFETY: see above.
        unsafe { _mm512_reduce_add_epi32(sums) }
    }
    #[inline(always)]
    fn keep_lanes(self, mask: u32) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_maskz_mov_ps(mask as u16, self.0) })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_sqrt_ps(self.0) })
    }
    #[inline(always)]
    fn store_indices(first: u32, mask: u32, to: &mut [u32; MAX_LANES]) -> usize {
        // SAFETY: see above. `to` has room for all lanes.
        unsafe {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let indices = _mm512_add_epi32(_mm512_set1_epi32(first as i32), lanes);
            let found = _mm512_maskz_compress_epi32(mask as u16, indices);
            _mm512_storeu_si512(to.as_mut_ptr().cast(), found);
        }
        mask.count_ones() as usize
    }
}
