//! Time steps of the program of the course: a kernel for the forces and one that moves the bodies.
//!
//! v += a dt, x += v dt, with a the sum over all pairs in f32 and G = 1. All bodies start at rest.
//!
//! Each step is two launches with nine to eleven arguments. The course moves all parameters to
//! constant memory and measures the gain for 1,000 bodies, where a launch takes longest in relation
//! to the kernels. With many bodies, the time of a step is that of the pairs.

use orrery_device::{Device, DeviceError, Kernel, Math};
use orrery_model::Vec3s;

use super::columns::{CourseColumns, MASS, X, Y, Z};
use super::{COURSE, definitions};

/// Threads per block, as in the course.
const BLOCK_SIZE: u32 = 256;

/// Where the kernels of a step find their parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CourseParameters {
    /// Arguments of every launch.
    Arguments,
    /// Constant memory, written once. On OpenCL, without the addresses of the columns.
    ConstantMemory,
}

/// Bodies on a device with the kernels of a step.
pub struct CourseSteps {
    device: Device,
    sum_pairs: Kernel,
    advance_bodies: Kernel,
    columns: CourseColumns,
    n: usize,
    eps2: f32,
    dt: f32,
}

impl CourseSteps {
    /// Uploads bodies at rest. `position` and `mass` have one element per body, at least one.
    pub fn new(
        device: &Device,
        parameters: CourseParameters,
        position: &Vec3s,
        mass: &[f64],
        eps: f64,
        dt: f64,
    ) -> Result<Self, DeviceError> {
        let n = mass.len();
        let rung = match parameters {
            CourseParameters::Arguments => 2,
            CourseParameters::ConstantMemory => 3,
        };
        let module = device.build(&COURSE, &definitions(rung, BLOCK_SIZE, 1), Math::Precise)?;
        let columns = match parameters {
            CourseParameters::Arguments => CourseColumns::with_arguments(device, n)?,
            CourseParameters::ConstantMemory => CourseColumns::with_constants(device, n, &module)?,
        };
        let queue = device.queue();
        let sources = [(MASS, mass), (X, &position.x[..]), (Y, &position.y[..]), (Z, &position.z[..])];
        for (column, values) in sources {
            let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
            queue.write(columns.get(column), &values)?;
        }
        let (eps2, dt) = ((eps * eps) as f32, dt as f32);
        columns.write_constants(queue, eps2, dt)?;
        let (sum_pairs, advance_bodies) = (module.kernel("sum_pairs")?, module.kernel("advance_bodies")?);
        Ok(Self { device: device.clone(), sum_pairs, advance_bodies, columns, n, eps2, dt })
    }

    /// Queues one step on the default queue. Does not wait.
    pub fn queue_step(&self) -> Result<(), DeviceError> {
        let (queue, blocks) = (self.device.queue(), (self.n as u32).div_ceil(BLOCK_SIZE));
        queue.launch(&self.sum_pairs, blocks, BLOCK_SIZE, &self.columns.sum_args(self.eps2))?;
        queue.launch(&self.advance_bodies, blocks, BLOCK_SIZE, &self.columns.advance_args(self.dt))
    }

    /// Waits for all steps and returns the positions.
    pub fn positions(&self) -> Result<Vec3s, DeviceError> {
        let read = |column| -> Result<Vec<f64>, DeviceError> {
            Ok(self.columns.get(column).to_vec()?.into_iter().map(f64::from).collect())
        };
        Ok(Vec3s { x: read(X)?, y: read(Y)?, z: read(Z)? })
    }
}
