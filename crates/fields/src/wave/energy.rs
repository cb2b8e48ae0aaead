//! Energy and largest amplitude of a wave field.
//!
//! The equation conserves E = ½ ∫ (u_t²/c² + |∇u|²) dV. The scheme conserves
//!
//!   E = V/(2 h0²) Σ ω [ (u^n − u^(n−1))²/v − u^(n−1) (A u^n) ]
//!
//! where A is the operator of step 1, A u = W u + Σ w_r (u_−r + u_r), and V the volume of a cell. ω
//! is 1/2 at a node on a rigid side, 1/4 where two such sides meet, and so on, and 1 elsewhere.
//! Proof: the scheme is (u^(n+1) − 2 u^n + u^(n−1))/v = A u^n. Multiply by ω (u^(n+1) − u^(n−1))
//! and sum. The left side is the change of Σ ω (u^n − u^(n−1))²/v. The right side is Σ ω u^(n+1) A
//! u^n − Σ ω u^(n−1) A u^n, which is the change of Σ ω u^(n−1) A u^n, because Σ ω a (A b) is
//! symmetric in a and b: with its images, the field is periodic and even or odd, where A is
//! symmetric, and ω counts each pair of images once. E is positive below the stability limit.
//!
//! E belongs to the time halfway between the two levels. Absorbing layers make it smaller.

use orrery_model::analysis::max_or_nan;
use orrery_model::wave::{SideCondition, WaveGrid};
use orrery_simd::{InstructionSet, SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::Medium;
use super::cpu::CourantPlanes;
use super::slab::{HostWaveSlab, courant_planes};
use crate::Scalar;

/// Scalars of a wave field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaveMeasures {
    /// Energy in the grid, half a step before the time of the field.
    pub energy: f64,
    /// Largest |u|. NaN if a value is NaN.
    pub largest: f64,
}

/// Returns the energies of the rows of a slab without the factor of [`energy_scale`]. The sum of a
/// row has a fixed order.
pub(super) fn row_energies<R: Scalar>(medium: &Medium<R>, slab: &HostWaveSlab<R>) -> Vec<f64> {
    R::wave_energies(medium, slab)
}

/// The loops of [`row_energies`].
pub(crate) fn sum_rows<R: Scalar>(medium: &Medium<R>, slab: &HostWaveSlab<R>) -> Vec<f64> {
    let first = slab.owned.start;
    slab.rows()
        .map_init(Vec::new, |buffer, (position, [j, k])| {
            let row = EnergyOfRow { medium, slab, position, buffer };
            let [j, k] = if slab.layout.is_volume() { [j, first + k] } else { [first + j, k] };
            row_weight(medium, j, k) * dispatch(InstructionSet::best(), row)
        })
        .collect()
}

/// Returns V/(2 h0²), the factor of the energy.
pub(super) fn energy_scale(grid: &WaveGrid) -> f64 {
    grid.cell_volume() / (2.0 * grid.min_spacing() * grid.min_spacing())
}

/// Adds energies of rows to `sum` in their order.
pub(super) fn added_energies(sum: f64, energies: &[f64]) -> f64 {
    energies.iter().fold(sum, |sum, energy| sum + energy)
}

/// Sum without terms. Adding it to a number returns the number, also for a negative zero.
pub(super) const NO_ENERGY: f64 = -0.0;

/// Returns the largest |u| of a slab.
pub(super) fn slab_largest<R: Scalar>(slab: &HostWaveSlab<R>) -> f64 {
    let nx = slab.layout.nodes[0];
    slab.rows().map(|(position, _)| largest(&slab.now[position..][..nx])).reduce(|| 0.0, max_or_nan)
}

/// Returns the largest absolute value, or NaN if a value is NaN.
pub(super) fn largest<R: Scalar>(values: &[R]) -> f64 {
    values.iter().map(|u| u.to_f64().abs()).fold(0.0, max_or_nan)
}

/// Returns 1/2 for a node on a rigid side, and 1 elsewhere.
fn side_weight(index: usize, last: usize, conditions: [SideCondition; 2]) -> f64 {
    let is_rigid = |at: usize, condition| index == at && condition == SideCondition::Rigid;
    if is_rigid(0, conditions[0]) || is_rigid(last, conditions[1]) { 0.5 } else { 1.0 }
}

/// Returns the part of ω that all nodes of a row have.
fn row_weight<R>(medium: &Medium<R>, j: usize, k: usize) -> f64 {
    let (sides, [_, ny, nz]) = (&medium.sides, medium.grid.nodes);
    let along_y = side_weight(j, ny - 1, [sides.y_min, sides.y_max]);
    match medium.grid.dimensions() {
        2 => along_y,
        _ => along_y * side_weight(k, nz - 1, [sides.z_min, sides.z_max]),
    }
}

/// Partial sums of a row: two registers of eight f64.
const PARTIAL_SUMS: usize = 16;

/// The sum of a row whose first node is at `position`. `buffer` is overwritten.
struct EnergyOfRow<'a, R> {
    medium: &'a Medium<R>,
    slab: &'a HostWaveSlab<R>,
    position: usize,
    buffer: &'a mut Vec<f64>,
}

impl<R: Scalar> SimdKernel for EnergyOfRow<'_, R> {
    type Output = f64;

    // The loops are plain, and are compiled for the instruction set. The terms are f64, whatever
    // the precision of the field is.
    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> f64 {
        let Self { medium, slab, position, buffer } = self;
        let (stencil, nx) = (&medium.stencil, slab.layout.nodes[0]);
        let row = |at: usize| &slab.now[at..][..nx];
        buffer.clear();
        buffer.resize(nx, 0.0);
        add_scaled(stencil.centre.to_f64(), row(position), None, buffer);
        for axis in 0..medium.grid.dimensions() {
            let stride = slab.layout.strides()[axis];
            for r in 1..=stencil.radius {
                let weight = stencil.neighbours[axis][r - 1].to_f64();
                add_scaled(weight, row(position - r * stride), Some(row(position + r * stride)), buffer);
            }
        }
        let (now, previous) = (row(position), &slab.previous[position..][..nx]);
        match courant_planes(medium, &slab.courant) {
            CourantPlanes::Uniform(v) => {
                let inverse = 1.0 / v.to_f64();
                for i in 0..nx {
                    let (now, previous) = (now[i].to_f64(), previous[i].to_f64());
                    buffer[i] = inverse * (now - previous) * (now - previous) - previous * buffer[i];
                }
            }
            CourantPlanes::Field(v) => {
                let v = &v[position..][..nx];
                for i in 0..nx {
                    let (now, previous) = (now[i].to_f64(), previous[i].to_f64());
                    buffer[i] = (now - previous) * (now - previous) / v[i].to_f64() - previous * buffer[i];
                }
            }
        }
        let x_sides = [medium.sides.x_min, medium.sides.x_max];
        buffer[0] *= side_weight(0, nx - 1, x_sides);
        buffer[nx - 1] *= side_weight(nx - 1, nx - 1, x_sides);
        sum_of(buffer)
    }
}

/// Adds weight × (a + b) to `sums`.
#[inline(always)]
fn add_scaled<R: Scalar>(weight: f64, a: &[R], b: Option<&[R]>, sums: &mut [f64]) {
    match b {
        None => {
            for i in 0..sums.len().min(a.len()) {
                sums[i] += weight * a[i].to_f64();
            }
        }
        Some(b) => {
            for i in 0..sums.len().min(a.len()).min(b.len()) {
                sums[i] += weight * (a[i].to_f64() + b[i].to_f64());
            }
        }
    }
}

/// Adds numbers in a fixed order.
#[inline(always)]
fn sum_of(values: &[f64]) -> f64 {
    let mut sums = [0.0; PARTIAL_SUMS];
    let chunks = values.chunks_exact(PARTIAL_SUMS);
    let rest: f64 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for k in 0..PARTIAL_SUMS {
            sums[k] += chunk[k];
        }
    }
    sums.iter().sum::<f64>() + rest
}
