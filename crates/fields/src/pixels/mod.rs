//! Means of a field over the pixels of a picture, with the range of its values.
//!
//! [`PixelWeights`] defines the means. On the host its rows are computed by all threads, and on a
//! device by one kernel. Both give the same bits, so a picture does not depend on the device.

mod device;

pub use device::{BlocksOfRow, DeviceMeans, StridedNodes};

use orrery_model::grid::{PixelMeans, PixelWeights};
use rayon::prelude::*;

use crate::Scalar;

/// Returns an upper bound of the bytes that means of a picture with (width, height) pixels need on
/// a device, for a grid with `nx` nodes along x.
pub fn pixel_mean_bytes(nx: usize, (width, height): (u32, u32)) -> u64 {
    device::needed_bytes(nx as u64, [width.into(), height.into()])
}

/// Returns the means of `values`, which has one value per node, x fastest.
pub(crate) fn means_of_values<R: Scalar>(values: &[R], weights: &PixelWeights) -> Vec<f64> {
    let mut means = vec![0.0; weights.width() * weights.height()];
    means
        .par_chunks_exact_mut(weights.width())
        .enumerate()
        .for_each_init(Vec::new, |scratch, (row, line)| weights.compute_row(values, row, scratch, line));
    means
}

/// Returns means and range of `values`, which has one value per node, x fastest.
pub(crate) fn pixel_means_of<R: Scalar>(values: &[R], weights: &PixelWeights) -> PixelMeans {
    let empty = (f64::INFINITY, f64::NEG_INFINITY);
    let wider = |a: (f64, f64), b: (f64, f64)| (smaller(a.0, b.0), larger(a.1, b.1));
    let of_chunk =
        |chunk: &[R]| chunk.iter().fold(empty, |range, value| wider(range, (value.to_f64(), value.to_f64())));
    let (min, max) = values.par_chunks(1 << 14).map(of_chunk).reduce(|| empty, wider);
    PixelMeans { means: means_of_values(values, weights), min, max }
}

/// Fails if two results differ in a bit. NaN is equal to NaN, because its bits depend on the
/// device.
pub(crate) fn compare_means(found: &PixelMeans, expected: &PixelMeans) -> Result<(), String> {
    let is_same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    if found.means.len() != expected.means.len() {
        return Err(format!("got {} means, expected {}", found.means.len(), expected.means.len()));
    }
    let mut pairs = found.means.iter().zip(&expected.means);
    if let Some(pixel) = pairs.position(|(&found, &expected)| !is_same(found, expected)) {
        let (found, expected) = (found.means[pixel], expected.means[pixel]);
        return Err(format!("the mean of pixel {pixel} is {found:?}, expected {expected:?}"));
    }
    // The order in which 0 and -0 are compared is not defined.
    let is_equal = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    if is_equal(found.min, expected.min) && is_equal(found.max, expected.max) {
        return Ok(());
    }
    let (expected_min, expected_max) = (expected.min, expected.max);
    Err(format!("the range is [{}, {}], expected [{expected_min}, {expected_max}]", found.min, found.max))
}

/// Returns the smaller number, or NaN if one of them is NaN.
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if b < a || b.is_nan() { b } else { a }
}

/// Returns the larger number, or NaN if one of them is NaN.
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}
