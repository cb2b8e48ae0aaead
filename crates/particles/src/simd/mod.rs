//! SIMD registers, and the choice of the instruction set at run time.
//!
//! A kernel is written once, generic over [`Vector`], and all of its functions are
//! `#[inline(always)]`. [`dispatch`] instantiates it for each instruction set and calls the
//! requested instance. The choice changes the last bits of a result: the estimates of the
//! reciprocal square root differ, and the portable code has no fused multiply-add.
//!
//! For example, a kernel that computes 2 x + 1 in every lane:
//!
//! ```
//! use orrery_particles::simd::{InstructionSet, SimdKernel, Vector, dispatch};
//!
//! struct DoublePlusOne<'a>(&'a mut [f32]);
//!
//! impl SimdKernel for DoublePlusOne<'_> {
//!     type Output = ();
//!
//!     #[inline(always)]
//!     fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
//!         for chunk in self.0.chunks_exact_mut(S::LANES) {
//!             S::load(chunk).mul_add(S::splat(2.0), S::splat(1.0)).store(chunk);
//!         }
//!     }
//! }
//!
//! let mut values = [3.0; 32];
//! dispatch(InstructionSet::best(), DoublePlusOne(&mut values));
//! assert_eq!(values, [7.0; 32]);
//! ```

pub mod peak;
mod portable;
mod x86;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Largest number of lanes of any register. Arrays padded to a multiple of it fit every instruction
/// set.
pub const MAX_LANES: usize = 16;

/// A scalar: f32 or f64.
pub trait Real: Copy + Default + Send + Sync + 'static {
    /// The register type of this scalar: `S` for f32, `D` for f64.
    type Register<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>: Vector<Scalar = Self>;

    /// Rounds to this type.
    fn from_f64(x: f64) -> Self;
    /// Converts to f64, without rounding.
    fn to_f64(self) -> f64;
}

impl Real for f32 {
    type Register<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>> = S;

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
/// be created inside a function that [`dispatch`] called for that set.
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
    /// Returns self + other.
    fn add(self, other: Self) -> Self;
    /// Returns self − other.
    fn sub(self, other: Self) -> Self;
    /// Returns self × other.
    fn mul(self, other: Self) -> Self;
    /// Returns self × b + c.
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

/// A computation that is compiled for every instruction set.
pub trait SimdKernel {
    /// Result of the computation.
    type Output;
    /// Runs the computation with registers `S` (f32) and `D` (f64). Implementations must be
    /// `#[inline(always)]`, or they are compiled without the instruction set.
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) -> Self::Output;
}

/// A SIMD instruction set. Wider sets compare greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionSet {
    /// Plain loops, compiled for the baseline of the target.
    Portable,
    /// AVX2 with FMA: eight f32, four f64.
    Avx2,
    /// AVX-512 F and DQ: sixteen f32, eight f64.
    Avx512,
}

/// Widest instruction set that this process may use, as its discriminant.
static LIMIT: AtomicU8 = AtomicU8::new(u8::MAX);

impl InstructionSet {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        }
    }

    /// Returns the widest instruction set of this machine, within the limit of this process.
    pub fn best() -> Self {
        let limit = match LIMIT.load(Ordering::Relaxed) {
            0 => Self::Portable,
            1 => Self::Avx2,
            _ => Self::Avx512,
        };
        Self::detected().min(limit)
    }

    /// Limits this process to `set` and narrower instruction sets. The golden tests use it to run
    /// on every instruction set.
    pub fn limit_to(set: Self) {
        LIMIT.store(set as u8, Ordering::Relaxed);
    }

    /// Returns the widest instruction set of this machine.
    fn detected() -> Self {
        static DETECTED: OnceLock<InstructionSet> = OnceLock::new();
        *DETECTED.get_or_init(|| {
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
                    return if wide { Self::Avx512 } else { Self::Avx2 };
                }
            }
            Self::Portable
        })
    }

    /// Returns all instruction sets of this machine, narrowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Portable, Self::Avx2, Self::Avx512].into_iter().filter(|&set| set <= Self::best())
    }
}

/// Runs `kernel` with the instruction set `set`, or with the widest one of this machine if that is
/// narrower.
#[inline]
pub fn dispatch<K: SimdKernel>(set: InstructionSet, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match set.min(InstructionSet::best()) {
        // SAFETY: `best` found AVX-512 F and DQ on this machine.
        InstructionSet::Avx512 => return unsafe { x86::run_with_avx512(kernel) },
        // SAFETY: `best` found AVX2 and FMA on this machine.
        InstructionSet::Avx2 => return unsafe { x86::run_with_avx2(kernel) },
        InstructionSet::Portable => {}
    }
    kernel.run::<portable::F32s, portable::F64s>()
}

#[cfg(test)]
mod tests {
    use orrery_model::analysis::max_or_nan;

    use super::*;

    struct EveryOperation;

    fn check_operations<V: Vector>() {
        let n = V::LANES;
        let column =
            |f: fn(f64) -> f64| (0..16).map(|k| V::Scalar::from_f64(f(k as f64))).collect::<Vec<_>>();
        let (a, b) = (V::load(&column(|k| k + 1.0)), V::load(&column(|k| 3.0 - k)));
        let lanes = |v: V| {
            let mut to = vec![V::Scalar::default(); 16];
            v.store(&mut to);
            to[..n].iter().map(|x| x.to_f64()).collect::<Vec<_>>()
        };
        let expect = |v: V, f: fn(f64, f64) -> f64| {
            let expected: Vec<f64> = (0..n).map(|k| f(k as f64 + 1.0, 3.0 - k as f64)).collect();
            assert_eq!(lanes(v), expected);
        };
        expect(a.add(b), |a, b| a + b);
        expect(a.sub(b), |a, b| a - b);
        expect(a.mul(b), |a, b| a * b);
        expect(a.mul_add(b, a), |a, b| a * b + a);
        expect(a.neg_mul_add(b, a), |a, b| a - a * b);
        expect(b.abs(), |_, b| b.abs());
        expect(a.max(b), f64::max);
        expect(a.zero_where_equal(a.mul(b), b), |a, b| if a * b == b { 0.0 } else { a });
        let greater: u32 = (0..n).map(|k| u32::from(k as f64 + 1.0 > 3.0 - k as f64) << k).sum();
        assert_eq!(a.greater_mask(b), greater);
        let mut sums = [0.0; MAX_LANES];
        a.add_to_lane_sums(&mut sums, 1.0);
        a.add_to_lane_sums(&mut sums, 1.0);
        assert_eq!(sum_lanes(sums), (n * (n + 1)) as f64);
        // The next term of the series must be below the rounding error of the type. e is twice the
        // error of the estimate.
        let (e_max, epsilon) = lanes(a.rsqrt_estimate())
            .iter()
            .enumerate()
            .map(|(k, y)| (1.0 - (k as f64 + 1.0) * y * y).abs())
            .fold((0.0, if size_of::<V::Scalar>() == 4 { 6e-8 } else { 1.2e-16 }), |(m, eps), e| {
                (max_or_nan(m, e), eps)
            });
        assert!(
            e_max.powi(V::RSQRT_TERMS as i32 + 1) < 8.0 * epsilon,
            "e = {e_max}, {} terms",
            V::RSQRT_TERMS
        );
    }

    impl SimdKernel for EveryOperation {
        type Output = ();
        #[inline(always)]
        fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
            check_operations::<S>();
            check_operations::<D>();
        }
    }

    #[test]
    fn operations_give_the_same_results_in_every_instruction_set() {
        for set in InstructionSet::available() {
            dispatch(set, EveryOperation);
        }
    }
}
