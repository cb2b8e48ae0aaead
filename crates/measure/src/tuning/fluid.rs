//! Tuning of Lennard-Jones fluids: times the strategies that a device can use for the melt.
//!
//! All strategies give the same bits, so tuning changes the speed only.

use orrery_device::{Device, DeviceKind};
use orrery_fluids::FluidStrategy;
use orrery_fluids::sample::{melt, melt_settings};
use serde::{Deserialize, Serialize};

use super::entry::{TunedList, TunedProblem};
use super::search::find_fastest;
use super::{TuneReport, Tuning, tune_each};
use crate::MeasureError;
use crate::bench::fluid::{MovingMelt, STEPS_PER_MEASURE};
use crate::bench::primitives::PrimitiveCase;

/// Approximate time for one number of particles, most of which is compilation.
const SECONDS_PER_SIZE: f64 = 20.0;

/// Returns the numbers of particles that are tuned by default.
pub fn default_fluid_sizes(device: &Device) -> &'static [usize] {
    match device.properties().kind {
        DeviceKind::Gpu => &[4096, 16_384, 65_536, 262_144, 1 << 20, 1 << 22],
        DeviceKind::Cpu | DeviceKind::Other => &[4096],
    }
}

/// A melt in mixed precision. The skin of its strategy is in units of σ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FluidProblem {
    /// Number of particles.
    pub n: usize,
}

impl TunedProblem for FluidProblem {
    type Strategy = FluidStrategy;
    type Kind = ();

    fn key(&self) -> (Self::Kind, usize) {
        ((), self.n)
    }

    fn has_strategy(&self, strategy: &Self::Strategy, device: &Device, _: &[&PrimitiveCase]) -> bool {
        FluidStrategy::candidates(device, self.n, &melt_settings()).contains(strategy)
    }

    fn description(&self) -> String {
        format!("a fluid of {} particles", self.n)
    }

    fn cells(&self) -> Vec<String> {
        vec![self.n.to_string()]
    }

    fn describe(strategy: &Self::Strategy) -> String {
        strategy.describe()
    }

    fn list_mut(tuning: &mut Tuning) -> &mut TunedList<Self> {
        &mut tuning.fluid
    }
}

/// Tunes the melt for each number of particles, in mixed precision. Calls `report` with each
/// outcome.
pub fn tune_fluid(
    device: &Device,
    sizes: &[usize],
    report: TuneReport<FluidProblem>,
) -> Result<Tuning, MeasureError> {
    let problems = sizes.iter().map(|&size| FluidProblem { n: melt(size).len() });
    tune_each(device, problems, report, |&FluidProblem { n }| {
        let particles = melt(n);
        let candidates = FluidStrategy::candidates(device, n, &melt_settings());
        // The first candidate is the default. It melts the lattice for all of them.
        let mut first = MovingMelt::on_device(device, &particles, &candidates[0])?;
        first.warm_up()?;
        let particles = first.particles()?;
        drop(first);
        find_fastest(&candidates, SECONDS_PER_SIZE, |strategy, repeats| {
            let mut melt = MovingMelt::on_device(device, &particles, strategy)?;
            Ok(melt.time_steps(STEPS_PER_MEASURE, true, |_| repeats)?.median())
        })
    })
}
