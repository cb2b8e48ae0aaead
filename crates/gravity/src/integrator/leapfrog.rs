//! Leapfrog, kick-drift-kick.
//!
//!   v ← v + (dt/2) a(x),   x ← x + dt v,   v ← v + (dt/2) a(x)
//!
//! Second order, symplectic and time-reversible for a fixed `dt`: the energy error oscillates and
//! does not drift. One force evaluation per step, because the next step starts with the
//! accelerations of the closing kick (Quinn et al. 1997, arXiv:astro-ph/9710043).
//!
//! Choose it for many bodies, where the force error of the tree or softening dominates. For few
//! bodies and small errors a fourth-order method needs less work: see `blanes_moan.rs`.

use crate::bodies::{Bodies, BodiesError};

/// Advances `bodies` by one step of length `dt`.
///
/// Requires up-to-date accelerations and leaves them up to date.
pub fn leapfrog_step(bodies: &mut Bodies, dt: f64) -> Result<(), BodiesError> {
    bodies.kick_and_drift(0.5 * dt, dt)?;
    bodies.update_forces()?;
    bodies.kick(0.5 * dt)
}

#[cfg(test)]
mod tests {
    use orrery_model::analysis::max_or_nan;

    use super::super::IntegratorChoice;
    use super::super::tests::{kepler, new_bodies, total_energy};
    use super::*;

    /// Largest |E − E₀| / |E₀| over ten orbits of eccentricity 0.5.
    fn largest_energy_error(steps_per_orbit: u32) -> f64 {
        let orbit = kepler(0.5);
        let mut bodies = new_bodies(orbit.generate(1.0).unwrap());
        let (start, dt) = (total_energy(&bodies), orbit.period(1.0) / f64::from(steps_per_orbit));
        let mut largest = 0.0f64;
        for _ in 0..10 * steps_per_orbit {
            leapfrog_step(&mut bodies, dt).unwrap();
            largest = max_or_nan(largest, ((total_energy(&bodies) - start) / start).abs());
        }
        largest
    }

    /// Halving dt must quarter the energy error. The tolerance of 0.1 covers the next-order term.
    #[test]
    fn energy_error_is_second_order() {
        let order = (largest_energy_error(300) / largest_energy_error(600)).log2();
        let expected = f64::from(IntegratorChoice::Leapfrog.order());
        assert!((order - expected).abs() < 0.1, "measured order {order}");
    }

    /// A step back undoes a step forward, except for rounding.
    #[test]
    fn steps_are_time_reversible() {
        let mut bodies = new_bodies(kepler(0.7).generate(1.0).unwrap());
        let start = bodies.particles().unwrap().clone();
        (0..1000).for_each(|_| leapfrog_step(&mut bodies, 1e-3).unwrap());
        (0..1000).for_each(|_| leapfrog_step(&mut bodies, -1e-3).unwrap());
        for i in 0..2 {
            for c in 0..3 {
                let end = bodies.particles().unwrap().position.get(i)[c];
                assert!((end - start.position.get(i)[c]).abs() < 1e-11, "body {i}, component {c}");
            }
        }
    }
}
