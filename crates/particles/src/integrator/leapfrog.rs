//! Leapfrog, kick-drift-kick.
//!
//!   v ← v + (dt/2) a(x),   x ← x + dt v,   v ← v + (dt/2) a(x)
//!
//! Second order, symplectic and time-reversible for a fixed `dt`: the energy error oscillates and does not
//! drift. One force evaluation a step, since the closing kick's accelerations open the next step
//! (Quinn et al. 1997, arXiv:astro-ph/9710043).

use crate::bodies::{Bodies, BodiesError};

/// One step.
pub fn leapfrog_step(bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
    bodies.kick_and_drift(0.5 * dt, dt)?;
    bodies.update_forces()?;
    bodies.kick(0.5 * dt)
}
