//! Hermite's fourth-order predictor-corrector (Makino & Aarseth 1992, PASJ 44, 141), with one shared step.
//!
//! Predict with the Taylor series to the jerk, evaluate a₁ and j₁ there, and correct with the cubic that
//! matches a and j at both ends:
//!
//!   v ← v + dt/2 (a + a₁) + dt²/12 (j − j₁),   x ← x + dt/2 (v + v₁) + dt²/12 (a − a₁)
//!
//! Evaluation and correction are done twice, which brings the scheme near its time-symmetric limit.
//! Forces are all pairs in f64, whatever the precision: a scheme chosen for its digits would lose them.

use crate::bodies::Field::{Acceleration, Jerk, Position, Velocity};
use crate::bodies::Term::{Now, Start};
use crate::bodies::{Bodies, BodiesError};

/// One step.
pub fn hermite4_step(bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
    let (h, h2, h6, h12) = (0.5 * dt, 0.5 * dt * dt, dt * dt * dt / 6.0, dt * dt / 12.0);
    bodies.mark_start()?;
    bodies.set_from_start(Velocity, &[(dt, Start(Acceleration)), (h2, Start(Jerk))])?;
    bodies
        .set_from_start(Position, &[(dt, Start(Velocity)), (h2, Start(Acceleration)), (h6, Start(Jerk))])?;
    for _ in 0..2 {
        bodies.update_forces_and_jerks()?;
        let ends = [(h, Start(Acceleration)), (h, Now(Acceleration)), (h12, Start(Jerk)), (-h12, Now(Jerk))];
        bodies.set_from_start(Velocity, &ends)?;
        let ends =
            [(h, Start(Velocity)), (h, Now(Velocity)), (h12, Start(Acceleration)), (-h12, Now(Acceleration))];
        bodies.set_from_start(Position, &ends)?;
    }
    Ok(())
}
