//! Bodies on a device, and room for their accelerations: what ladders, benchmarks and tuner time forces with.

use orrery_device::{Buffer, Device, DeviceError};
use orrery_model::Vec3s;
use orrery_particles::settings::Acceptance;
use orrery_particles::solver::Problem;
use orrery_particles::solver::device::{DeviceSolver, DeviceStrategy, ForceRequest};
use orrery_particles::solver::direct::device::Columns;

use crate::sample::Shape;
use crate::timing::{self, Times};

const G: f64 = 1.0;

type Three = [Buffer<f64>; 3];

/// Bodies on a device, and on the host.
pub struct DeviceWorkload {
    device: Device,
    position: Vec3s,
    mass: Vec<f64>,
    eps: f64,
    acceptance: Acceptance,
    on_device: (Three, Buffer<f64>),
    acceleration: Three,
}

impl DeviceWorkload {
    /// A Plummer sphere of `n` bodies, for all pairs.
    pub fn new(device: &Device, n: usize) -> Result<Self, DeviceError> {
        Self::with(device, Shape::Plummer.bodies(n), 0.01, Acceptance::default())
    }

    /// Bodies for the tree, hardly softened.
    pub fn for_tree(device: &Device, shape: Shape, n: usize, theta: f64) -> Result<Self, DeviceError> {
        Self::with(device, shape.bodies(n), 0.001, Acceptance::Geometric { theta })
    }

    fn with(
        device: &Device,
        (position, mass): (Vec3s, Vec<f64>),
        eps: f64,
        acceptance: Acceptance,
    ) -> Result<Self, DeviceError> {
        let n = mass.len();
        let columns = [device.upload(&position.x)?, device.upload(&position.y)?, device.upload(&position.z)?];
        let acceleration = [device.zeros(n)?, device.zeros(n)?, device.zeros(n)?];
        let on_device = (columns, device.upload(&mass)?);
        Ok(Self { device: device.clone(), position, mass, eps, acceptance, on_device, acceleration })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.mass.len()
    }

    /// What is computed.
    pub fn problem(&self) -> Problem<'_> {
        let Self { position, mass, eps, .. } = self;
        Problem { position, mass, g: G, eps: *eps, with_potential: false }
    }

    /// A solver for these bodies.
    pub fn solver(&self, strategy: impl Into<DeviceStrategy>) -> Result<DeviceSolver, DeviceError> {
        DeviceSolver::new(&self.device, self.len(), &strategy.into())
    }

    /// What a solver is asked for.
    pub fn evaluation(&self) -> ForceRequest<'_> {
        let (position, mass) = &self.on_device;
        ForceRequest {
            position: columns(position),
            mass,
            g: G,
            eps: self.eps,
            acceptance: self.acceptance,
            previous: None,
            acceleration: columns(&self.acceleration),
            potential: None,
        }
    }

    /// Queues one evaluation.
    pub fn forces(&self, solver: &mut DeviceSolver) -> Result<(), DeviceError> {
        solver.forces(&self.evaluation())
    }

    /// Time of one evaluation, after one that is not counted.
    pub fn once(&self, solver: &mut DeviceSolver) -> Result<f64, DeviceError> {
        timing::once(&self.device, || self.forces(solver))
    }

    /// Times of `repeats` evaluations.
    pub fn times(
        &self,
        solver: &mut DeviceSolver,
        repeats: usize,
        expected: f64,
    ) -> Result<Times, DeviceError> {
        timing::on_device(&self.device, repeats, expected, || self.forces(solver))
    }

    /// The accelerations of the last evaluation.
    pub fn accelerations(&self) -> Result<Vec3s, DeviceError> {
        let [x, y, z] = &self.acceleration;
        Ok(Vec3s { x: x.to_vec()?, y: y.to_vec()?, z: z.to_vec()? })
    }
}

fn columns([x, y, z]: &Three) -> Columns<'_> {
    Columns { x, y, z }
}
