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
pub struct BodyGroup {
    /// Range of the sorted bodies.
    pub bodies: Range<usize>,
    /// Centre of the bounding box.
    pub centre: [f64; 3],
    /// Half of each side of the bounding box.
    pub half: [f64; 3],
}

/// Number of parts into which uniform bodies are divided among threads, at least.
const MIN_PARTS: usize = 128;

/// The groups of a cell with at most this many bodies are found by one thread.
const MIN_SHARE: usize = 512;

/// Part of the bodies, in curve order.
enum Part {
    /// The bodies of one group.
    Group(Range<usize>),
    /// A cell with more bodies than fit in a group.
    Cell(usize),
}

impl BodyGroup {
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

/// Returns the first body at or after `body` with which a group starts, or the number of bodies.
/// `groups` are those of all bodies, in curve order.
pub(crate) fn next_group_start(groups: &[BodyGroup], body: usize) -> usize {
    let group = groups.partition_point(|group| group.bodies.start < body);
    groups.get(group).map_or(groups.last().map_or(0, |last| last.bodies.end), |group| group.bodies.start)
}

/// Returns the groups of the bodies `range`, which starts and ends between groups.
pub(crate) fn groups_within(groups: &[BodyGroup], range: Range<usize>) -> &[BodyGroup] {
    let index_of = |body| groups.partition_point(|group| group.bodies.start < body);
    &groups[index_of(range.start)..index_of(range.end)]
}

impl Octree {
    /// Returns groups of at most `size` bodies in curve order. Every body is in exactly one group.
    pub fn groups(&self, size: usize) -> Vec<BodyGroup> {
        let mut groups = Vec::new();
        self.find_groups(size, &mut groups);
        groups
    }

    /// Replaces `groups` by the result of [`Octree::groups`].
    ///
    /// The bodies of a cell with more than `size` bodies are in groups of that cell alone. Such
    /// cells are therefore independent, and threads share them.
    pub fn find_groups(&self, size: usize, groups: &mut Vec<BodyGroup>) {
        let size = size.max(1);
        let max_share = (self.mass.len() / MIN_PARTS).max(MIN_SHARE).max(size);
        let mut parts = Vec::new();
        self.visit_ranges(0, size, max_share, &mut |part| parts.push(part));
        groups.clear();
        groups.par_extend(parts.into_par_iter().flat_map_iter(|part| {
            let mut ranges = Vec::new();
            match part {
                Part::Group(bodies) => ranges.push(bodies),
                Part::Cell(cell) => {
                    self.visit_ranges(cell, size, size, &mut |part| match part {
                        Part::Group(bodies) => ranges.push(bodies),
                        Part::Cell(_) => unreachable!("cells of at most `size` bodies are not parts"),
                    });
                }
            }
            ranges.into_iter().map(|bodies| BodyGroup::new(self, bodies))
        }));
    }

    /// Calls `visit` with the groups of the bodies of a cell, in curve order. Descendants with more
    /// than `size` and at most `max_share` bodies are not divided into groups but visited as cells.
    fn visit_ranges(&self, cell: usize, size: usize, max_share: usize, visit: &mut impl FnMut(Part)) {
        // A group that may still grow: its range, and the parent of its cells.
        let mut open: Option<(Range<usize>, usize)> = None;
        let mut stack = vec![(cell, usize::MAX)];
        while let Some((index, parent)) = stack.pop() {
            let cell = &self.cells[index];
            let bodies = cell.bodies();
            if cell.len() <= size {
                match &mut open {
                    Some((run, run_parent)) if *run_parent == parent && bodies.end - run.start <= size => {
                        run.end = bodies.end
                    }
                    _ => {
                        open.replace((bodies, parent))
                            .into_iter()
                            .for_each(|(run, _)| visit(Part::Group(run)));
                    }
                }
                continue;
            }
            open.take().into_iter().for_each(|(run, _)| visit(Part::Group(run)));
            if cell.len() <= max_share {
                visit(Part::Cell(index));
            } else if cell.is_leaf() {
                let starts = bodies.clone().step_by(size);
                starts.for_each(|begin| visit(Part::Group(begin..(begin + size).min(bodies.end))));
            } else {
                stack.extend(cell.child_range().rev().map(|child| (child, index)));
            }
        }
        open.into_iter().for_each(|(run, _)| visit(Part::Group(run)));
    }
}

#[cfg(test)]
mod tests {
    use orrery_model::Vec3s;
    use orrery_model::rng::Draws;

    use super::*;

    #[test]
    fn groups_are_cut_at_their_starts() {
        let group = |bodies| BodyGroup { bodies, centre: [0.0; 3], half: [0.0; 3] };
        let groups = [group(0..3), group(3..4), group(4..9)];
        assert_eq!([0, 1, 3, 4, 5, 9].map(|body| next_group_start(&groups, body)), [0, 3, 3, 4, 9, 9]);
        assert_eq!(groups_within(&groups, 0..9), groups);
        assert_eq!(groups_within(&groups, 3..9), &groups[1..]);
        assert_eq!(groups_within(&groups, 0..3), &groups[..1]);
        for border in [0, 3, 4, 9] {
            assert!(groups_within(&groups, border..border).is_empty());
        }
    }

    /// Groups that are found in parts, by several threads, are those of one pass over the tree.
    #[test]
    fn groups_of_parts_are_those_of_the_whole_tree() {
        for (n, size) in [(1, 1), (40, 48), (511, 48), (513, 48), (6000, 48), (6000, 1), (6000, 700)] {
            let mut position = Vec3s::default();
            for i in 0..n {
                let mut draws = Draws::new(3, 0, i);
                let r = draws.uniform().powi(4);
                position.push(draws.direction().map(|c| r * c));
            }
            let tree = Octree::build(&position, &vec![1.0; n as usize], 16);
            let mut expected = Vec::new();
            tree.visit_ranges(0, size, size, &mut |part| match part {
                Part::Group(bodies) => expected.push(BodyGroup::new(&tree, bodies)),
                Part::Cell(cell) => panic!("cell {cell} is not divided"),
            });
            assert_eq!(tree.groups(size), expected, "{n} bodies, groups of {size}");
        }
    }
}
