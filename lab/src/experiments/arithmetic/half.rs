//! Operations on f16: one number, or two numbers in one register.
//!
//! An f16 has a sign, 5 bits of the exponent and 10 bits of the mantissa. On the host it is a u16.

use orrery_device::Math;

use super::ulp::larger_error;
use super::{ArithmeticOperation, CodeSize, ExecutionUnit};

/// Bits of 1 and 2^-6 as f16.
const ONE: u16 = 0x3c00;
const SMALL: u16 = 0x2400;
/// Bits of 1 - 2^-6 and 2^-5. With them, x b + c approaches 2 slowly, so that a missing step shows.
const SLOW_FMA: [u16; 2] = [0x3be0, 0x2800];

/// Returns the value of an f16. Infinities and NaN do not occur in chains and have no meaning.
pub fn to_f64(bits: u16) -> f64 {
    let exponent = i32::from(bits >> 10 & 31);
    let mantissa = f64::from(bits & 1023);
    let size = match exponent {
        0 => mantissa * 2.0f64.powi(-24),
        _ => (1024.0 + mantissa) * 2.0f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Rounds to the nearest f16, and halves to the even one. The value must be below 65,504.
pub fn from_f64(value: f64) -> u16 {
    let size = value.abs();
    // Smallest normal exponent, or that of the value. The unit of the last place is 2^(e - 10).
    let exponent = ((size.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(-14);
    let units = (size * 2.0f64.powi(10 - exponent)).round_ties_even() as u32;
    // Normal numbers have 1024 units or more, which adds 1 to the exponent of denormal ones. A
    // mantissa that was rounded up to 2048 adds another 1.
    let bits = ((exponent + 14) as u32 * 1024 + units) as u16;
    if value.is_sign_negative() { bits | 0x8000 } else { bits }
}

/// Returns x b + c, rounded once: products of f16 and such sums are exact in f64.
fn fma(x: u16, b: u16, c: u16) -> u16 {
    from_f64(to_f64(x) * to_f64(b) + to_f64(c))
}

/// Returns the error of an f16 in units of the last place of the exact result.
fn error_of_f16(found: u16, exact: f64) -> f64 {
    let exponent = ((exact.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(-14);
    (to_f64(found) - exact).abs() / 2.0f64.powi(exponent - 10)
}

fn fma_error(x: u16, b: u16, c: u16, found: u16) -> f64 {
    error_of_f16(found, to_f64(x) * to_f64(b) + to_f64(c))
}

fn sum_error(x: u16, b: u16, _: u16, found: u16) -> f64 {
    error_of_f16(found, to_f64(x) + to_f64(b))
}

/// Returns the larger one of the errors of both f16 of a result.
fn error_of_pair(numbers: [u32; 3], found: u32, error: fn(u16, u16, u16, u16) -> f64) -> f64 {
    let [low, high] = [0, 16].map(|shift| {
        let [x, b, c] = numbers.map(|number| (number >> shift) as u16);
        error(x, b, c, (found >> shift) as u16)
    });
    larger_error(low, high)
}

/// Applies `apply` to both f16 of each number.
fn apply_to_pairs(numbers: [u32; 3], apply: fn(u16, u16, u16) -> u16) -> u32 {
    let [low, high] = [0, 16].map(|shift| {
        let [x, b, c] = numbers.map(|number| (number >> shift) as u16);
        u32::from(apply(x, b, c))
    });
    low | high << 16
}

/// Returns two equal f16 in one number.
fn pair(bits: u16) -> u32 {
    u32::from(bits) << 16 | u32::from(bits)
}

/// Returns an f16 between 1 and 2.
fn random_f16(u: f64) -> u16 {
    ONE + (u * 1024.0) as u16
}

/// Returns the FMA of single f16.
pub fn scalar() -> ArithmeticOperation<u16> {
    ArithmeticOperation {
        name: "f16 FMA",
        formula: "x b + c",
        code: "MULTIPLY_ADD_F16",
        has_other_operations: false,
        math: Math::Precise,
        count: 1.0,
        flops: Some(2.0),
        size: CodeSize::Small,
        unit: Some(ExecutionUnit::Half),
        uses_f16: true,
        operands: SLOW_FMA,
        start: random_f16,
        apply: fma,
        limits: [0.0; 2],
        arguments: |u| u.map(random_f16),
        error: Some(|[x, b, c], found| fma_error(x, b, c, found)),
    }
}

/// Returns FMA and sum of two f16 per register.
pub fn pairs() -> [ArithmeticOperation<u32>; 2] {
    let multiply_add = ArithmeticOperation {
        name: "two f16 FMA",
        formula: "x b + c, twice",
        code: "MULTIPLY_ADD_F16X2",
        has_other_operations: false,
        math: Math::Precise,
        count: 2.0,
        flops: Some(2.0),
        size: CodeSize::Small,
        unit: Some(ExecutionUnit::Half),
        uses_f16: true,
        operands: SLOW_FMA.map(pair),
        // Different numbers in both halves, so that exchanged halves are found.
        start: |u| pair(random_f16(u)) ^ 0x0155,
        apply: |x, b, c| apply_to_pairs([x, b, c], fma),
        limits: [0.0; 2],
        arguments: |u| u.map(|u| pair(random_f16(u)) ^ 0x02aa),
        error: Some(|numbers, found| error_of_pair(numbers, found, fma_error)),
    };
    let add = ArithmeticOperation {
        name: "two f16 add",
        formula: "x + b, twice",
        code: "ADD_F16X2",
        flops: Some(1.0),
        operands: [pair(SMALL), 0],
        apply: |x, b, c| apply_to_pairs([x, b, c], |x, b, _| from_f64(to_f64(x) + to_f64(b))),
        error: Some(|numbers, found| error_of_pair(numbers, found, sum_error)),
        ..multiply_add
    };
    [multiply_add, add]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IEEE 754: the largest f16 is 65,504, the smallest normal one 2^-14, the smallest one 2^-24.
    #[test]
    fn known_numbers_are_converted() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x0001, 2.0f64.powi(-24)),
            (0x03ff, 1023.0 * 2.0f64.powi(-24)),
            (0x0400, 2.0f64.powi(-14)),
            (0x3800, 0.5),
            (SLOW_FMA[0], 1.0 - 1.0 / 64.0),
            (SLOW_FMA[1], 1.0 / 32.0),
            (ONE, 1.0),
            (SMALL, 2.0f64.powi(-6)),
            (0x3555, 0.333_251_953_125),
            (0xc000, -2.0),
            (0x7bff, 65_504.0),
        ] {
            assert_eq!(to_f64(bits), value, "{bits:#x}");
            assert_eq!(from_f64(value), bits, "{value}");
        }
    }

    /// Neighbours of 1 + 2^-11, between which the exact sum is in the middle.
    #[test]
    fn errors_are_in_units_of_the_last_place() {
        let exact = 1.0 + 2.0f64.powi(-11);
        assert_eq!([ONE, ONE + 1, ONE + 2].map(|found| error_of_f16(found, exact)), [0.5, 0.5, 1.5]);
        assert_eq!(fma_error(ONE, ONE, ONE, 0x4000), 0.0);
        assert_eq!(sum_error(ONE, SMALL, 0, ONE), 16.0);
        // The upper half of the sum is 1 + 2^-6, the lower one 1.
        let numbers = [pair(ONE), u32::from(SMALL) << 16, 0];
        assert_eq!(error_of_pair(numbers, pair(ONE), sum_error), 16.0);
    }

    #[test]
    fn rounding_is_to_the_nearest_even_number() {
        let ulp = 2.0f64.powi(-10);
        assert_eq!(from_f64(1.0 + 0.5 * ulp), ONE);
        assert_eq!(from_f64(1.0 + 0.51 * ulp), ONE + 1);
        assert_eq!(from_f64(1.0 + 1.5 * ulp), ONE + 2);
        assert_eq!(from_f64(2.0 - 0.25 * ulp), 0x4000);
        assert_eq!(from_f64(2.0f64.powi(-25)), 0);
        assert_eq!(from_f64(1023.6 * 2.0f64.powi(-24)), 0x0400);
        for bits in (0..0x7c00).step_by(7) {
            assert_eq!(from_f64(to_f64(bits)), bits);
        }
    }
}
