//! Groups of neighbouring bodies that walk the tree together.
//!
//! Consecutive small siblings are joined up to a maximum size, but never across the border of their
//! parent. The bodies of a group are then in one cell, and a group is compact where bodies are
//! dense. Runs of a fixed length along the curve would span long jumps of the curve, and one such
//! group opens most of the tree.

use std::ops::Range;

use rayon::prelude::*;

use super::build::Octree;

/// Range of neighbouring bodies in curve order, and the box around them.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Range of the sorted bodies.
    pub bodies: Range<usize>,
    /// Centre of the bounding box.
    pub centre: [f64; 3],
    /// Half of each side of the bounding box.
    pub half: [f64; 3],
}

impl Group {
    fn new(tree: &Octree, bodies: Range<usize>) -> Self {
        let mut group = Self { bodies, centre: [0.0; 3], half: [0.0; 3] };
        for (axis, column) in [&tree.position.x, &tree.position.y, &tree.position.z].into_iter().enumerate() {
            let column = &column[group.bodies.clone()];
            let (low, high) = column
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
            group.centre[axis] = 0.5 * low + 0.5 * high;
            // The centre is rounded, so the two halves can differ. Take the larger one.
            group.half[axis] = (high - group.centre[axis]).max(group.centre[axis] - low);
        }
        group
    }
}

impl Octree {
    /// Returns groups of at most `size` bodies in curve order. Every body is in exactly one group.
    pub fn groups(&self, size: usize) -> Vec<Group> {
        let size = size.max(1);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        // A group that may still grow: its range, and the parent of its cells.
        let mut open: Option<(Range<usize>, usize)> = None;
        let mut stack = vec![(0usize, usize::MAX)];
        while let Some((index, parent)) = stack.pop() {
            let cell = &self.cells[index];
            let bodies = cell.bodies();
            if cell.len() <= size {
                match &mut open {
                    Some((run, run_parent)) if *run_parent == parent && bodies.end - run.start <= size => {
                        run.end = bodies.end
                    }
                    _ => {
                        ranges.extend(open.take().map(|(run, _)| run));
                        open = Some((bodies, parent));
                    }
                }
                continue;
            }
            ranges.extend(open.take().map(|(run, _)| run));
            if cell.is_leaf() {
                ranges
                    .extend(bodies.clone().step_by(size).map(|begin| begin..(begin + size).min(bodies.end)));
            }
            stack.extend(cell.child_range().rev().map(|child| (child, index)));
        }
        ranges.extend(open.take().map(|(run, _)| run));
        ranges.into_par_iter().with_min_len(64).map(|bodies| Group::new(self, bodies)).collect()
    }
}
