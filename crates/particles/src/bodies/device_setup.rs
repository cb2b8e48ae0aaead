//! Where bodies live on a device, with what computes their forces, and the memory that it takes.

use orrery_device::{Buffer, Device, DeviceError};

use super::device::{Vectors, zeros};
use crate::settings::{GravitySettings, IntegratorChoice, Precision};
use crate::solver::device::{DeviceSolver, DeviceStrategy};
use crate::solver::direct::device::{DeviceDirect, DirectDeviceStrategy};

/// A device, and how it computes forces.
#[derive(Clone, Debug)]
pub struct DeviceSetup {
    /// The device.
    pub device: Device,
    /// How it computes. Another strategy gives other last bits.
    pub strategy: DeviceStrategy,
}

impl DeviceSetup {
    /// The default for so many bodies.
    pub fn new(device: &Device, n: usize, settings: &GravitySettings) -> Self {
        Self { device: device.clone(), strategy: DeviceStrategy::resolve(device, n, settings) }
    }
}

/// How the potential energies of bodies are computed whose forces come from `strategy`, where it is in another way: all
/// pairs are summed in f64; the tree, which errs by more than f32 does, serves as it is.
fn for_energies(device: &Device, n: usize, strategy: &DeviceStrategy) -> Option<DeviceStrategy> {
    match strategy {
        DeviceStrategy::Direct(_) => {
            Some(DirectDeviceStrategy::default_for(device, n, Precision::Double).into())
        }
        DeviceStrategy::Tree(_) => None,
    }
}

/// Memory that a run of `n` bodies takes on `device` at most: the state, a copy of it for what is looked at between two
/// steps, energies, and the solvers' scratch.
pub fn needed_bytes(
    device: &Device,
    n: u64,
    settings: &GravitySettings,
    integrator: IntegratorChoice,
) -> u64 {
    const STATE: u64 = 10;
    const COPY: u64 = 9;
    const ENERGIES: u64 = 4;
    let jerks = if integrator == IntegratorChoice::Hermite4 { 2 * (3 + 12) } else { 0 };
    // Beyond any memory, before a product overflows.
    let bounded = n.min(1 << 40) as usize;
    let forces = DeviceStrategy::resolve(device, bounded, settings);
    let solvers = [Some(forces), for_energies(device, bounded, &forces)];
    solvers
        .into_iter()
        .flatten()
        .map(|strategy| strategy.scratch_bytes(device, bounded))
        .fold(n.saturating_mul(8 * (STATE + COPY + ENERGIES + jerks)), u64::saturating_add)
}

/// What computes, shared by copies of the bodies.
pub struct Solvers {
    pub forces: DeviceSolver,
    /// For potential energies; made when the first is asked for.
    pub energies: Option<Energies>,
    /// For jerks beside a tree; made when the first are asked for.
    jerks: Option<DeviceDirect>,
}

impl Solvers {
    pub fn new(setup: &DeviceSetup, n: usize) -> Result<Self, DeviceError> {
        let forces = DeviceSolver::new(&setup.device, n, &setup.strategy)?;
        Ok(Self { forces, energies: None, jerks: None })
    }

    /// All pairs, for jerks.
    pub fn pairs(&mut self, device: &Device, n: usize) -> Result<&mut DeviceDirect, DeviceError> {
        match (&mut self.forces, &mut self.jerks) {
            (DeviceSolver::Direct(direct), _) => Ok(direct),
            (DeviceSolver::Tree(_), Some(known)) => Ok(known),
            (DeviceSolver::Tree(_), none) => {
                let strategy = DirectDeviceStrategy::default_for(device, n, Precision::Double);
                Ok(none.insert(DeviceDirect::new(device, n, &strategy)?))
            }
        }
    }
}

/// What potential energies are computed with.
pub struct Energies {
    /// Where it is not the solver of the forces.
    pub solver: Option<DeviceSolver>,
    pub acceleration: Vectors,
    pub potential: Buffer<f64>,
}

impl Energies {
    pub fn new(setup: &DeviceSetup, n: usize) -> Result<Self, DeviceError> {
        let device = &setup.device;
        let solver = for_energies(device, n, &setup.strategy);
        let solver = solver.map(|strategy| DeviceSolver::new(device, n, &strategy)).transpose()?;
        Ok(Self { solver, acceleration: zeros(device, n)?, potential: device.zeros(n)? })
    }
}
