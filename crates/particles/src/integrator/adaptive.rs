//! One step for all, chosen from the state before it is taken.
//!
//! - with softening: dt = eta min_i sqrt(eps / |a_i|), the time to fall through the softening length
//!   (Power et al. 2003, MNRAS 338, 14);
//! - without: dt = eta min over pairs of the smaller of sqrt(r³ / G (m_i + m_j)) and r / v, the time in which a
//!   pair falls together or passes by. All pairs are looked at, so this is for direct forces.
//!
//! Steps that follow the state are not symplectic: over long spans the energy drifts slowly.

use rayon::prelude::*;

use crate::bodies::Bodies;

/// The step that the criterion allows; infinite where nothing moves or pulls.
pub fn step(bodies: &Bodies, eta: f64) -> f64 {
    let eps = bodies.softening();
    if eps > 0.0 {
        let largest2 =
            bodies.acceleration().iter().map(|a| a.iter().map(|c| c * c).sum()).fold(0.0, f64::max);
        eta * (eps / largest2.sqrt()).sqrt()
    } else {
        eta * shortest_pair_time(bodies)
    }
}

fn shortest_pair_time(bodies: &Bodies) -> f64 {
    let (particles, g) = (bodies.particles(), bodies.gravitational_constant());
    let square2 = (0..particles.len())
        .into_par_iter()
        .map(|i| {
            let (xi, vi, mi) = (particles.position.get(i), particles.velocity.get(i), particles.mass[i]);
            let mut shortest2 = f64::INFINITY;
            for j in 0..i {
                let (xj, vj) = (particles.position.get(j), particles.velocity.get(j));
                let r2: f64 = (0..3).map(|c| (xj[c] - xi[c]).powi(2)).sum();
                let v2: f64 = (0..3).map(|c| (vj[c] - vi[c]).powi(2)).sum();
                let fall2 = r2 * r2.sqrt() / (g * (mi + particles.mass[j]));
                shortest2 = shortest2.min(fall2).min(r2 / v2);
            }
            shortest2
        })
        .reduce(|| f64::INFINITY, f64::min);
    square2.sqrt()
}
