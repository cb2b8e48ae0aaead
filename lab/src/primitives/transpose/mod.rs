//! Transpose of a matrix in row-major order:  bⱼᵢ = aᵢⱼ,  for elements of 1, 2, 4, 8 or 16 bytes.
//!
//! [`transpose_reference`] is the definition. [`transpose_on_cpu`] and [`Transpose`] write into a
//! second matrix. [`transpose_square_on_cpu`] and [`TransposeInPlace`] transpose a square in its
//! memory.
//!
//! Cost: each element is read once and written once, so memory bandwidth is the limit, as in a
//! copy. Rows of the input are neighbours in memory and columns are not, or the other way round for
//! the output. A direct loop therefore uses one element of each cache line that it fetches. All
//! fast versions move tiles whose rows fill whole cache lines on both sides. `transpose.cu`
//! explains how a tile passes through shared memory without bank conflicts, and [`rungs`] measures
//! the steps that lead to it.
//!
//! Not for matrices with fewer rows or columns than a tile (32 to 128): most threads of a block
//! then have no element. A single row or column is copied.

mod cpu;
mod device;
pub mod rungs;
pub mod selftest;

pub use cpu::{transpose_on_cpu, transpose_square_on_cpu};
pub use device::{Transpose, TransposeInPlace, TransposeStrategy};

/// Rows and columns of a matrix. Element (row, column) has the index row · columns + column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixShape {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
}

impl MatrixShape {
    /// Returns the shape of a square.
    pub fn square(side: usize) -> Self {
        Self { rows: side, columns: side }
    }

    /// Returns the number of elements.
    ///
    /// # Panics
    /// If it does not fit in a `usize`. No buffer has that many elements.
    pub fn element_count(self) -> usize {
        self.rows.checked_mul(self.columns).expect("the number of elements fits in memory")
    }
}

/// Reference implementation: copies one element after the other. `from` has `shape`, and `to` as
/// many columns as `from` has rows.
///
/// ```
/// use orrery_lab::primitives::transpose::{MatrixShape, transpose_reference};
///
/// let mut to = [0; 6];
/// transpose_reference(MatrixShape { rows: 2, columns: 3 }, &[1, 2, 3, 4, 5, 6], &mut to);
/// assert_eq!(to, [1, 4, 2, 5, 3, 6]);
/// ```
///
/// # Panics
/// If a slice has another length than the shape.
pub fn transpose_reference<T: Copy>(shape: MatrixShape, from: &[T], to: &mut [T]) {
    check_lengths(shape, from, to);
    for row in 0..shape.rows {
        for column in 0..shape.columns {
            to[column * shape.rows + row] = from[row * shape.columns + column];
        }
    }
}

/// Panics if a slice has another length than the shape.
fn check_lengths<T>(shape: MatrixShape, from: &[T], to: &[T]) {
    let expected = shape.element_count();
    assert!(
        from.len() == expected && to.len() == expected,
        "{shape:?} has {expected} elements, got {} and {}",
        from.len(),
        to.len()
    );
}

#[cfg(test)]
mod device_tests;
