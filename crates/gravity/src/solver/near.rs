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
//! along each axis may be near a target. They are found before the sums, not in the inner loop:
//! first by the boxes of groups (direct sum) or by the walk (tree), then in blocks of
//! [`BLOCK`] bodies. Only for them does the inner loop compare the distance of each pair with that
//! limit, and take the differences of nearer pairs in f64. All other pairs have errors below 6e-6,
//! and the usual error is 10 times smaller.

use std::ops::Range;

use orrery_model::Vec3s;
use orrery_model::analysis::max_or_nan;
use orrery_simd::Vector;

use crate::tree::BodyGroup;

/// Distance from the box of the targets along each axis, in units of the largest half side of the
/// box, up to which sources are near.
pub const NEAR_MARGIN: f64 = 1.0 / 8.0;

/// Bodies, consecutive along the curve, that are near if one of them is. Shorter ranges would cost
/// more time than the few bodies more.
const BLOCK: usize = 8;

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
    /// Sources that may be near a target.
    pub near: BodyRanges,
    /// All other sources.
    pub far: BodyRanges,
}

impl TargetBox {
    /// Returns the box of a group.
    pub fn new(group: &BodyGroup) -> Self {
        let margin = NEAR_MARGIN * group.half.into_iter().fold(0.0, max_or_nan);
        Self { centre: group.centre, half: group.half, margin }
    }

    /// Returns true if a body of `group` may be near.
    #[inline(always)]
    fn may_be_near(&self, group: &BodyGroup) -> bool {
        // The box of the group is rounded.
        let limit = self.margin * (1.0 + 1e-9);
        for axis in 0..3 {
            if (group.centre[axis] - self.centre[axis]).abs() - self.half[axis] - group.half[axis] > limit {
                return false;
            }
        }
        true
    }

    /// Returns true if one of the bodies in `block` is within the margin. At most [`BLOCK`] bodies.
    #[inline(always)]
    fn is_block_near<D: Vector<Scalar = f64>>(&self, position: &Vec3s, block: Range<usize>) -> bool {
        let columns = [&position.x[..], &position.y[..], &position.z[..]];
        if block.start + BLOCK > position.x.len() {
            return block.into_iter().any(|body| {
                let outside = |axis: usize| (columns[axis][body] - self.centre[axis]).abs() - self.half[axis];
                (0..3).all(|axis| outside(axis) <= self.margin)
            });
        }
        let margin = D::splat(self.margin);
        let mut near_lanes = 0;
        for part in (0..BLOCK).step_by(D::LANES) {
            // The distance along the axis where it is largest. Squares could overflow.
            let mut distance = D::splat(0.0);
            for axis in 0..3 {
                let offset = D::load(&columns[axis][block.start + part..]).sub(D::splat(self.centre[axis]));
                distance = distance.max(offset.abs().sub(D::splat(self.half[axis])));
            }
            let all_lanes = u32::MAX >> (32 - D::LANES);
            near_lanes |= (!distance.greater_mask(margin) & all_lanes) << part;
        }
        near_lanes & (u32::MAX >> (32 - block.len())) != 0
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
    pub fn add_bodies<D: Vector<Scalar = f64>>(
        &mut self,
        targets: &TargetBox,
        position: &Vec3s,
        range: Range<usize>,
    ) {
        for start in range.clone().step_by(BLOCK) {
            let block = start..range.end.min(start + BLOCK);
            let is_near = targets.is_block_near::<D>(position, block.clone());
            let part = if is_near { &mut self.near } else { &mut self.far };
            part.push(block);
        }
    }

    /// Replaces the sources by all bodies except those of the group `own`. `groups` are those of
    /// all bodies, in curve order.
    #[inline(always)]
    pub fn divide_groups<D: Vector<Scalar = f64>>(
        &mut self,
        own: &BodyGroup,
        groups: &[BodyGroup],
        position: &Vec3s,
    ) {
        self.clear();
        let targets = TargetBox::new(own);
        for group in groups {
            if group.bodies == own.bodies {
                continue;
            }
            if targets.may_be_near(group) {
                self.add_bodies::<D>(&targets, position, group.bodies.clone());
            } else {
                self.far.push(group.bodies.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orrery_model::rng::Draws;
    use orrery_simd::{InstructionSet, SimdKernel, SingleVector, dispatch};

    use super::*;
    use crate::tree::Octree;

    struct Division<'a> {
        own: &'a BodyGroup,
        groups: &'a [BodyGroup],
        position: &'a Vec3s,
    }

    impl SimdKernel for Division<'_> {
        type Output = DividedSources;

        #[inline(always)]
        fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> DividedSources {
            let mut sources = DividedSources::default();
            sources.divide_groups::<D>(self.own, self.groups, self.position);
            sources
        }
    }

    /// Every body except those of the group is in one of the two parts. Bodies within the margin
    /// are in the near one, with few others.
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
        let (mut near_bodies, mut bodies_within) = (0, 0);
        for own in &groups {
            let division = || Division { own, groups: &groups, position: &tree.position };
            let sources = dispatch(InstructionSet::Portable, division());
            for set in InstructionSet::available() {
                let same = dispatch(set, division());
                assert_eq!(
                    (same.near.ranges, same.far.ranges),
                    (sources.near.ranges.clone(), sources.far.ranges.clone())
                );
            }
            let margin = NEAR_MARGIN * own.half.into_iter().fold(0.0, max_or_nan);
            let mut found = vec![0; 3000];
            for (part, is_near) in [(&sources.near, true), (&sources.far, false)] {
                for body in part.ranges.iter().flat_map(Clone::clone) {
                    found[body] += 1;
                    let x = tree.position.get(body);
                    let outside = [0, 1, 2].map(|k| ((x[k] - own.centre[k]).abs() - own.half[k]).max(0.0));
                    let distance = outside.into_iter().fold(0.0, max_or_nan);
                    assert!(is_near || distance > margin, "{distance} of {margin}");
                    near_bodies += usize::from(is_near);
                    bodies_within += usize::from(distance <= margin);
                }
            }
            for (body, count) in found.into_iter().enumerate() {
                assert_eq!(count, usize::from(!own.bodies.contains(&body)), "body {body}");
            }
        }
        assert!(bodies_within > 500 && near_bodies < 4 * bodies_within, "{bodies_within}, {near_bodies}");
    }
}
