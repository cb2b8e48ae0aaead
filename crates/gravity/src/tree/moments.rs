//! Mass, centre of mass and second moments of each cell, from the leaves up.
//!
//! For a leaf with bodies k and centre of mass X, and for a cell with children c:
//!
//!   M_ij = Σ_k m_k s_ki s_kj,            s_k = x_k − X
//!   M_ij = Σ_c (M_ij + m S_i S_j)_c,     S_c = X_c − X

use super::build::{Cell, Octree};

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

    /// Returns the moments of a cell without children.
    pub fn of_leaf(cell: &Cell, tree: &Octree) -> Self {
        let body = |i| Self { mass: tree.mass[i], centre: tree.position.get(i), second: [0.0; 6] };
        Self::from_parts(cell.bodies().map(body), geometric_centre(cell, tree))
    }

    /// Returns the moments of a cell from those of its children.
    pub fn of_children(cell: &Cell, children: &[Self], tree: &Octree) -> Self {
        Self::from_parts(children.iter().copied(), geometric_centre(cell, tree))
    }
}

fn geometric_centre(cell: &Cell, tree: &Octree) -> [f64; 3] {
    tree.cube.cell_geometry(tree.keys[cell.begin as usize], u32::from(cell.level)).0
}
