//! Yoshida's compositions: leapfrog steps of lengths w_k dt, some of them backwards, so that the leading
//! errors cancel. Symplectic; 3 force evaluations a step for order 4, 7 for order 6 (Yoshida 1990, Phys. Lett.
//! A 150, 262; the sixth-order weights are his solution A).

use super::leapfrog_step;
use crate::bodies::{Bodies, BodiesError};

/// The outer weights of order 6; the middle one makes the sum 1.
const SIXTH: [f64; 3] = [0.784_513_610_477_560, 0.235_573_213_359_357, -1.177_679_984_178_87];

/// One step of order 4.
pub fn yoshida4_step(bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
    let outer = 1.0 / (2.0 - 2f64.cbrt());
    for weight in [outer, 1.0 - 2.0 * outer, outer] {
        leapfrog_step(bodies, weight * dt)?;
    }
    Ok(())
}

/// One step of order 6.
pub fn yoshida6_step(bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
    let [a, b, c] = SIXTH;
    for weight in [a, b, c, 1.0 - 2.0 * (a + b + c), c, b, a] {
        leapfrog_step(bodies, weight * dt)?;
    }
    Ok(())
}
