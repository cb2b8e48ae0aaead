//! Number types that can be summed and compared.

use orrery_device::Element;

/// f32, f64, u32, u64 or i32. Integer sums wrap on overflow, on the CPU and on every device.
pub trait PrimitiveNumber: Element + PartialOrd {
    /// Name of the type in the kernel dialect, for example `uint` for u32.
    const NAME: &'static str;
    /// Sum of an empty set.
    const ZERO: Self;
    /// Maximum of an empty set: −∞ for floats, the smallest value for integers.
    const LOWEST: Self;
    /// Minimum of an empty set: ∞ for floats, the largest value for integers.
    const HIGHEST: Self;
    /// [`Self::LOWEST`] and [`Self::HIGHEST`] in the kernel dialect.
    const LIMITS: [&'static str; 2];
    /// Returns the sum of two numbers.
    fn plus(self, other: Self) -> Self;
}

macro_rules! impl_number_for_float {
    ($kind:ty, $name:literal, $lowest:literal, $highest:literal) => {
        impl PrimitiveNumber for $kind {
            const NAME: &'static str = $name;
            const ZERO: Self = 0.0;
            const LOWEST: Self = Self::NEG_INFINITY;
            const HIGHEST: Self = Self::INFINITY;
            const LIMITS: [&'static str; 2] = [$lowest, $highest];
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    };
}

macro_rules! impl_number_for_integer {
    ($kind:ty, $name:literal, $lowest:literal, $highest:literal) => {
        impl PrimitiveNumber for $kind {
            const NAME: &'static str = $name;
            const ZERO: Self = 0;
            const LOWEST: Self = Self::MIN;
            const HIGHEST: Self = Self::MAX;
            const LIMITS: [&'static str; 2] = [$lowest, $highest];
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    };
}

impl_number_for_float!(f32, "float", "(-1.0f / 0.0f)", "(1.0f / 0.0f)");
impl_number_for_float!(f64, "double", "(-1.0 / 0.0)", "(1.0 / 0.0)");
impl_number_for_integer!(u32, "uint", "0u", "0xffffffffu");
impl_number_for_integer!(u64, "ulong", "(ulong)0", "(~(ulong)0)");
impl_number_for_integer!(i32, "int", "(-2147483647 - 1)", "2147483647");
