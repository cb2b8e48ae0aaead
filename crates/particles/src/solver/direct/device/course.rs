//! The steps of the course that this project grew from, kept as rungs of the ladder; see `course.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, Math};

use super::{DirectDeviceStrategy, DirectKernel, Frame, PairSumRequest};
use crate::builder::Builder;

pub(super) struct CourseKernels {
    device: Device,
    frame: Frame,
    convert: Kernel,
    pub(super) kernel: Kernel,
    scale: Kernel,
    pub(super) group: u32,
    rung: u32,
    bodies: Buffer<f32>,
    sums: Buffer<f32>,
    scaled: Scaled,
}

/// The softening in the frame's units, which the course's kernels take as a parameter. It comes from the frame of the
/// first evaluation: a ladder's bodies do not move.
#[derive(Default)]
struct Scaled {
    eps2: Option<f32>,
    parameters: Option<Buffer<f32>>,
}

/// Bytes on the device.
pub(super) fn bytes(n: usize) -> u64 {
    52 * n as u64
}

impl CourseKernels {
    pub(super) fn new(
        builder: &mut Builder,
        n: usize,
        strategy: &DirectDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let (rung, math) = match strategy.form {
            DirectKernel::OneThread => (0, Math::Precise),
            DirectKernel::Structs => (1, Math::Precise),
            DirectKernel::Arrays => (2, Math::Precise),
            DirectKernel::Constant => (3, Math::Precise),
            DirectKernel::Rsqrt => (4, Math::Precise),
            DirectKernel::TwoLoops => (5, Math::Precise),
            DirectKernel::Tile => (6, Math::Precise),
            DirectKernel::Unrolled => (7, Math::Precise),
            DirectKernel::NoIf => (8, Math::Precise),
            DirectKernel::Fma => (9, Math::Precise),
            DirectKernel::MoreUnrolled => (10, Math::Precise),
            DirectKernel::FlushToZero => (11, Math::FlushToZero),
            DirectKernel::FastMath | DirectKernel::Tiled | DirectKernel::PairsOnce => (12, Math::Fast),
        };
        let group = if rung == 0 { 32 } else { strategy.block };
        let definitions = [
            ("RUNG", rung.to_string()),
            ("BLOCK_SIZE", group.to_string()),
            ("UNROLL_BY", strategy.unroll.to_string()),
        ];
        let text = kernel_source!("frame_slots.cu", "course.cu");
        let module = builder.build("course.cu", text, &definitions, math)?;
        let device = builder.device.clone();
        Ok(Self {
            frame: Frame::new(builder)?,
            convert: module.kernel("convert")?,
            kernel: module.kernel("sum_pairs")?,
            scale: module.kernel("scale")?,
            group,
            rung,
            bodies: device.zeros(10 * n)?,
            sums: device.zeros(3 * n)?,
            scaled: Scaled::default(),
            device,
        })
    }

    pub(super) fn queue(&mut self, evaluation: &PairSumRequest) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, acceleration, .. } = *evaluation;
        let frame = self.frame.find(evaluation)?;
        let (queue, n) = (self.device.queue(), mass.len());
        let groups = (n as u32).div_ceil(128);
        let [x, y, z] = position.args();
        let args = [x, y, z, mass.into(), frame.into(), (n as i32).into(), (&self.bodies).into()];
        queue.launch(&self.convert, groups, 128, &args)?;

        let eps2 = match self.scaled.eps2 {
            Some(eps2) => eps2,
            None => *self.scaled.eps2.insert(frame.to_vec()?[5] as f32),
        };
        let (bodies, sums) = ((&self.bodies).into(), (&self.sums).into());
        let blocks = if self.rung == 0 { 1 } else { (n as u32).div_ceil(self.group) };
        if self.rung < 3 {
            queue.launch(
                &self.kernel,
                blocks,
                self.group,
                &[bodies, eps2.into(), (n as i32).into(), sums],
            )?;
        } else {
            let parameters = match self.scaled.parameters.take() {
                Some(parameters) => parameters,
                None => self.device.upload(&[eps2, f32::from_bits(n as u32)])?,
            };
            let parameters = self.scaled.parameters.insert(parameters);
            queue.launch(&self.kernel, blocks, self.group, &[bodies, (&*parameters).into(), sums])?;
        }
        let [ax, ay, az] = acceleration.args();
        queue.launch(&self.scale, groups, 128, &[sums, frame.into(), (n as i32).into(), ax, ay, az])
    }
}
