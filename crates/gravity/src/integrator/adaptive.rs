//! Adaptive step: one length for all bodies, computed from the state before each step.
//!
//! - with softening: dt = eta min_i sqrt(eps / |a_i|), the time to fall through the softening
//!   length (Power et al. 2003, MNRAS 338, 14)
//! - without softening: dt = eta times the minimum over all pairs of sqrt(r³ / G (m_i + m_j)) and
//!   r / v, the times in which a pair collides or passes. The cost is that of a direct sum.
//!
//! Steps that depend on the state are not symplectic: the energy drifts slowly over long times.

use crate::bodies::{Bodies, BodiesError};

/// Returns the step that the criterion allows. It is infinite if there is no force and no motion.
pub fn step_length(bodies: &Bodies, eta: f64) -> Result<f64, BodiesError> {
    let eps = bodies.softening();
    Ok(if eps > 0.0 {
        eta * (eps / bodies.largest_acceleration2()?.sqrt()).sqrt()
    } else {
        eta * bodies.shortest_pair_time2()?.sqrt()
    })
}
