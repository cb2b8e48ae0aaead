//! Bodies on every device there is: the host's numbers to rounding, the same bits every time, and no wrong number in
//! silence.

use orrery_device::Device;
use orrery_model::ic::Plummer;
use orrery_model::{Particles, Vec3s};
use orrery_particles::bodies::{Bodies, BodiesError, DeviceSetup, NotFinite, Stamp, forces_on_device};
use orrery_particles::integrator::adaptive;
use orrery_particles::settings::{Acceptance, GravitySettings, IntegratorChoice, Precision, SolverChoice};
use orrery_particles::solver::{CpuStrategy, Problem};

const PRECISIONS: [Precision; 3] = [Precision::Single, Precision::Mixed, Precision::Double];
const INTEGRATORS: [IntegratorChoice; 5] = [
    IntegratorChoice::Leapfrog,
    IntegratorChoice::Yoshida4,
    IntegratorChoice::Yoshida6,
    IntegratorChoice::BlanesMoan4,
    IntegratorChoice::Hermite4,
];
/// One, two, and numbers that are no multiple of a group.
const SIZES: [usize; 4] = [1, 2, 65, 521];

/// All devices; none is a failure, unless tests are told so.
fn devices() -> Vec<Device> {
    let found = Device::list();
    let excused = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(!found.devices.is_empty() || excused, "{}", found.notes.join("; "));
    found.devices.into_iter().filter(|device| device.properties().has_f64).collect()
}

fn settings(eps: f64, precision: Precision) -> GravitySettings {
    let (solver, acceptance) = (SolverChoice::Direct, Acceptance::default());
    GravitySettings { g: 1.5, eps, solver, acceptance, precision }
}

/// The geometric form, and the one that reads the accelerations of the step before.
const ACCEPTANCES: [Acceptance; 2] =
    [Acceptance::Geometric { theta: 0.6 }, Acceptance::Relative { alpha: 0.005, theta: 0.6 }];

fn tree(acceptance: Acceptance, precision: Precision) -> GravitySettings {
    GravitySettings { solver: SolverChoice::Tree, acceptance, ..settings(0.1, precision) }
}

fn plummer(n: usize) -> Particles {
    Plummer { n, ..Plummer::default() }.generate(1.5).unwrap()
}

fn on(device: Option<&Device>, particles: Particles, settings: &GravitySettings) -> Bodies {
    let setup = device.map(|device| DeviceSetup::new(device, particles.len(), settings));
    Bodies::new(particles, settings, setup.as_ref()).unwrap()
}

/// |a − b| in units of the largest component of b.
fn distance(a: &Vec3s, b: &Vec3s) -> f64 {
    let columns = |v: &Vec3s| [v.x.clone(), v.y.clone(), v.z.clone()].concat();
    let (a, b) = (columns(a), columns(b));
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(f64::MIN_POSITIVE, |largest: f64, x| largest.max(x.abs()));
    a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / largest
}

/// Everything that a checkpoint keeps.
fn state(bodies: &Bodies) -> (Particles, Vec3s, Option<Vec3s>) {
    let particles = bodies.particles().unwrap().clone();
    (particles, bodies.acceleration().unwrap().clone(), bodies.known_jerk().unwrap().cloned())
}

#[test]
fn every_integrator_agrees_with_the_host() {
    for device in devices() {
        for integrator in INTEGRATORS {
            for n in SIZES {
                let settings = settings(0.1, Precision::Double);
                let mut found = on(Some(&device), plummer(n), &settings);
                let mut right = on(None, plummer(n), &settings);
                for _ in 0..10 {
                    integrator.step(&mut found, 0.01).unwrap();
                    integrator.step(&mut right, 0.01).unwrap();
                }
                let ((a, acceleration, jerk), (b, expected, host_jerk)) = (state(&found), state(&right));
                let which = format!("{}, {integrator:?}, n = {n}", device.label());
                assert!(distance(&a.position, &b.position) < 1e-12, "{which}");
                assert!(distance(&a.velocity, &b.velocity) < 1e-12, "{which}");
                assert!(distance(&acceleration, &expected) < 1e-12, "{which}");
                assert_eq!(jerk.is_some(), host_jerk.is_some(), "{which}");
                if let (Some(jerk), Some(expected)) = (jerk, host_jerk) {
                    assert!(distance(&jerk, &expected) < 1e-11, "{which}");
                }
                assert_eq!((a.mass, a.id, a.species), (b.mass, b.id, b.species));
            }
        }
    }
}

#[test]
fn energies_and_momenta_agree_with_the_host() {
    for device in devices() {
        // The last is more than one number a thread.
        for n in SIZES.into_iter().chain([300_000]) {
            let settings = settings(0.1, Precision::Single);
            // Forces of so many on the processor would take a minute.
            let (found, right) = if n > 1000 {
                let zeros = || Vec3s::zeros(n);
                let right = Bodies::restore(plummer(n), zeros(), None, &settings);
                let setup = DeviceSetup::new(&device, n, &settings);
                (right.try_clone().unwrap().moved_to(&setup).unwrap(), right)
            } else {
                (on(Some(&device), plummer(n), &settings), on(None, plummer(n), &settings))
            };
            let (a, b) = (found.motion().unwrap(), right.motion().unwrap());
            let energy = b.kinetic_energy;
            assert!((a.kinetic_energy - energy).abs() <= 4.0 * f64::EPSILON * energy, "{a:?} {b:?}");
            for c in 0..3 {
                // Σ m |v| is of order 1.
                assert!((a.momentum[c] - b.momentum[c]).abs() < 1e-15, "{a:?} {b:?}");
                assert!((a.angular_momentum[c] - b.angular_momentum[c]).abs() < 1e-15, "{a:?} {b:?}");
            }
            if n < 1000 {
                let (a, b) = (found.potential_energy().unwrap(), right.potential_energy().unwrap());
                assert!((a - b).abs() <= 1e-13 * b.abs(), "n = {n}: {a} {b}");
            }
        }
    }
}

#[test]
fn adaptive_steps_agree_with_the_host() {
    for device in devices() {
        for n in SIZES {
            for eps in [0.0, 0.1] {
                let settings = settings(eps, Precision::Double);
                let step = |device| adaptive::step_length(&on(device, plummer(n), &settings), 0.01).unwrap();
                let (found, right) = (step(Some(&device)), step(None));
                // Not finite where a lone body has no one to meet.
                assert!(
                    found == right || (found - right).abs() < 1e-12 * right,
                    "{n}, {eps}: {found} {right}"
                );
            }
        }
    }
}

#[test]
fn forces_at_rest_agree_with_the_host() {
    for device in devices() {
        let particles = plummer(521);
        let Particles { position, mass, .. } = &particles;
        let problem = Problem { position, mass, g: 1.5, eps: 0.1, with_potential: true };
        let setup = DeviceSetup::new(&device, 521, &settings(0.1, Precision::Double));
        let found = forces_on_device(&setup, &problem, Acceptance::default()).unwrap();
        let right = CpuStrategy::resolve(&settings(0.1, Precision::Double), 521).forces(&problem, None);
        assert!(distance(&found.acceleration, &right.acceleration) < 1e-13);
        let potentials = found.potential.unwrap().into_iter().zip(right.potential.unwrap());
        assert!(potentials.into_iter().all(|(a, b)| (a - b).abs() < 1e-13 * b.abs()));
    }
}

/// Run, again, and in two halves with the state through the host between them; what is looked at on the way, and what
/// copies do, changes nothing.
#[test]
fn the_same_bits_every_time() {
    for integrator in INTEGRATORS {
        for precision in PRECISIONS {
            the_same_bits(integrator, &settings(0.1, precision));
        }
    }
}

/// The relative acceptance reads the accelerations of the step before: they are part of the state.
#[test]
fn the_same_bits_from_the_tree() {
    for precision in PRECISIONS {
        for acceptance in ACCEPTANCES {
            for integrator in [IntegratorChoice::Leapfrog, IntegratorChoice::Yoshida4] {
                the_same_bits(integrator, &tree(acceptance, precision));
            }
        }
    }
}

fn the_same_bits(integrator: IntegratorChoice, settings: &GravitySettings) {
    let run = |bodies: &mut Bodies, steps: u32| {
        for _ in 0..steps {
            integrator.step(bodies, 0.01).unwrap();
        }
    };
    for device in devices() {
        let mut whole = on(Some(&device), plummer(700), settings);
        run(&mut whole, 6);
        let mut again = on(Some(&device), plummer(700), settings);
        run(&mut again, 3);
        again.potential_energy().unwrap();
        let mut copy = again.try_clone().unwrap();
        run(&mut copy, 2);
        let (particles, acceleration, jerk) = state(&again);
        run(&mut again, 3);
        run(&mut copy, 1);
        let setup = DeviceSetup::new(&device, 700, settings);
        let mut resumed = Bodies::restore(particles, acceleration, jerk, settings);
        resumed = resumed.moved_to(&setup).unwrap();
        run(&mut resumed, 3);
        let which = format!("{}, {integrator:?}, {settings:?}", device.label());
        for other in [&again, &copy, &resumed] {
            assert!(state(other) == state(&whole), "{which}");
            assert_eq!(other.motion().unwrap(), whole.motion().unwrap(), "{which}");
            assert_eq!(other.potential_energy().unwrap(), whole.potential_energy().unwrap(), "{which}");
        }
    }
}

/// Ten steps of the device's tree against ten of the processor's: both err by some 1e-3 of a force at these openings, and
/// the energies by less.
#[test]
fn the_tree_agrees_with_the_host() {
    for device in devices() {
        for acceptance in ACCEPTANCES {
            for precision in PRECISIONS {
                let settings = tree(acceptance, precision);
                let mut found = on(Some(&device), plummer(2000), &settings);
                let mut right = on(None, plummer(2000), &settings);
                let which = format!("{}, {acceptance:?}, {precision:?}", device.label());
                assert_eq!((found.solver_name(), right.solver_name()), ("tree", "tree"), "{which}");
                assert!(right.largest_acceleration2().unwrap() > 0.0, "{which}");
                for _ in 0..10 {
                    IntegratorChoice::Leapfrog.step(&mut found, 0.01).unwrap();
                    IntegratorChoice::Leapfrog.step(&mut right, 0.01).unwrap();
                }
                let ((a, acceleration, _), (b, expected, _)) = (state(&found), state(&right));
                assert!(distance(&acceleration, &expected) < 3e-3, "{which}");
                assert!(distance(&a.velocity, &b.velocity) < 1e-3, "{which}");
                let (a, b) = (found.potential_energy().unwrap(), right.potential_energy().unwrap());
                assert!((a - b).abs() < 1e-4 * b.abs(), "{which}: {a} {b}");
            }
        }
    }
}

/// Whoever leaves the choice open gets all pairs for few bodies and the tree for many; Hermite's jerks come from all pairs
/// beside either.
#[test]
fn auto_takes_what_is_quicker() {
    for device in devices() {
        let settings = GravitySettings { solver: SolverChoice::Auto, ..settings(0.1, Precision::Single) };
        assert_eq!(DeviceSetup::new(&device, 1000, &settings).strategy.name(), "direct");
        assert_eq!(DeviceSetup::new(&device, 1_000_000, &settings).strategy.name(), "tree");
        let jerk = |settings: &GravitySettings| {
            let mut bodies = on(Some(&device), plummer(65), settings);
            bodies.update_forces_and_jerks().unwrap();
            state(&bodies)
        };
        let beside_tree = jerk(&tree(Acceptance::default(), Precision::Double));
        assert!(beside_tree == jerk(&self::settings(0.1, Precision::Double)));
    }
}

type Reader = fn(&Bodies) -> Result<(), BodiesError>;

/// A body that leaves all numbers behind in the third step. Whoever asks when, hears of that step and of that body, and
/// the bodies stay as it left them.
#[test]
fn the_first_wrong_step_is_named() {
    let with_a_runaway = || {
        let mut start = plummer(300);
        start.id.iter_mut().for_each(|id| *id += 1000);
        start.position.set(77, [0.0, 0.0, 1.2e308]);
        start.velocity.set(77, [0.0, 0.0, 0.4e308]);
        start
    };
    let settings = settings(0.1, Precision::Double);
    let stamp = |step| Stamp { step, time: 0.5 * step as f64 };
    let advance = |bodies: &mut Bodies, step| {
        // Nothing pulls: positions alone go wrong.
        bodies.drift(0.5).unwrap();
        bodies.check_step(stamp(step))
    };
    let expected = Err(BodiesError::NotFinite {
        at: Some(stamp(3)),
        source: NotFinite { id: 1077, field: "position z", value: f64::INFINITY },
    });
    for device in devices() {
        let setup = DeviceSetup::new(&device, 300, &settings);
        let begin = || {
            let zeros = Vec3s::zeros(300);
            Bodies::restore(with_a_runaway(), zeros, None, &settings).moved_to(&setup).unwrap()
        };
        // The verdict comes by itself, with the third flag: so few bodies send one every sixteen steps.
        let mut bodies = begin();
        let verdicts: Vec<_> = (1..=50).map(|step| advance(&mut bodies, step)).collect();
        assert_eq!(verdicts[..47], vec![Ok(()); 47]);
        assert!(verdicts[47..].iter().all(|verdict| *verdict == expected), "{verdicts:?}");
        // And nothing moved since.
        let mut host = Bodies::restore(with_a_runaway(), Vec3s::zeros(300), None, &settings);
        (0..3).for_each(|_| host.drift(0.5).unwrap());
        assert_eq!(
            bodies.particles_unchecked().unwrap().velocity,
            host.particles_unchecked().unwrap().velocity
        );
        let (found, right) =
            (bodies.particles_unchecked().unwrap().position, host.particles_unchecked().unwrap().position);
        assert_eq!((found.get(77), right.get(77)), ([0.0, 0.0, f64::INFINITY], [0.0, 0.0, f64::INFINITY]));
        assert_eq!(found.x[0].to_bits() >> 2, right.x[0].to_bits() >> 2);

        // Whoever reads hears of it at once.
        let readers: [Reader; 7] = [
            |bodies| bodies.particles().map(|_| ()),
            |bodies| bodies.acceleration().map(|_| ()),
            |bodies| bodies.motion().map(|_| ()),
            |bodies| bodies.potential_energy().map(|_| ()),
            |bodies| bodies.largest_acceleration2().map(|_| ()),
            |bodies| bodies.check_finite(),
            // What a copy shows between two steps must not be wrong either.
            |bodies| bodies.try_clone().map(|_| ()),
        ];
        for read in readers {
            let mut bodies = begin();
            (1..=3).for_each(|step| assert_eq!(advance(&mut bodies, step), Ok(())));
            assert_eq!(read(&bodies), expected);
            assert_eq!(read(&bodies), expected);
        }
    }
}

/// What forces leave is found as well, and what is still a number is none of it.
#[test]
fn a_meeting_is_found_and_the_edge_of_numbers_is_fine() {
    for device in devices() {
        let mut start = plummer(65);
        start.position.set(64, start.position.get(10));
        let bodies = on(Some(&device), start, &settings(0.0, Precision::Double));
        let Err(BodiesError::NotFinite { at: None, source }) = bodies.check_finite() else {
            panic!("{:?}", bodies.check_finite())
        };
        assert_eq!((source.id, source.field), (10, "acceleration x"));

        let mut bodies = on(Some(&device), plummer(65), &settings(0.1, Precision::Double));
        let edge = Vec3s { x: vec![f64::MAX; 65], y: vec![-f64::MAX; 65], z: vec![5e-324; 65] };
        bodies.set_phase_space(edge.clone(), edge.clone()).unwrap();
        assert_eq!(bodies.check_finite(), Ok(()));
        assert_eq!(bodies.particles().unwrap().position, edge);
        // A change for the better is seen, too.
        let wrong = Vec3s { x: vec![f64::NAN; 65], ..edge.clone() };
        bodies.set_phase_space(edge.clone(), wrong).unwrap();
        assert!(bodies.check_finite().is_err());
        bodies.set_phase_space(edge.clone(), edge).unwrap();
        assert_eq!(bodies.check_finite(), Ok(()));
    }
}
