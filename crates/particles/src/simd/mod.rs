//! Registers of numbers, and the choice of instruction set at run time.
//!
//! A kernel is written once, generic over [`Vector`], every function of it `#[inline(always)]`; [`dispatch`]
//! compiles it for each instruction set and enters the one asked for. The choice changes the
//! last bits of a result: the square-root estimates differ, and the portable code does not fuse.

pub mod peak;
mod portable;
mod x86;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The most elements that any register holds; arrays padded to a multiple of it suit every set.
pub const MAX_LANES: usize = 16;

/// f32 or f64.
pub trait Real: Copy + Default + Send + Sync + 'static {
    /// The register type for it, of an instruction set's pair.
    type Register<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>: Vector<Scalar = Self>;

    /// Rounds.
    fn from_f64(x: f64) -> Self;
    /// Widens.
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

/// One register's worth of numbers.
///
/// # Safety
/// The methods may compile to instructions of one instruction set: a value of such a type may only be made
/// inside a function that [`dispatch`] entered for that set.
pub unsafe trait Vector: Copy {
    /// The element.
    type Scalar: Real;
    /// Elements in a register.
    const LANES: usize;
    /// Terms of the binomial series that take [`Vector::rsqrt_estimate`] to full precision.
    const RSQRT_TERMS: usize;

    /// All lanes `x`.
    fn splat(x: Self::Scalar) -> Self;
    /// The first `LANES` elements of `from`, which must have that many.
    fn load(from: &[Self::Scalar]) -> Self;
    /// Overwrites the first `LANES` elements of `to`, which must have that many.
    fn store(self, to: &mut [Self::Scalar]);
    /// Lanewise sum.
    fn add(self, other: Self) -> Self;
    /// Lanewise difference.
    fn sub(self, other: Self) -> Self;
    /// Lanewise product.
    fn mul(self, other: Self) -> Self;
    /// self * b + c.
    fn mul_add(self, b: Self, c: Self) -> Self;
    /// c - self * b.
    fn neg_mul_add(self, b: Self, c: Self) -> Self;
    /// Lanewise |x|.
    fn abs(self) -> Self;
    /// Lanewise maximum; the numbers are never NaN.
    fn max(self, other: Self) -> Self;
    /// 1/sqrt(x), to a relative error that `RSQRT_TERMS` terms of the series make up for.
    fn rsqrt_estimate(self) -> Self;
    /// `self` where `a != b`, zero elsewhere.
    fn zero_where_equal(self, a: Self, b: Self) -> Self;
    /// Bit k set where lane k of `self` is greater than that of `other`.
    fn greater_mask(self, other: Self) -> u32;

    /// Adds `factor` times each lane to its own f64 in `sums`.
    #[inline(always)]
    fn add_to_lane_sums(self, sums: &mut [f64; MAX_LANES], factor: f64) {
        let mut lanes = [Self::Scalar::default(); MAX_LANES];
        self.store(&mut lanes);
        for k in 0..Self::LANES {
            sums[k] += factor * lanes[k].to_f64();
        }
    }
}

/// The sum of lane sums, always in the same order.
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

/// A computation to be compiled for every instruction set.
pub trait SimdKernel {
    /// What it gives.
    type Output;
    /// Runs it on registers of type `S` (f32) and `D` (f64). Implementations are `#[inline(always)]`.
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) -> Self::Output;
}

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionSet {
    /// Whatever the compiler makes of plain loops.
    Portable,
    /// AVX2 with FMA: eight f32, four f64.
    Avx2,
    /// AVX-512 F and DQ: sixteen f32, eight f64.
    Avx512,
}

/// The widest instruction set that this process may use, as a number.
static LIMIT: AtomicU8 = AtomicU8::new(u8::MAX);

impl InstructionSet {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        }
    }

    /// The widest that this machine has, within the limit of this process.
    pub fn best() -> Self {
        let limit = match LIMIT.load(Ordering::Relaxed) {
            0 => Self::Portable,
            1 => Self::Avx2,
            _ => Self::Avx512,
        };
        Self::detected().min(limit)
    }

    /// Limits this process to `set` and narrower ones. The golden tests run on every instruction set with it.
    pub fn limit(set: Self) {
        LIMIT.store(set as u8, Ordering::Relaxed);
    }

    /// The widest that this machine has.
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

    /// All that this machine has, narrowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Portable, Self::Avx2, Self::Avx512].into_iter().filter(|&set| set <= Self::best())
    }
}

/// Runs `kernel` with instruction set `set`, or the best that this machine has where that is less.
#[inline]
pub fn dispatch<K: SimdKernel>(set: InstructionSet, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    match set.min(InstructionSet::best()) {
        // SAFETY: `best` found AVX-512 F and DQ on this machine.
        InstructionSet::Avx512 => return unsafe { x86::enter_avx512(kernel) },
        // SAFETY: `best` found AVX2 and FMA on this machine.
        InstructionSet::Avx2 => return unsafe { x86::enter_avx2(kernel) },
        InstructionSet::Portable => {}
    }
    kernel.run::<portable::F32s, portable::F64s>()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct EveryOperation;

    fn check<V: Vector>() {
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
        // The series' next term must be below the rounding of the type: e = 2 × the estimate's error.
        let (e_max, epsilon) = lanes(a.rsqrt_estimate())
            .iter()
            .enumerate()
            .map(|(k, y)| (1.0 - (k as f64 + 1.0) * y * y).abs())
            .fold((0.0, if size_of::<V::Scalar>() == 4 { 6e-8 } else { 1.2e-16 }), |(m, eps), e| {
                (f64::max(m, e), eps)
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
            check::<S>();
            check::<D>();
        }
    }

    #[test]
    fn every_instruction_set_computes_the_same() {
        for set in InstructionSet::available() {
            dispatch(set, EveryOperation);
        }
    }
}
