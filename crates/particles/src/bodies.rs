//! The bodies on their way: state, accelerations, and what an integrator may do to them.
//!
//! Between calls the accelerations belong to the positions of the last [`Bodies::update_forces`]. They are
//! part of the state: an integrator opens its step with them, and the tree's relative acceptance reads them.

use std::ops::Range;

use rayon::prelude::*;
use thiserror::Error;

use orrery_model::analysis::kinetic_energy;
use orrery_model::{Particles, Vec3s};

use crate::settings::{GravitySettings, Precision};
use crate::solver::jerk;
use crate::solver::{Problem, Strategy};

/// A number that is no number any more.
#[derive(Clone, Debug, Error, PartialEq)]
#[error(
    "body {id} has {field} = {value}, expected a finite number; bodies may have met without softening, the step may be too long, or one body too far from the others"
)]
pub struct NotFinite {
    /// The body.
    pub id: u64,
    /// Which of its numbers.
    pub field: &'static str,
    /// What was found.
    pub value: f64,
}

/// Bodies under their own gravity.
#[derive(Clone, Debug, PartialEq)]
pub struct Bodies {
    particles: Particles,
    acceleration: Vec3s,
    /// Time derivatives of the accelerations, for as long as they belong to them; only Hermite's scheme asks.
    jerk: Option<Vec3s>,
    g: f64,
    eps: f64,
    strategy: Strategy,
}

/// Runs `change` on the components of `to` and `by`, in pieces over all threads.
fn zip_columns(to: &mut Vec3s, by: &Vec3s, change: impl Fn(&mut f64, f64) + Sync) {
    for (to, by) in [(&mut to.x, &by.x), (&mut to.y, &by.y), (&mut to.z, &by.z)] {
        to.par_iter_mut().zip(by).with_min_len(4096).for_each(|(a, &b)| change(a, b));
    }
}

/// True only if all numbers of all columns are finite; over all threads where there are many.
fn surely_finite(columns: [&Vec3s; 3]) -> bool {
    const PIECE: usize = 4096;
    let n = columns[0].len();
    let piece = |range: Range<usize>| columns.iter().all(|column| column.surely_finite(range.clone()));
    if n <= PIECE {
        return piece(0..n);
    }
    (0..n.div_ceil(PIECE)).into_par_iter().all(|k| piece(k * PIECE..((k + 1) * PIECE).min(n)))
}

impl Bodies {
    /// Takes the bodies and computes their accelerations.
    pub fn new(particles: Particles, settings: &GravitySettings) -> Self {
        let n = particles.len();
        let strategy = Strategy::resolve(settings, n);
        let acceleration = Vec3s::zeros(n);
        let mut bodies =
            Self { particles, acceleration, jerk: None, g: settings.g, eps: settings.eps, strategy };
        bodies.acceleration = bodies.strategy.forces(&bodies.problem(false), None).acceleration;
        bodies
    }

    /// Takes bodies up where they were: `acceleration` and `jerk` are what [`Bodies::acceleration`] and
    /// [`Bodies::known_jerk`] gave then.
    pub fn restore(
        particles: Particles,
        acceleration: Vec3s,
        jerk: Option<Vec3s>,
        settings: &GravitySettings,
    ) -> Self {
        let strategy = Strategy::resolve(settings, particles.len());
        Self { particles, acceleration, jerk, g: settings.g, eps: settings.eps, strategy }
    }

    fn problem(&self, with_potential: bool) -> Problem<'_> {
        let Particles { position, mass, .. } = &self.particles;
        Problem { position, mass, g: self.g, eps: self.eps, with_potential }
    }

    /// The bodies as they are now.
    pub fn particles(&self) -> &Particles {
        &self.particles
    }

    /// The accelerations of the last force evaluation.
    pub fn acceleration(&self) -> &Vec3s {
        &self.acceleration
    }

    /// How forces are computed.
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// Plummer softening.
    pub fn softening(&self) -> f64 {
        self.eps
    }

    /// The gravitational constant.
    pub fn gravitational_constant(&self) -> f64 {
        self.g
    }

    /// v ← v + dt a.
    pub fn kick(&mut self, dt: f64) {
        self.jerk = None;
        zip_columns(&mut self.particles.velocity, &self.acceleration, |v, a| *v += dt * a);
    }

    /// x ← x + dt v.
    pub fn drift(&mut self, dt: f64) {
        self.jerk = None;
        zip_columns(&mut self.particles.position, &self.particles.velocity, |x, v| *x += dt * v);
    }

    /// Computes the accelerations for the present positions.
    pub fn update_forces(&mut self) {
        self.jerk = None;
        self.acceleration = self.strategy.forces(&self.problem(false), Some(&self.acceleration)).acceleration;
    }

    /// Computes accelerations and their time derivatives for the present positions and velocities, all pairs
    /// in f64.
    pub fn update_forces_and_jerks(&mut self) {
        let (acceleration, jerk) =
            jerk::accelerations_and_jerks(&self.problem(false), &self.particles.velocity);
        self.acceleration = acceleration;
        self.jerk = Some(jerk);
    }

    /// The time derivatives of the accelerations; computes them if no one has.
    pub fn jerk(&mut self) -> &Vec3s {
        if self.jerk.is_none() {
            self.update_forces_and_jerks();
        }
        self.jerk.get_or_insert_default()
    }

    /// The time derivatives of the accelerations, if they are known.
    pub fn known_jerk(&self) -> Option<&Vec3s> {
        self.jerk.as_ref()
    }

    /// Sets position and velocity columns at once, as a predictor or corrector does.
    pub fn set_phase_space(&mut self, position: Vec3s, velocity: Vec3s) {
        debug_assert!(position.len() == self.particles.len() && velocity.len() == self.particles.len());
        self.particles.position = position;
        self.particles.velocity = velocity;
    }

    /// ½ Σ m v².
    pub fn kinetic_energy(&self) -> f64 {
        kinetic_energy(&self.particles)
    }

    /// ½ Σ m φ. All pairs are summed in f64; the tree, which errs by more than f32 does, in its own arithmetic.
    pub fn potential_energy(&self) -> f64 {
        let strategy = match self.strategy {
            Strategy::Direct(_) => self.strategy.with_precision(Precision::Double),
            Strategy::Tree(_) => self.strategy,
        };
        let potential =
            strategy.forces(&self.problem(true), Some(&self.acceleration)).potential.unwrap_or_default();
        0.5 * potential.iter().zip(&self.particles.mass).map(|(phi, m)| phi * m).sum::<f64>()
    }

    /// Reports a number that is not finite: of the positions if there is one, else of the accelerations, else of the
    /// velocities, and of the first body that has one there. In that order since a position spoils all
    /// accelerations, and an acceleration only its own body's velocity.
    pub fn check_finite(&self) -> Result<(), NotFinite> {
        let Particles { position, velocity, id, .. } = &self.particles;
        let acceleration = &self.acceleration;
        if surely_finite([position, acceleration, velocity]) {
            return Ok(());
        }
        for (fields, columns) in [
            (["position x", "position y", "position z"], position),
            (["acceleration x", "acceleration y", "acceleration z"], acceleration),
            (["velocity x", "velocity y", "velocity z"], velocity),
        ] {
            if let Some((i, c)) = columns.first_not_finite() {
                return Err(NotFinite { id: id[i], field: fields[c], value: columns.get(i)[c] });
            }
        }
        Ok(())
    }
}
