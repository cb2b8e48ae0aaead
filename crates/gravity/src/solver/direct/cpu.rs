//! All pairs on the CPU.
//!
//! In f32 with AVX-512, one register of 16 pairs takes 14 operations and a reciprocal square root
//! estimate of three micro-operations on two ports. That is 8.5 cycles, so the peak is 5.2e9
//! pairs/s per core at 2.8 GHz.
//!
//! Targets are divided into blocks. Each block is paired with all sources, one tile at a time. The
//! tile is converted to the frame of the block (`frame`) and stays in the L1 cache for all targets
//! of the block. `mixed` describes mixed precision.

use std::ops::Range;
use std::time::Instant;

use orrery_cluster::ClusterError;
use orrery_model::Precision;
use orrery_simd::{InstructionSet, Real, SimdKernel, SingleVector, Vector, dispatch, sum_lanes};
use rayon::prelude::*;

use super::mixed::share_in_curve_order;
use crate::share::SharedEvaluation;
use crate::solver::frame::{Scaling, collect_forces};
use crate::solver::kernels::{BodyList, LaneSums, ZERO_SUMS, add_bodies};
use crate::solver::{CpuMemory, ForceProblem, Forces, on_one_rank, split_results};
use crate::tree::Cube;

/// Arithmetic, instruction set and tuning parameters of the CPU solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirectCpuStrategy {
    /// Arithmetic.
    pub precision: Precision,
    /// Instruction set.
    pub set: InstructionSet,
    /// Number of targets that share a frame and a converted tile.
    pub block: usize,
    /// Number of sources in a tile. For example, 2048 sources take 32 KB in f32 and 64 KB in f64.
    pub tile: usize,
}

/// Smallest number of bodies for mixed precision. With fewer, `mixed` computes in f64: blocks of
/// neighbours would span much of the system, and f32 would save no time.
pub const MIXED_MIN_BODIES: usize = 512;

/// Smallest number of bodies for several threads. With fewer, one thread finishes before a second
/// one has woken up.
const PARALLEL_MIN_BODIES: usize = 256;

impl DirectCpuStrategy {
    /// Returns the default for this arithmetic and instruction set.
    pub fn new(precision: Precision, set: InstructionSet) -> Self {
        // In mixed precision a block must be compact (see `frame`). Blocks of 32 to 128 and tiles
        // of 512 to 2048 were equally fast within the noise.
        let block = if precision == Precision::Mixed { 48 } else { 128 };
        Self { precision, set, block, tile: 2048 }
    }

    /// Returns true if the forces of `n` bodies are computed in f64.
    pub fn computes_in_f64(&self, n: usize) -> bool {
        match self.precision {
            Precision::Single => false,
            Precision::Mixed => n < MIXED_MIN_BODIES,
            Precision::Double => true,
        }
    }
}

/// Computes the forces of all pairs.
pub fn forces(problem: &ForceProblem, strategy: &DirectCpuStrategy) -> Forces {
    let mut forces = Forces::default();
    forces_into(problem, strategy, &mut CpuMemory::default(), &mut forces);
    forces
}

/// Writes the result of [`forces`] to `forces`. The contents of `memory` and `forces` do not affect
/// the result, and their memory is reused.
pub fn forces_into(
    problem: &ForceProblem,
    strategy: &DirectCpuStrategy,
    memory: &mut CpuMemory,
    forces: &mut Forces,
) {
    on_one_rank(|alone| shared_forces_into(problem, strategy, alone, memory, forces));
}

/// Does [`forces_into`] together with other ranks. Every rank sums the forces on some of the
/// targets.
pub(crate) fn shared_forces_into(
    problem: &ForceProblem,
    strategy: &DirectCpuStrategy,
    evaluation: SharedEvaluation<'_>,
    memory: &mut CpuMemory,
    forces: &mut Forces,
) -> Result<(), ClusterError> {
    match strategy.precision {
        Precision::Single => share_in_user_order::<f32>(problem, strategy, evaluation, memory, forces),
        Precision::Mixed if problem.mass.len() >= MIXED_MIN_BODIES => {
            share_in_curve_order(problem, strategy, evaluation, memory, forces)
        }
        Precision::Mixed | Precision::Double => {
            let strategy = DirectCpuStrategy { precision: Precision::Double, ..*strategy };
            share_in_user_order::<f64>(problem, &strategy, evaluation, memory, forces)
        }
    }
}

/// Computes the forces of all bodies on those with indices in `targets`, in user order. `forces`
/// gets one entry per target. Each has the same bits as in the forces on all bodies. In mixed
/// precision the sums are in f64: the targets are not compact (see `frame`).
///
/// # Panics
/// If `targets` does not lie within the bodies.
pub fn forces_on_range(
    problem: &ForceProblem,
    strategy: &DirectCpuStrategy,
    targets: Range<usize>,
    memory: &mut CpuMemory,
    forces: &mut Forces,
) {
    let n = problem.mass.len();
    assert!(targets.start <= targets.end && targets.end <= n, "targets {targets:?} of {n} bodies");
    if targets.is_empty() {
        *forces = Forces { potential: problem.with_potential.then(Vec::new), ..Forces::default() };
        return;
    }
    match strategy.precision {
        Precision::Single => collect_in_user_order::<f32>(problem, strategy, targets, memory, forces),
        Precision::Mixed | Precision::Double => {
            let strategy = DirectCpuStrategy { precision: Precision::Double, ..*strategy };
            collect_in_user_order::<f64>(problem, &strategy, targets, memory, forces);
        }
    }
}

/// Consecutive targets and the origin of their frame.
struct Block {
    targets: Range<usize>,
    centre: [f64; 3],
}

/// Writes the forces on `targets`, whose blocks are consecutive in the user's order, to `forces`.
fn collect_in_user_order<R: Real>(
    problem: &ForceProblem,
    strategy: &DirectCpuStrategy,
    targets: Range<usize>,
    memory: &mut CpuMemory,
    forces: &mut Forces,
) {
    let scaling = scaling_in_user_order(problem);
    memory.results.resize(targets.len(), [0.0; 4]);
    sum_in_user_order::<R>(problem, strategy, &scaling, targets, &mut memory.results);
    collect_forces(problem, &scaling, &memory.results, |body| body, forces);
}

/// Sums the forces on the targets of this rank with blocks of bodies that are consecutive in the
/// user's order.
fn share_in_user_order<R: Real>(
    problem: &ForceProblem,
    strategy: &DirectCpuStrategy,
    evaluation: SharedEvaluation<'_>,
    memory: &mut CpuMemory,
    forces: &mut Forces,
) -> Result<(), ClusterError> {
    let (scaling, results) = (scaling_in_user_order(problem), &mut memory.results);
    results.resize(problem.mass.len(), [0.0; 4]);
    let parts = evaluation.divide(results.len(), |target| target);
    let start = Instant::now();
    sum_in_user_order::<R>(problem, strategy, &scaling, parts.own(), &mut results[parts.own()]);
    evaluation.complete(start.elapsed().as_secs_f64(), results, &parts)?;
    collect_forces(problem, &scaling, results, |body| body, forces);
    Ok(())
}

fn scaling_in_user_order(problem: &ForceProblem) -> Scaling {
    Scaling::new(&Cube::around(problem.position), problem.mass.iter().sum(), problem.eps)
}

/// Computes the scaled sums of `targets`. `results` has one element per target.
fn sum_in_user_order<R: Real>(
    problem: &ForceProblem,
    strategy: &DirectCpuStrategy,
    scaling: &Scaling,
    targets: Range<usize>,
    results: &mut [[f64; 4]],
) {
    // Smaller blocks for few targets, so that all threads have work.
    let share = targets.len().div_ceil(4 * rayon::current_num_threads()).max(1);
    let block = strategy.block.min(share).next_multiple_of(8);
    let centre = scaling.frame_centre(strategy.precision, [0.0; 3]);
    let end = targets.end;
    let blocks = targets.step_by(block).map(|b| Block { targets: b..(b + block).min(end), centre });
    sum_blocks::<R>(problem, strategy, scaling, blocks, results);
}

/// Computes the scaled sums (acceleration and potential) of the targets of all blocks, in the order
/// of the blocks. `results` has one element per target.
fn sum_blocks<R: Real>(
    problem: &ForceProblem,
    strategy: &DirectCpuStrategy,
    scaling: &Scaling,
    blocks: impl Iterator<Item = Block>,
    results: &mut [[f64; 4]],
) {
    let work = split_results(results, blocks, |block| block.targets.len());
    let sum_block = |scratch: &mut Scratch<R>, (block, results)| {
        dispatch(strategy.set, BlockSum { problem, tile: strategy.tile, scaling, block, scratch, results });
    };
    if problem.mass.len() < PARALLEL_MIN_BODIES {
        let mut scratch = Scratch::default();
        work.for_each(|item| sum_block(&mut scratch, item));
    } else {
        work.collect::<Vec<_>>().into_par_iter().for_each_init(Scratch::default, sum_block);
    }
}

/// Computes the scaled sums of `targets` in f64. `results` has one element per target.
pub(super) fn sum_block_in_double(
    problem: &ForceProblem,
    strategy: &DirectCpuStrategy,
    scaling: &Scaling,
    targets: Range<usize>,
    results: &mut [[f64; 4]],
) {
    let block = Block { targets, centre: scaling.frame_centre(Precision::Double, [0.0; 3]) };
    let scratch = &mut Scratch::<f64>::default();
    dispatch(strategy.set, BlockSum { problem, tile: strategy.tile, scaling, block, scratch, results });
}

/// Buffers of a thread, reused from block to block.
#[derive(Default)]
struct Scratch<R> {
    tile: BodyList<R>,
    targets: Vec<[R; 3]>,
    sums: Vec<LaneSums>,
}

/// SIMD kernel: the sums of one block of targets over all sources.
struct BlockSum<'a, R> {
    problem: &'a ForceProblem<'a>,
    tile: usize,
    scaling: &'a Scaling,
    block: Block,
    scratch: &'a mut Scratch<R>,
    results: &'a mut [[f64; 4]],
}

impl<R: Real> SimdKernel for BlockSum<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        // Four targets fit in 32 registers, two in 16. A constant condition, so that the compiler
        // does not compile the sums of the other number of targets before it removes them.
        let with_potential = self.problem.with_potential;
        if const { S::LANES == 16 } {
            if with_potential {
                self.sum_targets::<R::Register<S, D>, 4, true>();
            } else {
                self.sum_targets::<R::Register<S, D>, 4, false>();
            }
        } else if with_potential {
            self.sum_targets::<R::Register<S, D>, 2, true>();
        } else {
            self.sum_targets::<R::Register<S, D>, 2, false>();
        }
    }
}

impl<R: Real> BlockSum<'_, R> {
    #[inline(always)]
    fn sum_targets<V: Vector<Scalar = R>, const T: usize, const POTENTIAL: bool>(self) {
        let ForceProblem { position, mass, eps, .. } = *self.problem;
        let Scratch { tile, targets, sums } = self.scratch;
        let eps = eps * self.scaling.length;
        let eps2 = R::from_f64(eps * eps);
        targets.clear();
        targets.extend(
            self.block
                .targets
                .clone()
                .map(|i| self.scaling.local_position::<R>(position.get(i), self.block.centre)),
        );
        // The last target is repeated to fill the registers. Its surplus sums are dropped.
        let padded = targets.len().next_multiple_of(T);
        targets.resize(padded, targets[targets.len() - 1]);
        sums.clear();
        sums.resize(padded, ZERO_SUMS);

        for begin in (0..mass.len()).step_by(self.tile) {
            let range = begin..(begin + self.tile).min(mass.len());
            let has_targets = range.start < self.block.targets.end && self.block.targets.start < range.end;
            tile.clear();
            self.scaling.append_bodies(tile, position, mass, range, self.block.centre);
            tile.pad_to_lanes(self.scaling.outside);
            let first = self.block.targets.start as isize - begin as isize;
            for (chunk, (targets, sums)) in targets.chunks_exact(T).zip(sums.chunks_exact_mut(T)).enumerate()
            {
                let targets: &[[R; 3]; T] = targets.try_into().expect("chunks of T");
                let first = first + (chunk * T) as isize;
                if has_targets {
                    add_bodies::<V, T, POTENTIAL, true>(targets, tile, eps2, first, sums);
                } else {
                    add_bodies::<V, T, POTENTIAL, false>(targets, tile, eps2, first, sums);
                }
            }
        }
        for (result, sums) in self.results.iter_mut().zip(sums) {
            *result = sums.map(sum_lanes);
        }
    }
}
