//! Strategies of the device solver as plain data, so that the tuner can enumerate them.

use orrery_device::{Device, DeviceKind};
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

/// Kernel of the device solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectKernel {
    /// Several targets per thread, sources split over blocks. Any precision, correct without
    /// softening.
    Tiled,
    /// Each pair evaluated once for both bodies. `Single` and `Mixed` only.
    PairsOnce,
}

impl DirectKernel {
    /// Returns whether there is a version for a precision.
    fn supports(self, precision: Precision) -> bool {
        match self {
            Self::Tiled => true,
            Self::PairsOnce => precision != Precision::Double,
        }
    }
}

/// Kernel, arithmetic and tuning parameters of the device solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DirectDeviceStrategy {
    /// Kernel.
    #[serde(rename = "form")]
    pub kernel: DirectKernel,
    /// Arithmetic.
    pub precision: Precision,
    /// Threads per block, a multiple of 32. Also the number of bodies in a tile.
    pub block: u32,
    /// Targets in the registers of each thread. More targets reuse a tile more often and need more
    /// registers.
    pub targets: u32,
    /// Number of iterations of the inner loop that are unrolled.
    pub unroll: u32,
    /// `Tiled`: number of ranges of sources. Ranges are summed separately and added in order, so
    /// that few targets still fill the device. `PairsOnce`: number of source blocks per thread
    /// block before it writes its sums. 0 means that the number is chosen to fill the device.
    pub splits: u32,
}

/// Smallest number of bodies for [`DirectKernel::PairsOnce`]. With fewer, there are too few body
/// blocks to fill the device and the launches are too short.
const PAIRS_ONCE_MIN_BODIES: usize = 8_192;

impl DirectDeviceStrategy {
    fn tiled(precision: Precision, block: u32, targets: u32, unroll: u32) -> Self {
        Self { kernel: DirectKernel::Tiled, precision, block, targets, unroll, splits: 0 }
    }

    fn pairs_once(precision: Precision, block: u32, targets: u32, unroll: u32, splits: u32) -> Self {
        Self { kernel: DirectKernel::PairsOnce, precision, block, targets, unroll, splits }
    }

    /// Returns the strategy for `n` bodies without tuning: the fastest one measured on an H200
    /// (benchmarks/runs), or on PoCL for OpenCL on a CPU.
    pub fn default_for(device: &Device, n: usize, precision: Precision) -> Self {
        // Arguments: block, targets, unroll.
        let tiled = |block, targets, unroll| Self::tiled(precision, block, targets, unroll);
        // Arguments: block, targets, unroll, splits.
        let pairs_once =
            |block, targets, unroll, splits| Self::pairs_once(precision, block, targets, unroll, splits);
        if device.properties().kind != DeviceKind::Gpu {
            return tiled(64, if precision == Precision::Single { 4 } else { 2 }, 4);
        }
        match (precision == Precision::Double, n) {
            (true, 0..2048) => tiled(64, 1, 2),
            (true, 2048..32_768) => tiled(256, 1, 4),
            (true, 32_768..) => tiled(256, 4, 4),
            (false, 0..2048) => tiled(128, 1, 8),
            (false, 2048..PAIRS_ONCE_MIN_BODIES) => tiled(256, 1, 32),
            (false, _) if !device.properties().has_warp_shuffle => tiled(256, 2, 8),
            (false, PAIRS_ONCE_MIN_BODIES..32_768) => pairs_once(64, 4, 4, 2),
            (false, 32_768..131_072) => pairs_once(64, 8, 8, 0),
            (false, 131_072..) => pairs_once(128, 8, 8, 0),
        }
    }

    /// Returns the strategies that the tuner measures. The default is the first.
    pub fn candidates(device: &Device, n: usize, precision: Precision) -> Vec<Self> {
        let mut candidates = vec![Self::default_for(device, n, precision)];
        let mut add_new = |candidate: Self| {
            if candidate.fits(device) && !candidates.contains(&candidate) {
                candidates.push(candidate);
            }
        };
        let is_double = precision == Precision::Double;
        for block in [64, 128, 256, 512] {
            for targets in [1, 2, 4] {
                for unroll in if is_double { [2, 4] } else { [8, 32] } {
                    add_new(Self::tiled(precision, block, targets, unroll));
                }
            }
        }
        if !is_double && device.properties().has_warp_shuffle && n >= PAIRS_ONCE_MIN_BODIES / 2 {
            for block in [64, 128, 256] {
                for targets in [4, 6, 8] {
                    for (unroll, splits) in [(4, 0), (8, 0), (4, 2)] {
                        add_new(Self::pairs_once(precision, block, targets, unroll, splits));
                    }
                }
            }
        }
        candidates
    }

    /// Returns whether the device can run this strategy: the block fits the device and the kernel
    /// supports the precision. For example, `PairsOnce` has no f64 version.
    pub fn fits(&self, device: &Device) -> bool {
        let properties = device.properties();
        self.kernel.supports(self.precision)
            && self.block.is_multiple_of(32)
            && (32..=properties.max_block_size.min(1024)).contains(&self.block)
            && (1..=16).contains(&self.targets)
            && (1..=128).contains(&self.unroll)
            && self.splits <= 4096
            && self.shared_bytes() <= properties.shared_bytes
    }

    /// Returns an upper bound of the shared memory per block.
    fn shared_bytes(&self) -> u64 {
        let block = u64::from(self.block);
        match self.kernel {
            // The tile twice, sums that rotate through shared memory, and reactions per warp.
            DirectKernel::PairsOnce => 44 * block + 12 * block * (block / 32),
            // Tiles of high and low parts, and the frame.
            DirectKernel::Tiled => 32 * block + 2048,
        }
    }

    /// Returns a short description, for example "pairs-once, block 256, targets 8, unroll 4".
    pub fn describe(&self) -> String {
        let kernel = serde_json::to_value(self.kernel).ok();
        let kernel = kernel.as_ref().and_then(|name| name.as_str()).unwrap_or("?");
        let Self { block, targets, unroll, splits, .. } = self;
        let splits = if *splits == 0 { String::new() } else { format!(", splits {splits}") };
        format!("{kernel}, block {block}, targets {targets}, unroll {unroll}{splits}")
    }
}
