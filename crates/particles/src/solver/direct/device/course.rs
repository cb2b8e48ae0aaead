//! The optimisation steps of the course on GPU programming that this project started from. They are
//! rungs of the ladder. See `course.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, kernel_source};

use super::{DirectDeviceStrategy, DirectKernel, FRAME_EPS2, Frame, PairSumRequest};

// SAFETY: the kernels access n elements of the columns, 10 n of the bodies and 3 n of the sums.
// `CourseKernels::new` allocates as many, and the launches pass columns of length n.
const COURSE: KernelFile =
    unsafe { KernelFile::new("course.cu", kernel_source!("frame_slots.cu", "course.cu")) };

/// Block size of the kernels that convert bodies and sums.
const CONVERT_BLOCK_SIZE: u32 = 128;

pub(super) struct CourseKernels {
    device: Device,
    frame: Frame,
    convert_bodies: Kernel,
    pub(super) kernel: Kernel,
    scale_sums: Kernel,
    pub(super) block_size: u32,
    rung: u32,
    bodies: Buffer<f32>,
    sums: Buffer<f32>,
    parameters: KernelParameters,
}

/// Squared softening in scaled units, which the course's kernels take as a parameter, and the
/// parameter block of the kernels that read it from constant memory. Both come from the frame of
/// the first evaluation: bodies do not move in a ladder.
#[derive(Default)]
struct KernelParameters {
    eps2: Option<f32>,
    block: Option<Buffer<f32>>,
}

/// Returns the bytes of scratch memory on the device: ten numbers per body, three sums.
pub(super) fn scratch_bytes(n: usize) -> u64 {
    52 * n as u64
}

/// Returns the value of `RUNG` in `course.cu` and the compiler flags.
fn rung_and_math(kernel: DirectKernel) -> (u32, Math) {
    match kernel {
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
    }
}

impl CourseKernels {
    pub(super) fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &DirectDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let (rung, math) = rung_and_math(strategy.kernel);
        let block_size = if rung == 0 { 32 } else { strategy.block };
        let definitions = [
            ("RUNG", rung.to_string()),
            ("BLOCK_SIZE", block_size.to_string()),
            ("UNROLL_BY", strategy.unroll.to_string()),
        ];
        let module = builder.build(&COURSE, &definitions, math)?;
        let device = builder.device().clone();
        Ok(Self {
            frame: Frame::new(builder)?,
            convert_bodies: module.kernel("convert_bodies")?,
            kernel: module.kernel("sum_pairs")?,
            scale_sums: module.kernel("scale_sums")?,
            block_size,
            rung,
            bodies: device.zeros(10 * n)?,
            sums: device.zeros(3 * n)?,
            parameters: KernelParameters::default(),
            device,
        })
    }

    pub(super) fn queue_sum(&mut self, request: &PairSumRequest) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, acceleration, .. } = *request;
        let frame = self.frame.queue_update(request)?;
        let (queue, n) = (self.device.queue(), mass.len());
        let convert_blocks = (n as u32).div_ceil(CONVERT_BLOCK_SIZE);
        let [x, y, z] = position.args();
        let args = [x, y, z, mass.into(), frame.into(), (n as i32).into(), (&self.bodies).into()];
        queue.launch(&self.convert_bodies, convert_blocks, CONVERT_BLOCK_SIZE, &args)?;

        let eps2 = match self.parameters.eps2 {
            Some(eps2) => eps2,
            None => *self.parameters.eps2.insert(frame.to_vec()?[FRAME_EPS2] as f32),
        };
        let (bodies, sums) = ((&self.bodies).into(), (&self.sums).into());
        let blocks = if self.rung == 0 { 1 } else { (n as u32).div_ceil(self.block_size) };
        if self.rung < 3 {
            let args = [bodies, eps2.into(), (n as i32).into(), sums];
            queue.launch(&self.kernel, blocks, self.block_size, &args)?;
        } else {
            let parameters = match self.parameters.block.take() {
                Some(parameters) => parameters,
                None => self.device.upload(&[eps2, f32::from_bits(n as u32)])?,
            };
            let parameters = self.parameters.block.insert(parameters);
            queue.launch(&self.kernel, blocks, self.block_size, &[bodies, (&*parameters).into(), sums])?;
        }
        let [ax, ay, az] = acceleration.args();
        let args = [sums, frame.into(), (n as i32).into(), ax, ay, az];
        queue.launch(&self.scale_sums, convert_blocks, CONVERT_BLOCK_SIZE, &args)
    }
}
