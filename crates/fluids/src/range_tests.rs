//! Fluids whose energies and forces are far from those of a liquid: hot and ideal gases, dense
//! systems, and distant particles.

use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::ic::lattice::{Lattice, set_maxwell_velocities};
use orrery_model::simulation_box::SimulationBox;

use super::ensemble::Ensemble;
use super::potential::{Potential, Truncation};
use super::settings::{PairPrecision, PairSearch};
use super::tests::settings;
use super::*;

/// A gas of this depth with kT = 1 on a lattice.
fn gas(epsilon: f64, ensemble: Ensemble) -> (FluidParticles, FluidSettings) {
    let mut particles = Lattice::Fcc.fill([5, 5, 5], 0.1);
    set_maxwell_velocities(&mut particles, &[1.0], 1.0, 3);
    let potential = Potential::mixed(&[(1.0, epsilon)], 2.5, Truncation::Truncated);
    let largest_kinetic = FluidSettings::largest_kinetic(&potential, &[1.0], DT);
    (particles, FluidSettings { ensemble, largest_kinetic, ..settings(potential) })
}

const DT: f64 = 0.01;
const RESCALING: Ensemble = Ensemble::Rescaling { kt: 2.0, time: 0.05, seed: 4 };

fn kinetic_energy(particles: &FluidParticles) -> f64 {
    particles.velocity.iter().map(|v| 0.5 * v.iter().map(|v| v * v).sum::<f64>()).sum()
}

/// The kinetic energy of 500 particles is 750 kT, far above 2^31 ε for ε below 3e-7 kT. A sum of 64
/// bits in units of 2^-32 ε wraps around.
#[test]
fn kinetic_energies_of_shallow_potentials_do_not_wrap_around() {
    for epsilon in [1e-7, 1e-9, 1e-300, 0.0] {
        for search in [PairSearch::Lists, PairSearch::AllPairs] {
            let (particles, settings) = gas(epsilon, RESCALING);
            let settings = FluidSettings { search, ..settings };
            let expected = kinetic_energy(&particles);
            let mut fluid = HostFluid::new(particles, &settings);
            let found = fluid.measure();
            assert!((found.kinetic / expected - 1.0).abs() < 1e-12, "{epsilon}: {found:?} {expected}");
            assert!(found.momentum.iter().all(|p| p.abs() < 1e-9), "{epsilon}: {found:?}");
            // 40 relaxation times. The standard deviation is 3.7%.
            fluid.advance(DT, 0, 200).unwrap();
            let temperature = 2.0 * fluid.measure().kinetic / fluid.degrees_of_freedom();
            assert!((temperature - 2.0).abs() < 0.3, "{epsilon}: {temperature}");
        }
    }
}

/// Devices and the host have the same bits for them, also in a thermostat, whose sum is taken on
/// the device.
#[test]
fn devices_have_the_bits_of_the_cpu_for_shallow_potentials() {
    for device in orrery_device::testing::test_devices_with_f64() {
        for (epsilon, ensemble) in [(1e-7, RESCALING), (0.0, RESCALING), (0.0, Ensemble::Nve)] {
            let (particles, settings) = gas(epsilon, ensemble);
            let mut host = HostFluid::new(particles.clone(), &settings);
            let mut fluid = DeviceFluid::new(&device, &particles, &settings).unwrap();
            host.advance(DT, 0, 30).unwrap();
            fluid.advance(DT, 0, 30).unwrap();
            assert!(fluid.particles().unwrap() == host.particles(), "{}, {epsilon}", device.title());
            assert_eq!(fluid.measure().unwrap(), host.measure(), "{}, {epsilon}", device.title());
        }
    }
}

/// Without interaction, particles move in straight lines, also through one another.
#[test]
fn an_ideal_gas_has_no_forces() {
    let bounds = SimulationBox::periodic([8.0; 3], 3);
    let coordinates = Vec3s { x: vec![1.0, 1.0, 3.0], y: vec![2.0, 2.0, 2.0], z: vec![4.0, 4.0, 4.0 + 1e-9] };
    for precision in [PairPrecision::Mixed, PairPrecision::Double] {
        for truncation in [Truncation::None, Truncation::Shifted, Truncation::Switched { start: 0.5 }] {
            for species in [&[(1.0, 0.0)][..], &[(1.0, 0.0), (0.7, 0.0)], &[(1.0, 0.0), (1.0, 1.0)]] {
                let potential = Potential::mixed(species, 2.5, truncation);
                potential.validate().unwrap();
                let mut particles = FluidParticles::at_rest(bounds, &coordinates);
                particles.velocity.x = vec![0.0, 0.0, -1.0];
                let settings =
                    FluidSettings { precision, search: PairSearch::AllPairs, ..settings(potential) };
                let mut fluid = HostFluid::new(particles, &settings);
                assert_eq!(fluid.measure().potential, 0.0);
                fluid.advance(0.25, 0, 8).unwrap();
                let x = fluid.particles().coordinates().x;
                assert!((x[2] - 1.0).abs() < 1e-12 && x[0] == x[1], "{x:?}");
                assert_eq!(fluid.measure().kinetic, 0.5);
            }
        }
    }
}

/// Dense systems have potential energies and virials above 2^31 ε.
#[test]
fn energies_of_dense_systems_do_not_wrap_around() {
    let particles = Lattice::Fcc.fill([5, 5, 5], 30.0);
    let settings = settings(Potential::mixed(&[(1.0, 1.0)], 1.2, Truncation::Truncated));
    let (mut potential, mut virial) = (0.0, 0.0);
    for k in 1..particles.len() {
        for other in 0..k {
            let d = particles.bounds.separation(particles.fractions(k), particles.fractions(other));
            let r2: f64 = d.iter().map(|x| x * x).sum();
            let term = settings.potential.pair_term(0, 0, r2);
            potential += term.energy;
            virial += term.force_over_r * r2;
        }
    }
    assert!(potential > 2f64.powi(31) && virial > 2f64.powi(34), "{potential:e} {virial:e}");
    let found = HostFluid::new(particles.clone(), &settings).measure();
    assert!((found.potential / potential - 1.0).abs() < 1e-9, "{found:?} {potential}");
    assert!((found.virial / virial - 1.0).abs() < 1e-9, "{found:?} {virial}");
    for device in orrery_device::testing::test_devices_with_f64() {
        assert_eq!(DeviceFluid::new(&device, &particles, &settings).unwrap().measure().unwrap(), found);
    }
}

/// A particle that is faster than any step allows makes the kinetic energy infinite, which ends a
/// run. It does not wrap around.
#[test]
fn energies_that_do_not_fit_are_infinite() {
    let (mut particles, settings) = gas(1.0, Ensemble::Nve);
    particles.velocity.x[7] = 1e9;
    let found = HostFluid::new(particles.clone(), &settings).measure();
    assert_eq!(found.kinetic, f64::INFINITY);
    assert!(found.potential.is_finite() && found.virial.is_finite());
    for device in orrery_device::testing::test_devices_with_f64() {
        assert_eq!(DeviceFluid::new(&device, &particles, &settings).unwrap().measure().unwrap(), found);
    }
}

/// Particles about 8 σ apart: forces of 1e-5 ε/σ, without a cutoff and with a long one, have the
/// error of f32 arithmetic, on the CPU and on devices. Multiples of 2^-16 ε/σ are 33% too large.
#[test]
fn far_forces_are_those_of_the_potential() {
    let filled = Lattice::SimpleCubic.fill([4, 4, 4], 8f64.powi(-3));
    let coordinates = filled.coordinates();
    let moved = |axis: usize, column: &[f64]| -> Vec<f64> {
        (0..).zip(column).map(|(k, x)| x + 0.3 * libm::sin(f64::from(k * (axis as i32 + 3)))).collect()
    };
    let [x, y, z] = [&coordinates.x, &coordinates.y, &coordinates.z];
    let coordinates = Vec3s { x: moved(0, x), y: moved(1, y), z: moved(2, z) };
    let open = SimulationBox::open([-1.0; 3], [33.0; 3], 3);
    let periodic = SimulationBox::periodic([32.0; 3], 3);
    for (bounds, cutoff, truncation, search) in [
        (open, 2.5, Truncation::None, PairSearch::AllPairs),
        (open, 25.0, Truncation::Shifted, PairSearch::Lists),
        (periodic, 15.0, Truncation::Switched { start: 0.6 }, PairSearch::Lists),
    ] {
        let particles = FluidParticles::at_rest(bounds, &coordinates);
        let settings =
            FluidSettings { search, ..settings(Potential::mixed(&[(1.0, 1.0)], cutoff, truncation)) };
        let fluid = HostFluid::new(particles.clone(), &settings);
        let forces = fluid.forces();
        for k in 0..particles.len() {
            let (mut expected, mut size) = ([0.0; 3], 0.0);
            for other in (0..particles.len()).filter(|&other| other != k) {
                let d = particles.bounds.separation(particles.fractions(k), particles.fractions(other));
                let r2: f64 = d.iter().map(|x| x * x).sum();
                let term = settings.potential.pair_term(0, 0, r2).force_over_r;
                (0..3).for_each(|axis| expected[axis] += term * d[axis]);
                size += term.abs() * r2.sqrt();
            }
            for axis in 0..3 {
                let error = (forces.get(k)[axis] - expected[axis]).abs();
                assert!(error < 3e-6 * size, "{truncation:?}, {k}: {error:e} of {size:e}");
            }
        }
        let mut host = fluid;
        host.advance(0.2, 0, 50).unwrap();
        for device in orrery_device::testing::test_devices_with_f64() {
            let mut fluid = DeviceFluid::new(&device, &particles, &settings).unwrap();
            fluid.advance(0.2, 0, 50).unwrap();
            assert!(fluid.particles().unwrap() == host.particles(), "{}", device.title());
        }
    }
}

/// Liquids with a long cutoff have close pairs too, with sums of 64 bits for both: the same bits
/// for every instruction set and on devices, and a constant energy.
#[test]
fn wide_sums_contain_close_pairs() {
    let mut particles = Lattice::Fcc.fill([5, 5, 5], 0.8442);
    set_maxwell_velocities(&mut particles, &[1.0], 8.0, 5);
    let settings = settings(Potential::mixed(&[(1.0, 1.0)], 3.7, Truncation::Switched { start: 0.8 }));
    let mut host = HostFluid::new(particles.clone(), &settings);
    let start = host.measure();
    host.advance(0.002, 0, 60).unwrap();
    let end = host.measure();
    let drift = (end.kinetic + end.potential - start.kinetic - start.potential) / particles.len() as f64;
    assert!(drift.abs() < 2e-3 && end.kinetic < 0.9 * start.kinetic, "{drift} {end:?}");
    for set in orrery_simd::InstructionSet::available() {
        let mut fluid = HostFluid::new(particles.clone(), &settings);
        fluid.set_instruction_set(set);
        fluid.advance(0.002, 0, 60).unwrap();
        assert!(fluid.particles() == host.particles(), "{}", set.name());
    }
    for device in orrery_device::testing::test_devices_with_f64() {
        let mut fluid = DeviceFluid::new(&device, &particles, &settings).unwrap();
        fluid.advance(0.002, 0, 60).unwrap();
        assert!(fluid.particles().unwrap() == host.particles(), "{}", device.title());
    }
}
