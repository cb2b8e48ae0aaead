//! Division of the sorted bodies into cells, and the moments of the cells, on all threads.
//!
//! The cells near the root are divided one after another, until each has at most a small share of
//! the bodies. Below them are independent subtrees. Each subtree is built by one thread, with its
//! moments. Then the cells get their numbers in the whole tree.
//!
//! Cells are numbered in breadth-first order: by generation, and within a generation along the
//! curve. A generation of the whole tree therefore consists of single top cells and of one
//! generation of each subtree, in the order of the curve. The numbers follow from the counts of
//! cells per subtree and generation. They do not depend on where the tree is cut into subtrees.

use std::ops::Range;

use rayon::prelude::*;

use super::build::{Cell, Octree};
use super::moments::Moments;
use super::morton::{self, COORDINATE_BITS};

/// Number of subtrees per thread into which uniform bodies are divided, at least. More subtrees
/// balance the threads better, and their roots are found by one thread.
const SUBTREES_PER_THREAD: usize = 4;

/// A cell with at most this many bodies is not divided further among threads.
const MIN_SHARE: usize = 256;

/// Memory of the division into cells, reused from build to build.
#[derive(Debug, Default)]
pub struct CellBuffers {
    pieces: Vec<Piece>,
    subtrees: Vec<Subtree>,
}

/// Top cell or root of a subtree. Pieces are in depth-first order, parents before their children.
#[derive(Debug)]
struct Piece {
    cell: Cell,
    generation: usize,
    kind: PieceKind,
}

#[derive(Debug)]
enum PieceKind {
    /// A cell whose children are pieces, and its number in the whole tree.
    Top { number: usize },
    /// The root of the subtree with this index.
    Root { subtree: usize },
}

/// A cell and all its descendants.
#[derive(Debug, Default)]
struct Subtree {
    /// Cells in breadth-first order. Numbers of children count from the root of the subtree.
    cells: Vec<Cell>,
    /// Moments of the cells.
    moments: Vec<Moments>,
    /// First cell of each generation, followed by the number of cells.
    generations: Vec<usize>,
    /// Number in the whole tree of the first cell of each generation.
    numbers: Vec<usize>,
}

impl CellBuffers {
    /// Sets the cells and moments of `tree`, whose bodies are sorted.
    pub fn divide_bodies(&mut self, tree: &mut Octree, leaf_size: usize) {
        let subtree_count = self.cut_into_pieces(&tree.keys, leaf_size);
        if self.subtrees.len() < subtree_count {
            self.subtrees.resize_with(subtree_count, Subtree::default);
        }
        let Self { pieces, subtrees } = self;
        let roots: Vec<Cell> =
            pieces.iter().filter(|piece| piece.is_root()).map(|piece| piece.cell).collect();
        let bodies: &Octree = tree;
        subtrees[..subtree_count].par_iter_mut().zip(roots).for_each(|(subtree, root)| {
            subtree.divide(root, &bodies.keys, leaf_size);
            subtree.find_moments(bodies);
        });
        let generation_counts = number_cells(pieces, subtrees);
        copy_cells(tree, pieces, subtrees, &generation_counts);
    }

    /// Divides the cells near the root and lists them and the roots of subtrees. Returns the number
    /// of subtrees.
    fn cut_into_pieces(&mut self, keys: &[u64], leaf_size: usize) -> usize {
        let subtrees = SUBTREES_PER_THREAD * rayon::current_num_threads();
        let max_share = (keys.len() / subtrees).max(MIN_SHARE);
        let mut subtree_count = 0;
        let mut stack = vec![(new_cell(keys, 0..keys.len()), 0)];
        self.pieces.clear();
        while let Some((mut cell, generation)) = stack.pop() {
            let (bounds, count) =
                if cell.len() > max_share { find_octants(&cell, keys, leaf_size) } else { ([0; 9], 0) };
            let kind = if count > 0 {
                cell.children = count as u8;
                let octants = bounds.windows(2).take(count).rev();
                stack.extend(octants.map(|w| (new_cell(keys, w[0] as usize..w[1] as usize), generation + 1)));
                PieceKind::Top { number: 0 }
            } else {
                subtree_count += 1;
                PieceKind::Root { subtree: subtree_count - 1 }
            };
            self.pieces.push(Piece { cell, generation, kind });
        }
        subtree_count
    }
}

impl Piece {
    fn is_root(&self) -> bool {
        matches!(self.kind, PieceKind::Root { .. })
    }
}

impl Subtree {
    /// Divides the bodies of `root` into cells, one generation after the other.
    fn divide(&mut self, root: Cell, keys: &[u64], leaf_size: usize) {
        let Self { cells, generations, .. } = self;
        cells.clear();
        cells.push(root);
        generations.clear();
        generations.extend([0, 1]);
        loop {
            let (start, next) = (generations[generations.len() - 2], cells.len());
            for parent in start..next {
                let (bounds, count) = find_octants(&cells[parent], keys, leaf_size);
                if count > 0 {
                    cells[parent].first_child = cells.len() as u32;
                    cells[parent].children = count as u8;
                    let octants = bounds.windows(2).take(count);
                    cells.extend(octants.map(|w| new_cell(keys, w[0] as usize..w[1] as usize)));
                }
            }
            if cells.len() == next {
                return;
            }
            generations.push(cells.len());
        }
    }

    /// Computes the moments of all cells, children before their parents.
    fn find_moments(&mut self, bodies: &Octree) {
        let Self { cells, moments, .. } = self;
        moments.resize(cells.len(), Moments::default());
        for (index, cell) in cells.iter().enumerate().rev() {
            moments[index] = if cell.is_leaf() {
                Moments::of_leaf(cell, bodies)
            } else {
                Moments::of_children(cell, &moments[cell.child_range()], bodies)
            };
        }
    }

    fn generation_count(&self) -> usize {
        self.generations.len() - 1
    }

    /// Returns the cells of a generation, counted from the root of the subtree.
    fn generation(&self, generation: usize) -> Range<usize> {
        self.generations[generation]..self.generations[generation + 1]
    }

    /// Copies a generation to its place in the whole tree.
    fn copy_generation(&self, generation: usize, cells: &mut [Cell], moments: &mut [Moments]) {
        let range = self.generation(generation);
        moments.copy_from_slice(&self.moments[range.clone()]);
        cells.copy_from_slice(&self.cells[range.clone()]);
        // A last generation has no children.
        if let Some(&first_of_next) = self.numbers.get(generation + 1) {
            for cell in cells.iter_mut().filter(|cell| !cell.is_leaf()) {
                cell.first_child += (first_of_next - range.end) as u32;
            }
        }
    }
}

/// Sets the numbers of all cells in the whole tree. Returns the number of cells of each generation.
fn number_cells(pieces: &mut [Piece], subtrees: &mut [Subtree]) -> Vec<usize> {
    let mut counts: Vec<usize> = Vec::new();
    let mut add_cells = |generation: usize, cells: usize| {
        counts.resize(counts.len().max(generation + 1), 0);
        counts[generation] += cells;
    };
    for Piece { generation, kind, .. } in pieces.iter() {
        match *kind {
            PieceKind::Top { .. } => add_cells(*generation, 1),
            PieceKind::Root { subtree } => {
                let subtree = &subtrees[subtree];
                for local in 0..subtree.generation_count() {
                    add_cells(generation + local, subtree.generation(local).len());
                }
            }
        }
    }
    // The next number of each generation.
    let mut next: Vec<usize> = counts
        .iter()
        .scan(0, |total, count| {
            *total += count;
            Some(*total - count)
        })
        .collect();
    for Piece { cell, generation, kind } in pieces {
        match kind {
            PieceKind::Top { number } => {
                *number = next[*generation];
                next[*generation] += 1;
                // Pieces are in the order of the curve, so the next cell of the next generation is
                // the first child.
                cell.first_child = next[*generation + 1] as u32;
            }
            PieceKind::Root { subtree } => {
                let subtree = &mut subtrees[*subtree];
                subtree.numbers.clear();
                for local in 0..subtree.generation_count() {
                    let next = &mut next[*generation + local];
                    subtree.numbers.push(*next);
                    *next += subtree.generation(local).len();
                }
            }
        }
    }
    counts
}

/// Copies the cells and moments of all pieces to their places in `tree`.
fn copy_cells(tree: &mut Octree, pieces: &[Piece], subtrees: &[Subtree], generation_counts: &[usize]) {
    let cell_count = generation_counts.iter().sum();
    tree.cells.resize(cell_count, Cell::default());
    tree.moments.resize(cell_count, Moments::default());
    let (mut cells, mut moments) = (tree.cells.as_mut_slice(), tree.moments.as_mut_slice());
    let mut copies = Vec::new();
    for generation in 0..generation_counts.len() {
        for piece in pieces.iter().filter(|piece| piece.generation <= generation) {
            let local = generation - piece.generation;
            match piece.kind {
                PieceKind::Top { .. } if local == 0 => {
                    cells.split_off_first_mut().expect("one entry per cell").clone_from(&piece.cell);
                    moments.split_off_first_mut();
                }
                PieceKind::Root { subtree } if local < subtrees[subtree].generation_count() => {
                    let (subtree, len) = (&subtrees[subtree], subtrees[subtree].generation(local).len());
                    let cells = cells.split_off_mut(..len).expect("one entry per cell");
                    let moments = moments.split_off_mut(..len).expect("one entry per cell");
                    copies.push((subtree, local, cells, moments));
                }
                _ => {}
            }
        }
    }
    copies.into_par_iter().with_min_len(16).for_each(|(subtree, local, cells, moments)| {
        subtree.copy_generation(local, cells, moments);
    });
    // Children come after their parents, so their moments are known first.
    for piece in pieces.iter().rev() {
        if let PieceKind::Top { number } = piece.kind {
            let children = &tree.moments[piece.cell.child_range()];
            tree.moments[number] = Moments::of_children(&piece.cell, children, tree);
        }
    }
}

/// Returns a cell without children around a range of sorted bodies.
fn new_cell(keys: &[u64], bodies: Range<usize>) -> Cell {
    Cell {
        begin: bodies.start as u32,
        end: bodies.end as u32,
        first_child: 0,
        children: 0,
        level: common_level(keys[bodies.start], keys[bodies.end - 1]) as u8,
    }
}

/// Returns the level of the smallest cell that contains both keys.
fn common_level(a: u64, b: u64) -> u32 {
    (((a ^ b) << 1).leading_zeros() / 3).min(COORDINATE_BITS)
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
