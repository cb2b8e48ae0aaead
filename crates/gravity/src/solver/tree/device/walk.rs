//! Tree walk on a device, one warp per group of neighbouring bodies. `walk.cu` describes it.

use std::ops::Range;

use orrery_device::{
    Arg, Backend, Buffer, Device, DeviceError, DeviceKind, Kernel, KernelBuilder, KernelFile, Math,
    join_sources, kernel_source,
};
use orrery_model::Precision;

use super::{DeviceTreeReport, ForceRequest, TreeDeviceStrategy, WalkOptions};
use crate::settings::{Acceptance, MAX_THETA};
use crate::tree::device::{BodyColumns, DeviceOctree, LAYOUT_SOURCE, TreePlan};

/// Threads per block: one warp.
pub(super) const BLOCK_SIZE: u32 = 32;
/// Numbers that each warp writes in `walk.cu`: body terms, cell terms, most terms of one body.
const STATISTICS: usize = 3;
/// 32-bit registers of an SM of all GPUs of NVIDIA since 2014.
const REGISTERS_PER_SM: u32 = 65_536;
/// Largest opening angle. With a larger angle, bodies could accept a cell that contains them: they
/// are nearer to its centre of mass than 0.87 of its side plus the offset of the centre of mass.
const MAX_SAFE_THETA: f64 = 1.0 / 0.88;

/// Walk kernel for one combination of acceptance and potentials.
struct WalkKernel {
    kernel: Kernel,
    /// Blocks, and therefore warps, that are resident at the same time.
    blocks: u32,
}

/// A tree and the kernels that walk it.
pub(super) struct TreeWalk {
    plan: TreePlan,
    options: WalkOptions,
    tree: DeviceOctree,
    /// Index: 1 if potentials are computed, plus 2 for the relative acceptance. Built when first
    /// used.
    kernels: [Option<WalkKernel>; 4],
    statistics: Buffer<u64>,
    /// Index of the kernel of the last evaluation.
    last: Option<usize>,
}

/// Returns the plan of the tree of `n` bodies.
pub(super) fn plan_tree(n: usize, strategy: &TreeDeviceStrategy) -> TreePlan {
    let TreeDeviceStrategy { precision, order, leaf_size, group_size, .. } = *strategy;
    // As on the CPU: a group may contain all bodies, and one body far away would cost the others
    // digits.
    let few = precision == Precision::Mixed && n < crate::solver::direct::MIXED_MIN_BODIES;
    TreePlan { precision: if few { Precision::Double } else { precision }, order, leaf_size, group_size }
}

/// Returns the opening angle, and alpha if the relative acceptance applies.
fn opening_criterion(request: &ForceRequest) -> (f64, Option<f64>) {
    let (theta, alpha) = match request.acceptance {
        Acceptance::Relative { alpha, .. } if request.previous.is_some() => (MAX_THETA, Some(alpha)),
        Acceptance::Relative { theta, .. } | Acceptance::Geometric { theta } => (theta, None),
    };
    (theta.min(MAX_SAFE_THETA), alpha)
}

// SAFETY: the kernel accesses the arrays of a `DeviceOctree`, which have the lengths that
// `layout.cu` gives, n elements of the columns, and STATISTICS values per block, which
// `TreeWalk::kernel` allocates.
const WALK: KernelFile = unsafe {
    KernelFile::new(
        "walk.cu",
        join_sources!(LAYOUT_SOURCE, kernel_source!("walk_tile.cu", "walk_near.cu", "walk.cu")),
    )
};

/// Returns the definitions of the kernel with this index in [`TreeWalk::kernels`].
fn definitions(
    device: &Device,
    plan: &TreePlan,
    options: &WalkOptions,
    index: usize,
) -> Vec<(&'static str, String)> {
    let WalkOptions { warps_per_sm, unroll_bodies, unroll_cells } = options;
    let mut definitions = plan.layout_definitions();
    let flag = |yes: bool| u32::from(yes).to_string();
    definitions.extend([
        ("MIN_BLOCKS_PER_SM", warps_per_sm.to_string()),
        ("UNROLL_BODIES", unroll_bodies.to_string()),
        ("UNROLL_CELLS", unroll_cells.to_string()),
        ("HAS_WARP_SHUFFLE", flag(device.properties().has_warp_shuffle)),
        ("POTENTIAL", flag(index & 1 != 0)),
        ("RELATIVE", flag(index & 2 != 0)),
    ]);
    if device.properties().backend == Backend::OpenCl {
        // The limit that CUDA derives from MIN_BLOCKS_PER_SM, in steps of 8.
        let max_registers = REGISTERS_PER_SM / (BLOCK_SIZE * warps_per_sm) / 8 * 8;
        definitions.push(("MAX_REGISTERS", max_registers.to_string()));
    }
    definitions
}

impl TreeWalk {
    pub fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &TreeDeviceStrategy,
    ) -> Result<Self, DeviceError> {
        let plan = plan_tree(n, strategy);
        let default = || WalkOptions::default_for(builder.device(), plan.precision, plan.order);
        let options = strategy.walk_options.unwrap_or_else(default);
        let tree = DeviceOctree::new(builder, n, plan)?;
        let statistics = builder.device().zeros(0)?;
        Ok(Self { plan, options, tree, kernels: [const { None }; 4], statistics, last: None })
    }

    /// Returns a kernel, and builds it if this is its first use.
    fn kernel(&mut self, builder: &mut KernelBuilder, index: usize) -> Result<&WalkKernel, DeviceError> {
        if self.kernels[index].is_none() {
            let kernel = self.build_kernel(builder, index)?;
            let len = STATISTICS * kernel.blocks as usize;
            if self.statistics.len() < len {
                self.statistics = builder.device().zeros(len)?;
            }
            self.kernels[index] = Some(kernel);
        }
        Ok(self.kernels[index].as_ref().expect("just built"))
    }

    fn build_kernel(&self, builder: &mut KernelBuilder, index: usize) -> Result<WalkKernel, DeviceError> {
        let definitions = definitions(builder.device(), &self.plan, &self.options, index);
        let math = if self.plan.precision == Precision::Double { Math::Precise } else { Math::FlushToZero };
        let kernel = builder.build(&WALK, &definitions, math)?.kernel("walk")?;
        let properties = builder.device().properties();
        let blocks = match kernel.blocks_per_sm(BLOCK_SIZE) {
            // OpenCL does not report how many blocks fit. On an H200, the 4 blocks that are assumed
            // elsewhere made the walk take three times as long as these. Blocks that do not fit
            // start late and find few groups left.
            None if properties.kind == DeviceKind::Gpu => properties.sm_count * self.options.warps_per_sm,
            _ => kernel.resident_blocks(BLOCK_SIZE),
        };
        Ok(WalkKernel { kernel, blocks })
    }

    /// Queues the build of the tree without its moments.
    pub fn build(&mut self, request: &ForceRequest, total_mass: f64) -> Result<(), DeviceError> {
        self.build_cells(request, total_mass)?;
        self.tree.find_groups(0..request.mass.len())
    }

    /// Queues the build of the tree without its groups and moments.
    pub fn build_cells(&mut self, request: &ForceRequest, total_mass: f64) -> Result<(), DeviceError> {
        let ForceRequest { position, mass, g, eps, .. } = *request;
        self.tree.build_cells(&BodyColumns { position, mass, g, eps, total_mass })
    }

    /// Queues the groups of the sorted bodies `range`, for a walk of these bodies only. Borders are
    /// multiples of the group size, or the number of bodies.
    pub fn find_groups(&self, range: Range<usize>) -> Result<(), DeviceError> {
        self.tree.find_groups(range)
    }

    /// Returns the user's index of each sorted body.
    pub fn order(&self) -> &Buffer<u32> {
        &self.tree.order
    }

    /// Queues the moments and opening distances.
    pub fn find_moments(&mut self, request: &ForceRequest) -> Result<(), DeviceError> {
        let (theta, alpha) = opening_criterion(request);
        self.tree.find_moments(theta, alpha.is_some())
    }

    /// Queues the walk, which writes the results of the bodies whose groups were queued.
    pub fn walk(&mut self, builder: &mut KernelBuilder, request: &ForceRequest) -> Result<(), DeviceError> {
        let (_, alpha) = opening_criterion(request);
        let index = usize::from(request.potential.is_some()) + 2 * usize::from(alpha.is_some());
        let WalkKernel { kernel, blocks } = self.kernel(builder, index)?;
        let (kernel, blocks) = (kernel.clone(), *blocks);
        self.last = Some(index);
        let tree = &self.tree;
        let mut args: Vec<Arg> = vec![
            (&tree.counts).into(),
            (&tree.groups).into(),
            (&tree.sizes).into(),
            (&tree.begin).into(),
            (&tree.end).into(),
            (&tree.children).into(),
            (&tree.centres).into(),
            (&tree.moments).into(),
            (&tree.relative_limits).into(),
            (&tree.high).into(),
            (&tree.low).into(),
            (&tree.frame).into(),
            (&tree.order).into(),
        ];
        args.extend(request.position.args());
        args.push(alpha.unwrap_or_default().into());
        // Kernels do not touch columns that are not requested, so any column of this length may
        // replace them.
        args.extend(request.previous.unwrap_or(request.acceleration).args());
        args.extend(request.acceleration.args());
        args.push(request.potential.unwrap_or(request.acceleration.x).into());
        args.push((&self.statistics).into());
        request.mass.device().queue().launch(&kernel, blocks, BLOCK_SIZE, &args)
    }

    /// Returns the report of the last evaluation. Waits for it.
    pub fn report(&self) -> Result<DeviceTreeReport, DeviceError> {
        let (cells, groups) = self.tree.cells_and_groups()?;
        let mut report = DeviceTreeReport { cells, groups, ..DeviceTreeReport::default() };
        if let Some(kernel) = self.last.and_then(|index| self.kernels[index].as_ref()) {
            let statistics = self.statistics.to_vec()?;
            for warp in statistics[..STATISTICS * kernel.blocks as usize].chunks_exact(STATISTICS) {
                report.body_terms += warp[0];
                report.cell_terms += warp[1];
                report.most_terms = report.most_terms.max(warp[2]);
            }
        }
        Ok(report)
    }

    /// Returns the kernel of the last evaluation.
    pub fn main_kernel(&self) -> Option<&Kernel> {
        Some(&self.kernels[self.last?].as_ref()?.kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::device::Order;
    use crate::tree::device::tests::check_reported_line;

    #[test]
    fn compile_errors_name_the_file_and_line() {
        let plan =
            TreePlan { precision: Precision::Mixed, order: Order::Quadrupole, leaf_size: 16, group_size: 32 };
        for device in Device::list().devices {
            let options = WalkOptions::default_for(&device, plan.precision, plan.order);
            let definitions = definitions(&device, &plan, &options, 0);
            check_reported_line(WALK.text(), &definitions, "layout.cu", 3);
            check_reported_line(WALK.text(), &definitions, "walk_tile.cu", 3);
            check_reported_line(WALK.text(), &definitions, "walk.cu", 3);
        }
    }
}
