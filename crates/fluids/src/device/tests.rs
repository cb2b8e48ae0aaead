//! Trajectories on devices against those of the CPU, bit for bit.

use orrery_model::fluid::FluidParticles;
use orrery_model::ic::lattice::{Lattice, random_positions, set_maxwell_velocities};
use orrery_model::simulation_box::SimulationBox;

use super::{DeviceFluid, DeviceFluidError, FluidStrategy};
use crate::HostFluid;
use crate::ensemble::Ensemble;
use crate::potential::{Potential, Truncation};
use crate::settings::{FluidSettings, PairPrecision, PairSearch};
use crate::tests::{plain_settings, settings};

/// Particles of one or two species on a lattice that moves, in two or three dimensions.
fn moving_lattice(dimensions: usize, species: usize, seed: u64) -> FluidParticles {
    let mut particles = match dimensions {
        2 => Lattice::Square.fill([18, 16, 1], 0.75),
        _ => Lattice::Fcc.fill([5, 4, 4], 0.75),
    };
    particles.species.iter_mut().enumerate().for_each(|(k, s)| *s = (k % species) as u8);
    set_maxwell_velocities(&mut particles, &[1.0, 2.0], 1.3, seed);
    particles
}

/// Settings of one or two species, the second with another size, depth and mass.
fn settings_of_species(species: usize, truncation: Truncation) -> FluidSettings {
    let parameters = [(1.0, 1.0), (0.9, 0.7)];
    let mut settings = settings(Potential::mixed(&parameters[..species], 2.5, truncation));
    settings.mass = [1.0, 2.0][..species].to_vec();
    settings
}

/// Advances on the CPU and on the device, and compares all bits of particles and measures after
/// each number of steps. Returns the fluid.
fn assert_same_trajectory(
    device: &orrery_device::Device,
    particles: &FluidParticles,
    settings: &FluidSettings,
    strategy: &FluidStrategy,
    batches: &[u64],
) -> DeviceFluid {
    let label = format!("{}, {settings:?}, {strategy:?}", device.title());
    let mut host = HostFluid::new(particles.clone(), settings);
    let mut fluid = DeviceFluid::with_strategy(device, particles, settings, strategy).unwrap();
    assert_eq!(fluid.measure().unwrap(), host.measure(), "{label}");
    let mut done = 0;
    for &steps in batches {
        host.advance(0.004, done, steps).unwrap();
        fluid.advance(0.004, done, steps).unwrap();
        done += steps;
        assert!(fluid.particles().unwrap() == host.particles(), "{label}, {done} steps");
        assert_eq!(fluid.measure().unwrap(), host.measure(), "{label}, {done} steps");
    }
    if strategy.skin == settings.skin {
        // Rounding may delay the build of a list by a step, and an open box that grows builds
        // lists.
        let (found, expected) = (fluid.rebuilds(), host.rebuilds());
        assert!(found.abs_diff(expected) <= 1 + expected / 50, "{label}: {found} {expected}");
    }
    fluid
}

/// The same bits as on the CPU, for lists and all pairs, one and two species, all dimensions and
/// truncations, and with lists that are too short at first.
#[test]
fn a_device_has_the_trajectory_of_the_cpu() {
    for device in orrery_device::testing::test_devices_with_f64() {
        for case in 0..6 {
            let (dimensions, species) = (3 - case % 2, 1 + case / 3);
            let particles = moving_lattice(dimensions, species, case as u64);
            let truncation =
                [Truncation::Truncated, Truncation::Shifted, Truncation::Switched { start: 0.8 }][case % 3];
            let mut settings = settings_of_species(species, truncation);
            if case == 5 {
                settings.search = PairSearch::AllPairs;
            }
            let strategy = FluidStrategy::default_for(&device, particles.len(), &settings);
            let fluid = assert_same_trajectory(&device, &particles, &settings, &strategy, &[1, 2, 40, 7]);
            assert!(case == 5 || fluid.rebuilds() > 2, "{}", fluid.rebuilds());
        }
    }
}

/// Thermostats, one step and several steps per launch, one and several threads per particle.
#[test]
fn strategies_and_thermostats_have_the_trajectory_of_the_cpu() {
    let ensembles = [
        Ensemble::Nve,
        Ensemble::Langevin { kt: 1.1, friction: 3.0, seed: 1 << 40 | 7 },
        Ensemble::Rescaling { kt: 1.1, time: 0.05, seed: 1 << 40 | 7 },
    ];
    for device in orrery_device::testing::test_devices_with_f64() {
        for (case, ensemble) in ensembles.into_iter().enumerate() {
            let mut particles = moving_lattice(3 - case % 2, 2, case as u64);
            particles.id.iter_mut().for_each(|id| *id += 1 << 33);
            let settings = FluidSettings { ensemble, ..settings_of_species(2, Truncation::Truncated) };
            let default = FluidStrategy::default_for(&device, particles.len(), &settings);
            for (search, lanes, steps_per_launch) in
                [(PairSearch::Lists, 1, 1), (PairSearch::Lists, 4, 64), (PairSearch::AllPairs, 2, 64)]
            {
                let settings = FluidSettings { search, ..settings.clone() };
                let strategy = FluidStrategy { lanes, steps_per_launch, ..default };
                let fluid = assert_same_trajectory(&device, &particles, &settings, &strategy, &[1, 2, 40, 7]);
                assert!(search == PairSearch::AllPairs || fluid.rebuilds() > 2, "{}", fluid.rebuilds());
            }
        }
    }
}

/// Particles fly away, and the box is doubled at the same step as on the CPU: with lists, and with
/// all pairs without a cutoff, of the damped form.
#[test]
fn open_boxes_on_devices_have_the_trajectory_of_the_cpu() {
    for device in orrery_device::testing::test_devices_with_f64() {
        for (dimensions, ensemble) in [
            (3, Ensemble::Nve),
            (2, Ensemble::Nve),
            (3, Ensemble::Langevin { kt: 4.0, friction: 0.1, seed: 3 }),
        ] {
            let filled = moving_lattice(dimensions, 1, 8);
            let bounds = SimulationBox::open([0.0; 3], filled.bounds.lengths, dimensions);
            let mut particles = FluidParticles::at_rest(bounds, &filled.coordinates());
            particles.velocity = filled.velocity;
            // One particle leaves the middle half during the first steps.
            particles.velocity.x[0] = -60.0;
            let mut settings = FluidSettings { ensemble, ..settings_of_species(1, Truncation::Shifted) };
            if dimensions == 2 {
                settings.potential = Potential::mixed(&[(1.0, 1.0)], 2.5, Truncation::None).damped(0.2);
            }
            let strategy = FluidStrategy::default_for(&device, particles.len(), &settings);
            let fluid = assert_same_trajectory(&device, &particles, &settings, &strategy, &[3, 60, 250]);
            assert!(fluid.bounds().lengths[0] > bounds.lengths[0]);
        }
    }
}

/// Boxes that are fewer than three cells wide, long and flat ones, and few particles in a large
/// box: lists contain all neighbours.
#[test]
fn lists_on_devices_are_complete() {
    for device in orrery_device::testing::test_devices_with_f64() {
        for lengths in [[5.7, 6.0, 5.8], [5.9, 30.0, 6.5], [60.0, 6.0, 9.0], [9.0, 12.0, 40.0], [80.0; 3]] {
            let particles = random_positions(SimulationBox::periodic(lengths, 3), 700, 3);
            let mut settings = settings_of_species(1, Truncation::Truncated);
            // Energies of random particles are finite with the damped form.
            settings.potential = settings.potential.damped(0.8);
            let strategy = FluidStrategy::default_for(&device, particles.len(), &settings);
            assert_same_trajectory(&device, &particles, &settings, &strategy, &[5]);
        }
    }
}

#[test]
fn a_device_reports_an_exploding_system() {
    let bounds = SimulationBox::periodic([10.0; 3], 3);
    let coordinates = orrery_model::Vec3s { x: vec![1.0, 1.3, 5.0], y: vec![1.0; 3], z: vec![1.0; 3] };
    let mut particles = FluidParticles::at_rest(bounds, &coordinates);
    particles.id = vec![7, 8, 9];
    for device in orrery_device::testing::test_devices_with_f64() {
        let settings = plain_settings(Truncation::Truncated);
        let mut fluid = DeviceFluid::new(&device, &particles, &settings).unwrap();
        let error = fluid.advance(0.005, 40, 10).unwrap_err();
        let expected = HostFluid::new(particles.clone(), &settings).advance(0.005, 40, 10).unwrap_err();
        assert_eq!(error, DeviceFluidError::Exploded(expected));
    }
}

/// Forces are not saved: a fluid that is made of the particles of another continues bit for bit,
/// with any strategy.
#[test]
fn a_device_continues_from_its_particles() {
    let mut particles = Lattice::Fcc.fill([5, 4, 4], 0.75);
    set_maxwell_velocities(&mut particles, &[1.0], 1.3, 3);
    let settings = plain_settings(Truncation::Truncated);
    for device in orrery_device::testing::test_devices_with_f64() {
        let mut whole = DeviceFluid::new(&device, &particles, &settings).unwrap();
        whole.advance(0.004, 0, 30).unwrap();
        let mut first = DeviceFluid::new(&device, &particles, &settings).unwrap();
        first.advance(0.004, 0, 13).unwrap();
        let strategy = FluidStrategy { skin: 0.45, ..*first.strategy() };
        let middle = first.particles().unwrap();
        let mut second = DeviceFluid::with_strategy(&device, &middle, &settings, &strategy).unwrap();
        second.advance(0.004, 13, 17).unwrap();
        assert!(second.particles().unwrap() == whole.particles().unwrap());
        assert_eq!(second.measure().unwrap(), whole.measure().unwrap());
    }
}

#[test]
fn a_device_refuses_what_it_does_not_support() {
    let particles = Lattice::Fcc.fill([4, 4, 4], 0.75);
    let mut settings = plain_settings(Truncation::Truncated);
    settings.precision = PairPrecision::Double;
    for device in orrery_device::testing::test_devices_with_f64() {
        let error = DeviceFluid::new(&device, &particles, &settings).unwrap_err().to_string();
        assert_eq!(error, "forces in double precision need the CPU; on devices they have mixed precision");
    }
}

/// The estimate is an upper one, and not ten times too high.
#[test]
fn the_memory_of_a_device_fluid_is_estimated() {
    let particles = Lattice::Fcc.fill([12, 12, 12], 0.75);
    let settings = plain_settings(Truncation::Truncated);
    let estimate = DeviceFluid::device_bytes(particles.len(), &settings, &particles.bounds);
    for device in orrery_device::testing::test_devices_with_f64() {
        let fluid = DeviceFluid::new(&device, &particles, &settings).unwrap();
        let bytes = fluid.allocated_bytes();
        assert!(bytes <= estimate && estimate < 2 * bytes + (2 << 20), "{bytes} {estimate}");
    }
}

/// Prints the speed of all strategies that the tuner measures, with measures every 100 steps.
#[test]
#[ignore = "prints times"]
fn speed_of_the_melt_on_devices() {
    for device in orrery_device::testing::test_devices_with_f64() {
        if device.properties().backend != orrery_device::Backend::Cuda {
            continue;
        }
        for (cells, steps) in [([16, 8, 8], 4000), ([32, 32, 16], 2000), ([64, 64, 64], 200), ([160; 3], 100)]
        {
            let mut particles = Lattice::Fcc.fill(cells, 0.8442);
            set_maxwell_velocities(&mut particles, &[1.0], 1.44, 5);
            let settings = plain_settings(Truncation::Truncated);
            let mut melted = DeviceFluid::new(&device, &particles, &settings).unwrap();
            melted.advance(0.005, 0, 400).unwrap();
            particles = melted.particles().unwrap();
            drop(melted);
            let mut strategies = FluidStrategy::candidates(&device, particles.len(), &settings);
            if cells == [160; 3] {
                strategies.truncate(1);
            }
            for strategy in strategies {
                print_speed(&device, &particles, &settings, &strategy, steps);
            }
        }
    }
}

fn print_speed(
    device: &orrery_device::Device,
    particles: &FluidParticles,
    settings: &FluidSettings,
    strategy: &FluidStrategy,
    steps: u64,
) {
    let n = particles.len();
    let mut fluid = DeviceFluid::with_strategy(device, particles, settings, strategy).unwrap();
    fluid.advance(0.005, 0, 100).unwrap();
    let (before, start) = (fluid.rebuilds(), std::time::Instant::now());
    let mut energy = 0.0;
    for _ in 0..steps / 100 {
        fluid.advance(0.005, 0, 100).unwrap();
        let measures = fluid.measure().unwrap();
        energy = (measures.kinetic + measures.potential) / n as f64;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "n {n}, {}: {:.0} steps/s, {:.3e} particle-steps/s, {:.1} steps per build, E {energy:.6}",
        strategy.describe(),
        steps as f64 / seconds,
        steps as f64 * n as f64 / seconds,
        steps as f64 / (fluid.rebuilds() - before) as f64,
    );
}
