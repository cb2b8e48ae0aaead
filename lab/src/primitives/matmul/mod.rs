//! Matrix product  C = α op(A) op(B) + β C,  where op(A) has m × k and op(B) k × n numbers, and op
//! is the identity or the transposition. Matrices are dense and stored row by row.
//!
//! [`matmul_reference`] is the definition. Each number of C is a sum s over p = 0 … k−1 that starts
//! at 0 and adds op(A)ᵢₚ op(B)ₚⱼ by fused multiply-adds, and then fma(β, Cᵢⱼ, α s). If β is 0, C is
//! not read. [`matmul_on_cpu`] and [`Matmul`] keep this order, so the CPU with any number of
//! threads and every device give the same bits.
//!
//! Rounding (Higham 2002, section 3.1): a sum of k products has an error of at most
//! γₖ Σₚ |op(A)ᵢₚ op(B)ₚⱼ| with γₖ = k u / (1 − k u), where u is half a unit in the last place.
//!
//! Cost: 2 m n k operations on at least m k + k n + m n numbers. For large matrices arithmetic is
//! the limit, if each number that is loaded is used often: from the cache or shared memory, and
//! then from registers. [`rungs`] measures the steps that lead to it.

mod cpu;
mod device;
pub mod rungs;
pub mod selftest;
mod tensor;

pub use cpu::matmul_on_cpu;
pub use device::{Matmul, MatmulStrategy};
pub use tensor::TensorMatmul;

use orrery_device::Arg;
use orrery_primitives::PrimitiveNumber;
use orrery_simd::{InstructionSet, Real};

/// f32 or f64.
pub trait MatrixNumber: PrimitiveNumber + Real + Into<Arg<'static>> {
    /// 1.
    const ONE: Self;
    /// Half a unit in the last place of 1: the largest relative error of one operation.
    const HALF_ULP: f64;
    /// Returns self × b + c, rounded once.
    fn fused_mul_add(self, b: Self, c: Self) -> Self;
    /// Returns self × b.
    fn times(self, b: Self) -> Self;
    /// [`matmul_on_cpu`]. It is a method, so that its SIMD loops are compiled once, in this crate.
    #[doc(hidden)]
    fn multiply_on_cpu(product: &Product<Self>, a: &[Self], b: &[Self], c: &mut [Self]);
}

macro_rules! impl_matrix_number {
    ($($kind:ty),*) => { $(
        impl MatrixNumber for $kind {
            const ONE: Self = 1.0;
            const HALF_ULP: f64 = Self::EPSILON as f64 / 2.0;
            #[inline(always)]
            fn fused_mul_add(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn times(self, b: Self) -> Self {
                self * b
            }
            fn multiply_on_cpu(product: &Product<Self>, a: &[Self], b: &[Self], c: &mut [Self]) {
                cpu::multiply_with(InstructionSet::best(), product, a, b, c);
            }
        }
    )* };
}
impl_matrix_number!(f32, f64);

/// Shapes, transpositions and coefficients of a matrix product.
///
/// ```
/// use orrery_lab::primitives::matmul::{Product, matmul_on_cpu};
///
/// let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [1.0, 1.0, 0.0, 1.0]);
/// let mut c = [0.0; 4];
/// matmul_on_cpu(&Product::new(2, 2, 2), &a, &b, &mut c);
/// assert_eq!(c, [1.0, 3.0, 3.0, 7.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Product<T> {
    /// Rows of op(A) and C.
    pub m: usize,
    /// Columns of op(B) and C.
    pub n: usize,
    /// Columns of op(A) and rows of op(B).
    pub k: usize,
    /// Whether op(A) is Aᵀ. A is then stored as k rows of m numbers.
    pub transposed_a: bool,
    /// Whether op(B) is Bᵀ. B is then stored as n rows of k numbers.
    pub transposed_b: bool,
    /// Factor of the product.
    pub alpha: T,
    /// Factor of the previous C. If it is 0, C is not read and may contain NaN.
    pub beta: T,
}

impl<T: MatrixNumber> Product<T> {
    /// Returns the plain product C = A B of an m × k and a k × n matrix.
    pub fn new(m: usize, n: usize, k: usize) -> Self {
        Self { m, n, k, transposed_a: false, transposed_b: false, alpha: T::ONE, beta: T::ZERO }
    }

    /// Returns the numbers of elements of A, B and C.
    pub fn lengths(&self) -> [usize; 3] {
        [self.m * self.k, self.k * self.n, self.m * self.n]
    }

    /// Returns the floating-point operations, without those of alpha and beta.
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Returns op(A) as a view with strides.
    fn view_a<'a>(&self, a: &'a [T]) -> MatrixView<'a, T> {
        let [row_stride, column_stride] = if self.transposed_a { [1, self.m] } else { [self.k, 1] };
        MatrixView { numbers: a, row_stride, column_stride }
    }

    /// Returns op(B) as a view with strides.
    fn view_b<'a>(&self, b: &'a [T]) -> MatrixView<'a, T> {
        let [row_stride, column_stride] = if self.transposed_b { [1, self.k] } else { [self.n, 1] };
        MatrixView { numbers: b, row_stride, column_stride }
    }

    /// Returns the new value of a number of C from its sum and its old value.
    #[inline(always)]
    fn combine(&self, sum: T, old: T) -> T {
        let scaled = self.alpha.times(sum);
        if self.beta == T::ZERO { scaled } else { self.beta.fused_mul_add(old, scaled) }
    }

    fn check_lengths(&self, a: &[T], b: &[T], c: &[T]) {
        assert_eq!([a.len(), b.len(), c.len()], self.lengths(), "numbers of A, B and C");
    }
}

/// A matrix whose number in row i and column j is `numbers[i * row_stride + j * column_stride]`.
#[derive(Clone, Copy)]
struct MatrixView<'a, T> {
    numbers: &'a [T],
    row_stride: usize,
    column_stride: usize,
}

impl<T: Copy> MatrixView<'_, T> {
    #[inline(always)]
    fn get(&self, row: usize, column: usize) -> T {
        self.numbers[row * self.row_stride + column * self.column_stride]
    }
}

/// Reference implementation: the definition, number by number. Panics if a slice does not have the
/// length of its matrix.
pub fn matmul_reference<T: MatrixNumber>(product: &Product<T>, a: &[T], b: &[T], c: &mut [T]) {
    product.check_lengths(a, b, c);
    let (a, b) = (product.view_a(a), product.view_b(b));
    for row in 0..product.m {
        for column in 0..product.n {
            let mut sum = T::ZERO;
            for p in 0..product.k {
                sum = a.get(row, p).fused_mul_add(b.get(p, column), sum);
            }
            let number = &mut c[row * product.n + column];
            *number = product.combine(sum, *number);
        }
    }
}

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod tests;
