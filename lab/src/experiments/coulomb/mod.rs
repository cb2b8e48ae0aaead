//! Electrostatic potential of point charges on a regular grid of points:
//!
//!   V(p) = Σᵢ qᵢ / rᵢ,   rᵢ² = |x_p − xᵢ|² + eps²
//!
//! This is direct Coulomb summation (Stone, Phillips, Freddolino, Hardy, Trabuco & Schulten 2007,
//! J. Comput. Chem. 28, 2618; Kirk & Hwu, "Programming Massively Parallel Processors"). V has the
//! unit of charge over length. eps² = 1e-20 only keeps the term finite if a charge is exactly at a
//! point, where the potential has no meaning. Charges should not be there.
//!
//! Cost: one term per point and charge. Two loops can be exchanged: *scatter* takes one charge
//! after the other and adds its term to all points, *gather* takes one point after the other and
//! sums its terms. Threads that scatter must add atomically, threads that gather need not.
//!
//! Limit of the fastest kernel: reciprocal square roots, of which an SM of current GPUs computes 16
//! per cycle ([`rsqrt_rate`] measures it).
//!
//! Error, with u = 2^-24: the three differences have a relative error of u each, their squares 2 u.
//! Each of three multiply-adds or additions adds u, and all terms are positive, so r² has an error
//! of at most 5 u, and 6 u if products are rounded. 1/r has half of it, and 4 u from the reciprocal
//! square root (2 ulp). The product adds u. A sum that adds k times adds k u relative to Σ |qᵢ| /
//! rᵢ. So |V − exact V| ≤ (k + 8) u Σ |qᵢ| / rᵢ to first order in u ([`error_bound`]).
//!
//! When not to use it: for many charges. A tree or a multigrid needs less than one term per point
//! and charge.

mod cpu;
mod device;
mod roof;
pub mod selftest;

pub use cpu::{gather_on_cpu, potential_on_all_cores, scatter_on_cpu};
pub use device::{CHUNK, CoulombMap, CoulombMethod, CoulombRung, DeviceCharges, TiledStrategy, rungs};
pub use roof::rsqrt_rate;

use orrery_device::testing::random_bits;

/// Square that keeps the term of a charge at a point finite.
pub const EPS2: f32 = 1e-20;

/// A point charge: x, y, z and charge.
pub type Charge = [f32; 4];

/// Points of a regular grid. Point (i, j, k) has the index i + nx (j + ny k).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointGrid {
    counts: [usize; 3],
    origin: [f32; 3],
    spacing: f32,
}

/// Largest number of points. Kernels count them in `int`, also those of the last block that are
/// beyond the grid.
const MAX_POINTS: usize = 1 << 30;
/// Largest number of points along an axis. f32 counts them exactly.
const MAX_COUNT: usize = 1 << 24;

impl PointGrid {
    /// Creates a grid with `counts` points along x, y and z. Point (0, 0, 0) is at `origin`.
    ///
    /// # Panics
    /// If there are no points, more than 2^24 along an axis or more than 2^30.
    pub fn new(counts: [usize; 3], origin: [f32; 3], spacing: f32) -> Self {
        let is_valid = counts.iter().all(|count| (1..=MAX_COUNT).contains(count));
        let is_small = counts.iter().map(|count| *count as u128).product::<u128>() <= MAX_POINTS as u128;
        assert!(is_valid && is_small, "{counts:?} points: expected 1 to 2^24 per axis, at most 2^30");
        Self { counts, origin, spacing }
    }

    /// Returns the number of points along x, y and z.
    pub fn counts(&self) -> [usize; 3] {
        self.counts
    }

    /// Returns the number of all points.
    pub fn point_count(&self) -> usize {
        self.counts.iter().product()
    }

    /// Returns the number of rows along x.
    pub fn row_count(&self) -> usize {
        self.counts[1] * self.counts[2]
    }

    /// Returns a coordinate of the points with this index along an axis, rounded once as in the
    /// kernels.
    pub fn coordinate(&self, axis: usize, index: usize) -> f32 {
        (index as f32).mul_add(self.spacing, self.origin[axis])
    }

    /// Returns y and z of a row.
    fn row_position(&self, row: usize) -> [f32; 2] {
        [self.coordinate(1, row % self.counts[1]), self.coordinate(2, row / self.counts[1])]
    }

    /// Returns the position of a point.
    pub fn position(&self, point: usize) -> [f32; 3] {
        let [y, z] = self.row_position(point / self.counts[0]);
        [self.coordinate(0, point % self.counts[0]), y, z]
    }
}

/// Returns `n` random charges between -1 and 1 in the box of the grid.
pub fn random_charges(grid: &PointGrid, n: usize) -> Vec<Charge> {
    let uniform = |stream: u64, index: usize| {
        (random_bits(4 * index as u64 + stream) >> 40) as f32 / (1u32 << 24) as f32
    };
    let charge = |index: usize| -> Charge {
        std::array::from_fn(|component| match component {
            3 => 2.0 * uniform(3, index) - 1.0,
            axis => {
                let length = grid.spacing * grid.counts[axis] as f32;
                grid.origin[axis] + length * uniform(axis as u64, index)
            }
        })
    };
    (0..n).map(charge).collect()
}

/// Potential at a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointPotential {
    /// Σ q / r.
    pub value: f64,
    /// Σ |q| / r, to which errors are relative.
    pub magnitude: f64,
}

/// Reference implementation: the potential at a position, in f64.
pub fn potential_at(charges: &[Charge], position: [f32; 3]) -> PointPotential {
    let mut potential = PointPotential { value: 0.0, magnitude: 0.0 };
    for &[x, y, z, charge] in charges {
        let d: [f64; 3] = std::array::from_fn(|axis| f64::from(position[axis]) - f64::from([x, y, z][axis]));
        let r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + f64::from(EPS2);
        let term = f64::from(charge) / r2.sqrt();
        potential.value += term;
        potential.magnitude += term.abs();
    }
    potential
}

/// Returns the largest error relative to Σ |q| / r of a sum that adds `additions` times in
/// sequence.
pub fn error_bound(additions: usize) -> f64 {
    // The factor covers terms of higher order, which are below 1e-3 of the first one for up to
    // 16,000 additions.
    1.001 * (additions + 8) as f64 / f64::from(1 << 24)
}

/// Returns the largest error of `found`, one potential per point of the grid, at the given points,
/// relative to Σ |q| / r. NaN if a potential is NaN.
pub fn largest_error(charges: &[Charge], grid: &PointGrid, points: &[usize], found: &[f32]) -> f64 {
    let error_at = |&point: &usize| {
        let exact = potential_at(charges, grid.position(point));
        (f64::from(found[point]) - exact.value).abs() / exact.magnitude.max(f64::MIN_POSITIVE)
    };
    let larger = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
    points.iter().map(error_at).fold(0.0, larger)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A charge of 3 at distance 5, and one of -2 at distance 2.
    #[test]
    fn potential_of_two_charges_is_the_sum_of_their_terms() {
        let charges = [[4.0, 3.0, 0.0, 3.0], [0.0, 0.0, -2.0, -2.0]];
        let potential = potential_at(&charges, [0.0; 3]);
        assert!((potential.value - (0.6 - 1.0)).abs() < 1e-15, "{potential:?}");
        assert!((potential.magnitude - 1.6).abs() < 1e-15, "{potential:?}");
    }

    #[test]
    fn points_are_counted_along_x_first() {
        let grid = PointGrid::new([4, 3, 2], [1.0, 2.0, 3.0], 0.5);
        assert_eq!((grid.point_count(), grid.row_count()), (24, 6));
        assert_eq!(grid.position(0), [1.0, 2.0, 3.0]);
        assert_eq!(grid.position(3 + 4 * (2 + 3)), [2.5, 3.0, 3.5]);
    }

    #[test]
    fn the_largest_error_is_relative_and_propagates_nan() {
        let grid = PointGrid::new([2, 1, 1], [0.0; 3], 1.0);
        let charges = [[-1.0, 0.0, 0.0, 2.0], [-1.0, 0.0, 0.0, -2.0]];
        // The potential is 0, and the terms have the magnitudes 4 and 2.
        let error = |found: [f32; 2]| largest_error(&charges, &grid, &[0, 1], &found);
        assert_eq!(error([0.0, 0.0]), 0.0);
        assert_eq!(error([0.4, 0.0]), f64::from(0.4f32) / 4.0);
        assert_eq!(error([0.4, -0.3]), f64::from(0.3f32) / 2.0);
        assert!(error([f32::NAN, 0.0]).is_nan() && error([0.0, f32::NAN]).is_nan());
    }
}
