//! Bodies at the limits of the floating-point range. Either the forces are correct, or the check
//! returns an error that names a body. There is never a panic or an unreported wrong result.

use orrery_gravity::bodies::{Bodies, BodiesError, NotFinite};
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice};
use orrery_gravity::solver::{ForceProblem, MIN_TREE_BODIES, reference};
use orrery_model::analysis::max_or_nan;
use orrery_model::rng::Draws;
use orrery_model::{Particle, Particles, Precision, Species, Vec3s};

const INTEGRATORS: [IntegratorChoice; 5] = [
    IntegratorChoice::Leapfrog,
    IntegratorChoice::Yoshida4,
    IntegratorChoice::Yoshida6,
    IntegratorChoice::BlanesMoan4,
    IntegratorChoice::Hermite4,
];
/// Few bodies, enough for several blocks of the direct sum, and enough for the automatic choice of
/// the tree.
const SIZES: [usize; 3] = [9, 700, MIN_TREE_BODIES + 100];

/// Every combination of solver, acceptance and precision.
fn all_settings(eps: f64) -> impl Iterator<Item = GravitySettings> {
    let geometric = Acceptance::Geometric { theta: 0.6 };
    let relative = Acceptance::Relative { alpha: 0.005, theta: 0.6 };
    let solvers =
        [(SolverChoice::Direct, geometric), (SolverChoice::Tree, geometric), (SolverChoice::Tree, relative)];
    solvers.into_iter().flat_map(move |(solver, acceptance)| {
        Precision::ALL.map(|precision| GravitySettings { g: 1.0, eps, solver, acceptance, precision })
    })
}

/// Bodies at random positions in a cube of side 2, with a total mass of 1.
fn random_cloud(n: usize) -> Particles {
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

/// The largest |a − a'| / |a'| over the bodies with indices `sample`, where a' is the reference.
fn largest_error(bodies: &Bodies, sample: impl IntoIterator<Item = usize>) -> f64 {
    largest_error_in_units_of(1.0, bodies, sample)
}

/// Like `largest_error`, with all masses divided by `unit`. Without that, the squares of the
/// accelerations may overflow.
fn largest_error_in_units_of(unit: f64, bodies: &Bodies, sample: impl IntoIterator<Item = usize>) -> f64 {
    let Particles { position, mass, .. } = bodies.particles().unwrap();
    let mass: &[f64] = &mass.iter().map(|m| m / unit).collect::<Vec<_>>();
    let (g, eps) = (bodies.gravitational_constant(), bodies.softening());
    let problem = ForceProblem { position, mass, g, eps, with_potential: false };
    let norm = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
    let error = |i| {
        let (found, (expected, _)) =
            (bodies.acceleration().unwrap().get(i), reference::force_on(&problem, i));
        norm([0, 1, 2].map(|c| found[c] / unit - expected[c])) / norm(expected)
    };
    sample.into_iter().map(error).fold(0.0, max_or_nan)
}

fn on_host(particles: Particles, settings: &GravitySettings) -> Bodies {
    Bodies::new(particles, settings, None).unwrap()
}

fn check_finite(bodies: &Bodies) -> Result<(), NotFinite> {
    bodies.check_finite().map_err(|error| match error {
        BodiesError::NotFinite { at: None, source } => source,
        other => panic!("{other:?}"),
    })
}

/// Bound of the largest error of the forces in a random cloud.
fn tolerance(settings: &GravitySettings) -> f64 {
    match (settings.solver, settings.precision) {
        (SolverChoice::Tree, _) => 0.05,
        (_, Precision::Double) => 1e-12,
        _ => 1e-3,
    }
}

#[test]
fn error_names_the_first_body_with_its_field_and_value() {
    let settings = all_settings(0.1).next().unwrap();
    for n in [3, 4096, 12_289] {
        let start = random_cloud(n);
        let mut bodies =
            on_host(start.clone(), &GravitySettings { g: 0.0, solver: SolverChoice::Tree, ..settings });
        let edge = Vec3s { x: vec![1e308; n], y: vec![f64::MAX; n], z: vec![5e-324; n] };
        bodies.set_phase_space(edge.clone(), edge).unwrap();
        assert_eq!(check_finite(&bodies), Ok(()));
        for i in [0, n / 2, n - 1] {
            let (mut position, mut velocity) = (start.position.clone(), start.velocity.clone());
            velocity.x[0] = f64::NEG_INFINITY;
            velocity.z[i] = f64::INFINITY;
            bodies.set_phase_space(position.clone(), velocity.clone()).unwrap();
            let error = NotFinite { id: 100, field: "velocity x", value: f64::NEG_INFINITY };
            assert_eq!(check_finite(&bodies), Err(error));
            // Positions are reported before velocities, and of two bodies the first one.
            position.y[i] = f64::INFINITY;
            position.x[n - 1] = f64::NEG_INFINITY;
            bodies.set_phase_space(position, velocity).unwrap();
            let (field, value) =
                if i == n - 1 { ("position x", f64::NEG_INFINITY) } else { ("position y", f64::INFINITY) };
            let error = NotFinite { id: 100 + i as u64, field, value };
            for threads in [1, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert_eq!(pool.install(|| check_finite(&bodies)), Err(error.clone()));
            }
        }
    }
}

#[test]
fn zero_or_one_body_has_no_acceleration() {
    for settings in all_settings(0.0) {
        for n in [0, 1] {
            let mut bodies = on_host(random_cloud(n), &settings);
            for integrator in INTEGRATORS {
                integrator.step(&mut bodies, 0.5).unwrap();
                assert_eq!(check_finite(&bodies), Ok(()));
            }
            assert_eq!(bodies.acceleration().unwrap(), &Vec3s::zeros(n));
            assert_eq!(bodies.potential_energy().unwrap(), 0.0);
            assert_eq!(bodies.particles().unwrap().velocity, random_cloud(n).velocity);
        }
    }
}

/// A random cloud in which the bodies 3 and n - 2 have the same position.
fn cloud_with_coincident_pair(n: usize) -> Particles {
    let mut start = random_cloud(n);
    start.position.set(n - 2, start.position.get(3));
    start
}

#[test]
fn coincident_bodies_without_softening_are_an_error() {
    for n in SIZES {
        for settings in all_settings(0.0) {
            let mut bodies = on_host(cloud_with_coincident_pair(n), &settings);
            let error = check_finite(&bodies).unwrap_err();
            assert_eq!((error.id, error.field), (103, "acceleration x"), "{settings:?}, n = {n}");
            if n < 1000 {
                bodies.update_forces_and_jerks().unwrap();
                assert_eq!(check_finite(&bodies).unwrap_err().id, 103);
            }
        }
    }
}

#[test]
fn coincident_bodies_with_softening_do_not_attract_each_other() {
    for n in SIZES {
        for settings in all_settings(0.05) {
            let mut bodies = on_host(cloud_with_coincident_pair(n), &settings);
            assert_eq!(check_finite(&bodies), Ok(()));
            let error = largest_error(&bodies, [3, n - 2]);
            assert!(error < tolerance(&settings), "{settings:?}, n = {n}: {error}");
            if n < 1000 {
                bodies.update_forces_and_jerks().unwrap();
                assert!(largest_error(&bodies, [3, n - 2]) < 1e-12);
            }

            let mut start = random_cloud(n);
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
fn massless_bodies_are_attracted_but_do_not_attract() {
    for n in SIZES {
        let is_massless = |i: usize| i % 3 == 1;
        let mut start = random_cloud(n);
        (0..n).filter(|&i| is_massless(i)).for_each(|i| start.mass[i] = 0.0);
        let massive = start.filtered(|body| body.mass > 0.0);
        for settings in all_settings(0.05) {
            let mut bodies = on_host(start.clone(), &settings);
            assert_eq!(check_finite(&bodies), Ok(()));
            let error = largest_error(&bodies, (0..n).step_by(n.div_ceil(500)));
            assert!(error < tolerance(&settings), "{settings:?}, n = {n}: {error}");
            if (settings.solver, settings.precision) != (SolverChoice::Direct, Precision::Double) {
                continue;
            }
            // Without the massless bodies, the others have the same accelerations.
            let alone = on_host(massive.clone(), &settings);
            bodies.update_forces_and_jerks().unwrap();
            for (k, i) in (0..n).filter(|&i| !is_massless(i)).enumerate() {
                let (with, without) =
                    (bodies.acceleration().unwrap().get(i), alone.acceleration().unwrap().get(k));
                assert!((0..3).all(|c| (with[c] - without[c]).abs() < 1e-13), "{with:?} {without:?}");
            }
            assert!((0..n).all(|i| bodies.acceleration().unwrap().get(i) != [0.0; 3]));
        }
    }
}

#[test]
fn massless_bodies_alone_move_in_straight_lines() {
    for n in SIZES {
        let mut start = random_cloud(n);
        start.mass.fill(0.0);
        for settings in all_settings(0.0) {
            for integrator in INTEGRATORS.into_iter().filter(|_| n < 1000) {
                let mut bodies = on_host(start.clone(), &settings);
                integrator.step(&mut bodies, 0.5).unwrap();
                assert_eq!(check_finite(&bodies), Ok(()), "{settings:?}, {integrator:?}");
                assert_eq!(bodies.particles().unwrap().velocity, start.velocity);
                assert_eq!(bodies.potential_energy().unwrap(), 0.0);
            }
            assert_eq!(on_host(start.clone(), &settings).acceleration().unwrap(), &Vec3s::zeros(n));
        }
    }
}

/// Scaling lengths and masses by powers of two, up to 1e±270, does not change the digits of a force
/// that is in range. Where squares of lengths overflow, the tree opens all cells.
#[test]
fn forces_do_not_depend_on_the_units() {
    const UNIT_EXPONENTS: &[(i32, i32)] =
        &[(900, 900), (-450, -900), (-900, -900), (450, 900), (900, 0), (-300, 300), (-560, -400)];
    for n in SIZES {
        let start = random_cloud(n);
        for settings in all_settings(0.05) {
            let unscaled = on_host(start.clone(), &settings);
            for &(length, mass) in if n < 1000 { UNIT_EXPONENTS } else { &UNIT_EXPONENTS[..2] } {
                let power = |exponent: i32| 2f64.powi(exponent);
                let particles = Particles {
                    position: scaled(&start.position, power(length)),
                    mass: start.mass.iter().map(|m| m * power(mass)).collect(),
                    ..start.clone()
                };
                let settings = GravitySettings { eps: 0.05 * power(length), ..settings };
                let bodies = on_host(particles, &settings);
                assert_eq!(check_finite(&bodies), Ok(()), "{settings:?}, 2^{length}, 2^{mass}");
                let factor =
                    if mass - 2 * length < -1080 { 0.0 } else { power(mass - length) / power(length) };
                let expected = scaled(unscaled.acceleration().unwrap(), factor);
                if settings.solver == SolverChoice::Direct {
                    assert!(
                        bodies.acceleration().unwrap() == &expected,
                        "{settings:?}, n = {n}, 2^{length}, 2^{mass}"
                    );
                }
                let norm = |v: [f64; 3]| v.map(|c| (c / factor).abs()).into_iter().fold(0.0, max_or_nan);
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

/// One body is far from the others. In `Single`, f32 coordinates relative to the centre of all
/// bodies then no longer resolve the others. This is documented, so there the forces need only be
/// finite or an error.
#[test]
fn a_distant_body_does_not_affect_the_others_or_is_an_error() {
    const DISTANCES: &[f64] = &[1e9, 1e300, 1e4, 1e15, 1e20, 1e40, 1e100, 1e160, 1.7e308];
    let mut rejected = 0;
    for n in SIZES {
        for eps in [0.0, 0.05] {
            for settings in all_settings(eps) {
                for &distance in if n < 1000 { DISTANCES } else { &DISTANCES[..2] } {
                    let mut start = random_cloud(n);
                    start.position.set(5, [distance, -distance, 0.0]);
                    let bodies = on_host(start, &settings);
                    match check_finite(&bodies) {
                        Err(error) => {
                            assert!(error.field.starts_with("acceleration"), "{error}");
                            rejected += 1;
                        }
                        Ok(()) if settings.precision == Precision::Single => {}
                        Ok(()) => {
                            let error = largest_error(&bodies, (0..9).filter(|&i| i != 5));
                            let which = format!("{settings:?}, n = {n}, {distance:e}");
                            assert!(error < tolerance(&settings), "{which}: {error}");
                        }
                    }
                }
            }
        }
    }
    assert!(rejected > 0);
}

#[test]
fn huge_masses_give_correct_forces_or_an_error() {
    let (mut accepted, mut rejected) = (0, 0);
    for n in SIZES {
        for settings in all_settings(0.05) {
            for mass in [1e100, 1e300, 1e308] {
                let mut start = random_cloud(n);
                start.mass.fill(mass);
                start.mass[0] = 1.0;
                let bodies = on_host(start, &settings);
                if let Err(error) = check_finite(&bodies) {
                    assert!(mass > 1e100 && error.field.starts_with("acceleration"), "{error}");
                    rejected += 1;
                } else {
                    let error = largest_error_in_units_of(mass, &bodies, [4, 7]);
                    assert!(error < tolerance(&settings), "{settings:?}, {mass:e}: {error}");
                    accepted += 1;
                }
            }
        }
    }
    assert!(accepted > 0 && rejected > 0, "{accepted} accepted, {rejected} rejected");
}

/// A velocity that makes a position overflow within one step.
#[test]
fn a_step_that_overflows_is_an_error() {
    for n in [9, 700] {
        for settings in all_settings(0.05) {
            for integrator in INTEGRATORS {
                let mut start = random_cloud(n);
                start.velocity.set(6, [0.0, -1e300, 0.0]);
                let mut bodies = on_host(start, &settings);
                integrator.step(&mut bodies, 1e10).unwrap();
                let error = check_finite(&bodies).unwrap_err();
                if integrator == IntegratorChoice::Leapfrog {
                    let expected = NotFinite { id: 106, field: "position y", value: f64::NEG_INFINITY };
                    assert_eq!(error, expected, "{settings:?}");
                }
                // A step from a non-finite state must not hang or panic.
                integrator.step(&mut bodies, 1e10).unwrap();
                assert!(check_finite(&bodies).is_err());
            }
        }
    }
}
