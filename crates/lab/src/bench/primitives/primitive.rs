//! Names, sizes and strategies of the primitives that are measured.

use orrery_device::{Device, DeviceKind};
use orrery_primitives::scan::ScanStrategy;
use orrery_primitives::transpose::TransposeStrategy;

/// Primitive and its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Primitive {
    /// Sum of f32.
    SumF32,
    /// Inclusive scan (prefix sum) of f32.
    ScanF32,
    /// Inclusive scan (prefix sum) of u32.
    ScanU32,
    /// Sort of pairs of a u64 key and a u32 value.
    SortU64,
    /// Sort of pairs of a u32 key and a u32 value.
    SortU32,
    /// Histogram of random bytes.
    HistogramRandom,
    /// Histogram of equal bytes, which all increment the same counter.
    HistogramEqual,
    /// Transpose of a square matrix of f32.
    TransposeF32,
}

impl Primitive {
    /// All primitives, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::SumF32,
        Self::ScanF32,
        Self::ScanU32,
        Self::SortU64,
        Self::SortU32,
        Self::HistogramRandom,
        Self::HistogramEqual,
        Self::TransposeF32,
    ];

    /// Returns the names of the primitive and of its input, for example `("sort", "u64 + u32")`.
    pub fn name_and_input(self) -> (&'static str, &'static str) {
        match self {
            Self::SumF32 => ("sum", "f32"),
            Self::ScanF32 => ("scan", "f32"),
            Self::ScanU32 => ("scan", "u32"),
            Self::SortU64 => ("sort", "u64 + u32"),
            Self::SortU32 => ("sort", "u32 + u32"),
            Self::HistogramRandom => ("histogram", "random"),
            Self::HistogramEqual => ("histogram", "equal"),
            Self::TransposeF32 => ("transpose", "f32"),
        }
    }

    /// Returns the default problem sizes for a device, or for the CPU.
    pub fn default_sizes(self, device: Option<&Device>) -> Vec<usize> {
        let is_gpu = device.is_some_and(|device| device.properties().kind == DeviceKind::Gpu);
        match (self, is_gpu) {
            (Self::SortU64 | Self::SortU32, true) => vec![1 << 20, 1 << 24],
            (Self::SortU64 | Self::SortU32, false) => vec![1 << 18],
            (Self::TransposeF32, true) => vec![1 << 26, 1 << 28],
            (_, true) => vec![1 << 28],
            (_, false) => vec![1 << 20],
        }
    }

    /// Returns the number of elements that is measured for a problem size: a transpose has the
    /// largest square of at most `n` elements.
    pub fn measured_size(self, n: usize) -> usize {
        if self == Self::TransposeF32 { n.isqrt().pow(2) } else { n }
    }

    /// Returns the names of the strategies that were considered for a device, the default included.
    /// Empty for primitives with a single strategy.
    pub fn candidate_names(self) -> Vec<String> {
        match self {
            Self::ScanF32 => ScanStrategy::CANDIDATES.iter().map(ScanStrategy::name).collect(),
            Self::TransposeF32 => TransposeStrategy::CANDIDATES.iter().map(TransposeStrategy::name).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the bytes per element that every implementation must move. A sort has no such
    /// number.
    pub(super) fn bytes_per_element(self) -> Option<f64> {
        match self {
            Self::SumF32 => Some(4.0),
            Self::ScanF32 | Self::ScanU32 | Self::TransposeF32 => Some(8.0),
            Self::SortU64 | Self::SortU32 => None,
            Self::HistogramRandom | Self::HistogramEqual => Some(1.0),
        }
    }
}
