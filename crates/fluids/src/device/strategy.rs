//! Strategies of a fluid on a device as plain data, so that the ladder and the tuner can enumerate
//! them. No result depends on the strategy.

use orrery_device::{Device, DeviceKind};
use serde::{Deserialize, Serialize};

use crate::settings::FluidSettings;

/// Tuning parameters of a fluid on a device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FluidStrategy {
    /// Threads per particle, a power of two up to 32. More threads keep a device busy with fewer
    /// particles.
    pub lanes: u32,
    /// Threads per particle when lists are built: 1, or 32 on a device with warps.
    pub build_lanes: u32,
    /// Threads per block, a power of two from 32 on.
    pub block_size: u32,
    /// Most steps per launch. With more than one, the blocks of a launch wait for one another after
    /// each step. Then they are as many as the device runs at the same time, and on a device
    /// without such launches there is only one.
    pub steps_per_launch: u32,
    /// Distance beyond the cutoff up to which lists contain particles, in the units of the case. A
    /// longer one gives longer lists and fewer builds.
    pub skin: f64,
}

/// Threads that keep a GPU busy. With fewer particles, several threads share one.
///
/// On an H200, melt of `speed_of_the_melt_on_devices` with measures every 100 steps, steps per
/// second for the best skin: 4,096 particles with 16 and 32 threads per particle 90,400 and 80,800.
/// 65,536 particles with 1, 2 and 4 threads 20,500, 24,200 and 20,500.
const WANTED_THREADS: usize = 1 << 16;

/// Up to this number of particles at least two threads share one, 32 threads build a list, and
/// launches take several steps.
///
/// On an H200 as above, steps per second. 4,096 particles: 90,400, 79,100 with one step per launch,
/// and 57,600 with one thread per list. 65,536 particles: 24,200, 23,300 and 23,400. 1,048,576
/// particles: 2183 with one thread per particle and per list and one step per launch, 2092 with two
/// threads per particle.
const MAX_SMALL: usize = 1 << 18;

/// Up to this number of particles a skin of 0.5 is faster than one of 0.4, in units of σ.
///
/// On an H200 as above, steps per second with skins of 0.3, 0.4 and 0.5: 4,096 particles 78,200,
/// 85,900 and 90,400. 65,536 particles 23,400, 24,200 and 24,100. 1,048,576 particles 2168, 2183
/// and 2119.
const MAX_LONG_SKIN: usize = 1 << 14;

/// Steps per launch of strategies with several: more than lists allow, so that a launch ends when
/// they become invalid.
const LAUNCH_STEPS: u32 = 64;

/// Returns the threads per particle on a GPU.
pub(super) fn default_lanes(n: usize) -> u32 {
    let fewest = if n <= MAX_SMALL { 2 } else { 1 };
    (WANTED_THREADS / n.max(1)).next_power_of_two().clamp(fewest, 32) as u32
}

impl FluidStrategy {
    /// Returns the strategy for `n` particles without tuning. Its skin is the one of `settings`.
    pub fn default_for(device: &Device, n: usize, settings: &FluidSettings) -> Self {
        let skin = settings.skin;
        let properties = device.properties();
        if properties.kind != DeviceKind::Gpu || !properties.has_warp_shuffle {
            return Self { lanes: 1, build_lanes: 1, block_size: 128, steps_per_launch: 1, skin };
        }
        let lanes = default_lanes(n);
        let (build_lanes, steps_per_launch) = if n <= MAX_SMALL { (32, LAUNCH_STEPS) } else { (1, 1) };
        Self { lanes, build_lanes, block_size: 128, steps_per_launch, skin }
    }

    /// Returns the skin that is fastest on an H200 for a dense fluid of `n` particles, in the units
    /// of the case.
    pub fn default_skin(n: usize, settings: &FluidSettings) -> f64 {
        let skin = if n <= MAX_LONG_SKIN { 0.5 } else { 0.4 };
        skin * settings.potential.length_unit()
    }

    /// Returns the strategies that the tuner measures. The default is the first.
    pub fn candidates(device: &Device, n: usize, settings: &FluidSettings) -> Vec<Self> {
        let default = Self::default_for(device, n, settings);
        let unit = settings.potential.length_unit();
        let mut candidates = vec![default];
        for skin in [0.3, 0.4, 0.5] {
            for lanes in [default.lanes / 2, default.lanes, 2 * default.lanes] {
                for (build_lanes, steps_per_launch) in
                    [(1, 1), (32, 1), (1, LAUNCH_STEPS), (32, LAUNCH_STEPS)]
                {
                    let skin = skin * unit;
                    candidates.push(Self { lanes, build_lanes, steps_per_launch, skin, ..default });
                }
            }
        }
        let mut known = Vec::new();
        candidates.retain(|candidate| {
            let is_new = candidate.fits(device) && !known.contains(candidate);
            known.push(*candidate);
            is_new
        });
        candidates
    }

    /// Returns whether the device can run this strategy.
    pub fn fits(&self, device: &Device) -> bool {
        let properties = device.properties();
        (1..=32).contains(&self.lanes)
            && self.lanes.is_power_of_two()
            && (self.build_lanes == 1 || self.build_lanes == 32 && properties.has_warp_shuffle)
            && (32..=properties.max_block_size.min(1024)).contains(&self.block_size)
            && self.block_size.is_power_of_two()
            && self.steps_per_launch >= 1
            && self.skin > 0.0
            && self.skin.is_finite()
    }

    /// Returns a short description, for example "lanes 2, build lanes 1, block 128, steps 1, skin
    /// 0.3".
    pub fn describe(&self) -> String {
        let Self { lanes, build_lanes, block_size, steps_per_launch, skin } = self;
        format!(
            "lanes {lanes}, build lanes {build_lanes}, block {block_size}, steps {steps_per_launch}, skin {skin:.3}"
        )
    }
}
