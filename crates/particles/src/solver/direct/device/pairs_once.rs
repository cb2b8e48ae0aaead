//! Each pair evaluated once for both bodies. See `pairs_once.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, KernelBuilder, KernelFile, Math, kernel_source};
use orrery_model::Precision;

use super::{DirectDeviceStrategy, Frame, PairSumRequest};

// SAFETY: the kernels access n elements of the columns and one element per padded body of the other
// buffers, in as many rows as `RoundPlan` has chunks and offsets. `PairsOnce::new` allocates as
// many, and the launches pass columns of length n.
const PAIRS_ONCE: KernelFile = unsafe {
    KernelFile::new("pairs_once.cu", kernel_source!("frame_slots.cu", "frame.cu", "pair.cu", "pairs_once.cu"))
};

/// Block size of the kernels with one thread per body.
const BODY_BLOCK_SIZE: u32 = 128;

pub(super) struct PairsOnce {
    device: Device,
    frame: Frame,
    prepare: Kernel,
    pub(super) kernel: Kernel,
    within_blocks: Kernel,
    add_rounds: Kernel,
    strategy: DirectDeviceStrategy,
    plan: RoundPlan,
    near_factor: f32,
    /// High parts of scaled positions, and masses. One element per padded body.
    high: Buffer<[f32; 4]>,
    /// Low parts of scaled positions.
    low: Buffer<[f32; 4]>,
    /// Forces on the target blocks: `[chunk][axis][body]`.
    own_sums: Buffer<f64>,
    /// Forces on the source blocks: `[offset in the round][axis][body]`.
    reaction_sums: Buffer<f64>,
    /// Forces within the body blocks: `[axis][body]`.
    within_sums: Buffer<f64>,
}

/// Division of the pairs of body blocks into rounds and chunks. Terms as in `pairs_once.cu`.
#[derive(Clone, Copy)]
struct RoundPlan {
    /// Number of body blocks.
    body_blocks: u32,
    /// Offsets between paired body blocks are 1 to this.
    max_offset: u32,
    /// Number of offsets per thread block.
    offsets_per_chunk: u32,
    /// Number of offsets per round, a multiple of `offsets_per_chunk` unless one round has all.
    offsets_per_round: u32,
}

/// The sums of a round take at most the device's memory divided by this.
const MEMORY_DIVISOR: u64 = 16;

impl RoundPlan {
    fn new(device: &Device, n: usize, strategy: &DirectDeviceStrategy, resident_blocks: u64) -> Self {
        let bodies_per_block = u64::from(strategy.block) * u64::from(strategy.targets);
        let body_blocks = (n as u64).div_ceil(bodies_per_block).max(1);
        let max_offset = body_blocks / 2;
        // Eight times as many thread blocks as run at once: they finish at about the same time.
        let wanted_blocks = 8 * resident_blocks;
        let offsets_per_chunk = match strategy.splits {
            0 => (body_blocks * max_offset / wanted_blocks.max(1)).clamp(1, 4),
            splits => u64::from(splits),
        };
        let offsets_in_memory =
            device.properties().memory / MEMORY_DIVISOR / (24 * body_blocks * bodies_per_block);
        let offsets_per_round = (wanted_blocks.div_ceil(body_blocks) * offsets_per_chunk)
            .min(offsets_in_memory / offsets_per_chunk * offsets_per_chunk)
            .max(offsets_per_chunk)
            .min(max_offset);
        Self {
            body_blocks: body_blocks as u32,
            max_offset: max_offset as u32,
            offsets_per_chunk: offsets_per_chunk as u32,
            offsets_per_round: offsets_per_round as u32,
        }
    }

    fn chunks_per_round(&self) -> u32 {
        self.offsets_per_round.div_ceil(self.offsets_per_chunk)
    }
}

/// Returns an upper bound of the bytes of scratch memory on the device. Assumes 16 blocks per SM.
pub(super) fn scratch_bytes(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> u64 {
    let resident_blocks = u64::from(device.properties().sm_count) * 16;
    let plan = RoundPlan::new(device, n, strategy, resident_blocks);
    let padded = u64::from(plan.body_blocks) * u64::from(strategy.block) * u64::from(strategy.targets);
    padded * (32 + 24 + 24 * u64::from(plan.offsets_per_round + plan.chunks_per_round()))
}

impl PairsOnce {
    pub(super) fn new(
        builder: &mut KernelBuilder,
        n: usize,
        strategy: &DirectDeviceStrategy,
        equal_masses: bool,
    ) -> Result<Self, DeviceError> {
        let DirectDeviceStrategy { precision, block, targets, unroll, .. } = *strategy;
        let definitions = [
            ("BLOCK_SIZE", block.to_string()),
            ("TARGETS_PER_THREAD", targets.to_string()),
            ("UNROLL_BY", unroll.to_string()),
            ("EQUAL_MASSES", u8::from(equal_masses).to_string()),
            ("MIXED", u8::from(precision == Precision::Mixed).to_string()),
            // At least 16 warps per SM.
            ("MIN_BLOCKS_PER_SM", (512 / block).max(1).to_string()),
        ];
        let module = builder.build(&PAIRS_ONCE, &definitions, Math::FlushToZero)?;
        let kernel = module.kernel("pairs_once")?;
        let device = builder.device().clone();
        let plan = RoundPlan::new(&device, n, strategy, u64::from(kernel.resident_blocks(block)));
        let padded = plan.body_blocks as usize * (block * targets) as usize;
        // A quarter of the mean distance between bodies in a homogeneous system. Nearer pairs are
        // few, and pairs farther apart keep their digits.
        let near_distance = 0.25 / (n as f64).cbrt();
        Ok(Self {
            frame: Frame::new(builder)?,
            prepare: module.kernel("prepare")?,
            within_blocks: module.kernel("within_blocks")?,
            add_rounds: module.kernel("add_rounds")?,
            kernel,
            strategy: *strategy,
            plan,
            near_factor: (near_distance * near_distance) as f32,
            high: device.zeros(padded)?,
            low: device.zeros(padded)?,
            own_sums: device.zeros(3 * padded * plan.chunks_per_round() as usize)?,
            reaction_sums: device.zeros(3 * padded * plan.offsets_per_round as usize)?,
            within_sums: device.zeros(3 * padded)?,
            device,
        })
    }

    pub(super) fn queue_sum(&mut self, request: &PairSumRequest) -> Result<(), DeviceError> {
        let frame = self.frame.queue_update(request)?;
        self.queue_preparation(request, frame)?;
        self.queue_rounds(frame)?;
        self.queue_addition(request, frame)
    }

    /// Queues the conversion of the bodies and the pairs within body blocks.
    fn queue_preparation(&self, request: &PairSumRequest, frame: &Buffer<f64>) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, .. } = *request;
        let DirectDeviceStrategy { block, targets, .. } = self.strategy;
        let (queue, body_blocks) = (self.device.queue(), self.plan.body_blocks);
        let (n, padded) = (mass.len() as i32, self.high.len() as i32);
        let (high, low) = (&self.high, &self.low);
        let [x, y, z] = position.args();
        let args = [x, y, z, mass.into(), frame.into(), n.into(), padded.into(), high.into(), low.into()];
        queue.launch(&self.prepare, (padded as u32).div_ceil(BODY_BLOCK_SIZE), BODY_BLOCK_SIZE, &args)?;
        let sums = &self.within_sums;
        let args = [high.into(), low.into(), frame.into(), (body_blocks as i32).into(), sums.into()];
        queue.launch(&self.within_blocks, body_blocks * targets, block, &args)
    }

    /// Queues the pairs of different body blocks, one launch per round.
    fn queue_rounds(&self, frame: &Buffer<f64>) -> Result<(), DeviceError> {
        let RoundPlan { body_blocks, max_offset, offsets_per_chunk, offsets_per_round } = self.plan;
        for first_offset in (1..=max_offset).step_by(offsets_per_round.max(1) as usize) {
            let end_offset = (first_offset + offsets_per_round).min(max_offset + 1);
            let chunks = (end_offset - first_offset).div_ceil(offsets_per_chunk);
            let is_first_round = i32::from(first_offset == 1);
            let args = [
                (&self.high).into(),
                (&self.low).into(),
                frame.into(),
                (body_blocks as i32).into(),
                (first_offset as i32).into(),
                (end_offset as i32).into(),
                (offsets_per_chunk as i32).into(),
                is_first_round.into(),
                self.near_factor.into(),
                (&self.own_sums).into(),
                (&self.reaction_sums).into(),
            ];
            self.device.queue().launch(&self.kernel, body_blocks * chunks, self.strategy.block, &args)?;
        }
        Ok(())
    }

    /// Queues the addition of all sums into the accelerations.
    fn queue_addition(&self, request: &PairSumRequest, frame: &Buffer<f64>) -> Result<(), DeviceError> {
        let (n, padded) = (request.mass.len() as i32, self.high.len() as i32);
        let [ax, ay, az] = request.acceleration.args();
        let args = [
            (&self.within_sums).into(),
            (&self.own_sums).into(),
            (self.plan.chunks_per_round() as i32).into(),
            (&self.reaction_sums).into(),
            (self.plan.offsets_per_round as i32).into(),
            (&self.high).into(),
            frame.into(),
            n.into(),
            padded.into(),
            ax,
            ay,
            az,
        ];
        let blocks = (n as u32).div_ceil(BODY_BLOCK_SIZE);
        self.device.queue().launch(&self.add_rounds, blocks, BODY_BLOCK_SIZE, &args)
    }
}
