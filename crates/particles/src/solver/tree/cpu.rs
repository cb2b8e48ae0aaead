//! Barnes-Hut tree on the CPU: cells that are far enough away act as a whole, with their
//! quadrupoles (Barnes & Hut 1986, with groups as in Barnes 1990).
//!
//! Bodies walk the tree in groups of neighbours. A cell has side l, mass M, and a centre of mass at
//! distance δ from its geometric centre. With r the distance of the centre of mass from the group's
//! bounding box, the cell is accepted if
//!
//! - geometric acceptance: r > l / theta + δ (Barnes 1994)
//! - relative acceptance: G M / r² (l / r)³ ≤ alpha |a|_min and r > l / 1.2 + δ, with the smallest
//!   acceleration of the group in the previous step (after Springel 2005, one order higher because
//!   of the quadrupole). In the form r ≥ (M l³)^{1/5} (G / alpha |a|)^{1/5} it costs one product
//!   more than the geometric test.
//!
//! Accepted cells and the bodies of opened leaves are copied into lists in the group's frame, and
//! the lists are summed with SIMD (`kernels`). Per target, a cell costs about 40 operations and a
//! body 18. With a million bodies and an rms error of 1e-3, each body interacts with about 600
//! cells and 700 bodies.

use std::ops::Range;
use std::time::Instant;

use orrery_model::{Precision, Vec3s};
use orrery_simd::{InstructionSet, MAX_LANES, Real, SimdKernel, Vector, dispatch, sum_lanes};
use rayon::prelude::*;

use crate::settings::{Acceptance, MAX_THETA};
use crate::solver::direct::MIXED_MIN_BODIES;
use crate::solver::frame::{Scaling, collect_forces};
use crate::solver::kernels::{BodyList, CellList, LaneSums, ZERO_SUMS, add_bodies, add_cells};
use crate::solver::{Forces, Problem, split_results};
use crate::tree::{Group, Octree};

/// Strategy of the tree on the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeCpuStrategy {
    /// Arithmetic.
    pub precision: Precision,
    /// SIMD instruction set.
    pub set: InstructionSet,
    /// Criterion for using a cell instead of its bodies.
    pub acceptance: Acceptance,
    /// Largest number of bodies in a leaf.
    pub leaf_size: usize,
    /// Largest number of bodies in a group.
    pub group_size: usize,
}

impl TreeCpuStrategy {
    /// Returns the default for this arithmetic and instruction set.
    pub fn new(precision: Precision, set: InstructionSet) -> Self {
        Self { precision, set, acceptance: Acceptance::default(), leaf_size: 16, group_size: 48 }
    }
}

/// Times, numbers of terms and memory of one evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTreeReport {
    /// Time of keys, sort, cells, moments and groups.
    pub build_secs: f64,
    /// Time of the walk and the sums.
    pub walk_secs: f64,
    /// Body-body terms of all targets.
    pub body_terms: u64,
    /// Cell-body terms of all targets.
    pub cell_terms: u64,
    /// Memory at the end of the walk without the caller's arrays: tree, sums and results.
    pub bytes: usize,
}

/// Computes forces with the tree. `previous` contains the accelerations of the previous step in the
/// user's order. Without it, the relative acceptance uses its opening angle.
pub fn forces(
    problem: &Problem,
    strategy: &TreeCpuStrategy,
    previous: Option<&Vec3s>,
) -> (Forces, CpuTreeReport) {
    match strategy.precision {
        // As in `direct`: a group may contain all bodies, and one body far away would cost the
        // others digits.
        Precision::Mixed if problem.mass.len() < MIXED_MIN_BODIES => {
            sum_tree::<f64>(problem, &TreeCpuStrategy { precision: Precision::Double, ..*strategy }, previous)
        }
        Precision::Double => sum_tree::<f64>(problem, strategy, previous),
        Precision::Single | Precision::Mixed => sum_tree::<f32>(problem, strategy, previous),
    }
}

/// Data of the cells for the opening test, one column per quantity, one entry per cell. Columns are
/// padded so that a register can be loaded from any cell on.
struct OpeningData {
    centre: [Vec<f64>; 3],
    /// Squared distance within which the cell is always opened.
    opening2: Vec<f64>,
    /// (M l³)^{2/5} for the relative acceptance. Empty for the geometric one.
    relative2: Vec<f64>,
}

/// A cell with at most this many bodies is summed body by body: its moments are shot noise, and the
/// sum takes hardly more time.
const SMALL_CELL: usize = 6;

impl OpeningData {
    fn column_count(&self) -> usize {
        if self.relative2.is_empty() { 4 } else { 5 }
    }

    fn new(tree: &Octree, scaling: &Scaling, acceptance: &Acceptance, relative: bool) -> Self {
        let theta = match *acceptance {
            // Squared distances and moments would overflow, so accept no cell.
            _ if !scaling.squares_in_range() => 0.0,
            Acceptance::Relative { .. } if relative => MAX_THETA,
            Acceptance::Relative { theta, .. } | Acceptance::Geometric { theta } => theta,
        };
        let padded = tree.cells.len() + MAX_LANES;
        let column = |value: &(dyn Fn(usize) -> f64 + Sync)| {
            let mut column: Vec<f64> = (0..tree.cells.len()).into_par_iter().map(value).collect();
            column.resize(padded, 0.0);
            column
        };
        let opening2 = |cell: usize| {
            let ((centre, side), moments) = (tree.cell_geometry(cell), &tree.moments[cell]);
            let offset2: f64 = (0..3).map(|axis| (moments.centre[axis] - centre[axis]).powi(2)).sum();
            (side / theta + offset2.sqrt()).powi(2)
        };
        let relative2 =
            |cell: usize| (tree.moments[cell].mass * tree.cell_geometry(cell).1.powi(3)).powf(0.4);
        Self {
            centre: [0, 1, 2].map(|axis| column(&|cell| tree.moments[cell].centre[axis])),
            opening2: column(&opening2),
            relative2: if relative { column(&relative2) } else { Vec::new() },
        }
    }
}

fn sum_tree<R: Real>(
    problem: &Problem,
    strategy: &TreeCpuStrategy,
    previous: Option<&Vec3s>,
) -> (Forces, CpuTreeReport) {
    let start = Instant::now();
    let tree = Octree::build(problem.position, problem.mass, strategy.leaf_size);
    let groups = tree.groups(strategy.group_size);
    let relative = match strategy.acceptance {
        Acceptance::Relative { alpha, .. } => previous.map(|previous| (alpha, previous)),
        Acceptance::Geometric { .. } => None,
    };
    let scaling = Scaling::new(&tree.cube, tree.moments[0].mass, problem.eps);
    let opening = OpeningData::new(&tree, &scaling, &strategy.acceptance, relative.is_some());
    let build_secs = start.elapsed().as_secs_f64();

    let mut results = vec![[0.0; 4]; problem.mass.len()];
    let work = split_results(&mut results, groups.iter(), |group| group.bodies.len());
    let (body_terms, cell_terms) = work
        .into_par_iter()
        .map_init(Scratch::<R>::default, |scratch, (group, results)| {
            let stretch2 = relative.map_or(0.0, |(alpha, previous)| {
                let square = |i: u32| previous.get(i as usize).iter().map(|a| a * a).sum::<f64>();
                let min2 =
                    tree.order[group.bodies.clone()].iter().map(|&i| square(i)).fold(f64::INFINITY, f64::min);
                (problem.g / (alpha * min2.sqrt())).powf(0.4)
            });
            let centre = scaling.frame_centre(strategy.precision, group.centre);
            let walk = GroupSum {
                problem,
                tree: &tree,
                opening: &opening,
                scaling: &scaling,
                group,
                centre,
                stretch2,
                scratch,
                results,
            };
            dispatch(strategy.set, walk)
        })
        .reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));

    // Key, index, sorted position and mass, sum in curve order, and the returned forces.
    let per_body = 8 + 4 + 32 + 32 + if problem.with_potential { 32 } else { 24 };
    let per_cell = size_of_val(&tree.cells[0]) + size_of_val(&tree.moments[0]) + 8 * opening.column_count();
    let bytes =
        problem.mass.len() * per_body + tree.cells.len() * per_cell + groups.len() * size_of::<Group>();
    let forces = collect_forces(problem, &scaling, &results, tree.order.iter().copied());
    let walk_secs = start.elapsed().as_secs_f64() - build_secs;
    (forces, CpuTreeReport { build_secs, walk_secs, body_terms, cell_terms, bytes })
}

/// Memory that a thread reuses from group to group.
#[derive(Default)]
struct Scratch<R> {
    /// Cells whose children are to be tested.
    stack: Vec<u32>,
    /// Accepted cells.
    accepted: Vec<u32>,
    /// Ranges of sorted bodies in opened leaves, without the group's bodies.
    opened: Vec<Range<usize>>,
    cells: CellList<R>,
    bodies: BodyList<R>,
    /// Bodies of the group as sources.
    own: BodyList<R>,
    targets: Vec<[R; 3]>,
    sums: Vec<LaneSums>,
}

/// Walk and sum of one group.
struct GroupSum<'a, R> {
    problem: &'a Problem<'a>,
    tree: &'a Octree,
    opening: &'a OpeningData,
    scaling: &'a Scaling,
    group: &'a Group,
    /// Origin of the group's frame.
    centre: [f64; 3],
    /// (G / alpha |a|)^{2/5} for the relative acceptance.
    stretch2: f64,
    scratch: &'a mut Scratch<R>,
    results: &'a mut [[f64; 4]],
}

impl<R: Real> SimdKernel for GroupSum<'_, R> {
    /// Numbers of body terms and cell terms.
    type Output = (u64, u64);

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(mut self) -> (u64, u64) {
        if self.opening.relative2.is_empty() {
            self.walk::<D, false>();
        } else {
            self.walk::<D, true>();
        }
        self.fill_lists();
        match (S::LANES == 16, self.problem.with_potential) {
            (true, false) => self.sum::<R::Register<S, D>, 4, false>(),
            (true, true) => self.sum::<R::Register<S, D>, 4, true>(),
            (false, false) => self.sum::<R::Register<S, D>, 2, false>(),
            (false, true) => self.sum::<R::Register<S, D>, 2, true>(),
        }
    }
}

impl<R: Real> GroupSum<'_, R> {
    /// Finds the accepted cells and the bodies of opened leaves. Tests the children of a cell
    /// together.
    #[inline(always)]
    fn walk<D: Vector<Scalar = f64>, const RELATIVE: bool>(&mut self) {
        let Scratch { stack, accepted, opened, .. } = &mut *self.scratch;
        accepted.clear();
        opened.clear();
        let own = &self.group.bodies;
        // The bodies of the group are summed separately, each without itself.
        let mut open_leaf = |leaf: Range<usize>| {
            for part in [leaf.start..leaf.end.min(own.start), leaf.start.max(own.end)..leaf.end] {
                match opened.last_mut() {
                    _ if part.is_empty() => {}
                    Some(last) if last.end == part.start => last.end = part.end,
                    _ => opened.push(part),
                }
            }
        };
        let root = &self.tree.cells[0];
        if root.is_leaf() {
            return open_leaf(root.bodies());
        }
        let Group { centre: [x, y, z], half: [half_x, half_y, half_z], .. } = *self.group;
        let middle = [D::splat(x), D::splat(y), D::splat(z)];
        let half = [D::splat(half_x), D::splat(half_y), D::splat(half_z)];
        let stretch2 = D::splat(self.stretch2);
        stack.push(0);
        while let Some(parent) = stack.pop() {
            let children = self.tree.cells[parent as usize].child_range();
            for first in children.clone().step_by(D::LANES) {
                // Squared distance of the centres of mass from the group's box.
                let mut r2 = D::splat(0.0);
                for axis in 0..3 {
                    let centre = D::load(&self.opening.centre[axis][first..]);
                    let outside = centre.sub(middle[axis]).abs().sub(half[axis]).max(D::splat(0.0));
                    r2 = outside.mul_add(outside, r2);
                }
                let mut limit2 = D::load(&self.opening.opening2[first..]);
                if RELATIVE {
                    limit2 = limit2.max(D::load(&self.opening.relative2[first..]).mul(stretch2));
                }
                let far_lanes = r2.greater_mask(limit2);
                for lane in 0..D::LANES.min(children.end - first) {
                    let index = first + lane;
                    let cell = &self.tree.cells[index];
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

    /// Copies the accepted cells and opened bodies into lists in the group's frame.
    #[inline(always)]
    fn fill_lists(&mut self) {
        let Scratch { accepted, opened, cells, bodies, own, targets, .. } = &mut *self.scratch;
        let (scaling, tree) = (self.scaling, self.tree);
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
            [x[k], y[k], z[k]] = scaling.local_position::<R>(moments.centre, self.centre);
            mass[k] = R::from_f64(moments.mass * scaling.mass);
            [xx[k], xy[k], xz[k], yy[k], yz[k], zz[k]] =
                moments.second.map(|m| R::from_f64(m * second_scale));
        }
        bodies.clear();
        for range in opened.iter() {
            scaling.append_bodies(bodies, &tree.position, &tree.mass, range.clone(), self.centre);
        }
        bodies.pad_to_lanes(scaling.outside);
        own.clear();
        scaling.append_bodies(own, &tree.position, &tree.mass, self.group.bodies.clone(), self.centre);
        own.pad_to_lanes(scaling.outside);
        targets.clear();
        targets.extend(
            self.group.bodies.clone().map(|i| scaling.local_position::<R>(tree.position.get(i), self.centre)),
        );
    }

    /// Sums over the lists and returns the numbers of body terms and cell terms.
    #[inline(always)]
    fn sum<V: Vector<Scalar = R>, const T: usize, const POTENTIAL: bool>(self) -> (u64, u64) {
        let Scratch { accepted, opened, cells, bodies, own, targets, sums, .. } = self.scratch;
        let eps = self.problem.eps * self.scaling.length;
        let eps2 = R::from_f64(eps * eps);
        let n = targets.len();
        // The last chunk is filled up with copies of the last target, whose sums are not used.
        targets.resize(n.next_multiple_of(T), targets[n - 1]);
        sums.clear();
        sums.resize(targets.len(), ZERO_SUMS);
        for (k, (targets, sums)) in targets.chunks_exact(T).zip(sums.chunks_exact_mut(T)).enumerate() {
            // A cell takes ten registers, which leaves registers for two targets only.
            for (targets, sums) in targets.chunks_exact(2).zip(sums.chunks_exact_mut(2)) {
                let targets: &[[R; 3]; 2] = targets.try_into().expect("chunks of 2");
                add_cells::<V, 2, POTENTIAL>(targets, cells, eps2, sums);
            }
            let targets: &[[R; 3]; T] = targets.try_into().expect("chunks of T");
            add_bodies::<V, T, POTENTIAL, false>(targets, bodies, eps2, 0, sums);
            add_bodies::<V, T, POTENTIAL, true>(targets, own, eps2, (k * T) as isize, sums);
        }
        for (result, sums) in self.results.iter_mut().zip(sums) {
            *result = sums.map(sum_lanes);
        }
        let opened_bodies: usize = opened.iter().map(Range::len).sum();
        ((n * (opened_bodies + n - 1)) as u64, (n * accepted.len()) as u64)
    }
}
