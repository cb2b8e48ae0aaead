//! Tuning of the wave solver: times the strategies that a device can use for a cube and a square.
//!
//! All strategies give the same bits, so tuning changes the speed only.

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_fields::Scalar;
use orrery_fields::wave::SpaceOrder;
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use super::Tuning;
use super::candidates::find_fastest;
use crate::MeasureError;
use crate::bench::wave::{WaveWorkload, bench_state, fits_memory, time_steps};

/// Order of the waves that are tuned. Runs of other orders use the default strategy.
const TUNED_ORDER: SpaceOrder = SpaceOrder::Eighth;
/// Approximate time for one grid, most of which is compilation.
const SECONDS_PER_GRID: f64 = 10.0;

/// Returns the numbers of nodes along a side of the cube that are tuned by default: those whose
/// problems fit into the memory of the device and into `host_bytes`.
pub fn default_wave_sides(device: &Device, host_bytes: Option<u64>) -> Result<Vec<usize>, DeviceError> {
    let sides: &[usize] = match device.properties().kind {
        DeviceKind::Gpu => &[128, 256, 512, 1024],
        DeviceKind::Cpu | DeviceKind::Other => &[64],
    };
    let device_bytes = Some(device.memory()?.free);
    Ok(sides.iter().copied().filter(|&side| fits_memory(side, device_bytes, host_bytes)).collect())
}

/// Fastest strategy of the wave solver for a grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaveEntry {
    /// 3 for a cube, 2 for a square.
    pub dimensions: usize,
    /// Nodes along each side of the cube or square of the measurement.
    pub side: usize,
    /// Precision of state and arithmetic.
    pub precision: Precision,
    /// Whether the velocity differs between nodes.
    pub is_variable: bool,
    /// The strategy.
    pub strategy: WaveDeviceStrategy,
    /// Time of one step.
    pub seconds: f64,
}

impl WaveEntry {
    fn workload(&self) -> WaveWorkload {
        let Self { dimensions, side, precision, is_variable, .. } = *self;
        WaveWorkload { dimensions, side, precision, is_variable, layer_nodes: 0 }
    }

    /// Returns whether both entries are for the same grid.
    pub(super) fn is_same_grid(&self, other: &Self) -> bool {
        self.workload() == other.workload()
    }

    /// Returns the number of nodes of the measurement.
    pub(super) fn nodes(&self) -> usize {
        self.workload().grid().len()
    }

    /// Returns whether runs of this kind use the entry if their size is near enough.
    pub(super) fn applies_to(&self, shape: &WaveShape, is_variable: bool) -> bool {
        shape.radius == TUNED_ORDER.radius()
            && (self.dimensions, self.precision, self.is_variable)
                == (shape.dimensions, shape.precision, is_variable)
    }

    /// Returns whether the tuner could have measured the entry on this device.
    pub(super) fn is_available(&self, device: &Device) -> bool {
        let grid = self.workload().grid();
        let is_problem = [2, 3].contains(&self.dimensions)
            && grid.validate().is_ok()
            && self.precision != Precision::Mixed
            && self.seconds > 0.0;
        is_problem && {
            let shape = WaveShape::new(&grid, TUNED_ORDER.radius(), self.precision);
            WaveDeviceStrategy::candidates(device, shape).contains(&self.strategy)
        }
    }

    /// Returns the grid for reports, for example "256³" or "4096²".
    pub fn grid_name(&self) -> String {
        self.workload().grid_name()
    }
}

/// Result of tuning one grid.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveOutcome {
    /// Entry for the tuning file.
    pub entry: WaveEntry,
    /// Number of strategies timed before the time limit.
    pub tried: usize,
    /// Number of available strategies.
    pub available: usize,
    /// Time of one step of the strategy that is used without tuning.
    pub default_seconds: f64,
}

/// Tunes cubes with each number of nodes along a side, and squares with 16 times as many, in each
/// precision, with uniform velocity and with one value per node. Calls `report` with each outcome.
/// There is no mixed precision.
pub fn tune_wave(
    device: &Device,
    sides: &[usize],
    precisions: &[Precision],
    report: &mut dyn FnMut(&WaveOutcome),
) -> Result<Tuning, MeasureError> {
    let mut tuning = Tuning::new(device);
    for &precision in precisions {
        for &side in sides {
            let [uniform, variable] =
                [false, true].map(|is_variable| WaveWorkload::cube_and_square(side, precision, is_variable));
            for workload in [uniform[0], variable[0], uniform[1], variable[1]] {
                let outcome = match precision {
                    Precision::Single => tune_grid::<f32>(device, workload)?,
                    Precision::Double if device.properties().has_f64 => tune_grid::<f64>(device, workload)?,
                    _ => continue,
                };
                report(&outcome);
                tuning.insert_wave_entry(outcome.entry);
            }
        }
    }
    Ok(tuning)
}

fn tune_grid<R: Scalar>(device: &Device, workload: WaveWorkload) -> Result<WaveOutcome, DeviceError> {
    let medium = workload.medium::<R>(TUNED_ORDER);
    let candidates = WaveDeviceStrategy::candidates(device, WaveShape::of_medium(&medium));
    let state = bench_state(&medium);
    let mut wave = DeviceWave::new(device, medium, &state, candidates[0])?;
    drop(state);
    let fastest = find_fastest(&candidates, SECONDS_PER_GRID, |strategy, repeats| {
        wave.set_strategy(strategy)?;
        Ok(time_steps(&mut wave, Some(repeats))?.median())
    })?;
    let WaveWorkload { dimensions, side, precision, is_variable, .. } = workload;
    let (strategy, seconds) = (fastest.strategy, fastest.seconds);
    Ok(WaveOutcome {
        entry: WaveEntry { dimensions, side, precision, is_variable, strategy, seconds },
        tried: fastest.tried,
        available: candidates.len(),
        default_seconds: fastest.default_seconds,
    })
}
