//! Strategies of a fluid on a device as plain data, so that the ladder and the tuner can enumerate
//! them. No result depends on the strategy.

use orrery_device::{Device, DeviceKind};
use serde::{Deserialize, Serialize};

use crate::lennard_jones::settings::FluidSettings;

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
    /// each step. Then they are as many as the device runs at the same time, and on a device without
    /// such launches there is only one.
    pub steps_per_launch: u32,
    /// Distance beyond the cutoff up to which lists contain particles, in the units of the case. A
    /// longer one gives longer lists and fewer builds.
    pub skin: f64,
}

/// Threads that keep a GPU busy. With fewer particles, more than two threads share one.
///
/// On an H200, melt of `speed_of_the_melt_on_devices` with measures every 100 steps, steps per second
/// for the best skin: 4,096 particles with 16 and 32 threads per particle 85,500 and 86,300. 65,536
/// particles with 1, 2 and 4 threads 14,200, 19,800 and 19,000.
const WANTED_THREADS: usize = 1 << 17;

/// Up to this number of particles 32 threads build a list, and launches take several steps.
///
/// On an H200 as above, 4,096 particles: 86,300 steps per second against 77,900 with one step per
/// launch, and 58,000 with one thread per list. 65,536 particles: 19,800, 19,400 and 18,900. With
/// 1,048,576 particles one thread per list and one step per launch are as fast or faster.
const MAX_SMALL: usize = 1 << 18;

/// Steps per launch of strategies with several: more than lists allow, so that a launch ends when
/// they become invalid.
const LAUNCH_STEPS: u32 = 64;

impl FluidStrategy {
    /// Returns the strategy for `n` particles without tuning. Its skin is the one of `settings`.
    pub fn default_for(device: &Device, n: usize, settings: &FluidSettings) -> Self {
        let skin = settings.skin;
        let properties = device.properties();
        if properties.kind != DeviceKind::Gpu || !properties.has_warp_shuffle {
            return Self { lanes: 1, build_lanes: 1, block_size: 128, steps_per_launch: 1, skin };
        }
        let lanes = (WANTED_THREADS / n.max(1)).next_power_of_two().clamp(2, 32) as u32;
        let (build_lanes, steps_per_launch) = if n <= MAX_SMALL { (32, LAUNCH_STEPS) } else { (1, 1) };
        Self { lanes, build_lanes, block_size: 128, steps_per_launch, skin }
    }

    /// Returns the strategies that the tuner measures. The default is the first.
    pub fn candidates(device: &Device, n: usize, settings: &FluidSettings) -> Vec<Self> {
        let default = Self::default_for(device, n, settings);
        let unit = settings.potential.length_unit();
        let mut candidates = vec![default];
        for skin in [0.3, 0.4, 0.5, 0.6] {
            for lanes in [default.lanes / 2, default.lanes, 2 * default.lanes] {
                for (build_lanes, steps_per_launch) in
                    [(1, 1), (32, 1), (1, LAUNCH_STEPS), (32, LAUNCH_STEPS)]
                {
                    let skin = skin * unit;
                    candidates.push(Self { lanes, build_lanes, steps_per_launch, skin, ..default });
                }
            }
        }
        candidates.retain(|candidate| candidate.fits(device));
        candidates.dedup();
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

    /// Returns a short description, for example "lanes 2, build lanes 1, block 128, steps 1, skin 0.3".
    pub fn describe(&self) -> String {
        let Self { lanes, build_lanes, block_size, steps_per_launch, skin } = self;
        format!(
            "lanes {lanes}, build lanes {build_lanes}, block {block_size}, steps {steps_per_launch}, skin {skin:.3}"
        )
    }
}
