//! Mass, centre of mass and second moments of each cell, from the leaves up:
//!
//!   M_ij = Σ_k m_k s_ki s_kj,  s_k = x_k − X;   for a parent, M_ij = Σ_c (M_ij + m S_i S_j)_c,  S_c = X_c − X.

use rayon::prelude::*;

use orrery_model::Vec3s;

use super::build::Cell;
use super::morton::Cube;

/// A cell's moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Total mass.
    pub mass: f64,
    /// Centre of mass; the cell's centre where there is no mass.
    pub centre: [f64; 3],
    /// Second moments xx, xy, xz, yy, yz, zz about the centre of mass.
    pub second: [f64; 6],
}

impl Moments {
    /// Of point masses and of smaller cells alike: a body is a cell with no second moments.
    fn of_parts(parts: impl Iterator<Item = Moments> + Clone, fallback: [f64; 3]) -> Self {
        let mut whole = Self { centre: fallback, ..Self::default() };
        let mut weighted = [0.0; 3];
        for part in parts.clone() {
            whole.mass += part.mass;
            for c in 0..3 {
                // Relative to a point inside the cell, so that no digits are lost far from the origin.
                weighted[c] += part.mass * (part.centre[c] - fallback[c]);
            }
        }
        if whole.mass > 0.0 {
            whole.centre = std::array::from_fn(|c| fallback[c] + weighted[c] / whole.mass);
        }
        for part in parts {
            let [x, y, z]: [f64; 3] = std::array::from_fn(|c| part.centre[c] - whole.centre[c]);
            let products = [x * x, x * y, x * z, y * y, y * z, z * z];
            for c in 0..6 {
                whole.second[c] += part.second[c] + part.mass * products[c];
            }
        }
        whole
    }
}

/// The moments of all cells; `generations` says where each generation of cells starts and the last ends.
pub fn of_cells(
    cells: &[Cell],
    generations: &[usize],
    cube: &Cube,
    keys: &[u64],
    position: &Vec3s,
    mass: &[f64],
) -> Vec<Moments> {
    let mut moments = vec![Moments::default(); cells.len()];
    for bounds in generations.windows(2).rev() {
        let (head, younger) = moments.split_at_mut(bounds[1]);
        head[bounds[0]..].par_iter_mut().zip(&cells[bounds[0]..bounds[1]]).with_min_len(64).for_each(
            |(whole, cell)| {
                let (centre, _) = cube.cell(keys[cell.begin as usize], u32::from(cell.level));
                *whole = if cell.is_leaf() {
                    let body = |i| Moments { mass: mass[i], centre: position.get(i), second: [0.0; 6] };
                    Moments::of_parts(cell.bodies().map(body), centre)
                } else {
                    let children = cell.child_range();
                    let children = children.start - bounds[1]..children.end - bounds[1];
                    Moments::of_parts(younger[children].iter().copied(), centre)
                };
            },
        );
    }
    moments
}
