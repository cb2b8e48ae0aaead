//! Potential on the CPU: both orders of the loops with one thread, and registers of points on all
//! cores.
//!
//! With AVX-512, a register of 16 terms takes a difference, two multiply-adds for r² and the sum,
//! an estimate of the reciprocal square root and its correction by four operations. Charges are
//! read from the cache and copied to all lanes, once for [`REGISTERS`] registers of points.

use orrery_gravity::law::gravity::refined_inv_rho;
use orrery_simd::{InstructionSet, MAX_LANES, SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::{Charge, EPS2, PointGrid};

/// Returns the term of a charge at a point of a row. `distance2` is dy² + dz² + eps².
fn term(charge: &Charge, x: f32, distance2: f32) -> f32 {
    let dx = x - charge[0];
    charge[3] / (dx * dx + distance2).sqrt()
}

/// Returns dy² + dz² + eps² of a charge for a row.
fn row_distance2(charge: &Charge, [y, z]: [f32; 2]) -> f32 {
    let (dy, dz) = (y - charge[1], z - charge[2]);
    dy * dy + (dz * dz + EPS2)
}

/// Returns the x coordinates of the points of a row.
fn row_coordinates(grid: &PointGrid) -> Vec<f32> {
    (0..grid.counts()[0]).map(|index| grid.coordinate(0, index)).collect()
}

/// Adds the terms of one charge after the other to all points, in one thread. Returns one potential
/// per point.
pub fn scatter_on_cpu(charges: &[Charge], grid: &PointGrid) -> Vec<f32> {
    let x = row_coordinates(grid);
    let mut potential = vec![0.0; grid.point_count()];
    for charge in charges {
        for (row, potential) in potential.chunks_exact_mut(x.len()).enumerate() {
            let distance2 = row_distance2(charge, grid.row_position(row));
            for (potential, &x) in potential.iter_mut().zip(&x) {
                *potential += term(charge, x, distance2);
            }
        }
    }
    potential
}

/// Sums the terms of all charges for one point after the other, in one thread. Returns one
/// potential per point.
pub fn gather_on_cpu(charges: &[Charge], grid: &PointGrid) -> Vec<f32> {
    let x = row_coordinates(grid);
    let mut potential = vec![0.0; grid.point_count()];
    for (row, potential) in potential.chunks_exact_mut(x.len()).enumerate() {
        let position = grid.row_position(row);
        for (potential, &x) in potential.iter_mut().zip(&x) {
            *potential = charges.iter().map(|charge| term(charge, x, row_distance2(charge, position))).sum();
        }
    }
    potential
}

/// Registers of points that share the load of a charge.
const REGISTERS: usize = 4;
/// Charges that are summed before they are added to the potential: 12 KiB.
pub(super) const TILE: usize = 1024;

/// Sums on all cores with the widest registers. Returns one potential per point.
pub fn potential_on_all_cores(charges: &[Charge], grid: &PointGrid) -> Vec<f32> {
    let nx = grid.counts()[0];
    let mut x = row_coordinates(grid);
    x.resize(nx.next_multiple_of(REGISTERS * MAX_LANES), x[nx - 1]);
    let mut potential = vec![0.0; grid.point_count()];
    let sum_row = |buffers: &mut RowBuffers, (row, potential): (usize, &mut [f32])| {
        buffers.sums.clear();
        buffers.sums.resize(x.len(), 0.0);
        let position = grid.row_position(row);
        dispatch(InstructionSet::best(), RowSum { charges, position, x: &x, buffers });
        potential.copy_from_slice(&buffers.sums[..nx]);
    };
    potential.par_chunks_exact_mut(nx).enumerate().for_each_init(RowBuffers::default, sum_row);
    potential
}

/// Memory of a thread.
#[derive(Default)]
struct RowBuffers {
    /// x, dy² + dz² + eps² and charge of a tile.
    tile: Vec<[f32; 3]>,
    /// One sum per point, padded to whole registers.
    sums: Vec<f32>,
}

/// SIMD kernel: the potential of one row.
struct RowSum<'a> {
    charges: &'a [Charge],
    position: [f32; 2],
    x: &'a [f32],
    buffers: &'a mut RowBuffers,
}

impl SimdKernel for RowSum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        let RowBuffers { tile, sums } = self.buffers;
        for charges in self.charges.chunks(TILE) {
            tile.clear();
            for charge in charges {
                tile.push([charge[0], row_distance2(charge, self.position), charge[3]]);
            }
            let width = REGISTERS * S::LANES;
            for first in (0..self.x.len()).step_by(width) {
                add_tile::<S>(tile, &self.x[first..first + width], &mut sums[first..first + width]);
            }
        }
    }
}

/// Adds the terms of a tile to the sums of [`REGISTERS`] registers of points.
#[inline(always)]
fn add_tile<S: SingleVector>(tile: &[[f32; 3]], x: &[f32], sums: &mut [f32]) {
    let zero = S::splat(0.0);
    let mut points = [zero; REGISTERS];
    let mut tile_sums = [zero; REGISTERS];
    for k in 0..REGISTERS {
        points[k] = S::load(&x[k * S::LANES..]);
    }
    for &[charge_x, distance2, charge] in tile {
        let (charge_x, distance2, charge) = (S::splat(charge_x), S::splat(distance2), S::splat(charge));
        for k in 0..REGISTERS {
            let dx = points[k].sub(charge_x);
            let r2 = dx.mul_add(dx, distance2);
            let inv_r = refined_inv_rho(r2, r2.rsqrt_estimate());
            tile_sums[k] = charge.mul_add(inv_r, tile_sums[k]);
        }
    }
    for k in 0..REGISTERS {
        let to = &mut sums[k * S::LANES..];
        S::load(to).add(tile_sums[k]).store(to);
    }
}
