//! Floating-point addition is not associative: sums of the same terms depend on their order.
//!
//! (x + y) + z for x = 10³⁰, y = -10³⁰, z = 1 is 1, and x + (y + z) is 0, because -10³⁰ + 1 is
//! rounded to -10³⁰. The sum of 1/i for i = 1 to n is close to ln n + γ + 1/(2n), with γ =
//! 0.5772... Added from the largest term on, small terms are rounded away next to the sum. Added
//! from the smallest term on, sum and terms have similar sizes.
//!
//! Cost: one division and one addition per term, each of which waits for the one before.

use orrery_device::{Arg, Device, DeviceError, Element, ElementType, KernelFile, Math};
use serde::Serialize;

// SAFETY: one thread writes the four elements of `out`, which `on_device` allocates.
const SUMS: KernelFile = unsafe { KernelFile::new("sums.cu", include_str!("sums.cu")) };

/// Terms of the sums of 1/i.
pub const TERMS: usize = 1 << 20;
/// Number next to which 1 is lost.
const LARGE: f64 = 1e30;

/// Results of sums in different orders.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OrderedSums {
    /// (10³⁰ - 10³⁰) + 1.
    pub left_first: f64,
    /// 10³⁰ + (-10³⁰ + 1).
    pub right_first: f64,
    /// Sum of 1/i from the largest to the smallest term.
    pub forward: f64,
    /// Sum of 1/i from the smallest to the largest term.
    pub backward: f64,
}

impl OrderedSums {
    fn from_array<T: Into<f64>>([left_first, right_first, forward, backward]: [T; 4]) -> Self {
        Self {
            left_first: left_first.into(),
            right_first: right_first.into(),
            forward: forward.into(),
            backward: backward.into(),
        }
    }

    /// Computes the sums in f32 on a device.
    pub fn single_on_device(device: &Device) -> Result<Self, DeviceError> {
        on_device(device, LARGE as f32, 1.0f32).map(Self::from_array)
    }

    /// Computes the sums in f64 on a device, which must have f64.
    pub fn double_on_device(device: &Device) -> Result<Self, DeviceError> {
        on_device(device, LARGE, 1.0).map(Self::from_array)
    }

    /// Reference implementation: computes the sums in f32 on the CPU.
    pub fn single_on_cpu() -> Self {
        let term = |i: usize| 1.0f32 / i as f32;
        let large = LARGE as f32;
        Self::from_array([
            (large + -large) + 1.0,
            large + (-large + 1.0),
            (1..=TERMS).map(term).fold(0.0, |sum, term| sum + term),
            (1..=TERMS).rev().map(term).fold(0.0, |sum, term| sum + term),
        ])
    }

    /// Reference implementation: computes the sums in f64 on the CPU.
    pub fn double_on_cpu() -> Self {
        let term = |i: usize| 1.0 / i as f64;
        Self::from_array([
            (LARGE + -LARGE) + 1.0,
            LARGE + (-LARGE + 1.0),
            (1..=TERMS).map(term).fold(0.0, |sum, term| sum + term),
            (1..=TERMS).rev().map(term).fold(0.0, |sum, term| sum + term),
        ])
    }
}

fn on_device<T: Element + Into<Arg<'static>>>(
    device: &Device,
    large: T,
    one: T,
) -> Result<[T; 4], DeviceError> {
    let definitions = [("REAL", ElementType::of::<T>().to_string())];
    let kernel = device.build(&SUMS, &definitions, Math::Precise)?.kernel("sum_in_orders")?;
    let out = device.zeros::<T>(4)?;
    let args = [(&out).into(), large.into(), one.into(), (TERMS as i32).into()];
    device.queue().launch(&kernel, 1, 1, &args)?;
    let sums = out.to_vec()?;
    Ok([sums[0], sums[1], sums[2], sums[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_depend_on_the_order_of_their_terms() {
        let [single, double] = [OrderedSums::single_on_cpu(), OrderedSums::double_on_cpu()];
        for sums in [single, double] {
            assert_eq!((sums.left_first, sums.right_first), (1.0, 0.0));
        }
        let n = TERMS as f64;
        let series = n.ln() + 0.577_215_664_901_532_9 + 0.5 / n;
        // A correct sum of f64 has at most 2^20 roundings of 14 * 2^-53 each.
        assert!((double.backward - series).abs() < 2e-9 && (double.forward - series).abs() < 2e-9);
        // Backwards, f32 is correct to a few ulp of 1e-6. Forwards, it loses four digits.
        assert!((single.backward - series).abs() < 1e-4, "{single:?}");
        assert!((1e-3..1e-1).contains(&(single.forward - series).abs()), "{single:?}");
    }
}
