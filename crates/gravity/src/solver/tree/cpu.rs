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
//! Cells that are near the group's box compared with its size are opened as well (`near`).
//!
//! Accepted cells and the bodies of opened leaves are copied into lists in the group's frame, and
//! the lists are summed with SIMD (`kernels`). Per target, a cell costs about 40 operations and a
//! body 18. With a million bodies and an rms error of 1e-3, each body interacts with about 600
//! cells and 700 bodies.

use std::time::Instant;

use orrery_cluster::ClusterError;
use orrery_model::{Precision, Vec3s};
use orrery_simd::{InstructionSet, MAX_LANES, Real, dispatch};
use rayon::prelude::*;

use super::group_sum::{GroupScratch, GroupSum, GroupTask};
use crate::settings::{Acceptance, MAX_THETA};
use crate::share::SharedEvaluation;
use crate::solver::direct::MIXED_MIN_BODIES;
use crate::solver::frame::{Scaling, collect_forces};
use crate::solver::{CpuMemory, ForceProblem, Forces, on_one_rank, split_results};
use crate::tree::{BodyGroup, Octree, groups_within, next_group_start};

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
    problem: &ForceProblem,
    strategy: &TreeCpuStrategy,
    previous: Option<&Vec3s>,
) -> (Forces, CpuTreeReport) {
    let mut forces = Forces::default();
    let report = forces_into(problem, strategy, previous, &mut CpuMemory::default(), &mut forces);
    (forces, report)
}

/// Writes the result of [`forces`] to `forces`. The contents of `memory` and `forces` do not affect
/// the result, and their memory is reused.
pub fn forces_into(
    problem: &ForceProblem,
    strategy: &TreeCpuStrategy,
    previous: Option<&Vec3s>,
    memory: &mut CpuMemory,
    forces: &mut Forces,
) -> CpuTreeReport {
    on_one_rank(|alone| shared_forces_into(problem, strategy, previous, alone, memory, forces))
}

/// Does [`forces_into`] together with other ranks. Every rank builds the tree and walks it for some
/// of the groups. Times and numbers of terms of the report are those of this rank.
pub(crate) fn shared_forces_into(
    problem: &ForceProblem,
    strategy: &TreeCpuStrategy,
    previous: Option<&Vec3s>,
    evaluation: SharedEvaluation<'_>,
    memory: &mut CpuMemory,
    forces: &mut Forces,
) -> Result<CpuTreeReport, ClusterError> {
    match strategy.precision {
        // As in `direct`: a group may contain all bodies, and one body far away would cost the
        // others digits.
        Precision::Mixed if problem.mass.len() < MIXED_MIN_BODIES => {
            let strategy = TreeCpuStrategy { precision: Precision::Double, ..*strategy };
            sum_tree::<f64>(problem, &strategy, previous, evaluation, memory, forces)
        }
        Precision::Double => sum_tree::<f64>(problem, strategy, previous, evaluation, memory, forces),
        Precision::Single | Precision::Mixed => {
            sum_tree::<f32>(problem, strategy, previous, evaluation, memory, forces)
        }
    }
}

/// Data of the cells for the opening test, one column per quantity, one entry per cell. Columns are
/// padded so that a register can be loaded from any cell on.
#[derive(Debug, Default)]
pub struct OpeningData {
    pub(super) centre: [Vec<f64>; 3],
    /// Squared distance within which the cell is always opened.
    pub(super) opening2: Vec<f64>,
    /// (M l³)^{2/5} for the relative acceptance. Empty for the geometric one.
    pub(super) relative2: Vec<f64>,
}

/// A cell with at most this many bodies is summed body by body: its moments are shot noise, and the
/// sum takes hardly more time.
pub(super) const SMALL_CELL: usize = 6;

impl OpeningData {
    /// Returns true if the data are those of the relative acceptance.
    pub(super) fn is_relative(&self) -> bool {
        !self.relative2.is_empty()
    }

    fn column_count(&self) -> usize {
        if self.relative2.is_empty() { 4 } else { 5 }
    }

    /// Sets the data of all cells of `tree`. `relative` is set if the relative acceptance has
    /// accelerations of a previous step.
    fn update(&mut self, tree: &Octree, scaling: &Scaling, acceptance: &Acceptance, relative: bool) {
        let theta = match *acceptance {
            // Squared distances and moments would overflow, so accept no cell.
            _ if !scaling.squares_in_range() => 0.0,
            Acceptance::Relative { .. } if relative => MAX_THETA,
            Acceptance::Relative { theta, .. } | Acceptance::Geometric { theta } => theta,
        };
        let Self { centre: [x, y, z], opening2, relative2 } = self;
        let n = tree.cells.len();
        for column in [&mut *x, &mut *y, &mut *z, &mut *opening2] {
            column.resize(n + MAX_LANES, 0.0);
            column[n..].fill(0.0);
        }
        relative2.resize(if relative { n + MAX_LANES } else { 0 }, 0.0);
        let set_opening = || {
            let columns = x[..n].par_iter_mut().zip(&mut y[..n]).zip(&mut z[..n]).zip(&mut opening2[..n]);
            columns.enumerate().with_min_len(MIN_CELLS).for_each(|(cell, (((x, y), z), opening2))| {
                let ((centre, side), moments) = (tree.cell_geometry(cell), &tree.moments[cell]);
                let offset2: f64 = (0..3).map(|axis| (moments.centre[axis] - centre[axis]).powi(2)).sum();
                [*x, *y, *z] = moments.centre;
                *opening2 = (side / theta + offset2.sqrt()).powi(2);
            });
        };
        let set_relative = || {
            relative2.par_iter_mut().take(n).enumerate().with_min_len(MIN_CELLS).for_each(|(cell, value)| {
                *value = (tree.moments[cell].mass * tree.cell_geometry(cell).1.powi(3)).powf(0.4);
            });
        };
        rayon::join(set_opening, set_relative);
    }
}

/// Cells whose opening data one thread computes at a time, at least.
const MIN_CELLS: usize = 512;

/// Returns the number of consecutive groups that a thread takes at a time. Neighbouring groups open
/// the same cells, which are then in the cache. Groups take different times, so every thread must
/// take many batches.
fn batch_size(groups: usize) -> usize {
    (groups / (64 * rayon::current_num_threads())).clamp(1, 16)
}

fn sum_tree<R: Real>(
    problem: &ForceProblem,
    strategy: &TreeCpuStrategy,
    previous: Option<&Vec3s>,
    evaluation: SharedEvaluation<'_>,
    memory: &mut CpuMemory,
    forces: &mut Forces,
) -> Result<CpuTreeReport, ClusterError> {
    let start = Instant::now();
    let CpuMemory { tree, groups, opening, results } = memory;
    tree.rebuild(problem.position, problem.mass, strategy.leaf_size);
    tree.find_groups(strategy.group_size, groups);
    let relative = match strategy.acceptance {
        Acceptance::Relative { alpha, .. } => previous.map(|previous| (alpha, previous)),
        Acceptance::Geometric { .. } => None,
    };
    let scaling = Scaling::new(&tree.cube, tree.moments[0].mass, problem.eps);
    opening.update(tree, &scaling, &strategy.acceptance, relative.is_some());
    let build_secs = start.elapsed().as_secs_f64();

    results.resize(problem.mass.len(), [0.0; 4]);
    let parts = evaluation.divide(results.len(), |body| next_group_start(groups, body));
    let own_groups = groups_within(groups, parts.own());
    let (tree, opening) = (&*tree, &*opening);
    let sum_group = |scratch: &mut GroupScratch<R>, group: &BodyGroup, results: &mut [[f64; 4]]| {
        let stretch2 = relative.map_or(0.0, |(alpha, previous)| {
            let square = |i: u32| previous.get(i as usize).iter().map(|a| a * a).sum::<f64>();
            let min2 =
                tree.order[group.bodies.clone()].iter().map(|&i| square(i)).fold(f64::INFINITY, f64::min);
            (problem.g / (alpha * min2.sqrt())).powf(0.4)
        });
        let task = GroupTask { problem, tree, opening, scaling: &scaling, group, stretch2 };
        let precision = strategy.precision;
        let sum = GroupSum { task, precision, scratch, results: &mut *results };
        let terms = dispatch(strategy.set, sum);
        // The cube of an inverse distance is above the range of f32 for distances below 1e-12 of
        // the system.
        if precision == Precision::Mixed && !results.as_flattened().iter().all(|value| value.is_finite()) {
            let scratch = &mut GroupScratch::<f64>::default();
            dispatch(strategy.set, GroupSum { task, precision: Precision::Double, scratch, results });
        }
        terms
    };
    let batches = own_groups.chunks(batch_size(own_groups.len()));
    let batch_len = |batch: &&[BodyGroup]| batch.iter().map(|group| group.bodies.len()).sum();
    // Threads take the next batch when they have finished one.
    let (body_terms, cell_terms) = split_results(&mut results[parts.own()], batches, batch_len)
        .par_bridge()
        .map_init(GroupScratch::<R>::default, |scratch, (batch, results)| {
            let mut terms = (0, 0);
            for (group, results) in split_results(results, batch, |group| group.bodies.len()) {
                let (body_terms, cell_terms) = sum_group(scratch, group, results);
                terms = (terms.0 + body_terms, terms.1 + cell_terms);
            }
            terms
        })
        .reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    evaluation.complete(start.elapsed().as_secs_f64() - build_secs, results, &parts)?;

    collect_forces(problem, &scaling, results, |body| tree.rank(body), forces);
    let per_body = size_of_val(&results[0]) + if problem.with_potential { 32 } else { 24 };
    let per_cell = 8 * opening.column_count();
    let bytes = tree.bytes()
        + problem.mass.len() * per_body
        + tree.cells.len() * per_cell
        + groups.len() * size_of::<BodyGroup>();
    let walk_secs = start.elapsed().as_secs_f64() - build_secs;
    Ok(CpuTreeReport { build_secs, walk_secs, body_terms, cell_terms, bytes })
}
