//! Bodies in host memory.

use std::ops::Range;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use orrery_model::analysis::{angular_momentum, kinetic_energy, momentum};
use orrery_model::{Particles, Precision, Vec3s};

use super::{Field, Motion, NotFinite, Term};
use crate::settings::GravitySettings;
use crate::solver::jerk;
use crate::solver::{CpuStrategy, Problem};

#[derive(Clone, Debug)]
pub struct HostBodies {
    pub particles: Particles,
    pub acceleration: Vec3s,
    /// Time derivatives of the accelerations, `None` where they do not belong to the current state.
    /// Only Hermite's method uses them.
    pub jerk: Option<Vec3s>,
    /// Fields at the start of the step ([`Term::Start`]), indexed by [`Field`].
    start: Option<Box<[Vec3s; 4]>>,
    pub strategy: CpuStrategy,
    /// Time of all force evaluations that moved the bodies.
    pub force_time: Duration,
}

/// Bodies that one thread handles at a time.
const CHUNK: usize = 4096;

/// Calls `update` with each component of `to` and the same component of `from`, on all threads.
fn zip_columns(to: &mut Vec3s, from: &Vec3s, update: impl Fn(&mut f64, f64) + Sync) {
    for (to, from) in [(&mut to.x, &from.x), (&mut to.y, &from.y), (&mut to.z, &from.z)] {
        to.par_iter_mut().zip(from).with_min_len(CHUNK).for_each(|(a, &b)| update(a, b));
    }
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
        let strategy = CpuStrategy::resolve(settings, particles.len());
        Self { particles, acceleration, jerk, start: None, strategy, force_time: Duration::ZERO }
    }

    fn problem(&self, settings: &GravitySettings, with_potential: bool) -> Problem<'_> {
        let Particles { position, mass, .. } = &self.particles;
        Problem { position, mass, g: settings.g, eps: settings.eps, with_potential }
    }

    pub fn kick(&mut self, dt: f64) {
        self.jerk = None;
        zip_columns(&mut self.particles.velocity, &self.acceleration, |v, a| *v += dt * a);
    }

    pub fn drift(&mut self, dt: f64) {
        self.jerk = None;
        zip_columns(&mut self.particles.position, &self.particles.velocity, |x, v| *x += dt * v);
    }

    /// Computes the accelerations. The tree's relative acceptance reads those of the previous step,
    /// unless `is_first` is set.
    pub fn update_forces(&mut self, settings: &GravitySettings, is_first: bool) {
        self.jerk = None;
        let started = Instant::now();
        let previous = (!is_first).then_some(&self.acceleration);
        self.acceleration = self.strategy.forces(&self.problem(settings, false), previous).acceleration;
        self.force_time += started.elapsed();
    }

    pub fn update_forces_and_jerks(&mut self, settings: &GravitySettings) {
        let started = Instant::now();
        let problem = self.problem(settings, false);
        let (acceleration, jerk) = jerk::accelerations_and_jerks(&problem, &self.particles.velocity);
        self.acceleration = acceleration;
        self.jerk = Some(jerk);
        self.force_time += started.elapsed();
    }

    /// Returns the column of a term. Jerks must have been computed, and a start marked, before they
    /// are read.
    fn column(&self, term: Term) -> &Vec3s {
        match term {
            Term::Start(field) => {
                &self.start.as_ref().expect("a start is marked before it is read")[field as usize]
            }
            Term::Now(Field::Position) => &self.particles.position,
            Term::Now(Field::Velocity) => &self.particles.velocity,
            Term::Now(Field::Acceleration) => &self.acceleration,
            Term::Now(Field::Jerk) => self.jerk.as_ref().expect("jerks are computed before they are read"),
        }
    }

    pub fn mark_start(&mut self) {
        self.start = Some(Box::new(Field::ALL.map(|field| self.column(Term::Now(field)).clone())));
    }

    /// Sets `field` to its value at the start plus Σ weight × term.
    pub fn set_from_start(&mut self, field: Field, terms: &[(f64, Term)]) {
        let mut sum = self.column(Term::Start(field)).clone();
        for &(weight, term) in terms {
            let column = self.column(term);
            for (sum, column) in [(&mut sum.x, &column.x), (&mut sum.y, &column.y), (&mut sum.z, &column.z)] {
                sum.iter_mut().zip(column).for_each(|(s, x)| *s += weight * x);
            }
        }
        match field {
            Field::Position => self.particles.position = sum,
            Field::Velocity => self.particles.velocity = sum,
            Field::Acceleration => self.acceleration = sum,
            Field::Jerk => self.jerk = Some(sum),
        }
    }

    pub fn motion(&self) -> Motion {
        Motion {
            kinetic_energy: kinetic_energy(&self.particles),
            momentum: momentum(&self.particles),
            angular_momentum: angular_momentum(&self.particles),
        }
    }

    pub fn potential_energy(&self, settings: &GravitySettings) -> f64 {
        let strategy = match self.strategy {
            CpuStrategy::Direct(_) => self.strategy.with_precision(Precision::Double),
            CpuStrategy::Tree(_) => self.strategy,
        };
        let problem = self.problem(settings, true);
        let potential = strategy.forces(&problem, Some(&self.acceleration)).potential.unwrap_or_default();
        0.5 * potential.iter().zip(&self.particles.mass).map(|(phi, m)| phi * m).sum::<f64>()
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
        self.acceleration.iter().map(|a| a.iter().map(|c| c * c).sum()).fold(0.0, f64::max)
    }

    /// Returns the shortest time of a pair, squared (see `integrator::adaptive`).
    pub fn shortest_pair_time2(&self, g: f64) -> f64 {
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
        (0..self.particles.len()).into_par_iter().map(shortest).reduce(|| f64::INFINITY, f64::min)
    }
}
