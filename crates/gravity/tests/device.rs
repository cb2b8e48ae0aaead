//! Bodies on every available device: the results of the host except for rounding, the same bits
//! every time, and an error for every non-finite value.

use orrery_device::Device;
use orrery_device::testing::test_devices_with_f64;
use orrery_gravity::bodies::{Bodies, BodiesError, CheckStamp, DeviceSetup, NotFinite, forces_on_device};
use orrery_gravity::integrator::adaptive;
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice};
use orrery_gravity::solver::{ForceProblem, GravityCpuStrategy};
use orrery_model::analysis::max_or_nan;
use orrery_model::ic::Plummer;
use orrery_model::{Particles, Precision, Vec3s};

const INTEGRATORS: [IntegratorChoice; 5] = [
    IntegratorChoice::Leapfrog,
    IntegratorChoice::Yoshida4,
    IntegratorChoice::Yoshida6,
    IntegratorChoice::BlanesMoan4,
    IntegratorChoice::Hermite4,
];
/// One, two, and numbers that are not multiples of the block size.
const SIZES: [usize; 4] = [1, 2, 65, 521];

fn direct_settings(eps: f64, precision: Precision) -> GravitySettings {
    let (solver, acceptance) = (SolverChoice::Direct, Acceptance::default());
    GravitySettings { g: 1.5, eps, solver, acceptance, precision }
}

/// The geometric criterion, and the relative one, which reads the accelerations of the previous
/// step.
const ACCEPTANCES: [Acceptance; 2] =
    [Acceptance::Geometric { theta: 0.6 }, Acceptance::Relative { alpha: 0.005, theta: 0.6 }];

fn tree_settings(acceptance: Acceptance, precision: Precision) -> GravitySettings {
    GravitySettings { solver: SolverChoice::Tree, acceptance, ..direct_settings(0.1, precision) }
}

fn plummer(n: usize) -> Particles {
    Plummer { n, ..Plummer::default() }.generate(1.5).unwrap()
}

/// Bodies on a device, or on the host if it is `None`.
fn new_bodies(device: Option<&Device>, particles: Particles, settings: &GravitySettings) -> Bodies {
    let setup = device.map(|device| DeviceSetup::new(device, particles.len(), settings));
    Bodies::new(particles, settings, setup.as_ref()).unwrap()
}

/// The largest component of a − b, divided by the largest component of b.
fn relative_difference(a: &Vec3s, b: &Vec3s) -> f64 {
    let columns = |v: &Vec3s| [v.x.clone(), v.y.clone(), v.z.clone()].concat();
    let (a, b) = (columns(a), columns(b));
    assert_eq!(a.len(), b.len());
    let largest = b.iter().map(|x| x.abs()).fold(f64::MIN_POSITIVE, max_or_nan);
    a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, max_or_nan) / largest
}

#[test]
fn relative_difference_of_nan_is_nan() {
    let finite = Vec3s { x: vec![1.0; 3], y: vec![2.0; 3], z: vec![3.0; 3] };
    assert_eq!(relative_difference(&finite, &finite), 0.0);
    for i in 0..3 {
        for c in 0..3 {
            let (mut with_nan, mut vector) = (finite.clone(), finite.get(i));
            vector[c] = f64::NAN;
            with_nan.set(i, vector);
            assert!(relative_difference(&with_nan, &finite).is_nan());
            assert!(relative_difference(&finite, &with_nan).is_nan());
        }
    }
}

/// The state that a checkpoint contains.
fn saved_state(bodies: &Bodies) -> (Particles, Vec3s, Option<Vec3s>) {
    let particles = bodies.particles().unwrap().clone();
    (particles, bodies.acceleration().unwrap().clone(), bodies.known_jerk().unwrap().cloned())
}

#[test]
fn every_integrator_agrees_with_the_host() {
    for device in test_devices_with_f64() {
        for integrator in INTEGRATORS {
            for n in SIZES {
                let settings = direct_settings(0.1, Precision::Double);
                let mut on_device = new_bodies(Some(&device), plummer(n), &settings);
                let mut on_host = new_bodies(None, plummer(n), &settings);
                for _ in 0..10 {
                    integrator.step(&mut on_device, 0.01).unwrap();
                    integrator.step(&mut on_host, 0.01).unwrap();
                }
                let ((a, acceleration, jerk), (b, expected, host_jerk)) =
                    (saved_state(&on_device), saved_state(&on_host));
                let which = format!("{}, {integrator:?}, n = {n}", device.label());
                assert!(relative_difference(&a.position, &b.position) < 1e-12, "{which}");
                assert!(relative_difference(&a.velocity, &b.velocity) < 1e-12, "{which}");
                assert!(relative_difference(&acceleration, &expected) < 1e-12, "{which}");
                assert_eq!(jerk.is_some(), host_jerk.is_some(), "{which}");
                if let (Some(jerk), Some(expected)) = (jerk, host_jerk) {
                    assert!(relative_difference(&jerk, &expected) < 1e-11, "{which}");
                }
                assert_eq!((a.mass, a.id, a.species), (b.mass, b.id, b.species));
            }
        }
    }
}

#[test]
fn energies_and_momenta_agree_with_the_host() {
    for device in test_devices_with_f64() {
        // 70,000 bodies are more than one per thread: 512 blocks of 128 threads.
        for n in SIZES.into_iter().chain([70_000]) {
            // The device computes the potential energy at the start. A direct sum would
            // take minutes on a CPU.
            let settings = if n > 1000 {
                tree_settings(ACCEPTANCES[0], Precision::Single)
            } else {
                direct_settings(0.1, Precision::Single)
            };
            let (on_device, on_host) = if n > 1000 {
                let zeros = || Vec3s::zeros(n);
                let on_host = Bodies::restore(plummer(n), zeros(), None, &settings);
                let setup = DeviceSetup::new(&device, n, &settings);
                (on_host.try_clone().unwrap().moved_to(&setup).unwrap(), on_host)
            } else {
                (new_bodies(Some(&device), plummer(n), &settings), new_bodies(None, plummer(n), &settings))
            };
            let (a, b) = (on_device.motion().unwrap(), on_host.motion().unwrap());
            let energy = b.kinetic_energy;
            assert!((a.kinetic_energy - energy).abs() <= 4.0 * f64::EPSILON * energy, "{a:?} {b:?}");
            for c in 0..3 {
                // Σ m |v| is of order 1.
                assert!((a.momentum[c] - b.momentum[c]).abs() < 1e-15, "{a:?} {b:?}");
                assert!((a.angular_momentum[c] - b.angular_momentum[c]).abs() < 1e-15, "{a:?} {b:?}");
            }
            if n < 1000 {
                let (a, b) = (on_device.potential_energy().unwrap(), on_host.potential_energy().unwrap());
                assert!((a - b).abs() <= 1e-13 * b.abs(), "n = {n}: {a} {b}");
            }
        }
    }
}

#[test]
fn adaptive_steps_agree_with_the_host() {
    for device in test_devices_with_f64() {
        for n in SIZES {
            for eps in [0.0, 0.1] {
                let settings = direct_settings(eps, Precision::Double);
                let step =
                    |device| adaptive::step_length(&new_bodies(device, plummer(n), &settings), 0.01).unwrap();
                let (on_device, on_host) = (step(Some(&device)), step(None));
                // Both are infinite for a single body.
                assert!(
                    on_device == on_host || (on_device - on_host).abs() < 1e-12 * on_host,
                    "{n}, {eps}: {on_device} {on_host}"
                );
            }
        }
    }
}

#[test]
fn forces_on_device_agree_with_the_host() {
    for device in test_devices_with_f64() {
        let particles = plummer(521);
        let Particles { position, mass, .. } = &particles;
        let problem = ForceProblem { position, mass, g: 1.5, eps: 0.1, with_potential: true };
        let setup = DeviceSetup::new(&device, 521, &direct_settings(0.1, Precision::Double));
        let on_device = forces_on_device(&setup, &problem, Acceptance::default()).unwrap();
        let on_host =
            GravityCpuStrategy::resolve(&direct_settings(0.1, Precision::Double), 521).forces(&problem, None);
        assert!(relative_difference(&on_device.acceleration, &on_host.acceleration) < 1e-13);
        let potentials = on_device.potential.unwrap().into_iter().zip(on_host.potential.unwrap());
        assert!(potentials.into_iter().all(|(a, b)| (a - b).abs() < 1e-13 * b.abs()));
    }
}

/// A run, the same run again, and a run in two halves with the state saved in between give the same
/// bits. Reading values or copying the bodies during a run changes nothing.
#[test]
fn direct_runs_repeat_bit_for_bit() {
    for integrator in INTEGRATORS {
        for precision in Precision::ALL {
            check_repeatability(integrator, &direct_settings(0.1, precision));
        }
    }
}

/// The relative acceptance reads the accelerations of the previous step, which are part of the
/// state.
#[test]
fn tree_runs_repeat_bit_for_bit() {
    for precision in Precision::ALL {
        for acceptance in ACCEPTANCES {
            for integrator in [IntegratorChoice::Leapfrog, IntegratorChoice::Yoshida4] {
                check_repeatability(integrator, &tree_settings(acceptance, precision));
            }
        }
    }
}

fn check_repeatability(integrator: IntegratorChoice, settings: &GravitySettings) {
    let take_steps = |bodies: &mut Bodies, steps: u32| {
        for _ in 0..steps {
            integrator.step(bodies, 0.01).unwrap();
        }
    };
    for device in test_devices_with_f64() {
        let mut whole = new_bodies(Some(&device), plummer(700), settings);
        take_steps(&mut whole, 6);
        let mut again = new_bodies(Some(&device), plummer(700), settings);
        take_steps(&mut again, 3);
        again.potential_energy().unwrap();
        let mut copy = again.try_clone().unwrap();
        take_steps(&mut copy, 2);
        let (particles, acceleration, jerk) = saved_state(&again);
        take_steps(&mut again, 3);
        take_steps(&mut copy, 1);
        let setup = DeviceSetup::new(&device, 700, settings);
        let mut resumed = Bodies::restore(particles, acceleration, jerk, settings);
        resumed = resumed.moved_to(&setup).unwrap();
        take_steps(&mut resumed, 3);
        let which = format!("{}, {integrator:?}, {settings:?}", device.label());
        for other in [&again, &copy, &resumed] {
            assert!(saved_state(other) == saved_state(&whole), "{which}");
            assert_eq!(other.motion().unwrap(), whole.motion().unwrap(), "{which}");
            assert_eq!(other.potential_energy().unwrap(), whole.potential_energy().unwrap(), "{which}");
        }
    }
}

/// Compares ten steps with the tree on a device with ten on the CPU. The relative force error of
/// both is about 1e-3 at these opening angles, and that of the energies is smaller.
#[test]
fn tree_agrees_with_the_host() {
    for device in test_devices_with_f64() {
        for acceptance in ACCEPTANCES {
            for precision in Precision::ALL {
                let settings = tree_settings(acceptance, precision);
                let mut on_device = new_bodies(Some(&device), plummer(2000), &settings);
                let mut on_host = new_bodies(None, plummer(2000), &settings);
                let which = format!("{}, {acceptance:?}, {precision:?}", device.label());
                assert_eq!((on_device.solver_name(), on_host.solver_name()), ("tree", "tree"), "{which}");
                assert!(on_host.largest_acceleration2().unwrap() > 0.0, "{which}");
                for _ in 0..10 {
                    IntegratorChoice::Leapfrog.step(&mut on_device, 0.01).unwrap();
                    IntegratorChoice::Leapfrog.step(&mut on_host, 0.01).unwrap();
                }
                let ((a, acceleration, _), (b, expected, _)) =
                    (saved_state(&on_device), saved_state(&on_host));
                assert!(relative_difference(&acceleration, &expected) < 3e-3, "{which}");
                assert!(relative_difference(&a.velocity, &b.velocity) < 1e-3, "{which}");
                let (a, b) = (on_device.potential_energy().unwrap(), on_host.potential_energy().unwrap());
                assert!((a - b).abs() < 1e-4 * b.abs(), "{which}: {a} {b}");
            }
        }
    }
}

/// The automatic choice is the direct sum for few bodies and the tree for many. Jerks come from the
/// direct sum with either solver.
#[test]
fn auto_chooses_the_faster_solver() {
    for device in test_devices_with_f64() {
        let settings =
            GravitySettings { solver: SolverChoice::Auto, ..direct_settings(0.1, Precision::Single) };
        assert_eq!(DeviceSetup::new(&device, 1000, &settings).strategy.name(), "direct");
        assert_eq!(DeviceSetup::new(&device, 1_000_000, &settings).strategy.name(), "tree");
        let state_with_jerks = |settings: &GravitySettings| {
            let mut bodies = new_bodies(Some(&device), plummer(65), settings);
            bodies.update_forces_and_jerks().unwrap();
            saved_state(&bodies)
        };
        let with_tree_solver = state_with_jerks(&tree_settings(Acceptance::default(), Precision::Double));
        assert!(with_tree_solver == state_with_jerks(&direct_settings(0.1, Precision::Double)));
    }
}

type Reader = fn(&Bodies) -> Result<(), BodiesError>;

/// The position of one body overflows in the third step. The error names that step and that body,
/// whenever it is returned, and the bodies stay as the third step left them.
#[test]
fn error_names_the_first_step_with_a_non_finite_value() {
    let with_runaway = || {
        let mut start = plummer(300);
        start.id.iter_mut().for_each(|id| *id += 1000);
        start.position.set(77, [0.0, 0.0, 1.2e308]);
        start.velocity.set(77, [0.0, 0.0, 0.4e308]);
        start
    };
    let settings = direct_settings(0.1, Precision::Double);
    let stamp = |step| CheckStamp { step, time: 0.5 * step as f64 };
    let advance = |bodies: &mut Bodies, step| {
        // There are no forces: only positions become non-finite.
        bodies.drift(0.5).unwrap();
        bodies.check_step(stamp(step))
    };
    let expected = Err(BodiesError::NotFinite {
        at: Some(stamp(3)),
        source: NotFinite { id: 1077, field: "position z", value: f64::INFINITY },
    });
    for device in test_devices_with_f64() {
        let setup = DeviceSetup::new(&device, 300, &settings);
        let new_bodies = || {
            let zeros = Vec3s::zeros(300);
            Bodies::restore(with_runaway(), zeros, None, &settings).moved_to(&setup).unwrap()
        };
        // The error is returned with the third copy of the flag. 300 bodies copy it after every 16
        // checks.
        let mut bodies = new_bodies();
        let results: Vec<_> = (1..=50).map(|step| advance(&mut bodies, step)).collect();
        assert_eq!(results[..47], vec![Ok(()); 47]);
        assert!(results[47..].iter().all(|result| *result == expected), "{results:?}");
        // The bodies have not moved since.
        let mut host = Bodies::restore(with_runaway(), Vec3s::zeros(300), None, &settings);
        (0..3).for_each(|_| host.drift(0.5).unwrap());
        assert_eq!(
            bodies.particles_unchecked().unwrap().velocity,
            host.particles_unchecked().unwrap().velocity
        );
        let (on_device, on_host) =
            (bodies.particles_unchecked().unwrap().position, host.particles_unchecked().unwrap().position);
        assert_eq!(
            (on_device.get(77), on_host.get(77)),
            ([0.0, 0.0, f64::INFINITY], [0.0, 0.0, f64::INFINITY])
        );
        assert_eq!(on_device.x[0].to_bits() >> 2, on_host.x[0].to_bits() >> 2);

        // Every read returns the error at once.
        let readers: [Reader; 7] = [
            |bodies| bodies.particles().map(|_| ()),
            |bodies| bodies.acceleration().map(|_| ()),
            |bodies| bodies.motion().map(|_| ()),
            |bodies| bodies.potential_energy().map(|_| ()),
            |bodies| bodies.largest_acceleration2().map(|_| ()),
            |bodies| bodies.check_finite(),
            // A copy must not contain a non-finite value either.
            |bodies| bodies.try_clone().map(|_| ()),
        ];
        for read in readers {
            let mut bodies = new_bodies();
            (1..=3).for_each(|step| assert_eq!(advance(&mut bodies, step), Ok(())));
            assert_eq!(read(&bodies), expected);
            assert_eq!(read(&bodies), expected);
        }
    }
}

/// A non-finite acceleration is an error. The largest and smallest finite values are not.
#[test]
fn check_finds_non_finite_accelerations_and_accepts_extreme_values() {
    for device in test_devices_with_f64() {
        let mut start = plummer(65);
        start.position.set(64, start.position.get(10));
        let bodies = new_bodies(Some(&device), start, &direct_settings(0.0, Precision::Double));
        let Err(BodiesError::NotFinite { at: None, source }) = bodies.check_finite() else {
            panic!("{:?}", bodies.check_finite())
        };
        assert_eq!((source.id, source.field), (10, "acceleration x"));

        let mut bodies = new_bodies(Some(&device), plummer(65), &direct_settings(0.1, Precision::Double));
        let edge = Vec3s { x: vec![f64::MAX; 65], y: vec![-f64::MAX; 65], z: vec![5e-324; 65] };
        bodies.set_phase_space(edge.clone(), edge.clone()).unwrap();
        assert_eq!(bodies.check_finite(), Ok(()));
        assert_eq!(bodies.particles().unwrap().position, edge);
        // A state that is finite again passes the check.
        let with_nan = Vec3s { x: vec![f64::NAN; 65], ..edge.clone() };
        bodies.set_phase_space(edge.clone(), with_nan).unwrap();
        assert!(bodies.check_finite().is_err());
        bodies.set_phase_space(edge.clone(), edge).unwrap();
        assert_eq!(bodies.check_finite(), Ok(()));
    }
}

/// Every column of the state is part of the check.
#[test]
fn check_finds_a_nan_in_every_column() {
    const FIELDS: [&str; 9] = [
        "position x",
        "position y",
        "position z",
        "velocity x",
        "velocity y",
        "velocity z",
        "acceleration x",
        "acceleration y",
        "acceleration z",
    ];
    for device in test_devices_with_f64() {
        let settings = direct_settings(0.1, Precision::Double);
        let setup = DeviceSetup::new(&device, 65, &settings);
        for (column, field) in FIELDS.into_iter().enumerate() {
            let (mut particles, mut acceleration) = (plummer(65), Vec3s::zeros(65));
            let vectors = match column / 3 {
                0 => &mut particles.position,
                1 => &mut particles.velocity,
                _ => &mut acceleration,
            };
            [&mut vectors.x, &mut vectors.y, &mut vectors.z][column % 3][64] = f64::NAN;
            let bodies = Bodies::restore(particles, acceleration, None, &settings).moved_to(&setup).unwrap();
            let Err(BodiesError::NotFinite { at: None, source }) = bodies.check_finite() else {
                panic!("{}: NaN in {field} was not found", device.label())
            };
            assert_eq!((source.id, source.field), (64, field), "{}", device.label());
        }
    }
}

/// Large momenta that cancel within a block. Without the rounding errors of the additions, the
/// momentum would have an error of about 1e-2. Velocities are multiples of 2^-10 with at most 53
/// significant bits, so the exact sum is known.
#[test]
fn sums_include_the_rounding_errors_of_their_additions() {
    let mut particles = plummer(600);
    particles.mass.fill(1.0);
    let mut sum = 0;
    for (pair, velocities) in (0..).zip(particles.velocity.x.chunks_exact_mut(2)) {
        let large = (1i64 << 52) / (pair + 3);
        let steps = [large, 7 * pair + 1 - large];
        sum += steps[0] + steps[1];
        velocities.copy_from_slice(&steps.map(|steps| steps as f64 / 1024.0));
    }
    let settings = direct_settings(0.1, Precision::Double);
    for device in test_devices_with_f64() {
        let setup = DeviceSetup::new(&device, 600, &settings);
        let bodies = Bodies::restore(particles.clone(), Vec3s::zeros(600), None, &settings);
        let bodies = bodies.moved_to(&setup).unwrap();
        assert_eq!(bodies.motion().unwrap().momentum[0], sum as f64 / 1024.0, "{}", device.label());
    }
}
