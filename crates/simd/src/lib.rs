//! SIMD registers behind one trait, and the choice of the instruction set at run time.
//!
//! An inner loop is written once, generic over [`Vector`]. [`dispatch`] compiles it for each
//! [`InstructionSet`] and calls the requested one, so one program uses the full width of every CPU.
//! The crate knows no physics and has no dependencies.
//!
//! Three rules:
//! - The loop and all functions that it calls are `#[inline(always)]` and contain no closures.
//!   Anything else is compiled without the instruction set, which gives the same result slowly.
//! - Arrays are padded to a multiple of [`MAX_LANES`], because a register has 4 to 16 lanes.
//! - The instruction set changes the last bits of a result. The estimates of the reciprocal square
//!   root differ, and the portable code has no fused multiply-add.
//!
//! For example, y ← a x + y for f32 and for f64:
//!
//! ```
//! use orrery_simd::{InstructionSet, MAX_LANES, Real, SimdKernel, SingleVector, Vector, dispatch};
//!
//! struct Axpy<'a, T> {
//!     a: T,
//!     x: &'a [T],
//!     y: &'a mut [T],
//! }
//!
//! impl<T: Real> SimdKernel for Axpy<'_, T> {
//!     type Output = ();
//!
//!     #[inline(always)]
//!     fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
//!         axpy::<T::Register<S, D>>(self.a, self.x, self.y);
//!     }
//! }
//!
//! #[inline(always)]
//! fn axpy<V: Vector>(a: V::Scalar, x: &[V::Scalar], y: &mut [V::Scalar]) {
//!     let a = V::splat(a);
//!     for (x, y) in x.chunks_exact(V::LANES).zip(y.chunks_exact_mut(V::LANES)) {
//!         a.mul_add(V::load(x), V::load(y)).store(y);
//!     }
//! }
//!
//! let (x, mut y) = ([3.0_f32; 2 * MAX_LANES], [1.0; 2 * MAX_LANES]);
//! dispatch(InstructionSet::best(), Axpy { a: 2.0, x: &x, y: &mut y });
//! assert_eq!(y, [7.0; 2 * MAX_LANES]);
//!
//! let (x, mut y) = ([3.0_f64; MAX_LANES], [1.0; MAX_LANES]);
//! dispatch(InstructionSet::Portable, Axpy { a: 2.0, x: &x, y: &mut y });
//! assert_eq!(y, [7.0; MAX_LANES]);
//! ```

mod dispatch;
mod memory;
mod portable;
mod vector;
mod x86;

pub use dispatch::{InstructionSet, SimdKernel, dispatch};
pub use memory::{AlignedVec, prefetch};
pub use vector::{MAX_LANES, Real, SingleVector, Vector, sum_lanes};

#[cfg(test)]
mod tests {
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
        expect(a.fused_mul_add(b, a), |a, b| a * b + a);
        expect(a.mul(b).div(a), |_, b| b);
        // (1 + 2⁻²⁰)² − (1 + 2⁻¹⁹) = 2⁻⁴⁰ in f32. A product that is rounded first gives 0.
        let bits = if size_of::<V::Scalar>() == 4 { 20 } else { 40 };
        let one_and = |power: i32| V::splat(V::Scalar::from_f64(1.0 + 2f64.powi(-power)));
        let minus_one = V::splat(V::Scalar::from_f64(-1.0));
        let remainder = one_and(bits).fused_mul_add(one_and(bits), minus_one.mul(one_and(bits - 1)));
        assert_eq!(lanes(remainder), vec![2f64.powi(-2 * bits); n]);
        expect(a.mul_add(b, a), |a, b| a * b + a);
        expect(a.neg_mul_add(b, a), |a, b| a - a * b);
        expect(b.abs(), |_, b| b.abs());
        expect(a.max(b), f64::max);
        expect(a.zero_where_equal(a.mul(b), b), |a, b| if a * b == b { 0.0 } else { a });
        check_tiny::<V>();
        let mut to = [V::Scalar::default(); 3 * MAX_LANES];
        let aligned = to.as_ptr().align_offset(size_of::<V>());
        a.store_streaming(&mut to[aligned..]);
        expect(V::load(&to[aligned..]), |a, _| a);
        let greater: u32 = (0..n).map(|k| u32::from(k as f64 + 1.0 > 3.0 - k as f64) << k).sum();
        assert_eq!(a.greater_mask(b), greater);
        let mut sums = [0.0; MAX_LANES];
        a.add_to_lane_sums(&mut sums, 1.0);
        a.add_to_lane_sums(&mut sums, 1.0);
        assert_eq!(sum_lanes(sums), (n * (n + 1)) as f64);
        // The next term of the series must be below the rounding error of the type. e is twice the
        // error of the estimate.
        let epsilon = if size_of::<V::Scalar>() == 4 { 6e-8 } else { 1.2e-16 };
        for (k, y) in lanes(a.rsqrt_estimate()).into_iter().enumerate() {
            let e = (1.0 - (k as f64 + 1.0) * y * y).abs();
            let next_term = e.powi(V::RSQRT_TERMS as i32 + 1);
            assert!(next_term < 8.0 * epsilon, "lane {k}: e = {e}, {} terms", V::RSQRT_TERMS);
        }
    }

    /// The largest number below the limit becomes zero, the limit itself does not.
    fn check_tiny<V: Vector>() {
        let tiny = V::Scalar::TINY.to_f64();
        let below =
            tiny * if size_of::<V::Scalar>() == 4 { 1.0 - 2f64.powi(-24) } else { 1.0 - 2f64.powi(-53) };
        let cases = [(tiny, tiny), (-tiny, -tiny), (below, 0.0), (-below, 0.0), (0.0, 0.0), (-0.0, 0.0)];
        let smallest =
            if size_of::<V::Scalar>() == 4 { f64::from(f32::from_bits(1)) } else { f64::from_bits(1) };
        let others =
            [(smallest, 0.0), (-smallest, 0.0), (1.0, 1.0), (-3e30, -3e30), (f64::INFINITY, f64::INFINITY)];
        for (value, expected) in cases.into_iter().chain(others) {
            let mut to = [V::Scalar::default(); MAX_LANES];
            V::splat(V::Scalar::from_f64(value)).zero_if_tiny().store(&mut to);
            let expected = V::Scalar::from_f64(expected).to_f64();
            assert_eq!(to[V::LANES - 1].to_f64().to_bits(), expected.to_bits(), "of {value:e}");
        }
        let mut to = [V::Scalar::default(); MAX_LANES];
        V::splat(V::Scalar::from_f64(f64::NAN)).zero_if_tiny().store(&mut to);
        assert!(to[..V::LANES].iter().all(|x| x.to_f64().is_nan()));
    }

    fn check_integers<S: SingleVector>() {
        let n = S::LANES;
        let lanes = |v: S| {
            let mut to = vec![0.0; 16];
            v.store(&mut to);
            to.truncate(n);
            to
        };
        // Differences wrap around: the largest minus the smallest number is -1.
        let mut others: Vec<i32> = (0..40).map(|k| 1000 * k - 7).collect();
        others[3] = i32::MIN;
        let expected = |own: i32, index: usize| own.wrapping_sub(others[index]) as f32;
        let found = lanes(S::difference(i32::MAX, &others));
        assert_eq!(found, (0..n).map(|k| expected(i32::MAX, k)).collect::<Vec<_>>());
        assert_eq!(found[3], -1.0);
        let indices: Vec<u32> = (0..16).map(|k| (7 * k + 3) % 40).collect();
        // SAFETY: all indices are below 40.
        let found = lanes(unsafe { S::gathered_difference(5, &others, &indices) });
        assert_eq!(found, (0..n).map(|k| expected(5, indices[k] as usize)).collect::<Vec<_>>());
        // The numbers are equal in f32, their differences are not.
        let close: Vec<f64> = (0..20).map(|k| 1.0 + f64::from(k) * 2f64.powi(-40)).collect();
        let found = lanes(S::from_differences(&close[1..], 1.0));
        assert_eq!(found, (0..n).map(|k| (k + 1) as f32 * 2f32.powi(-40)).collect::<Vec<_>>());
        // Halves are rounded to even numbers, for both signs.
        let halves: Vec<f32> = (0..16).map(|k| k as f32 - 7.5).collect();
        let rounded: i32 = halves[..n].iter().map(|x| x.round_ties_even() as i32).sum();
        let halves = S::load(&halves);
        let sums = halves.add_rounded(halves.add_rounded(S::no_integers()));
        assert_eq!(S::sum_integers(sums), 2 * rounded);
        let column: Vec<f32> = (0..16).map(|k| (k * k) as f32 + 0.25).collect();
        let values = S::load(&column);
        for mask in [0, 1, 0b1010_0110_1100_0101, u32::MAX] {
            let mask = mask & (u32::MAX >> (32 - S::LANES));
            let mut found = [0; MAX_LANES];
            let count = S::store_indices(7, mask, &mut found);
            let expected: Vec<u32> = (0..32).filter(|k| mask >> k & 1 == 1).map(|k| 7 + k).collect();
            assert_eq!(found[..count], expected, "{mask:b}");
        }
        let kept = lanes(values.keep_lanes(0b1010_0110_1100_0101));
        assert!(kept.iter().enumerate().all(|(k, &x)| x == f32::from(0xa6c5u16 >> k & 1) * column[k]));
        let roots = lanes(values.sqrt());
        assert!(roots.iter().zip(&column).all(|(root, x)| *root == x.sqrt()));
    }

    impl SimdKernel for EveryOperation {
        type Output = ();
        #[inline(always)]
        fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
            check_operations::<S>();
            check_operations::<D>();
            check_integers::<S>();
        }
    }

    #[test]
    fn operations_give_the_same_results_in_every_instruction_set() {
        for set in InstructionSet::available() {
            dispatch(set, EveryOperation);
        }
    }
}
