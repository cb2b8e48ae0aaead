//! Kepler orbits of two bodies, and the figure-eight orbit of three.

use orrery_gravity::bodies::Bodies;
use orrery_gravity::settings::IntegratorChoice::{self, Hermite4, Leapfrog, Yoshida4, Yoshida6};
use orrery_model::Precision;
use orrery_model::analysis::max_or_nan;
use orrery_model::ic::{FigureEight, Kepler};
use orrery_validation::{
    difference, direct_settings, largest_distance, measured_order, norm, run_on_threads, take_steps,
    total_energy,
};

const ORBITS: usize = 4;

/// Masses 3/4 and 1/4 that start at pericentre on the x axis. The apocentre of the secondary is at
/// x < 0, y = 0.
fn kepler(eccentricity: f64) -> Kepler {
    Kepler { primary_mass: 0.75, secondary_mass: 0.25, eccentricity, ..Kepler::default() }
}

/// Errors after [`ORBITS`] orbits.
struct OrbitErrors {
    /// Largest |E − E₀| / |E₀|.
    energy: f64,
    /// |T − T₀| / T₀, where T is the mean time from one apocentre to the next.
    period: f64,
}

fn orbit_errors(method: IntegratorChoice, eccentricity: f64, steps_per_orbit: usize) -> OrbitErrors {
    let orbit = kepler(eccentricity);
    let mut bodies =
        Bodies::new(orbit.generate(1.0).unwrap(), &direct_settings(0.0, Precision::Double), None).unwrap();
    let (start, period) = (total_energy(&bodies), orbit.period(1.0));
    let dt = period / steps_per_orbit as f64;
    let (mut largest, mut passages) = (0.0f64, Vec::new());
    for step in 0..ORBITS * steps_per_orbit {
        let before = bodies.try_clone().unwrap();
        method.step(&mut bodies, dt).unwrap();
        largest = max_or_nan(largest, ((total_energy(&bodies) - start) / start).abs());
        if before.particles().unwrap().position.y[1] > 0.0 && bodies.particles().unwrap().position.y[1] <= 0.0
        {
            passages.push(step as f64 * dt + time_to_axis(before, method));
        }
    }
    assert_eq!(passages.len(), ORBITS, "one apocentre per orbit");
    let measured = (passages[ORBITS - 1] - passages[0]) / (ORBITS - 1) as f64;
    OrbitErrors { energy: largest, period: (measured / period - 1.0).abs() }
}

/// Returns the time until the secondary crosses y = 0, by Newton's method. It uses steps of the
/// integrator, so the crossing is as accurate as the orbit.
fn time_to_axis(mut bodies: Bodies, method: IntegratorChoice) -> f64 {
    let mut time = 0.0;
    for _ in 0..5 {
        let dt = -bodies.particles().unwrap().position.y[1] / bodies.particles().unwrap().velocity.y[1];
        method.step(&mut bodies, dt).unwrap();
        time += dt;
    }
    time
}

/// Halving dt divides the errors of energy and period of an orbit with e = 0.9 by 2^order. The
/// energy error is largest at pericentre. The steps are so short that the next order contributes
/// less than a factor of 2^0.25.
#[test]
fn errors_of_an_eccentric_orbit_have_the_stated_order() {
    for (method, steps, energy_bound, period_bound) in [
        (Leapfrog, 10_000, 2e-3, 4e-3),
        (Yoshida4, 8_000, 2e-6, 5e-6),
        (Hermite4, 4_000, 1e-5, 2e-5),
        (Yoshida6, 3_000, 1e-7, 2e-7),
    ] {
        let (coarse, fine) =
            run_on_threads(1, || (orbit_errors(method, 0.9, steps), orbit_errors(method, 0.9, 2 * steps)));
        let orders = (measured_order(coarse.energy, fine.energy), measured_order(coarse.period, fine.period));
        println!(
            "{method:?}, e = 0.9, {steps} steps per orbit: energy {:.2e} (order {:.2}), period {:.2e} (order {:.2})",
            coarse.energy, orders.0, coarse.period, orders.1
        );
        let stated = f64::from(method.order());
        assert!((orders.0 - stated).abs() < 0.25, "{method:?}: energy order {}", orders.0);
        assert!((orders.1 - stated).abs() < 0.25, "{method:?}: period order {}", orders.1);
        assert!(coarse.energy < energy_bound, "{method:?}: energy error {}", coarse.energy);
        assert!(coarse.period < period_bound, "{method:?}: period error {}", coarse.period);
    }
}

/// The relative error of the period of a circular orbit is less than (ω dt)^order, and 2^order
/// times smaller at half the step. The energy error is of higher order, because it is quadratic in
/// the distance between the circle and the numerical orbit.
#[test]
fn circular_orbit_keeps_its_period_and_energy() {
    for (method, steps) in [(Leapfrog, 400), (Yoshida4, 200), (Hermite4, 200), (Yoshida6, 40)] {
        let (coarse, fine) =
            run_on_threads(1, || (orbit_errors(method, 0.0, steps), orbit_errors(method, 0.0, 2 * steps)));
        let order = measured_order(coarse.period, fine.period);
        println!(
            "{method:?}, e = 0, {steps} steps per orbit: energy {:.2e}, period {:.2e} (order {order:.2})",
            coarse.energy, coarse.period
        );
        let phase = std::f64::consts::TAU / steps as f64;
        assert!((order - f64::from(method.order())).abs() < 0.25, "{method:?}: period order {order}");
        assert!(coarse.period < phase.powi(method.order()), "{method:?}: period error {}", coarse.period);
        assert!(coarse.energy < phase.powi(method.order()), "{method:?}: energy error {}", coarse.energy);
    }
}

/// Chenciner & Montgomery's orbit is closed. The period is known to half a unit of its eighth
/// decimal, and no body moves faster than 1.3. This gives 6.5e-9, doubled for the error of the
/// method.
#[test]
fn figure_eight_returns_to_its_start() {
    let start = FigureEight.generate(1.0).unwrap();
    let (end, third) = run_on_threads(1, || {
        let mut bodies = Bodies::new(start.clone(), &direct_settings(0.0, Precision::Double), None).unwrap();
        let dt = FigureEight::PERIOD / 3000.0;
        take_steps(&mut bodies, Yoshida6, dt, 1000);
        let third = bodies.particles().unwrap().clone();
        take_steps(&mut bodies, Yoshida6, dt, 2000);
        (bodies.particles().unwrap().clone(), third)
    });
    println!("figure-eight: {:.2e} from its start after T", largest_distance(&start, &end));
    assert!(largest_distance(&start, &end) < 1.3e-8);

    // All three bodies follow one curve, a third of the period apart. At T/3 each is at the start
    // of another.
    let successor =
        |i: usize| (0..3).find(|&j| norm(difference(third.position.get(i), start.position.get(j))) < 1.3e-8);
    let mut successors: Vec<_> = (0..3).map(|i| successor(i).expect("the start of a body")).collect();
    assert!(successors.iter().enumerate().all(|(i, &j)| i != j), "{successors:?}");
    successors.sort_unstable();
    assert_eq!(successors, [0, 1, 2]);
}
