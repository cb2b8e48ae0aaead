//! Registers and their scalars.

/// Largest number of lanes of any register. Arrays padded to a multiple of it fit every instruction
/// set.
pub const MAX_LANES: usize = 16;

/// A scalar: f32 or f64.
pub trait Real: Copy + Default + Send + Sync + 'static {
    /// The register type of this scalar: `S` for f32, `D` for f64.
    type Register<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>: Vector<Scalar = Self>;

    /// 2¹⁵ times the smallest normal number. Products of a number that is not below it with factors
    /// down to 2⁻¹⁵ are normal.
    const TINY: Self;

    /// Rounds to this type.
    fn from_f64(x: f64) -> Self;
    /// Converts to f64, without rounding.
    fn to_f64(self) -> f64;
}

impl Real for f32 {
    type Register<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>> = S;

    const TINY: Self = Self::from_bits(16 << 23);

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    type Register<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>> = D;

    const TINY: Self = Self::from_bits(16 << 52);

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}

/// A SIMD register: `LANES` numbers of type `Scalar`. All operations act lane by lane.
///
/// # Safety
/// The methods may compile to instructions of one instruction set. A value of such a type may only
/// be created inside a function that [`dispatch`](crate::dispatch) called for that set.
pub unsafe trait Vector: Copy {
    /// Type of one lane.
    type Scalar: Real;
    /// Lanes of a register.
    const LANES: usize;
    /// Terms of the binomial series that correct [`Vector::rsqrt_estimate`] to full precision.
    const RSQRT_TERMS: usize;

    /// Returns a register with `x` in all lanes.
    fn splat(x: Self::Scalar) -> Self;
    /// Loads the first `LANES` elements of `from`. Panics if there are fewer.
    fn load(from: &[Self::Scalar]) -> Self;
    /// Stores to the first `LANES` elements of `to`. Panics if there are fewer.
    fn store(self, to: &mut [Self::Scalar]);
    /// Stores to the first `LANES` elements of `to` without loading them into the cache.
    ///
    /// Panics if there are fewer elements, or if the first one is not aligned to the size of the
    /// register. Other threads see the values when [`dispatch`](crate::dispatch) has returned.
    fn store_streaming(self, to: &mut [Self::Scalar]);
    /// Returns self + other.
    fn add(self, other: Self) -> Self;
    /// Returns self − other.
    fn sub(self, other: Self) -> Self;
    /// Returns self × other.
    fn mul(self, other: Self) -> Self;
    /// Returns self / other.
    fn div(self, other: Self) -> Self;
    /// Returns self × b + c, rounded once in every instruction set. The portable code is slow.
    fn fused_mul_add(self, b: Self, c: Self) -> Self;
    /// Returns self × b + c. The portable code rounds twice.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// Returns c − self × b.
    fn neg_mul_add(self, b: Self, c: Self) -> Self;
    /// Returns |self|.
    fn abs(self) -> Self;
    /// Returns the larger of self and other. Neither may be NaN.
    fn max(self, other: Self) -> Self;
    /// Estimates 1/√self. `RSQRT_TERMS` terms of the series correct its relative error.
    fn rsqrt_estimate(self) -> Self;
    /// Returns `self` where `a != b`, and zero where `a == b`.
    fn zero_where_equal(self, a: Self, b: Self) -> Self;
    /// Returns zero where |self| is below [`Real::TINY`], and `self` elsewhere, also where it is
    /// NaN. On x86, each operation on subnormal numbers takes more than 100 cycles. Values that are
    /// stored in this way do not become subnormal.
    fn zero_if_tiny(self) -> Self;
    /// Returns a mask whose bit k is set if lane k of `self` is greater than lane k of `other`.
    fn greater_mask(self, other: Self) -> u32;

    /// Adds `factor` times lane k to `sums[k]`, in f64.
    #[inline(always)]
    fn add_to_lane_sums(self, sums: &mut [f64; MAX_LANES], factor: f64) {
        let mut lanes = [Self::Scalar::default(); MAX_LANES];
        self.store(&mut lanes);
        for k in 0..Self::LANES {
            sums[k] += factor * lanes[k].to_f64();
        }
    }
}

/// A register of f32 with operations on 32-bit integers of as many lanes, for sums in fixed point.
///
/// # Safety
/// As for [`Vector`].
pub unsafe trait SingleVector: Vector<Scalar = f32> {
    /// A register of as many i32.
    type Integers: Copy;

    /// Returns integers that are all 0.
    fn no_integers() -> Self::Integers;
    /// Returns `own` minus the first `LANES` numbers of `others`, as f32. The differences wrap
    /// around and are then rounded. Panics if there are fewer numbers.
    fn difference(own: i32, others: &[i32]) -> Self;
    /// Returns `own` minus `others[indices[k]]` in lane k, like [`difference`](Self::difference).
    /// Panics if there are fewer than `LANES` indices.
    ///
    /// # Safety
    /// The first `LANES` indices must be below `others.len()`, which must be below 2³¹.
    unsafe fn gathered_difference(own: i32, others: &[i32], indices: &[u32]) -> Self;
    /// Returns the first `LANES` numbers of `others` minus `own`. The differences are rounded to
    /// f64 and then to f32. Panics if there are fewer numbers.
    fn from_differences(others: &[f64], own: f64) -> Self;
    /// Adds `self`, rounded to the nearest integers and halves to even ones. The sums wrap around.
    /// All lanes must be between -2³¹ and 2³¹.
    fn add_rounded(self, sums: Self::Integers) -> Self::Integers;
    /// Returns the sum of all lanes, which wraps around.
    fn sum_integers(sums: Self::Integers) -> i32;
    /// Returns `self` with zero in the lanes k whose bit k of `mask` is not set.
    fn keep_lanes(self, mask: u32) -> Self;
    /// Returns the square root, rounded correctly.
    fn sqrt(self) -> Self;

    /// Stores `first` + k for each set bit k of `mask` to the start of `to`, in increasing order.
    /// Returns their number. Other elements of `to` may change. `mask` has bits of lanes only.
    #[inline(always)]
    fn store_indices(first: u32, mut mask: u32, to: &mut [u32; MAX_LANES]) -> usize {
        let count = mask.count_ones() as usize;
        for slot in to.iter_mut().take(count) {
            *slot = first + mask.trailing_zeros();
            mask &= mask - 1;
        }
        count
    }
}

/// Adds the lane sums pairwise, always in the same order.
#[inline(always)]
pub fn sum_lanes(mut sums: [f64; MAX_LANES]) -> f64 {
    let mut width = MAX_LANES / 2;
    while width > 0 {
        for k in 0..width {
            sums[k] += sums[k + width];
        }
        width /= 2;
    }
    sums[0]
}
