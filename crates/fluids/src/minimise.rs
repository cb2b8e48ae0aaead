//! Energy minimisation for starts in which particles overlap.
//!
//! 1. Steepest descent, x ← x + γ f with γ = 5e-4 σ²/ε, while a force exceeds 1000 ε/σ. Overlapping
//!    particles move apart within a few steps.
//! 2. FIRE 2.0 (Guénolé et al. 2020, Comp. Mat. Sci. 175, 109584): dynamics of unit masses with
//!    v ← v + dt f, v ← (1 − α) v + α f |v| / |f|, x ← x + dt v. While P = Σ f · v > 0, the step
//!    grows and α decreases. When P ≤ 0, all particles go back by half a step and start again from
//!    rest, with a shorter step that never falls below a floor. Without the floor a minimisation
//!    that often goes uphill stands still.
//!
//! Both use the forces of mixed precision, whose integers hold larger forces than those of f64: at
//! a distance of 0.1 σ a force is 5e14 ε/σ. Their quantum can be 2^-16 ε/σ, so limits below
//! 0.01 ε/σ are reached with forces in f64, as in double precision: FIRE then continues with them.
//!
//! No particle moves farther than a tenth of σ in a step, because forces between overlapping
//! particles are huge. Sums are taken in the order of the user, so results do not depend on
//! threads, lists or the skin.

use orrery_model::analysis::max_or_nan;
use orrery_model::fluid::FluidParticles;

use super::host::FluidMotion;
use super::settings::{FluidSettings, PairPrecision};
use super::{Exploded, HostFluid};

/// First step of FIRE in units of σ √(1/ε), and its longest and shortest one relative to it. These
/// are the defaults of LAMMPS (`min_modify tmax tmin`) with a time step of 0.005.
const FIRST_STEP: f64 = 0.005;
const LONGEST_STEP: f64 = 10.0;
const SHORTEST_STEP: f64 = 0.02;
/// Steps with P > 0 before the step grows, and its factors.
const STEPS_BEFORE_GROWTH: u32 = 20;
const GROWTH: f64 = 1.1;
const SHRINKAGE: f64 = 0.5;
/// First mixing α, and its factor when the step grows.
const FIRST_MIXING: f64 = 0.25;
const MIXING_DECAY: f64 = 0.99;
/// Longest way of a particle in a step, in units of σ.
const LONGEST_WAY: f64 = 0.1;
/// Steepest descent ends when all forces are below this, in units of ε/σ, and takes at most this
/// number of steps.
const DESCENT_FORCE: f64 = 1000.0;
const DESCENT_STEPS: u32 = 1000;
/// Way per force of steepest descent, in units of σ²/ε. Near a minimum, pairs have the stiffness
/// 57 ε/σ², so descent is stable there with a dozen neighbours.
const DESCENT_RATE: f64 = 5e-4;

/// Largest force that the forces of mixed precision have to reach, in units of ε/σ. It is far above
/// their quantum.
const COARSE_FORCE: f64 = 0.01;

/// When a minimisation ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinimiseLimits {
    /// Largest component of a force at the minimum, in units of ε/σ.
    pub largest_force: f64,
    /// Largest number of steps.
    pub steps: u32,
}

/// State of a minimisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MinimiseState {
    /// Steps taken.
    pub steps: u32,
    /// Potential energy per particle, in units of the largest ε.
    pub energy: f64,
    /// Largest component of a force, in units of the largest ε and σ.
    pub largest_force: f64,
}

/// Why a minimisation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinimiseEnd {
    /// The largest force is below its limit.
    Converged,
    /// The number of steps was reached.
    StepLimit,
    /// The caller stopped it.
    Stopped,
}

/// A minimisation in progress.
pub struct Minimiser {
    fluid: HostFluid,
    /// ε/σ and σ.
    force_unit: f64,
    length_unit: f64,
    energy_unit: f64,
    limits: MinimiseLimits,
    /// Precision of the run.
    precision: PairPrecision,
    steps: u32,
    /// Sums over the forces at the current positions.
    sums: ForceSums,
    /// Longest way of a particle in a step.
    longest_way: f64,
}

impl Minimiser {
    /// Prepares the minimisation of particles on the CPU. Their velocities are not used.
    pub fn new(particles: FluidParticles, settings: &FluidSettings, limits: MinimiseLimits) -> Self {
        let potential = &settings.potential;
        let species = potential.species_count();
        let pairs = (0..species).flat_map(|a| (0..species).map(move |b| (a, b)));
        let pairs: Vec<_> = pairs.map(|(a, b)| potential.pair(a, b)).collect();
        let length_unit = pairs.iter().map(|pair| pair.sigma).fold(0.0, max_or_nan);
        let energy_unit = pairs.iter().map(|pair| pair.epsilon).fold(0.0, max_or_nan);
        // Species of different masses would need a step for the lightest one.
        let precision = settings.precision;
        let settings =
            FluidSettings { mass: vec![1.0; species], precision: PairPrecision::Mixed, ..settings.clone() };
        let longest_way = (LONGEST_WAY * length_unit).min(0.5 * settings.largest_move(&particles.bounds));
        let mut minimiser = Self {
            fluid: HostFluid::new(particles, &settings),
            // Particles without interaction have no forces.
            force_unit: if energy_unit > 0.0 { energy_unit / length_unit } else { 1.0 },
            length_unit,
            energy_unit: if energy_unit > 0.0 { energy_unit } else { 1.0 },
            limits,
            precision,
            steps: 0,
            sums: ForceSums::default(),
            longest_way,
        };
        minimiser.sums = minimiser.fluid.force_sums();
        minimiser
    }

    /// Returns steps, energy and largest force. The energy takes as long as a step.
    pub fn state(&self) -> MinimiseState {
        let n = self.fluid.len().max(1) as f64;
        let energy = self.fluid.measure().potential / (n * self.energy_unit);
        MinimiseState { steps: self.steps, energy, largest_force: self.largest_force() }
    }

    /// Returns the largest component of a force, in units of ε/σ.
    fn largest_force(&self) -> f64 {
        self.sums.largest / self.force_unit
    }

    /// Returns the particles, with velocities of 0.
    pub fn into_particles(self) -> FluidParticles {
        let mut particles = self.fluid.particles();
        let v = &mut particles.velocity;
        [&mut v.x, &mut v.y, &mut v.z].into_iter().for_each(|column| column.fill(0.0));
        particles
    }

    /// Moves the particles until the limits are reached or `must_go_on`, which is called before
    /// each step, returns false.
    pub fn run(&mut self, must_go_on: &mut dyn FnMut(&Self) -> bool) -> Result<MinimiseEnd, Exploded> {
        self.fluid.apply(&[FluidMotion::Scale(0.0)])?;
        while self.largest_force() > DESCENT_FORCE && self.steps < DESCENT_STEPS {
            if let Some(end) = self.end(self.limits.largest_force, must_go_on) {
                return Ok(end);
            }
            self.descend()?;
        }
        let limit = self.limits.largest_force;
        let end = self.relax(limit.max(COARSE_FORCE), must_go_on)?;
        let is_fine = self.precision == PairPrecision::Double || limit < COARSE_FORCE;
        let is_double = self.fluid.settings().precision == PairPrecision::Double;
        if end != MinimiseEnd::Converged || !is_fine {
            return Ok(end);
        }
        if !is_double {
            let settings =
                FluidSettings { precision: PairPrecision::Double, ..self.fluid.settings().clone() };
            self.fluid = HostFluid::new(self.fluid.particles(), &settings);
            self.fluid.apply(&[FluidMotion::Scale(0.0)])?;
            self.sums = self.fluid.force_sums();
        }
        self.relax(limit, must_go_on)
    }

    fn end(&self, limit: f64, must_go_on: &mut dyn FnMut(&Self) -> bool) -> Option<MinimiseEnd> {
        if self.largest_force() <= limit {
            Some(MinimiseEnd::Converged)
        } else if self.steps >= self.limits.steps {
            Some(MinimiseEnd::StepLimit)
        } else {
            (!must_go_on(self)).then_some(MinimiseEnd::Stopped)
        }
    }

    /// Takes a step of steepest descent.
    fn descend(&mut self) -> Result<(), Exploded> {
        // The kick makes a velocity, and the drift takes it as a way.
        let rate = DESCENT_RATE * self.length_unit / self.force_unit;
        self.fluid.apply(&[FluidMotion::Kick(rate)])?;
        self.fluid.limit_speeds(self.longest_way);
        self.drift(1.0)?;
        self.fluid.apply(&[FluidMotion::Scale(0.0)])?;
        self.update();
        Ok(())
    }

    /// Relaxes the particles with FIRE until no force exceeds `limit`, in units of ε/σ.
    fn relax(
        &mut self,
        limit: f64,
        must_go_on: &mut dyn FnMut(&Self) -> bool,
    ) -> Result<MinimiseEnd, Exploded> {
        let first = FIRST_STEP * (self.length_unit / self.force_unit).sqrt();
        let (mut step, mut mixing, mut downhill) = (first, FIRST_MIXING, 0);
        let mut is_first = true;
        loop {
            if let Some(end) = self.end(limit, must_go_on) {
                return Ok(end);
            }
            if self.sums.power > 0.0 {
                downhill += 1;
                if downhill > STEPS_BEFORE_GROWTH {
                    step = (step * GROWTH).min(LONGEST_STEP * first);
                    mixing *= MIXING_DECAY;
                }
            } else {
                // All particles are at rest before the first step, so there is no way back.
                self.drift(-0.5 * step)?;
                self.fluid.apply(&[FluidMotion::Scale(0.0)])?;
                if !is_first {
                    step = (step * SHRINKAGE).max(SHORTEST_STEP * first);
                }
                (mixing, downhill) = (FIRST_MIXING, 0);
            }
            is_first = false;
            self.fluid.apply(&[FluidMotion::Kick(step)])?;
            let sums = self.fluid.force_sums();
            let towards =
                if sums.force2 > 0.0 { mixing * (sums.velocity2 / sums.force2).sqrt() } else { 0.0 };
            self.fluid.mix_velocities(1.0 - mixing, towards);
            self.fluid.limit_speeds(self.longest_way / step);
            self.drift(step)?;
            self.update();
        }
    }

    fn drift(&mut self, step: f64) -> Result<(), Exploded> {
        let moved = self.fluid.apply(&[FluidMotion::Drift(step)]);
        moved.map_err(|error| Exploded { step: u64::from(self.steps), ..error })
    }

    /// Computes the forces after a step.
    fn update(&mut self) {
        self.fluid.update_forces();
        self.sums = self.fluid.force_sums();
        self.steps += 1;
    }
}

/// Sums over the forces of all particles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ForceSums {
    /// Largest component.
    pub(super) largest: f64,
    /// Σ f · v.
    pub(super) power: f64,
    /// Σ f².
    pub(super) force2: f64,
    /// Σ v².
    pub(super) velocity2: f64,
}

impl ForceSums {
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            largest: self.largest.max(other.largest),
            power: self.power + other.power,
            force2: self.force2 + other.force2,
            velocity2: self.velocity2 + other.velocity2,
        }
    }
}
