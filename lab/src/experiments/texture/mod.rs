//! Samples of an image along a rotated raster, from global memory, constant memory and textures.
//!
//! Pixel (column, row) of the output is the image at the position that a rotation about the centre
//! of the image maps it to: the nearest texel, or the linear interpolation
//!
//! T = (1 - b) ((1 - a) T_(i,j) + a T_(i+1,j)) + b ((1 - a) T_(i,j+1) + a T_(i+1,j+1))
//!
//! between the four texels around it, where a and b are the fractions of the position relative to
//! the centre of texel (i, j). Positions outside the image are moved to its edge.
//!
//! Cost: 8 bytes per pixel if each texel is read from memory once. A row of the output follows a
//! line through the image, so texels of a sector are used by different rows, and a cache is needed.
//!
//! Error: coordinates have the same bits in all implementations ([`Raster::position`]), so nearest
//! samples are equal to the bit. Linear interpolation by hand rounds four times in sequence, an
//! error of at most 2^-22 of the range. The texture units of NVIDIA keep 8 fractional bits of a and
//! b (CUDA C++ Programming Guide, "Linear Filtering"), an error of up to 2^-8 of the range per
//! axis. Rounding to nearest would give half of that, but an H200 has larger errors.
//!
//! When not to use the texture unit for interpolation: if 2^-7 of the range is too large an error.

mod gather;
pub mod selftest;

pub use gather::{Gather, GatherMethod, TextureRung, rungs};

use orrery_device::testing::random_bits;
use orrery_simd::{InstructionSet, SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

/// Side of the small table. The table has 16 KiB.
pub const TABLE_SIDE: usize = 64;

/// Largest error of the linear interpolation by hand, for values between 0 and 1. The upper line,
/// the lower line, their difference and the result are each rounded to f32, with two roundings for
/// a line. Weighted sums of them add up to at most four roundings of 2^-24.
pub const HAND_ERROR_BOUND: f64 = 4.0 / (1 << 24) as f64;
/// Largest error of the linear interpolation by a texture unit whose weights have 8 fractional
/// bits, for values between 0 and 1: 2^-8 per axis, and their product.
pub const UNIT_ERROR_BOUND: f64 = 2.0 / 256.0 + 2.0 / (256.0 * 256.0);

/// Row-major image with values from 0 to 1. Texel (i, j) is at i + j * width.
#[derive(Clone, Debug, PartialEq)]
pub struct TextureImage {
    /// Number of texels along x.
    pub width: usize,
    /// Number of texels along y.
    pub height: usize,
    /// Values of the texels.
    pub texels: Vec<f32>,
}

impl TextureImage {
    /// Creates an image of random values. Neighbouring texels are independent, so a wrong texel or
    /// a wrong weight gives a large error.
    pub fn random(width: usize, height: usize) -> Self {
        let value = |index: usize| (random_bits(index as u64) >> 40) as f32 / (1 << 24) as f32;
        Self { width, height, texels: (0..width * height).into_par_iter().map(value).collect() }
    }

    #[inline(always)]
    fn texel(&self, i: usize, j: usize) -> f32 {
        self.texels[i + j * self.width]
    }
}

/// Raster of sample positions: as many pixels as the image has texels, rotated about its centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raster {
    width: usize,
    height: usize,
    cosine: f32,
    sine: f32,
}

impl Raster {
    /// Creates a raster of at most 2^24 x 2^24 pixels. Larger indices are not exact in f32.
    pub fn new(width: usize, height: usize, degrees: f64) -> Self {
        let (sine, cosine) = degrees.to_radians().sin_cos();
        Self { width, height, cosine: cosine as f32, sine: sine as f32 }
    }

    /// Returns the position of a pixel in texels. Texel (i, j) covers i to i + 1 and j to j + 1.
    /// The kernels compute the same bits.
    #[inline(always)]
    pub fn position(&self, column: usize, row: usize) -> [f32; 2] {
        let u = column as f32 - 0.5 * (self.width - 1) as f32;
        let v = row as f32 - 0.5 * (self.height - 1) as f32;
        [
            self.cosine.mul_add(u, (-self.sine).mul_add(v, 0.5 * self.width as f32)),
            self.sine.mul_add(u, self.cosine.mul_add(v, 0.5 * self.height as f32)),
        ]
    }

    /// Reference implementation: returns the nearest texel of each pixel, row by row.
    pub fn nearest(&self, image: &TextureImage) -> Vec<f32> {
        let mut out = vec![0.0; self.width * self.height];
        let rows = NearestRows { raster: self, image, first_row: 0, out: &mut out };
        dispatch(InstructionSet::best(), rows);
        out
    }

    /// Computes [`Self::nearest`] on all CPU cores.
    pub fn nearest_on_cpu(&self, image: &TextureImage) -> Vec<f32> {
        let mut out = vec![0.0; self.width * self.height];
        out.par_chunks_mut(ROWS_PER_TASK * self.width).enumerate().for_each(|(task, out)| {
            let rows = NearestRows { raster: self, image, first_row: task * ROWS_PER_TASK, out };
            dispatch(InstructionSet::best(), rows);
        });
        out
    }

    /// Returns the nearest texel of a pixel. The image has the size of the raster.
    #[inline(always)]
    pub fn nearest_at(&self, image: &TextureImage, column: usize, row: usize) -> f32 {
        let [i, j] = self.nearest_indices(column, row);
        image.texel(i, j)
    }

    /// Returns the nearest value of a table that is repeated over the raster.
    pub fn table_value_at(&self, table: &TextureImage, column: usize, row: usize) -> f32 {
        let [i, j] = self.nearest_indices(column, row);
        table.texel(i % table.width, j % table.height)
    }

    #[inline(always)]
    fn nearest_indices(&self, column: usize, row: usize) -> [usize; 2] {
        let [x, y] = self.position(column, row);
        // The conversion of a negative number gives 0.
        [(x as usize).min(self.width - 1), (y as usize).min(self.height - 1)]
    }

    /// Returns the linear interpolation for a pixel, in f64 from the position in f32. The image has
    /// the size of the raster.
    pub fn linear_at(&self, image: &TextureImage, column: usize, row: usize) -> f64 {
        let [x, y] = self.position(column, row);
        // Index, next index and weight along an axis.
        let neighbours = |coordinate: f32, count: usize| {
            let from_centre = (f64::from(coordinate) - 0.5).clamp(0.0, (count - 1) as f64);
            let index = from_centre as usize;
            (index, (index + 1).min(count - 1), from_centre - index as f64)
        };
        let ((i, next_i, a), (j, next_j, b)) = (neighbours(x, self.width), neighbours(y, self.height));
        let value = |i, j| f64::from(image.texel(i, j));
        (1.0 - b) * ((1.0 - a) * value(i, j) + a * value(next_i, j))
            + b * ((1.0 - a) * value(i, next_j) + a * value(next_i, next_j))
    }
}

/// Rows per task of the thread pool.
const ROWS_PER_TASK: usize = 16;

/// Nearest samples of whole rows, compiled for each instruction set: without one for fused
/// multiply-adds, each of them would be a call.
struct NearestRows<'a> {
    raster: &'a Raster,
    image: &'a TextureImage,
    first_row: usize,
    /// One element per pixel of the rows.
    out: &'a mut [f32],
}

impl SimdKernel for NearestRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        for (row, line) in self.out.chunks_exact_mut(self.raster.width).enumerate() {
            for (column, pixel) in line.iter_mut().enumerate() {
                *pixel = self.raster.nearest_at(self.image, column, self.first_row + row);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raster_without_rotation_gives_the_image() {
        for (width, height) in [(1, 1), (5, 1), (1, 7), (33, 18)] {
            let image = TextureImage::random(width, height);
            let raster = Raster::new(width, height, 0.0);
            assert_eq!(raster.nearest(&image), image.texels);
            for (column, row) in (0..height).flat_map(|row| (0..width).map(move |column| (column, row))) {
                assert_eq!(raster.linear_at(&image, column, row), f64::from(image.texel(column, row)));
            }
        }
    }

    /// A quarter turn maps pixel (column, row) of a square to texel (n - 1 - row, column).
    #[test]
    fn a_quarter_turn_transposes_and_mirrors() {
        let image = TextureImage::random(9, 9);
        let raster = Raster::new(9, 9, 90.0);
        let turned: Vec<f32> = (0..81).map(|pixel| image.texel(8 - pixel / 9, pixel % 9)).collect();
        assert_eq!(raster.nearest(&image), turned);
        assert_eq!(raster.nearest_on_cpu(&image), turned);
    }

    /// Pixel 70 of a row without rotation is in the second repetition of the table.
    #[test]
    fn a_table_is_repeated() {
        let table = TextureImage::random(TABLE_SIDE, TABLE_SIDE);
        let raster = Raster::new(150, 100, 0.0);
        assert_eq!(raster.table_value_at(&table, 70, 65), table.texel(70 - 64, 65 - 64));
    }

    /// The interpolation reproduces a linear function within the centres of the edge texels.
    #[test]
    fn interpolation_is_exact_for_a_linear_image() {
        let (width, height) = (40, 30);
        let value = |x: f64, y: f64| 0.01 * x + 0.02 * y;
        let texels = (0..width * height)
            .map(|pixel| value((pixel % width) as f64 + 0.5, (pixel / width) as f64 + 0.5) as f32);
        let image = TextureImage { width, height, texels: texels.collect() };
        let raster = Raster::new(width, height, 25.0);
        let mut inside = 0;
        for (column, row) in (0..height).flat_map(|row| (0..width).map(move |column| (column, row))) {
            let [x, y] = raster.position(column, row).map(f64::from);
            if (0.5..=width as f64 - 0.5).contains(&x) && (0.5..=height as f64 - 0.5).contains(&y) {
                // The texels are rounded to f32.
                assert!((raster.linear_at(&image, column, row) - value(x, y)).abs() < 1e-7, "{x} {y}");
                inside += 1;
            }
        }
        assert!(inside > width * height / 2, "{inside}");
    }
}
