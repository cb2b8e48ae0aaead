//! All pairs on the CPU in mixed precision.
//!
//! Targets are blocks of bodies that are consecutive along the Morton curve, so a block is compact.
//! Far sources are rounded to f32 in the frame of the block, one tile at a time. Sources that
//! may be near, among them the targets themselves, are in a list with f64 coordinates as well
//! (`near`).
//!
//! If the sums of a block are not finite, the block is summed again in f64. The cube of an inverse
//! distance is above the range of f32 for distances below 1e-12 of the system.

use std::time::Instant;

use orrery_cluster::ClusterError;
use orrery_simd::{Real, SimdKernel, SingleVector, Vector, dispatch, sum_lanes};
use rayon::prelude::*;

use super::cpu::{DirectCpuStrategy, sum_block_in_double};
use crate::share::SharedEvaluation;
use crate::solver::frame::{Scaling, collect_forces};
use crate::solver::kernels::{
    BodyList, LaneSums, NearBodyList, NearTarget, ZERO_SUMS, add_bodies, add_near_bodies,
};
use crate::solver::near::{DividedSources, TargetBox};
use crate::solver::{CpuMemory, ForceProblem, Forces, split_results};
use crate::tree::{BodyGroup, groups_within, next_group_start};

/// Sums the forces on the targets of this rank. At least one body.
pub fn share_in_curve_order(
    problem: &ForceProblem,
    strategy: &DirectCpuStrategy,
    evaluation: SharedEvaluation<'_>,
    memory: &mut CpuMemory,
    forces: &mut Forces,
) -> Result<(), ClusterError> {
    let CpuMemory { tree, groups, results, .. } = memory;
    tree.rebuild(problem.position, problem.mass, strategy.block);
    tree.find_groups(strategy.block, groups);
    let scaling = &Scaling::new(&tree.cube, problem.mass.iter().sum(), problem.eps);
    results.resize(problem.mass.len(), [0.0; 4]);
    let parts = evaluation.divide(results.len(), |body| next_group_start(groups, body));
    let start = Instant::now();
    let sorted = &ForceProblem { position: &tree.position, mass: &tree.mass, ..*problem };
    let own_groups = groups_within(groups, parts.own()).iter();
    let blocks = split_results(&mut results[parts.own()], own_groups, |group| group.bodies.len());
    let blocks: Vec<_> = blocks.collect();
    blocks.into_par_iter().for_each_init(Scratch::default, |scratch, (group, results)| {
        let tile = strategy.tile;
        let reused = &mut *results;
        let block = MixedBlockSum { problem: sorted, tile, scaling, group, groups, scratch, results: reused };
        dispatch(strategy.set, block);
        if !results.as_flattened().iter().all(|value| value.is_finite()) {
            sum_block_in_double(sorted, strategy, scaling, group.bodies.clone(), results);
        }
    });
    evaluation.complete(start.elapsed().as_secs_f64(), results, &parts)?;
    collect_forces(problem, scaling, results, |body| tree.rank(body), forces);
    Ok(())
}

/// Buffers of a thread, reused from block to block.
#[derive(Default)]
struct Scratch {
    sources: DividedSources,
    /// Far sources of a tile, relative to the centre of the block.
    tile: BodyList<f32>,
    /// The bodies of the block, then the near sources.
    near: NearBodyList,
    /// Targets relative to the centre of the block.
    targets: Vec<[f32; 3]>,
    /// The targets for `near`.
    near_targets: Vec<NearTarget>,
    sums: Vec<LaneSums>,
}

/// SIMD kernel: the sums of one block of targets over all sources.
struct MixedBlockSum<'a> {
    /// The bodies in curve order.
    problem: &'a ForceProblem<'a>,
    /// Number of sources in a tile.
    tile: usize,
    scaling: &'a Scaling,
    /// The targets.
    group: &'a BodyGroup,
    /// The groups of all bodies.
    groups: &'a [BodyGroup],
    scratch: &'a mut Scratch,
    results: &'a mut [[f64; 4]],
}

impl SimdKernel for MixedBlockSum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(mut self) {
        self.scratch.sources.divide_groups::<D>(self.group, self.groups, self.problem.position);
        self.load_targets();
        self.load_near_sources();
        // As in `direct::cpu`: four targets or two, and a constant condition.
        let with_potential = self.problem.with_potential;
        if const { S::LANES == 16 } {
            if with_potential { self.sum::<S, 4, true>() } else { self.sum::<S, 4, false>() }
        } else if with_potential {
            self.sum::<S, 2, true>();
        } else {
            self.sum::<S, 2, false>();
        }
    }
}

impl MixedBlockSum<'_> {
    #[inline(always)]
    fn load_targets(&mut self) {
        let Scratch { targets, near_targets, sums, .. } = &mut *self.scratch;
        let (position, scaling, centre) = (self.problem.position, self.scaling, self.group.centre);
        targets.clear();
        near_targets.clear();
        for i in self.group.bodies.clone() {
            targets.push(scaling.local_position(position.get(i), centre));
            near_targets.push(scaling.near_target(position.get(i), centre));
        }
        // The last target is repeated to fill the registers. Its surplus sums are dropped.
        let (last, padded) = (targets.len() - 1, targets.len().next_multiple_of(4));
        targets.resize(padded, targets[last]);
        near_targets.resize(padded, near_targets[last]);
        sums.clear();
        sums.resize(padded, ZERO_SUMS);
    }

    #[inline(always)]
    fn load_near_sources(&mut self) {
        let Scratch { sources, near, .. } = &mut *self.scratch;
        near.clear();
        for range in [&self.group.bodies].into_iter().chain(&sources.near.ranges) {
            let ForceProblem { position, mass, .. } = *self.problem;
            self.scaling.append_near_bodies(near, position, mass, range.clone(), self.group.centre);
        }
        near.pad_to_lanes(self.scaling.outside);
    }

    #[inline(always)]
    fn sum<S: SingleVector, const T: usize, const POTENTIAL: bool>(&mut self) {
        let ForceProblem { position, mass, eps, .. } = *self.problem;
        let Scratch { sources, tile, near, targets, near_targets, sums } = &mut *self.scratch;
        let eps = eps * self.scaling.length;
        let eps2 = f32::from_f64(eps * eps);

        // `rest` is the part of the current range that is in no tile yet.
        let mut ranges = sources.far.ranges.iter();
        let mut rest = ranges.next().cloned();
        while rest.is_some() {
            tile.clear();
            while let Some(range) = &mut rest {
                let end = range.end.min(range.start + self.tile - tile.mass.len());
                self.scaling.append_bodies(tile, position, mass, range.start..end, self.group.centre);
                range.start = end;
                if range.start < range.end {
                    break;
                }
                rest = ranges.next().cloned();
            }
            tile.pad_to_lanes(self.scaling.outside);
            for (targets, sums) in targets.chunks_exact(T).zip(sums.chunks_exact_mut(T)) {
                let targets: &[[f32; 3]; T] = targets.try_into().expect("chunks of T");
                add_bodies::<S, T, POTENTIAL, false>(targets, tile, eps2, 0, sums);
            }
        }
        let near2 = self.scaling.near_square(TargetBox::new(self.group).margin);
        let chunks = near_targets.chunks_exact(T).zip(sums.chunks_exact_mut(T));
        for (chunk, (targets, sums)) in chunks.enumerate() {
            let targets: &[NearTarget; T] = targets.try_into().expect("chunks of T");
            add_near_bodies::<S, T, POTENTIAL>(targets, near, near2, eps2, (T * chunk) as isize, sums);
        }
        for (result, sums) in self.results.iter_mut().zip(sums) {
            *result = sums.map(sum_lanes);
        }
    }
}
