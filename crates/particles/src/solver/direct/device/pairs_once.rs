//! Every pair once, for both bodies; see `pairs_once.cu`.

use orrery_device::{Buffer, Device, DeviceError, Kernel, Math};

use super::{DirectDeviceStrategy, Frame, PairSumRequest, resident_groups};
use crate::builder::Builder;
use crate::settings::Precision;

pub(super) struct PairsOnce {
    device: Device,
    frame: Frame,
    prepare: Kernel,
    pub(super) kernel: Kernel,
    within_blocks: Kernel,
    add_rounds: Kernel,
    strategy: DirectDeviceStrategy,
    plan: Plan,
    near_share: f32,
    high: Buffer<[f32; 4]>,
    low: Buffer<[f32; 4]>,
    own: Buffer<f64>,
    others: Buffer<f64>,
    within: Buffer<f64>,
}

/// Who meets whom in which round.
#[derive(Clone, Copy)]
struct Plan {
    /// Blocks of bodies.
    blocks: u32,
    /// Distances between blocks, 1 to this.
    distances: u32,
    /// Distances that one group meets.
    chunk: u32,
    /// Distances met in a round, a multiple of `chunk` unless it is all of them.
    a_round: u32,
}

/// Rounds are cut so that their sums take no more than this share of the device's memory.
const SHARE_OF_MEMORY: u64 = 16;

impl Plan {
    fn new(device: &Device, n: usize, strategy: &DirectDeviceStrategy, resident: u64) -> Self {
        let block = u64::from(strategy.block) * u64::from(strategy.targets);
        let blocks = (n as u64).div_ceil(block).max(1);
        let distances = blocks / 2;
        // Eight groups for each that fits at once even out the end of a round.
        let wanted = 8 * resident;
        let chunk = match strategy.splits {
            0 => (blocks * distances / wanted.max(1)).clamp(1, 4),
            splits => u64::from(splits),
        };
        let room = device.properties().memory / SHARE_OF_MEMORY / (24 * blocks * block);
        let a_round = (wanted.div_ceil(blocks) * chunk).min(room / chunk * chunk).max(chunk).min(distances);
        Self {
            blocks: blocks as u32,
            distances: distances as u32,
            chunk: chunk as u32,
            a_round: a_round as u32,
        }
    }

    fn chunks(&self) -> u32 {
        self.a_round.div_ceil(self.chunk)
    }
}

/// Bytes on the device, at most.
pub(super) fn bytes(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> u64 {
    let resident = u64::from(device.properties().sm_count) * 16;
    let plan = Plan::new(device, n, strategy, resident);
    let padded = u64::from(plan.blocks) * u64::from(strategy.block) * u64::from(strategy.targets);
    padded * (32 + 24 + 24 * u64::from(plan.a_round + plan.chunks()))
}

impl PairsOnce {
    pub(super) fn new(
        builder: &mut Builder,
        n: usize,
        strategy: &DirectDeviceStrategy,
        equal_masses: bool,
    ) -> Result<Self, DeviceError> {
        let DirectDeviceStrategy { precision, block, targets, unroll, .. } = *strategy;
        let definitions = [
            ("BLOCK_SIZE", block.to_string()),
            ("TARGETS", targets.to_string()),
            ("UNROLL_BY", unroll.to_string()),
            ("EQUAL_MASSES", u8::from(equal_masses).to_string()),
            ("MIXED", u8::from(precision == Precision::Mixed).to_string()),
            // 16 warps to a multiprocessor at least.
            ("RESIDENT", (512 / block).max(1).to_string()),
        ];
        let text = kernel_source!("frame_slots.cu", "frame.cu", "pair.cu", "pairs_once.cu");
        let module = builder.build("pairs_once.cu", text, &definitions, Math::FlushToZero)?;
        let kernel = module.kernel("pairs_once")?;
        let device = builder.device.clone();
        let plan = Plan::new(&device, n, strategy, resident_groups(&device, &kernel, block));
        let padded = plan.blocks as usize * (block * targets) as usize;
        // A quarter of the bodies' mean distance in a homogeneous system: nearer pairs are few, and those farther
        // apart keep their digits.
        let near = 0.25 / (n as f64).cbrt();
        Ok(Self {
            frame: Frame::new(builder)?,
            prepare: module.kernel("prepare")?,
            within_blocks: module.kernel("within_blocks")?,
            add_rounds: module.kernel("add_rounds")?,
            kernel,
            strategy: *strategy,
            plan,
            near_share: (near * near) as f32,
            high: device.zeros(padded)?,
            low: device.zeros(padded)?,
            own: device.zeros(3 * padded * plan.chunks() as usize)?,
            others: device.zeros(3 * padded * plan.a_round as usize)?,
            within: device.zeros(3 * padded)?,
            device,
        })
    }

    pub(super) fn queue(&mut self, evaluation: &PairSumRequest) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, acceleration, .. } = *evaluation;
        let frame = self.frame.find(evaluation)?;
        let queue = self.device.queue();
        let Plan { blocks, distances, chunk, a_round } = self.plan;
        let (n, padded, many) = (mass.len() as i32, self.high.len() as i32, blocks as i32);
        let (high, low) = (&self.high, &self.low);
        let [x, y, z] = position.args();
        let args = [x, y, z, mass.into(), frame.into(), n.into(), padded.into(), high.into(), low.into()];
        queue.launch(&self.prepare, (padded as u32).div_ceil(128), 128, &args)?;
        let args = [high.into(), low.into(), frame.into(), many.into(), (&self.within).into()];
        queue.launch(&self.within_blocks, blocks * self.strategy.targets, self.strategy.block, &args)?;
        for first in (1..=distances).step_by(a_round.max(1) as usize) {
            let last = (first + a_round).min(distances + 1);
            let chunks = (last - first).div_ceil(chunk);
            let fresh = i32::from(first == 1);
            let args = [
                high.into(),
                low.into(),
                frame.into(),
                many.into(),
                (first as i32).into(),
                (last as i32).into(),
                (chunk as i32).into(),
                fresh.into(),
                self.near_share.into(),
                (&self.own).into(),
                (&self.others).into(),
            ];
            queue.launch(&self.kernel, blocks * chunks, self.strategy.block, &args)?;
        }
        let [ax, ay, az] = acceleration.args();
        let (chunks, slots) = (self.plan.chunks() as i32, a_round as i32);
        let args = [
            (&self.within).into(),
            (&self.own).into(),
            chunks.into(),
            (&self.others).into(),
            slots.into(),
            high.into(),
            frame.into(),
            n.into(),
            padded.into(),
            ax,
            ay,
            az,
        ];
        queue.launch(&self.add_rounds, (n as u32).div_ceil(128), 128, &args)
    }
}
