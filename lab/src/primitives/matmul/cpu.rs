//! Matrix product on all CPU cores (Goto & van de Geijn 2008, ACM TOMS 34, 12).
//!
//! op(B) is packed once into panels of two registers of columns, and each block of rows of op(A)
//! into strips of a few rows, so that the inner loop reads both in order. The inner loop keeps a
//! tile of C in registers: 12 rows of two AVX-512 registers use 24 of 32, and 6 rows of two AVX2
//! registers 12 of 16. A step along k costs one load per register of columns and one broadcast per
//! row.
//!
//! Blocks along k keep a panel of B in the L1 cache and a block of A in L2. The sums of a block of
//! rows are kept between them, so that each sum has the order of the definition.

use orrery_simd::{AlignedVec, InstructionSet, SimdKernel, SingleVector, Vector, dispatch, prefetch};
use rayon::prelude::*;

use super::{MatrixNumber, MatrixView, Product};

/// Numbers along k of a block. A panel of B has 192 × 32 f32: 24 KB, in an L1 cache of 32 to 48 KB.
const BLOCK_K: usize = 192;
/// Rows of a block, a multiple of the rows of every tile. 96 × 192 f32 are 72 KB, in the L2 cache.
const BLOCK_ROWS: usize = 96;
/// Steps along k between a prefetch of B and its use. A panel comes from the L2 cache when its
/// first strip of A is multiplied.
const PREFETCHED_STEPS: usize = 8;
/// Columns whose sums a task keeps. 96 × 512 f32 are 192 KB, in the L2 cache.
const BLOCK_COLUMNS: usize = 512;
/// Distance between rows of sums. A power of two would put all rows of a tile into a few sets of
/// the L1 cache.
const SUM_STRIDE: usize = BLOCK_COLUMNS + 16;

/// Computes the product on all CPU cores. The bits are those of
/// [`matmul_reference`](super::matmul_reference). Panics if a slice does not have the length of its
/// matrix.
pub fn matmul_on_cpu<T: MatrixNumber>(product: &Product<T>, a: &[T], b: &[T], c: &mut [T]) {
    product.check_lengths(a, b, c);
    T::multiply_on_cpu(product, a, b, c);
}

/// Computes the product with an instruction set.
pub(super) fn multiply_with<T: MatrixNumber>(
    set: InstructionSet,
    product: &Product<T>,
    a: &[T],
    b: &[T],
    c: &mut [T],
) {
    if c.is_empty() {
        return;
    }
    let tile = dispatch(set, FindTileShape::<T>(std::marker::PhantomData));
    let (a, b) = (product.view_a(a), product.view_b(b));
    let packed_b = pack_columns(product, b, tile.columns);
    let packed_b = &packed_b;
    c.par_chunks_mut(BLOCK_ROWS * product.n).enumerate().for_each(|(block, c)| {
        dispatch(set, MultiplyRows { product, a, packed_b, first_row: block * BLOCK_ROWS, c });
    });
}

/// Rows and columns of a tile of C that is kept in registers.
#[derive(Clone, Copy)]
struct TileShape {
    rows: usize,
    columns: usize,
}

/// Rows of a tile with 32 and with 16 registers.
const ROWS_OF_32_REGISTERS: usize = 12;
const ROWS_OF_16_REGISTERS: usize = 6;

impl TileShape {
    /// Returns the shape for registers of a type. Registers of 64 bytes are those of AVX-512, which
    /// has 32 of them.
    #[inline(always)]
    fn of<V: Vector>() -> Self {
        let rows = if size_of::<V>() == 64 { ROWS_OF_32_REGISTERS } else { ROWS_OF_16_REGISTERS };
        Self { rows, columns: 2 * V::LANES }
    }
}

struct FindTileShape<T>(std::marker::PhantomData<T>);

impl<T: MatrixNumber> SimdKernel for FindTileShape<T> {
    type Output = TileShape;

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> TileShape {
        TileShape::of::<T::Register<S, D>>()
    }
}

/// Packs op(B) as panels of `width` columns. Panel j holds row p at (j k + p) width. Columns beyond
/// n are 0.
fn pack_columns<T: MatrixNumber>(product: &Product<T>, b: MatrixView<'_, T>, width: usize) -> AlignedVec<T> {
    let (n, k) = (product.n, product.k);
    let mut packed = AlignedVec::zeros(n.div_ceil(width) * width * k);
    if k == 0 {
        return packed;
    }
    packed.par_chunks_mut(width * k).enumerate().for_each(|(panel, to)| {
        let first = panel * width;
        let columns = width.min(n - first);
        for (p, row) in to.chunks_exact_mut(width).enumerate() {
            if b.column_stride == 1 {
                let start = p * b.row_stride + first;
                row[..columns].copy_from_slice(&b.numbers[start..start + columns]);
            } else {
                for (column, number) in row[..columns].iter_mut().enumerate() {
                    *number = b.get(p, first + column);
                }
            }
        }
    });
    packed
}

/// The product for at most [`BLOCK_ROWS`] rows of C.
struct MultiplyRows<'a, T> {
    product: &'a Product<T>,
    a: MatrixView<'a, T>,
    packed_b: &'a [T],
    first_row: usize,
    /// The rows of C.
    c: &'a mut [T],
}

impl<T: MatrixNumber> SimdKernel for MultiplyRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        if TileShape::of::<T::Register<S, D>>().rows == ROWS_OF_32_REGISTERS {
            self.multiply::<T::Register<S, D>, ROWS_OF_32_REGISTERS>();
        } else {
            self.multiply::<T::Register<S, D>, ROWS_OF_16_REGISTERS>();
        }
    }
}

impl<T: MatrixNumber> MultiplyRows<'_, T> {
    #[inline(always)]
    fn multiply<V: Vector<Scalar = T>, const ROWS: usize>(self) {
        let Product { n, k, .. } = *self.product;
        let (rows, width) = (self.c.len() / n, 2 * V::LANES);
        let packed_a = self.pack_rows::<ROWS>(rows);
        let mut sums = AlignedVec::zeros(BLOCK_ROWS * SUM_STRIDE);
        let mut first_column = 0;
        while first_column < n {
            let columns = BLOCK_COLUMNS.min(n - first_column);
            sums.fill(T::ZERO);
            let mut first_p = 0;
            while first_p < k {
                let depth = BLOCK_K.min(k - first_p);
                for panel in 0..columns.div_ceil(width) {
                    let start = (first_column / width + panel) * width * k + first_p * width;
                    let b = &self.packed_b[start..start + depth * width];
                    for strip in 0..rows.div_ceil(ROWS) {
                        let start = (strip * k + first_p) * ROWS;
                        let a = &packed_a[start..start + depth * ROWS];
                        let to = &mut sums[strip * ROWS * SUM_STRIDE + panel * width..];
                        multiply_tile::<V, ROWS>(a, b, to);
                    }
                }
                first_p += depth;
            }
            for row in 0..rows {
                let sums = &sums[row * SUM_STRIDE..row * SUM_STRIDE + columns];
                let to = &mut self.c[row * n + first_column..row * n + first_column + columns];
                for (number, &sum) in to.iter_mut().zip(sums) {
                    *number = self.product.combine(sum, *number);
                }
            }
            first_column += columns;
        }
    }

    /// Packs the rows of op(A) as strips of `ROWS` rows. Strip i holds column p at (i k + p) ROWS.
    /// Rows beyond the last are 0.
    #[inline(always)]
    fn pack_rows<const ROWS: usize>(&self, rows: usize) -> AlignedVec<T> {
        let k = self.product.k;
        let mut packed = AlignedVec::zeros(rows.div_ceil(ROWS) * ROWS * k);
        for row in 0..rows {
            let (strip, in_strip) = (row / ROWS, row % ROWS);
            let to = &mut packed[strip * ROWS * k..(strip + 1) * ROWS * k];
            for p in 0..k {
                to[p * ROWS + in_strip] = self.a.get(self.first_row + row, p);
            }
        }
        packed
    }
}

/// Adds the product of a packed strip of A and a packed panel of B to a tile of sums, whose rows
/// are [`SUM_STRIDE`] numbers apart.
#[inline(always)]
fn multiply_tile<V: Vector, const ROWS: usize>(a: &[V::Scalar], b: &[V::Scalar], sums: &mut [V::Scalar]) {
    let width = 2 * V::LANES;
    let mut tile = [[V::splat(V::Scalar::default()); 2]; ROWS];
    for i in 0..ROWS {
        let row = &sums[i * SUM_STRIDE..i * SUM_STRIDE + width];
        tile[i] = [V::load(row), V::load(&row[V::LANES..])];
    }
    for step in 0..b.len() / width {
        let (factors, b) = (&a[step * ROWS..(step + 1) * ROWS], &b[step * width..(step + 1) * width]);
        prefetch(b.as_ptr().wrapping_add(PREFETCHED_STEPS * width));
        prefetch(b.as_ptr().wrapping_add(PREFETCHED_STEPS * width + V::LANES));
        let (left, right) = (V::load(b), V::load(&b[V::LANES..]));
        for i in 0..ROWS {
            let factor = V::splat(factors[i]);
            tile[i][0] = factor.fused_mul_add(left, tile[i][0]);
            tile[i][1] = factor.fused_mul_add(right, tile[i][1]);
        }
    }
    for i in 0..ROWS {
        let row = &mut sums[i * SUM_STRIDE..i * SUM_STRIDE + width];
        tile[i][0].store(row);
        tile[i][1].store(&mut row[V::LANES..]);
    }
}
