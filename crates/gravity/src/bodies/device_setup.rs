//! A device with the strategy that computes forces on it, the solvers, and the memory that a run
//! needs.

use orrery_cluster::LinkError;
use orrery_device::{Buffer, Device, DeviceError};
use orrery_model::Precision;

use super::bins;
use super::device::{BodyVectors, columns, zeros};
use crate::settings::{GravitySettings, IntegratorChoice};
use crate::share::{DeviceGather, Evaluation, TargetShare};
use crate::solver::device::{DeviceSolver, DeviceStrategy, ForceRequest};
use crate::solver::direct::device::{DeviceDirect, DirectDeviceStrategy, JerkRequest};

/// A device, and the strategy that computes forces on it.
#[derive(Clone, Debug)]
pub struct DeviceSetup {
    /// The device.
    pub device: Device,
    /// Strategy of the force solver. Another strategy gives other last bits.
    pub strategy: DeviceStrategy,
}

impl DeviceSetup {
    /// Returns the default strategy for `n` bodies.
    pub fn new(device: &Device, n: usize, settings: &GravitySettings) -> Self {
        Self { device: device.clone(), strategy: DeviceStrategy::resolve(device, n, settings) }
    }
}

/// Largest number of bodies whose direct potential energy is summed in f64. On an H200 a row of the
/// table took 2.3 ms with 40,000 bodies in f64, so that of 8192 bodies takes about 0.1 ms.
const MAX_DOUBLE_ENERGY: usize = 8192;

/// Returns the strategy for potential energies, if it differs from the `strategy` of the forces.
///
/// A direct sum of few bodies is done in f64. With more bodies it is done in mixed precision: the
/// terms have the rounding errors of f32, and the sum over tiles is in f64. The tree keeps its
/// arithmetic, because its error is larger than that of f32.
fn energy_strategy(device: &Device, n: usize, strategy: &DeviceStrategy) -> Option<DeviceStrategy> {
    let DeviceStrategy::Direct(direct) = strategy else { return None };
    let precision = match direct.precision {
        Precision::Single | Precision::Mixed if n > MAX_DOUBLE_ENERGY => Precision::Mixed,
        _ => Precision::Double,
    };
    (precision != direct.precision).then(|| DirectDeviceStrategy::default_for(device, n, precision).into())
}

/// Returns an upper bound of the bytes that each of `ranks` ranks needs on `device` for a run of
/// `n` bodies.
///
/// They are for the state, a copy of it for output between two steps, energies, bins of pictures,
/// the scratch memory of the solvers, and the exchange of forces if there are several ranks.
pub fn needed_bytes(
    device: &Device,
    n: u64,
    settings: &GravitySettings,
    integrator: IntegratorChoice,
    ranks: usize,
) -> u64 {
    // Columns of f64: the mass, the potential and three vectors, three vectors, one vector and the
    // potential. Hermite's method adds the jerk and four vectors at the start of the step, for the
    // state and for the copy.
    const STATE_COLUMNS: u64 = 11;
    const COPY_COLUMNS: u64 = 9;
    const ENERGY_COLUMNS: u64 = 4;
    let has_jerks = integrator == IntegratorChoice::Hermite4;
    let jerk_columns = if has_jerks { 2 * (3 + 12) } else { 0 };
    // Forces and potentials, or forces and jerks: of all bodies, and two copies of the part of a
    // rank, which is less than all bodies.
    let exchange_columns = match (ranks, has_jerks) {
        (1, _) => 0,
        (_, false) => 3 * 4,
        (_, true) => 3 * 6,
    };
    let columns = STATE_COLUMNS + COPY_COLUMNS + ENERGY_COLUMNS + jerk_columns + exchange_columns;
    // 2^40 bodies exceed any memory, and products with it do not overflow.
    let bounded = n.min(1 << 40) as usize;
    let forces = DeviceStrategy::resolve(device, bounded, settings);
    let solvers = [Some(forces), energy_strategy(device, bounded, &forces)];
    solvers
        .into_iter()
        .flatten()
        .map(|strategy| strategy.scratch_bytes(device, bounded))
        .fold(n.saturating_mul(8 * columns + bins::BYTES_PER_BODY), u64::saturating_add)
}

/// Solvers, shared by copies of the bodies.
pub struct Solvers {
    forces: DeviceSolver,
    energies: Energies,
    /// For jerks where the forces come from a tree, created on first use.
    jerks: Option<DeviceDirect>,
    /// Exchange between ranks that share evaluations. `None` for one rank.
    gather: Option<DeviceGather>,
}

impl Solvers {
    pub fn new(setup: &DeviceSetup, n: usize, share: &TargetShare) -> Result<Self, DeviceError> {
        let forces = DeviceSolver::new(&setup.device, n, &setup.strategy)?;
        let gather = share.is_divided().then(|| DeviceGather::new(&setup.device)).transpose()?;
        Ok(Self { forces, energies: Energies::new(setup, n)?, jerks: None, gather })
    }

    /// Computes forces. Does not wait for the device if there is one rank.
    pub fn forces(&mut self, request: &ForceRequest, share: &TargetShare) -> Result<(), LinkError> {
        match &mut self.gather {
            None => Ok(self.forces.forces(request)?),
            Some(gather) => self.forces.shared_forces(request, share.of(Evaluation::Forces), gather),
        }
    }

    /// Computes the potentials of the bodies of `request` and returns them. Its outputs are not
    /// used.
    pub fn potentials(
        &mut self,
        request: &ForceRequest,
        share: &TargetShare,
    ) -> Result<&Buffer<f64>, LinkError> {
        let Energies { solver, acceleration, potential } = &mut self.energies;
        let solver = solver.as_mut().unwrap_or(&mut self.forces);
        let request =
            ForceRequest { acceleration: columns(acceleration), potential: Some(potential), ..*request };
        match &mut self.gather {
            None => solver.forces(&request)?,
            Some(gather) => solver.shared_forces(&request, share.of(Evaluation::Energies), gather)?,
        }
        Ok(&self.energies.potential)
    }

    /// Computes forces and jerks as a direct sum.
    pub fn forces_and_jerks(&mut self, request: &JerkRequest, share: &TargetShare) -> Result<(), LinkError> {
        let evaluation = share.of(Evaluation::Jerks);
        let direct: &mut DeviceDirect = match (&mut self.forces, &mut self.jerks) {
            (DeviceSolver::Direct(direct), _) => direct,
            (DeviceSolver::Tree(_), Some(known)) => known,
            (DeviceSolver::Tree(_), none) => {
                let (device, n) = (request.mass.device(), request.mass.len());
                let strategy = DirectDeviceStrategy::default_for(device, n, Precision::Double);
                let direct = DeviceDirect::new(device, n, &strategy);
                none.insert(direct.map_err(|error| evaluation.fail(LinkError::from(error)))?)
            }
        };
        match &mut self.gather {
            None => Ok(direct.forces_and_jerks(request)?),
            Some(gather) => direct.shared_forces_and_jerks(request, evaluation, gather),
        }
    }
}

/// Solver and memory for potential energies.
struct Energies {
    /// `None` where the solver of the forces is used.
    solver: Option<DeviceSolver>,
    acceleration: BodyVectors,
    potential: Buffer<f64>,
}

impl Energies {
    fn new(setup: &DeviceSetup, n: usize) -> Result<Self, DeviceError> {
        let device = &setup.device;
        let strategy = energy_strategy(device, n, &setup.strategy);
        let solver = strategy.map(|strategy| DeviceSolver::new(device, n, &strategy)).transpose()?;
        Ok(Self { solver, acceleration: zeros(device, n)?, potential: device.zeros(n)? })
    }
}

#[cfg(test)]
mod tests {
    use orrery_cluster::{Team, threads};
    use orrery_device::testing::test_devices_with_f64;
    use orrery_model::ic::Plummer;

    use super::*;
    use crate::bodies::{Bodies, BodiesError, BodiesState, BodiesTeam, follow};
    use crate::settings::{Acceptance, SolverChoice};

    /// Returns the bytes of the exchange on rank 0 of two, after a step and a potential energy.
    fn exchange_bytes(setup: &DeviceSetup, settings: &GravitySettings, integrator: IntegratorChoice) -> u64 {
        let bytes = threads::run(2, |transport| {
            let team = Team::new(transport);
            if !team.is_leader() {
                return follow(&team, Some(&setup.device)).map(|()| 0);
            }
            let particles = Plummer { n: N, ..Plummer::default() }.generate(1.0).unwrap();
            let mut bodies = Bodies::new_on_team(&BodiesTeam::lead(&team), particles, settings, Some(setup))?;
            integrator.step(&mut bodies, 0.001)?;
            bodies.potential_energy()?;
            let BodiesState::Device(on_device) = &bodies.state else {
                unreachable!("the setup has a device")
            };
            let solvers = on_device.solvers();
            Ok::<_, BodiesError>(solvers.gather.as_ref().unwrap().device_bytes())
        });
        bytes.unwrap()[0]
    }

    const N: usize = 100;

    #[test]
    fn ranks_need_the_bytes_of_their_exchange() {
        for device in test_devices_with_f64() {
            for (solver, integrator) in [
                (SolverChoice::Direct, IntegratorChoice::Leapfrog),
                (SolverChoice::Direct, IntegratorChoice::Hermite4),
                (SolverChoice::Tree, IntegratorChoice::Leapfrog),
            ] {
                let (acceptance, precision) = (Acceptance::default(), Precision::Double);
                let settings = GravitySettings { g: 1.0, eps: 0.01, solver, acceptance, precision };
                let setup = DeviceSetup::new(&device, N, &settings);
                let needed_on = |ranks| needed_bytes(&device, N as u64, &settings, integrator, ranks);
                let found = exchange_bytes(&setup, &settings, integrator);
                // All bodies, and up to two copies of the part of the rank.
                let bound = needed_on(2) - needed_on(1);
                assert!(
                    (bound / 3..=bound).contains(&found),
                    "{found} of {bound}, {solver:?}, {integrator:?}"
                );
            }
        }
    }
}
