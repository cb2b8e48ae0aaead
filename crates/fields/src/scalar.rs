//! Numbers of a field.

use std::fmt::{Debug, Display};
use std::ops::{Add, Div, Mul, Neg, Range, Sub};

use orrery_cluster::Pod;
use orrery_device::{Arg, Element};
use orrery_model::Precision;
use orrery_simd::Real;

use crate::FieldColumn;
use crate::heat::PlatePass;
use crate::heat::cpu::HeatCpuStrategy;
use crate::wave::cpu::{SliceUpdate, StencilPass, WaveCpuStrategy};
use crate::wave::{HostWaveSlab, Medium, sum_rows};

/// A number of a field: f32 or f64.
pub trait Scalar:
    Real
    + Element
    + Pod
    + Debug
    + Display
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Into<f64>
    + NodeLoops
{
    /// Precision with this arithmetic.
    const PRECISION: Precision;
    /// Name of the type in the kernel dialect.
    const KERNEL_NAME: &'static str;

    /// Returns the number as an argument of a kernel.
    fn to_argument(self) -> Arg<'static>;

    /// Wraps values of all nodes.
    fn into_column(values: Vec<Self>) -> FieldColumn;

    /// Returns the values of a column, or its precision if that is another one.
    fn from_column(column: FieldColumn) -> Result<Vec<Self>, Precision>;

    /// Returns self × a + b, rounded once.
    fn fused_mul_add(self, a: Self, b: Self) -> Self;

    /// Returns zero if |self| is below [`Real::TINY`].
    fn zero_if_tiny(self) -> Self {
        let is_tiny = -Self::TINY < self && self < Self::TINY;
        if is_tiny { Self::default() } else { self }
    }
}

/// Loops over all nodes, as methods of the number type.
///
/// A generic function is compiled in every crate that calls it. The loops are compiled for all
/// instruction sets, orders and dimensions, which takes minutes. As methods of f32 and f64 they are
/// compiled once, in this crate.
pub trait NodeLoops: Sized {
    /// [`StencilPass::run`].
    fn run_wave_pass(
        pass: &StencilPass<'_, Self>,
        strategy: &WaveCpuStrategy,
        update: SliceUpdate<'_, Self>,
        halfway: Option<&mut dyn FnMut()>,
    );

    /// Returns the energies of the rows of a slab of a wave field without the factor of their unit.
    fn wave_energies(medium: &Medium<Self>, slab: &HostWaveSlab<Self>) -> Vec<f64>;

    /// [`HeatCpuStrategy::update_rows`].
    fn update_heat_rows(
        strategy: &HeatCpuStrategy,
        pass: PlatePass<'_, Self>,
        rows: Range<usize>,
        to: &mut [Self],
    );
}

macro_rules! impl_scalar {
    ($kind:ty, $precision:ident, $kernel_name:literal) => {
        impl Scalar for $kind {
            const PRECISION: Precision = Precision::$precision;
            const KERNEL_NAME: &'static str = $kernel_name;

            fn to_argument(self) -> Arg<'static> {
                self.into()
            }

            fn into_column(values: Vec<Self>) -> FieldColumn {
                FieldColumn::$precision(values)
            }

            fn from_column(column: FieldColumn) -> Result<Vec<Self>, Precision> {
                match column {
                    FieldColumn::$precision(values) => Ok(values),
                    other => Err(other.precision()),
                }
            }

            #[inline(always)]
            fn fused_mul_add(self, a: Self, b: Self) -> Self {
                self.mul_add(a, b)
            }
        }

        impl NodeLoops for $kind {
            fn run_wave_pass(
                pass: &StencilPass<'_, Self>,
                strategy: &WaveCpuStrategy,
                update: SliceUpdate<'_, Self>,
                halfway: Option<&mut dyn FnMut()>,
            ) {
                pass.run_loops(strategy, update, halfway);
            }

            fn wave_energies(medium: &Medium<Self>, slab: &HostWaveSlab<Self>) -> Vec<f64> {
                sum_rows(medium, slab)
            }

            fn update_heat_rows(
                strategy: &HeatCpuStrategy,
                pass: PlatePass<'_, Self>,
                rows: Range<usize>,
                to: &mut [Self],
            ) {
                strategy.run_loops(pass, rows, to);
            }
        }
    };
}
impl_scalar!(f32, Single, "float");
impl_scalar!(f64, Double, "double");
