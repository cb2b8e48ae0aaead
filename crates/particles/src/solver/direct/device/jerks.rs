//! Accelerations and jerks for the Hermite integrator. The reference implementation is
//! `solver::jerk`.

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, Math};

use super::Columns;
use crate::builder::Builder;

const BLOCK_SIZE: u32 = 128;

pub(super) struct JerkKernel {
    device: Device,
    kernel: Kernel,
}

impl JerkKernel {
    pub(super) fn new(builder: &mut Builder) -> Result<Self, DeviceError> {
        let definitions = [("BLOCK_SIZE", BLOCK_SIZE.to_string())];
        let module = builder.build("jerks.cu", include_str!("jerks.cu"), &definitions, Math::Precise)?;
        Ok(Self { kernel: module.kernel("forces_and_jerks")?, device: builder.device.clone() })
    }

    pub(super) fn queue_sum(
        &self,
        position: Columns,
        velocity: Columns,
        mass: &Buffer<f64>,
        g: f64,
        eps: f64,
        acceleration: Columns,
        jerk: Columns,
    ) -> Result<(), DeviceError> {
        let n = mass.len();
        let mut args = [position.args(), velocity.args()].concat();
        let constants: [Arg; 4] = [mass.into(), (n as i32).into(), g.into(), eps.into()];
        args.extend(constants);
        args.extend(acceleration.args());
        args.extend(jerk.args());
        self.device.queue().launch(&self.kernel, (n as u32).div_ceil(BLOCK_SIZE), BLOCK_SIZE, &args)
    }
}
