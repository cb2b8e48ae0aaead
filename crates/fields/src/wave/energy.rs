//! Energy and largest amplitude of a wave field.
//!
//! The equation conserves E = ½ ∫ (u_t²/c² + |∇u|²) dV. The scheme conserves
//!
//!   E = V/(2 h0²) Σ ω [ (u^n − u^(n−1))²/v − u^(n−1) (A u^n) ]
//!
//! where A is the operator of step 1, A u = W u + Σ w_r (u_−r + u_r), and V the volume of a cell. ω
//! is 1/2 at a node on a rigid side, 1/4 where two such sides meet, and so on, and 1 elsewhere.
//! Proof: the scheme is (u^(n+1) − 2 u^n + u^(n−1))/v = A u^n. Multiply by
//! ω (u^(n+1) − u^(n−1)) and sum. The left side is the change of Σ ω (u^n − u^(n−1))²/v. The right
//! side is Σ ω u^(n+1) A u^n − Σ ω u^(n−1) A u^n, which is the change of Σ ω u^(n−1) A u^n, because
//! Σ ω a (A b) is symmetric in a and b: with its images, the field is periodic and even or odd, where
//! A is symmetric, and ω counts each pair of images once. E is positive below the stability limit.
//!
//! E belongs to the time halfway between the two levels. Absorbing layers make it smaller.

use orrery_model::wave::SideCondition;
use rayon::prelude::*;

use super::slab::Slab;
use super::{Medium, SquaredCourant};
use crate::Scalar;

/// Scalars of a wave field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaveMeasures {
    /// Energy in the grid, half a step before the time of the field.
    pub energy: f64,
    /// Largest |u|. NaN if a value is NaN.
    pub largest: f64,
}

/// Returns the energy of a slab without the factor V/(2 h0²), and the largest |u|. The sums have a
/// fixed order.
pub(super) fn slab_measures<R: Scalar>(medium: &Medium<R>, slab: &Slab<R>) -> (f64, f64) {
    let rows: Vec<(f64, f64)> = slab
        .rows()
        .map(|(position, [j, k])| row_measures(medium, slab, position, j, slab.owned.start + k))
        .collect();
    let mut energy = 0.0;
    let mut largest = 0.0;
    for (row_energy, row_largest) in rows {
        energy += row_energy;
        largest = max_or_nan(largest, row_largest);
    }
    (energy, largest)
}

/// Returns the larger number, or NaN if one is NaN.
pub(super) fn max_or_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Partial sums of a row, so that the loop can be vectorised.
const PARTIAL_SUMS: usize = 8;

/// Returns the terms of row (j, k) of the grid, whose first node is at `position`.
fn row_measures<R: Scalar>(
    medium: &Medium<R>,
    slab: &Slab<R>,
    position: usize,
    j: usize,
    k: usize,
) -> (f64, f64) {
    let [nx, ny, nz] = medium.grid.nodes;
    let half = |index: usize, last: usize, conditions: [SideCondition; 2]| {
        let is_rigid = |condition| condition == SideCondition::Rigid;
        let is_half = index == 0 && is_rigid(conditions[0]) || index == last && is_rigid(conditions[1]);
        if is_half { 0.5 } else { 1.0 }
    };
    let sides = &medium.sides;
    let mut row_weight = half(j, ny - 1, [sides.y_min, sides.y_max]);
    if medium.grid.dimensions() == 3 {
        row_weight *= half(k, nz - 1, [sides.z_min, sides.z_max]);
    }
    let x_sides = [sides.x_min, sides.x_max];
    let mut sums = [0.0; PARTIAL_SUMS];
    let mut largest = 0.0;
    for i in 0..nx {
        let at = position + i;
        let v = match &medium.squared_courant {
            SquaredCourant::Uniform(v) => v.to_f64(),
            SquaredCourant::Field(values) => values[(k * ny + j) * nx + i].to_f64(),
        };
        let (now, previous) = (slab.now[at].to_f64(), slab.previous[at].to_f64());
        let difference = now - previous;
        let term = difference * difference / v - previous * applied(medium, slab, at);
        let end = if i == 0 || i == nx - 1 { half(i, nx - 1, x_sides) } else { 1.0 };
        sums[i % PARTIAL_SUMS] += end * term;
        largest = max_or_nan(largest, now.abs());
    }
    (row_weight * sums.iter().sum::<f64>(), largest)
}

/// Returns A u at a position of a slab, in f64.
fn applied<R: Scalar>(medium: &Medium<R>, slab: &Slab<R>, at: usize) -> f64 {
    let stencil = &medium.stencil;
    let mut sum = stencil.centre.to_f64() * slab.now[at].to_f64();
    for (axis, stride) in slab.layout.strides().into_iter().enumerate().take(medium.grid.dimensions()) {
        for r in 1..=stencil.radius {
            let pair = slab.now[at - r * stride].to_f64() + slab.now[at + r * stride].to_f64();
            sum += stencil.neighbours[axis][r - 1].to_f64() * pair;
        }
    }
    sum
}
