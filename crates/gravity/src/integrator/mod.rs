//! Integrators: sequences of kicks and drifts of [`Bodies`], one file per method.
//!
//! A step requires accelerations at the current positions and leaves them up to date. Hermite's
//! method is the exception: it leaves those of its last evaluation, one correction before the final
//! positions. Every method is deterministic: the same bodies, accelerations included, and the same
//! steps give the same bits.

pub mod adaptive;
mod blanes_moan;
mod hermite;
mod leapfrog;
mod yoshida;

pub use blanes_moan::blanes_moan4_step;
pub use hermite::hermite4_step;
pub use leapfrog::leapfrog_step;
pub use yoshida::{yoshida4_step, yoshida6_step};

use crate::bodies::{Bodies, BodiesError};
use crate::settings::IntegratorChoice;

impl IntegratorChoice {
    /// Advances `bodies` by one step of length `dt`.
    pub fn step(self, bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
        match self {
            Self::Leapfrog => leapfrog_step(bodies, dt),
            Self::Yoshida4 => yoshida4_step(bodies, dt),
            Self::Yoshida6 => yoshida6_step(bodies, dt),
            Self::BlanesMoan4 => blanes_moan4_step(bodies, dt),
            Self::Hermite4 => hermite4_step(bodies, dt),
        }
    }

    /// Advances `bodies` like [`step`](Self::step), with the same bits. The last force evaluation
    /// also computes the potentials for [`Bodies::potential_energy`], where the solver allows it.
    ///
    /// Hermite's method ignores this: its final positions differ from those of its last evaluation.
    pub fn step_with_potential(self, bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
        if self != Self::Hermite4 {
            bodies.request_potential(self.force_evaluations())?;
        }
        self.step(bodies, dt)
    }

    /// Returns the number of force evaluations per step.
    pub fn force_evaluations(self) -> u32 {
        match self {
            Self::Leapfrog => 1,
            Self::Hermite4 => 2,
            Self::Yoshida4 => 3,
            Self::BlanesMoan4 => 6,
            Self::Yoshida6 => 7,
        }
    }

    /// Returns the order p of the method: the error after a fixed time is proportional to dt^p.
    pub fn order(self) -> i32 {
        match self {
            Self::Leapfrog => 2,
            Self::Yoshida4 | Self::BlanesMoan4 | Self::Hermite4 => 4,
            Self::Yoshida6 => 6,
        }
    }
}

#[cfg(test)]
mod tests;
