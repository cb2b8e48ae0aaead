//! Names, sizes and strategies of the primitives that are measured.

use orrery_device::{Device, DeviceKind};
use orrery_primitives::histogram::HistogramStrategy;
use orrery_primitives::label::RunTiles;
use orrery_primitives::matmul::MatmulStrategy;
use orrery_primitives::reduce::ReduceStrategy;
use orrery_primitives::scan::ScanStrategy;
use orrery_primitives::sort::SortStrategy;
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
    /// Product of two square matrices of f32.
    MatmulF32,
    /// Connected components of a square random image at its percolation threshold.
    LabelImage,
}

impl Primitive {
    /// All primitives, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::SumF32,
        Self::ScanF32,
        Self::ScanU32,
        Self::SortU64,
        Self::SortU32,
        Self::HistogramRandom,
        Self::HistogramEqual,
        Self::TransposeF32,
        Self::MatmulF32,
        Self::LabelImage,
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
            Self::MatmulF32 => ("matmul", "f32"),
            Self::LabelImage => ("label", "image"),
        }
    }

    /// Returns both names in one, for example `sort u64 + u32`.
    pub fn key(self) -> String {
        let (name, input) = self.name_and_input();
        format!("{name} {input}")
    }

    /// Returns the default problem sizes for a device, or for the CPU.
    pub fn default_sizes(self, device: Option<&Device>) -> Vec<usize> {
        let is_gpu = device.is_some_and(|device| device.properties().kind == DeviceKind::Gpu);
        match (self, is_gpu) {
            (Self::SortU64 | Self::SortU32, true) => vec![1 << 20, 1 << 24],
            (Self::SortU64 | Self::SortU32, false) => vec![1 << 18],
            (Self::TransposeF32, true) => vec![1 << 26, 1 << 28],
            (Self::MatmulF32, true) => vec![1 << 24],
            (Self::MatmulF32, false) => vec![1 << 16],
            (Self::LabelImage, true) => vec![1 << 26],
            (_, true) => vec![1 << 28],
            (_, false) => vec![1 << 20],
        }
    }

    /// Returns the number of elements that is measured for a problem size: a matrix or an image is
    /// the largest square of at most `n` elements.
    pub fn measured_size(self, n: usize) -> usize {
        match self {
            Self::TransposeF32 | Self::MatmulF32 | Self::LabelImage => n.isqrt().pow(2),
            _ => n,
        }
    }

    /// Returns the keys of a sort, or the floating-point operations of a product of matrices with
    /// `n` elements each. `None` for others.
    pub(super) fn operations(self, n: usize) -> Option<f64> {
        match self {
            Self::SortU64 | Self::SortU32 => Some(n as f64),
            Self::MatmulF32 => Some(2.0 * (n as f64).powf(1.5)),
            _ => None,
        }
    }

    /// Returns the names of the strategies that were considered for a device, the default included.
    /// They are different.
    pub fn candidate_names(self) -> Vec<String> {
        match self {
            Self::SumF32 => ReduceStrategy::CANDIDATES.iter().map(ReduceStrategy::name).collect(),
            Self::ScanF32 | Self::ScanU32 => {
                ScanStrategy::CANDIDATES.iter().map(ScanStrategy::name).collect()
            }
            Self::SortU64 | Self::SortU32 => {
                SortStrategy::CANDIDATES.iter().map(SortStrategy::name).collect()
            }
            Self::HistogramRandom | Self::HistogramEqual => {
                HistogramStrategy::CANDIDATES.iter().map(HistogramStrategy::name).collect()
            }
            Self::TransposeF32 => TransposeStrategy::CANDIDATES.iter().map(TransposeStrategy::name).collect(),
            Self::MatmulF32 => MatmulStrategy::CANDIDATES.iter().map(MatmulStrategy::name).collect(),
            Self::LabelImage => RunTiles::CANDIDATES.iter().map(RunTiles::name).collect(),
        }
    }

    /// Returns the bytes per element that every implementation must move. A sort and a matrix
    /// product have no such number.
    pub(super) fn bytes_per_element(self) -> Option<f64> {
        match self {
            Self::SumF32 => Some(4.0),
            Self::ScanF32 | Self::ScanU32 | Self::TransposeF32 => Some(8.0),
            Self::SortU64 | Self::SortU32 | Self::MatmulF32 => None,
            Self::LabelImage => Some(5.0),
            Self::HistogramRandom | Self::HistogramEqual => Some(1.0),
        }
    }
}
