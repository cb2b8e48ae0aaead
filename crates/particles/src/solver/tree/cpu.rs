//! Barnes-Hut: cells far enough away act as a whole, with their quadrupoles (Barnes & Hut 1986; groups as in
//! Barnes 1990).
//!
//! Bodies walk the tree in groups of neighbours. A cell of side l, mass M and centre-of-mass offset δ is accepted for a
//! group when its centre of mass lies at a distance r from the group's bounding box with
//!
//! - geometric: r > l / theta + δ (Barnes 1994);
//! - relative acceleration: G M / r² (l / r)³ ≤ alpha |a|_min, with the group's smallest acceleration of the
//!   step before, and r > l / 1.2 + δ (after Springel 2005, one order higher for the quadrupole). As
//!   r ≥ (M l³)^{1/5} (G / alpha |a|)^{1/5}, it costs one product more than the geometric test.
//!
//! Accepted cells and the bodies of opened leaves are copied into lists in the group's frame, and the lists
//! are summed in SIMD (`kernels`). A cell costs some 40 operations a target, a body 18. A million bodies at
//! an rms error of 1e-3 meet some 600 cells and 700 bodies each.

use std::ops::Range;
use std::time::Instant;

use orrery_model::Vec3s;
use rayon::prelude::*;

use crate::settings::{Acceptance, MAX_THETA, Precision};
use crate::simd::{InstructionSet, MAX_LANES, Real, SimdKernel, Vector, dispatch, sum_lanes};
use crate::solver::direct::MIXED_FROM;
use crate::solver::frame::{Scaling, collect_forces};
use crate::solver::kernels::{BodyList, CellList, LaneSums, ZERO_SUMS, add_bodies, add_cells};
use crate::solver::{Forces, Problem, split_results};
use crate::tree::{Group, Octree};

/// How the sum is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeCpuStrategy {
    /// The arithmetic.
    pub precision: Precision,
    /// The instruction set.
    pub set: InstructionSet,
    /// When a cell acts as a whole.
    pub acceptance: Acceptance,
    /// Most bodies in a leaf.
    pub leaf_size: usize,
    /// Most bodies in a group.
    pub group_size: usize,
}

impl TreeCpuStrategy {
    /// The default for this arithmetic and instruction set.
    pub fn new(precision: Precision, set: InstructionSet) -> Self {
        Self { precision, set, acceptance: Acceptance::default(), leaf_size: 16, group_size: 48 }
    }
}

/// Where the time went, and how much was summed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTreeReport {
    /// Keys, sort, cells, moments and groups.
    pub build_secs: f64,
    /// Walk and sums.
    pub walk_secs: f64,
    /// Body-body terms, all targets together.
    pub body_terms: u64,
    /// Cell-body terms, all targets together.
    pub cell_terms: u64,
    /// Memory at the end of the walk, beyond the caller's arrays: tree, sums and results.
    pub bytes: usize,
}

/// Sums over the tree. See [`crate::solver::Strategy::forces`] for `previous`.
pub fn forces(
    problem: &Problem,
    strategy: &TreeCpuStrategy,
    previous: Option<&Vec3s>,
) -> (Forces, CpuTreeReport) {
    match strategy.precision {
        // As in `direct`: a group may hold all bodies, and one far away would cost the others their digits.
        Precision::Mixed if problem.mass.len() < MIXED_FROM => {
            sum::<f64>(problem, &TreeCpuStrategy { precision: Precision::Double, ..*strategy }, previous)
        }
        Precision::Double => sum::<f64>(problem, strategy, previous),
        Precision::Single | Precision::Mixed => sum::<f32>(problem, strategy, previous),
    }
}

/// The cells as the acceptance test reads them: columns padded so that a register may start at any cell.
struct Reach {
    centre: [Vec<f64>; 3],
    /// Squared distance below which the cell is always opened.
    near2: Vec<f64>,
    /// (M l³)^{2/5}, in the relative form; empty in the geometric one.
    relative2: Vec<f64>,
}

/// A leaf of so few bodies is summed body by body: its own moments are shot noise, and it costs hardly more time.
const FEW: usize = 6;

impl Reach {
    fn columns(&self) -> usize {
        if self.relative2.is_empty() { 4 } else { 5 }
    }

    fn new(tree: &Octree, scaling: &Scaling, acceptance: &Acceptance, relative: bool) -> Self {
        let theta = match *acceptance {
            // No cell is far enough: its moments would not be numbers, nor the squares of distances.
            _ if !scaling.squares_in_range() => 0.0,
            Acceptance::Relative { .. } if relative => MAX_THETA,
            Acceptance::Relative { theta, .. } | Acceptance::Geometric { theta } => theta,
        };
        let padded = tree.cells.len() + MAX_LANES;
        let column = |f: &(dyn Fn(usize) -> f64 + Sync)| {
            let mut column: Vec<f64> = (0..tree.cells.len()).into_par_iter().map(f).collect();
            column.resize(padded, 0.0);
            column
        };
        let near2 = |c: usize| {
            let ((centre, side), moments) = (tree.geometry(c), &tree.moments[c]);
            let offset2: f64 = (0..3).map(|k| (moments.centre[k] - centre[k]).powi(2)).sum();
            (side / theta + offset2.sqrt()).powi(2)
        };
        let relative2 = |c: usize| (tree.moments[c].mass * tree.geometry(c).1.powi(3)).powf(0.4);
        Self {
            centre: [0, 1, 2].map(|k| column(&|c| tree.moments[c].centre[k])),
            near2: column(&near2),
            relative2: if relative { column(&relative2) } else { Vec::new() },
        }
    }
}

fn sum<R: Real>(
    problem: &Problem,
    strategy: &TreeCpuStrategy,
    previous: Option<&Vec3s>,
) -> (Forces, CpuTreeReport) {
    let start = Instant::now();
    let tree = Octree::build(problem.position, problem.mass, strategy.leaf_size);
    let groups = tree.groups(strategy.group_size);
    let alpha = match strategy.acceptance {
        Acceptance::Relative { alpha, .. } => previous.map(|previous| (alpha, previous)),
        Acceptance::Geometric { .. } => None,
    };
    let scaling = Scaling::new(&tree.cube, tree.moments[0].mass, problem.eps);
    let reach = Reach::new(&tree, &scaling, &strategy.acceptance, alpha.is_some());
    let build_secs = start.elapsed().as_secs_f64();

    let mut results = vec![[0.0; 4]; problem.mass.len()];
    let work = split_results(&mut results, groups.iter(), |group| group.bodies.len());
    let (body_terms, cell_terms) = work
        .into_par_iter()
        .map_init(Scratch::<R>::default, |scratch, (group, results)| {
            let stretch2 = alpha.map_or(0.0, |(alpha, previous)| {
                let square = |i: u32| previous.get(i as usize).iter().map(|a| a * a).sum::<f64>();
                let smallest2 =
                    tree.order[group.bodies.clone()].iter().map(|&i| square(i)).fold(f64::INFINITY, f64::min);
                (problem.g / (alpha * smallest2.sqrt())).powf(0.4)
            });
            let centre = scaling.frame_centre(strategy.precision, group.centre);
            let walk = GroupSum {
                problem,
                tree: &tree,
                reach: &reach,
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

    // Key, index, sorted position and mass, sum in curve order, and the accelerations that are handed out.
    let per_body = 8 + 4 + 32 + 32 + if problem.with_potential { 32 } else { 24 };
    let per_cell = size_of_val(&tree.cells[0]) + size_of_val(&tree.moments[0]) + 8 * reach.columns();
    let bytes =
        problem.mass.len() * per_body + tree.cells.len() * per_cell + groups.len() * size_of::<Group>();
    let forces = collect_forces(problem, &scaling, &results, tree.order.iter().copied());
    let walk_secs = start.elapsed().as_secs_f64() - build_secs;
    (forces, CpuTreeReport { build_secs, walk_secs, body_terms, cell_terms, bytes })
}

/// What a thread keeps from group to group.
#[derive(Default)]
struct Scratch<R> {
    stack: Vec<u32>,
    accepted: Vec<u32>,
    opened: Vec<Range<usize>>,
    cells: CellList<R>,
    bodies: BodyList<R>,
    own: BodyList<R>,
    targets: Vec<[R; 3]>,
    sums: Vec<LaneSums>,
}

struct GroupSum<'a, R> {
    problem: &'a Problem<'a>,
    tree: &'a Octree,
    reach: &'a Reach,
    scaling: &'a Scaling,
    group: &'a Group,
    /// Origin of the group's frame.
    centre: [f64; 3],
    /// (G / alpha |a|)^{2/5} in the relative form.
    stretch2: f64,
    scratch: &'a mut Scratch<R>,
    results: &'a mut [[f64; 4]],
}

impl<R: Real> SimdKernel for GroupSum<'_, R> {
    /// Body and cell terms summed.
    type Output = (u64, u64);

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(mut self) -> (u64, u64) {
        if self.reach.relative2.is_empty() {
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
    /// Sorts the tree into accepted cells and opened bodies, testing the children of a cell together.
    #[inline(always)]
    fn walk<D: Vector<Scalar = f64>, const RELATIVE: bool>(&mut self) {
        let Scratch { stack, accepted, opened, .. } = &mut *self.scratch;
        accepted.clear();
        opened.clear();
        let own = &self.group.bodies;
        // The group's own bodies are summed apart, each without itself.
        let mut open = |leaf: Range<usize>| {
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
            return open(root.bodies());
        }
        let Group { centre: [x, y, z], half: [a, b, c], .. } = *self.group;
        let (middle, half) =
            ([D::splat(x), D::splat(y), D::splat(z)], [D::splat(a), D::splat(b), D::splat(c)]);
        let stretch2 = D::splat(self.stretch2);
        stack.push(0);
        while let Some(parent) = stack.pop() {
            let children = self.tree.cells[parent as usize].child_range();
            for from in children.clone().step_by(D::LANES) {
                // Distance of the centres of mass from the group's box.
                let mut r2 = D::splat(0.0);
                for c in 0..3 {
                    let centre = D::load(&self.reach.centre[c][from..]);
                    let outside = centre.sub(middle[c]).abs().sub(half[c]).max(D::splat(0.0));
                    r2 = outside.mul_add(outside, r2);
                }
                let mut limit2 = D::load(&self.reach.near2[from..]);
                if RELATIVE {
                    limit2 = limit2.max(D::load(&self.reach.relative2[from..]).mul(stretch2));
                }
                let far = r2.greater_mask(limit2);
                for lane in 0..D::LANES.min(children.end - from) {
                    let c = from + lane;
                    let cell = &self.tree.cells[c];
                    let holds_own = cell.bodies().start < own.end && own.start < cell.bodies().end;
                    let far = far >> lane & 1 == 1 && !holds_own;
                    if far && cell.len() > FEW {
                        accepted.push(c as u32);
                    } else if cell.is_leaf() {
                        open(cell.bodies());
                    } else {
                        stack.push(c as u32);
                    }
                }
            }
        }
    }

    /// Copies what was found into the group's frame.
    #[inline(always)]
    fn fill_lists(&mut self) {
        let Scratch { accepted, opened, cells, bodies, own, targets, .. } = &mut *self.scratch;
        let (scaling, tree) = (self.scaling, self.tree);
        cells.resize_and_pad(accepted.len(), scaling.outside);
        // Slices of one length, so that the loop over ten columns checks no bounds.
        let n = accepted.len();
        let [x, y, z] = &mut cells.centre;
        let [xx, xy, xz, yy, yz, zz] = &mut cells.second;
        let (x, y, z, mass) = (&mut x[..n], &mut y[..n], &mut z[..n], &mut cells.mass[..n]);
        let (xx, xy, xz) = (&mut xx[..n], &mut xy[..n], &mut xz[..n]);
        let (yy, yz, zz) = (&mut yy[..n], &mut yz[..n], &mut zz[..n]);
        let second = scaling.mass * scaling.length * scaling.length;
        for k in 0..n {
            let moments = &tree.moments[accepted[k] as usize];
            [x[k], y[k], z[k]] = scaling.to_local::<R>(moments.centre, self.centre);
            mass[k] = R::from_f64(moments.mass * scaling.mass);
            [xx[k], xy[k], xz[k], yy[k], yz[k], zz[k]] = moments.second.map(|m| R::from_f64(m * second));
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
            self.group.bodies.clone().map(|i| scaling.to_local::<R>(tree.position.get(i), self.centre)),
        );
    }

    #[inline(always)]
    fn sum<V: Vector<Scalar = R>, const T: usize, const POTENTIAL: bool>(self) -> (u64, u64) {
        let Scratch { accepted, opened, cells, bodies, own, targets, sums, .. } = self.scratch;
        let eps = self.problem.eps * self.scaling.length;
        let eps2 = R::from_f64(eps * eps);
        let n = targets.len();
        // The last register block repeats its last target; the surplus sums are dropped.
        targets.resize(n.next_multiple_of(T), targets[n - 1]);
        sums.clear();
        sums.resize(targets.len(), ZERO_SUMS);
        for (k, (targets, sums)) in targets.chunks_exact(T).zip(sums.chunks_exact_mut(T)).enumerate() {
            // A cell takes ten registers: only two targets fit beside it.
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
        let opened: usize = opened.iter().map(Range::len).sum();
        ((n * (opened + n - 1)) as u64, (n * accepted.len()) as u64)
    }
}
