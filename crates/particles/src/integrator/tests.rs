//! What each method promises: its order, its behaviour over many orbits, and known orbits.

use orrery_model::Particles;
use orrery_model::ic::{FigureEight, Kepler};

use super::*;
use crate::settings::{Acceptance, GravitySettings, Precision, SolverChoice};

fn bodies(particles: Particles) -> Bodies {
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

fn kepler(eccentricity: f64) -> Kepler {
    Kepler {
        primary_mass: 0.75,
        secondary_mass: 0.25,
        semi_major_axis: 1.0,
        eccentricity,
        ..Kepler::default()
    }
}

/// Distance of the first body from where it started, after one period in `steps` steps.
fn closure_error(choice: IntegratorChoice, eccentricity: f64, steps: u32) -> f64 {
    let orbit = kepler(eccentricity);
    let mut bodies = bodies(orbit.generate(1.0).unwrap());
    let start = bodies.particles().unwrap().position.get(0);
    let dt = orbit.period(1.0) / f64::from(steps);
    (0..steps).for_each(|_| choice.step(&mut bodies, dt).unwrap());
    let end = bodies.particles().unwrap().position.get(0);
    (0..3).map(|c| (end[c] - start[c]).powi(2)).sum::<f64>().sqrt()
}

/// Halving dt must divide the error by 2^order. The leeway covers the next order at these steps.
#[test]
fn errors_fall_with_the_stated_order() {
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

/// Over 100 orbits a symplectic method's energy error oscillates: its mean over the last ten orbits is no
/// larger than over the first ten, to 20%.
#[test]
fn symplectic_energy_does_not_drift() {
    for choice in [IntegratorChoice::Leapfrog, IntegratorChoice::Yoshida4] {
        let orbit = kepler(0.5);
        let mut bodies = bodies(orbit.generate(1.0).unwrap());
        let energy = |b: &Bodies| b.kinetic_energy().unwrap() + b.potential_energy().unwrap();
        let (start, steps) = (energy(&bodies), 300);
        let mut ten_orbits = || {
            let mut mean = 0.0;
            for _ in 0..10 * steps {
                choice.step(&mut bodies, orbit.period(1.0) / f64::from(steps)).unwrap();
                mean += ((energy(&bodies) - start) / start).abs() / f64::from(10 * steps);
            }
            mean
        };
        let first = ten_orbits();
        let last = (0..9).map(|_| ten_orbits()).last().unwrap();
        assert!(last < 1.2 * first && first < 1e-2, "{choice:?}: {first} then {last}");
    }
}

#[test]
fn the_figure_eight_closes() {
    for (choice, tolerance) in [(IntegratorChoice::Yoshida6, 1e-7), (IntegratorChoice::Hermite4, 1e-6)] {
        let mut bodies = bodies(FigureEight.generate(1.0).unwrap());
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

/// A jerk from before other steps would be wrong by 6e-4 of the energy in this one.
#[test]
fn methods_can_take_turns() {
    let mut bodies = bodies(kepler(0.5).generate(1.0).unwrap());
    let energy = |b: &Bodies| b.kinetic_energy().unwrap() + b.potential_energy().unwrap();
    hermite4_step(&mut bodies, 0.02).unwrap();
    (0..20).for_each(|_| leapfrog_step(&mut bodies, 0.02).unwrap());
    let before = energy(&bodies);
    hermite4_step(&mut bodies, 0.02).unwrap();
    assert!(((energy(&bodies) - before) / before).abs() < 1e-8);
}

/// Leapfrog is reversible: back along the way it came, to rounding.
#[test]
fn leapfrog_runs_backwards() {
    let mut bodies = bodies(kepler(0.7).generate(1.0).unwrap());
    let start = bodies.particles().unwrap().clone();
    (0..1000).for_each(|_| leapfrog_step(&mut bodies, 1e-3).unwrap());
    (0..1000).for_each(|_| leapfrog_step(&mut bodies, -1e-3).unwrap());
    for i in 0..2 {
        for c in 0..3 {
            assert!(
                (bodies.particles().unwrap().position.get(i)[c] - start.position.get(i)[c]).abs() < 1e-11
            );
        }
    }
}

/// At pericentre of e = 0.9 the criterion asks for steps as much shorter as the orbit is faster there.
#[test]
fn adaptive_steps_follow_the_orbit() {
    let at = |mean_anomaly| {
        let orbit = Kepler { mean_anomaly, ..kepler(0.9) };
        adaptive::step_length(&bodies(orbit.generate(1.0).unwrap()), 0.01).unwrap()
    };
    // r³ᐟ² at apocentre over that at pericentre, for as long as falling is quicker than passing.
    let ratio = at(std::f64::consts::PI) / at(0.0);
    assert!(ratio > 0.5 * 19f64.powf(1.5) && ratio < 2.0 * 19f64.powf(1.5), "{ratio}");
}
