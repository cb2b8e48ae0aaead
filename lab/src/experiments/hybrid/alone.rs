//! The device alone, with its fastest kernel and copies from and to page-locked memory.

use orrery_device::{Buffer, Device, DeviceError, Pinned};
use orrery_gravity::solver::ForceProblem;
use orrery_gravity::solver::direct::device::{DeviceDirect, DirectDeviceStrategy};
use orrery_measure::workload::{VectorBuffers, columns_of, zero_vectors};
use orrery_model::{Precision, Vec3s};

use super::device_part::pinned_copies;

/// A sum by the device alone.
pub struct DeviceAlone<'a> {
    device: &'a Device,
    problem: ForceProblem<'a>,
    direct: DeviceDirect,
    mass: Buffer<f64>,
    position: VectorBuffers,
    acceleration: VectorBuffers,
    host_position: [Pinned<f64>; 3],
    found: [Pinned<f64>; 3],
}

impl<'a> DeviceAlone<'a> {
    /// Prepares the sum with the default strategy.
    pub fn new(device: &'a Device, problem: ForceProblem<'a>) -> Result<Self, DeviceError> {
        let n = problem.mass.len();
        let strategy = DirectDeviceStrategy::default_for(device, n, Precision::Single);
        Ok(Self {
            device,
            problem,
            direct: DeviceDirect::new(device, n, &strategy)?,
            mass: device.upload(problem.mass)?,
            position: zero_vectors(device, n)?,
            acceleration: zero_vectors(device, n)?,
            host_position: pinned_copies(device, problem.position)?,
            found: [device.pinned(n)?, device.pinned(n)?, device.pinned(n)?],
        })
    }

    /// Describes the strategy.
    pub fn describe(&self) -> String {
        self.direct.strategy().describe()
    }

    /// Copies the positions to the device, computes the accelerations, copies them back and waits.
    pub fn run(&mut self) -> Result<(), DeviceError> {
        let (queue, ForceProblem { g, eps, .. }) = (self.device.queue(), self.problem);
        for (to, from) in self.position.iter().zip(&mut self.host_position) {
            queue.write_async(to, from)?;
        }
        let (from, to) = (columns_of(&self.position), columns_of(&self.acceleration));
        self.direct.forces(from, &self.mass, g, eps, to, None)?;
        for (buffer, found) in self.acceleration.iter().zip(&mut self.found) {
            queue.read_async(buffer, found)?;
        }
        queue.finish()
    }

    /// Returns the accelerations of the last run, one per body.
    pub fn accelerations(&self) -> Vec3s {
        let [x, y, z] = self.found.each_ref().map(|column| column.to_vec());
        Vec3s { x, y, z }
    }
}
