//! Hermite's fourth-order predictor-corrector (Makino & Aarseth 1992, PASJ 44, 141), with one shared step.
//!
//! Predict with the Taylor series to the jerk, evaluate a₁ and j₁ there, and correct with the cubic that
//! matches a and j at both ends:
//!
//!   v ← v + dt/2 (a + a₁) + dt²/12 (j − j₁),   x ← x + dt/2 (v + v₁) + dt²/12 (a − a₁)
//!
//! Evaluation and correction are done twice, which brings the scheme near its time-symmetric limit.
//! Forces are all pairs in f64, whatever the precision: a scheme chosen for its digits would lose them.

use orrery_model::Vec3s;

use crate::bodies::Bodies;

/// One step.
pub fn hermite4(bodies: &mut Bodies, dt: f64) {
    let j = bodies.jerk().clone();
    let a = bodies.acceleration().clone();
    let (x, v) = (bodies.particles().position.clone(), bodies.particles().velocity.clone());
    let (h2, h6, h12) = (0.5 * dt * dt, dt * dt * dt / 6.0, dt * dt / 12.0);

    let velocity = combine(&v, &[(dt, &a), (h2, &j)]);
    let position = combine(&x, &[(dt, &v), (h2, &a), (h6, &j)]);
    bodies.set_phase_space(position, velocity);
    for _ in 0..2 {
        bodies.update_forces_and_jerks();
        let j1 = bodies.jerk().clone();
        let a1 = bodies.acceleration();
        let velocity = combine(&v, &[(0.5 * dt, &a), (0.5 * dt, a1), (h12, &j), (-h12, &j1)]);
        let position = combine(&x, &[(0.5 * dt, &v), (0.5 * dt, &velocity), (h12, &a), (-h12, a1)]);
        bodies.set_phase_space(position, velocity);
    }
}

/// `base` + Σ weight × column.
fn combine(base: &Vec3s, terms: &[(f64, &Vec3s)]) -> Vec3s {
    let component = |base: &[f64], pick: fn(&Vec3s) -> &[f64]| {
        let mut sum = base.to_vec();
        for (weight, column) in terms {
            sum.iter_mut().zip(pick(column)).for_each(|(s, x)| *s += weight * x);
        }
        sum
    };
    Vec3s {
        x: component(&base.x, |v| &v.x),
        y: component(&base.y, |v| &v.y),
        z: component(&base.z, |v| &v.z),
    }
}
