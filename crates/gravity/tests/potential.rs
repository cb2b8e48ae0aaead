//! Potentials that a step computes along with its forces.

use orrery_device::testing::test_devices_with_f64;
use orrery_gravity::bodies::{Bodies, DeviceSetup};
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice};
use orrery_model::rng::Draws;
use orrery_model::{Particle, Particles, Precision, Species};

const INTEGRATORS: [IntegratorChoice; 5] = [
    IntegratorChoice::Leapfrog,
    IntegratorChoice::Yoshida4,
    IntegratorChoice::Yoshida6,
    IntegratorChoice::BlanesMoan4,
    IntegratorChoice::Hermite4,
];

const RELATIVE: Acceptance = Acceptance::Relative { alpha: 0.005, theta: 0.6 };

fn settings(solver: SolverChoice, acceptance: Acceptance, precision: Precision) -> GravitySettings {
    GravitySettings { g: 1.0, eps: 0.05, solver, acceptance, precision }
}

fn random_cloud(n: usize, settings: &GravitySettings) -> Bodies {
    random_cloud_on(n, settings, None)
}

fn random_cloud_on(n: usize, settings: &GravitySettings, setup: Option<&DeviceSetup>) -> Bodies {
    let mut bodies = Particles::with_capacity(n);
    for i in 0..n {
        let mut draws = Draws::new(6, 0, i as u64);
        bodies.push(Particle {
            position: [0; 3].map(|_| draws.uniform_in(-1.0, 1.0)),
            velocity: [0; 3].map(|_| draws.uniform_in(-0.5, 0.5)),
            mass: 1.0 / n as f64,
            id: i as u64,
            species: Species::Halo,
        });
    }
    Bodies::new(bodies, settings, setup).unwrap()
}

/// Returns two copies of the same bodies after a step, the second one with potentials.
fn bodies_after_step(n: usize, settings: &GravitySettings, integrator: IntegratorChoice) -> [Bodies; 2] {
    bodies_after_step_on(n, settings, integrator, None)
}

fn bodies_after_step_on(
    n: usize,
    settings: &GravitySettings,
    integrator: IntegratorChoice,
    setup: Option<&DeviceSetup>,
) -> [Bodies; 2] {
    let [mut plain, mut requested] = [0; 2].map(|_| random_cloud_on(n, settings, setup));
    integrator.step(&mut plain, 0.1).unwrap();
    integrator.step_with_potential(&mut requested, 0.1).unwrap();
    assert_eq!(plain.particles().unwrap(), requested.particles().unwrap(), "{integrator:?}, {settings:?}");
    assert_eq!(plain.acceleration().unwrap(), requested.acceleration().unwrap());
    [plain, requested]
}

/// Sizes are below and above that from which the direct sum in `mixed` uses f32.
#[test]
fn requested_potential_energy_has_the_bits_of_a_separate_evaluation() {
    for (solver, precision) in [SolverChoice::Direct, SolverChoice::Tree]
        .into_iter()
        .flat_map(|solver| Precision::ALL.map(|precision| (solver, precision)))
    {
        let settings = settings(solver, Acceptance::Geometric { theta: 0.6 }, precision);
        for (n, integrator) in [9, 700].into_iter().flat_map(|n| INTEGRATORS.map(|choice| (n, choice))) {
            let [plain, requested] = bodies_after_step(n, &settings, integrator);
            let energies = [&plain, &requested].map(|bodies| bodies.potential_energy().unwrap());
            assert_eq!(energies[0], energies[1], "{n} bodies, {integrator:?}, {settings:?}");
        }
    }
}

/// With the relative acceptance, a requested potential is computed with the accelerations of the
/// previous evaluation, and another one with the current accelerations. Different bits therefore
/// show that the potentials of the last evaluation are used.
#[test]
fn requested_potentials_are_used_until_the_positions_change() {
    let settings = settings(SolverChoice::Tree, RELATIVE, Precision::Mixed);
    for integrator in INTEGRATORS {
        let [mut plain, mut requested] = bodies_after_step(3000, &settings, integrator);
        let [separate, known] = [&plain, &requested].map(|bodies| bodies.potential_energy().unwrap());
        if integrator == IntegratorChoice::Hermite4 {
            assert_eq!(separate, known, "no potentials at the corrected positions");
            continue;
        }
        assert_ne!(separate, known, "{integrator:?}");
        // Errors of single forces are below 1e-3, and errors of a sum over all bodies below that.
        assert!((known - separate).abs() < 1e-3 * separate.abs(), "{integrator:?}: {known}, {separate}");
        // A kick moves no body.
        requested.kick(0.1).unwrap();
        assert_eq!(requested.potential_energy().unwrap(), known);
        plain.kick(0.1).unwrap();
        for bodies in [&mut plain, &mut requested] {
            bodies.drift(0.1).unwrap();
        }
        assert_eq!(plain.potential_energy().unwrap(), requested.potential_energy().unwrap());
        // The request is fulfilled, so the next step computes no potentials.
        for bodies in [&mut plain, &mut requested] {
            integrator.step(bodies, 0.1).unwrap();
        }
        assert_eq!(plain.potential_energy().unwrap(), requested.potential_energy().unwrap());
    }
}

#[test]
fn new_positions_have_their_own_potential_energy() {
    let settings = settings(SolverChoice::Tree, Acceptance::default(), Precision::Double);
    let [plain, mut requested] = bodies_after_step(700, &settings, IntegratorChoice::Leapfrog);
    let others = random_cloud(700, &settings);
    let Particles { position, velocity, .. } = others.particles().unwrap().clone();
    assert_ne!(plain.potential_energy().unwrap(), others.potential_energy().unwrap());
    requested.set_phase_space(position, velocity).unwrap();
    assert_eq!(requested.potential_energy().unwrap(), others.potential_energy().unwrap());
}

/// The tree of a device computes potentials along with the forces. The direct sum ignores the
/// request. A self-test compares all orders.
#[test]
fn requested_potentials_of_a_device_change_no_bit_of_the_motion() {
    for device in test_devices_with_f64() {
        let geometric = Acceptance::Geometric { theta: 0.6 };
        for (solver, integrator) in [
            (SolverChoice::Tree, IntegratorChoice::Leapfrog),
            (SolverChoice::Direct, IntegratorChoice::Yoshida4),
        ] {
            let settings = settings(solver, geometric, Precision::Mixed);
            let setup = DeviceSetup::new(&device, 900, &settings);
            let [plain, requested] = bodies_after_step_on(900, &settings, integrator, Some(&setup));
            assert_eq!(plain.potential_energy().unwrap(), requested.potential_energy().unwrap());
        }
    }
}

/// As on the host: known potentials are used until a body moves.
#[test]
fn requested_potentials_of_a_device_are_used_until_the_positions_change() {
    let settings = settings(SolverChoice::Tree, RELATIVE, Precision::Mixed);
    for device in test_devices_with_f64() {
        let setup = DeviceSetup::new(&device, 2000, &settings);
        for integrator in [IntegratorChoice::Leapfrog, IntegratorChoice::Yoshida4] {
            let [plain, mut requested] = bodies_after_step_on(2000, &settings, integrator, Some(&setup));
            let [separate, known] = [&plain, &requested].map(|bodies| bodies.potential_energy().unwrap());
            assert_ne!(separate, known, "{integrator:?}");
            requested.kick(0.1).unwrap();
            assert_eq!(requested.potential_energy().unwrap(), known);
            requested.drift(0.1).unwrap();
            let moved = requested.potential_energy().unwrap();
            assert_ne!(moved, known);
            requested.drift(-0.1).unwrap();
            assert_ne!(requested.potential_energy().unwrap(), moved);
        }
    }
}
