//! Bodies near a group of targets, whose differences of coordinates need more digits than f32 has.
//!
//! In mixed precision, coordinates are rounded to f32 relative to the centre of the targets' box.
//! With unit roundoff u = 2⁻²⁴, largest half side h of the box, and a source at distance r from it,
//! both coordinates of a difference are at most 2 h + r, so each component of the difference has an
//! error of at most u (3 h + 2 r). The force of a pair then changes by at most 2 √3 u (3 h / r + 2)
//! of itself, which has no limit for small r. Sources with
//!
//!   r ≤ h [`NEAR_MARGIN`]
//!
//! along each axis are near. Their differences are taken in f64. All other pairs have errors below
//! 6e-6, and the usual error is 10 times smaller. Near bodies are found before the sums, not in the
//! inner loop: first by the boxes of groups (direct sum) or by the walk (tree), then body by body.

use std::ops::Range;

use orrery_model::Vec3s;

use crate::tree::Group;

/// Distance from the box of the targets along each axis, in units of the largest half side of the
/// box, up to which sources are near.
pub const NEAR_MARGIN: f64 = 1.0 / 8.0;

/// Box around targets, and the distance from it up to which sources are near.
#[derive(Clone, Copy, Debug)]
pub struct TargetBox {
    centre: [f64; 3],
    half: [f64; 3],
    /// Distance along each axis up to which sources are near.
    pub margin: f64,
}

/// Disjoint ranges of sorted bodies, in the order in which they were added. A range that continues
/// the one before it is joined to it.
#[derive(Clone, Debug, Default)]
pub struct BodyRanges {
    /// The ranges. None is empty.
    pub ranges: Vec<Range<usize>>,
}

/// Sources of one group of targets, divided by their distance. Neither part contains the targets.
#[derive(Clone, Debug, Default)]
pub struct DividedSources {
    /// Sources whose differences of coordinates are taken in f64.
    pub near: BodyRanges,
    /// All other sources.
    pub far: BodyRanges,
    /// Distances of bodies from the box, each along the axis where it is largest. Squares could
    /// overflow.
    distance: Vec<f64>,
}

impl TargetBox {
    /// Returns the box of a group.
    pub fn new(group: &Group) -> Self {
        let margin = NEAR_MARGIN * group.half.iter().fold(0.0, |largest: f64, half| largest.max(*half));
        Self { centre: group.centre, half: group.half, margin }
    }

    /// Returns true if a body of `group` may be near.
    #[inline(always)]
    fn may_be_near(&self, group: &Group) -> bool {
        // The box of the group is rounded.
        let limit = self.margin * (1.0 + 1e-9);
        for axis in 0..3 {
            if (group.centre[axis] - self.centre[axis]).abs() - self.half[axis] - group.half[axis] > limit {
                return false;
            }
        }
        true
    }

    /// Replaces `distance` by the distances of the bodies `range` from the box.
    #[inline(always)]
    fn find_distances(&self, position: &Vec3s, range: Range<usize>, distance: &mut Vec<f64>) {
        let n = range.len();
        distance.clear();
        distance.resize(n, 0.0);
        let distance = &mut distance[..n];
        for (axis, column) in [&position.x, &position.y, &position.z].into_iter().enumerate() {
            let (column, centre, half) = (&column[range.clone()][..n], self.centre[axis], self.half[axis]);
            for k in 0..n {
                let outside = (column[k] - centre).abs() - half;
                distance[k] = if outside > distance[k] { outside } else { distance[k] };
            }
        }
    }
}

impl BodyRanges {
    /// Appends the bodies `range`.
    #[inline(always)]
    pub fn push(&mut self, range: Range<usize>) {
        match self.ranges.last_mut() {
            _ if range.is_empty() => {}
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }
}

impl DividedSources {
    /// Removes all sources and keeps the memory.
    pub fn clear(&mut self) {
        self.near.ranges.clear();
        self.far.ranges.clear();
    }

    /// Adds the bodies `range`.
    #[inline(always)]
    pub fn add_bodies(&mut self, targets: &TargetBox, position: &Vec3s, range: Range<usize>) {
        targets.find_distances(position, range.clone(), &mut self.distance);
        let (distance, mut start) = (&self.distance[..], 0);
        while start < distance.len() {
            let is_near = distance[start] <= targets.margin;
            let mut end = start + 1;
            while end < distance.len() && (distance[end] <= targets.margin) == is_near {
                end += 1;
            }
            let bodies = range.start + start..range.start + end;
            if is_near {
                self.near.push(bodies)
            } else {
                self.far.push(bodies)
            }
            start = end;
        }
    }

    /// Replaces the sources by all bodies except those of the group `own`. `groups` are those of
    /// all bodies, in curve order.
    #[inline(always)]
    pub fn divide_groups(&mut self, own: &Group, groups: &[Group], position: &Vec3s) {
        self.clear();
        let targets = TargetBox::new(own);
        for group in groups {
            if group.bodies == own.bodies {
                continue;
            }
            if targets.may_be_near(group) {
                self.add_bodies(&targets, position, group.bodies.clone());
            } else {
                self.far.push(group.bodies.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orrery_model::rng::Draws;

    use super::*;
    use crate::tree::Octree;

    /// Every body except those of the group is in one of the two parts, by its distance.
    #[test]
    fn sources_are_divided_by_their_distance_from_the_box() {
        let mut position = Vec3s::default();
        for i in 0..3000 {
            let mut draws = Draws::new(7, 0, i);
            let r = draws.uniform().powi(3);
            position.push(draws.direction().map(|c| 1e6 + r * c));
        }
        let tree = Octree::build(&position, &vec![1.0; 3000], 48);
        let groups = tree.groups(48);
        let mut sources = DividedSources::default();
        let mut near_bodies = 0;
        for own in &groups {
            sources.divide_groups(own, &groups, &tree.position);
            let margin = NEAR_MARGIN * own.half.iter().fold(0.0, |largest: f64, half| largest.max(*half));
            let mut found = vec![0; 3000];
            for (part, is_near) in [(&sources.near, true), (&sources.far, false)] {
                for body in part.ranges.iter().flat_map(Clone::clone) {
                    found[body] += 1;
                    let x = tree.position.get(body);
                    let outside = [0, 1, 2].map(|k| ((x[k] - own.centre[k]).abs() - own.half[k]).max(0.0));
                    let distance = outside.into_iter().fold(0.0, f64::max);
                    assert_eq!(distance <= margin, is_near, "{distance} of {margin}");
                    near_bodies += usize::from(is_near);
                }
            }
            for (body, count) in found.into_iter().enumerate() {
                assert_eq!(count, usize::from(!own.bodies.contains(&body)), "body {body}");
            }
        }
        assert!(near_bodies > 500, "{near_bodies}");
    }
}
