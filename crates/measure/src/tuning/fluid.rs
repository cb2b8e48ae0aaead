//! Tuning of Lennard-Jones fluids: times the strategies that a device can use for the melt.
//!
//! All strategies give the same bits, so tuning changes the speed only.

use orrery_device::{Device, DeviceKind};
use orrery_fluids::FluidStrategy;
use orrery_fluids::sample::{melt, melt_settings};
use serde::{Deserialize, Serialize};

use super::Tuning;
use super::candidates::find_fastest;
use crate::MeasureError;
use crate::bench::fluid::{MovingMelt, STEPS_PER_MEASURE};

/// Approximate time for one number of particles, most of which is compilation.
const SECONDS_PER_SIZE: f64 = 20.0;

/// Returns the numbers of particles that are tuned by default.
pub fn default_fluid_sizes(device: &Device) -> &'static [usize] {
    match device.properties().kind {
        DeviceKind::Gpu => &[4096, 16_384, 65_536, 262_144, 1 << 20, 1 << 22],
        DeviceKind::Cpu | DeviceKind::Other => &[4096],
    }
}

/// Fastest strategy of a fluid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FluidEntry {
    /// Number of particles of the measurement.
    pub n: usize,
    /// The strategy. Its skin is in units of σ.
    pub strategy: FluidStrategy,
    /// Time of one step.
    pub seconds: f64,
}

impl FluidEntry {
    /// Returns whether the tuner can choose this strategy on the device.
    pub(super) fn is_available(&self, device: &Device) -> bool {
        let Self { n, strategy, seconds } = *self;
        let is_known = || FluidStrategy::candidates(device, n, &melt_settings()).contains(&strategy);
        n > 0 && seconds > 0.0 && seconds.is_finite() && is_known()
    }
}

/// Result of tuning one number of particles.
#[derive(Clone, Debug, PartialEq)]
pub struct FluidOutcome {
    /// Entry for the tuning file.
    pub entry: FluidEntry,
    /// Number of strategies timed before the time limit.
    pub tried: usize,
    /// Number of available strategies.
    pub available: usize,
    /// Time of one step of the strategy that is used without tuning.
    pub default_seconds: f64,
}

/// Tunes the melt for each number of particles, in mixed precision. Calls `report` with each
/// outcome.
pub fn tune_fluid(
    device: &Device,
    sizes: &[usize],
    report: &mut dyn FnMut(&FluidOutcome),
) -> Result<Tuning, MeasureError> {
    let mut tuning = Tuning::new(device);
    for &size in sizes {
        let particles = melt(size);
        let n = particles.len();
        let candidates = FluidStrategy::candidates(device, n, &melt_settings());
        // The first candidate is the default. It melts the lattice for all of them.
        let mut first = MovingMelt::on_device(device, &particles, &candidates[0])?;
        first.warm_up()?;
        let particles = first.particles()?;
        drop(first);
        let fastest = find_fastest(&candidates, SECONDS_PER_SIZE, |strategy, repeats| {
            let mut melt = MovingMelt::on_device(device, &particles, &strategy)?;
            Ok::<_, MeasureError>(melt.time_steps(STEPS_PER_MEASURE, true, |_| repeats)?.median())
        })?;
        let (strategy, seconds) = (fastest.strategy, fastest.seconds);
        let entry = FluidEntry { n, strategy, seconds };
        report(&FluidOutcome {
            entry,
            tried: fastest.tried,
            available: candidates.len(),
            default_seconds: fastest.default_seconds,
        });
        tuning.insert_fluid_entry(entry);
    }
    Ok(tuning)
}
