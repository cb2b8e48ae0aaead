//! How a device computes the sum: data, so that the ladder and the tuner can enumerate it.

use orrery_device::{Device, DeviceKind};
use serde::{Deserialize, Serialize};

use crate::builder::has_warp_shuffle;
use crate::settings::Precision;

/// The kernel. The first thirteen are the optimisation steps of a course on GPU programming (the course's ladder),
/// each with what came before it; all f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectKernel {
    /// One thread for all bodies.
    OneThread,
    /// One thread a body; bodies as an array of structures.
    Structs,
    /// Bodies as a structure of arrays.
    Arrays,
    /// Parameters in constant memory.
    Constant,
    /// The reciprocal square root instruction.
    Rsqrt,
    /// Two loops in place of `if (i != j)`.
    TwoLoops,
    /// Tiles of sources in shared memory (and the `if` again).
    Tile,
    /// The inner loop unrolled.
    Unrolled,
    /// Without the `if`: softening keeps a body's own term finite, and its difference is zero.
    NoIf,
    /// Terms arranged for FMA.
    Fma,
    /// Unrolled further.
    MoreUnrolled,
    /// Denormals flushed to zero.
    FlushToZero,
    /// All fast-math flags.
    FastMath,
    /// Several targets a thread, sources split over groups; any precision, right without softening.
    Tiled,
    /// Every pair once, for both bodies.
    PairsOnce,
}

/// How the device computes the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DirectDeviceStrategy {
    /// The kernel.
    pub form: DirectKernel,
    /// The arithmetic.
    pub precision: Precision,
    /// Threads a group, a multiple of 32; also the bodies in a tile.
    pub block: u32,
    /// Targets held in registers by each thread. More use of a tile, more registers.
    pub targets: u32,
    /// Turns of the inner loop written out.
    pub unroll: u32,
    /// `Tiled`: ranges of sources summed apart and added in order, so that few targets still fill the device.
    /// `PairsOnce`: blocks of sources that a group meets before it writes its sums. 0: whatever fills the device.
    pub splits: u32,
}

/// From so many bodies on each pair is met once; below, blocks would be too few for the device, and launches too short.
const PAIRS_ONCE_FROM: usize = 8_192;

impl DirectDeviceStrategy {
    /// What a device runs before anything was tuned: what was quickest on an H200 (benchmarks/runs).
    pub fn default_for(device: &Device, n: usize, precision: Precision) -> Self {
        let strategy =
            |form, block, targets, unroll, splits| Self { form, precision, block, targets, unroll, splits };
        if device.properties().kind != DeviceKind::Gpu {
            // What was quickest on PoCL.
            return strategy(
                DirectKernel::Tiled,
                64,
                if precision == Precision::Single { 4 } else { 2 },
                4,
                0,
            );
        }
        let is_double = precision == Precision::Double;
        let (form, block, targets, unroll, splits) = match (is_double, n) {
            (true, 0..2048) => (DirectKernel::Tiled, 64, 1, 2, 0),
            (true, 2048..32_768) => (DirectKernel::Tiled, 256, 1, 4, 0),
            (true, 32_768..) => (DirectKernel::Tiled, 256, 4, 4, 0),
            (false, 0..2048) => (DirectKernel::Tiled, 128, 1, 8, 0),
            (false, 2048..PAIRS_ONCE_FROM) => (DirectKernel::Tiled, 256, 1, 32, 0),
            (false, _) if !has_warp_shuffle(device) => (DirectKernel::Tiled, 256, 2, 8, 0),
            (false, PAIRS_ONCE_FROM..32_768) => (DirectKernel::PairsOnce, 64, 4, 4, 2),
            (false, 32_768..131_072) => (DirectKernel::PairsOnce, 64, 8, 8, 0),
            (false, 131_072..) => (DirectKernel::PairsOnce, 128, 8, 8, 0),
        };
        strategy(form, block, targets, unroll, splits)
    }

    /// What the tuner tries.
    pub fn candidates(device: &Device, n: usize, precision: Precision) -> Vec<Self> {
        let default = Self::default_for(device, n, precision);
        let mut candidates = vec![default];
        let mut add = |form, block, targets, unroll, splits| {
            let candidate = Self { form, precision, block, targets, unroll, splits };
            if candidate.fits(device) && !candidates.contains(&candidate) {
                candidates.push(candidate);
            }
        };
        let double = precision == Precision::Double;
        for block in [64, 128, 256, 512] {
            for targets in [1, 2, 4] {
                for unroll in if double { [2, 4] } else { [8, 32] } {
                    add(DirectKernel::Tiled, block, targets, unroll, 0);
                }
            }
        }
        if !double && has_warp_shuffle(device) && n >= PAIRS_ONCE_FROM / 2 {
            for block in [64, 128, 256] {
                for targets in [4, 6, 8] {
                    for (unroll, splits) in [(4, 0), (8, 0), (4, 2)] {
                        add(DirectKernel::PairsOnce, block, targets, unroll, splits);
                    }
                }
            }
        }
        candidates
    }

    /// Whether the device could run it: its group fits and its form and precision go together.
    pub fn fits(&self, device: &Device) -> bool {
        let properties = device.properties();
        let precision_fits = match self.form {
            DirectKernel::Tiled => true,
            DirectKernel::PairsOnce => self.precision != Precision::Double,
            _ => self.precision == Precision::Single,
        };
        precision_fits
            && self.block.is_multiple_of(32)
            && (32..=properties.max_block_size.min(1024)).contains(&self.block)
            && (1..=16).contains(&self.targets)
            && (1..=128).contains(&self.unroll)
            && self.splits <= 4096
            && self.shared_bytes() <= properties.shared_bytes
    }

    /// Whether a run may take it: the forms before are rungs of the ladder, for bodies that do not move.
    pub fn is_for_runs(&self) -> bool {
        matches!(self.form, DirectKernel::Tiled | DirectKernel::PairsOnce)
    }

    /// Local memory a group needs.
    fn shared_bytes(&self) -> u64 {
        let block = u64::from(self.block);
        match self.form {
            DirectKernel::PairsOnce => 44 * block + 12 * block * (block / 32),
            // Tiles of both parts, and the frame.
            _ => 32 * block + 2048,
        }
    }

    /// In a few words: "pairs-once, block 256, targets 8, unroll 4".
    pub fn describe(&self) -> String {
        let form = serde_json::to_value(self.form).ok();
        let form = form.as_ref().and_then(|form| form.as_str()).unwrap_or("?");
        let Self { block, targets, unroll, splits, .. } = self;
        let splits = if *splits == 0 { String::new() } else { format!(", splits {splits}") };
        format!("{form}, block {block}, targets {targets}, unroll {unroll}{splits}")
    }
}
