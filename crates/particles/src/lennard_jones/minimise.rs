//! Energy minimisation for starts in which particles overlap: FIRE (Bitzek et al. 2006).
//!
//! The particles move with velocity Verlet. With P = Σ f · v, velocities are turned towards the
//! forces while P > 0, v ← (1 − α) v + α |v| f / |f|, and the step grows. When P ≤ 0 all particles
//! stop and the step shrinks. No particle moves farther than a tenth of σ in a step, because forces
//! between overlapping particles are huge.

use super::host::Motion;
use super::{Exploded, HostFluid};

/// Parameters of Bitzek et al.
const STEPS_BEFORE_GROWTH: u32 = 5;
const GROWTH: f64 = 1.1;
const SHRINKAGE: f64 = 0.5;
const FIRST_MIXING: f64 = 0.1;
const MIXING_DECAY: f64 = 0.99;
/// The longest step, in units of the first one.
const LARGEST_GROWTH: f64 = 10.0;
/// Longest way of a particle in a step, in units of σ.
const LONGEST_WAY: f64 = 0.1;

/// Result of a minimisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Minimised {
    /// Steps taken.
    pub steps: u32,
    /// Largest component of a force, in the units of the case.
    pub largest_force: f64,
    /// True if the largest force is below the tolerance.
    pub has_converged: bool,
}

impl HostFluid {
    /// Moves the particles to a minimum of the energy, until no component of a force exceeds
    /// `tolerance` or `most` steps were taken. `dt` is the first step. Velocities are 0 afterwards.
    pub fn minimise(&mut self, dt: f64, tolerance: f64, most: u32) -> Result<Minimised, Exploded> {
        let (mut step, mut mixing, mut downhill) = (dt, FIRST_MIXING, 0);
        self.apply(&[Motion::Scale(0.0)])?;
        let mut steps = 0;
        loop {
            let ForceSums { largest, power, force2, velocity2 } = self.force_sums();
            if largest <= tolerance || steps == most {
                self.apply(&[Motion::Scale(0.0)])?;
                return Ok(Minimised { steps, largest_force: largest, has_converged: largest <= tolerance });
            }
            if power > 0.0 {
                let towards = if force2 > 0.0 { mixing * (velocity2 / force2).sqrt() } else { 0.0 };
                self.mix_velocities(1.0 - mixing, towards);
                downhill += 1;
                if downhill > STEPS_BEFORE_GROWTH {
                    step = (step * GROWTH).min(LARGEST_GROWTH * dt);
                    mixing *= MIXING_DECAY;
                }
            } else {
                self.apply(&[Motion::Scale(0.0)])?;
                // The first step has no velocities either.
                if steps > 0 {
                    step *= SHRINKAGE;
                }
                (mixing, downhill) = (FIRST_MIXING, 0);
            }
            self.apply(&[Motion::Kick(0.5 * step)])?;
            self.limit_velocities(LONGEST_WAY * self.settings().potential.length_unit() / step);
            let moved = self.apply(&[Motion::Drift(step)]);
            moved.map_err(|error| Exploded { step: u64::from(steps), ..error })?;
            self.update_forces();
            self.apply(&[Motion::Kick(0.5 * step)])?;
            steps += 1;
        }
    }
}

/// Sums over the forces of all particles.
#[derive(Clone, Copy, Debug)]
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
