//! One step for all, chosen from the state before it is taken.
//!
//! - with softening: dt = eta min_i sqrt(eps / |a_i|), the time to fall through the softening length
//!   (Power et al. 2003, MNRAS 338, 14);
//! - without: dt = eta min over pairs of the smaller of sqrt(r³ / G (m_i + m_j)) and r / v, the time in which a
//!   pair falls together or passes by. All pairs are looked at, so this is for direct forces.
//!
//! Steps that follow the state are not symplectic: over long spans the energy drifts slowly.

use crate::bodies::{Bodies, BodiesError};

/// The step that the criterion allows; infinite where nothing moves or pulls.
pub fn step_length(bodies: &Bodies, eta: f64) -> Result<f64, BodiesError> {
    let eps = bodies.softening();
    Ok(if eps > 0.0 {
        eta * (eps / bodies.largest_acceleration2()?.sqrt()).sqrt()
    } else {
        eta * bodies.shortest_pair_time2()?.sqrt()
    })
}
