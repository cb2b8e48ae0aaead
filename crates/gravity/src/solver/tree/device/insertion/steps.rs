//! Time steps of the program of the course: all six kernels, v += a dt and x += v dt. The bodies
//! stay on the device.

use orrery_device::{Buffer, Device, DeviceError, Event, Kernel, KernelBuilder};
use orrery_model::Vec3s;

use super::super::{Columns, DeviceTreeReport, ForceRequest, InsertionOptions};
use super::{Insertion, times_between};
use crate::settings::Acceptance;
use crate::solver::Problem;

/// Bodies on a device that start at rest, with the kernels of a step.
pub struct InsertionSteps {
    insertion: Insertion,
    position: [Buffer<f64>; 3],
    velocity: [Buffer<f64>; 3],
    acceleration: [Buffer<f64>; 3],
    mass: Buffer<f64>,
    g: f64,
    eps: f64,
    theta: f64,
    dt: f64,
}

impl InsertionSteps {
    /// Uploads the bodies of a problem, at least one. `blocks_per_sm` has the number of blocks per
    /// SM of each kernel, for example [`super::BLOCKS_PER_SM`].
    pub fn new(
        device: &Device,
        options: InsertionOptions,
        blocks_per_sm: [u32; 6],
        problem: &Problem,
        theta: f64,
        dt: f64,
    ) -> Result<Self, DeviceError> {
        let n = problem.mass.len();
        let Vec3s { x, y, z } = problem.position;
        let zeros = || Ok::<_, DeviceError>([device.zeros(n)?, device.zeros(n)?, device.zeros(n)?]);
        Ok(Self {
            insertion: Insertion::new(&mut KernelBuilder::new(device), n, options, blocks_per_sm)?,
            position: [device.upload(x)?, device.upload(y)?, device.upload(z)?],
            velocity: zeros()?,
            acceleration: zeros()?,
            mass: device.upload(problem.mass)?,
            g: problem.g,
            eps: problem.eps,
            theta,
            dt,
        })
    }

    /// Queues one step on the default queue. Does not wait.
    pub fn queue_step(&mut self) -> Result<(), DeviceError> {
        self.queue_marked(&mut || Ok(()))
    }

    /// Makes one step, waits for it, and returns the seconds of each of the six kernels, in the
    /// order of [`super::INSERTION_KERNELS`].
    pub fn time_kernels(&mut self) -> Result<[f64; 6], DeviceError> {
        let device = self.mass.device().clone();
        let mut events: Vec<Event> = Vec::new();
        self.queue_marked(&mut || {
            events.push(device.queue().record()?);
            Ok(())
        })?;
        Ok(times_between(&events)?.try_into().unwrap_or_default())
    }

    /// Queues a step. Calls `mark` before the first kernel and after each of them.
    fn queue_marked(&mut self, mark: &mut dyn FnMut() -> Result<(), DeviceError>) -> Result<(), DeviceError> {
        let request = ForceRequest {
            position: columns_of(&self.position),
            mass: &self.mass,
            g: self.g,
            eps: self.eps,
            acceptance: Acceptance::Geometric { theta: self.theta },
            previous: None,
            acceleration: columns_of(&self.acceleration),
            potential: None,
        };
        self.insertion.queue_kernels(&request, mark)?;
        let velocity = columns_of(&self.velocity);
        self.insertion.queue_motion(request.position, velocity, request.acceleration, self.dt)?;
        mark()
    }

    /// Waits for all steps and returns the positions.
    pub fn positions(&self) -> Result<Vec3s, DeviceError> {
        read_columns(&self.position)
    }

    /// Waits for all steps and returns the accelerations at the start of the last one.
    pub fn accelerations(&self) -> Result<Vec3s, DeviceError> {
        read_columns(&self.acceleration)
    }

    /// Returns the report of the last step. Waits for it.
    pub fn report(&self) -> Result<DeviceTreeReport, DeviceError> {
        self.insertion.report()
    }

    /// Returns the kernel that takes most of the time and its block size.
    pub fn main_kernel(&self) -> (&Kernel, u32) {
        self.insertion.main_kernel()
    }
}

fn columns_of([x, y, z]: &[Buffer<f64>; 3]) -> Columns<'_> {
    Columns { x, y, z }
}

fn read_columns([x, y, z]: &[Buffer<f64>; 3]) -> Result<Vec3s, DeviceError> {
    Ok(Vec3s { x: x.to_vec()?, y: y.to_vec()?, z: z.to_vec()? })
}
