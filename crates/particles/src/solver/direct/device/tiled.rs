//! Tiles of sources through local memory, several targets a thread; see `tiled.cu`.

use orrery_device::{Arg, Buffer, Device, DeviceError, Kernel, Math};

use super::{DirectDeviceStrategy, PairSumRequest, resident_groups};
use crate::builder::Builder;
use crate::settings::Precision;

/// Parts of the sums, as the kernel writes them.
enum Parts {
    Single(Buffer<[f32; 4]>),
    Double(Buffer<[f64; 4]>),
}

pub(super) struct Tiled {
    device: Device,
    pub(super) kernel: Kernel,
    block: u32,
    plan: Plan,
    parts: Parts,
    /// Groups that have finished a block of targets; all 0 between launches.
    arrived: Buffer<u32>,
}

/// Who sums what.
#[derive(Clone, Copy)]
struct Plan {
    target_groups: u32,
    splits: u32,
    sources_per_split: u32,
}

/// The parts take no more than this, however few targets there are.
const MOST_PARTS: u64 = 1 << 25;

impl Plan {
    fn new(n: usize, strategy: &DirectDeviceStrategy, resident: u64) -> Self {
        let (n, block) = (n as u64, u64::from(strategy.block));
        let target_groups = n.div_ceil(block * u64::from(strategy.targets)).max(1);
        // Four times what fits at once evens out the end.
        let wanted = match strategy.splits {
            0 => (4 * resident).div_ceil(target_groups),
            splits => u64::from(splits),
        };
        let padded = target_groups * block * u64::from(strategy.targets);
        let splits = wanted.min(MOST_PARTS / padded).clamp(1, n.div_ceil(block).max(1));
        let sources_per_split = n.div_ceil(splits).next_multiple_of(block);
        Self {
            target_groups: target_groups as u32,
            splits: n.div_ceil(sources_per_split) as u32,
            sources_per_split: sources_per_split as u32,
        }
    }
}

/// Bytes on the device, at most.
pub(super) fn bytes(device: &Device, n: usize, strategy: &DirectDeviceStrategy) -> u64 {
    let a_part = if strategy.precision == Precision::Single { 16 } else { 32 };
    let resident = u64::from(device.properties().sm_count) * 16;
    let plan = Plan::new(n, strategy, resident);
    let padded = u64::from(plan.target_groups) * u64::from(strategy.block) * u64::from(strategy.targets);
    a_part * padded * u64::from(plan.splits)
}

impl Tiled {
    pub(super) fn new(
        builder: &mut Builder,
        n: usize,
        strategy: &DirectDeviceStrategy,
        potential: bool,
    ) -> Result<Self, DeviceError> {
        let DirectDeviceStrategy { precision, block, targets, unroll, .. } = *strategy;
        let number = match precision {
            Precision::Single => 1,
            Precision::Mixed => 2,
            Precision::Double => 3,
        };
        let definitions = [
            ("PRECISION", number.to_string()),
            ("BLOCK_SIZE", block.to_string()),
            ("TARGETS", targets.to_string()),
            ("UNROLL_BY", unroll.to_string()),
            ("POTENTIAL", u8::from(potential).to_string()),
            // 16 warps to a multiprocessor at least: registers for more targets than that would hold back the rest.
            ("RESIDENT", (512 / block).max(1).to_string()),
        ];
        let text = kernel_source!("frame_slots.cu", "frame.cu", "pair.cu", "tiled.cu");
        let module = builder.build("tiled.cu", text, &definitions, Math::FlushToZero)?;
        let kernel = module.kernel("tiled")?;
        let device = builder.device.clone();
        let plan = Plan::new(n, strategy, resident_groups(&device, &kernel, block));
        let length = plan.target_groups as usize * (block * targets) as usize * plan.splits as usize;
        let parts = match precision {
            Precision::Single => Parts::Single(device.zeros(length)?),
            Precision::Mixed | Precision::Double => Parts::Double(device.zeros(length)?),
        };
        let arrived = device.zeros(plan.target_groups as usize)?;
        Ok(Self { kernel, device, block, plan, parts, arrived })
    }

    pub(super) fn queue(
        &mut self,
        evaluation: &PairSumRequest,
        potential: Option<&Buffer<f64>>,
    ) -> Result<(), DeviceError> {
        let PairSumRequest { position, mass, g, eps, total_mass, acceleration } = *evaluation;
        let Plan { target_groups, splits, sources_per_split } = self.plan;
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
            (target_groups as i32).into(),
            (sources_per_split as i32).into(),
            match &self.parts {
                Parts::Single(parts) => parts.into(),
                Parts::Double(parts) => parts.into(),
            },
            (&self.arrived).into(),
            ax,
            ay,
            az,
        ];
        args.extend(potential.map(Arg::from));
        self.device.queue().launch(&self.kernel, target_groups * splits, self.block, &args)
    }
}
