//! Heat that flows into a plate through its edges.
//!
//! The flux through a fixed edge is that of the faces between the edge and the nodes next to it: Σ
//! k_f (u_edge − u_inner)/h × width of the face. A face next to an edge with a flux has half the
//! width. Through an edge with a flux q it is Σ q × width, and through a periodic edge that of the
//! faces between the last and the first node. With these definitions the heat content changes in a
//! step by exactly dt × (the sum of all fluxes and sources), up to rounding.

use orrery_model::grid::{Boundary, Edge};

use super::Plate;
use crate::Scalar;

/// Returns the heat per time that flows into the plate through each edge, in the order of
/// [`Edge::ALL`]. `value(i, j)` is the temperature of a node in the outer two rows or columns.
pub fn edge_fluxes<R: Scalar>(plate: &Plate<R>, value: impl Fn(usize, usize) -> R) -> [f64; 4] {
    Edge::ALL.map(|edge| edge_flux(plate, edge, &value))
}

fn edge_flux<R: Scalar>(plate: &Plate<R>, edge: Edge, value: &impl Fn(usize, usize) -> R) -> f64 {
    let (grid, boundaries) = (&plate.grid, &plate.boundaries);
    let is_vertical = matches!(edge, Edge::West | Edge::East);
    // Free nodes along the edge, the spacing along it and that across it.
    let (free, along, h, width, is_periodic_along) = match is_vertical {
        true => (boundaries.free_rows(grid), grid.ny, grid.hx, grid.hy, boundaries.is_periodic_in_y()),
        false => (boundaries.free_columns(grid), grid.nx, grid.hy, grid.hx, boundaries.is_periodic_in_x()),
    };
    let across = if is_vertical { grid.nx } else { grid.ny };
    let node = |k: usize, depth: usize| if is_vertical { (depth, k) } else { (k, depth) };
    let [outer, inner] = match edge {
        Edge::West | Edge::South => [0, 1],
        Edge::East | Edge::North => [across - 1, across - 2],
    };
    let flux_of_face = |k: usize, from: usize, to: usize| {
        let [(i_a, j_a), (i_b, j_b)] = [node(k, from), node(k, to)];
        let conductivity = face_conductivity(plate, grid.index(i_a, j_a), grid.index(i_b, j_b));
        conductivity * (value(i_a, j_a).to_f64() - value(i_b, j_b).to_f64()) / h
    };
    let flux = |k: usize| {
        let is_end = !is_periodic_along && (k == 0 || k == along - 1);
        let face_width = if is_end { 0.5 * width } else { width };
        face_width
            * match boundaries.on(edge) {
                Boundary::Fixed(_) => flux_of_face(k, outer, inner),
                Boundary::Flux(values) => values.at(k),
                Boundary::Periodic => flux_of_face(k, across - 1 - outer, outer),
            }
    };
    free.map(flux).sum()
}

/// Returns the conductivity of the face between two nodes.
fn face_conductivity<R: Scalar>(plate: &Plate<R>, a: usize, b: usize) -> f64 {
    match &plate.resistivity {
        None => plate.uniform_conductivity,
        Some(rho) => 2.0 / (rho[a].to_f64() + rho[b].to_f64()),
    }
}

/// The two outer columns and rows on each side of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeStrips<R> {
    nx: usize,
    ny: usize,
    /// Columns 0, 1, nx - 2 and nx - 1.
    columns: Vec<R>,
    /// Rows 0, 1, ny - 2 and ny - 1.
    rows: Vec<R>,
}

impl<R: Scalar> EdgeStrips<R> {
    /// Returns the strips of a plate with nx and ny nodes. `columns` has columns 0, 1, nx − 2 and
    /// nx − 1, each with ny values, and `rows` the rows of [`Self::rows`].
    pub(super) fn new([nx, ny]: [usize; 2], columns: Vec<R>, rows: Vec<R>) -> Self {
        assert!(columns.len() == 4 * ny && rows.len() == 4 * nx);
        Self { nx, ny, columns, rows }
    }

    /// Returns the outer rows of a plate with `ny` rows.
    pub(super) fn rows(ny: usize) -> [usize; 4] {
        [0, 1, ny - 2, ny - 1]
    }

    /// Returns the value of node (i, j), which must be in one of the outer two columns or rows.
    pub fn at(&self, i: usize, j: usize) -> R {
        let strip = |k: usize, n: usize| match k {
            0 | 1 => Some(k),
            _ if k + 2 >= n => Some(k + 4 - n),
            _ => None,
        };
        match (strip(i, self.nx), strip(j, self.ny)) {
            (Some(column), _) => self.columns[column * self.ny + j],
            (None, Some(row)) => self.rows[row * self.nx + i],
            (None, None) => panic!("node ({i}, {j}) is not near an edge"),
        }
    }
}
