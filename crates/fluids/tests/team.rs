//! Fluids that several ranks share have the bits of fluids on one rank.

use orrery_cluster::{ClusterError, Team, threads};
use orrery_device::Device;
use orrery_device::testing::test_devices_with_f64;
use orrery_fluids::ensemble::Ensemble;
use orrery_fluids::potential::{Potential, Truncation};
use orrery_fluids::settings::{FluidSettings, PairPrecision, PairSearch};
use orrery_fluids::{
    DeviceFluidError, Fluid, FluidMeasures, FluidStrategy, FluidTeam, HostFluid, UnsupportedFluid, follow,
};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;
use orrery_model::ic::lattice::{Lattice, random_positions, set_maxwell_velocities};
use orrery_model::simulation_box::SimulationBox;

const LANGEVIN: Ensemble = Ensemble::Langevin { kt: 1.2, friction: 0.7, seed: 4 };
const RESCALING: Ensemble = Ensemble::Rescaling { kt: 1.2, time: 0.2, seed: 4 };

fn settings(ensemble: Ensemble) -> FluidSettings {
    FluidSettings {
        potential: Potential::mixed(&[(1.0, 1.0)], 2.5, Truncation::Shifted),
        mass: vec![1.0],
        precision: PairPrecision::Mixed,
        search: PairSearch::Lists,
        skin: 0.3,
        ensemble,
        largest_kinetic: 0.0,
    }
}

/// A melt in a long box that moves along it, so that many particles change their rank and some
/// leave the box.
fn moving_melt(cells: [usize; 3]) -> FluidParticles {
    let mut particles = Lattice::Fcc.fill(cells, 0.8442);
    set_maxwell_velocities(&mut particles, &[1.0], 1.44, 5);
    particles.velocity.z.iter_mut().for_each(|v| *v += 4.0);
    // Identifiers and the user's order have nothing to do with positions.
    let n = particles.len();
    particles.id = (0..n as u64).map(|k| 7 * k + 3).collect();
    particles.position.iter_mut().for_each(|column| column.rotate_left(n / 3));
    particles
}

/// Creates fluids on the CPU, or on the ranks of a team and their devices.
struct Creator<'a> {
    team: Option<&'a FluidTeam>,
    device: Option<&'a Device>,
}

/// The CPU without a team.
const ALONE: Creator<'_> = Creator { team: None, device: None };

impl Creator<'_> {
    fn create(&self, particles: FluidParticles, settings: &FluidSettings) -> Result<Fluid, DeviceFluidError> {
        let strategy =
            self.device.map(|device| FluidStrategy::default_for(device, particles.len(), settings));
        match self.team {
            Some(team) => Fluid::new_on_team(team, particles, settings, self.device.zip(strategy.as_ref())),
            None => Fluid::new(particles, settings, None),
        }
    }
}

/// State and measures of a fluid.
type Found = Vec<(FluidParticles, FluidMeasures)>;

fn state_of(fluid: &Fluid) -> Result<(FluidParticles, FluidMeasures), DeviceFluidError> {
    Ok((fluid.particles()?, fluid.measure()?))
}

/// Runs a scenario on the ranks of a team, which all use `device` if there is one.
fn run_on<T: Send>(
    ranks: usize,
    device: Option<&Device>,
    scenario: impl Fn(&Creator<'_>) -> Result<T, DeviceFluidError> + Sync,
) -> Result<T, DeviceFluidError> {
    let mut found = threads::run(ranks, |transport| {
        let team = Team::new(transport);
        match team.is_leader() {
            true => scenario(&Creator { team: Some(&FluidTeam::lead(&team)), device }).map(Some),
            false => follow(&team, device).map(|()| None),
        }
    })?;
    Ok(found.swap_remove(0).expect("the leader has a result"))
}

/// Runs a scenario on the CPU without a team, then on teams, and compares the bits.
fn compare(
    name: &str,
    ranks: &[usize],
    device: Option<&Device>,
    scenario: impl Fn(&Creator<'_>) -> Result<Found, DeviceFluidError> + Sync,
) {
    let expected = scenario(&ALONE).expect("no error on one rank");
    for &ranks in ranks {
        let found =
            run_on(ranks, device, &scenario).unwrap_or_else(|error| panic!("{name}, {ranks} ranks: {error}"));
        assert!(found == expected, "{name}, {ranks} ranks: other bits");
    }
}

fn compare_steps(
    name: &str,
    ranks: &[usize],
    particles: &FluidParticles,
    settings: &FluidSettings,
    (dt, steps): (f64, u64),
) {
    compare_on(None, name, ranks, particles, settings, (dt, steps));
}

fn compare_on(
    device: Option<&Device>,
    name: &str,
    ranks: &[usize],
    particles: &FluidParticles,
    settings: &FluidSettings,
    (dt, steps): (f64, u64),
) {
    compare(name, ranks, device, |creator| {
        let mut fluid = creator.create(particles.clone(), settings)?;
        let start = state_of(&fluid)?;
        fluid.advance(dt, 0, 1)?;
        let first = state_of(&fluid)?;
        fluid.advance(dt, 1, steps - 1)?;
        Ok(vec![start, first, state_of(&fluid)?])
    });
}

/// Eight slabs are thinner than the radius of the lists, so ghosts come from two ranks on each
/// side.
#[test]
fn ensembles_have_the_bits_of_one_rank() {
    let particles = moving_melt([4, 4, 12]);
    for (ensemble, ranks) in
        [(Ensemble::Nve, &[1, 2, 3, 4, 8][..]), (LANGEVIN, &[2, 3, 4]), (RESCALING, &[2, 3, 4])]
    {
        compare_steps(&format!("{ensemble:?}"), ranks, &particles, &settings(ensemble), (0.005, 200));
    }
    let mut fluid = HostFluid::new(particles, &settings(Ensemble::Nve));
    fluid.advance(0.005, 0, 200).unwrap();
    assert!(fluid.rebuilds() > 10, "{}", fluid.rebuilds());
    assert!(fluid.particles().image[2].contains(&1), "particles have left the box");
}

#[test]
fn mixtures_and_planes_have_the_bits_of_one_rank() {
    let mut particles = moving_melt([4, 4, 8]);
    particles.species.iter_mut().enumerate().for_each(|(k, species)| *species = (k % 3 % 2) as u8);
    let species = [(1.0, 1.0), (0.88, 0.5)];
    for (precision, truncation) in [
        (PairPrecision::Mixed, Truncation::Truncated),
        (PairPrecision::Double, Truncation::Switched { start: 0.8 }),
    ] {
        let mixture = FluidSettings {
            potential: Potential::mixed(&species, 2.5, truncation),
            mass: vec![1.0, 2.5],
            precision,
            ..settings(Ensemble::Nve)
        };
        compare_steps(&format!("{precision:?}"), &[2, 4], &particles, &mixture, (0.004, 100));
    }
    let mut plane = Lattice::Square.fill([40, 12, 1], 0.8);
    set_maxwell_velocities(&mut plane, &[1.0], 1.5, 3);
    compare_steps("plane", &[2, 3, 4], &plane, &settings(LANGEVIN), (0.005, 200));
}

/// Hot particles in an open box fly apart, and the box is doubled.
#[test]
fn open_boxes_have_the_bits_of_one_rank() {
    let lattice = Lattice::Fcc.fill([3, 3, 5], 0.9);
    let bounds = SimulationBox::open([0.0; 3], lattice.bounds.lengths, 3);
    let mut drop = FluidParticles::at_rest(bounds, &lattice.coordinates());
    set_maxwell_velocities(&mut drop, &[1.0], 60.0, 4);
    compare_steps("drop", &[2, 3, 4], &drop, &settings(Ensemble::Nve), (0.001, 1500));
    let mut fluid = HostFluid::new(drop.clone(), &settings(Ensemble::Nve));
    fluid.advance(0.001, 0, 1500).unwrap();
    assert!(fluid.bounds().lengths[0] > bounds.lengths[0], "the box was doubled");
    // Particles of a file may be outside the middle half of the box.
    drop.bounds.lengths = drop.bounds.lengths.map(|length| 0.125 * length);
    let scaled = |fraction: &mut u64| *fraction = fraction.wrapping_sub(13 << 59) << 3;
    drop.position.iter_mut().flatten().for_each(scaled);
    assert!(drop.position[0].iter().any(|&fraction| !SimulationBox::is_in_middle(fraction)));
    compare_steps("outside", &[3], &drop, &settings(Ensemble::Nve), (0.001, 20));
}

/// Some ranks have no particles, and there are fewer particles than ranks.
#[test]
fn few_particles_and_all_pairs_have_the_bits_of_one_rank() {
    let bounds = SimulationBox::periodic([9.0, 7.0, 6.5], 3);
    for n in [0, 1, 2, 3, 7] {
        let sparse = |k: usize| [1.3 * k as f64, (k * k % 5) as f64, 0.9 * k as f64];
        let mut coordinates = Vec3s::zeros(n);
        (0..n).for_each(|k| coordinates.set(k, sparse(k)));
        let mut particles = FluidParticles::at_rest(bounds, &coordinates);
        particles.velocity.x.iter_mut().enumerate().for_each(|(k, v)| *v = k as f64 - 2.0);
        for search in [PairSearch::Lists, PairSearch::AllPairs] {
            for ensemble in [Ensemble::Nve, RESCALING] {
                let few = FluidSettings { search, ..settings(ensemble) };
                compare_steps(&format!("{n}, {search:?}"), &[2, 4], &particles, &few, (0.004, 50));
            }
        }
    }
    let mut particles = Lattice::Fcc.fill([3, 3, 3], 0.5);
    set_maxwell_velocities(&mut particles, &[1.0], 1.0, 2);
    for truncation in [Truncation::None, Truncation::Shifted] {
        let potential = Potential::mixed(&[(1.0, 1.0)], 2.5, truncation);
        let all = FluidSettings { potential, search: PairSearch::AllPairs, ..settings(LANGEVIN) };
        compare_steps(&format!("{truncation:?}"), &[2, 3], &particles, &all, (0.004, 60));
    }
}

/// Large forces between overlapping particles of different ranks are summed in 64 bits.
#[test]
fn overlapping_particles_have_the_bits_of_one_rank() {
    let bounds = SimulationBox::periodic([7.0, 7.0, 15.0], 3);
    let particles = random_positions(bounds, 600, 8);
    compare_steps("overlap", &[2, 4], &particles, &settings(Ensemble::Nve), (1e-9, 3));
}

/// The steps of a copy do not affect the fluid, and a fluid continues in another ensemble.
#[test]
fn copies_and_restarts_have_the_bits_of_one_rank() {
    compare("copies", &[2, 3], None, copies_and_restarts);
}

fn copies_and_restarts(creator: &Creator<'_>) -> Result<Found, DeviceFluidError> {
    let mut fluid = creator.create(moving_melt([4, 4, 6]), &settings(LANGEVIN))?;
    let mut found = Vec::new();
    for part in 0..3 {
        fluid.advance(0.005, 10 * part, 10)?;
        let mut copy = fluid.try_clone()?;
        copy.advance(0.003, 10 * part + 10, 25)?;
        found.push(state_of(&copy)?);
    }
    let mut particles = fluid.particles()?;
    particles.velocity.z.iter_mut().for_each(|v| *v -= 4.0);
    fluid.restart(particles, Ensemble::Nve)?;
    fluid.advance(0.005, 30, 30)?;
    assert_eq!(fluid.settings().ensemble, Ensemble::Nve);
    found.push(state_of(&fluid)?);
    Ok(found)
}

/// A state that some ranks saved continues on other ranks.
#[test]
fn saved_particles_continue_on_another_number_of_ranks() {
    for ensemble in [Ensemble::Nve, RESCALING] {
        let settings = settings(ensemble);
        let mut alone = Fluid::new(moving_melt([4, 4, 8]), &settings, None).unwrap();
        alone.advance(0.005, 0, 120).unwrap();
        let expected = state_of(&alone).unwrap();
        let mut particles = moving_melt([4, 4, 8]);
        for (part, ranks) in [3, 1, 4, 2].into_iter().enumerate() {
            let found = run_on(ranks, None, |creator| {
                let restored = Fluid::new(particles.clone(), &settings, None)?;
                let mut fluid = match creator.team {
                    Some(team) => restored.moved_to(team, None)?,
                    None => restored,
                };
                fluid.advance(0.005, 30 * part as u64, 30)?;
                state_of(&fluid)
            })
            .unwrap();
            if part == 3 {
                assert!(found == expected, "{ensemble:?}");
            }
            particles = found.0;
        }
    }
}

/// The error names the same particle as on one rank, and the leader can still read the particles.
#[test]
fn an_exploding_fluid_names_the_first_particle() {
    let mut particles = moving_melt([4, 4, 8]);
    // Both move too far in the same step, and are in different slabs.
    for (k, id) in [(400, 12), (77, 34)] {
        particles.velocity.y[k] = 900.0;
        particles.id[k] = 1_000_000 + id;
    }
    let scenario = |creator: &Creator<'_>| {
        let mut fluid = creator.create(particles.clone(), &settings(Ensemble::Nve))?;
        let error = fluid.advance(0.005, 20, 7).expect_err("a particle moves too far");
        Ok((error, fluid.particles()?))
    };
    let expected = scenario(&ALONE).unwrap();
    let text = expected.0.to_string();
    assert!(
        text.starts_with("particle 1000034 has the velocity 9") && text.contains("along y after step 20")
    );
    for ranks in [2, 3, 4] {
        assert!(run_on(ranks, None, scenario).unwrap() == expected, "{ranks} ranks");
    }
}

/// All ranks use the same device. Compilation takes most of the time, so there are few kinds of
/// fluids.
#[test]
fn devices_have_the_bits_of_the_cpu() {
    for device in test_devices_with_f64() {
        let device = Some(&device);
        let nve = settings(Ensemble::Nve);
        compare_on(device, "melt", &[2, 3], &moving_melt([4, 4, 12]), &nve, (0.005, 60));
        // Lists are too short at first, because the density is that of the whole box.
        let mut clump = moving_melt([4, 4, 4]);
        clump.bounds.lengths[2] *= 8.0;
        clump.position[2].iter_mut().for_each(|fraction| *fraction = (*fraction >> 3) + (3 << 61));
        compare_on(device, "clump", &[4], &clump, &nve, (0.005, 60));
        compare("copies", &[2], device, copies_and_restarts);

        let lattice = Lattice::Square.fill([20, 8, 1], 0.8);
        let bounds = SimulationBox::open([0.0; 3], lattice.bounds.lengths, 2);
        let mut drop = FluidParticles::at_rest(bounds, &lattice.coordinates());
        set_maxwell_velocities(&mut drop, &[1.0], 3.0, 4);
        drop.velocity.x[0] = -60.0;
        compare_on(device, "open plane", &[3], &drop, &settings(RESCALING), (0.004, 250));

        let mut particles = Lattice::Fcc.fill([3, 3, 3], 0.5);
        set_maxwell_velocities(&mut particles, &[1.0], 1.0, 2);
        let all = FluidSettings { search: PairSearch::AllPairs, ..settings(LANGEVIN) };
        compare_on(device, "all pairs", &[2, 3], &particles, &all, (0.004, 30));
        // Three ranks without particles.
        let one = FluidParticles::at_rest(particles.bounds, &Vec3s::zeros(1));
        compare_on(device, "one", &[4], &one, &nve, (0.004, 10));
    }
}

#[test]
fn an_exploding_fluid_on_devices_names_the_first_particle() {
    for device in test_devices_with_f64() {
        let mut particles = moving_melt([4, 4, 12]);
        for k in [400, 77] {
            particles.velocity.y[k] = 900.0;
        }
        let expected = HostFluid::new(particles.clone(), &settings(Ensemble::Nve)).advance(0.005, 20, 7);
        let found = run_on(3, Some(&device), |creator| {
            let mut fluid = creator.create(particles.clone(), &settings(Ensemble::Nve))?;
            Ok(fluid.advance(0.005, 20, 7))
        });
        assert_eq!(found, Ok(expected.map_err(DeviceFluidError::from)));
    }
}

#[test]
fn a_follower_without_a_device_is_refused() {
    for device in test_devices_with_f64() {
        let nve = settings(Ensemble::Nve);
        let result = threads::run(2, |transport| {
            let team = Team::new(transport);
            if !team.is_leader() {
                return follow(&team, None);
            }
            let strategy = FluidStrategy::default_for(&device, 256, &nve);
            let placement = Some((&device, &strategy));
            Fluid::new_on_team(&FluidTeam::lead(&team), moving_melt([4, 4, 4]), &nve, placement).map(|_| ())
        });
        assert_eq!(result, Err(UnsupportedFluid::NoDevice { rank: 1 }.into()));
    }
}

#[test]
fn a_follower_that_fails_ends_the_leader() {
    let result = threads::run(3, |transport| {
        let team = Team::new(transport);
        if transport.rank() == 2 {
            return Err(transport.abort("out of memory").into());
        }
        if !team.is_leader() {
            return follow(&team, None);
        }
        let mut fluid =
            Fluid::new_on_team(&FluidTeam::lead(&team), moving_melt([4, 4, 4]), &settings(RESCALING), None)?;
        fluid.advance(0.005, 0, 10)
    });
    let message = "out of memory".to_owned();
    assert_eq!(result, Err(DeviceFluidError::Cluster(ClusterError::Aborted { rank: 2, message })));
}
