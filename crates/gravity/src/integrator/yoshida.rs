//! Yoshida's compositions of leapfrog steps (Yoshida 1990, Phys. Lett. A 150, 262).
//!
//!   step(dt) = leapfrog(w_1 dt) … leapfrog(w_k dt),   Σ w_i = 1,   w_i = w_{k+1−i}
//!
//! Some weights are negative, and the weights are chosen to cancel the leading errors. Symplectic
//! and time-reversible like leapfrog. Order 4 needs 3 force evaluations per step, order 6 needs 7.
//! The weights of order 6 are Yoshida's solution A.

use super::leapfrog_step;
use crate::bodies::{Bodies, BodiesError};

/// First three weights of order 6. The weights are symmetric about the fourth and add up to 1.
const SIXTH_ORDER_WEIGHTS: [f64; 3] = [0.784_513_610_477_560, 0.235_573_213_359_357, -1.177_679_984_178_87];

/// Advances `bodies` by one step of order 4.
pub fn yoshida4_step(bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
    let outer = 1.0 / (2.0 - 2f64.cbrt());
    for weight in [outer, 1.0 - 2.0 * outer, outer] {
        leapfrog_step(bodies, weight * dt)?;
    }
    Ok(())
}

/// Advances `bodies` by one step of order 6.
pub fn yoshida6_step(bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
    let [w1, w2, w3] = SIXTH_ORDER_WEIGHTS;
    for weight in [w1, w2, w3, 1.0 - 2.0 * (w1 + w2 + w3), w3, w2, w1] {
        leapfrog_step(bodies, weight * dt)?;
    }
    Ok(())
}
