//! Kernels of bodies whose forces several ranks compute together.

use orrery_cluster::{Team, threads};
use orrery_device::Device;
use orrery_gravity::bodies::{Bodies, BodiesError, BodiesTeam, DeviceSetup, follow};
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice};
use orrery_model::Precision;
use orrery_model::ic::Plummer;

/// Runs a step and an energy on two ranks, with tiles and with every pair once, which is the
/// default from 8192 bodies on. Trees have the same kernels as on one rank.
pub(super) fn compile_shared_bodies(device: &Device) -> Result<(), BodiesError> {
    let runs = [
        (1024, Precision::Double, IntegratorChoice::Hermite4),
        (1024, Precision::Mixed, IntegratorChoice::Leapfrog),
        (16_384, Precision::Single, IntegratorChoice::Leapfrog),
    ];
    for (n, precision, integrator) in runs {
        let (solver, acceptance) = (SolverChoice::Direct, Acceptance::default());
        let settings = GravitySettings { g: 1.0, eps: 0.1, solver, acceptance, precision };
        threads::run(2, |transport| {
            let team = Team::new(transport);
            if !team.is_leader() {
                return follow(&team, Some(device));
            }
            let particles = Plummer { n, ..Plummer::default() }.generate(1.0).expect("a valid model");
            let setup = DeviceSetup::new(device, n, &settings);
            let team = BodiesTeam::lead(&team);
            let mut bodies = Bodies::new_on_team(&team, particles, &settings, Some(&setup))?;
            integrator.step(&mut bodies, 0.01)?;
            bodies.potential_energy()?;
            bodies.shortest_pair_time2().map(drop)
        })?;
    }
    Ok(())
}
