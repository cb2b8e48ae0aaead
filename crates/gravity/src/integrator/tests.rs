//! Tests of all methods: order, energy over many orbits, and known orbits.

use orrery_model::ic::{FigureEight, Kepler};
use orrery_model::{Particles, Precision};

use super::*;
use crate::settings::{Acceptance, GravitySettings, SolverChoice};

/// Bodies with direct forces in f64, without softening, G = 1.
pub(super) fn new_bodies(particles: Particles) -> Bodies {
    let acceptance = Acceptance::Geometric { theta: 0.6 };
    Bodies::new(
        particles,
        &GravitySettings {
            g: 1.0,
            eps: 0.0,
            solver: SolverChoice::Direct,
            acceptance,
            precision: Precision::Double,
        },
        None,
    )
    .unwrap()
}

pub(super) fn kepler(eccentricity: f64) -> Kepler {
    Kepler {
        primary_mass: 0.75,
        secondary_mass: 0.25,
        semi_major_axis: 1.0,
        eccentricity,
        ..Kepler::default()
    }
}

pub(super) fn total_energy(bodies: &Bodies) -> f64 {
    bodies.kinetic_energy().unwrap() + bodies.potential_energy().unwrap()
}

/// Runs `work` in a pool of one thread. Steps of two bodies would spend most of their time waking
/// other threads.
fn on_one_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work)
}

/// Distance of the first body from its start, after one period in `steps` steps.
fn closure_error(choice: IntegratorChoice, eccentricity: f64, steps: u32) -> f64 {
    let orbit = kepler(eccentricity);
    let mut bodies = new_bodies(orbit.generate(1.0).unwrap());
    let start = bodies.particles().unwrap().position.get(0);
    let dt = orbit.period(1.0) / f64::from(steps);
    on_one_thread(|| (0..steps).for_each(|_| choice.step(&mut bodies, dt).unwrap()));
    let end = bodies.particles().unwrap().position.get(0);
    (0..3).map(|c| (end[c] - start[c]).powi(2)).sum::<f64>().sqrt()
}

/// Halving dt must divide the error by 2^order. The tolerance of 0.15 covers the next-order term at
/// these steps.
#[test]
fn errors_have_the_stated_order() {
    for (choice, eccentricity, steps) in [
        (IntegratorChoice::Leapfrog, 0.0, 400),
        (IntegratorChoice::Leapfrog, 0.9, 40_000),
        (IntegratorChoice::Yoshida4, 0.0, 400),
        (IntegratorChoice::Yoshida4, 0.9, 12_000),
        (IntegratorChoice::BlanesMoan4, 0.0, 150),
        (IntegratorChoice::BlanesMoan4, 0.9, 14_000),
        (IntegratorChoice::Hermite4, 0.0, 200),
        (IntegratorChoice::Hermite4, 0.9, 6_000),
        (IntegratorChoice::Yoshida6, 0.0, 60),
        (IntegratorChoice::Yoshida6, 0.9, 4_000),
    ] {
        let ratio =
            closure_error(choice, eccentricity, steps) / closure_error(choice, eccentricity, 2 * steps);
        let order = ratio.log2();
        assert!(
            (order - f64::from(choice.order())).abs() < 0.15,
            "{choice:?}, e = {eccentricity}: order {order}"
        );
    }
}

/// The energy error of a symplectic method oscillates. Over 100 orbits, its mean over the last ten
/// orbits exceeds that over the first ten by less than 20%.
#[test]
fn energy_of_symplectic_methods_does_not_drift() {
    for choice in [IntegratorChoice::Leapfrog, IntegratorChoice::Yoshida4] {
        let orbit = kepler(0.5);
        let mut bodies = new_bodies(orbit.generate(1.0).unwrap());
        let (start, steps) = (total_energy(&bodies), 300);
        let mut mean_error_of_ten_orbits = || {
            let mut mean = 0.0;
            for _ in 0..10 * steps {
                choice.step(&mut bodies, orbit.period(1.0) / f64::from(steps)).unwrap();
                mean += ((total_energy(&bodies) - start) / start).abs() / f64::from(10 * steps);
            }
            mean
        };
        let (first, last) = on_one_thread(|| {
            let first = mean_error_of_ten_orbits();
            (first, (0..9).map(|_| mean_error_of_ten_orbits()).last().unwrap())
        });
        assert!(last < 1.2 * first && first < 1e-2, "{choice:?}: {first} then {last}");
    }
}

#[test]
fn figure_eight_returns_to_its_start() {
    for (choice, tolerance) in [(IntegratorChoice::Yoshida6, 1e-7), (IntegratorChoice::Hermite4, 1e-6)] {
        let mut bodies = new_bodies(FigureEight.generate(1.0).unwrap());
        let start = bodies.particles().unwrap().clone();
        let steps = 4000;
        (0..steps).for_each(|_| choice.step(&mut bodies, FigureEight::PERIOD / f64::from(steps)).unwrap());
        for i in 0..3 {
            for c in 0..3 {
                let moved = bodies.particles().unwrap().position.get(i)[c] - start.position.get(i)[c];
                assert!(moved.abs() < tolerance, "{choice:?}, body {i}: {moved}");
            }
        }
    }
}

/// Leapfrog steps must discard the jerk of an earlier Hermite step. An outdated jerk would cause an
/// energy error of 6e-4 in the last step.
#[test]
fn hermite_after_leapfrog_computes_new_jerks() {
    let mut bodies = new_bodies(kepler(0.5).generate(1.0).unwrap());
    hermite4_step(&mut bodies, 0.02).unwrap();
    (0..20).for_each(|_| leapfrog_step(&mut bodies, 0.02).unwrap());
    let before = total_energy(&bodies);
    hermite4_step(&mut bodies, 0.02).unwrap();
    assert!(((total_energy(&bodies) - before) / before).abs() < 1e-8);
}

/// At pericentre of an orbit with e = 0.9 the step is shorter by the ratio of the time scales.
#[test]
fn adaptive_steps_are_shorter_at_pericentre() {
    let step_at = |mean_anomaly| {
        let orbit = Kepler { mean_anomaly, ..kepler(0.9) };
        adaptive::step_length(&new_bodies(orbit.generate(1.0).unwrap()), 0.01).unwrap()
    };
    // r³ᐟ² at apocentre over that at pericentre, if the collision time is the shorter one.
    let ratio = step_at(std::f64::consts::PI) / step_at(0.0);
    assert!(ratio > 0.5 * 19f64.powf(1.5) && ratio < 2.0 * 19f64.powf(1.5), "{ratio}");
}
