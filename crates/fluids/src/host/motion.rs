//! Motion of the particles: kicks, drifts, friction and noise.
//!
//! A pass applies several operations to a chunk of particles before it continues with the next
//! chunk, so each number is loaded from memory once. Operations of particles do not depend on one
//! another. All code runs within [`dispatch`], because without its instruction sets a fused
//! multiply-add is a function call.

use orrery_model::simulation_box::move_fraction;
use orrery_simd::{SimdKernel, SingleVector, Vector, dispatch};
use rayon::prelude::*;

use super::HostFluid;
use crate::Exploded;
use crate::arithmetic::upper_half;
use crate::ensemble::noise;
use crate::sums::WideSum;

/// Particles of a chunk.
const CHUNK: usize = 1024;

/// An operation on velocities and positions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FluidMotion {
    /// v ← v + dt f / m.
    Kick(f64),
    /// x ← x + dt v.
    Drift(f64),
    /// v ← c v + √((1 − c²) kT / m) ξ with the decay c and normal numbers ξ.
    Friction { decay: f64, kt: f64, seed: u64, step: u64 },
    /// v ← α v.
    Scale(f64),
}

/// An operation with its factors: one per species for velocities, one per axis for positions.
enum PreparedMotion {
    Kick(Vec<f64>),
    Drift([f64; 3]),
    Friction { decay: f64, width: Vec<f64>, seed: u64, step: u64 },
    Scale(f64),
}

/// The state of consecutive particles.
struct Chunk<'a> {
    first: usize,
    position: [&'a mut [u64]; 3],
    image: [&'a mut [i32]; 3],
    velocity: [&'a mut [f64]; 3],
    upper: [&'a mut [i32]; 3],
    force: [&'a [i64]; 3],
    listed: [&'a [i32]; 3],
    species: &'a [u8],
    id: &'a [u64],
}

/// A particle that would move too far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MotionFailure {
    /// User's index.
    pub user: u32,
    /// Identifier.
    pub id: u64,
    /// Axis along which it moves.
    pub axis: usize,
    /// Its velocity along the axis.
    pub velocity: f64,
}

impl From<MotionFailure> for Exploded {
    fn from(MotionFailure { id, axis, velocity, .. }: MotionFailure) -> Self {
        Self { id, velocity, axis, step: 0 }
    }
}

/// Result of a pass over a chunk.
#[derive(Clone, Copy, Default)]
struct Outcome {
    /// A particle with its axis that would move too far: the first in the user's order.
    failed: Option<(u32, usize, usize)>,
    /// True if a particle has moved by more than half the skin since the lists were built.
    must_rebuild: bool,
}

impl Outcome {
    fn and(self, other: Self) -> Self {
        let failed = self.failed.into_iter().chain(other.failed).min();
        Self { failed, must_rebuild: self.must_rebuild || other.must_rebuild }
    }
}

/// Operations and constants that all chunks share.
struct Pass<'a> {
    motions: &'a [PreparedMotion],
    dimensions: usize,
    /// Longest way in a step, per axis, as a number of fractions.
    limit: [f64; 3],
    /// Lengths per fraction, and half of the skin squared.
    scale: [f32; 3],
    half_skin2: f32,
    /// User's index of each particle.
    order: &'a [u32],
}

impl HostFluid {
    /// Applies operations to all particles, in this order. Fails if a particle moves by more than
    /// the largest step. The error names the first such particle in the user's order, and step 0.
    pub(crate) fn apply(&mut self, motions: &[FluidMotion]) -> Result<(), Exploded> {
        self.move_particles(motions).map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Applies operations to all particles, in this order. Returns the first particle in the user's
    /// order that moves by more than the largest step. It stays where it is.
    pub(crate) fn move_particles(&mut self, motions: &[FluidMotion]) -> Option<MotionFailure> {
        let prepared: Vec<PreparedMotion> = motions.iter().map(|motion| self.prepare(*motion)).collect();
        let largest = self.settings.largest_move(&self.bounds);
        let skin = 0.5 * self.settings.skin / self.settings.potential.length_unit();
        let set = self.set;
        let pass = Pass {
            motions: &prepared,
            dimensions: self.bounds.dimensions,
            limit: self.bounds.lengths.map(|length| largest / length * 2f64.powi(64)),
            scale: self.single.scale,
            // Rounding errors of f32 must not hide a move.
            half_skin2: (skin * skin * (1.0 - 1e-5)) as f32,
            order: &self.order,
        };
        let n = self.id.len();
        // Ghosts come behind the particles.
        let [x, y, z] = self.position.each_mut().map(|column| column[..n].chunks_mut(CHUNK));
        let [image_x, image_y, image_z] = self.image.each_mut().map(|column| column.chunks_mut(CHUNK));
        let [vx, vy, vz] = self.velocity.each_mut().map(|column| column.chunks_mut(CHUNK));
        let [ux, uy, uz] = self.upper.each_mut().map(|column| column[..n].chunks_mut(CHUNK));
        let mutable = x.zip(y).zip(z).zip(image_x.zip(image_y).zip(image_z)).zip(vx.zip(vy).zip(vz));
        let chunks: Vec<Chunk<'_>> = mutable
            .zip(ux.zip(uy).zip(uz))
            .enumerate()
            .map(|(index, ((((xy, z), (image_xy, image_z)), (v_xy, vz)), (u_xy, uz)))| {
                let first = index * CHUNK;
                let range = first..(first + CHUNK).min(n);
                Chunk {
                    first,
                    position: [xy.0, xy.1, z],
                    image: [image_xy.0, image_xy.1, image_z],
                    velocity: [v_xy.0, v_xy.1, vz],
                    upper: [u_xy.0, u_xy.1, uz],
                    force: self.force.each_ref().map(|column| &column[range.clone()]),
                    listed: self.listed.each_ref().map(|column| &column[range.clone()]),
                    species: &self.species[range.clone()],
                    id: &self.id[range],
                }
            })
            .collect();
        let outcome = chunks
            .into_par_iter()
            .map(|chunk| dispatch(set, ChunkMotion { chunk, pass: &pass }))
            .reduce(Outcome::default, Outcome::and);
        self.must_rebuild |= outcome.must_rebuild;
        outcome.failed.map(|(user, axis, index)| MotionFailure {
            user,
            id: self.id[index],
            axis,
            velocity: self.velocity[axis][index],
        })
    }

    fn prepare(&self, motion: FluidMotion) -> PreparedMotion {
        let mass = &self.settings.mass;
        match motion {
            FluidMotion::Kick(dt) => {
                let unit = self.force_unit();
                PreparedMotion::Kick(mass.iter().map(|mass| dt * unit / mass).collect())
            }
            FluidMotion::Drift(dt) => {
                PreparedMotion::Drift(self.bounds.lengths.map(|length| dt / length * 2f64.powi(64)))
            }
            FluidMotion::Friction { decay, kt, seed, step } => {
                let width = mass.iter().map(|mass| ((1.0 - decay * decay) * kt / mass).sqrt()).collect();
                PreparedMotion::Friction { decay, width, seed, step }
            }
            FluidMotion::Scale(factor) => PreparedMotion::Scale(factor),
        }
    }

    /// Returns the kinetic energy and the momentum of all particles.
    pub fn motion(&self) -> (f64, [f64; 3]) {
        let (kinetic, momentum) = self.motion_sums();
        let momentum_unit = self.settings.momentum_unit();
        (self.settings.kinetic_energy(kinetic), momentum.map(|sum| sum.bounded_value() * momentum_unit))
    }

    /// Returns the sums of kinetic energy and momentum.
    pub(crate) fn motion_sums(&self) -> (WideSum, [WideSum; 3]) {
        (0..self.len().div_ceil(CHUNK))
            .into_par_iter()
            .map(|index| {
                let range = index * CHUNK..((index + 1) * CHUNK).min(self.len());
                let sums = MotionSums {
                    velocity: self.velocity.each_ref().map(|column| &column[range.clone()]),
                    species: &self.species[range],
                    mass: &self.settings.mass,
                    to_unit: 1.0 / self.settings.kinetic_unit(),
                    momentum_unit: self.settings.momentum_unit(),
                };
                dispatch(self.set, sums)
            })
            .reduce(Default::default, |(kinetic, momentum), (other, others)| {
                (kinetic.plus(other), [0, 1, 2].map(|k| momentum[k].plus(others[k])))
            })
    }
}

/// All operations on one chunk.
struct ChunkMotion<'a> {
    chunk: Chunk<'a>,
    pass: &'a Pass<'a>,
}

impl SimdKernel for ChunkMotion<'_> {
    type Output = Outcome;

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> Outcome {
        let Self { mut chunk, pass } = self;
        let mut outcome = Outcome::default();
        let mut has_moved = false;
        for motion in pass.motions {
            match motion {
                PreparedMotion::Kick(factor) => chunk.kick(factor),
                PreparedMotion::Drift(factor) => {
                    has_moved = true;
                    outcome = outcome.and(chunk.drift(factor, pass));
                }
                PreparedMotion::Friction { decay, width, seed, step } => {
                    chunk.add_friction(*decay, width, *seed, *step, pass.dimensions);
                }
                PreparedMotion::Scale(factor) => {
                    chunk.velocity.iter_mut().for_each(|v| v.iter_mut().for_each(|v| *v *= factor));
                }
            }
        }
        if has_moved {
            outcome.must_rebuild |= chunk.update_upper(pass);
        }
        outcome
    }
}

impl Chunk<'_> {
    #[inline(always)]
    fn kick(&mut self, factor: &[f64]) {
        for (velocity, force) in self.velocity.iter_mut().zip(&self.force) {
            match factor {
                &[factor] => {
                    for (v, &f) in velocity.iter_mut().zip(*force) {
                        *v = factor.mul_add(f as f64, *v);
                    }
                }
                _ => {
                    for ((v, &f), &species) in velocity.iter_mut().zip(*force).zip(self.species) {
                        *v = factor[usize::from(species)].mul_add(f as f64, *v);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn drift(&mut self, factor: &[f64; 3], pass: &Pass<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        for axis in 0..pass.dimensions {
            let (factor, limit) = (factor[axis], pass.limit[axis]);
            let particles =
                self.position[axis].iter_mut().zip(self.image[axis].iter_mut()).zip(&*self.velocity[axis]);
            let mut has_failed = false;
            for ((position, image), &velocity) in particles {
                let step = velocity * factor;
                // NaN fails too.
                let is_short = step.abs() < limit;
                has_failed |= !is_short;
                move_fraction(position, image, if is_short { step.round_ties_even() as i64 } else { 0 });
            }
            if has_failed {
                let failed = self.velocity[axis].iter().enumerate().filter_map(|(k, &velocity)| {
                    let is_short = (velocity * factor).abs() < limit;
                    let index = self.first + k;
                    (!is_short).then(|| (pass.order[index], axis, index))
                });
                outcome = outcome.and(Outcome { failed: failed.min(), must_rebuild: false });
            }
        }
        outcome
    }

    #[inline(always)]
    fn add_friction(&mut self, decay: f64, width: &[f64], seed: u64, step: u64, dimensions: usize) {
        for (k, (&species, &id)) in self.species.iter().zip(self.id).enumerate() {
            let (width, noise) = (width[usize::from(species)], noise(seed, step, id));
            for axis in 0..dimensions {
                let v = &mut self.velocity[axis][k];
                *v = width.mul_add(noise[axis], decay * *v);
            }
        }
    }

    /// Updates the upper halves of the fractions. Returns true if a particle has moved by more than
    /// half the skin.
    #[inline(always)]
    fn update_upper(&mut self, pass: &Pass<'_>) -> bool {
        for (upper, position) in self.upper.iter_mut().zip(&self.position) {
            for (upper, &fraction) in upper.iter_mut().zip(position.iter()) {
                *upper = upper_half(fraction);
            }
        }
        let way = |axis: usize, k: usize| {
            self.upper[axis][k].wrapping_sub(self.listed[axis][k]) as f32 * pass.scale[axis]
        };
        let mut longest2 = 0.0f32;
        for k in 0..self.species.len() {
            let (x, y, z) = (way(0, k), way(1, k), way(2, k));
            longest2 = longest2.max(x * x + y * y + z * z);
        }
        longest2 > pass.half_skin2
    }
}

/// Kinetic energy and momentum of one chunk.
struct MotionSums<'a> {
    velocity: [&'a [f64]; 3],
    species: &'a [u8],
    mass: &'a [f64],
    to_unit: f64,
    momentum_unit: f64,
}

impl SimdKernel for MotionSums<'_> {
    type Output = (WideSum, [WideSum; 3]);

    #[inline(always)]
    fn run<S: SingleVector, D: Vector<Scalar = f64>>(self) -> (WideSum, [WideSum; 3]) {
        let (mut kinetic, mut momentum) = (WideSum::default(), [WideSum::default(); 3]);
        for (k, &species) in self.species.iter().enumerate() {
            let mass = self.mass[usize::from(species)];
            let v = [self.velocity[0][k], self.velocity[1][k], self.velocity[2][k]];
            let v2 = v[0].mul_add(v[0], v[1].mul_add(v[1], v[2] * v[2]));
            kinetic = kinetic.plus(WideSum::of(0.5 * mass * v2 * self.to_unit));
            for axis in 0..3 {
                momentum[axis] = momentum[axis].plus(WideSum::of(mass * v[axis] / self.momentum_unit));
            }
        }
        (kinetic, momentum)
    }
}
