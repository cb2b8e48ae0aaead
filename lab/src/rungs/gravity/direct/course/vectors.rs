//! Kernels of the second course: three layouts of the bodies, a loop with the stride of the grid,
//! and tiles of float4. See `vectors.cu`.

use orrery_device::{
    Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, join_sources, kernel_source,
};
use orrery_gravity::solver::device::ForceRequest;
use orrery_gravity::solver::direct::device::FRAME_SLOTS_SOURCE;
use orrery_measure::workload::{TimedSolver, all_pairs};

use super::{BLOCK_SIZE, CONVERT_BLOCK_SIZE, LadderFrame};
use crate::kernel_enum::kernel_enum;
use crate::rungs::gravity::{check_body_count, check_request};

// SAFETY: the kernels access `floats_per_body` n elements of `bodies`, 3 n of `sums` and n of the
// columns. `VectorSum::new` allocates as many, and the launches pass n.
const VECTORS: KernelFile = unsafe {
    KernelFile::new(
        "vectors.cu",
        join_sources!(BodyLayout::DEFINES, FRAME_SLOTS_SOURCE, kernel_source!("vectors.cu")),
    )
};

kernel_enum! {
    /// Layout of the bodies.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BodyLayout {
        /// Structures of seven floats.
        Structs = 0 => "LAYOUT_STRUCTS",
        /// A structure of arrays.
        Arrays = 1 => "LAYOUT_ARRAYS",
        /// float4.
        Float4 = 2 => "LAYOUT_FLOAT4",
    }
}

impl BodyLayout {
    /// Returns the number of floats per body.
    pub fn floats_per_body(self) -> usize {
        match self {
            Self::Structs => 7,
            Self::Arrays | Self::Float4 => 4,
        }
    }
}

/// Kernel of the second course. All compute in f32, without an `if`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorKernel {
    /// Bodies as an array of structures of seven floats.
    BodyStructs,
    /// Bodies as a structure of arrays.
    BodyArrays,
    /// Bodies as float4.
    BodyFloat4,
    /// A loop with the stride of the grid over the targets of a thread.
    GridStride,
    /// Tiles of float4 in shared memory.
    TileFloat4,
}

impl VectorKernel {
    /// Returns the layout of the bodies.
    pub fn layout(self) -> BodyLayout {
        match self {
            Self::BodyStructs => BodyLayout::Structs,
            Self::BodyArrays => BodyLayout::Arrays,
            Self::BodyFloat4 | Self::GridStride | Self::TileFloat4 => BodyLayout::Float4,
        }
    }

    /// Returns whether blocks load tiles of sources into shared memory.
    pub fn has_tiles(self) -> bool {
        self == Self::TileFloat4
    }

    /// Returns whether the grid has only as many blocks as run at once.
    fn has_grid_stride(self) -> bool {
        matches!(self, Self::GridStride | Self::TileFloat4)
    }
}

/// Kernel of the second course with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorStrategy {
    /// Kernel.
    pub kernel: VectorKernel,
    /// Number of iterations of the inner loop that are unrolled.
    pub unroll: u32,
}

/// Sum over all pairs by a kernel of the second course.
pub(in crate::rungs::gravity) struct VectorSum {
    device: Device,
    n: usize,
    frame: LadderFrame,
    convert_bodies: Kernel,
    sum_pairs: Kernel,
    scale_sums: Kernel,
    /// Blocks of the sum.
    blocks: u32,
    bodies: Buffer<f32>,
    sums: Buffer<f32>,
    /// Squared softening in scaled units, from the frame of the first evaluation: bodies do not
    /// move in a ladder.
    eps2: Option<f32>,
}

impl VectorSum {
    /// Builds the kernels for `n` bodies, at least one.
    pub(in crate::rungs::gravity) fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &VectorStrategy,
    ) -> Result<Self, DeviceError> {
        check_body_count(builder.device(), n)?;
        let VectorStrategy { kernel, unroll } = *strategy;
        let definitions = [
            ("LAYOUT", kernel.layout().kernel_name().to_owned()),
            ("TILED", u8::from(kernel.has_tiles()).to_string()),
            ("BLOCK_SIZE", BLOCK_SIZE.to_string()),
            ("UNROLL_BY", unroll.to_string()),
        ];
        let module = builder.build(&VECTORS, &definitions, Math::Precise)?;
        let sum_pairs = module.kernel("sum_pairs")?;
        let all_blocks = (n as u32).div_ceil(BLOCK_SIZE);
        let most_blocks =
            if kernel.has_grid_stride() { sum_pairs.resident_blocks(BLOCK_SIZE) } else { u32::MAX };
        let device = builder.device().clone();
        Ok(Self {
            n,
            frame: LadderFrame::new(builder)?,
            convert_bodies: module.kernel("convert_bodies")?,
            scale_sums: module.kernel("scale_sums")?,
            blocks: all_blocks.min(most_blocks),
            bodies: device.zeros(kernel.layout().floats_per_body() * n)?,
            sums: device.zeros(3 * n)?,
            eps2: None,
            sum_pairs,
            device,
        })
    }
}

impl TimedSolver for VectorSum {
    fn queue_forces(&mut self, request: &ForceRequest) -> Result<(), DeviceError> {
        check_request(request, self.n, VECTORS.name())?;
        let ForceRequest { position, mass, acceleration, .. } = *request;
        self.frame.queue_update(request)?;
        let (queue, frame, n) = (self.device.queue(), self.frame.values(), Arg::from(self.n as i32));
        let convert_blocks = (self.n as u32).div_ceil(CONVERT_BLOCK_SIZE);
        let [x, y, z] = position.args();
        let args = [x, y, z, mass.into(), frame.into(), n, (&self.bodies).into()];
        queue.launch(&self.convert_bodies, convert_blocks, CONVERT_BLOCK_SIZE, &args)?;

        let eps2 = match self.eps2 {
            Some(eps2) => eps2,
            None => *self.eps2.insert(self.frame.scaled_eps2()? as f32),
        };
        let args = [(&self.bodies).into(), (&self.sums).into(), eps2.into(), n];
        queue.launch(&self.sum_pairs, self.blocks, BLOCK_SIZE, &args)?;

        let [ax, ay, az] = acceleration.args();
        let args = [(&self.sums).into(), frame.into(), n, ax, ay, az];
        queue.launch(&self.scale_sums, convert_blocks, CONVERT_BLOCK_SIZE, &args)
    }

    fn count_terms(&self, n: usize) -> Result<[u64; 2], DeviceError> {
        Ok(all_pairs(n))
    }

    fn main_kernel(&self) -> Option<(&Kernel, u32)> {
        Some((&self.sum_pairs, BLOCK_SIZE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_enum::check_conditions;

    #[test]
    fn layouts_in_the_kernel_file_are_defined() {
        check_conditions(VECTORS.text(), "LAYOUT");
    }
}
