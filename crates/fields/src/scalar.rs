//! Numbers of a field.

use std::fmt::{Debug, Display};
use std::ops::{Add, Div, Mul, Neg, Sub};

use orrery_device::{Arg, Element};
use orrery_model::Precision;
use orrery_simd::Real;

use crate::heat::FieldColumn;

/// A number of a field: f32 or f64.
pub trait Scalar:
    Real
    + Element
    + Debug
    + Display
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Into<f64>
{
    /// Precision with this arithmetic.
    const PRECISION: Precision;
    /// Name of the type in the kernel dialect.
    const KERNEL_NAME: &'static str;

    /// Returns the number as an argument of a kernel.
    fn to_argument(self) -> Arg<'static>;

    /// Wraps values of all nodes.
    fn into_column(values: Vec<Self>) -> FieldColumn;

    /// Returns self × a + b, rounded once.
    fn fused_mul_add(self, a: Self, b: Self) -> Self;
}

impl Scalar for f32 {
    const PRECISION: Precision = Precision::Single;
    const KERNEL_NAME: &'static str = "float";

    fn to_argument(self) -> Arg<'static> {
        self.into()
    }

    fn into_column(values: Vec<Self>) -> FieldColumn {
        FieldColumn::Single(values)
    }

    #[inline(always)]
    fn fused_mul_add(self, a: Self, b: Self) -> Self {
        self.mul_add(a, b)
    }
}

impl Scalar for f64 {
    const PRECISION: Precision = Precision::Double;
    const KERNEL_NAME: &'static str = "double";

    fn to_argument(self) -> Arg<'static> {
        self.into()
    }

    fn into_column(values: Vec<Self>) -> FieldColumn {
        FieldColumn::Double(values)
    }

    #[inline(always)]
    fn fused_mul_add(self, a: Self, b: Self) -> Self {
        self.mul_add(a, b)
    }
}
