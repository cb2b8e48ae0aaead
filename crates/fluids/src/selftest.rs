//! Checks of Lennard-Jones fluids on one device, for `orrery selftest` and the tests. The CPU is
//! compared with brute force in f64, and devices with the CPU bit for bit.

use orrery_cluster::{Team, threads};
use orrery_device::Device;
use orrery_device::check::Check;
use orrery_model::fluid::FluidParticles;
use orrery_model::ic::lattice::{Lattice, set_maxwell_velocities};

use super::brute_force::{check_forces, forces_with_bounds};
use super::ensemble::Ensemble;
use super::potential::{Potential, Truncation};
use super::sample::{
    MELT_CUTOFF, MELT_DENSITY, MELT_DT, MELT_TEMPERATURE, displaced_melt, melt, melt_settings,
};
use super::settings::{FluidSettings, PairPrecision, PairSearch};
use super::{
    DeviceFluid, DeviceFluidError, Fluid, FluidMeasures, FluidStrategy, FluidTeam, HostFluid, follow,
};

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("lj: {name}"), run };
    vec![
        check("forces of the CPU equal brute force", host_forces),
        check("the melt equals that of the CPU", melt_trajectory),
        check("several threads and several steps per launch equal the CPU", other_strategy),
        check("all pairs equal those of the CPU", all_pairs),
        check("two species in a plane with a switch equal those of the CPU", switched_plane),
        check("several slabs equal the CPU", slabs),
    ]
}

/// Numbers of particles: boxes of two and of three cells along an axis, and more blocks of threads.
const SIZES: [usize; 3] = [256, 1000, 2048];

/// Compares all forces of the CPU with brute force in f64, in both precisions and searches.
fn host_forces(_: &Device) -> Result<(), String> {
    for n in SIZES {
        let particles = displaced_melt(n);
        let sample: Vec<usize> = (0..particles.len()).collect();
        let expected = forces_with_bounds(&particles, &melt_settings().potential, &sample);
        for search in [PairSearch::Lists, PairSearch::AllPairs] {
            for precision in [PairPrecision::Mixed, PairPrecision::Double] {
                let settings = FluidSettings { search, precision, ..melt_settings() };
                let found = HostFluid::new(particles.clone(), &settings).forces();
                check_forces(&found, &sample, &expected)
                    .map_err(|message| format!("{n} particles, {search:?}, {precision:?}: {message}"))?;
            }
        }
    }
    Ok(())
}

/// Moves a fluid on the CPU and on the device, and compares all bits.
fn compare_trajectories(
    device: &Device,
    particles: &FluidParticles,
    settings: &FluidSettings,
    strategy: &FluidStrategy,
) -> Result<(), String> {
    if !device.properties().has_f64 {
        return Ok(());
    }
    let mut host = HostFluid::new(particles.clone(), settings);
    let mut fluid = DeviceFluid::with_strategy(device, particles, settings, strategy)
        .map_err(|error| error.to_string())?;
    let mut first = 0;
    for steps in [1, 30, 9] {
        host.advance(MELT_DT, first, steps).map_err(|error| error.to_string())?;
        fluid.advance(MELT_DT, first, steps).map_err(|error| error.to_string())?;
        first += steps;
        let found = fluid.particles().map_err(|error| error.to_string())?;
        let (expected, n) = (host.particles(), particles.len());
        if let Some(k) = (0..n).find(|&k| found.fractions(k) != expected.fractions(k)) {
            let [found, expected] = [&found, &expected].map(|particles| particles.fractions(k));
            return Err(format!(
                "{n} particles, step {first}: particle {k} is at {found:?}, expected {expected:?}"
            ));
        }
        if found != expected {
            return Err(format!("{n} particles, step {first}: velocities or images differ from the CPU"));
        }
        let (found, expected) = (fluid.measure().map_err(|error| error.to_string())?, host.measure());
        if found != expected {
            return Err(format!("{n} particles, step {first}: {found:?}, expected {expected:?}"));
        }
    }
    Ok(())
}

fn melt_trajectory(device: &Device) -> Result<(), String> {
    SIZES.into_iter().try_for_each(|n| compare_with_default(device, &melt(n), &melt_settings()))
}

/// Compares trajectories of the strategy that a run uses without tuning.
fn compare_with_default(
    device: &Device,
    particles: &FluidParticles,
    settings: &FluidSettings,
) -> Result<(), String> {
    let strategy = FluidStrategy::default_for(device, particles.len(), settings);
    compare_trajectories(device, particles, settings, &strategy)
}

/// Two threads per particle, and more steps per launch than lists allow.
fn other_strategy(device: &Device) -> Result<(), String> {
    let settings = melt_settings();
    let default = FluidStrategy::default_for(device, 1000, &settings);
    let strategy = FluidStrategy { lanes: 2, steps_per_launch: 64, ..default };
    compare_trajectories(device, &melt(1000), &settings, &strategy)
}

fn all_pairs(device: &Device) -> Result<(), String> {
    let settings = FluidSettings { search: PairSearch::AllPairs, ..melt_settings() };
    compare_with_default(device, &melt(500), &settings)
}

fn switched_plane(device: &Device) -> Result<(), String> {
    let mut particles = Lattice::Square.fill([18, 16, 1], 0.75);
    particles.species.iter_mut().enumerate().for_each(|(k, species)| *species = (k % 2) as u8);
    let mass = vec![1.0, 2.0];
    set_maxwell_velocities(&mut particles, &mass, 1.3, 1);
    let potential =
        Potential::mixed(&[(1.0, 1.0), (0.9, 0.7)], MELT_CUTOFF, Truncation::Switched { start: 0.8 });
    let settings = FluidSettings { potential, mass, ..melt_settings() };
    compare_with_default(device, &particles, &settings)
}

/// Compares ranks that share the device with the CPU. The melt moves along its longest axis, so
/// that particles change their rank.
fn slabs(device: &Device) -> Result<(), String> {
    if !device.properties().has_f64 {
        return Ok(());
    }
    let mut long = Lattice::Fcc.fill([4, 4, 12], MELT_DENSITY);
    set_maxwell_velocities(&mut long, &[1.0], MELT_TEMPERATURE, 1);
    long.velocity.z.iter_mut().for_each(|v| *v += 4.0);
    for (ranks, ensemble) in [
        (2, Ensemble::Nve),
        (3, Ensemble::Langevin { kt: 1.2, friction: 0.7, seed: 4 }),
        (4, Ensemble::Rescaling { kt: 1.2, time: 0.2, seed: 4 }),
    ] {
        let settings = FluidSettings { ensemble, ..melt_settings() };
        let mut host = HostFluid::new(long.clone(), &settings);
        host.advance(MELT_DT, 0, SLAB_STEPS).map_err(|error| error.to_string())?;
        let expected = (host.particles(), host.measure());
        let found = run_slabs(device, ranks, &long, &settings).map_err(|error| error.to_string())?;
        if found.0 != expected.0 {
            return Err(format!("{ranks} slabs, {ensemble:?}: particles differ from the CPU"));
        }
        if found.1 != expected.1 {
            return Err(format!("{ranks} slabs, {ensemble:?}: {:?}, expected {:?}", found.1, expected.1));
        }
    }
    Ok(())
}

/// Steps of [`slabs`]. Lists are built several times.
const SLAB_STEPS: u64 = 60;

/// Returns the particles and measures after [`SLAB_STEPS`] steps of ranks that share the device.
fn run_slabs(
    device: &Device,
    ranks: usize,
    particles: &FluidParticles,
    settings: &FluidSettings,
) -> Result<(FluidParticles, FluidMeasures), DeviceFluidError> {
    let strategy = FluidStrategy::default_for(device, particles.len(), settings);
    let mut found = threads::run(ranks, |transport| {
        let team = Team::new(transport);
        if !team.is_leader() {
            return follow(&team, Some(device)).map(|()| None);
        }
        let (team, placement) = (FluidTeam::lead(&team), Some((device, &strategy)));
        let mut fluid = Fluid::new_on_team(&team, particles.clone(), settings, placement)?;
        fluid.advance(MELT_DT, 0, SLAB_STEPS)?;
        Ok(Some((fluid.particles()?, fluid.measure()?)))
    })?;
    Ok(found.swap_remove(0).expect("the leader has a result"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_device_passes_the_checks() {
        for device in orrery_device::testing::test_devices() {
            for check in super::checks() {
                (check.run)(&device).unwrap_or_else(|message| panic!("{}: {message}", check.name));
            }
        }
    }
}
