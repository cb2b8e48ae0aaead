//! Matrix product on all CPU cores (Goto & van de Geijn 2008, ACM TOMS 34, 12).
//!
//! op(B) is packed once into panels of two registers of columns, op(A) block by block into panels
//! of a few rows, so that the inner loop reads both in order. The inner loop keeps a tile of C in
//! registers: 12 rows of two AVX-512 registers use 24 of 32, and 6 rows of two AVX2 registers 12 of
//! 16. A step along k costs one load per register of columns and one broadcast per row.
//!
//! Blocks along k keep a panel of B in the L1 cache and the block of A in L2. The sums of a block
//! of rows are kept between them, so that each sum has the order of the definition.

use orrery_simd::{AlignedVec, InstructionSet, SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::{MatrixNumber, Product, View};

/// Numbers along k of a block. A panel of B has 256 × 32 f32: 32 KB, in an L1 cache of 32 to 48 KB.
const BLOCK_K: usize = 256;
/// Rows of a block, a multiple of the rows of every tile. 96 × 256 f32 are 96 KB, in the L2 cache.
const BLOCK_ROWS: usize = 96;
/// Columns whose sums a task keeps. 96 × 512 f32 are 192 KB, in the L2 cache.
const BLOCK_COLUMNS: usize = 512;

/// Computes the product on all CPU cores. The bits are those of
/// [`matmul_reference`](super::matmul_reference). Panics if a slice does not have the length of its
/// matrix.
pub fn matmul_on_cpu<T: MatrixNumber>(product: &Product<T>, a: &[T], b: &[T], c: &mut [T]) {
    product.check_lengths(a, b, c);
    multiply_with(InstructionSet::best(), product, a, b, c);
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
fn pack_columns<T: MatrixNumber>(product: &Product<T>, b: View<'_, T>, width: usize) -> AlignedVec<T> {
    let (n, k) = (product.n, product.k);
    let mut packed = AlignedVec::zeros(n.div_ceil(width) * width * k);
    if k == 0 {
        return packed;
    }
    packed.par_chunks_mut(width * k).enumerate().for_each(|(panel, to)| {
        let first = panel * width;
        let columns = width.min(n - first);
        for (p, row) in to.chunks_exact_mut(width).enumerate() {
            for (column, number) in row[..columns].iter_mut().enumerate() {
                *number = b.get(p, first + column);
            }
        }
    });
    packed
}

/// The product for at most [`BLOCK_ROWS`] rows of C.
struct MultiplyRows<'a, T> {
    product: &'a Product<T>,
    a: View<'a, T>,
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
        let mut packed_a = AlignedVec::zeros(BLOCK_ROWS * BLOCK_K);
        let mut sums = AlignedVec::zeros(BLOCK_ROWS * BLOCK_COLUMNS);
        let mut first_column = 0;
        while first_column < n {
            let columns = BLOCK_COLUMNS.min(n - first_column);
            sums.fill(T::ZERO);
            let mut first_p = 0;
            while first_p < k {
                let depth = BLOCK_K.min(k - first_p);
                self.pack_rows::<ROWS>(&mut packed_a, rows, first_p, depth);
                for panel in 0..columns.div_ceil(width) {
                    let start = (first_column / width + panel) * width * k + first_p * width;
                    let b = &self.packed_b[start..start + depth * width];
                    for strip in 0..rows.div_ceil(ROWS) {
                        let a = &packed_a[strip * ROWS * depth..(strip + 1) * ROWS * depth];
                        let to = &mut sums[strip * ROWS * BLOCK_COLUMNS + panel * width..];
                        multiply_tile::<V, ROWS>(a, b, to);
                    }
                }
                first_p += depth;
            }
            for row in 0..rows {
                let sums = &sums[row * BLOCK_COLUMNS..row * BLOCK_COLUMNS + columns];
                let to = &mut self.c[row * n + first_column..row * n + first_column + columns];
                for (number, &sum) in to.iter_mut().zip(sums) {
                    *number = self.product.combine(sum, *number);
                }
            }
            first_column += columns;
        }
    }

    /// Packs `depth` columns of the rows of op(A) as strips of `ROWS` rows, column by column. Rows
    /// beyond the last are 0.
    #[inline(always)]
    fn pack_rows<const ROWS: usize>(&self, packed: &mut [T], rows: usize, first_p: usize, depth: usize) {
        for strip in 0..rows.div_ceil(ROWS) {
            let to = &mut packed[strip * ROWS * depth..(strip + 1) * ROWS * depth];
            let in_strip = ROWS.min(rows - strip * ROWS);
            for i in 0..ROWS {
                for p in 0..depth {
                    to[p * ROWS + i] = if i < in_strip {
                        self.a.get(self.first_row + strip * ROWS + i, first_p + p)
                    } else {
                        T::ZERO
                    };
                }
            }
        }
    }
}

/// Adds the product of a packed strip of A and a packed panel of B to a tile of sums, whose rows
/// are [`BLOCK_COLUMNS`] numbers apart.
#[inline(always)]
fn multiply_tile<V: Vector, const ROWS: usize>(a: &[V::Scalar], b: &[V::Scalar], sums: &mut [V::Scalar]) {
    let width = 2 * V::LANES;
    let mut tile = [[V::splat(V::Scalar::default()); 2]; ROWS];
    for i in 0..ROWS {
        let row = &sums[i * BLOCK_COLUMNS..i * BLOCK_COLUMNS + width];
        tile[i] = [V::load(row), V::load(&row[V::LANES..])];
    }
    for (a, b) in a.chunks_exact(ROWS).zip(b.chunks_exact(width)) {
        let (left, right) = (V::load(b), V::load(&b[V::LANES..]));
        for i in 0..ROWS {
            let factor = V::splat(a[i]);
            tile[i][0] = factor.fused_mul_add(left, tile[i][0]);
            tile[i][1] = factor.fused_mul_add(right, tile[i][1]);
        }
    }
    for i in 0..ROWS {
        let row = &mut sums[i * BLOCK_COLUMNS..i * BLOCK_COLUMNS + width];
        tile[i][0].store(row);
        tile[i][1].store(&mut row[V::LANES..]);
    }
}
