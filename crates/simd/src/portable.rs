//! Registers as plain arrays, which the compiler vectorises for the baseline of the target.

use crate::{Real, SingleVector, Vector};

/// Eight f32.
#[derive(Clone, Copy)]
pub struct F32s([f32; 8]);

/// Eight f64.
#[derive(Clone, Copy)]
pub struct F64s([f64; 8]);

macro_rules! portable {
    ($name:ident, $scalar:ty) => {
        impl $name {
            /// The fused multiply-add of all lanes. Where the baseline has no such instruction,
            /// these are eight calls of libm. In place they would be most of the code of a loop,
            /// and of the time to compile it.
            #[cfg_attr(all(target_arch = "x86_64", not(target_feature = "fma")), inline(never))]
            #[cfg_attr(not(all(target_arch = "x86_64", not(target_feature = "fma"))), inline(always))]
            fn fused(self, b: Self, c: Self) -> Self {
                Self(std::array::from_fn(|k| self.0[k].mul_add(b.0[k], c.0[k])))
            }
        }

        // SAFETY: the methods use plain arithmetic and no instruction set.
        unsafe impl Vector for $name {
            type Scalar = $scalar;
            const LANES: usize = 8;
            const RSQRT_TERMS: usize = 0;

            #[inline(always)]
            fn splat(x: $scalar) -> Self {
                Self([x; 8])
            }
            #[inline(always)]
            fn load(from: &[$scalar]) -> Self {
                let mut lanes = [0.0; 8];
                lanes.copy_from_slice(&from[..8]);
                Self(lanes)
            }
            #[inline(always)]
            fn store(self, to: &mut [$scalar]) {
                to[..8].copy_from_slice(&self.0);
            }
            #[inline(always)]
            fn store_streaming(self, to: &mut [$scalar]) {
                assert!(to.as_ptr().align_offset(size_of::<Self>()) == 0);
                self.store(to);
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|k| self.0[k] + other.0[k]))
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                Self(std::array::from_fn(|k| self.0[k] - other.0[k]))
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                Self(std::array::from_fn(|k| self.0[k] * other.0[k]))
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                Self(std::array::from_fn(|k| self.0[k] / other.0[k]))
            }
            #[inline(always)]
            fn fused_mul_add(self, b: Self, c: Self) -> Self {
                self.fused(b, c)
            }
            // Rounds twice: the baseline has no fused multiply-add, and a call of libm's would be
            // slow.
            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                Self(std::array::from_fn(|k| self.0[k] * b.0[k] + c.0[k]))
            }
            #[inline(always)]
            fn neg_mul_add(self, b: Self, c: Self) -> Self {
                Self(std::array::from_fn(|k| c.0[k] - self.0[k] * b.0[k]))
            }
            #[inline(always)]
            fn abs(self) -> Self {
                Self(self.0.map(<$scalar>::abs))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Self(std::array::from_fn(|k| if self.0[k] > other.0[k] { self.0[k] } else { other.0[k] }))
            }
            #[inline(always)]
            fn rsqrt_estimate(self) -> Self {
                Self(self.0.map(|x| 1.0 / x.sqrt()))
            }
            #[inline(always)]
            fn zero_where_equal(self, a: Self, b: Self) -> Self {
                Self(std::array::from_fn(|k| if a.0[k] == b.0[k] { 0.0 } else { self.0[k] }))
            }
            #[inline(always)]
            fn zero_if_tiny(self) -> Self {
                Self(self.0.map(|x| if x.abs() < Real::TINY { 0.0 } else { x }))
            }
            #[inline(always)]
            fn greater_mask(self, other: Self) -> u32 {
                (0..8).map(|k| u32::from(self.0[k] > other.0[k]) << k).sum()
            }
        }
    };
}

portable!(F32s, f32);
portable!(F64s, f64);

// SAFETY: the methods use plain arithmetic and no instruction set.
unsafe impl SingleVector for F32s {
    type Integers = [i32; 8];

    #[inline(always)]
    fn no_integers() -> Self::Integers {
        [0; 8]
    }
    #[inline(always)]
    fn difference(own: i32, others: &[i32]) -> Self {
        let others = &others[..8];
        Self(std::array::from_fn(|k| own.wrapping_sub(others[k]) as f32))
    }
    #[inline(always)]
    unsafe fn gathered_difference(own: i32, others: &[i32], indices: &[u32]) -> Self {
        let indices = &indices[..8];
        Self(std::array::from_fn(|k| own.wrapping_sub(others[indices[k] as usize]) as f32))
    }
    #[inline(always)]
    fn from_differences(others: &[f64], own: f64) -> Self {
        let others = &others[..8];
        Self(std::array::from_fn(|k| (others[k] - own) as f32))
    }
    #[inline(always)]
    fn add_rounded(self, sums: Self::Integers) -> Self::Integers {
        std::array::from_fn(|k| sums[k].wrapping_add(self.0[k].round_ties_even() as i32))
    }
    #[inline(always)]
    fn sum_integers(sums: Self::Integers) -> i32 {
        sums.into_iter().fold(0, i32::wrapping_add)
    }
    #[inline(always)]
    fn keep_lanes(self, mask: u32) -> Self {
        Self(std::array::from_fn(|k| if mask >> k & 1 == 1 { self.0[k] } else { 0.0 }))
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.map(f32::sqrt))
    }
}
