//! Mass, centre of mass and second moments of each cell, from the leaves up.
//!
//! For a leaf with bodies k and centre of mass X, and for a cell with children c:
//!
//!   M_ij = Σ_k m_k s_ki s_kj,            s_k = x_k − X
//!   M_ij = Σ_c (M_ij + m S_i S_j)_c,     S_c = X_c − X

use rayon::prelude::*;

use orrery_model::Vec3s;

use super::build::Cell;
use super::morton::Cube;

/// Multipole moments of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Total mass.
    pub mass: f64,
    /// Centre of mass, or the geometric centre if the mass is 0.
    pub centre: [f64; 3],
    /// Second moments xx, xy, xz, yy, yz, zz about the centre of mass.
    pub second: [f64; 6],
}

impl Moments {
    /// Returns the moments of a cell from those of its parts, which are bodies or smaller cells. A
    /// body is a cell without second moments. `cell_centre` is the geometric centre of the cell.
    fn from_parts(parts: impl Iterator<Item = Moments> + Clone, cell_centre: [f64; 3]) -> Self {
        let mut whole = Self { centre: cell_centre, ..Self::default() };
        let mut weighted = [0.0; 3];
        for part in parts.clone() {
            whole.mass += part.mass;
            for axis in 0..3 {
                // Relative to a point inside the cell: cells far from the origin lose no digits.
                weighted[axis] += part.mass * (part.centre[axis] - cell_centre[axis]);
            }
        }
        if whole.mass > 0.0 {
            whole.centre = std::array::from_fn(|axis| cell_centre[axis] + weighted[axis] / whole.mass);
        }
        for part in parts {
            let [x, y, z]: [f64; 3] = std::array::from_fn(|axis| part.centre[axis] - whole.centre[axis]);
            let products = [x * x, x * y, x * z, y * y, y * z, z * z];
            for k in 0..6 {
                whole.second[k] += part.second[k] + part.mass * products[k];
            }
        }
        whole
    }
}

/// Returns the moments of all cells. `generations` contains the first cell of each generation and,
/// at the end, the number of cells.
pub fn find_moments(
    cells: &[Cell],
    generations: &[usize],
    cube: &Cube,
    keys: &[u64],
    position: &Vec3s,
    mass: &[f64],
) -> Vec<Moments> {
    let mut moments = vec![Moments::default(); cells.len()];
    for bounds in generations.windows(2).rev() {
        let (head, later) = moments.split_at_mut(bounds[1]);
        head[bounds[0]..].par_iter_mut().zip(&cells[bounds[0]..bounds[1]]).with_min_len(64).for_each(
            |(whole, cell)| {
                let (centre, _) = cube.cell_geometry(keys[cell.begin as usize], u32::from(cell.level));
                *whole = if cell.is_leaf() {
                    let body = |i| Moments { mass: mass[i], centre: position.get(i), second: [0.0; 6] };
                    Moments::from_parts(cell.bodies().map(body), centre)
                } else {
                    let children = cell.child_range();
                    let children = children.start - bounds[1]..children.end - bounds[1];
                    Moments::from_parts(later[children].iter().copied(), centre)
                };
            },
        );
    }
    moments
}
