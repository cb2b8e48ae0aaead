//! Tuning of the wave solver: times the strategies that a device can use for a cube and a square.
//!
//! All strategies give the same bits, so tuning changes the speed only.

use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_fields::Scalar;
use orrery_fields::wave::SpaceOrder;
use orrery_fields::wave::device::{DeviceWave, WaveDeviceStrategy, WaveShape};
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use super::entry::{TunedEntry, TunedList, TunedProblem};
use super::heat::measured_precisions;
use super::search::{FoundStrategy, find_fastest};
use super::{TuneReport, Tuning, tune_each};
use crate::MeasureError;
use crate::bench::primitives::PrimitiveCase;
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

/// Waves of order 8 in a cube or a square.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaveGridProblem {
    /// 3 for a cube, 2 for a square.
    pub dimensions: usize,
    /// Nodes along each side.
    pub side: usize,
    /// Precision of state and arithmetic.
    pub precision: Precision,
    /// Whether the velocity differs between nodes.
    pub is_variable: bool,
}

impl WaveGridProblem {
    fn of_workload(workload: &WaveWorkload) -> Self {
        let WaveWorkload { dimensions, side, precision, is_variable, .. } = *workload;
        Self { dimensions, side, precision, is_variable }
    }

    fn workload(&self) -> WaveWorkload {
        let Self { dimensions, side, precision, is_variable } = *self;
        WaveWorkload { dimensions, side, precision, is_variable, layer_nodes: 0 }
    }
}

impl Tuning {
    /// Returns the entry for waves whose number of nodes is nearest to that of `shape` by ratio,
    /// within a factor of four. There are entries for order 8 only.
    pub fn nearest_wave_entry(
        &self,
        shape: &WaveShape,
        is_variable: bool,
    ) -> Option<&TunedEntry<WaveGridProblem>> {
        let kind = (shape.dimensions, shape.precision as u8, is_variable);
        let is_tuned = shape.radius == TUNED_ORDER.radius();
        self.wave.nearest(&kind, shape.planes * shape.plane_nodes).filter(|_| is_tuned)
    }
}

impl TunedProblem for WaveGridProblem {
    type Strategy = WaveDeviceStrategy;
    type Kind = (usize, u8, bool);

    fn key(&self) -> (Self::Kind, usize) {
        ((self.dimensions, self.precision as u8, self.is_variable), self.side)
    }

    fn size(&self) -> f64 {
        self.workload().grid().len() as f64
    }

    fn has_strategy(&self, strategy: &Self::Strategy, device: &Device, _: &[&PrimitiveCase]) -> bool {
        let grid = self.workload().grid();
        [2, 3].contains(&self.dimensions)
            && grid.validate().is_ok()
            && self.precision != Precision::Mixed
            && WaveDeviceStrategy::candidates(
                device,
                WaveShape::new(&grid, TUNED_ORDER.radius(), self.precision),
            )
            .contains(strategy)
    }

    fn description(&self) -> String {
        format!("waves on {} nodes", self.workload().grid_name())
    }

    fn cells(&self) -> Vec<String> {
        let velocity = if self.is_variable { "per node" } else { "uniform" };
        vec![self.workload().grid_name(), self.precision.as_str().to_owned(), velocity.to_owned()]
    }

    fn describe(strategy: &Self::Strategy) -> String {
        strategy.name()
    }

    fn list_mut(tuning: &mut Tuning) -> &mut TunedList<Self> {
        &mut tuning.wave
    }
}

/// Tunes cubes with each number of nodes along a side, and squares with 16 times as many, in each
/// precision, with uniform velocity and with one value per node. Calls `report` with each outcome.
/// There is no mixed precision.
pub fn tune_wave(
    device: &Device,
    sides: &[usize],
    precisions: &[Precision],
    report: TuneReport<WaveGridProblem>,
) -> Result<Tuning, MeasureError> {
    let grids = measured_precisions(device, precisions).flat_map(|precision| {
        sides.iter().flat_map(move |&side| {
            let [uniform, variable] =
                [false, true].map(|is_variable| WaveWorkload::cube_and_square(side, precision, is_variable));
            [uniform[0], variable[0], uniform[1], variable[1]]
        })
    });
    let problems = grids.map(|workload| WaveGridProblem::of_workload(&workload));
    tune_each(device, problems, report, |grid| match grid.precision {
        Precision::Double => find_for_grid::<f64>(device, grid),
        _ => find_for_grid::<f32>(device, grid),
    })
}

fn find_for_grid<R: Scalar>(
    device: &Device,
    grid: &WaveGridProblem,
) -> Result<FoundStrategy<WaveDeviceStrategy>, MeasureError> {
    let medium = grid.workload().medium::<R>(TUNED_ORDER);
    let candidates = WaveDeviceStrategy::candidates(device, WaveShape::of_medium(&medium));
    let state = bench_state(&medium);
    let mut wave = DeviceWave::new(device, medium, &state, candidates[0])?;
    drop(state);
    find_fastest(&candidates, SECONDS_PER_GRID, |&strategy, repeats| {
        wave.set_strategy(strategy)?;
        Ok(time_steps(&mut wave, Some(repeats))?.median())
    })
}
