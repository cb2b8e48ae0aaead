//! Bodies in host memory.

use std::ops::Range;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use orrery_cluster::ClusterError;
use orrery_model::analysis::sum::CompensatedSum;
use orrery_model::{Particles, Precision, Vec3s};

use super::{BodiesMotion, BodyField, NotFinite, Term};
use crate::settings::GravitySettings;
use crate::share::{Evaluation, TargetShare};
use crate::solver::jerk;
use crate::solver::{CpuMemory, ForceProblem, Forces, GravityCpuStrategy};

#[derive(Clone, Debug)]
pub struct HostBodies {
    pub particles: Particles,
    pub acceleration: Vec3s,
    /// Time derivatives of the accelerations, `None` where they do not belong to the current state.
    /// Only Hermite's method uses them.
    pub jerk: Option<Vec3s>,
    /// Fields at the start of the step ([`Term::Start`]), indexed by [`BodyField`].
    start: Option<Box<[Vec3s; 4]>>,
    pub strategy: GravityCpuStrategy,
    /// Time of all force evaluations that moved the bodies.
    pub force_time: Duration,
    memory: CpuMemory,
    /// Memory for the results of the next force evaluation.
    next_forces: Forces,
    /// Force evaluations up to the one that also computes potentials. `None` if none is requested.
    evaluations_to_potential: Option<u32>,
    /// Potential energy at the current positions, if a force evaluation has computed it.
    known_potential_energy: Option<f64>,
}

/// Bodies that one thread checks at a time. With 40,000 bodies, 16 threads have enough chunks.
const CHUNK: usize = 1024;

/// Components that one thread moves at a time, which takes a few microseconds. Waking a thread
/// takes longer than moving fewer.
const MOVE_CHUNK: usize = 8192;

/// Bodies of a block of a sum. It is part of the definition of the sums: blocks are summed one by
/// one, then their sums in order. The number of threads does not affect the bits.
const SUM_BLOCK: usize = 4096;

/// Returns the three columns in an array.
fn columns(vectors: &Vec3s) -> [&Vec<f64>; 3] {
    [&vectors.x, &vectors.y, &vectors.z]
}

/// Returns the three columns in an array.
fn columns_mut(vectors: &mut Vec3s) -> [&mut Vec<f64>; 3] {
    [&mut vectors.x, &mut vectors.y, &mut vectors.z]
}

/// Computes `to` += `weight` × `from`.
fn add_scaled(to: &mut [f64], weight: f64, from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += weight * from);
}

/// Computes `to` += `weight` × `from` for all vectors, on all threads.
fn add_scaled_vectors(to: &mut Vec3s, weight: f64, from: &Vec3s) {
    columns_mut(to).into_par_iter().zip(columns(from)).for_each(|(to, from)| {
        let chunks = to.par_chunks_mut(MOVE_CHUNK).zip(from.par_chunks(MOVE_CHUNK));
        chunks.for_each(|(to, from)| add_scaled(to, weight, from));
    });
}

/// Returns true only if all values of all columns are finite. Chunks are spread over all threads.
fn pass_quick_finite_check(columns: [&Vec3s; 3]) -> bool {
    let n = columns[0].len();
    let is_chunk_finite =
        |range: Range<usize>| columns.iter().all(|column| column.passes_quick_finite_check(range.clone()));
    if n <= CHUNK {
        return is_chunk_finite(0..n);
    }
    (0..n.div_ceil(CHUNK)).into_par_iter().all(|k| is_chunk_finite(k * CHUNK..((k + 1) * CHUNK).min(n)))
}

/// Returns the compensated sums over all bodies of the `K` values that `terms` returns for a body.
fn sum_blocks<const K: usize>(n: usize, terms: impl Fn(usize) -> [f64; K] + Sync) -> [f64; K] {
    let block_sums: Vec<_> = (0..n.div_ceil(SUM_BLOCK))
        .into_par_iter()
        .map(|block| {
            let mut sums = [CompensatedSum::default(); K];
            for i in block * SUM_BLOCK..((block + 1) * SUM_BLOCK).min(n) {
                sums.iter_mut().zip(terms(i)).for_each(|(sum, term)| sum.add(term));
            }
            sums
        })
        .collect();
    let mut totals = [CompensatedSum::default(); K];
    for sums in &block_sums {
        totals.iter_mut().zip(sums).for_each(|(total, sum)| total.merge(sum));
    }
    totals.map(|total| total.value())
}

/// Returns ½ Σ m φ.
fn half_sum_of_products(mass: &[f64], potential: &[f64]) -> f64 {
    let [sum] = sum_blocks(mass.len(), |i| [potential[i] * mass[i]]);
    0.5 * sum
}

/// Finds the first component that is not finite.
///
/// Positions are searched first, then accelerations, then velocities: a non-finite position makes
/// all accelerations non-finite, and a non-finite acceleration only the velocity of its body.
pub fn first_non_finite(particles: &Particles, acceleration: &Vec3s) -> Option<NotFinite> {
    let Particles { position, velocity, id, .. } = particles;
    let fields = [
        (["position x", "position y", "position z"], position),
        (["acceleration x", "acceleration y", "acceleration z"], acceleration),
        (["velocity x", "velocity y", "velocity z"], velocity),
    ];
    fields.into_iter().find_map(|(names, columns)| {
        let (i, c) = columns.first_non_finite()?;
        Some(NotFinite { id: id[i], field: names[c], value: columns.get(i)[c] })
    })
}

impl HostBodies {
    /// Sets the accelerations to zero. They must be computed before the first step.
    pub fn new(particles: Particles, settings: &GravitySettings) -> Self {
        let acceleration = Vec3s::zeros(particles.len());
        Self::restore(particles, acceleration, None, settings)
    }

    pub fn restore(
        particles: Particles,
        acceleration: Vec3s,
        jerk: Option<Vec3s>,
        settings: &GravitySettings,
    ) -> Self {
        let strategy = GravityCpuStrategy::resolve(settings, particles.len());
        let (memory, next_forces) = (CpuMemory::default(), Forces::default());
        Self {
            particles,
            acceleration,
            jerk,
            start: None,
            strategy,
            force_time: Duration::ZERO,
            memory,
            next_forces,
            evaluations_to_potential: None,
            known_potential_energy: None,
        }
    }

    fn problem(&self, settings: &GravitySettings, with_potential: bool) -> ForceProblem<'_> {
        let Particles { position, mass, .. } = &self.particles;
        ForceProblem { position, mass, g: settings.g, eps: settings.eps, with_potential }
    }

    pub fn kick(&mut self, dt: f64) {
        self.jerk = None;
        add_scaled_vectors(&mut self.particles.velocity, dt, &self.acceleration);
    }

    pub fn drift(&mut self, dt: f64) {
        self.jerk = None;
        self.known_potential_energy = None;
        add_scaled_vectors(&mut self.particles.position, dt, &self.particles.velocity);
    }

    /// Kicks, then drifts, in one pass over the bodies.
    pub fn kick_and_drift(&mut self, kick_dt: f64, drift_dt: f64) {
        self.jerk = None;
        self.known_potential_energy = None;
        let Particles { position, velocity, .. } = &mut self.particles;
        let axes = columns_mut(position).into_par_iter().zip(columns_mut(velocity));
        axes.zip(columns(&self.acceleration)).for_each(|((x, v), a)| {
            let chunks = x.par_chunks_mut(MOVE_CHUNK).zip(v.par_chunks_mut(MOVE_CHUNK));
            chunks.zip(a.par_chunks(MOVE_CHUNK)).for_each(|((x, v), a)| {
                add_scaled(v, kick_dt, a);
                add_scaled(x, drift_dt, v);
            });
        });
    }

    pub fn set_phase_space(&mut self, position: Vec3s, velocity: Vec3s) {
        self.known_potential_energy = None;
        self.particles.position = position;
        self.particles.velocity = velocity;
    }

    /// See [`Bodies::request_potential`](super::Bodies::request_potential).
    pub fn request_potential(&mut self, evaluation: u32) {
        self.evaluations_to_potential = Some(evaluation);
    }

    /// Returns true if potentials from a force evaluation are as accurate as a potential energy
    /// must be: f64 for a direct sum, the arithmetic of the forces for the tree.
    fn forces_give_potentials(&self) -> bool {
        match self.strategy {
            GravityCpuStrategy::Direct(strategy) => strategy.computes_in_f64(self.particles.len()),
            GravityCpuStrategy::Tree(_) => true,
        }
    }

    /// Computes the accelerations. The tree's relative acceptance reads those of the previous step,
    /// unless `is_first` is set.
    pub fn update_forces(
        &mut self,
        settings: &GravitySettings,
        is_first: bool,
        share: &TargetShare,
    ) -> Result<(), ClusterError> {
        self.jerk = None;
        let started = Instant::now();
        let remaining = self.evaluations_to_potential.take().map(|count| count.saturating_sub(1));
        self.evaluations_to_potential = remaining.filter(|&count| count > 0);
        let with_potential = remaining == Some(0) && self.forces_give_potentials();
        let Self { particles: Particles { position, mass, .. }, strategy, memory, next_forces, .. } = self;
        let problem = ForceProblem { position, mass, g: settings.g, eps: settings.eps, with_potential };
        let previous = (!is_first).then_some(&self.acceleration);
        let evaluation = share.of(Evaluation::Forces);
        strategy.shared_forces_into(&problem, previous, evaluation, memory, next_forces)?;
        std::mem::swap(&mut self.acceleration, &mut next_forces.acceleration);
        if let Some(potential) = &next_forces.potential {
            self.known_potential_energy = Some(half_sum_of_products(mass, potential));
        }
        // The first evaluation belongs to the start of a run.
        if !is_first {
            self.force_time += started.elapsed();
        }
        Ok(())
    }

    pub fn update_forces_and_jerks(
        &mut self,
        settings: &GravitySettings,
        share: &TargetShare,
    ) -> Result<(), ClusterError> {
        let started = Instant::now();
        let (problem, velocity) = (self.problem(settings, false), &self.particles.velocity);
        let evaluation = share.of(Evaluation::Jerks);
        let (acceleration, jerk) = jerk::shared_accelerations_and_jerks(&problem, velocity, evaluation)?;
        self.acceleration = acceleration;
        self.jerk = Some(jerk);
        self.force_time += started.elapsed();
        Ok(())
    }

    /// Returns the column of a term. Jerks must have been computed, and a start marked, before they
    /// are read.
    fn column(&self, term: Term) -> &Vec3s {
        match term {
            Term::Start(field) => {
                &self.start.as_ref().expect("a start is marked before it is read")[field as usize]
            }
            Term::Now(BodyField::Position) => &self.particles.position,
            Term::Now(BodyField::Velocity) => &self.particles.velocity,
            Term::Now(BodyField::Acceleration) => &self.acceleration,
            Term::Now(BodyField::Jerk) => {
                self.jerk.as_ref().expect("jerks are computed before they are read")
            }
        }
    }

    pub fn mark_start(&mut self) {
        self.start = Some(Box::new(BodyField::ALL.map(|field| self.column(Term::Now(field)).clone())));
    }

    /// Sets `field` to its value at the start plus Σ weight × term.
    pub fn set_from_start(&mut self, field: BodyField, terms: &[(f64, Term)]) {
        let mut sum = self.column(Term::Start(field)).clone();
        for &(weight, term) in terms {
            let column = self.column(term);
            for (sum, column) in [(&mut sum.x, &column.x), (&mut sum.y, &column.y), (&mut sum.z, &column.z)] {
                sum.iter_mut().zip(column).for_each(|(s, x)| *s += weight * x);
            }
        }
        match field {
            BodyField::Position => {
                self.known_potential_energy = None;
                self.particles.position = sum;
            }
            BodyField::Velocity => self.particles.velocity = sum,
            BodyField::Acceleration => self.acceleration = sum,
            BodyField::Jerk => self.jerk = Some(sum),
        }
    }

    pub fn motion(&self) -> BodiesMotion {
        let Particles { position, velocity, mass, .. } = &self.particles;
        let sums = sum_blocks(mass.len(), |i| {
            let ([x, y, z], [u, v, w], m) = (position.get(i), velocity.get(i), mass[i]);
            let [lx, ly, lz] = [m * (y * w - z * v), m * (z * u - x * w), m * (x * v - y * u)];
            [m * (u * u + v * v + w * w), m * u, m * v, m * w, lx, ly, lz]
        });
        let [m_v2, px, py, pz, lx, ly, lz] = sums;
        BodiesMotion { kinetic_energy: 0.5 * m_v2, momentum: [px, py, pz], angular_momentum: [lx, ly, lz] }
    }

    /// Returns whether [`potential_energy`](Self::potential_energy) needs no force evaluation.
    pub fn knows_potential_energy(&self) -> bool {
        self.known_potential_energy.is_some()
    }

    pub fn potential_energy(
        &self,
        settings: &GravitySettings,
        share: &TargetShare,
    ) -> Result<f64, ClusterError> {
        if let Some(known) = self.known_potential_energy {
            return Ok(known);
        }
        let strategy = match self.strategy {
            GravityCpuStrategy::Direct(_) => self.strategy.with_precision(Precision::Double),
            GravityCpuStrategy::Tree(_) => self.strategy,
        };
        let (problem, evaluation) = (self.problem(settings, true), share.of(Evaluation::Energies));
        let (mut memory, mut forces) = (CpuMemory::default(), Forces::default());
        let previous = Some(&self.acceleration);
        strategy.shared_forces_into(&problem, previous, evaluation, &mut memory, &mut forces)?;
        Ok(half_sum_of_products(&self.particles.mass, &forces.potential.unwrap_or_default()))
    }

    pub fn check_finite(&self) -> Result<(), NotFinite> {
        let Particles { position, velocity, .. } = &self.particles;
        if pass_quick_finite_check([position, &self.acceleration, velocity]) {
            return Ok(());
        }
        first_non_finite(&self.particles, &self.acceleration).map_or(Ok(()), Err)
    }

    /// Returns the largest |a|² (see `integrator::adaptive`).
    pub fn largest_acceleration2(&self) -> f64 {
        let Vec3s { x, y, z } = &self.acceleration;
        let squares = x.par_iter().zip(y).zip(z).map(|((x, y), z)| [x, y, z].iter().map(|&c| c * c).sum());
        squares.with_min_len(CHUNK).reduce(|| 0.0, f64::max)
    }

    /// Returns the shortest time of a pair, squared (see `integrator::adaptive`).
    pub fn shortest_pair_time2(&self, g: f64, share: &TargetShare) -> Result<f64, ClusterError> {
        let Particles { position, velocity, mass, .. } = &self.particles;
        let shortest = |i| {
            let (xi, vi, mi): ([f64; 3], [f64; 3], f64) = (position.get(i), velocity.get(i), mass[i]);
            let mut shortest2 = f64::INFINITY;
            for j in 0..i {
                let (xj, vj) = (position.get(j), velocity.get(j));
                let r2: f64 = (0..3).map(|c| (xj[c] - xi[c]).powi(2)).sum();
                let v2: f64 = (0..3).map(|c| (vj[c] - vi[c]).powi(2)).sum();
                let collision_time2 = r2 * r2.sqrt() / (g * (mi + mass[j]));
                let passing_time2 = r2 / v2;
                shortest2 = shortest2.min(collision_time2).min(passing_time2);
            }
            shortest2
        };
        let evaluation = share.of(Evaluation::PairTimes);
        let own = evaluation.divide(self.particles.len(), |body| body).own();
        let start = Instant::now();
        let shortest2 = own.into_par_iter().map(shortest).reduce(|| f64::INFINITY, f64::min);
        evaluation.agree(Ok::<_, ClusterError>(start.elapsed().as_secs_f64()))?;
        evaluation.min(shortest2)
    }
}
