//! Kernels of the second course: three layouts of the bodies, a loop with the stride of the grid,
//! and tiles of float4. See `vectors.cu`.

use orrery_device::{
    Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, kernel_source,
};

use super::super::{DirectDeviceStrategy, DirectKernel, FRAME_EPS2, Frame, PairSumRequest};
use super::CONVERT_BLOCK_SIZE;

// SAFETY: the kernels access FLOATS_PER_BODY n elements of `bodies`, or 7 n of structures, 3 n of
// `sums` and n of the columns. `VectorKernels::new` allocates as many, and the launches pass n.
const VECTORS: KernelFile =
    unsafe { KernelFile::new("vectors.cu", kernel_source!("../frame_slots.cu", "vectors.cu")) };

/// Differences between the kernels of the second course.
struct Variant {
    /// Value of `LAYOUT` in `vectors.cu`.
    layout: u32,
    /// Floats per body in this layout.
    floats_per_body: usize,
    is_tiled: bool,
    /// Whether the grid has only as many blocks as run at once.
    has_grid_stride: bool,
}

impl Variant {
    /// Returns the variant of a kernel. Kernels of other files count as tiled.
    fn new(kernel: DirectKernel) -> Self {
        let (layout, floats_per_body) = match kernel {
            DirectKernel::BodyStructs => (0, 7),
            DirectKernel::BodyArrays => (1, 4),
            _ => (2, 4),
        };
        let has_grid_stride = matches!(kernel, DirectKernel::GridStride | DirectKernel::TileFloat4);
        Self { layout, floats_per_body, is_tiled: kernel == DirectKernel::TileFloat4, has_grid_stride }
    }
}

pub(in crate::solver::direct::device) struct VectorKernels {
    device: Device,
    frame: Frame,
    convert_bodies: Kernel,
    pub(in crate::solver::direct::device) kernel: Kernel,
    scale_sums: Kernel,
    block_size: u32,
    /// Blocks of the sum.
    blocks: u32,
    bodies: Buffer<f32>,
    sums: Buffer<f32>,
    /// Squared softening in scaled units, from the frame of the first evaluation: bodies do not
    /// move in a ladder.
    eps2: Option<f32>,
}

impl VectorKernels {
    pub(in crate::solver::direct::device) fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &DirectDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let DirectDeviceStrategy { block: block_size, unroll, .. } = *strategy;
        let variant = Variant::new(strategy.kernel);
        let definitions = [
            ("LAYOUT", variant.layout.to_string()),
            ("TILED", u8::from(variant.is_tiled).to_string()),
            ("BLOCK_SIZE", block_size.to_string()),
            ("UNROLL_BY", unroll.to_string()),
        ];
        let module = builder.build(&VECTORS, &definitions, Math::Precise)?;
        let kernel = module.kernel("sum_pairs")?;
        let all_blocks = (n as u32).div_ceil(block_size);
        let most_blocks = if variant.has_grid_stride { kernel.resident_blocks(block_size) } else { u32::MAX };
        let device = builder.device().clone();
        Ok(Self {
            frame: Frame::new(builder)?,
            convert_bodies: module.kernel("convert_bodies")?,
            scale_sums: module.kernel("scale_sums")?,
            block_size,
            blocks: all_blocks.min(most_blocks),
            bodies: device.zeros(variant.floats_per_body * n)?,
            sums: device.zeros(3 * n)?,
            eps2: None,
            kernel,
            device,
        })
    }

    pub(in crate::solver::direct::device) fn queue_sum(
        &mut self,
        request: &PairSumRequest,
    ) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, acceleration, .. } = *request;
        let frame = self.frame.queue_update(request)?;
        let (queue, n) = (self.device.queue(), Arg::from(mass.len() as i32));
        let convert_blocks = (mass.len() as u32).div_ceil(CONVERT_BLOCK_SIZE);
        let [x, y, z] = position.args();
        let args = [x, y, z, mass.into(), frame.into(), n, (&self.bodies).into()];
        queue.launch(&self.convert_bodies, convert_blocks, CONVERT_BLOCK_SIZE, &args)?;

        let eps2 = match self.eps2 {
            Some(eps2) => eps2,
            None => *self.eps2.insert(frame.to_vec()?[FRAME_EPS2] as f32),
        };
        let args = [(&self.bodies).into(), (&self.sums).into(), eps2.into(), n];
        queue.launch(&self.kernel, self.blocks, self.block_size, &args)?;

        let [ax, ay, az] = acceleration.args();
        let args = [(&self.sums).into(), frame.into(), n, ax, ay, az];
        queue.launch(&self.scale_sums, convert_blocks, CONVERT_BLOCK_SIZE, &args)
    }
}
