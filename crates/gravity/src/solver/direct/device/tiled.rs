//! Tiles of sources in shared memory, several targets per thread. See `tiled.cu`.

use std::ops::Range;

use orrery_device::{
    Arg, Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, join_sources, kernel_source,
};
use orrery_model::Precision;

use super::{DirectDeviceStrategy, FRAME_SLOTS_SOURCE, FRAME_SOURCE, PAIR_SOURCE, PairSumRequest};
use crate::precision::{PRECISION_SOURCE, precision_definition};

// SAFETY: the kernel reads the first n elements of the columns, writes as many of the results or
// those of a range, one partial sum per split and padded target, and one counter per target block.
// `Tiled::build` allocates as many for the longest range, and the launch passes columns of length n
// and a range within them.
const TILED: KernelFile = unsafe {
    KernelFile::new(
        "tiled.cu",
        join_sources!(
            PRECISION_SOURCE,
            FRAME_SLOTS_SOURCE,
            FRAME_SOURCE,
            PAIR_SOURCE,
            kernel_source!("tiled.cu")
        ),
    )
};

/// Partial sums as the kernel writes them, one element per range of sources and padded target.
enum PartialSums {
    Single(Buffer<[f32; 4]>),
    Double(Buffer<[f64; 4]>),
}

pub(super) struct Tiled {
    device: Device,
    pub(super) kernel: Kernel,
    block_size: u32,
    targets_per_block: u32,
    plan: SplitPlan,
    /// Bodies whose forces are computed. None for all bodies.
    targets: Option<Range<usize>>,
    partial_sums: PartialSums,
    /// Number of thread blocks that have finished each target block. All 0 between launches.
    blocks_done: Buffer<u32>,
}

/// Division of the work: each thread block computes one target block with one range of sources.
#[derive(Clone, Copy)]
struct SplitPlan {
    target_blocks: u32,
    splits: u32,
    sources_per_split: u32,
}

/// Largest number of partial sums.
const MAX_PARTIAL_SUMS: u64 = 1 << 25;

impl SplitPlan {
    /// Divides the forces of `n` bodies on `targets` of them.
    fn new(n: usize, targets: usize, strategy: &DirectDeviceStrategy, resident_blocks: u64) -> Self {
        let (n, block) = (n as u64, u64::from(strategy.block));
        let target_blocks = (targets as u64).div_ceil(block * u64::from(strategy.targets)).max(1);
        // Four times as many thread blocks as run at once: they finish at about the same time.
        let wanted = match strategy.splits {
            0 => (4 * resident_blocks).div_ceil(target_blocks),
            splits => u64::from(splits),
        };
        let padded = target_blocks * block * u64::from(strategy.targets);
        let splits = wanted.min(MAX_PARTIAL_SUMS / padded).clamp(1, n.div_ceil(block).max(1));
        let sources_per_split = n.div_ceil(splits).next_multiple_of(block);
        Self {
            target_blocks: target_blocks as u32,
            splits: n.div_ceil(sources_per_split) as u32,
            sources_per_split: sources_per_split as u32,
        }
    }
}

/// Returns an upper bound of the bytes of scratch memory on the device. Assumes 16 blocks per SM.
pub(super) fn scratch_bytes(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> u64 {
    let bytes_per_sum = if strategy.precision == Precision::Single { 16 } else { 32 };
    let resident_blocks = u64::from(device.properties().sm_count) * 16;
    let plan = SplitPlan::new(n, n, strategy, resident_blocks);
    let padded = u64::from(plan.target_blocks) * u64::from(strategy.block) * u64::from(strategy.targets);
    bytes_per_sum * padded * u64::from(plan.splits)
}

impl Tiled {
    pub(super) fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &DirectDeviceStrategy,
        with_potential: bool,
    ) -> Result<Self, DeviceError> {
        Self::build(builder, n, strategy, with_potential, None)
    }

    /// Creates a sum of the forces of `n` bodies on those with indices in `targets`.
    ///
    /// # Panics
    /// If the range does not lie within the bodies.
    pub(super) fn for_targets(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &DirectDeviceStrategy,
        targets: Range<usize>,
    ) -> Result<Self, DeviceError> {
        assert!(targets.start <= targets.end && targets.end <= n, "targets {targets:?} of {n} bodies");
        Self::build(builder, n, strategy, false, Some(targets))
    }

    /// Creates a sum whose targets are a part of the bodies, which each [`Tiled::queue_part`]
    /// chooses. The sources are divided as for all targets, so that the results have the same bits.
    /// Parts start and end at multiples of the targets per thread block, or at the number of
    /// bodies.
    pub(super) fn for_parts(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &DirectDeviceStrategy,
        with_potential: bool,
    ) -> Result<Self, DeviceError> {
        Self::build(builder, n, strategy, with_potential, Some(0..n))
    }

    fn build(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &DirectDeviceStrategy,
        with_potential: bool,
        targets_range: Option<Range<usize>>,
    ) -> Result<Self, DeviceError> {
        let DirectDeviceStrategy { precision, block, targets, unroll, .. } = *strategy;
        let definitions = [
            precision_definition(precision),
            ("BLOCK_SIZE", block.to_string()),
            ("TARGETS_PER_THREAD", targets.to_string()),
            ("UNROLL_BY", unroll.to_string()),
            ("POTENTIAL", u8::from(with_potential).to_string()),
            ("TARGET_RANGE", u8::from(targets_range.is_some()).to_string()),
            // At least 16 warps per SM: registers for more targets than that slow the rest down.
            ("MIN_BLOCKS_PER_SM", (512 / block).max(1).to_string()),
        ];
        let module = builder.build(&TILED, &definitions, Math::FlushToZero)?;
        let kernel = module.kernel("tiled")?;
        let device = builder.device().clone();
        let target_count = targets_range.as_ref().map_or(n, Range::len);
        let plan = SplitPlan::new(n, target_count, strategy, u64::from(kernel.resident_blocks(block)));
        let length = plan.target_blocks as usize * (block * targets) as usize * plan.splits as usize;
        let partial_sums = match precision {
            Precision::Single => PartialSums::Single(device.zeros(length)?),
            Precision::Mixed | Precision::Double => PartialSums::Double(device.zeros(length)?),
        };
        let blocks_done = device.zeros(plan.target_blocks as usize)?;
        Ok(Self {
            kernel,
            device,
            block_size: block,
            targets_per_block: block * targets,
            plan,
            targets: targets_range,
            partial_sums,
            blocks_done,
        })
    }

    pub(super) fn queue_sum(
        &mut self,
        request: &PairSumRequest,
        potential: Option<&Buffer<f64>>,
    ) -> Result<(), DeviceError> {
        self.queue_blocks(request, potential, self.plan.target_blocks, self.targets.clone())
    }

    /// Queues the sum of `targets` only, for [`Tiled::for_parts`]. Other results do not change.
    pub(super) fn queue_part(
        &mut self,
        request: &PairSumRequest,
        potential: Option<&Buffer<f64>>,
        targets: Range<usize>,
    ) -> Result<(), DeviceError> {
        let target_blocks = (targets.len() as u32).div_ceil(self.targets_per_block);
        debug_assert!(target_blocks <= self.plan.target_blocks);
        self.queue_blocks(request, potential, target_blocks, Some(targets))
    }

    fn queue_blocks(
        &self,
        request: &PairSumRequest,
        potential: Option<&Buffer<f64>>,
        target_blocks: u32,
        targets: Option<Range<usize>>,
    ) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, g, eps, total_mass, acceleration } = *request;
        let SplitPlan { splits, sources_per_split, .. } = self.plan;
        let [x, y, z] = position.args();
        let [ax, ay, az] = acceleration.args();
        let mut args = vec![
            x,
            y,
            z,
            mass.into(),
            (mass.len() as i32).into(),
            g.into(),
            eps.into(),
            total_mass.into(),
            (target_blocks as i32).into(),
            (sources_per_split as i32).into(),
            match &self.partial_sums {
                PartialSums::Single(sums) => sums.into(),
                PartialSums::Double(sums) => sums.into(),
            },
            (&self.blocks_done).into(),
            ax,
            ay,
            az,
        ];
        args.extend(potential.map(Arg::from));
        if let Some(Range { start, end }) = targets {
            args.extend([Arg::from(start as i32), (end as i32).into()]);
        }
        self.device.queue().launch(&self.kernel, target_blocks * splits, self.block_size, &args)
    }
}
