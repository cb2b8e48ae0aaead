//! Energy tests on every available device: closed orbits, a sphere in equilibrium, and a collapse.

use orrery_device::Device;
use orrery_device::testing::test_devices_with_f64;
use orrery_gravity::bodies::{Bodies, DeviceSetup};
use orrery_gravity::settings::GravitySettings;
use orrery_gravity::settings::IntegratorChoice::{self, Hermite4, Leapfrog, Yoshida6};
use orrery_model::ic::{FigureEight, Kepler, Plummer, UniformSphere};
use orrery_model::{Particles, Precision};
use orrery_validation::{
    difference, direct_settings, largest_distance, measured_order, norm, take_steps, total_energy,
    tree_settings,
};

fn with_direct_sum(device: &Device, start: &Particles, eps: f64, precision: Precision) -> Bodies {
    with_settings(device, start, &direct_settings(eps, precision))
}

fn with_settings(device: &Device, start: &Particles, settings: &GravitySettings) -> Bodies {
    let setup = DeviceSetup::new(device, start.len(), settings);
    Bodies::new(start.clone(), settings, Some(&setup)).unwrap()
}

/// Halving the step divides the distance between start and end of an orbit by 2^order.
#[test]
fn closure_error_of_an_orbit_has_the_stated_order() {
    for device in test_devices_with_f64() {
        let orbit = Kepler { primary_mass: 0.75, secondary_mass: 0.25, ..Kepler::default() };
        let start = orbit.generate(1.0).unwrap();
        let gap = |method: IntegratorChoice, steps: usize| {
            let mut bodies = with_direct_sum(&device, &start, 0.0, Precision::Double);
            take_steps(&mut bodies, method, orbit.period(1.0) / steps as f64, steps);
            norm(difference(bodies.particles().unwrap().position.get(0), start.position.get(0)))
        };
        for (method, steps) in [(Leapfrog, 200), (Hermite4, 100), (Yoshida6, 60)] {
            let order = measured_order(gap(method, steps), gap(method, 2 * steps));
            println!("{}, {method:?}: order {order:.2}", device.label());
            assert!((order - f64::from(method.order())).abs() < 0.2, "{method:?}: order {order}");
        }
    }
}

#[test]
fn figure_eight_returns_to_its_start() {
    for device in test_devices_with_f64() {
        let start = FigureEight.generate(1.0).unwrap();
        let mut bodies = with_direct_sum(&device, &start, 0.0, Precision::Double);
        let before = total_energy(&bodies);
        take_steps(&mut bodies, Yoshida6, FigureEight::PERIOD / 1000.0, 1000);
        let end = bodies.particles().unwrap();
        let gap = largest_distance(end, &start);
        let error = (total_energy(&bodies) - before) / before;
        println!("{}: gap {gap:.1e}, energy {error:.1e}", device.label());
        assert!(gap < 1e-6, "{gap}");
        assert!(error.abs() < 1e-10, "{error}");
    }
}

/// The energy that the device computes is the direct sum, and a sphere in equilibrium conserves it
/// in every precision.
#[test]
fn plummer_sphere_conserves_energy() {
    for device in test_devices_with_f64() {
        let start = Plummer { n: 512, ..Plummer::default() }.generate(1.0).unwrap();
        let [single, mixed, double] = Precision::ALL.map(|precision| {
            let mut bodies = with_direct_sum(&device, &start, 0.05, precision);
            let device_energy =
                |bodies: &Bodies| bodies.kinetic_energy().unwrap() + bodies.potential_energy().unwrap();
            let before = device_energy(&bodies);
            assert!(((before - total_energy(&bodies)) / before).abs() < 1e-13);
            take_steps(&mut bodies, Leapfrog, 0.01, 100);
            (device_energy(&bodies) - before) / before
        });
        println!("{}: single {single:.2e}, mixed {mixed:.2e}, double {double:.2e}", device.label());
        // The error of leapfrog at this step is 1e-5. f32 products add random errors of 2⁻²⁴, which
        // average out.
        assert!(double.abs() < 3e-5, "{double}");
        assert!((single - double).abs() < 1e-7 && (mixed - double).abs() < 1e-7, "{single} {mixed} {double}");
    }
}

/// With the tree, force errors add to the energy drift of the same sphere. They are 5e-4 rms at
/// theta = 0.6 with random signs, which gives a factor of 1/√N. The drift on a device has the same
/// bound as on the CPU. The error of the potential energy from the tree is smaller than that of a
/// force.
#[test]
fn plummer_sphere_with_the_tree_conserves_energy() {
    let n = 2000;
    let start = Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
    let bound = 4.0 * 5e-4 / (n as f64).sqrt();
    let energy_drift = |mut bodies: Bodies| {
        assert_eq!(bodies.solver_name(), "tree");
        let before = total_energy(&bodies);
        let computed = bodies.kinetic_energy().unwrap() + bodies.potential_energy().unwrap();
        assert!(((computed - before) / before).abs() < 5e-4, "{computed} {before}");
        take_steps(&mut bodies, Leapfrog, 0.01, 25);
        (total_energy(&bodies) - before) / before
    };
    for precision in Precision::ALL {
        let settings = tree_settings(0.05, 0.6, precision);
        let host = energy_drift(Bodies::new(start.clone(), &settings, None).unwrap());
        println!("CPU, {precision:?}: {host:.1e}");
        assert!(host.abs() < bound, "{precision:?}: {host}");
        for device in test_devices_with_f64() {
            let found = energy_drift(with_settings(&device, &start, &settings));
            println!("{}, {precision:?}: {found:.1e}", device.label());
            assert!(found.abs() < bound, "{precision:?}: {found}");
        }
    }
}

/// As in collapse.rs, with fewer steps: f32 forces cause a floor of the energy error below 1e-8.
#[test]
fn energy_error_of_f32_forces_has_a_floor_below_1e_8() {
    for device in test_devices_with_f64() {
        let start = UniformSphere { n: 1024, ..UniformSphere::default() }.generate(1.0).unwrap();
        let error = |precision| {
            let mut bodies = with_direct_sum(&device, &start, 0.125, precision);
            let before = total_energy(&bodies);
            take_steps(&mut bodies, Leapfrog, 1.5 / 150.0, 150);
            (total_energy(&bodies) - before) / before
        };
        let double = error(Precision::Double);
        assert!(double.abs() < 1e-3, "{double}");
        for precision in [Precision::Single, Precision::Mixed] {
            let floor = (error(precision) - double).abs();
            println!("{}, {precision:?}: floor {floor:.1e}", device.label());
            assert!(floor < 1e-8, "{precision:?}: floor {floor}");
        }
    }
}
