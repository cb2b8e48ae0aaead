//! One step per pass, with uniform conductivity and without source.
//!
//! The rows are read where they are and written where they belong, so nothing is copied. A tile
//! ([`super::tile`]) computes the same values, and is slower for a single step.

use std::ops::Range;

use orrery_model::grid::{Boundary, Edge};
use orrery_simd::Vector;

use super::problem::neighbours;
use super::reference::update_uniform;
use super::tile::PlatePass;
use super::{StepCoefficients, kernels};
use crate::Scalar;

/// Computes one step for the rows `rows`. `to` receives them and contains nothing else. `ghost` is
/// overwritten.
#[inline(always)]
pub fn update_band<V: Vector<Scalar = R>, R: Scalar>(
    pass: &PlatePass<R>,
    rows: Range<usize>,
    to: &mut [R],
    ghost: &mut Vec<R>,
) {
    let plate = pass.plate;
    let (nx, ny) = (plate.grid.nx, plate.grid.ny);
    for (j, to) in rows.zip(to.chunks_exact_mut(nx)) {
        let row = pass.row(j as isize);
        let edge = match j {
            0 => Some(Edge::South),
            _ if j == ny - 1 => Some(Edge::North),
            _ => None,
        };
        match edge.map(|edge| (edge, plate.boundaries.on(edge))) {
            Some((_, Boundary::Fixed(_))) => to.copy_from_slice(row),
            Some((edge, Boundary::Flux(_))) => {
                let inner = pass.row(if edge == Edge::South { 1 } else { ny as isize - 2 });
                let offsets = &plate.ghost_offsets[edge as usize];
                ghost.clear();
                ghost.extend(inner.iter().zip(offsets).map(|(&u, &offset)| u + offset));
                let [south, north] = if edge == Edge::South { [ghost, inner] } else { [inner, ghost] };
                update_row::<V, R>(pass, j, [south, row, north], to);
            }
            _ => {
                let rows = [pass.row(j as isize - 1), row, pass.row(j as isize + 1)];
                update_row::<V, R>(pass, j, rows, to);
            }
        }
    }
}

/// Computes row `j` from the rows j − 1, j and j + 1.
#[inline(always)]
fn update_row<V: Vector<Scalar = R>, R: Scalar>(
    pass: &PlatePass<R>,
    j: usize,
    rows: [&[R]; 3],
    to: &mut [R],
) {
    let last = rows[1].len() - 1;
    if last - 1 < V::LANES {
        update_inner_nodes(pass.coefficients, rows, 1..last, to);
    } else {
        // Registers at both ends overlap the aligned ones, and compute the same values there.
        let first = 1 + to[1..].as_ptr().align_offset(size_of::<V>()).min(V::LANES);
        let n = (last - first) / V::LANES * V::LANES;
        kernels::update_uniform::<V, false>(pass.coefficients, rows, to, 1, V::LANES);
        kernels::update_uniform::<V, false>(pass.coefficients, rows, to, last - V::LANES, V::LANES);
        if pass.is_streaming {
            kernels::update_uniform::<V, true>(pass.coefficients, rows, to, first, n);
        } else {
            kernels::update_uniform::<V, false>(pass.coefficients, rows, to, first, n);
        }
    }
    to[0] = updated_edge_node(pass, Edge::West, 0, j, rows);
    to[last] = updated_edge_node(pass, Edge::East, last, j, rows);
}

/// Updates the nodes `columns`, which are not on the west or east edge.
#[inline(always)]
fn update_inner_nodes<R: Scalar>(
    coefficients: StepCoefficients<R>,
    [south, row, north]: [&[R]; 3],
    columns: Range<usize>,
    to: &mut [R],
) {
    for i in columns {
        to[i] = update_uniform(coefficients, row[i], [row[i - 1], row[i + 1], south[i], north[i]]);
    }
}

/// Returns the new value of node (i, j) on the west or east edge.
#[inline(always)]
fn updated_edge_node<R: Scalar>(
    pass: &PlatePass<R>,
    edge: Edge,
    i: usize,
    j: usize,
    [south, row, north]: [&[R]; 3],
) -> R {
    let boundary = pass.plate.boundaries.on(edge);
    if boundary.is_fixed() {
        return row[i];
    }
    let mut values = neighbours(i, row.len(), *boundary == Boundary::Periodic).map(|i| row[i]);
    if let Some(&offset) = pass.plate.ghost_offsets[edge as usize].get(j) {
        let beyond = &mut values[edge as usize];
        *beyond = *beyond + offset;
    }
    update_uniform(pass.coefficients, row[i], [values[0], values[1], south[i], north[i]])
}
