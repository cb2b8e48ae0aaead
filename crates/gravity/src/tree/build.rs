//! Build of the octree: cube, sorted bodies (`curve`), cells (`subtrees`) and their moments.
//!
//! All stages run on all threads. Memory is kept from build to build, because first use of fresh
//! memory takes time in the operating system, which several threads cannot share.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use orrery_model::Vec3s;

use super::curve::{self, CurveBuffers};
use super::moments::Moments;
use super::morton::Cube;
use super::subtrees::CellBuffers;

/// Cell of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
/// use orrery_gravity::tree::Octree;
///
/// let mut position = Vec3s::default();
/// for i in 0..100 {
///     position.push([i as f64, 0.5, (i % 7) as f64]);
/// }
/// let tree = Octree::build(&position, &[1.0; 100], 16);
/// assert_eq!(tree.cells[0].bodies(), 0..100);
/// assert_eq!(tree.moments[0].mass, 100.0);
/// assert_eq!(tree.order[tree.rank(42)], 42);
/// ```
#[derive(Debug, Default)]
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
    /// Sorted index of each body, in the user's order: the inverse of `order`. Atomic, because the
    /// sort writes it from several threads.
    pub(super) rank: Vec<AtomicU32>,
    curve_buffers: CurveBuffers,
    cell_buffers: CellBuffers,
}

impl Octree {
    /// Sorts the bodies and divides them into cells, down to leaves of at most `leaf_size` bodies.
    ///
    /// At least 1 and at most 2³² − 1 bodies. All positions must be finite.
    pub fn build(position: &Vec3s, mass: &[f64], leaf_size: usize) -> Self {
        let mut tree = Self::default();
        tree.rebuild(position, mass, leaf_size);
        tree
    }

    /// Replaces the tree by that of other bodies, with the result of [`Octree::build`]. The memory
    /// is reused.
    pub fn rebuild(&mut self, position: &Vec3s, mass: &[f64], leaf_size: usize) {
        assert!(!mass.is_empty() && u32::try_from(mass.len()).is_ok(), "1 to 2^32 - 1 bodies");
        self.cube = Cube::around(position);
        let mut buffers = std::mem::take(&mut self.curve_buffers);
        curve::sort_bodies(self, &mut buffers, position, mass);
        self.curve_buffers = buffers;
        let mut buffers = std::mem::take(&mut self.cell_buffers);
        buffers.divide_bodies(self, leaf_size.max(1));
        self.cell_buffers = buffers;
    }

    /// Returns the sorted index of a body, for example 0 for the first one along the curve. `body`
    /// is the user's index.
    pub fn rank(&self, body: usize) -> usize {
        self.rank[body].load(Relaxed) as usize
    }

    /// Returns the geometric centre and the side of a cell.
    pub fn cell_geometry(&self, cell: usize) -> ([f64; 3], f64) {
        let cell = &self.cells[cell];
        self.cube.cell_geometry(self.keys[cell.begin as usize], u32::from(cell.level))
    }

    /// Returns the memory in bytes, with that of the build.
    pub fn bytes(&self) -> usize {
        let per_body = size_of::<(u64, u32, AtomicU32)>() + 4 * size_of::<f64>();
        let per_cell = size_of::<Cell>() + size_of::<Moments>();
        let in_buffers = self.curve_buffers.bytes() + self.cells.len() * per_cell;
        self.order.len() * per_body + self.cells.len() * per_cell + in_buffers
    }
}
