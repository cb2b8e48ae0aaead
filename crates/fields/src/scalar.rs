//! Numbers of a field.

use std::fmt::{Debug, Display};
use std::ops::{Add, Div, Mul, Sub};

use orrery_model::Precision;
use orrery_simd::Real;

/// A number of a field: f32 or f64.
pub trait Scalar:
    Real
    + Debug
    + Display
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// Precision with this arithmetic.
    const PRECISION: Precision;

    /// Returns self × a + b, rounded once.
    fn fused_mul_add(self, a: Self, b: Self) -> Self;
}

impl Scalar for f32 {
    const PRECISION: Precision = Precision::Single;

    fn fused_mul_add(self, a: Self, b: Self) -> Self {
        self.mul_add(a, b)
    }
}

impl Scalar for f64 {
    const PRECISION: Precision = Precision::Double;

    fn fused_mul_add(self, a: Self, b: Self) -> Self {
        self.mul_add(a, b)
    }
}
