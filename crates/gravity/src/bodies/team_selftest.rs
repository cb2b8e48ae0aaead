//! Checks that forces which several ranks compute together have the bits of one rank, for
//! `orrery selftest` and the tests. The ranks are threads that share the device.

use orrery_cluster::{Team, threads};
use orrery_device::Device;
use orrery_device::check::Check;
use orrery_model::ic::Plummer;
use orrery_model::{Particles, Precision, Vec3s};

use super::{Bodies, BodiesError, BodiesTeam, DeviceSetup, follow};
use crate::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice};
use crate::solver::device::DeviceStrategy;
use crate::solver::direct::device::{DirectDeviceStrategy, DirectKernel};
use crate::solver::direct::selftest::is_slow;

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("bodies: {name}, same bits on 1 to 4 ranks"), run };
    vec![
        check("tree walks", check_trees),
        check("tiled sums", check_tiles),
        check("every pair once", check_pairs_once),
        check("jerks", check_jerks),
    ]
}

/// Bodies and steps of which the results are compared.
struct Comparison {
    n: usize,
    settings: GravitySettings,
    /// Strategy of the device, if it is not the default.
    strategy: Option<DeviceStrategy>,
    integrator: IntegratorChoice,
}

impl Comparison {
    fn new(n: usize, solver: SolverChoice, acceptance: Acceptance, precision: Precision) -> Self {
        let settings = GravitySettings { g: 1.5, eps: 0.01, solver, acceptance, precision };
        Self { n, settings, strategy: None, integrator: IntegratorChoice::Leapfrog }
    }

    fn direct(n: usize, precision: Precision) -> Self {
        Self::new(n, SolverChoice::Direct, Acceptance::default(), precision)
    }

    /// Takes two steps, so that the second one has balanced parts, and returns the bits of the
    /// result. Without a team there is one rank.
    fn bits(&self, device: &Device, team: Option<&BodiesTeam>) -> Result<Vec<u64>, BodiesError> {
        let Self { n, settings, strategy, integrator } = self;
        let setup = DeviceSetup::new(device, *n, settings);
        let setup = DeviceSetup { strategy: strategy.unwrap_or(setup.strategy), ..setup };
        let mut particles = Plummer { n: *n, ..Plummer::default() }.generate(1.5).expect("a valid model");
        // Unequal masses, some of them zero.
        particles.mass.iter_mut().enumerate().for_each(|(i, mass)| *mass *= (i % 5) as f64);
        let mut bodies = match team {
            Some(team) => Bodies::new_on_team(team, particles, settings, Some(&setup))?,
            None => Bodies::new(particles, settings, Some(&setup))?,
        };
        for _ in 0..2 {
            integrator.step(&mut bodies, 0.001)?;
        }
        let mut values = vec![bodies.potential_energy()?];
        let Particles { position, velocity, .. } = bodies.particles()?;
        for Vec3s { x, y, z } in [position, velocity, bodies.acceleration()?] {
            values.extend([x, y, z].into_iter().flatten());
        }
        Ok(values.into_iter().map(f64::to_bits).collect())
    }

    fn check(&self, device: &Device) -> Result<(), String> {
        let expected = self.bits(device, None).map_err(|error| error.to_string())?;
        for ranks in 1..=4 {
            let found = threads::run(ranks, |transport| {
                let team = Team::new(transport);
                if !team.is_leader() {
                    return follow(&team, Some(device)).map(|()| Vec::new());
                }
                self.bits(device, Some(&BodiesTeam::lead(&team)))
            });
            let found = found.map_err(|error| error.to_string())?.swap_remove(0);
            let different = found.iter().zip(&expected).filter(|(found, expected)| found != expected).count();
            if different > 0 || found.len() != expected.len() {
                let Self { n, settings, strategy, .. } = self;
                return Err(format!(
                    "{n} bodies, {settings:?}, {strategy:?}: {different} values have other bits on {ranks} ranks"
                ));
            }
        }
        Ok(())
    }
}

fn check_trees(device: &Device) -> Result<(), String> {
    let (geometric, relative) =
        (Acceptance::Geometric { theta: 0.7 }, Acceptance::Relative { alpha: 0.01, theta: 0.7 });
    // Fewer groups than ranks, and many.
    let sizes: &[usize] = if is_slow(device) { &[600] } else { &[3, 600, 40_001] };
    for &n in sizes {
        for (acceptance, precision) in
            [(geometric, Precision::Single), (relative, Precision::Mixed), (geometric, Precision::Double)]
        {
            Comparison::new(n, SolverChoice::Tree, acceptance, precision).check(device)?;
        }
    }
    Ok(())
}

fn check_tiles(device: &Device) -> Result<(), String> {
    // 10,001 bodies are evaluated in pairs where pairs are fast.
    let sizes: &[usize] = if is_slow(device) { &[300] } else { &[3, 300, 5_000, 10_001] };
    for &n in sizes {
        for precision in Precision::ALL {
            Comparison::direct(n, precision).check(device)?;
        }
    }
    Ok(())
}

/// Body blocks whose number is even or odd. One round has all chunks or only some of them, and
/// there are fewer or more chunks than segments.
fn check_pairs_once(device: &Device) -> Result<(), String> {
    let shapes: &[(usize, u32, u32, u32)] = if is_slow(device) {
        &[(32 * 40, 32, 1, 1)]
    } else {
        &[(32, 32, 1, 1), (300, 32, 1, 3), (64 * 45 + 1, 64, 1, 1), (20_011, 32, 1, 1), (70_000, 64, 8, 0)]
    };
    for precision in [Precision::Single, Precision::Mixed] {
        for &(n, block, targets, splits) in shapes {
            let kernel = DirectKernel::PairsOnce;
            let strategy = DirectDeviceStrategy { kernel, precision, block, targets, unroll: 4, splits };
            let strategy = Some(strategy.into());
            Comparison { strategy, ..Comparison::direct(n, precision) }.check(device)?;
        }
    }
    Ok(())
}

fn check_jerks(device: &Device) -> Result<(), String> {
    let sizes: &[usize] = if is_slow(device) { &[150] } else { &[3, 150, 3_000] };
    for &n in sizes {
        let integrator = IntegratorChoice::Hermite4;
        Comparison { integrator, ..Comparison::direct(n, Precision::Double) }.check(device)?;
    }
    Ok(())
}
