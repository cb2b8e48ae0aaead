//! What can be summed and compared.

use orrery_device::Element;

/// f32, f64, u32, u64 or i32. Whole numbers wrap where a sum is too large for them, on every device alike.
pub trait Number: Element + PartialOrd {
    /// Its name in the kernel dialect.
    const NAME: &'static str;
    /// The sum of nothing.
    const ZERO: Self;
    /// The largest of nothing: −∞, or the smallest number there is.
    const LOWEST: Self;
    /// The smallest of nothing: ∞, or the largest number there is.
    const HIGHEST: Self;
    /// The dialect's words for [`Self::LOWEST`] and [`Self::HIGHEST`].
    const LIMITS: [&'static str; 2];
    /// The sum.
    fn plus(self, other: Self) -> Self;
}

macro_rules! float {
    ($kind:ty, $name:literal, $lowest:literal, $highest:literal) => {
        impl Number for $kind {
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

macro_rules! whole {
    ($kind:ty, $name:literal, $lowest:literal, $highest:literal) => {
        impl Number for $kind {
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

float!(f32, "float", "(-1.0f / 0.0f)", "(1.0f / 0.0f)");
float!(f64, "double", "(-1.0 / 0.0)", "(1.0 / 0.0)");
whole!(u32, "uint", "0u", "0xffffffffu");
whole!(u64, "ulong", "(ulong)0", "(~(ulong)0)");
whole!(i32, "int", "(-2147483647 - 1)", "2147483647");
