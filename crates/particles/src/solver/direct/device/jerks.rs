//! Accelerations and jerks for the Hermite integrator. The reference implementation is
//! `solver::jerk`.

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math};

use super::Columns;

// SAFETY: the kernel accesses the first n elements of all columns, and the launch passes columns of
// length n.
const JERKS: KernelFile = unsafe { KernelFile::new("jerks.cu", include_str!("jerks.cu")) };

const BLOCK_SIZE: u32 = 128;

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
