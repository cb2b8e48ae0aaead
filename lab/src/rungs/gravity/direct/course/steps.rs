//! Time steps of the program of the course: a kernel for the forces and one that moves the bodies.
//!
//! v += a dt, x += v dt, with a the sum over all pairs in f32 and G = 1. All bodies start at rest.
//!
//! Each step is two launches with nine to eleven arguments. The course moves all parameters to
//! constant memory and measures the gain for 1,000 bodies, where a launch takes longest in relation
//! to the kernels. With many bodies, the time of a step is that of the pairs. All times of the
//! course are times of steps.

use orrery_device::{Device, DeviceError, Kernel};
use orrery_model::Vec3s;

use super::columns::{AX, AY, AZ, CourseColumns, MASS, X, Y, Z};
use super::{BLOCK_SIZE, COURSE, CourseKernel, check_body_count};

/// Stage of the program of the course whose steps are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CourseProgram {
    /// Columns. Parameters are arguments of every launch.
    Arguments,
    /// Parameters in constant memory, written once. On OpenCL, without the addresses of the
    /// columns.
    ConstantMemory,
    /// The last rung of the course: tiles, unrolled 128 times, fast math.
    Final,
}

impl CourseProgram {
    /// Returns the kernel of the forces and its unroll factor.
    fn force_kernel(self) -> (CourseKernel, u32) {
        match self {
            Self::Arguments => (CourseKernel::Arrays, 1),
            Self::ConstantMemory => (CourseKernel::Constant, 1),
            Self::Final => (CourseKernel::FastMath, 128),
        }
    }
}

/// Bodies on a device with the kernels of a step.
pub struct CourseSteps {
    device: Device,
    sum_pairs: Kernel,
    advance_bodies: Kernel,
    columns: CourseColumns<f32>,
    n: usize,
    eps2: f32,
    dt: f32,
}

impl CourseSteps {
    /// Uploads bodies at rest. `position` and `mass` have one element per body, at least one.
    pub fn new(
        device: &Device,
        program: CourseProgram,
        position: &Vec3s,
        mass: &[f64],
        eps: f64,
        dt: f64,
    ) -> Result<Self, DeviceError> {
        let n = mass.len();
        check_body_count(device, n)?;
        let (kernel, unroll) = program.force_kernel();
        let module = device.build(&COURSE, &kernel.definitions::<f32>(BLOCK_SIZE, unroll), kernel.math())?;
        let columns = match program {
            CourseProgram::Arguments => CourseColumns::with_arguments(device, n)?,
            CourseProgram::ConstantMemory | CourseProgram::Final => {
                CourseColumns::with_constants(device, n, &module)?
            }
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
        self.read([X, Y, Z])
    }

    /// Waits for all steps and returns the accelerations at the start of the last one.
    pub fn accelerations(&self) -> Result<Vec3s, DeviceError> {
        self.read([AX, AY, AZ])
    }

    fn read(&self, columns: [usize; 3]) -> Result<Vec3s, DeviceError> {
        let read = |column| -> Result<Vec<f64>, DeviceError> {
            Ok(self.columns.get(column).to_vec()?.into_iter().map(f64::from).collect())
        };
        let [x, y, z] = columns;
        Ok(Vec3s { x: read(x)?, y: read(y)?, z: read(z)? })
    }

    /// Returns the kernel of the forces and its block size.
    pub fn main_kernel(&self) -> (&Kernel, u32) {
        (&self.sum_pairs, BLOCK_SIZE)
    }
}
