//! All pairs on the processor.
//!
//! In f32 with AVX-512 a register of 16 pairs takes 14 operations and a root estimate of three parts on two ports:
//! 8.5 cycles, so 5.2e9 pairs/s a core at 2.8 GHz is the roof.
//!
//! A block of targets meets all sources, one tile at a time: the tile is brought into the block's own frame
//! (`frame`) and stays in the first-level cache while the block's targets pass over it.

use std::ops::Range;

use rayon::prelude::*;

use crate::settings::Precision;
use crate::simd::{InstructionSet, Real, SimdKernel, Vector, dispatch, sum_lanes};
use crate::solver::frame::{Scaling, collect_forces};
use crate::solver::kernels::{BodyList, LaneSums, ZERO_SUMS, add_bodies};
use crate::solver::{Forces, Problem, split_results};
use crate::tree::{Cube, Octree};

/// How the sum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirectCpuStrategy {
    /// The arithmetic.
    pub precision: Precision,
    /// The instruction set.
    pub set: InstructionSet,
    /// Targets that share a frame and a converted tile.
    pub block: usize,
    /// Sources in a tile. 2048 of them take 32 KB in f32, 64 KB in f64.
    pub tile: usize,
}

/// Below this many bodies `mixed` computes in f64: blocks of neighbours would span much of the system, and
/// there is no time to be won.
pub const MIXED_FROM: usize = 512;

/// Below this many bodies one thread is done before a second has woken.
const PARALLEL_FROM: usize = 256;

impl DirectCpuStrategy {
    /// The default for this arithmetic and instruction set.
    pub fn new(precision: Precision, set: InstructionSet) -> Self {
        // In mixed precision a block must be compact: see `frame`. Among blocks of 32 to 128
        // and tiles of 512 to 2048 differences were within the noise.
        let block = if precision == Precision::Mixed { 48 } else { 128 };
        Self { precision, set, block, tile: 2048 }
    }
}

/// Sums all pairs.
pub fn forces(problem: &Problem, strategy: &DirectCpuStrategy) -> Forces {
    let n = problem.mass.len();
    match strategy.precision {
        Precision::Single => in_user_order::<f32>(problem, strategy),
        Precision::Mixed if n >= MIXED_FROM => along_the_curve(problem, strategy),
        Precision::Mixed | Precision::Double => {
            in_user_order::<f64>(problem, &DirectCpuStrategy { precision: Precision::Double, ..*strategy })
        }
    }
}

/// A run of targets and the origin of their frame.
struct Block {
    targets: Range<usize>,
    centre: [f64; 3],
}

fn in_user_order<R: Real>(problem: &Problem, strategy: &DirectCpuStrategy) -> Forces {
    let n = problem.mass.len();
    let cube = Cube::around(problem.position);
    // Few targets still feed all threads.
    let block = strategy.block.min(n.div_ceil(4 * rayon::current_num_threads())).next_multiple_of(8);
    let scaling = Scaling::new(&cube, problem.mass.iter().sum(), problem.eps);
    let centre = scaling.frame_centre(strategy.precision, [0.0; 3]);
    let blocks = (0..n).step_by(block).map(|b| Block { targets: b..(b + block).min(n), centre }).collect();
    let results = sum::<R>(problem, strategy, &scaling, blocks);
    collect_forces(problem, &scaling, &results, 0..n as u32)
}

fn along_the_curve(problem: &Problem, strategy: &DirectCpuStrategy) -> Forces {
    let tree = Octree::build(problem.position, problem.mass, strategy.block);
    let scaling = Scaling::new(&tree.cube, problem.mass.iter().sum(), problem.eps);
    let blocks = tree
        .groups(strategy.block)
        .into_iter()
        .map(|group| Block {
            targets: group.bodies,
            centre: scaling.frame_centre(strategy.precision, group.centre),
        })
        .collect();
    let sorted = Problem { position: &tree.position, mass: &tree.mass, ..*problem };
    let results = sum::<f32>(&sorted, strategy, &scaling, blocks);
    collect_forces(problem, &scaling, &results, tree.order.iter().copied())
}

/// Sums for every target, in the order and scale of `problem` and `scaling`.
fn sum<R: Real>(
    problem: &Problem,
    strategy: &DirectCpuStrategy,
    scaling: &Scaling,
    blocks: Vec<Block>,
) -> Vec<[f64; 4]> {
    let mut results = vec![[0.0; 4]; problem.mass.len()];
    let work = split_results(&mut results, blocks, |block| block.targets.len());
    let one = |scratch: &mut Scratch<R>, (block, results)| {
        dispatch(strategy.set, BlockSum { problem, tile: strategy.tile, scaling, block, scratch, results });
    };
    if problem.mass.len() < PARALLEL_FROM {
        let mut scratch = Scratch::default();
        work.into_iter().for_each(|item| one(&mut scratch, item));
    } else {
        work.into_par_iter().for_each_init(Scratch::default, one);
    }
    results
}

/// What a thread keeps from block to block.
#[derive(Default)]
struct Scratch<R> {
    tile: BodyList<R>,
    targets: Vec<[R; 3]>,
    sums: Vec<LaneSums>,
}

struct BlockSum<'a, R> {
    problem: &'a Problem<'a>,
    tile: usize,
    scaling: &'a Scaling,
    block: Block,
    scratch: &'a mut Scratch<R>,
    results: &'a mut [[f64; 4]],
}

impl<R: Real> SimdKernel for BlockSum<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Vector<Scalar = f32>, D: Vector<Scalar = f64>>(self) {
        // 32 registers hold four targets, 16 hold two.
        match (S::LANES == 16, self.problem.with_potential) {
            (true, false) => self.sum::<R::Register<S, D>, 4, false>(),
            (true, true) => self.sum::<R::Register<S, D>, 4, true>(),
            (false, false) => self.sum::<R::Register<S, D>, 2, false>(),
            (false, true) => self.sum::<R::Register<S, D>, 2, true>(),
        }
    }
}

impl<R: Real> BlockSum<'_, R> {
    #[inline(always)]
    fn sum<V: Vector<Scalar = R>, const T: usize, const POTENTIAL: bool>(self) {
        let Problem { position, mass, eps, .. } = *self.problem;
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
        // The last register block repeats its last target; the surplus sums are dropped.
        let padded = targets.len().next_multiple_of(T);
        targets.resize(padded, targets[targets.len() - 1]);
        sums.clear();
        sums.resize(padded, ZERO_SUMS);

        for begin in (0..mass.len()).step_by(self.tile) {
            let range = begin..(begin + self.tile).min(mass.len());
            let holds_targets = range.start < self.block.targets.end && self.block.targets.start < range.end;
            tile.clear();
            self.scaling.append_bodies(tile, position, mass, range, self.block.centre);
            tile.pad_to_lanes(self.scaling.outside);
            let first = self.block.targets.start as isize - begin as isize;
            for (k, (targets, sums)) in targets.chunks_exact(T).zip(sums.chunks_exact_mut(T)).enumerate() {
                let targets: &[[R; 3]; T] = targets.try_into().expect("chunks of T");
                let first = first + (k * T) as isize;
                if holds_targets {
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
