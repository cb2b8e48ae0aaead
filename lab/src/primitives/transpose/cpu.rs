//! Transpose on all CPU cores.
//!
//! A task transposes a block with rows of [`BLOCK_BYTES`], tile by tile, for example 256 x 256 f32
//! in tiles of 64 x 64. A tile passes through a local array that fits in the L1 cache, so all bytes
//! of a cache line are used when the line is read or written. Otherwise lines would be evicted
//! before their other elements are used, because rows at a distance of a power of two lie in the
//! same set of the cache. A block limits the number of memory pages in use.

use rayon::prelude::*;

use super::{MatrixShape, check_lengths};

/// Bytes of a row of a block. 2 x 256 rows of f32 lie in at most as many pages, which the TLB of a
/// core holds.
const BLOCK_BYTES: usize = 1024;

/// Returns the number of rows and columns of a block.
const fn block_side<T>() -> usize {
    if size_of::<T>() < BLOCK_BYTES / 4 { BLOCK_BYTES / size_of::<T>() } else { 4 }
}

/// Calls `$function::<T, N>`, where N is the number of rows and columns of a tile. On a Xeon, tiles
/// of 64 x 64 f32 were about 1.5 times as fast as those of 16 x 16, whose rows are single cache
/// lines (`orrery ladder transpose --device cpu -n 16777216`). Larger tiles would not fit in the L1
/// cache.
macro_rules! with_tile_side {
    ($function:ident, $element:ty, $($argument:expr),*) => {
        match size_of::<$element>() {
            0..=4 => $function::<$element, 64>($($argument),*),
            5..=16 => $function::<$element, 32>($($argument),*),
            _ => $function::<$element, 8>($($argument),*),
        }
    };
}

/// Transposes `from` into `to` on all CPU cores. `from` has `shape`, and `to` as many columns as
/// `from` has rows.
///
/// # Panics
/// If a slice has another length than the shape, or if an element has no bytes.
pub fn transpose_on_cpu<T: Copy + Send + Sync>(shape: MatrixShape, from: &[T], to: &mut [T]) {
    check_lengths(shape, from, to);
    if from.is_empty() {
        return;
    }
    let side = block_side::<T>();
    to.par_chunks_mut(side * shape.rows).enumerate().for_each(|(band, rows_of_band)| {
        let block_count = shape.rows.div_ceil(side);
        let mut blocks: Vec<Vec<&mut [T]>> = (0..block_count).map(|_| Vec::with_capacity(side)).collect();
        for row in rows_of_band.chunks_mut(shape.rows) {
            for (block, part) in blocks.iter_mut().zip(row.chunks_mut(side)) {
                block.push(part);
            }
        }
        blocks.into_par_iter().enumerate().for_each(|(block, mut to_rows)| {
            let from_block = &from[block * side * shape.columns + band * side..];
            with_tile_side!(transpose_block, T, from_block, shape.columns, &mut to_rows);
        });
    });
}

/// Writes the transpose of a block to `to_rows`, which all have the same length. The block starts
/// at the first element of `from`, whose rows are `columns` elements apart.
fn transpose_block<T: Copy, const N: usize>(from: &[T], columns: usize, to_rows: &mut [&mut [T]]) {
    let row_count = to_rows[0].len();
    for (first_column, to_rows) in (0..).step_by(N).zip(to_rows.chunks_mut(N)) {
        for first_row in (0..row_count).step_by(N) {
            if to_rows.len() == N && row_count - first_row >= N {
                let row = |i: usize| read_row(&from[(first_row + i) * columns + first_column..]);
                write_columns::<T, N>(&std::array::from_fn(row), to_rows, first_row);
            } else {
                for (column, to_row) in (first_column..).zip(to_rows.iter_mut()) {
                    for row in first_row..row_count.min(first_row + N) {
                        to_row[row] = from[row * columns + column];
                    }
                }
            }
        }
    }
}

/// Returns the first N elements.
fn read_row<T: Copy, const N: usize>(from: &[T]) -> [T; N] {
    *from.first_chunk().expect("a tile lies within the matrix")
}

/// Writes column j of a tile to `to_rows[j]`, from element `first` on.
fn write_columns<T: Copy, const N: usize>(tile: &[[T; N]; N], to_rows: &mut [&mut [T]], first: usize) {
    for (j, to_row) in to_rows.iter_mut().enumerate().take(N) {
        let column: [T; N] = std::array::from_fn(|i| tile[i][j]);
        to_row[first..first + N].copy_from_slice(&column);
    }
}

/// Transposes a square of `side` x `side` elements in its memory, on all CPU cores.
///
/// # Panics
/// If the slice has another length, or if an element has no bytes.
pub fn transpose_square_on_cpu<T: Copy + Send>(side: usize, matrix: &mut [T]) {
    let expected = MatrixShape::square(side).element_count();
    assert!(matrix.len() == expected, "{side} x {side} has {expected} elements, got {}", matrix.len());
    if side > 0 {
        transpose_rows(matrix.chunks_mut(side).collect());
    }
}

/// Transposes a square that is given by its rows: the two quarters on the diagonal in their places,
/// and the other two into each other's place.
fn transpose_rows<T: Copy + Send>(mut rows: Vec<&mut [T]>) {
    let side = rows.len();
    if side <= block_side::<T>() {
        for i in 1..side {
            let (above, row) = rows.split_at_mut(i);
            for (j, row_above) in above.iter_mut().enumerate() {
                std::mem::swap(&mut row_above[i], &mut row[0][j]);
            }
        }
        return;
    }
    let half = side / 2;
    let lower = rows.split_off(half);
    let (upper_left, upper_right) = split_columns(rows, half);
    let (lower_left, lower_right) = split_columns(lower, half);
    rayon::join(
        || exchange_transposed(upper_right, lower_left),
        || rayon::join(|| transpose_rows(upper_left), || transpose_rows(lower_right)),
    );
}

/// Splits every row before element `at`.
fn split_columns<T>(rows: Vec<&mut [T]>, at: usize) -> (Vec<&mut [T]>, Vec<&mut [T]>) {
    rows.into_iter().map(|row| row.split_at_mut(at)).unzip()
}

/// Exchanges a[i][j] and b[j][i] for all i and j. `b` has as many rows as `a` has columns.
fn exchange_transposed<T: Copy + Send>(mut a: Vec<&mut [T]>, mut b: Vec<&mut [T]>) {
    let (a_rows, b_rows) = (a.len(), b.len());
    if a_rows.max(b_rows) <= block_side::<T>() {
        with_tile_side!(exchange_block, T, &mut a, &mut b);
        return;
    }
    if a_rows < b_rows {
        return exchange_transposed(b, a);
    }
    let lower_a = a.split_off(a_rows / 2);
    let (left_b, right_b) = split_columns(b, a_rows / 2);
    rayon::join(|| exchange_transposed(a, left_b), || exchange_transposed(lower_a, right_b));
}

/// As [`exchange_transposed`], tile by tile.
fn exchange_block<T: Copy, const N: usize>(a: &mut [&mut [T]], b: &mut [&mut [T]]) {
    for (first_row, a_rows) in (0..).step_by(N).zip(a.chunks_mut(N)) {
        for (first_column, b_rows) in (0..).step_by(N).zip(b.chunks_mut(N)) {
            if a_rows.len() == N && b_rows.len() == N {
                let tile_of_a: [[T; N]; N] = std::array::from_fn(|i| read_row(&a_rows[i][first_column..]));
                let tile_of_b: [[T; N]; N] = std::array::from_fn(|j| read_row(&b_rows[j][first_row..]));
                write_columns(&tile_of_a, b_rows, first_row);
                write_columns(&tile_of_b, a_rows, first_column);
            } else {
                for (i, a_row) in (first_row..).zip(a_rows.iter_mut()) {
                    for (j, b_row) in (first_column..).zip(b_rows.iter_mut()) {
                        std::mem::swap(&mut a_row[j], &mut b_row[i]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::transpose::transpose_reference;

    /// Compares both versions for the CPU with the reference.
    fn check<T: Copy + Default + PartialEq + Send + Sync>(shapes: &[[usize; 2]], sample: fn(usize) -> T) {
        for &[rows, columns] in shapes {
            let shape = MatrixShape { rows, columns };
            let from: Vec<T> = (0..rows * columns).map(sample).collect();
            let (mut expected, mut found) = (vec![T::default(); from.len()], vec![T::default(); from.len()]);
            transpose_reference(shape, &from, &mut expected);
            transpose_on_cpu(shape, &from, &mut found);
            assert!(found == expected, "{shape:?}, {} bytes", size_of::<T>());
            if rows == columns {
                let mut square = from;
                transpose_square_on_cpu(rows, &mut square);
                assert!(square == expected, "in place: {shape:?}, {} bytes", size_of::<T>());
            }
        }
    }

    /// Shapes around the borders of tiles and blocks. A matrix of 600 x 600 f32 has 3 x 3 blocks of
    /// 4 x 4 tiles.
    #[test]
    fn cpu_results_equal_the_reference() {
        let mut shapes = vec![[0, 0], [0, 7], [5, 0], [1, 1], [1, 300], [300, 1], [2, 3]];
        for side in [4, 15, 16, 17, 63, 64, 65, 255, 256, 257] {
            shapes.extend([[side, side], [side, side + 1], [3 * side, side], [side, 2 * side + 5]]);
        }
        shapes.push([600, 600]);
        check(&shapes, |i| (i * 37 + i / 251) as u8);
        check(&shapes, |i| (i * 37) as u16);
        check(&shapes, |i| i as f32);
        check(&shapes, |i| i as u64);
        check(&shapes, |i| [i as f32, 0.5, -1.0, (2 * i) as f32]);
        check(&shapes[..20], |i| [i as u8, (i >> 8) as u8, 7]);
    }

    #[test]
    #[should_panic(expected = "MatrixShape { rows: 2, columns: 3 } has 6 elements, got 6 and 5")]
    fn wrong_lengths_are_refused() {
        transpose_on_cpu(MatrixShape { rows: 2, columns: 3 }, &[0; 6], &mut [0; 5]);
    }
}
