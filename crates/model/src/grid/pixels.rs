//! Means of a field over the pixels of a picture.
//!
//! Between nodes the field is bilinear: u(x, y) = Σ u_ij Λ(x/hx − i) Λ(y/hy − j), with the hat
//! function Λ(t) = max(0, 1 − |t|). A pixel shows the mean of u over its area. On a grid that is
//! coarser than the picture this interpolates. On a finer grid it averages over all nodes of the
//! pixel, so no structure aliases. In both cases the mean of the picture is that of the field by
//! the trapezoidal rule.
//!
//! Means are separable. For a row of pixels, the rows of nodes are summed in each column of nodes,
//! and then the columns of each pixel. Both sums have the form
//!
//!   Σ w_k u_k  over nodes with a part of their hat in the pixel  +  w Σ u_k  over whole hats
//!
//! with the nodes in increasing order. Every product and every sum is rounded to f64, and none is
//! fused. Other implementations use the same order, so they give the same bits.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Boundaries, Grid};

/// Most nodes of a pixel that have only a part of their hat in it: two at each end.
pub const MAX_PARTIAL: usize = 4;

/// Columns that are summed together. Two arrays of this length stay in the fastest cache.
const CHUNK: usize = 1024;

/// Weights of the nodes of a grid in the pixels of a picture.
///
/// ```
/// use orrery_model::grid::{Boundaries, Boundary, Grid, PixelWeights};
///
/// let grid = Grid { nx: 5, ny: 3, hx: 1.0, hy: 1.0 };
/// let weights = PixelWeights::new(&grid, &Boundaries::uniform(Boundary::fixed(0.0)), (2, 1));
/// // The mean of u = x from 0 to 2, and from 2 to 4.
/// let values: Vec<f32> = (0..grid.len()).map(|index| grid.coordinates(index)[0] as f32).collect();
/// let mut means = [0.0; 2];
/// weights.compute_row(&values, 0, &mut Vec::new(), &mut means);
/// assert_eq!(means, [1.0, 3.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PixelWeights {
    columns: AxisWeights,
    rows: AxisWeights,
}

/// Nodes that contribute to the pixels along one direction.
///
/// Kernels rely on the invariant: all nodes of a pixel are at positions up to `nodes`, without
/// `nodes` itself if the direction is not periodic.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisWeights {
    nodes: usize,
    is_periodic: bool,
    pixels: Vec<PixelNodes>,
}

/// Numbers from which [`PixelWeights`] follow, along x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PixelDivision {
    /// Nodes of the grid.
    pub nodes: [usize; 2],
    /// Whether the edges are periodic.
    pub is_periodic: [bool; 2],
    /// Pixels of the picture.
    pub pixels: [usize; 2],
}

/// Nodes whose hats overlap the interval of one pixel. They are at consecutive positions from
/// `first` on. Only in a periodic direction the last position can be the number of nodes, which is
/// node 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PixelNodes {
    /// Position of the first node.
    pub first: usize,
    /// Number of nodes with a part of their hat in the interval, before the whole hats.
    pub low: usize,
    /// Number of nodes whose hat is inside the interval.
    pub whole: usize,
    /// Number of nodes with a part of their hat in the interval, after the whole hats.
    pub high: usize,
    /// Weights of the `low` nodes, then of the `high` nodes. The others are 0.
    pub weights: [f64; MAX_PARTIAL],
    /// Weight of each whole hat.
    pub whole_weight: f64,
}

/// Means of a field over the pixels of a picture, with the range of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct PixelMeans {
    /// Mean of each pixel, in rows that have the order of the rows of the grid.
    pub means: Vec<f64>,
    /// Smallest value of all nodes. NaN if a value is NaN.
    pub min: f64,
    /// Largest value of all nodes. NaN if a value is NaN.
    pub max: f64,
}

/// Largest |u| for which no sum overflows. A sum has at most 2^30 terms.
const SAFE_VALUE: f64 = 1e290;

impl PixelMeans {
    /// Returns true if a mean is NaN: because a value is, or because a sum overflows.
    pub fn has_nan(&self) -> bool {
        let is_safe = |value: f64| value.abs() <= SAFE_VALUE;
        !(is_safe(self.min) && is_safe(self.max)) && self.means.iter().any(|mean| mean.is_nan())
    }
}

impl PixelWeights {
    /// Divides the plate into (width, height) pixels.
    pub fn new(grid: &Grid, boundaries: &Boundaries, (width, height): (usize, usize)) -> Self {
        Self::from_division(PixelDivision {
            nodes: [grid.nx, grid.ny],
            is_periodic: [boundaries.is_periodic_in_x(), boundaries.is_periodic_in_y()],
            pixels: [width, height],
        })
    }

    /// Returns the weights of a division.
    pub fn from_division(division: PixelDivision) -> Self {
        let PixelDivision { nodes, is_periodic, pixels } = division;
        let [columns, rows] =
            [0, 1].map(|axis| AxisWeights::new(nodes[axis], is_periodic[axis], pixels[axis]));
        Self { columns, rows }
    }

    /// Returns the numbers from which the weights follow.
    pub fn division(&self) -> PixelDivision {
        let axes = [&self.columns, &self.rows];
        PixelDivision {
            nodes: axes.map(|axis| axis.nodes),
            is_periodic: axes.map(|axis| axis.is_periodic),
            pixels: axes.map(|axis| axis.pixels.len()),
        }
    }

    /// Returns the weights of some rows of pixels for a part of the rows of nodes: those at `nodes`
    /// positions from `first` on. All nodes of these pixels must be there.
    ///
    /// # Panics
    /// If they are not.
    pub fn part(&self, rows: Range<usize>, first: usize, nodes: usize) -> Self {
        let shifted = |pixel: &PixelNodes| {
            assert!(pixel.first >= first && pixel.end() <= first + nodes, "nodes of another part");
            PixelNodes { first: pixel.first - first, ..*pixel }
        };
        let pixels = self.rows.pixels[rows].iter().map(shifted).collect();
        Self { columns: self.columns.clone(), rows: AxisWeights { nodes, is_periodic: false, pixels } }
    }

    /// Returns the weights of the columns of pixels.
    pub fn columns(&self) -> &AxisWeights {
        &self.columns
    }

    /// Returns the weights of the rows of pixels, in the order of the rows of the grid.
    pub fn rows(&self) -> &AxisWeights {
        &self.rows
    }

    /// Returns the number of pixels per row.
    pub fn width(&self) -> usize {
        self.columns.pixels.len()
    }

    /// Returns the number of rows of pixels.
    pub fn height(&self) -> usize {
        self.rows.pixels.len()
    }

    /// Computes the means of a row of pixels. `values` has one value per node, x fastest, and
    /// `means` has one per column of pixels. `scratch` is memory that the next call can use again.
    pub fn compute_row<T: Copy + Into<f64>>(
        &self,
        values: &[T],
        row: usize,
        scratch: &mut Vec<f64>,
        means: &mut [f64],
    ) {
        let (nx, ny) = (self.columns.nodes, self.rows.nodes);
        let nodes = &self.rows.pixels[row];
        scratch.resize(nx, 0.0);
        for (chunk, sums) in scratch.chunks_mut(CHUNK).enumerate() {
            let columns = chunk * CHUNK..chunk * CHUNK + sums.len();
            let line = |position: usize| &values[position % ny * nx..][columns.clone()];
            sums.fill(0.0);
            for (position, weight) in nodes.partial() {
                for (sum, &value) in sums.iter_mut().zip(line(position)) {
                    *sum += weight * value.into();
                }
            }
            let mut whole = [0.0; CHUNK];
            for position in nodes.whole() {
                for (sum, &value) in whole.iter_mut().zip(line(position)) {
                    *sum += value.into();
                }
            }
            for (sum, whole) in sums.iter_mut().zip(whole) {
                *sum += nodes.whole_weight * whole;
            }
        }
        for (mean, column) in means.iter_mut().zip(&self.columns.pixels) {
            *mean = column.weighted_sum(|position| scratch[position % nx]);
        }
    }
}

impl AxisWeights {
    fn new(nodes: usize, is_periodic: bool, pixels: usize) -> Self {
        let cells = if is_periodic { nodes } else { nodes - 1 };
        let pixels = (0..pixels).map(|pixel| PixelNodes::new(pixel, pixels, cells)).collect();
        Self { nodes, is_periodic, pixels }
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the nodes of each pixel.
    pub fn pixels(&self) -> &[PixelNodes] {
        &self.pixels
    }
}

impl PixelNodes {
    /// Returns the nodes of one of `pixels` equal parts of 0..`cells`, with nodes at the integers.
    fn new(pixel: usize, pixels: usize, cells: usize) -> Self {
        let boundary = |k: usize| k as f64 / pixels as f64 * cells as f64;
        let (low, high) = (boundary(pixel), boundary(pixel + 1));
        let weight = |node: usize| hat_integral(high - node as f64) - hat_integral(low - node as f64);
        let overlapping = low.floor() as usize..(high.ceil() as usize).min(cells) + 1;
        let whole = low.ceil() as usize + 1..high.floor() as usize;
        // Without whole hats, all nodes are below them.
        let whole = if whole.is_empty() { overlapping.end..overlapping.end } else { whole };
        // A node without weight must not contribute, because it could be NaN. Only nodes at the
        // ends can have none.
        let has_weight = |node: &usize| weight(*node) > 0.0;
        let first = overlapping.clone().find(has_weight).unwrap_or(overlapping.start);
        let end = overlapping.clone().rfind(has_weight).map_or(first, |last| last + 1);
        let whole = whole.start.min(end)..whole.end.min(end);
        let mut weights = [0.0; MAX_PARTIAL];
        let partial = (first..whole.start).chain(whole.end..end);
        for (slot, node) in weights.iter_mut().zip(partial) {
            *slot = weight(node);
        }
        // The sum of the weights, high − low up to round-off. A constant field stays constant.
        let sum = weights.iter().sum::<f64>() + whole.len() as f64;
        Self {
            first,
            low: whole.start - first,
            whole: whole.len(),
            high: end - whole.end,
            weights: weights.map(|weight| weight / sum),
            whole_weight: 1.0 / sum,
        }
    }

    /// Returns the position after the last node.
    pub fn end(&self) -> usize {
        self.first + self.low + self.whole + self.high
    }

    /// Returns the positions of the whole hats.
    fn whole(&self) -> Range<usize> {
        self.first + self.low..self.first + self.low + self.whole
    }

    /// Returns the positions of the other nodes with their weights.
    fn partial(&self) -> impl Iterator<Item = (usize, f64)> {
        let whole = self.whole();
        (self.first..whole.start).chain(whole.end..self.end()).zip(self.weights)
    }

    /// Returns the weighted sum of the values at the positions of the nodes.
    fn weighted_sum(&self, value: impl Fn(usize) -> f64) -> f64 {
        let (mut partial, mut whole) = (0.0, 0.0);
        for (position, weight) in self.partial() {
            partial += weight * value(position);
        }
        for position in self.whole() {
            whole += value(position);
        }
        partial + self.whole_weight * whole
    }
}

/// Integral of the hat function from −1 to `t`.
fn hat_integral(t: f64) -> f64 {
    match t {
        t if t <= -1.0 => 0.0,
        t if t <= 0.0 => 0.5 * (1.0 + t) * (1.0 + t),
        t if t <= 1.0 => 1.0 - 0.5 * (1.0 - t) * (1.0 - t),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Boundary;
    use super::*;

    fn resample(
        nx: usize,
        ny: usize,
        boundary: Boundary,
        pixels: (usize, usize),
        values: &[f64],
    ) -> Vec<f64> {
        let grid = Grid { nx, ny, hx: 1.0, hy: 1.0 };
        let weights = PixelWeights::new(&grid, &Boundaries::uniform(boundary), pixels);
        let (mut means, mut scratch) = (vec![0.0; pixels.0 * pixels.1], Vec::new());
        for (row, line) in means.chunks_exact_mut(pixels.0).enumerate() {
            weights.compute_row(values, row, &mut scratch, line);
        }
        means
    }

    /// Finer and coarser grids, also with sizes that have no common divisor, and with more columns
    /// than are summed together.
    #[test]
    fn mean_of_the_picture_is_the_mean_of_the_field() {
        for (nx, ny, pixels) in [
            (3, 3, (50, 41)),
            (97, 61, (13, 7)),
            (40, 200, (40, 31)),
            (9, 300, (17, 2)),
            (2 * CHUNK + 5, 4, (3, 3)),
        ] {
            let values: Vec<f64> = (0..nx * ny).map(|i| ((i * 7919) % 1013) as f64 - 300.0).collect();
            for boundary in [Boundary::fixed(0.0), Boundary::Periodic] {
                let is_periodic = boundary == Boundary::Periodic;
                let half =
                    |k: usize, n: usize| if !is_periodic && (k == 0 || k == n - 1) { 0.5 } else { 1.0 };
                let weight = |i: usize| half(i % nx, nx) * half(i / nx, ny);
                let (sum, weights) =
                    (0..nx * ny).fold((0.0, 0.0), |(s, w), i| (s + weight(i) * values[i], w + weight(i)));
                let means = resample(nx, ny, boundary, pixels, &values);
                let mean = means.iter().sum::<f64>() / means.len() as f64;
                // Round-off of a sum of about 12,000 values of size 700.
                assert!((mean - sum / weights).abs() < 1e-9, "{nx}x{ny}: {mean} {}", sum / weights);
            }
        }
    }

    /// The mean of a linear function over a pixel is its value at the centre of the pixel.
    #[test]
    fn linear_fields_are_reproduced() {
        for (nx, ny, width, height) in [(4, 5, 60, 30), (300, 41, 7, 11)] {
            let values: Vec<f64> = (0..nx * ny).map(|i| (i % nx) as f64 + 10.0 * (i / nx) as f64).collect();
            let means = resample(nx, ny, Boundary::INSULATED, (width, height), &values);
            for (p, mean) in means.iter().enumerate() {
                let x = ((p % width) as f64 + 0.5) / width as f64 * (nx - 1) as f64;
                let y = ((p / width) as f64 + 0.5) / height as f64 * (ny - 1) as f64;
                assert!((mean - (x + 10.0 * y)).abs() < 1e-9, "{nx}x{ny}, pixel {p}: {mean}");
            }
        }
    }

    /// Alternating columns finer than the pixels become grey instead of a moiré pattern.
    #[test]
    fn fine_structure_is_averaged() {
        let values: Vec<f64> = (0..1001 * 3).map(|i| (i % 1001 % 2) as f64).collect();
        let means = resample(1001, 3, Boundary::INSULATED, (37, 2), &values);
        // A pixel covers 27 cells. The mean of the hats differs from 1/2 by at most 1/4 of a cell.
        assert!(means.iter().all(|m| (m - 0.5).abs() < 0.25 / 27.0), "{means:?}");
    }

    #[test]
    fn periodic_edges_continue_on_the_other_side() {
        let mut values = vec![0.0; 12];
        (0..3).for_each(|j| values[4 * j] = 1.0);
        let means = resample(4, 3, Boundary::Periodic, (8, 1), &values);
        let expected = [0.75, 0.25, 0.0, 0.0, 0.0, 0.0, 0.25, 0.75];
        assert!(means.iter().zip(expected).all(|(m, e)| (m - e).abs() < 1e-12), "{means:?}");
    }

    #[test]
    fn nan_covers_its_neighbourhood_only() {
        let mut values = vec![1.0; 25];
        values[12] = f64::NAN;
        let means = resample(5, 5, Boundary::INSULATED, (8, 8), &values);
        for (p, mean) in means.iter().enumerate() {
            let is_near = (2..6).contains(&(p % 8)) && (2..6).contains(&(p / 8));
            assert_eq!(mean.is_nan(), is_near, "pixel {p}: {mean}");
            assert!(is_near || *mean == 1.0, "pixel {p}: {mean}");
        }
    }

    /// A part of the rows of nodes gives the same bits. The last position of a periodic grid is row
    /// 0.
    #[test]
    fn parts_of_a_picture_have_the_means_of_the_whole() {
        let (nx, ny, width) = (13, 11, 4);
        let values: Vec<f64> = (0..nx * ny).map(|i| ((i * 7919) % 1013) as f64 - 300.0).collect();
        for boundary in [Boundary::INSULATED, Boundary::Periodic] {
            let grid = Grid { nx, ny, hx: 1.0, hy: 1.0 };
            let weights = PixelWeights::new(&grid, &Boundaries::uniform(boundary), (width, 6));
            assert_eq!(PixelWeights::from_division(weights.division()), weights);
            let repeated = [&values[..], &values[..nx]].concat();
            let (mut whole, mut part, mut scratch) = (vec![0.0; width], vec![0.0; width], Vec::new());
            for row in 0..6 {
                weights.compute_row(&values, row, &mut scratch, &mut whole);
                let PixelNodes { first, .. } = weights.rows.pixels[row];
                let nodes = weights.rows.pixels[row].end() - first;
                let of_row = weights.part(row..row + 1, first, nodes);
                of_row.compute_row(&repeated[first * nx..][..nodes * nx], 0, &mut scratch, &mut part);
                assert_eq!(part, whole, "row {row}");
            }
        }
    }

    #[test]
    fn sums_that_overflow_are_found() {
        let grid = Grid { nx: 9, ny: 3, hx: 1.0, hy: 1.0 };
        let has_nan = |low: f64, high: f64| {
            let weights = PixelWeights::new(&grid, &Boundaries::uniform(Boundary::INSULATED), (1, 1));
            let values: Vec<f64> = (0..grid.len()).map(|i| if i % 9 < 5 { low } else { high }).collect();
            let mut means = vec![0.0];
            weights.compute_row(&values, 0, &mut Vec::new(), &mut means);
            let is_nan = means[0].is_nan();
            assert_eq!(PixelMeans { means, min: low, max: high }.has_nan(), is_nan, "{low} {high}");
            is_nan
        };
        assert!(!has_nan(-1.0, 2.0) && !has_nan(-SAFE_VALUE, SAFE_VALUE) && !has_nan(-1e300, 1e300));
        assert!(has_nan(f64::NAN, f64::NAN) && has_nan(f64::NEG_INFINITY, f64::INFINITY));
    }

    proptest! {
        /// Weights are positive, their sum is 1, every node has some, and only the last position
        /// can be beyond the last node.
        #[test]
        fn weights_of_any_division_are_complete(
            nodes in 3_usize..3000,
            pixels in 1_usize..500,
            is_periodic: bool,
        ) {
            let axis = AxisWeights::new(nodes, is_periodic, pixels);
            let mut is_used = vec![false; nodes];
            for pixel in &axis.pixels {
                let used = pixel.low + pixel.high;
                prop_assert!(used <= MAX_PARTIAL, "{pixel:?}");
                prop_assert!(pixel.weights[..used].iter().all(|&weight| weight > 0.0), "{pixel:?}");
                prop_assert!(pixel.weights[used..].iter().all(|&weight| weight == 0.0), "{pixel:?}");
                let sum = pixel.weighted_sum(|_| 1.0);
                // Rounding of a sum of at most 3000 terms.
                prop_assert!((sum - 1.0).abs() < 3000.0 * f64::EPSILON, "{pixel:?}: {sum}");
                prop_assert!(pixel.end() <= nodes + usize::from(is_periodic), "{pixel:?}");
                (pixel.first..pixel.end()).for_each(|position| is_used[position % nodes] = true);
            }
            prop_assert!(is_used.iter().all(|&is_used| is_used));
        }
    }
}
