//! Compiles the kernels of gravity: direct sums, trees and bodies.

use std::sync::Arc;

use orrery_cluster::{Team, threads};
use orrery_device::{Buffer, Device, DeviceError};
use orrery_gravity::bodies::{Bodies, BodiesTeam, DeviceSetup, follow};
use orrery_gravity::settings::{Acceptance, GravitySettings, IntegratorChoice, SolverChoice};
use orrery_gravity::solver::device::{DeviceStrategy, ForceRequest};
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_gravity::solver::tree::device::{Order, TreeDeviceStrategy};
use orrery_model::Precision;
use orrery_model::analysis::{BinnedBodies, Projection};
use orrery_model::ic::Plummer;

use super::ListResult;
use crate::workload::DeviceWorkload;

/// Number of bodies. From 512 on the tree uses mixed precision where it is requested.
const BODIES: usize = 1024;
/// Numbers of bodies in every range for which the direct sum has a default.
const DEFAULT_SIZES: [usize; 5] = [1024, 4096, 16_384, 65_536, 262_144];
/// Number of bodies for which the tuner tries every kernel.
const TUNED_SIZE: usize = 1 << 20;

/// Bodies on a device. Their positions have no meaning, because no kernel runs.
struct CompiledForces {
    workload: DeviceWorkload,
    unequal_masses: Buffer<f64>,
    potential: Buffer<f64>,
}

impl CompiledForces {
    fn new(device: &Device) -> Result<Self, DeviceError> {
        let unequal: Vec<f64> = (1..=BODIES).map(|mass| mass as f64).collect();
        Ok(Self {
            workload: DeviceWorkload::for_direct(device, BODIES)?,
            unequal_masses: device.upload(&unequal)?,
            potential: device.zeros(BODIES)?,
        })
    }

    fn run(&self, strategy: impl Into<DeviceStrategy>) -> Result<(), DeviceError> {
        self.workload.new_solver(strategy)?.forces(&self.workload.force_request())
    }

    /// Compiles the kernels that a run with this direct strategy uses for unequal masses, with and
    /// without potentials.
    fn run_with_unequal_masses(&self, strategy: DirectDeviceStrategy) -> Result<(), DeviceError> {
        let mut solver = self.workload.new_solver(strategy)?;
        let request = ForceRequest { mass: &self.unequal_masses, ..self.workload.force_request() };
        solver.forces(&request)?;
        solver.forces(&ForceRequest { potential: Some(&self.potential), ..request })
    }

    /// Compiles all kernels that a run with this tree strategy may use.
    fn run_tree_variants(&self, strategy: TreeDeviceStrategy) -> Result<(), DeviceError> {
        let mut solver = self.workload.new_solver(strategy)?;
        let request = self.workload.force_request();
        let relative = Acceptance::Relative { alpha: 0.005, theta: 0.6 };
        for (acceptance, previous) in [(request.acceptance, None), (relative, Some(request.position))] {
            for potential in [None, Some(&self.potential)] {
                solver.forces(&ForceRequest { acceptance, previous, potential, ..request })?;
            }
        }
        Ok(())
    }
}

/// Compiles the direct sums that runs use without tuning.
pub fn compile_default_direct_sums(device: &Device) -> ListResult {
    let forces = CompiledForces::new(device)?;
    for precision in Precision::ALL {
        for n in DEFAULT_SIZES {
            let strategy = DirectDeviceStrategy::default_for(device, n, precision);
            forces.run(strategy)?;
            forces.run_with_unequal_masses(strategy)?;
        }
    }
    Ok(())
}

/// Compiles the trees that runs use.
pub fn compile_default_trees(device: &Device) -> ListResult {
    let forces = CompiledForces::new(device)?;
    for precision in Precision::ALL {
        forces.run_tree_variants(TreeDeviceStrategy::default_for(device, precision))?;
    }
    Ok(())
}

/// Compiles the kernels that move and bin bodies, and those of the Hermite integrator.
pub fn compile_bodies(device: &Device) -> ListResult {
    let settings = GravitySettings {
        g: 1.0,
        eps: 0.1,
        solver: SolverChoice::Direct,
        acceptance: Acceptance::default(),
        precision: Precision::Double,
    };
    let particles = Plummer { n: BODIES, ..Plummer::default() }.generate(1.0).expect("a valid model");
    let setup = DeviceSetup::new(device, BODIES, &settings);
    let mut bodies = Bodies::new(particles, &settings, Some(&setup))?;
    for integrator in [IntegratorChoice::Leapfrog, IntegratorChoice::Hermite4] {
        integrator.step(&mut bodies, 0.01)?;
    }
    bodies.motion()?;
    bodies.potential_energy()?;
    bodies.largest_acceleration2()?;
    bodies.shortest_pair_time2()?;
    let shown = Arc::new(BinnedBodies::new(&[1.0; BODIES], |_| Some(0)));
    let (right, up) = ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]);
    let projection = Projection { centre: [0.0; 3], right, up, pixel_size: 0.1, width: 40, height: 30 };
    bodies.bins_on_device(&shown, 1, &projection)?;
    Ok(bodies.check_finite()?)
}

/// Runs a step and an energy on two ranks, with tiles and with every pair once, which is the
/// default from 8192 bodies on. Trees have the same kernels as on one rank.
pub fn compile_shared_bodies(device: &Device) -> ListResult {
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

/// Compiles those candidates of the tuner that need the most registers. The other candidates have
/// the same code with other constants.
pub fn compile_other_direct_sums(device: &Device) -> ListResult {
    let forces = CompiledForces::new(device)?;
    for precision in Precision::ALL {
        let candidates = DirectDeviceStrategy::candidates(device, TUNED_SIZE, precision);
        for strategy in &candidates {
            let is_larger = |other: &&DirectDeviceStrategy| {
                other.kernel == strategy.kernel
                    && (other.targets, other.unroll) > (strategy.targets, strategy.unroll)
            };
            let is_default = *strategy == DirectDeviceStrategy::default_for(device, TUNED_SIZE, precision);
            if !is_default && !candidates.iter().any(|other| is_larger(&other)) {
                forces.run(*strategy)?;
            }
        }
    }
    Ok(())
}

/// Compiles the orders that are not the default, and the last candidate of the tuner.
pub fn compile_other_trees(device: &Device) -> ListResult {
    let forces = CompiledForces::new(device)?;
    for precision in Precision::ALL {
        let default = TreeDeviceStrategy::default_for(device, precision);
        for order in Order::ALL.into_iter().filter(|order| *order != default.order) {
            forces.run_tree_variants(TreeDeviceStrategy { order, ..default })?;
        }
        // The last one has the fewest registers and unrolls most.
        let candidates = TreeDeviceStrategy::candidates(device, precision);
        forces.run_tree_variants(*candidates.last().expect("at least the default"))?;
    }
    Ok(())
}

/// Compiles all candidates of the tuner.
pub fn compile_all_candidates(device: &Device) -> ListResult {
    let forces = CompiledForces::new(device)?;
    for precision in Precision::ALL {
        for strategy in DirectDeviceStrategy::candidates(device, TUNED_SIZE, precision) {
            forces.run(strategy)?;
        }
        for strategy in TreeDeviceStrategy::candidates(device, precision) {
            forces.run(strategy)?;
        }
    }
    Ok(())
}
