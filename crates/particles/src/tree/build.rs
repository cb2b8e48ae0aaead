//! From positions to cells: keys, sort, one generation of cells after the other.

use std::ops::Range;

use rayon::prelude::*;

use orrery_model::Vec3s;
use orrery_primitives::sort;

use super::moments::{self, Moments};
use super::morton::{self, BITS, Cube};

/// A cell of the tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// First of its sorted bodies.
    pub begin: u32,
    /// One past the last.
    pub end: u32,
    /// Its first child, if it has any.
    pub first_child: u32,
    /// How many children: 0 for a leaf, else 2 to 8.
    pub children: u8,
    /// Halvings of the root cube.
    pub level: u8,
}

impl Cell {
    /// How many bodies it holds.
    pub fn len(&self) -> usize {
        (self.end - self.begin) as usize
    }

    /// Whether it holds none; never so in a built tree.
    pub fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Whether it has no children.
    pub fn is_leaf(&self) -> bool {
        self.children == 0
    }

    /// Its bodies, as a range of the sorted ones.
    pub fn bodies(&self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }

    /// Its children, as a range of the cells.
    pub fn child_range(&self) -> Range<usize> {
        self.first_child as usize..self.first_child as usize + usize::from(self.children)
    }
}

/// Bodies in curve order and the cells over them.
#[derive(Clone, Debug)]
pub struct Octree {
    /// The root's cube.
    pub cube: Cube,
    /// `order[k]` is the user's index of sorted body k.
    pub order: Vec<u32>,
    /// Positions in sorted order.
    pub position: Vec3s,
    /// Masses in sorted order.
    pub mass: Vec<f64>,
    /// Cells, the root first, breadth-first.
    pub cells: Vec<Cell>,
    /// Of each cell, about its centre of mass.
    pub moments: Vec<Moments>,
    /// Keys in sorted order.
    pub keys: Vec<u64>,
}

impl Octree {
    /// Sorts the bodies and divides them into cells, down to leaves of at most `leaf_size`.
    ///
    /// Positions must be finite and at most 2³² − 1; there must be at least one.
    pub fn build(position: &Vec3s, mass: &[f64], leaf_size: usize) -> Self {
        assert!(!mass.is_empty() && u32::try_from(mass.len()).is_ok(), "1 to 2^32 - 1 bodies");
        let cube = Cube::around(position);
        let (keys, order) = sorted_keys(position, &cube);
        let gather = |column: &[f64]| order.par_iter().map(|&i| column[i as usize]).collect::<Vec<_>>();
        let position = Vec3s { x: gather(&position.x), y: gather(&position.y), z: gather(&position.z) };
        let mass = gather(mass);
        let (cells, generations) = divide(&keys, leaf_size.max(1));
        let moments = moments::of_cells(&cells, &generations, &cube, &keys, &position, &mass);
        Self { cube, order, position, mass, cells, moments, keys }
    }

    /// Centre and side of cell `c`.
    pub fn geometry(&self, c: usize) -> ([f64; 3], f64) {
        let cell = &self.cells[c];
        self.cube.cell(self.keys[cell.begin as usize], u32::from(cell.level))
    }
}

/// Keys in order, and the index that each came from.
fn sorted_keys(position: &Vec3s, cube: &Cube) -> (Vec<u64>, Vec<u32>) {
    let pairs: Vec<_> =
        (0..position.len() as u32).into_par_iter().map(|i| (cube.key(position.get(i as usize)), i)).collect();
    sort::sort_pairs_on_cpu(pairs).into_par_iter().unzip()
}

/// The level of the smallest cell that holds two keys.
fn common_level(a: u64, b: u64) -> u32 {
    (((a ^ b) << 1).leading_zeros() / 3).min(BITS)
}

/// All cells, breadth-first, and where each generation starts (with the end of the last).
fn divide(keys: &[u64], leaf_size: usize) -> (Vec<Cell>, Vec<usize>) {
    let cell = |bodies: Range<usize>| Cell {
        begin: bodies.start as u32,
        end: bodies.end as u32,
        first_child: 0,
        children: 0,
        level: common_level(keys[bodies.start], keys[bodies.end - 1]) as u8,
    };
    let mut cells =
        vec![Cell { level: common_level(keys[0], keys[keys.len() - 1]) as u8, ..cell(0..keys.len()) }];
    let mut generations = vec![0, 1];
    loop {
        let start = generations[generations.len() - 2];
        let parts: Vec<_> = cells[start..].par_iter().map(|parent| parts(parent, keys, leaf_size)).collect();
        let next = cells.len();
        for (parent, (bounds, count)) in (start..next).zip(parts) {
            if count > 0 {
                cells[parent].first_child = cells.len() as u32;
                cells[parent].children = count as u8;
                cells.extend(bounds.windows(2).take(count).map(|w| cell(w[0] as usize..w[1] as usize)));
            }
        }
        if cells.len() == next {
            return (cells, generations);
        }
        generations.push(cells.len());
    }
}

/// The bounds of a cell's occupied parts, and how many there are; none for a leaf.
fn parts(parent: &Cell, keys: &[u64], leaf_size: usize) -> ([u32; 9], usize) {
    let level = u32::from(parent.level);
    let (mut bounds, mut count) = ([parent.begin; 9], 0);
    if parent.len() <= leaf_size || level == BITS {
        return (bounds, 0);
    }
    let mut from = parent.begin as usize;
    while from < parent.end as usize {
        let digit = morton::digit(keys[from], level);
        from += keys[from..parent.end as usize].partition_point(|&key| morton::digit(key, level) == digit);
        count += 1;
        bounds[count] = from as u32;
    }
    (bounds, count)
}
