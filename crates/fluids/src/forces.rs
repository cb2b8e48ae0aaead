//! Forces on the CPU: over neighbour lists, or over all pairs.

use orrery_simd::{InstructionSet, MAX_LANES, SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::arithmetic::{PairArithmetic, PairConstants, PairReal};

/// A sum of a number below 2^51 and this one is rounded to an integer.
const ROUNDING: f64 = 6_755_399_441_055_744.0;
use super::neighbours::NeighbourLists;

/// Particles whose forces one task computes.
const CHUNK: usize = 128;

/// Sorted particles of a force evaluation.
#[derive(Clone, Copy)]
pub struct FluidForceProblem<'a> {
    /// Fractions of the box.
    pub position: [&'a [u64]; 3],
    /// Upper halves of the fractions, padded by [`MAX_LANES`] numbers.
    pub upper: [&'a [i32]; 3],
    /// Species of each particle.
    pub species: &'a [u8],
    /// Neighbours, `None` for all pairs.
    pub lists: Option<&'a NeighbourLists>,
}

impl FluidForceProblem<'_> {
    #[inline(always)]
    fn fractions(&self, particle: usize) -> [u64; 3] {
        let [x, y, z] = self.position;
        [x[particle], y[particle], z[particle]]
    }

    /// Returns the force on one particle with sums of 64 bits, one pair after another.
    #[inline(always)]
    fn plain_force<R: PairReal>(&self, arithmetic: &PairArithmetic<R>, particle: usize) -> [i64; 3] {
        // Closures would be compiled without the instruction set of the caller.
        let (at, species) = (self.fractions(particle), self.species[particle]);
        let mut sum = [0i64; 3];
        match self.lists {
            Some(lists) => {
                for group in 0..arithmetic.species {
                    for &other in lists.of(particle, group) {
                        let other = other as usize;
                        let force =
                            arithmetic.pair_force(at, species, self.fractions(other), self.species[other]);
                        add_force(&mut sum, force);
                    }
                }
            }
            None => {
                for other in 0..self.species.len() {
                    if other != particle {
                        let force =
                            arithmetic.pair_force(at, species, self.fractions(other), self.species[other]);
                        add_force(&mut sum, force);
                    }
                }
            }
        }
        sum
    }
}

#[inline(always)]
fn add_force(sum: &mut [i64; 3], force: [i64; 3]) {
    *sum = [sum[0].wrapping_add(force[0]), sum[1].wrapping_add(force[1]), sum[2].wrapping_add(force[2])];
}

/// Computes the forces in f32, as integers.
pub fn single_forces(
    set: InstructionSet,
    problem: &FluidForceProblem<'_>,
    arithmetic: &PairArithmetic<f32>,
    force: &mut [Vec<i64>; 3],
) {
    for_each_chunk(force, |first, force| {
        dispatch(set, SingleChunk { problem, arithmetic, first, force });
    });
}

/// Computes the forces in f64, as integers.
pub fn double_forces(
    set: InstructionSet,
    problem: &FluidForceProblem<'_>,
    arithmetic: &PairArithmetic<f64>,
    force: &mut [Vec<i64>; 3],
) {
    for_each_chunk(force, |first, force| {
        dispatch(set, DoubleChunk { problem, arithmetic, first, force });
    });
}

/// Forces on consecutive particles, one pair after another. It runs within [`dispatch`], because
/// without its instruction sets a fused multiply-add is a function call.
struct DoubleChunk<'a> {
    problem: &'a FluidForceProblem<'a>,
    arithmetic: &'a PairArithmetic<f64>,
    first: usize,
    force: [&'a mut [i64]; 3],
}

impl SimdKernel for DoubleChunk<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        let Self { problem, arithmetic, first, force: [x, y, z] } = self;
        for index in 0..x.len() {
            [x[index], y[index], z[index]] = problem.plain_force(arithmetic, first + index);
        }
    }
}

/// Calls `compute` with the first particle and the forces of each chunk, in parallel.
fn for_each_chunk(force: &mut [Vec<i64>; 3], compute: impl Fn(usize, [&mut [i64]; 3]) + Sync) {
    let [x, y, z] = force;
    x.par_chunks_mut(CHUNK)
        .zip(y.par_chunks_mut(CHUNK))
        .zip(z.par_chunks_mut(CHUNK))
        .enumerate()
        .for_each(|(index, ((x, y), z))| compute(index * CHUNK, [x, y, z]));
}

/// Forces on consecutive particles.
struct SingleChunk<'a> {
    problem: &'a FluidForceProblem<'a>,
    arithmetic: &'a PairArithmetic<f32>,
    first: usize,
    force: [&'a mut [i64]; 3],
}

impl SimdKernel for SingleChunk<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) {
        match (self.arithmetic.is_switched, self.arithmetic.has_wide_sums()) {
            (false, false) => self.sum::<S, false, false>(),
            (true, false) => self.sum::<S, true, false>(),
            (false, true) => self.sum::<S, false, true>(),
            (true, true) => self.sum::<S, true, true>(),
        }
    }
}

impl SingleChunk<'_> {
    #[inline(always)]
    fn sum<S: SingleVector, const SWITCHED: bool, const WIDE: bool>(self) {
        let Self { problem, arithmetic, first, force: [x, y, z] } = self;
        for index in 0..x.len() {
            let particle = first + index;
            let mut sums = LaneSums::<S>::new();
            for species in 0..arithmetic.species {
                let pair = arithmetic.pair(problem.species[particle], species as u8);
                let constants = LaneConstants::<S>::new(pair, arithmetic.scale);
                match problem.lists {
                    Some(lists) => {
                        let neighbours = lists.of(particle, species);
                        sums.add_neighbours::<SWITCHED, WIDE>(&constants, problem, particle, neighbours);
                    }
                    None => sums.add_all::<SWITCHED, WIDE>(&constants, problem, particle, species as u8),
                }
            }
            let sum = match sums.is_near {
                // A large force may not fit into the sums.
                true => problem.plain_force(arithmetic, particle),
                false => sums.total::<WIDE>(),
            };
            [x[index], y[index], z[index]] = sum;
        }
    }
}

/// Constants of a pair of species in all lanes.
struct LaneConstants<S> {
    scale: [S; 3],
    cutoff2: S,
    near2: S,
    damping2: S,
    repulsion: S,
    minus_attraction: S,
    switch_start: S,
    switch: [S; 2],
}

impl<S: SingleVector> LaneConstants<S> {
    #[inline(always)]
    fn new(pair: &PairConstants<f32>, scale: [f32; 3]) -> Self {
        Self {
            scale: [S::splat(scale[0]), S::splat(scale[1]), S::splat(scale[2])],
            cutoff2: S::splat(pair.cutoff2),
            near2: S::splat(pair.near2),
            damping2: S::splat(pair.damping2),
            repulsion: S::splat(pair.repulsion),
            minus_attraction: S::splat(-pair.attraction),
            switch_start: S::splat(pair.switch_start),
            switch: [S::splat(pair.switch[0]), S::splat(pair.switch[1])],
        }
    }

    /// Returns the force divided by the distance, with the operations of
    /// [`PairConstants::term`].
    #[inline(always)]
    fn term<const SWITCHED: bool>(&self, r2: S) -> S {
        let inv_r2 = S::splat(1.0).div(r2.add(self.damping2));
        let inv_r6 = inv_r2.mul(inv_r2).mul(inv_r2);
        let bracket = self.repulsion.fused_mul_add(inv_r6, self.minus_attraction);
        let plain = inv_r2.mul(inv_r6).mul(bracket);
        if !SWITCHED {
            return plain;
        }
        let r = r2.sqrt();
        let beyond = r.sub(self.switch_start).max(S::splat(0.0));
        let polynomial = self.switch[1].fused_mul_add(beyond, self.switch[0]);
        // Where the switch has not begun, this adds 0.
        plain.add(beyond.mul(beyond).mul(polynomial).div(r))
    }
}

/// Sums of the force on one particle, one per lane: as integers of 32 bits, or, if they are wide,
/// as integers in f64.
struct LaneSums<S: SingleVector> {
    force: [S::Integers; 3],
    wide: [[f64; MAX_LANES]; 3],
    /// True if a force may be too large for these sums.
    is_near: bool,
}

impl<S: SingleVector> LaneSums<S> {
    #[inline(always)]
    fn new() -> Self {
        Self { force: [S::no_integers(); 3], wide: [[0.0; MAX_LANES]; 3], is_near: false }
    }

    /// Returns the sums over all lanes.
    #[inline(always)]
    fn total<const WIDE: bool>(&self) -> [i64; 3] {
        let mut total = [0; 3];
        for axis in 0..3 {
            if WIDE {
                for lane in 0..S::LANES {
                    total[axis] += self.wide[axis][lane] as i64;
                }
            } else {
                total[axis] = i64::from(S::sum_integers(self.force[axis]));
            }
        }
        total
    }

    /// Adds components of forces along an axis.
    #[inline(always)]
    fn add_component<const WIDE: bool>(&mut self, axis: usize, component: S) {
        if !WIDE {
            self.force[axis] = component.add_rounded(self.force[axis]);
            return;
        }
        let mut lanes = [0.0f32; MAX_LANES];
        component.store(&mut lanes);
        for lane in 0..S::LANES {
            self.wide[axis][lane] += (f64::from(lanes[lane]) + ROUNDING) - ROUNDING;
        }
    }

    /// Adds the forces of the lanes in `lanes` for these differences of positions.
    #[inline(always)]
    fn add_lanes<const SWITCHED: bool, const WIDE: bool>(
        &mut self,
        constants: &LaneConstants<S>,
        [x, y, z]: [S; 3],
        lanes: u32,
    ) {
        let (x, y, z) = (x.mul(constants.scale[0]), y.mul(constants.scale[1]), z.mul(constants.scale[2]));
        let r2 = x.fused_mul_add(x, y.fused_mul_add(y, z.mul(z)));
        self.is_near |= constants.near2.greater_mask(r2) & lanes != 0;
        let inside = constants.cutoff2.greater_mask(r2) & lanes;
        let weight = constants.term::<SWITCHED>(r2).keep_lanes(inside);
        self.add_component::<WIDE>(0, weight.mul(x));
        self.add_component::<WIDE>(1, weight.mul(y));
        self.add_component::<WIDE>(2, weight.mul(z));
    }

    #[inline(always)]
    fn add_neighbours<const SWITCHED: bool, const WIDE: bool>(
        &mut self,
        constants: &LaneConstants<S>,
        problem: &FluidForceProblem<'_>,
        particle: usize,
        neighbours: &[u32],
    ) {
        let mut blocks = neighbours.chunks_exact(S::LANES);
        for block in blocks.by_ref() {
            // SAFETY: lists contain indices of particles, and `upper` has more numbers than that.
            let differences = unsafe { gather::<S>(problem, particle, block) };
            self.add_lanes::<SWITCHED, WIDE>(constants, differences, u32::MAX >> (32 - S::LANES));
        }
        let rest = blocks.remainder();
        if !rest.is_empty() {
            let mut block = [particle as u32; MAX_LANES];
            block[..rest.len()].copy_from_slice(rest);
            // SAFETY: as above.
            let differences = unsafe { gather::<S>(problem, particle, &block) };
            self.add_lanes::<SWITCHED, WIDE>(constants, differences, u32::MAX >> (32 - rest.len()));
        }
    }

    /// Adds the forces of all particles of a species.
    #[inline(always)]
    fn add_all<const SWITCHED: bool, const WIDE: bool>(
        &mut self,
        constants: &LaneConstants<S>,
        problem: &FluidForceProblem<'_>,
        particle: usize,
        species: u8,
    ) {
        let n = problem.species.len();
        let mut first = 0;
        while first < n {
            let end = (first + S::LANES).min(n);
            let mut lanes = 0;
            for other in first..end {
                lanes |= u32::from(problem.species[other] == species && other != particle) << (other - first);
            }
            if lanes != 0 {
                let [x, y, z] = problem.upper;
                let differences = [
                    S::difference(x[particle], &x[first..first + MAX_LANES]),
                    S::difference(y[particle], &y[first..first + MAX_LANES]),
                    S::difference(z[particle], &z[first..first + MAX_LANES]),
                ];
                self.add_lanes::<SWITCHED, WIDE>(constants, differences, lanes);
            }
            first += S::LANES;
        }
    }
}

/// Returns the differences of positions between a particle and those of `block`.
///
/// # Safety
/// All numbers of the block must be indices of particles.
#[inline(always)]
unsafe fn gather<S: SingleVector>(problem: &FluidForceProblem<'_>, particle: usize, block: &[u32]) -> [S; 3] {
    let [x, y, z] = problem.upper;
    // SAFETY: guaranteed by the caller.
    unsafe {
        [
            S::gathered_difference(x[particle], x, block),
            S::gathered_difference(y[particle], y, block),
            S::gathered_difference(z[particle], z, block),
        ]
    }
}
