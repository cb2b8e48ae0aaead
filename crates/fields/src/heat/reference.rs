//! Reference implementation: plain serial loops, one node at a time.

use super::problem::neighbours;
use super::{Plate, StepCoefficients};
use crate::Scalar;
use orrery_model::grid::Edge;

/// Computes one step from the state `from` into `to`. Both have one value per node.
pub fn step<R: Scalar>(plate: &Plate<R>, coefficients: StepCoefficients<R>, from: &[R], to: &mut [R]) {
    let (nx, ny) = (plate.grid.nx, plate.grid.ny);
    to.copy_from_slice(from);
    for j in plate.boundaries.free_rows(&plate.grid) {
        for i in plate.boundaries.free_columns(&plate.grid) {
            let [west, east] = neighbours(i, nx, plate.boundaries.is_periodic_in_x());
            let [south, north] = neighbours(j, ny, plate.boundaries.is_periodic_in_y());
            let indices = [(west, j), (east, j), (i, south), (i, north)].map(|(i, j)| j * nx + i);
            let mut values = indices.map(|index| from[index]);
            for (edge, is_beyond, k) in [
                (Edge::West, i == 0, j),
                (Edge::East, i == nx - 1, j),
                (Edge::South, j == 0, i),
                (Edge::North, j == ny - 1, i),
            ] {
                if is_beyond && let Some(&offset) = plate.ghost_offsets[edge as usize].get(k) {
                    values[edge as usize] = values[edge as usize] + offset;
                }
            }
            let node = j * nx + i;
            let u = from[node];
            let updated = match &plate.resistivity {
                None => update_uniform(coefficients, u, values),
                Some(rho) => {
                    let two = R::from_f64(2.0);
                    let faces = indices.map(|index| two / (rho[node] + rho[index]));
                    match &plate.capacity_ratio {
                        None => update_variable(coefficients, u, values, faces),
                        Some(_) => heat_gain(coefficients, u, values, faces),
                    }
                }
            };
            let with_source = match &plate.source {
                None => updated,
                Some(source) => coefficients.dt.fused_mul_add(source[node], updated),
            };
            to[node] = match &plate.capacity_ratio {
                None => with_source,
                Some(ratio) => ratio[node].fused_mul_add(with_source, u),
            };
        }
    }
}

/// Returns u' of a node from its neighbours W, E, S and N, for uniform conductivity.
#[inline(always)]
pub(super) fn update_uniform<R: Scalar>(coefficients: StepCoefficients<R>, u: R, [w, e, s, n]: [R; 4]) -> R {
    let minus_two = R::from_f64(-2.0);
    let lap_x = minus_two.fused_mul_add(u, w + e);
    let lap_y = minus_two.fused_mul_add(u, s + n);
    coefficients.x.fused_mul_add(lap_x, coefficients.y.fused_mul_add(lap_y, u))
}

/// Returns the sums of the fluxes through the faces across x and across y, from the neighbours of a
/// node and the conductivities of its faces, W, E, S and N.
fn flux_sums<R: Scalar>(u: R, [w, e, s, n]: [R; 4], [k_w, k_e, k_s, k_n]: [R; 4]) -> [R; 2] {
    [k_e.fused_mul_add(e - u, k_w * (w - u)), k_n.fused_mul_add(n - u, k_s * (s - u))]
}

/// Returns u' of a node from its neighbours and the conductivities of its faces.
fn update_variable<R: Scalar>(
    coefficients: StepCoefficients<R>,
    u: R,
    neighbours: [R; 4],
    conductivities: [R; 4],
) -> R {
    let [f_x, f_y] = flux_sums(u, neighbours, conductivities);
    coefficients.x.fused_mul_add(f_x, coefficients.y.fused_mul_add(f_y, u))
}

/// Returns the heat that a node gains through its faces, divided by the smallest heat capacity.
fn heat_gain<R: Scalar>(
    coefficients: StepCoefficients<R>,
    u: R,
    neighbours: [R; 4],
    conductivities: [R; 4],
) -> R {
    let [f_x, f_y] = flux_sums(u, neighbours, conductivities);
    coefficients.x.fused_mul_add(f_x, coefficients.y * f_y)
}

/// Computes `steps` steps of length `dt` from `state`.
pub fn advance<R: Scalar>(plate: &Plate<R>, dt: f64, steps: u64, state: &mut Vec<R>) {
    let coefficients = plate.step_coefficients(dt);
    let mut next = state.clone();
    for _ in 0..steps {
        step(plate, coefficients, state, &mut next);
        std::mem::swap(state, &mut next);
    }
}
