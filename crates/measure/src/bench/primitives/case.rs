//! Interface of a primitive that is measured.

use orrery_device::{Device, DeviceError, DeviceKind};

use crate::bench::BenchPlace;
use crate::timing::Times;

/// Measures and checks the default strategy or a candidate, given by its index, on a number of
/// elements, which is a [`PrimitiveCase::measured_size`].
pub type MeasureCase = fn(&BenchPlace, usize, Option<usize>) -> Result<CheckedTimes, DeviceError>;

/// Primitive and its input, as `bench primitives` and the tuner measure it.
///
/// A case generates its input, times one run with the functions of [`BenchPlace`], and
/// compares the result with the reference implementation. Cases are static values in lists such as
/// [`PRODUCTION_CASES`](super::PRODUCTION_CASES).
#[derive(Debug)]
pub struct PrimitiveCase {
    name: &'static str,
    input: &'static str,
    work: PrimitiveWork,
    candidate_names: fn() -> Vec<String>,
    measure: MeasureCase,
    sizes_on_gpu: &'static [usize],
    other_sizes: &'static [usize],
    is_square: bool,
}

impl PrimitiveCase {
    /// Creates a case with the names of the primitive and of its input, for example `sort` and
    /// `u64 + u32`. `candidate_names` returns the names of the strategies that were considered for
    /// a device, the default included. They are different.
    pub const fn new(
        name: &'static str,
        input: &'static str,
        work: PrimitiveWork,
        candidate_names: fn() -> Vec<String>,
        measure: MeasureCase,
    ) -> Self {
        let (sizes_on_gpu, other_sizes): (&[usize], &[usize]) = (&[1 << 28], &[1 << 20]);
        Self { name, input, work, candidate_names, measure, sizes_on_gpu, other_sizes, is_square: false }
    }

    /// Sets the default problem sizes for a GPU, and for other devices and the CPU.
    pub const fn with_sizes(self, on_gpu: &'static [usize], others: &'static [usize]) -> Self {
        Self { sizes_on_gpu: on_gpu, other_sizes: others, ..self }
    }

    /// Measures the largest square of at most as many elements.
    pub const fn of_squares(self) -> Self {
        Self { is_square: true, ..self }
    }

    /// Returns the names of the primitive and of its input.
    pub fn name_and_input(&self) -> (&'static str, &'static str) {
        (self.name, self.input)
    }

    /// Returns both names in one, for example `sort u64 + u32`. The tuning file has it.
    pub fn key(&self) -> String {
        format!("{} {}", self.name, self.input)
    }

    /// Returns the default problem sizes for a device, or for the CPU.
    pub fn default_sizes(&self, device: Option<&Device>) -> &'static [usize] {
        let is_gpu = device.is_some_and(|device| device.properties().kind == DeviceKind::Gpu);
        if is_gpu { self.sizes_on_gpu } else { self.other_sizes }
    }

    /// Returns the number of elements that is measured for a problem size.
    pub fn measured_size(&self, n: usize) -> usize {
        if self.is_square { n.isqrt().pow(2) } else { n }
    }

    /// Returns the work that the rate counts.
    pub fn work(&self) -> PrimitiveWork {
        self.work
    }

    /// Returns the names of the candidates.
    pub fn candidate_names(&self) -> Vec<String> {
        (self.candidate_names)()
    }

    /// Measures and checks the default strategy or a candidate, see [`MeasureCase`].
    pub(super) fn measure(
        &self,
        bench: &BenchPlace,
        n: usize,
        candidate: Option<usize>,
    ) -> Result<CheckedTimes, DeviceError> {
        (self.measure)(bench, n, candidate)
    }
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
