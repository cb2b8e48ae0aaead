//! Forces of all bodies on some of them, for a sum that a device shares with the CPU.

use std::ops::Range;

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelBuilder};

use super::tiled::Tiled;
use super::{Columns, DirectDeviceStrategy, MAX_BODIES, MassSummary, PairSumRequest};

/// Sum of the forces of all bodies on those with indices in a range, on a device.
pub struct DeviceTargetSum {
    tiled: Tiled,
    block: u32,
    n: usize,
    total_mass: f64,
    targets: Range<usize>,
}

impl DeviceTargetSum {
    /// Builds the kernel [`DirectKernel::Tiled`](super::DirectKernel::Tiled) with the parameters of
    /// `strategy`. `mass` has one element per body, at most 2^30.
    ///
    /// # Panics
    /// If `targets` does not lie within the bodies.
    pub fn new(
        device: &Device,
        mass: &[f64],
        targets: Range<usize>,
        strategy: &DirectDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let n = mass.len();
        if n > MAX_BODIES {
            return Err(DeviceError::Length { device: device.title(), expected: MAX_BODIES, got: n });
        }
        let mut builder = KernelBuilder::new(device);
        Ok(Self {
            tiled: Tiled::for_targets(&mut builder, n, strategy, targets.clone())?,
            block: strategy.block,
            n,
            total_mass: MassSummary::new(mass).total,
            targets,
        })
    }

    /// Returns the indices of the bodies whose forces are computed.
    pub fn targets(&self) -> Range<usize> {
        self.targets.clone()
    }

    /// Queues the computation of the accelerations of the targets in the default queue. Does not
    /// wait. All buffers have one element per body, and those of other bodies do not change.
    pub fn queue_forces(
        &mut self,
        position: Columns,
        mass: &Buffer<f64>,
        g: f64,
        eps: f64,
        acceleration: Columns,
    ) -> Result<(), DeviceError> {
        super::expect_lengths(self.n, &[position, acceleration], [mass])?;
        if self.targets.is_empty() {
            return Ok(());
        }
        let total_mass = self.total_mass;
        self.tiled.queue_sum(&PairSumRequest { position, mass, g, eps, total_mass, acceleration }, None)
    }

    /// Returns the kernel and its block size.
    pub fn main_kernel(&self) -> (&Kernel, u32) {
        (&self.tiled.kernel, self.block)
    }
}
