//! Bodies whose forces several ranks compute together have the bits of bodies on one rank.

use orrery_cluster::{Team, threads};
use orrery_device::Device;
use orrery_device::testing::test_devices_with_f64;
use orrery_gravity::bodies::{Bodies, BodiesError, BodiesTeam, CheckStamp, DeviceSetup, follow};
use orrery_gravity::integrator::{adaptive, leapfrog_step};
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice};
use orrery_gravity::solver::device::DeviceStrategy;
use orrery_gravity::solver::direct::device::{DirectDeviceStrategy, DirectKernel};
use orrery_model::ic::Plummer;
use orrery_model::{Particles, Precision, Vec3s};

const GEOMETRIC: Acceptance = Acceptance::Geometric { theta: 0.7 };
const RELATIVE: Acceptance = Acceptance::Relative { alpha: 0.01, theta: 0.7 };

/// Bodies for mixed precision, which is f64 for fewer than 512.
const MANY: usize = 700;

fn settings(solver: SolverChoice, acceptance: Acceptance, precision: Precision) -> GravitySettings {
    GravitySettings { g: 1.5, eps: 0.05, solver, acceptance, precision }
}

fn direct(precision: Precision) -> GravitySettings {
    settings(SolverChoice::Direct, GEOMETRIC, precision)
}

/// Bodies that are clustered at the first index, so that parts of equal size have unequal work.
/// Every fifth has no mass.
fn uneven_bodies(n: usize) -> Particles {
    if n == 0 {
        return Particles::default();
    }
    let mut particles = Plummer { n, ..Plummer::default() }.generate(1.5).expect("a valid model");
    for i in 0..n {
        if i < n / 3 {
            particles.position.set(i, particles.position.get(i).map(|x| 0.01 * x));
        }
        if i % 5 == 4 {
            particles.mass[i] = 0.0;
        }
    }
    particles
}

/// Creates bodies on one rank, or on the ranks of a team.
struct Creator<'a> {
    team: Option<&'a BodiesTeam>,
    device: Option<&'a Device>,
    /// Strategy of the device, if it is not the default.
    strategy: Option<DeviceStrategy>,
}

impl Creator<'_> {
    fn setup(&self, n: usize, settings: &GravitySettings) -> Option<DeviceSetup> {
        let setup = DeviceSetup::new(self.device?, n, settings);
        Some(DeviceSetup { strategy: self.strategy.unwrap_or(setup.strategy), ..setup })
    }

    fn create(&self, particles: Particles, settings: &GravitySettings) -> Result<Bodies, BodiesError> {
        let setup = self.setup(particles.len(), settings);
        match self.team {
            Some(team) => Bodies::new_on_team(team, particles, settings, setup.as_ref()),
            None => Bodies::new(particles, settings, setup.as_ref()),
        }
    }

    /// Restores the state of `saved`, as from a checkpoint.
    fn restore(&self, saved: &Bodies) -> Result<Bodies, BodiesError> {
        let (particles, settings) = (saved.particles()?.clone(), saved.settings());
        let (acceleration, jerk) = (saved.acceleration()?.clone(), saved.known_jerk()?.cloned());
        let setup = self.setup(particles.len(), settings);
        let bodies = Bodies::restore(particles, acceleration, jerk, settings);
        let bodies = match self.team {
            Some(team) => bodies.shared_with(team)?,
            None => bodies,
        };
        match setup {
            Some(setup) => bodies.moved_to(&setup),
            None => Ok(bodies),
        }
    }
}

type Scenario<'a> = &'a (dyn Fn(&Creator) -> Result<Vec<u64>, BodiesError> + Sync);

/// Runs a scenario on one rank without a team, then on teams, and compares the bits.
fn compare(name: &str, device: Option<&Device>, strategy: Option<DeviceStrategy>, scenario: Scenario<'_>) {
    let expected = scenario(&Creator { team: None, device, strategy }).expect("no error on one rank");
    for ranks in [1, 2, 3, 4] {
        let found = threads::run(ranks, |transport| {
            let team = Team::new(transport);
            if !team.is_leader() {
                return follow(&team, device).map(|()| Vec::new());
            }
            let team = BodiesTeam::lead(&team);
            scenario(&Creator { team: Some(&team), device, strategy })
        });
        let found = found.unwrap_or_else(|error| panic!("{name}, {ranks} ranks: {error}"));
        assert!(found[0] == expected, "{name}, {ranks} ranks: other bits");
    }
}

/// The bits of the state and of the energies.
fn bits_of(bodies: &Bodies) -> Result<Vec<u64>, BodiesError> {
    let particles = bodies.particles()?;
    let mut values = vec![bodies.kinetic_energy()?, bodies.potential_energy()?];
    let none = Vec3s::default();
    let jerk = bodies.known_jerk()?.unwrap_or(&none);
    for Vec3s { x, y, z } in [&particles.position, &particles.velocity, bodies.acceleration()?, jerk] {
        values.extend([x, y, z].into_iter().flatten());
    }
    values.extend(&particles.mass);
    Ok(values.into_iter().map(f64::to_bits).chain(particles.id.iter().copied()).collect())
}

/// Takes steps, and requests the potentials of the last one.
fn take_steps(bodies: &mut Bodies, integrator: IntegratorChoice, steps: u64) -> Result<(), BodiesError> {
    for step in 1..=steps {
        if step == steps {
            integrator.step_with_potential(bodies, 0.003)?;
        } else {
            integrator.step(bodies, 0.003)?;
        }
        bodies.check_step(CheckStamp { step, time: 0.003 * step as f64 })?;
    }
    Ok(())
}

fn compare_steps(
    device: Option<&Device>,
    strategy: Option<DeviceStrategy>,
    settings: &GravitySettings,
    (n, steps, integrator): (usize, u64, IntegratorChoice),
) {
    let name = format!("{n} bodies, {integrator:?}, {settings:?}, {strategy:?}");
    compare(&name, device, strategy, &|creator| {
        let mut bodies = creator.create(uneven_bodies(n), settings)?;
        take_steps(&mut bodies, integrator, steps)?;
        bits_of(&bodies)
    });
}

#[test]
fn steps_on_the_host_have_the_bits_of_one_rank() {
    for precision in Precision::ALL {
        for acceptance in [GEOMETRIC, RELATIVE] {
            let tree = settings(SolverChoice::Tree, acceptance, precision);
            compare_steps(None, None, &tree, (MANY, 20, IntegratorChoice::Leapfrog));
        }
        compare_steps(None, None, &direct(precision), (MANY, 20, IntegratorChoice::Leapfrog));
    }
    compare_steps(None, None, &direct(Precision::Mixed), (60, 5, IntegratorChoice::Hermite4));
    compare_steps(None, None, &direct(Precision::Double), (60, 5, IntegratorChoice::Yoshida4));
}

#[test]
fn fewer_bodies_than_ranks_have_the_bits_of_one_rank() {
    let tree = settings(SolverChoice::Tree, RELATIVE, Precision::Mixed);
    for n in [0, 1, 2, 3] {
        compare_steps(None, None, &tree, (n, 3, IntegratorChoice::Leapfrog));
        compare_steps(None, None, &direct(Precision::Single), (n, 3, IntegratorChoice::Hermite4));
    }
    for device in test_devices_with_f64() {
        for n in [0, 1, 3] {
            compare_steps(Some(&device), None, &tree, (n, 3, IntegratorChoice::Leapfrog));
            compare_steps(Some(&device), None, &direct(Precision::Mixed), (n, 3, IntegratorChoice::Hermite4));
        }
    }
}

#[test]
fn steps_on_devices_have_the_bits_of_one_rank() {
    for device in test_devices_with_f64() {
        for (acceptance, precision) in
            [(GEOMETRIC, Precision::Single), (RELATIVE, Precision::Mixed), (GEOMETRIC, Precision::Double)]
        {
            let tree = settings(SolverChoice::Tree, acceptance, precision);
            compare_steps(Some(&device), None, &tree, (MANY, 20, IntegratorChoice::Leapfrog));
        }
        for precision in Precision::ALL {
            compare_steps(Some(&device), None, &direct(precision), (MANY, 20, IntegratorChoice::Leapfrog));
        }
        compare_steps(Some(&device), None, &direct(Precision::Mixed), (300, 3, IntegratorChoice::Hermite4));
    }
}

/// Body blocks of 64: the number of blocks is even or odd, one round has all chunks or only some,
/// and there are fewer or more chunks than segments.
#[test]
fn pairs_evaluated_once_have_the_bits_of_one_rank() {
    for device in test_devices_with_f64() {
        for (n, splits) in [(63, 1), (300, 1), (64 * 12, 2), (64 * 45 + 1, 1)] {
            let strategy = DirectDeviceStrategy {
                kernel: DirectKernel::PairsOnce,
                precision: Precision::Single,
                block: 64,
                targets: 1,
                unroll: 4,
                splits,
            };
            let run = (n, 2, IntegratorChoice::Leapfrog);
            compare_steps(Some(&device), Some(strategy.into()), &direct(Precision::Single), run);
        }
    }
}

/// The steps of a copy do not affect the bodies, and copies live as long as they are needed.
fn look_ahead(creator: &Creator) -> Result<Vec<u64>, BodiesError> {
    let tree = settings(SolverChoice::Tree, RELATIVE, Precision::Mixed);
    let mut bodies = creator.create(uneven_bodies(520), &tree)?;
    let mut bits = Vec::new();
    let mut earlier = None;
    for _ in 0..3 {
        let mut copy = bodies.try_clone()?;
        leapfrog_step(&mut copy, 0.001)?;
        bits.extend(bits_of(&copy)?);
        leapfrog_step(&mut bodies, 0.003)?;
        earlier = Some(copy);
    }
    if let Some(mut copy) = earlier {
        leapfrog_step(&mut copy, 0.002)?;
        bits.extend(bits_of(&copy)?);
    }
    bits.extend(bits_of(&bodies)?);
    Ok(bits)
}

/// Steps from a state that was saved, with jerks, and from replaced positions.
fn restored(creator: &Creator) -> Result<Vec<u64>, BodiesError> {
    let mut saved = Bodies::new(uneven_bodies(200), &direct(Precision::Double), None)?;
    IntegratorChoice::Hermite4.step(&mut saved, 0.003)?;
    let mut bodies = creator.restore(&saved)?;
    IntegratorChoice::Hermite4.step(&mut bodies, 0.003)?;
    let mut bits = bits_of(&bodies)?;
    let Particles { position, velocity, .. } = uneven_bodies(200);
    bodies.set_phase_space(position, velocity)?;
    bodies.update_forces()?;
    take_steps(&mut bodies, IntegratorChoice::Leapfrog, 2)?;
    bits.extend(bits_of(&bodies)?);
    Ok(bits)
}

/// Steps that follow from the accelerations and, without softening, from the closest pair.
fn adaptive_steps(creator: &Creator) -> Result<Vec<u64>, BodiesError> {
    let mut bits = Vec::new();
    for eps in [0.05, 0.0] {
        let mut bodies =
            creator.create(uneven_bodies(150), &GravitySettings { eps, ..direct(Precision::Double) })?;
        for _ in 0..5 {
            let dt = adaptive::step_length(&bodies, 0.01)?;
            bits.push(dt.to_bits());
            leapfrog_step(&mut bodies, dt)?;
        }
        bits.extend(bits_of(&bodies)?);
    }
    Ok(bits)
}

#[test]
fn copies_restored_bodies_and_adaptive_steps_have_the_bits_of_one_rank() {
    let devices = test_devices_with_f64();
    for device in devices.iter().map(Some).chain([None]) {
        compare("look-ahead", device, None, &look_ahead);
        compare("restored", device, None, &restored);
        compare("adaptive", device, None, &adaptive_steps);
    }
}

/// After a NaN the bodies of all ranks stop at the same step. They continue from new positions.
#[test]
fn all_ranks_continue_after_a_non_finite_value() {
    let scenario = |creator: &Creator| {
        let mut bodies = creator.create(uneven_bodies(65), &direct(Precision::Double))?;
        let fine = uneven_bodies(65);
        let mut broken = fine.position.clone();
        broken.x[7] = f64::NAN;
        bodies.set_phase_space(broken, fine.velocity.clone())?;
        let mut failed = false;
        for step in 1..=3 {
            // A device finds the value some calls later.
            failed |= leapfrog_step(&mut bodies, 0.003).is_err();
            failed |= bodies.check_step(CheckStamp { step, time: 0.0 }).is_err();
        }
        failed |= bodies.particles().is_err() || bodies.check_finite().is_err();
        assert!(failed);
        bodies.set_phase_space(fine.position, fine.velocity)?;
        bodies.update_forces()?;
        take_steps(&mut bodies, IntegratorChoice::Leapfrog, 2)?;
        bits_of(&bodies)
    };
    let devices = test_devices_with_f64();
    for device in devices.iter().map(Some).chain([None]) {
        compare("NaN", device, None, &scenario);
    }
}

/// Each part has the accelerations of its bodies and no others.
#[test]
fn parts_without_messages_are_those_of_the_ranks() {
    let devices = test_devices_with_f64();
    let settings = settings(SolverChoice::Tree, GEOMETRIC, Precision::Mixed);
    let particles = uneven_bodies(MANY);
    for device in [None].into_iter().chain(devices.iter().map(Some)) {
        let setup = device.map(|device| DeviceSetup::new(device, MANY, &settings));
        let bits = |bodies: Bodies| {
            let acceleration = bodies.acceleration().unwrap();
            (0..MANY).map(|i| acceleration.get(i).map(f64::to_bits)).collect::<Vec<_>>()
        };
        let whole = bits(Bodies::new(particles.clone(), &settings, setup.as_ref()).unwrap());
        let parts = [0, 1, 2].map(|part| {
            bits(Bodies::new_part(particles.clone(), &settings, setup.as_ref(), (part, 3)).unwrap())
        });
        let mut counts = [0; 3];
        for i in 0..MANY {
            let owners: Vec<usize> = (0..3).filter(|&part| parts[part][i] == whole[i]).collect();
            assert_eq!(owners.len(), 1, "body {i} on {device:?}");
            counts[owners[0]] += 1;
        }
        // Borders are at those of groups.
        assert!(counts.iter().all(|count| (MANY / 3 - 64..=MANY / 3 + 64).contains(count)), "{counts:?}");
    }
}

#[test]
fn a_follower_without_the_device_of_the_leader_is_refused() {
    for device in test_devices_with_f64() {
        let settings = direct(Precision::Double);
        let result = threads::run(3, |transport| {
            let team = Team::new(transport);
            if !team.is_leader() {
                return follow(&team, None);
            }
            let setup = DeviceSetup::new(&device, 10, &settings);
            Bodies::new_on_team(&BodiesTeam::lead(&team), uneven_bodies(10), &settings, Some(&setup))
                .map(|_| ())
        });
        let Err(BodiesError::Hardware { found, expected }) = result else {
            panic!("{result:?}");
        };
        assert_eq!(found, "the CPU");
        assert!(expected.starts_with(&device.properties().name), "{expected}");
    }
}
