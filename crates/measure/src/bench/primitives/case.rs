//! Interface of a primitive that is measured.

use std::fmt::Debug;

use orrery_device::{Device, DeviceError, DeviceKind};

use super::PrimitivesBench;
use crate::timing::Times;

/// Primitive and its input, as `bench primitives` and the tuner measure it.
///
/// A case generates its input, times one run with the functions of [`PrimitivesBench`], and
/// compares the result with the reference implementation. Cases are static values in lists such as
/// [`PRODUCTION_CASES`](super::PRODUCTION_CASES).
pub trait PrimitiveCase: Debug + Sync {
    /// Returns the names of the primitive and of its input, for example `("sort", "u64 + u32")`.
    fn name_and_input(&self) -> (&'static str, &'static str);

    /// Returns both names in one, for example `sort u64 + u32`. The tuning file has it.
    fn key(&self) -> String {
        let (name, input) = self.name_and_input();
        format!("{name} {input}")
    }

    /// Returns the default problem sizes for a device, or for the CPU.
    fn default_sizes(&self, device: Option<&Device>) -> Vec<usize> {
        vec![if is_gpu(device) { 1 << 28 } else { 1 << 20 }]
    }

    /// Returns the number of elements that is measured for a problem size. For example, a matrix is
    /// the largest square of at most `n` elements.
    fn measured_size(&self, n: usize) -> usize {
        n
    }

    /// Returns the work that the rate counts.
    fn work(&self) -> PrimitiveWork;

    /// Returns the names of the strategies that were considered for a device, the default included.
    /// They are different.
    fn candidate_names(&self) -> Vec<String>;

    /// Measures and checks the default strategy or a candidate, given by its index, on `n`
    /// elements, which is a [`Self::measured_size`].
    fn measure(
        &self,
        bench: &PrimitivesBench,
        n: usize,
        candidate: Option<usize>,
    ) -> Result<CheckedTimes, DeviceError>;
}

/// Work of a primitive.
#[derive(Clone, Copy, Debug)]
pub enum PrimitiveWork {
    /// Bytes per element that every implementation must move.
    BytesPerElement(f64),
    /// Operations. For a primitive without a smallest number of bytes.
    Operations {
        /// Returns the number of operations on `n` elements.
        count: fn(usize) -> f64,
        /// Unit of their rate, for example `keys/s`.
        unit: &'static str,
    },
}

/// Times of a primitive, and the first difference from the reference implementation.
#[derive(Clone, Debug)]
pub struct CheckedTimes {
    /// Times of one run.
    pub times: Times,
    /// Index, actual and expected value of the first difference. `None` if the result is correct.
    pub difference: Option<String>,
}

/// Returns whether `device` is a GPU. Default sizes for a GPU are larger.
pub fn is_gpu(device: Option<&Device>) -> bool {
    device.is_some_and(|device| device.properties().kind == DeviceKind::Gpu)
}
