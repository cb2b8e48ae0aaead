//! Hermite's fourth-order predictor-corrector (Makino & Aarseth 1992, PASJ 44, 141), with one step
//! for all bodies.
//!
//! The predictor is the Taylor series up to the jerk. The corrector evaluates a₁ and j₁ there and
//! uses the cubic that matches a and j at both ends:
//!
//!   v ← v + dt/2 (a + a₁) + dt²/12 (j − j₁),   x ← x + dt/2 (v + v₁) + dt²/12 (a − a₁)
//!
//! Evaluation and correction are done twice, which brings the method close to its time-symmetric
//! limit. Forces are a direct sum in f64 for any setting of the precision, because a method chosen
//! for its small error would lose it in f32. The step leaves the accelerations of its last
//! evaluation, which differ from those at the corrected positions by one correction.

use crate::bodies::BodyField::{Acceleration, Jerk, Position, Velocity};
use crate::bodies::Term::{Now, Start};
use crate::bodies::{Bodies, BodiesError};

/// Advances `bodies` by one step of length `dt`.
pub fn hermite4_step(bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
    let half_dt = 0.5 * dt;
    let (dt2_2, dt2_12, dt3_6) = (0.5 * dt * dt, dt * dt / 12.0, dt * dt * dt / 6.0);
    bodies.mark_start()?;
    bodies.set_from_start(Velocity, &[(dt, Start(Acceleration)), (dt2_2, Start(Jerk))])?;
    bodies.set_from_start(
        Position,
        &[(dt, Start(Velocity)), (dt2_2, Start(Acceleration)), (dt3_6, Start(Jerk))],
    )?;
    for _ in 0..2 {
        bodies.update_forces_and_jerks()?;
        bodies.set_from_start(
            Velocity,
            &[
                (half_dt, Start(Acceleration)),
                (half_dt, Now(Acceleration)),
                (dt2_12, Start(Jerk)),
                (-dt2_12, Now(Jerk)),
            ],
        )?;
        bodies.set_from_start(
            Position,
            &[
                (half_dt, Start(Velocity)),
                (half_dt, Now(Velocity)),
                (dt2_12, Start(Acceleration)),
                (-dt2_12, Now(Acceleration)),
            ],
        )?;
    }
    Ok(())
}
