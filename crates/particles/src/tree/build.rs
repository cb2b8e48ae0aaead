//! Build of the octree: keys, sort, then one generation of cells after the other.

use std::ops::Range;

use rayon::prelude::*;

use orrery_model::Vec3s;
use orrery_primitives::sort;

use super::moments::{self, Moments};
use super::morton::{self, COORDINATE_BITS, Cube};

/// Cell of the tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// First sorted body.
    pub begin: u32,
    /// One past the last sorted body.
    pub end: u32,
    /// First child. Unused for a leaf.
    pub first_child: u32,
    /// Number of children: 0 for a leaf, otherwise 2 to 8.
    pub children: u8,
    /// Level: the cube of the cell is the root cube halved this many times.
    pub level: u8,
}

impl Cell {
    /// Returns the number of bodies.
    pub fn len(&self) -> usize {
        (self.end - self.begin) as usize
    }

    /// Whether the cell contains no bodies. False for every cell of a built tree.
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Whether the cell has no children.
    pub fn is_leaf(&self) -> bool {
        self.children == 0
    }

    /// Returns the range of the sorted bodies in the cell.
    pub fn bodies(&self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }

    /// Returns the range of cells that are its children.
    pub fn child_range(&self) -> Range<usize> {
        self.first_child as usize..self.first_child as usize + usize::from(self.children)
    }
}

/// Bodies in curve order and the cells over them.
///
/// ```
/// use orrery_model::Vec3s;
/// use orrery_particles::tree::Octree;
///
/// let mut position = Vec3s::default();
/// for i in 0..100 {
///     position.push([i as f64, 0.5, (i % 7) as f64]);
/// }
/// let tree = Octree::build(&position, &[1.0; 100], 16);
/// assert_eq!(tree.cells[0].bodies(), 0..100);
/// assert_eq!(tree.moments[0].mass, 100.0);
/// ```
#[derive(Clone, Debug)]
pub struct Octree {
    /// Cube around all bodies.
    pub cube: Cube,
    /// User's index of each sorted body. For example, `order[0]` is the index of the first body
    /// along the curve.
    pub order: Vec<u32>,
    /// Positions in sorted order.
    pub position: Vec3s,
    /// Masses in sorted order.
    pub mass: Vec<f64>,
    /// Cells in breadth-first order. The root is cell 0.
    pub cells: Vec<Cell>,
    /// Moments of each cell about its centre of mass.
    pub moments: Vec<Moments>,
    /// Keys in sorted order.
    pub keys: Vec<u64>,
}

impl Octree {
    /// Sorts the bodies and divides them into cells, down to leaves of at most `leaf_size` bodies.
    ///
    /// At least 1 and at most 2³² − 1 bodies. All positions must be finite.
    pub fn build(position: &Vec3s, mass: &[f64], leaf_size: usize) -> Self {
        assert!(!mass.is_empty() && u32::try_from(mass.len()).is_ok(), "1 to 2^32 - 1 bodies");
        let cube = Cube::around(position);
        let (keys, order) = sorted_keys(position, &cube);
        let gather = |column: &[f64]| order.par_iter().map(|&i| column[i as usize]).collect::<Vec<_>>();
        let position = Vec3s { x: gather(&position.x), y: gather(&position.y), z: gather(&position.z) };
        let mass = gather(mass);
        let (cells, generations) = divide_cells(&keys, leaf_size.max(1));
        let moments = moments::find_moments(&cells, &generations, &cube, &keys, &position, &mass);
        Self { cube, order, position, mass, cells, moments, keys }
    }

    /// Returns the geometric centre and the side of a cell.
    pub fn cell_geometry(&self, cell: usize) -> ([f64; 3], f64) {
        let cell = &self.cells[cell];
        self.cube.cell_geometry(self.keys[cell.begin as usize], u32::from(cell.level))
    }
}

/// Returns the sorted keys and the index of the body of each key.
fn sorted_keys(position: &Vec3s, cube: &Cube) -> (Vec<u64>, Vec<u32>) {
    let pairs: Vec<_> =
        (0..position.len() as u32).into_par_iter().map(|i| (cube.key(position.get(i as usize)), i)).collect();
    sort::sort_pairs_on_cpu(pairs).into_par_iter().unzip()
}

/// Returns the level of the smallest cell that contains both keys.
fn common_level(a: u64, b: u64) -> u32 {
    (((a ^ b) << 1).leading_zeros() / 3).min(COORDINATE_BITS)
}

/// Returns all cells in breadth-first order, and the first cell of each generation followed by the
/// number of cells.
fn divide_cells(keys: &[u64], leaf_size: usize) -> (Vec<Cell>, Vec<usize>) {
    let new_cell = |bodies: Range<usize>| Cell {
        begin: bodies.start as u32,
        end: bodies.end as u32,
        first_child: 0,
        children: 0,
        level: common_level(keys[bodies.start], keys[bodies.end - 1]) as u8,
    };
    let mut cells = vec![new_cell(0..keys.len())];
    let mut generations = vec![0, 1];
    loop {
        let start = generations[generations.len() - 2];
        let octants: Vec<_> =
            cells[start..].par_iter().map(|parent| find_octants(parent, keys, leaf_size)).collect();
        let next = cells.len();
        for (parent, (bounds, count)) in (start..next).zip(octants) {
            if count > 0 {
                cells[parent].first_child = cells.len() as u32;
                cells[parent].children = count as u8;
                cells.extend(bounds.windows(2).take(count).map(|w| new_cell(w[0] as usize..w[1] as usize)));
            }
        }
        if cells.len() == next {
            return (cells, generations);
        }
        generations.push(cells.len());
    }
}

/// Returns the bounds of the occupied octants of a cell and their number, which is 0 for a leaf.
fn find_octants(parent: &Cell, keys: &[u64], leaf_size: usize) -> ([u32; 9], usize) {
    let level = u32::from(parent.level);
    let (mut bounds, mut count) = ([parent.begin; 9], 0);
    if parent.len() <= leaf_size || level == COORDINATE_BITS {
        return (bounds, 0);
    }
    let mut from = parent.begin as usize;
    while from < parent.end as usize {
        let octant = morton::octant(keys[from], level);
        from += keys[from..parent.end as usize].partition_point(|&key| morton::octant(key, level) == octant);
        count += 1;
        bounds[count] = from as u32;
    }
    (bounds, count)
}
