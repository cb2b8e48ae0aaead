//! Means of a field over the pixels of a picture.
//!
//! Between nodes the field is bilinear: u(x, y) = Σ u_ij Λ(x/hx − i) Λ(y/hy − j), with the hat
//! function Λ(t) = max(0, 1 − |t|). A pixel shows the mean of u over its area. On a grid that is
//! coarser than the picture this interpolates. On a finer grid it averages over all nodes of the
//! pixel, so no structure aliases. In both cases the mean of the picture is that of the field by
//! the trapezoidal rule.
//!
//! Means are separable. Each pixel row is computed by one thread in a fixed order, so the result
//! has the same bits for any number of threads.

use std::ops::Range;

use orrery_model::grid::{Boundaries, Grid};

/// Nodes that contribute to the pixels of a picture, per column and per row.
pub(super) struct Resampler {
    /// Nodes per row of the grid.
    nx: usize,
    columns: Vec<PixelNodes>,
    /// From the bottom, like the rows of the grid.
    rows: Vec<PixelNodes>,
}

impl Resampler {
    /// Divides the plate into `width` x `height` pixels.
    pub fn new(grid: &Grid, boundaries: &Boundaries, width: usize, height: usize) -> Self {
        let along = |nodes: usize, is_periodic: bool, pixels: usize| {
            let cells = if is_periodic { nodes } else { nodes - 1 };
            (0..pixels).map(|pixel| PixelNodes::new(pixel, pixels, cells, nodes)).collect()
        };
        Self {
            nx: grid.nx,
            columns: along(grid.nx, boundaries.is_periodic_in_x(), width),
            rows: along(grid.ny, boundaries.is_periodic_in_y(), height),
        }
    }

    /// Computes the means of the pixels of `row`, counted from the bottom. `values` has one value
    /// per node, and `means` has one per column of pixels.
    pub fn compute_row<T: Copy + Into<f64>>(&self, values: &[T], row: usize, means: &mut [f64]) {
        means.fill(0.0);
        let nodes = &self.rows[row];
        for (j, weight) in nodes.weighted_nodes() {
            let line = &values[j * self.nx..][..self.nx];
            for (mean, column) in means.iter_mut().zip(&self.columns) {
                *mean += weight * column.mean(line);
            }
        }
    }
}

/// Nodes whose hats overlap the interval of one pixel.
struct PixelNodes {
    /// Nodes with a part of their hat in the interval and their weights, below and above `whole`.
    partial: Vec<(usize, f64)>,
    /// Nodes whose hat is inside the interval. They all have the weight `whole_weight`.
    whole: Range<usize>,
    whole_weight: f64,
}

impl PixelNodes {
    /// Returns the nodes of one of `pixels` equal parts of 0..`cells`, with nodes at the integers.
    /// In a periodic direction there are as many `nodes` as cells, and the node at `cells` is
    /// node 0.
    fn new(pixel: usize, pixels: usize, cells: usize, nodes: usize) -> Self {
        let boundary = |k: usize| k as f64 / pixels as f64 * cells as f64;
        let (low, high) = (boundary(pixel), boundary(pixel + 1));
        let (first, end) = (low.floor() as usize, (high.ceil() as usize).min(cells) + 1);
        let whole = low.ceil() as usize + 1..high.floor() as usize;
        // An empty range is inside the array, too.
        let whole = if whole.is_empty() { first..first } else { whole };
        let weight = |node: usize| hat_integral(high - node as f64) - hat_integral(low - node as f64);
        let mut partial: Vec<(usize, f64)> = (first..whole.start)
            .chain(whole.end..end)
            .map(|node| (node, weight(node)))
            // A node without weight must not contribute, because it could be NaN.
            .filter(|&(_, weight)| weight > 0.0)
            .collect();
        // The sum of the weights, high − low up to round-off. A constant field stays constant.
        let sum = partial.iter().map(|&(_, weight)| weight).sum::<f64>() + whole.len() as f64;
        for (node, weight) in &mut partial {
            *node %= nodes;
            *weight /= sum;
        }
        Self { partial, whole, whole_weight: 1.0 / sum }
    }

    fn weighted_nodes(&self) -> impl Iterator<Item = (usize, f64)> {
        let whole = self.whole.clone().map(|node| (node, self.whole_weight));
        self.partial.iter().copied().chain(whole)
    }

    fn mean<T: Copy + Into<f64>>(&self, line: &[T]) -> f64 {
        let partial: f64 = self.partial.iter().map(|&(node, weight)| weight * line[node].into()).sum();
        partial + self.whole_weight * sum_in_lanes(&line[self.whole.clone()])
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

/// Sums with eight partial sums, which the compiler keeps in vector registers.
fn sum_in_lanes<T: Copy + Into<f64>>(values: &[T]) -> f64 {
    let mut lanes = [0.0; 8];
    let chunks = values.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, &value)| *lane += value.into());
    }
    lanes.into_iter().sum::<f64>() + rest.iter().map(|&value| value.into()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use orrery_model::grid::Boundary;

    use super::*;

    fn resample(
        nx: usize,
        ny: usize,
        boundary: Boundary,
        pixels: (usize, usize),
        values: &[f64],
    ) -> Vec<f64> {
        let grid = Grid { nx, ny, hx: 1.0, hy: 1.0 };
        let resampler = Resampler::new(&grid, &Boundaries::uniform(boundary), pixels.0, pixels.1);
        let mut means = vec![0.0; pixels.0 * pixels.1];
        for (row, line) in means.chunks_exact_mut(pixels.0).enumerate() {
            resampler.compute_row(values, row, line);
        }
        means
    }

    /// Finer and coarser grids, also with sizes that have no common divisor.
    #[test]
    fn mean_of_the_picture_is_the_mean_of_the_field() {
        for (nx, ny, pixels) in [(3, 3, (50, 41)), (97, 61, (13, 7)), (40, 200, (40, 31)), (9, 300, (17, 2))]
        {
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
}
