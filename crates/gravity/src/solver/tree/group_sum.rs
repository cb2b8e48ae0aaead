//! Walk of the tree by one group of targets, and the sums over its lists.
//!
//! In mixed precision, bodies of opened leaves that may be near the group, and the group's bodies
//! themselves, are in a list with f64 coordinates as well (`near`). Cells nearer than that are
//! opened in every precision, so all precisions have the same terms.

use std::ops::Range;

use orrery_model::Precision;
use orrery_simd::{Real, SimdKernel, SingleVector, Vector, sum_lanes};

use super::cpu::{OpeningData, SMALL_CELL};
use crate::solver::ForceProblem;
use crate::solver::frame::Scaling;
use crate::solver::kernels::{
    BodyList, CellList, NearBodyList, NearTarget, ZERO_SUMS, add_bodies, add_cells, add_near_bodies,
};
use crate::solver::near::{BodyRanges, DividedSources, TargetBox};
use crate::tree::{BodyGroup, Octree};

/// Memory that a thread reuses from group to group.
#[derive(Default)]
pub struct GroupScratch<R> {
    /// Cells whose children are to be tested.
    stack: Vec<u32>,
    /// Accepted cells.
    accepted: Vec<u32>,
    /// Sorted bodies in opened leaves, without the group's bodies.
    opened: BodyRanges,
    /// In mixed precision, the opened bodies by their distance.
    sources: DividedSources,
    cells: CellList<R>,
    /// Opened bodies, in mixed precision only the far ones.
    bodies: BodyList<R>,
    /// Bodies of the group as sources. Empty in mixed precision.
    own: BodyList<R>,
    /// In mixed precision, the bodies of the group and then the near ones.
    near: NearBodyList,
    targets: Vec<[R; 3]>,
    /// The targets for `near`. Empty in other precisions.
    near_targets: Vec<NearTarget>,
}

/// A group, and what its sums depend on.
#[derive(Clone, Copy)]
pub struct GroupTask<'a> {
    pub problem: &'a ForceProblem<'a>,
    pub tree: &'a Octree,
    pub opening: &'a OpeningData,
    pub scaling: &'a Scaling,
    pub group: &'a BodyGroup,
    /// (G / alpha |a|)^{2/5} for the relative acceptance.
    pub stretch2: f64,
}

/// Walk and sum of one group, with lists of type `R`.
pub struct GroupSum<'a, R> {
    pub task: GroupTask<'a>,
    pub precision: Precision,
    pub scratch: &'a mut GroupScratch<R>,
    /// ax, ay, az and φ of each body of the group.
    pub results: &'a mut [[f64; 4]],
}

impl<R: Real> SimdKernel for GroupSum<'_, R> {
    /// Numbers of body terms and cell terms.
    type Output = (u64, u64);

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(mut self) -> (u64, u64) {
        if self.task.opening.is_relative() {
            self.walk::<D, true>();
        } else {
            self.walk::<D, false>();
        }
        self.fill_cells();
        self.fill_bodies::<D>();
        // As in `direct::cpu`: four targets or two, and a constant condition.
        let with_potential = self.task.problem.with_potential;
        if const { S::LANES == 16 } {
            if with_potential {
                self.sum::<S, R::Register<S, D>, 4, true>()
            } else {
                self.sum::<S, R::Register<S, D>, 4, false>()
            }
        } else if with_potential {
            self.sum::<S, R::Register<S, D>, 2, true>()
        } else {
            self.sum::<S, R::Register<S, D>, 2, false>()
        }
    }
}

impl<R: Real> GroupSum<'_, R> {
    /// Mixed precision has lists of f32. A constant, so that sums of f64 are compiled without near
    /// bodies.
    const CAN_BE_MIXED: bool = size_of::<R>() == size_of::<f32>();

    /// Finds the accepted cells and the bodies of opened leaves. Tests the children of a cell
    /// together.
    #[inline(always)]
    fn walk<D: Vector<Scalar = f64>, const RELATIVE: bool>(&mut self) {
        let GroupScratch { stack, accepted, opened, .. } = &mut *self.scratch;
        accepted.clear();
        opened.ranges.clear();
        let GroupTask { tree, opening, group, .. } = self.task;
        let own = &group.bodies;
        // The bodies of the group are summed separately, each without itself.
        let mut open_leaf = |leaf: Range<usize>| {
            for part in [leaf.start..leaf.end.min(own.start), leaf.start.max(own.end)..leaf.end] {
                opened.push(part);
            }
        };
        let root = &tree.cells[0];
        if root.is_leaf() {
            return open_leaf(root.bodies());
        }
        let BodyGroup { centre: [x, y, z], half: [half_x, half_y, half_z], .. } = *group;
        let middle = [D::splat(x), D::splat(y), D::splat(z)];
        let half = [D::splat(half_x), D::splat(half_y), D::splat(half_z)];
        let stretch2 = D::splat(self.task.stretch2);
        let margin2 = D::splat(TargetBox::new(group).margin.powi(2));
        stack.push(0);
        while let Some(parent) = stack.pop() {
            let children = tree.cells[parent as usize].child_range();
            for first in children.clone().step_by(D::LANES) {
                // Squared distance of the centres of mass from the group's box.
                let mut r2 = D::splat(0.0);
                for axis in 0..3 {
                    let centre = D::load(&opening.centre[axis][first..]);
                    let outside = centre.sub(middle[axis]).abs().sub(half[axis]).max(D::splat(0.0));
                    r2 = outside.mul_add(outside, r2);
                }
                let mut limit2 = D::load(&opening.opening2[first..]).max(margin2);
                if RELATIVE {
                    limit2 = limit2.max(D::load(&opening.relative2[first..]).mul(stretch2));
                }
                let far_lanes = r2.greater_mask(limit2);
                for lane in 0..D::LANES.min(children.end - first) {
                    let index = first + lane;
                    let cell = &tree.cells[index];
                    let contains_own = cell.bodies().start < own.end && own.start < cell.bodies().end;
                    let is_far = far_lanes >> lane & 1 == 1 && !contains_own;
                    if is_far && cell.len() > SMALL_CELL {
                        accepted.push(index as u32);
                    } else if cell.is_leaf() {
                        open_leaf(cell.bodies());
                    } else {
                        stack.push(index as u32);
                    }
                }
            }
        }
    }

    /// Returns the origin of the group's frame.
    fn centre(&self) -> [f64; 3] {
        self.task.scaling.frame_centre(self.precision, self.task.group.centre)
    }

    /// Copies the accepted cells into a list in the group's frame.
    #[inline(always)]
    fn fill_cells(&mut self) {
        let centre = self.centre();
        let GroupScratch { accepted, cells, .. } = &mut *self.scratch;
        let GroupTask { scaling, tree, .. } = self.task;
        cells.resize_and_pad(accepted.len(), scaling.outside);
        // Slices of equal length, so the loop over ten columns needs no bounds checks.
        let n = accepted.len();
        let [x, y, z] = &mut cells.centre;
        let [xx, xy, xz, yy, yz, zz] = &mut cells.second;
        let (x, y, z, mass) = (&mut x[..n], &mut y[..n], &mut z[..n], &mut cells.mass[..n]);
        let (xx, xy, xz) = (&mut xx[..n], &mut xy[..n], &mut xz[..n]);
        let (yy, yz, zz) = (&mut yy[..n], &mut yz[..n], &mut zz[..n]);
        let second_scale = scaling.mass * scaling.length * scaling.length;
        for k in 0..n {
            let moments = &tree.moments[accepted[k] as usize];
            [x[k], y[k], z[k]] = scaling.local_position::<R>(moments.centre, centre);
            mass[k] = R::from_f64(moments.mass * scaling.mass);
            [xx[k], xy[k], xz[k], yy[k], yz[k], zz[k]] =
                moments.second.map(|m| R::from_f64(m * second_scale));
        }
    }

    /// Copies the opened bodies and the targets into lists in their frames.
    #[inline(always)]
    fn fill_bodies<D: Vector<Scalar = f64>>(&mut self) {
        let (centre, is_mixed) = (self.centre(), self.precision == Precision::Mixed);
        let GroupScratch { opened, sources, bodies, own, near, targets, near_targets, .. } =
            &mut *self.scratch;
        let GroupTask { scaling, tree, group, .. } = self.task;
        let Octree { position, mass, .. } = tree;
        if Self::CAN_BE_MIXED && is_mixed {
            sources.clear();
            let targets = TargetBox::new(group);
            for range in &opened.ranges {
                sources.add_bodies::<D>(&targets, position, range.clone());
            }
            near.clear();
            for range in [&group.bodies].into_iter().chain(&sources.near.ranges) {
                scaling.append_near_bodies(near, position, mass, range.clone(), centre);
            }
            near.pad_to_lanes(scaling.outside);
        }
        bodies.clear();
        for range in if is_mixed { &sources.far.ranges } else { &opened.ranges } {
            scaling.append_bodies(bodies, position, mass, range.clone(), centre);
        }
        bodies.pad_to_lanes(scaling.outside);
        targets.clear();
        near_targets.clear();
        for i in group.bodies.clone() {
            targets.push(scaling.local_position(position.get(i), centre));
            if is_mixed {
                near_targets.push(scaling.near_target(position.get(i), centre));
            }
        }
        own.clear();
        if !is_mixed {
            scaling.append_bodies(own, position, mass, group.bodies.clone(), centre);
            own.pad_to_lanes(scaling.outside);
        }
    }

    /// Sums over the lists and returns the numbers of body terms and cell terms.
    #[inline(always)]
    fn sum<S: SingleVector, V: Vector<Scalar = R>, const T: usize, const POTENTIAL: bool>(
        self,
    ) -> (u64, u64) {
        let GroupScratch { accepted, opened, cells, bodies, own, near, targets, near_targets, .. } =
            self.scratch;
        let eps = self.task.problem.eps * self.task.scaling.length;
        let eps2 = R::from_f64(eps * eps);
        let n = targets.len();
        // The last chunk is filled up with copies of the last target, whose sums are not used.
        targets.resize(n.next_multiple_of(T), targets[n - 1]);
        if let Some(last) = near_targets.last().copied() {
            near_targets.resize(n.next_multiple_of(T), last);
        }
        let near2 = self.task.scaling.near_square(TargetBox::new(self.task.group).margin);
        let chunks = targets.chunks_exact(T).zip(self.results.chunks_mut(T));
        for (k, (targets, results)) in chunks.enumerate() {
            let mut sums = [ZERO_SUMS; T];
            // A cell takes ten registers, which leaves registers for two targets only.
            for (targets, sums) in targets.chunks_exact(2).zip(sums.chunks_exact_mut(2)) {
                let targets: &[[R; 3]; 2] = targets.try_into().expect("chunks of 2");
                add_cells::<V, 2, POTENTIAL>(targets, cells, eps2, sums);
            }
            let targets: &[[R; 3]; T] = targets.try_into().expect("chunks of T");
            add_bodies::<V, T, POTENTIAL, false>(targets, bodies, eps2, 0, &mut sums);
            let first = k * T;
            if Self::CAN_BE_MIXED && self.precision == Precision::Mixed {
                let targets: &[NearTarget; T] = near_targets[first..][..T].try_into().expect("T targets");
                let eps2 = f32::from_f64(eps * eps);
                add_near_bodies::<S, T, POTENTIAL>(targets, near, near2, eps2, first as isize, &mut sums);
            } else {
                add_bodies::<V, T, POTENTIAL, true>(targets, own, eps2, first as isize, &mut sums);
            }
            for (result, sums) in results.iter_mut().zip(sums) {
                *result = sums.map(sum_lanes);
            }
        }
        let opened_bodies: usize = opened.ranges.iter().map(Range::len).sum();
        ((n * (opened_bodies + n - 1)) as u64, (n * accepted.len()) as u64)
    }
}
