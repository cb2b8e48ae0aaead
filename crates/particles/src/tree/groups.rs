//! Groups of neighbouring bodies that walk the tree together.
//!
//! Consecutive small siblings are joined up to a size, never across their parent's border: bodies of a group
//! lie within one cell, so that a group is as compact as the bodies around it are dense. Runs of a fixed
//! length along the curve would straddle far jumps, and one such group opens most of the tree.

use std::ops::Range;

use rayon::prelude::*;

use super::build::Octree;

/// Neighbouring bodies, by their range in curve order, and the box around them.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Sorted bodies.
    pub bodies: Range<usize>,
    /// Centre of the bounding box.
    pub centre: [f64; 3],
    /// Half the sides of the bounding box.
    pub half: [f64; 3],
}

impl Group {
    fn new(tree: &Octree, bodies: Range<usize>) -> Self {
        let mut group = Self { bodies, centre: [0.0; 3], half: [0.0; 3] };
        for (c, column) in [&tree.position.x, &tree.position.y, &tree.position.z].into_iter().enumerate() {
            let column = &column[group.bodies.clone()];
            let (low, high) =
                column.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)));
            group.centre[c] = 0.5 * low + 0.5 * high;
            // The far side may round away from the centre: take the larger half.
            group.half[c] = (high - group.centre[c]).max(group.centre[c] - low);
        }
        group
    }
}

impl Octree {
    /// Groups of at most `size` bodies that cover all bodies, in curve order.
    pub fn groups(&self, size: usize) -> Vec<Group> {
        let size = size.max(1);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        // A run that may still grow: its range and its parent.
        let mut open: Option<(Range<usize>, usize)> = None;
        let mut stack = vec![(0usize, usize::MAX)];
        while let Some((c, parent)) = stack.pop() {
            let cell = &self.cells[c];
            let bodies = cell.bodies();
            if cell.len() <= size {
                match &mut open {
                    Some((run, of)) if *of == parent && bodies.end - run.start <= size => {
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
            stack.extend(cell.child_range().rev().map(|child| (child, c)));
        }
        ranges.extend(open.take().map(|(run, _)| run));
        ranges.into_par_iter().with_min_len(64).map(|bodies| Group::new(self, bodies)).collect()
    }
}
