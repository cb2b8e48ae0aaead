//! Bodies at the end of what numbers can hold: forces are right, or the check names a body. Never a wrong number in
//! silence, and never a panic.

use orrery_model::rng::Draws;
use orrery_model::{Particle, Particles, Species, Vec3s};
use orrery_particles::bodies::{Bodies, BodiesError, NotFinite};
use orrery_particles::settings::{Acceptance, GravitySettings, IntegratorChoice, Precision, SolverChoice};
use orrery_particles::solver::{MIN_TREE_BODIES, Problem, reference};

const PRECISIONS: [Precision; 3] = [Precision::Single, Precision::Mixed, Precision::Double];
const INTEGRATORS: [IntegratorChoice; 5] = [
    IntegratorChoice::Leapfrog,
    IntegratorChoice::Yoshida4,
    IntegratorChoice::Yoshida6,
    IntegratorChoice::BlanesMoan4,
    IntegratorChoice::Hermite4,
];
/// A few, enough for blocks along the curve, and so many that the tree is taken by itself.
const SIZES: [usize; 3] = [9, 700, MIN_TREE_BODIES + 100];

/// Every solver, acceptance and arithmetic.
fn every_way(eps: f64) -> impl Iterator<Item = GravitySettings> {
    let geometric = Acceptance::Geometric { theta: 0.6 };
    let relative = Acceptance::Relative { alpha: 0.005, theta: 0.6 };
    let solvers =
        [(SolverChoice::Direct, geometric), (SolverChoice::Tree, geometric), (SolverChoice::Tree, relative)];
    solvers.into_iter().flat_map(move |(solver, acceptance)| {
        PRECISIONS.map(|precision| GravitySettings { g: 1.0, eps, solver, acceptance, precision })
    })
}

/// Bodies at random in a cube of side 2, mass 1 in all.
fn cloud(n: usize) -> Particles {
    let mut bodies = Particles::with_capacity(n);
    for i in 0..n {
        let mut draws = Draws::new(5, 0, i as u64);
        bodies.push(Particle {
            position: [0; 3].map(|_| draws.uniform_in(-1.0, 1.0)),
            velocity: [0; 3].map(|_| draws.uniform_in(-0.1, 0.1)),
            mass: 1.0 / n as f64,
            id: 100 + i as u64,
            species: Species::Halo,
        });
    }
    bodies
}

fn scaled(column: &Vec3s, factor: f64) -> Vec3s {
    let by = |column: &[f64]| column.iter().map(|x| factor * x).collect();
    Vec3s { x: by(&column.x), y: by(&column.y), z: by(&column.z) }
}

/// The largest |a − a'| / |a| over the bodies `of`, a' from the plain sum in f64.
fn largest_error(bodies: &Bodies, of: impl IntoIterator<Item = usize>) -> f64 {
    largest_error_in_units_of(1.0, bodies, of)
}

/// The same, where the squares of the accelerations may be no numbers: all masses are taken in units of `unit`.
fn largest_error_in_units_of(unit: f64, bodies: &Bodies, of: impl IntoIterator<Item = usize>) -> f64 {
    let Particles { position, mass, .. } = bodies.particles().unwrap();
    let mass: &[f64] = &mass.iter().map(|m| m / unit).collect::<Vec<_>>();
    let (g, eps) = (bodies.gravitational_constant(), bodies.softening());
    let problem = Problem { position, mass, g, eps, with_potential: false };
    let norm = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
    let error = |i| {
        let (found, (right, _)) = (bodies.acceleration().unwrap().get(i), reference::force_on(&problem, i));
        norm([0, 1, 2].map(|c| found[c] / unit - right[c])) / norm(right)
    };
    of.into_iter().map(error).fold(0.0, f64::max)
}

fn on_host(particles: Particles, settings: &GravitySettings) -> Bodies {
    Bodies::new(particles, settings, None).unwrap()
}

fn check(bodies: &Bodies) -> Result<(), NotFinite> {
    bodies.check_finite().map_err(|error| match error {
        BodiesError::NotFinite { at: None, source } => source,
        other => panic!("{other:?}"),
    })
}

/// What the largest error of a cloud's forces may be.
fn tolerance(settings: &GravitySettings) -> f64 {
    match (settings.solver, settings.precision) {
        (SolverChoice::Tree, _) => 0.05,
        (_, Precision::Double) => 1e-12,
        _ => 1e-3,
    }
}

#[test]
fn the_first_body_is_named_with_its_field_and_value() {
    let settings = every_way(0.1).next().unwrap();
    for n in [3, 4096, 12_289] {
        let start = cloud(n);
        let mut bodies =
            on_host(start.clone(), &GravitySettings { g: 0.0, solver: SolverChoice::Tree, ..settings });
        let edge = Vec3s { x: vec![1e308; n], y: vec![f64::MAX; n], z: vec![5e-324; n] };
        bodies.set_phase_space(edge.clone(), edge).unwrap();
        assert_eq!(check(&bodies), Ok(()));
        for i in [0, n / 2, n - 1] {
            let (mut position, mut velocity) = (start.position.clone(), start.velocity.clone());
            velocity.x[0] = f64::NEG_INFINITY;
            velocity.z[i] = f64::INFINITY;
            bodies.set_phase_space(position.clone(), velocity.clone()).unwrap();
            let error = NotFinite { id: 100, field: "velocity x", value: f64::NEG_INFINITY };
            assert_eq!(check(&bodies), Err(error));
            // A position comes first, since it spoils the rest; of two, the lower number.
            position.y[i] = f64::INFINITY;
            position.x[n - 1] = f64::NEG_INFINITY;
            bodies.set_phase_space(position, velocity).unwrap();
            let (field, value) =
                if i == n - 1 { ("position x", f64::NEG_INFINITY) } else { ("position y", f64::INFINITY) };
            let error = NotFinite { id: 100 + i as u64, field, value };
            for threads in [1, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert_eq!(pool.install(|| check(&bodies)), Err(error.clone()));
            }
        }
    }
}

#[test]
fn none_and_one_feel_nothing() {
    for settings in every_way(0.0) {
        for n in [0, 1] {
            let mut bodies = on_host(cloud(n), &settings);
            for integrator in INTEGRATORS {
                integrator.step(&mut bodies, 0.5).unwrap();
                assert_eq!(check(&bodies), Ok(()));
            }
            assert_eq!(bodies.acceleration().unwrap(), &Vec3s::zeros(n));
            assert_eq!(bodies.potential_energy().unwrap(), 0.0);
            assert_eq!(bodies.particles().unwrap().velocity, cloud(n).velocity);
        }
    }
}

/// Two bodies of a cloud at one position.
fn with_a_meeting(n: usize) -> Particles {
    let mut start = cloud(n);
    start.position.set(n - 2, start.position.get(3));
    start
}

#[test]
fn a_meeting_without_softening_is_an_error() {
    for n in SIZES {
        for settings in every_way(0.0) {
            let mut bodies = on_host(with_a_meeting(n), &settings);
            let error = check(&bodies).unwrap_err();
            assert_eq!((error.id, error.field), (103, "acceleration x"), "{settings:?}, n = {n}");
            if n < 1000 {
                bodies.update_forces_and_jerks().unwrap();
                assert_eq!(check(&bodies).unwrap_err().id, 103);
            }
        }
    }
}

#[test]
fn bodies_at_one_place_do_not_pull_each_other_when_softened() {
    for n in SIZES {
        for settings in every_way(0.05) {
            let mut bodies = on_host(with_a_meeting(n), &settings);
            assert_eq!(check(&bodies), Ok(()));
            let error = largest_error(&bodies, [3, n - 2]);
            assert!(error < tolerance(&settings), "{settings:?}, n = {n}: {error}");
            if n < 1000 {
                bodies.update_forces_and_jerks().unwrap();
                assert!(largest_error(&bodies, [3, n - 2]) < 1e-12);
            }

            let mut start = cloud(n);
            (0..n).for_each(|i| start.position.set(i, [0.3, -7.0, 1e3]));
            let mut bodies = on_host(start, &settings);
            assert_eq!(bodies.acceleration().unwrap(), &Vec3s::zeros(n), "{settings:?}");
            if n < 1000 {
                bodies.update_forces_and_jerks().unwrap();
                assert_eq!(bodies.acceleration().unwrap(), &Vec3s::zeros(n));
            }
        }
    }
}

#[test]
fn a_body_of_no_mass_feels_but_does_not_pull() {
    for n in SIZES {
        let whole = cloud(n);
        let is_light = |i: usize| i % 3 == 1;
        let mut start = whole.clone();
        (0..n).filter(|&i| is_light(i)).for_each(|i| start.mass[i] = 0.0);
        let heavy = start.filtered(|body| body.mass > 0.0);
        for settings in every_way(0.05) {
            let mut bodies = on_host(start.clone(), &settings);
            assert_eq!(check(&bodies), Ok(()));
            let error = largest_error(&bodies, (0..n).step_by(n.div_ceil(500)));
            assert!(error < tolerance(&settings), "{settings:?}, n = {n}: {error}");
            if (settings.solver, settings.precision) != (SolverChoice::Direct, Precision::Double) {
                continue;
            }
            // Alone, the heavy ones feel the same.
            let alone = on_host(heavy.clone(), &settings);
            bodies.update_forces_and_jerks().unwrap();
            for (k, i) in (0..n).filter(|&i| !is_light(i)).enumerate() {
                let (with, without) =
                    (bodies.acceleration().unwrap().get(i), alone.acceleration().unwrap().get(k));
                assert!((0..3).all(|c| (with[c] - without[c]).abs() < 1e-13), "{with:?} {without:?}");
            }
            assert!((0..n).all(|i| bodies.acceleration().unwrap().get(i) != [0.0; 3]));
        }
    }
}

#[test]
fn bodies_of_no_mass_move_in_straight_lines() {
    for n in SIZES {
        let mut start = cloud(n);
        start.mass.fill(0.0);
        for settings in every_way(0.0) {
            for integrator in INTEGRATORS.into_iter().filter(|_| n < 1000) {
                let mut bodies = on_host(start.clone(), &settings);
                integrator.step(&mut bodies, 0.5).unwrap();
                assert_eq!(check(&bodies), Ok(()), "{settings:?}, {integrator:?}");
                assert_eq!(bodies.particles().unwrap().velocity, start.velocity);
                assert_eq!(bodies.potential_energy().unwrap(), 0.0);
            }
            assert_eq!(on_host(start.clone(), &settings).acceleration().unwrap(), &Vec3s::zeros(n));
        }
    }
}

/// Powers of two of length and mass change no digit of a force, up to 1e±270, as long as the force itself is a
/// number. The tree opens all cells where squares of lengths are none.
#[test]
fn units_of_any_size_give_the_same_forces() {
    const UNITS: &[(i32, i32)] =
        &[(900, 900), (-450, -900), (-900, -900), (450, 900), (900, 0), (-300, 300), (-560, -400)];
    for n in SIZES {
        let start = cloud(n);
        for settings in every_way(0.05) {
            let usual = on_host(start.clone(), &settings);
            for &(length, mass) in if n < 1000 { UNITS } else { &UNITS[..2] } {
                let power = |exponent: i32| 2f64.powi(exponent);
                let particles = Particles {
                    position: scaled(&start.position, power(length)),
                    mass: start.mass.iter().map(|m| m * power(mass)).collect(),
                    ..start.clone()
                };
                let settings = GravitySettings { eps: 0.05 * power(length), ..settings };
                let bodies = on_host(particles, &settings);
                assert_eq!(check(&bodies), Ok(()), "{settings:?}, 2^{length}, 2^{mass}");
                let factor =
                    if mass - 2 * length < -1080 { 0.0 } else { power(mass - length) / power(length) };
                let expected = scaled(usual.acceleration().unwrap(), factor);
                if settings.solver == SolverChoice::Direct {
                    assert!(
                        bodies.acceleration().unwrap() == &expected,
                        "{settings:?}, n = {n}, 2^{length}, 2^{mass}"
                    );
                }
                let norm = |v: [f64; 3]| v.map(|c| (c / factor).abs()).into_iter().fold(0.0, f64::max);
                for (a, b) in
                    bodies.acceleration().unwrap().iter().zip(expected.iter()).filter(|_| factor > 0.0)
                {
                    let error = norm([0, 1, 2].map(|c| a[c] - b[c])) / norm(b);
                    assert!(error < 0.1, "{settings:?}, n = {n}, 2^{length}, 2^{mass}: {error}");
                }
            }
        }
    }
}

/// One body goes far away. In f32 about the middle of all, the others then run together: that is what `Single`
/// promises, so there the forces need only be finite or refused.
#[test]
fn a_body_far_away_leaves_the_others_right_or_is_an_error() {
    const FAR: &[f64] = &[1e9, 1e300, 1e4, 1e15, 1e20, 1e40, 1e100, 1e160, 1.7e308];
    let mut refused = 0;
    for n in SIZES {
        for eps in [0.0, 0.05] {
            for settings in every_way(eps) {
                for &far in if n < 1000 { FAR } else { &FAR[..2] } {
                    let mut start = cloud(n);
                    start.position.set(5, [far, -far, 0.0]);
                    let bodies = on_host(start, &settings);
                    match check(&bodies) {
                        Err(error) => {
                            assert!(error.field.starts_with("acceleration"), "{error}");
                            refused += 1;
                        }
                        Ok(()) if settings.precision == Precision::Single => {}
                        Ok(()) => {
                            let error = largest_error(&bodies, (0..9).filter(|&i| i != 5));
                            let which = format!("{settings:?}, n = {n}, {far:e}");
                            assert!(error < tolerance(&settings), "{which}: {error}");
                        }
                    }
                }
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn huge_masses_are_right_or_an_error() {
    let (mut taken, mut refused) = (0, 0);
    for n in SIZES {
        for settings in every_way(0.05) {
            for mass in [1e100, 1e300, 1e308] {
                let mut start = cloud(n);
                start.mass.fill(mass);
                start.mass[0] = 1.0;
                let bodies = on_host(start, &settings);
                if let Err(error) = check(&bodies) {
                    assert!(mass > 1e100 && error.field.starts_with("acceleration"), "{error}");
                    refused += 1;
                } else {
                    let error = largest_error_in_units_of(mass, &bodies, [4, 7]);
                    assert!(error < tolerance(&settings), "{settings:?}, {mass:e}: {error}");
                    taken += 1;
                }
            }
        }
    }
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
}

/// Velocities that carry a body beyond all numbers within a step.
#[test]
fn a_step_that_overflows_is_an_error() {
    for n in [9, 700] {
        for settings in every_way(0.05) {
            for integrator in INTEGRATORS {
                let mut start = cloud(n);
                start.velocity.set(6, [0.0, -1e300, 0.0]);
                let mut bodies = on_host(start, &settings);
                integrator.step(&mut bodies, 1e10).unwrap();
                let error = check(&bodies).unwrap_err();
                if integrator == IntegratorChoice::Leapfrog {
                    let expected = NotFinite { id: 106, field: "position y", value: f64::NEG_INFINITY };
                    assert_eq!(error, expected, "{settings:?}");
                }
                // And once more from there: nothing hangs or panics on numbers that are none.
                integrator.step(&mut bodies, 1e10).unwrap();
                assert!(check(&bodies).is_err());
            }
        }
    }
}
