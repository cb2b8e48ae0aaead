//! The energy tests on every device there is: orbits that close, a sphere in equilibrium and one that collapses.

use orrery_device::Device;
use orrery_model::Particles;
use orrery_model::ic::{FigureEight, Kepler, Plummer, UniformSphere};
use orrery_particles::bodies::{Bodies, DeviceSetup};
use orrery_particles::settings::IntegratorChoice::{self, Hermite4, Leapfrog, Yoshida6};
use orrery_particles::settings::{GravitySettings, Precision};
use orrery_validation::{
    PRECISIONS, advance, difference, direct, energy, largest_distance, measured_order, norm, tree,
};

/// All devices; none is a failure, unless tests are told so.
fn devices() -> Vec<Device> {
    let found = Device::list();
    let excused = std::env::var_os("ORRERY_NO_DEVICE_TESTS").is_some();
    assert!(!found.devices.is_empty() || excused, "{}", found.notes.join("; "));
    found.devices.into_iter().filter(|device| device.properties().has_f64).collect()
}

fn on(device: &Device, start: &Particles, eps: f64, precision: Precision) -> Bodies {
    under(device, start, &direct(eps, precision))
}

fn under(device: &Device, start: &Particles, settings: &GravitySettings) -> Bodies {
    let setup = DeviceSetup::new(device, start.len(), settings);
    Bodies::new(start.clone(), settings, Some(&setup)).unwrap()
}

/// Halving the step divides the distance by which an orbit does not close by 2^order.
#[test]
fn two_bodies_come_back() {
    for device in devices() {
        let orbit = Kepler { primary_mass: 0.75, secondary_mass: 0.25, ..Kepler::default() };
        let start = orbit.generate(1.0).unwrap();
        let gap = |method: IntegratorChoice, steps: usize| {
            let mut bodies = on(&device, &start, 0.0, Precision::Double);
            advance(&mut bodies, method, orbit.period(1.0) / steps as f64, steps);
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
fn the_figure_eight_closes() {
    for device in devices() {
        let start = FigureEight.generate(1.0).unwrap();
        let mut bodies = on(&device, &start, 0.0, Precision::Double);
        let before = energy(&bodies);
        advance(&mut bodies, Yoshida6, FigureEight::PERIOD / 1000.0, 1000);
        let end = bodies.particles().unwrap();
        let gap = largest_distance(end, &start);
        let error = (energy(&bodies) - before) / before;
        println!("{}: gap {gap:.1e}, energy {error:.1e}", device.label());
        assert!(gap < 1e-6, "{gap}");
        assert!(error.abs() < 1e-10, "{error}");
    }
}

/// The device's own energy is the sum over all pairs, and a sphere in equilibrium keeps it in every arithmetic.
#[test]
fn a_plummer_sphere_keeps_its_energy() {
    for device in devices() {
        let start = Plummer { n: 512, ..Plummer::default() }.generate(1.0).unwrap();
        let [single, mixed, double] = PRECISIONS.map(|precision| {
            let mut bodies = on(&device, &start, 0.05, precision);
            let own = |bodies: &Bodies| bodies.kinetic_energy().unwrap() + bodies.potential_energy().unwrap();
            let before = own(&bodies);
            assert!(((before - energy(&bodies)) / before).abs() < 1e-13);
            advance(&mut bodies, Leapfrog, 0.01, 100);
            (own(&bodies) - before) / before
        });
        println!("{}: single {single:.2e}, mixed {mixed:.2e}, double {double:.2e}", device.label());
        // Leapfrog's own error at this step is 1e-5; f32 products add random roundings of 2⁻²⁴ that average out.
        assert!(double.abs() < 3e-5, "{double}");
        assert!((single - double).abs() < 1e-7 && (mixed - double).abs() < 1e-7, "{single} {mixed} {double}");
    }
}

/// Under the tree the same sphere drifts by what the forces err besides (5e-4 rms at theta = 0.6, of either sign, so √N
/// below that), no more than on the processor; its own energy errs by less than a force does.
#[test]
fn a_plummer_sphere_keeps_its_energy_under_the_tree() {
    let n = 2000;
    let start = Plummer { n, ..Plummer::default() }.generate(1.0).unwrap();
    let bound = 4.0 * 5e-4 / (n as f64).sqrt();
    let drift = |mut bodies: Bodies| {
        assert_eq!(bodies.solver_name(), "tree");
        let before = energy(&bodies);
        let own = bodies.kinetic_energy().unwrap() + bodies.potential_energy().unwrap();
        assert!(((own - before) / before).abs() < 5e-4, "{own} {before}");
        advance(&mut bodies, Leapfrog, 0.01, 100);
        (energy(&bodies) - before) / before
    };
    for precision in PRECISIONS {
        let settings = tree(0.05, 0.6, precision);
        let host = drift(Bodies::new(start.clone(), &settings, None).unwrap());
        println!("processor, {precision:?}: {host:.1e}");
        assert!(host.abs() < bound, "{precision:?}: {host}");
        for device in devices() {
            let found = drift(under(&device, &start, &settings));
            println!("{}, {precision:?}: {found:.1e}", device.label());
            assert!(found.abs() < bound, "{precision:?}: {found}");
        }
    }
}

/// As in collapse.rs, with fewer steps: f32 forces leave a floor below 1e-8 of the energy, whatever the step.
#[test]
fn a_collapse_has_the_floor_of_its_arithmetic() {
    for device in devices() {
        let start = UniformSphere { n: 1024, ..UniformSphere::default() }.generate(1.0).unwrap();
        let error = |precision| {
            let mut bodies = on(&device, &start, 0.125, precision);
            let before = energy(&bodies);
            advance(&mut bodies, Leapfrog, 1.5 / 150.0, 150);
            (energy(&bodies) - before) / before
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
