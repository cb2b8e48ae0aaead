//! Sums of energies, virials and momenta in fixed point.
//!
//! A term x, in units of the sum, is rounded to a multiple of 2^-32 and divided into two integers:
//! x ≈ whole + 2^-32 rest, with |rest| ≤ 2^31. A sum of integers does not depend on its order. With
//! 64 bits for each, 2^26 terms of up to 2^36 units fit. One word of 64 bits holds 2^31 units,
//! which the kinetic energy of 4,000,000 helium atoms at 10,000 K exceeds.

/// Bits below the unit of a sum.
pub const FRACTION_BITS: i32 = 32;
/// Largest term, and largest sum over the pairs of one particle, in units of the sum. A larger one
/// is counted and replaced by this one. `particles.cu` has the same value.
pub const LARGEST_TERM: f64 = 68_719_476_736.0;
/// 2^[`FRACTION_BITS`].
const FRACTIONS: f64 = 4_294_967_296.0;

/// A sum as a message.
pub type SumWords = [i64; 3];

/// A sum in fixed point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WideSum {
    /// Multiples of the unit.
    pub whole: i64,
    /// Multiples of 2^-32 units.
    pub rest: i64,
    /// Number of terms that were too large, or NaN.
    pub large_terms: i64,
}

impl WideSum {
    /// Returns the sum that consists of one term.
    #[inline(always)]
    pub fn of(term: f64) -> Self {
        // NaN is too large as well.
        let fits = term.abs() < LARGEST_TERM;
        let term = if fits { term } else { LARGEST_TERM };
        let whole = term.round_ties_even();
        // The difference is exact.
        let rest = ((term - whole) * FRACTIONS).round_ties_even();
        Self { whole: whole as i64, rest: rest as i64, large_terms: i64::from(!fits) }
    }

    /// Returns the sum of both.
    #[inline(always)]
    pub fn plus(self, other: Self) -> Self {
        Self {
            whole: self.whole.wrapping_add(other.whole),
            rest: self.rest.wrapping_add(other.rest),
            large_terms: self.large_terms.wrapping_add(other.large_terms),
        }
    }

    /// Returns the same sum with 0 ≤ `rest` < 2^32.
    #[inline(always)]
    fn carried(self) -> Self {
        Self {
            whole: self.whole.wrapping_add(self.rest >> FRACTION_BITS),
            rest: self.rest & (FRACTIONS as i64 - 1),
            ..self
        }
    }

    /// Returns a sum over the pairs of one particle, such that sums over particles fit.
    #[inline(always)]
    pub fn bounded(self) -> Self {
        let carried = self.carried();
        if carried.whole.unsigned_abs() < LARGEST_TERM as u64 {
            return carried;
        }
        Self { whole: LARGEST_TERM as i64, rest: 0, large_terms: self.large_terms + 1 }
    }

    /// Returns the value in units, with too large terms as they were replaced. `step.cu` has the
    /// same operations.
    pub fn bounded_value(self) -> f64 {
        let Self { whole, rest, .. } = self.carried();
        (whole as f64).mul_add(FRACTIONS, rest as f64) * 2f64.powi(-FRACTION_BITS)
    }

    /// Returns the value in units, infinite if a term was too large.
    pub fn value(self) -> f64 {
        if self.large_terms == 0 { self.bounded_value() } else { f64::INFINITY }
    }
}

impl From<WideSum> for SumWords {
    fn from(WideSum { whole, rest, large_terms }: WideSum) -> Self {
        [whole, rest, large_terms]
    }
}

impl From<SumWords> for WideSum {
    fn from([whole, rest, large_terms]: SumWords) -> Self {
        Self { whole, rest, large_terms }
    }
}

/// Sums over particles: potential energy, virial, kinetic energy and momentum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasureSums {
    /// Potential energy.
    pub potential: WideSum,
    /// Virial.
    pub virial: WideSum,
    /// Kinetic energy.
    pub kinetic: WideSum,
    /// Components of the momentum.
    pub momentum: [WideSum; 3],
}

impl MeasureSums {
    /// Number of sums.
    pub const COUNT: usize = 6;

    /// Returns the sums as messages.
    pub fn to_words(self) -> [SumWords; Self::COUNT] {
        let [x, y, z] = self.momentum;
        [self.potential, self.virial, self.kinetic, x, y, z].map(SumWords::from)
    }

    /// Returns the sums of messages.
    pub fn from_words(words: [SumWords; Self::COUNT]) -> Self {
        let [potential, virial, kinetic, x, y, z] = words.map(WideSum::from);
        Self { potential, virial, kinetic, momentum: [x, y, z] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a term is the term, rounded to a multiple of 2^-32.
    #[test]
    fn terms_are_rounded_once() {
        for term in [0.0, 1.0, -0.25, 3.0625000123, -1e-7, 2f64.powi(35) + 0.3, -12345.678e5, 0.5, 1.5, -2.5]
        {
            let expected = (term * FRACTIONS).round_ties_even() / FRACTIONS;
            assert_eq!(WideSum::of(term).value(), expected, "{term}");
        }
        let half_a_bit = 2f64.powi(-33);
        assert_eq!(WideSum::of(half_a_bit).value(), 0.0);
        assert_eq!(WideSum::of(3.0 * half_a_bit).value(), 4.0 * half_a_bit);
    }

    /// A sum of 64 bits with 32 bits below the unit ends at 2^31 units.
    #[test]
    fn sums_exceed_64_bits() {
        let term = 2f64.powi(30) + 0.75;
        let mut sum = WideSum::default();
        (0..1000).for_each(|_| sum = sum.plus(WideSum::of(term)));
        assert_eq!(sum.value(), 1000.0 * term);
        (0..1000).for_each(|_| sum = sum.plus(WideSum::of(-term)));
        assert_eq!(sum, WideSum::default());
    }

    #[test]
    fn too_large_terms_make_a_sum_infinite() {
        for term in [LARGEST_TERM, -1e300, f64::NAN, f64::NEG_INFINITY] {
            let sum = WideSum::of(1.0).plus(WideSum::of(term));
            assert_eq!((sum.value(), sum.bounded_value()), (f64::INFINITY, LARGEST_TERM + 1.0), "{term}");
            assert_eq!(WideSum::from(SumWords::from(sum)), sum);
        }
        let largest = WideSum::of(LARGEST_TERM - 1.0);
        assert_eq!(largest.value(), LARGEST_TERM - 1.0);
        assert_eq!(largest.bounded(), largest);
        let negative = WideSum::of(-0.75);
        assert_eq!((negative.bounded().value(), negative.bounded().rest), (-0.75, 1 << 30));
        assert_eq!(largest.plus(largest).bounded().value(), f64::INFINITY);
    }
}
