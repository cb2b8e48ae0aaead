//! Bodies on a device, and room for their accelerations: what ladder, benchmark and tuner time forces with.

use orrery_device::{Buffer, Device, DeviceError};
use orrery_model::Vec3s;
use orrery_particles::solver::Problem;
use orrery_particles::solver::direct::device::{Columns, DeviceDirect, Strategy};

use crate::sample::Shape;
use crate::timing::{self, Times};

const G: f64 = 1.0;
const EPS: f64 = 0.01;

type Three = [Buffer<f64>; 3];

/// A Plummer sphere on a device, and on the host.
pub struct Stage {
    device: Device,
    position: Vec3s,
    mass: Vec<f64>,
    on_device: (Three, Buffer<f64>),
    acceleration: Three,
}

impl Stage {
    /// `n` bodies.
    pub fn new(device: &Device, n: usize) -> Result<Self, DeviceError> {
        let (position, mass) = Shape::Plummer.bodies(n);
        let columns = [device.upload(&position.x)?, device.upload(&position.y)?, device.upload(&position.z)?];
        let acceleration = [device.zeros(n)?, device.zeros(n)?, device.zeros(n)?];
        let on_device = (columns, device.upload(&mass)?);
        Ok(Self { device: device.clone(), position, mass, on_device, acceleration })
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.mass.len()
    }

    /// What is computed.
    pub fn problem(&self) -> Problem<'_> {
        Problem { position: &self.position, mass: &self.mass, g: G, eps: EPS, with_potential: false }
    }

    /// A solver for these bodies.
    pub fn solver(&self, strategy: &Strategy) -> Result<DeviceDirect, DeviceError> {
        DeviceDirect::new(&self.device, self.len(), strategy)
    }

    /// Queues one evaluation.
    pub fn forces(&self, solver: &mut DeviceDirect) -> Result<(), DeviceError> {
        let (position, mass) = &self.on_device;
        solver.forces(columns(position), mass, G, EPS, columns(&self.acceleration), None)
    }

    /// Time of one evaluation, after one that is not counted.
    pub fn once(&self, solver: &mut DeviceDirect) -> Result<f64, DeviceError> {
        timing::once(&self.device, || self.forces(solver))
    }

    /// Times of `repeats` evaluations.
    pub fn times(
        &self,
        solver: &mut DeviceDirect,
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
