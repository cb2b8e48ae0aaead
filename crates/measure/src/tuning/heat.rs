//! Tuning of the heat solver: times the strategies that a device can use for a square plate.
//!
//! All strategies give the same bits, so tuning changes the speed only.

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_fields::Scalar;
use orrery_fields::heat::Plate;
use orrery_fields::heat::device::{DeviceHeat, HeatDeviceStrategy};
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use super::Tuning;
use super::candidates::find_fastest;
use crate::MeasureError;
use crate::bench::heat::{bench_problem, bench_state, time_steps};

/// Returns the numbers of nodes along a side that are tuned by default.
pub fn default_sides(device: &Device) -> &'static [usize] {
    match device.properties().kind {
        DeviceKind::Gpu => &[1024, 4096, 16_384],
        DeviceKind::Cpu | DeviceKind::Other => &[512],
    }
}

/// Approximate time for one plate, most of which is compilation.
const SECONDS_PER_PLATE: f64 = 10.0;

/// Fastest strategy of the heat solver for a plate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatEntry {
    /// Nodes along each side of the square plate of the measurement.
    pub side: usize,
    /// Precision of state and arithmetic.
    pub precision: Precision,
    /// Whether the conductivity differs between nodes.
    pub is_variable: bool,
    /// The strategy.
    pub strategy: HeatDeviceStrategy,
    /// Time of one step.
    pub seconds: f64,
}

impl HeatEntry {
    /// Returns whether both entries are for the same plate.
    pub(super) fn is_same_plate(&self, other: &Self) -> bool {
        let plate = |entry: &Self| (entry.side, entry.precision, entry.is_variable);
        plate(self) == plate(other)
    }
}

/// Result of tuning one plate.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatOutcome {
    /// Entry for the tuning file.
    pub entry: HeatEntry,
    /// Number of strategies timed before the time limit.
    pub tried: usize,
    /// Number of available strategies.
    pub available: usize,
    /// Time of one step of the strategy that is used without tuning.
    pub default_seconds: f64,
}

/// Tunes square plates of each side and precision, with uniform conductivity and with one value per
/// node. Calls `report` with each outcome. There is no mixed precision.
pub fn tune_heat(
    device: &Device,
    sides: &[usize],
    precisions: &[Precision],
    report: &mut dyn FnMut(&HeatOutcome),
) -> Result<Tuning, MeasureError> {
    let mut tuning = Tuning::new(device);
    for &precision in precisions {
        for &side in sides {
            for is_variable in [false, true] {
                let outcome = match precision {
                    Precision::Single => tune_plate::<f32>(device, side, is_variable)?,
                    Precision::Double if device.properties().has_f64 => {
                        tune_plate::<f64>(device, side, is_variable)?
                    }
                    _ => continue,
                };
                report(&outcome);
                tuning.insert_heat_entry(outcome.entry);
            }
        }
    }
    Ok(tuning)
}

fn tune_plate<R: Scalar>(
    device: &Device,
    side: usize,
    is_variable: bool,
) -> Result<HeatOutcome, DeviceError> {
    let candidates = HeatDeviceStrategy::candidates(device, side * side, R::PRECISION, is_variable);
    let problem = bench_problem(side, R::PRECISION, is_variable);
    let dt = problem.max_stable_step();
    // The first candidate is the default.
    let mut heat = DeviceHeat::new(device, Plate::<R>::new(&problem), &bench_state(side), candidates[0])?;
    let fastest = find_fastest(&candidates, SECONDS_PER_PLATE, |strategy, repeats| {
        heat.set_strategy(strategy)?;
        Ok(time_steps(&mut heat, dt, Some(repeats))?.median())
    })?;
    let (strategy, seconds) = (fastest.strategy, fastest.seconds);
    Ok(HeatOutcome {
        entry: HeatEntry { side, precision: R::PRECISION, is_variable, strategy, seconds },
        tried: fastest.tried,
        available: candidates.len(),
        default_seconds: fastest.default_seconds,
    })
}
