//! Frame of an evaluation: the origin and the units in which kernels compute. See `frame.cu`.

use orrery_device::{
    Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, defined_number, join_sources,
    kernel_source,
};

use super::{Columns, MAX_BODIES, expect_lengths};

/// Text of `frame_slots.cu`, for kernels that compute in the frame of an evaluation: the names of
/// its slots and `SCALED_COORDINATE`.
pub const FRAME_SLOTS_SOURCE: &str = kernel_source!("frame_slots.cu");

/// Returns a slot of the frame by its name in `frame_slots.cu`.
pub const fn frame_slot(name: &str) -> usize {
    defined_number(FRAME_SLOTS_SOURCE, name)
}

/// Text of `frame.cu`, for kernels that find the frame themselves (`find_frame_in_block`). It
/// follows [`FRAME_SLOTS_SOURCE`].
pub const FRAME_SOURCE: &str = kernel_source!("frame.cu");

/// Elements of the frame of a sum over all pairs.
const UNIT_SLOTS: usize = frame_slot("FRAME_UNIT_SLOTS");
/// Slot of the scaled squared softening.
const EPS2: usize = frame_slot("FRAME_EPS2");

// SAFETY: `find_frame` reads the first n elements of the columns, at least one, and writes
// FRAME_UNIT_SLOTS values. `EvaluationFrame::queue_update` checks that all columns have n elements.
const FRAME: KernelFile =
    unsafe { KernelFile::new("frame.cu", join_sources!(FRAME_SLOTS_SOURCE, FRAME_SOURCE)) };

/// Frame of an evaluation on a device, for kernels that do not compute it themselves.
pub struct EvaluationFrame {
    device: Device,
    kernel: Kernel,
    values: Buffer<f64>,
}

impl EvaluationFrame {
    /// Threads of the kernel (`FRAME_SAMPLE` in `frame.cu`).
    const BLOCK_SIZE: u32 = 32;

    /// Builds the kernel.
    pub fn new(builder: &mut KernelBuilder) -> Result<Self, DeviceError> {
        let module = builder.build(&FRAME, &[], Math::Precise)?;
        let (kernel, values) = (module.kernel("find_frame")?, builder.device().zeros(UNIT_SLOTS)?);
        Ok(Self { device: builder.device().clone(), kernel, values })
    }

    /// Queues the computation of the frame of these bodies, at most 2^30, and returns the buffer
    /// that it fills. [`FRAME_SLOTS_SOURCE`] names its slots. Without bodies nothing is queued.
    pub fn queue_update(
        &self,
        position: Columns,
        mass: &Buffer<f64>,
        g: f64,
        eps: f64,
        total_mass: f64,
    ) -> Result<&Buffer<f64>, DeviceError> {
        let n = mass.len();
        expect_lengths(n, &[position], [])?;
        if n > MAX_BODIES {
            return Err(DeviceError::Length { device: self.device.title(), expected: MAX_BODIES, got: n });
        }
        if n == 0 {
            return Ok(&self.values);
        }
        let ([x, y, z], n) = (position.args(), n as i32);
        let args = [x, y, z, n.into(), g.into(), eps.into(), total_mass.into(), (&self.values).into()];
        self.device.queue().launch(&self.kernel, 1, Self::BLOCK_SIZE, &args)?;
        Ok(&self.values)
    }

    /// Returns the buffer with the frame of the last update.
    pub fn values(&self) -> &Buffer<f64> {
        &self.values
    }

    /// Waits for the last update and returns the squared softening in scaled units.
    pub fn scaled_eps2(&self) -> Result<f64, DeviceError> {
        Ok(self.values.to_vec()?[EPS2])
    }
}
