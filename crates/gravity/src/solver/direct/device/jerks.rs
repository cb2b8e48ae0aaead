//! Accelerations and jerks for the Hermite integrator. The reference implementation is
//! `solver::jerk`.

use std::ops::Range;

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math};

use super::Columns;

// SAFETY: the kernel reads the first n elements of all columns and writes those of the targets. The
// launch passes columns of length n and targets within them.
const JERKS: KernelFile = unsafe { KernelFile::new("jerks.cu", include_str!("jerks.cu")) };

const BLOCK_SIZE: u32 = 128;

/// Inputs and outputs of accelerations and jerks. All buffers have one element per body.
#[derive(Clone, Copy)]
pub struct JerkRequest<'a> {
    /// Positions.
    pub position: Columns<'a>,
    /// Velocities.
    pub velocity: Columns<'a>,
    /// Masses.
    pub mass: &'a Buffer<f64>,
    /// Gravitational constant.
    pub g: f64,
    /// Plummer softening.
    pub eps: f64,
    /// Accelerations (output).
    pub acceleration: Columns<'a>,
    /// Time derivatives of the accelerations (output).
    pub jerk: Columns<'a>,
}

pub(super) struct JerkKernel {
    device: Device,
    kernel: Kernel,
}

impl JerkKernel {
    pub(super) fn new(builder: &mut KernelBuilder) -> Result<Self, DeviceError> {
        let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let module = builder.build(&JERKS, &definitions, Math::Precise)?;
        Ok(Self { kernel: module.kernel("forces_and_jerks")?, device: builder.device().clone() })
    }

    /// Queues the sums of `targets`. The results of other bodies do not change.
    pub(super) fn queue_sum(&self, request: &JerkRequest, targets: Range<usize>) -> Result<(), DeviceError> {
        let JerkRequest { position, velocity, mass, g, eps, acceleration, jerk } = *request;
        let [n, begin, end] = [mass.len(), targets.start, targets.end].map(|count| Arg::from(count as i32));
        let mut args = [position.args(), velocity.args()].concat();
        args.extend([mass.into(), n, begin, end, g.into(), eps.into()]);
        args.extend(acceleration.args());
        args.extend(jerk.args());
        let blocks = (targets.len() as u32).div_ceil(BLOCK_SIZE);
        self.device.queue().launch(&self.kernel, blocks, BLOCK_SIZE, &args)
    }
}
