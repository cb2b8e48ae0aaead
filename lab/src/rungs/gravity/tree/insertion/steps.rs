//! Time steps of the program of the course: all six kernels, v += a dt and x += v dt. The bodies
//! stay on the device.

use orrery_device::{Buffer, Device, DeviceError, Event, KernelBuilder};
use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::ForceProblem;
use orrery_gravity::solver::device::ForceRequest;
use orrery_measure::workload::{VectorBuffers, columns_of, read_vectors, upload_vectors, zero_vectors};
use orrery_model::Vec3s;

use super::{Insertion, InsertionOptions};

/// Bodies on a device that start at rest, with the kernels of a step.
pub struct InsertionSteps {
    insertion: Insertion,
    position: VectorBuffers,
    velocity: VectorBuffers,
    acceleration: VectorBuffers,
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
        problem: &ForceProblem,
        theta: f64,
        dt: f64,
    ) -> Result<Self, DeviceError> {
        let n = problem.mass.len();
        Ok(Self {
            insertion: Insertion::new(&mut KernelBuilder::new(device), n, options, blocks_per_sm)?,
            position: upload_vectors(device, problem.position)?,
            velocity: zero_vectors(device, n)?,
            acceleration: zero_vectors(device, n)?,
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
        read_vectors(&self.position)
    }

    /// Waits for all steps and returns the accelerations at the start of the last one.
    pub fn accelerations(&self) -> Result<Vec3s, DeviceError> {
        read_vectors(&self.acceleration)
    }

    /// Returns the tree of the last step.
    pub fn tree(&self) -> &Insertion {
        &self.insertion
    }
}

/// Returns the seconds between successive events. Waits for the last one.
fn times_between(events: &[Event]) -> Result<Vec<f64>, DeviceError> {
    if let Some(last) = events.last() {
        last.wait()?;
    }
    events.windows(2).map(|pair| pair[1].seconds_since(&pair[0])).collect()
}
