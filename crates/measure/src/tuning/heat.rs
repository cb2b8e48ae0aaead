//! Tuning of the heat solver: times the strategies that a device can use for a square plate.
//!
//! All strategies give the same bits, so tuning changes the speed only.

use orrery_device::{Device, DeviceKind};
use orrery_fields::Scalar;
use orrery_fields::heat::Plate;
use orrery_fields::heat::device::{DeviceHeat, HeatDeviceStrategy};
use orrery_model::Precision;
use serde::{Deserialize, Serialize};

use super::entry::{TunedList, TunedProblem};
use super::search::{FoundStrategy, find_fastest};
use super::{TuneReport, Tuning, tune_each};
use crate::MeasureError;
use crate::bench::heat::{bench_problem, bench_state, time_steps};
use crate::bench::primitives::PrimitiveCase;

/// Returns the numbers of nodes along a side that are tuned by default.
pub fn default_sides(device: &Device) -> &'static [usize] {
    match device.properties().kind {
        DeviceKind::Gpu => &[1024, 4096, 16_384],
        DeviceKind::Cpu | DeviceKind::Other => &[512],
    }
}

/// Approximate time for one plate, most of which is compilation.
const SECONDS_PER_PLATE: f64 = 10.0;

/// A square plate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeatPlateProblem {
    /// Nodes along each side.
    pub side: usize,
    /// Precision of state and arithmetic.
    pub precision: Precision,
    /// Whether the conductivity differs between nodes.
    pub is_variable: bool,
}

impl TunedProblem for HeatPlateProblem {
    type Strategy = HeatDeviceStrategy;
    type Kind = (u8, bool);

    fn key(&self) -> (Self::Kind, usize) {
        ((self.precision as u8, self.is_variable), self.side)
    }

    fn size(&self) -> f64 {
        (self.side as f64).powi(2)
    }

    fn has_strategy(&self, strategy: &Self::Strategy, device: &Device, _: &[&PrimitiveCase]) -> bool {
        let Self { side, precision, is_variable } = *self;
        let nodes = side.saturating_mul(side);
        precision != Precision::Mixed
            && HeatDeviceStrategy::candidates(device, nodes, precision, is_variable).contains(strategy)
    }

    fn description(&self) -> String {
        format!("{0} x {0} nodes", self.side)
    }

    fn cells(&self) -> Vec<String> {
        let conductivity = if self.is_variable { "per node" } else { "uniform" };
        vec![self.side.to_string(), self.precision.as_str().to_owned(), conductivity.to_owned()]
    }

    fn describe(strategy: &Self::Strategy) -> String {
        strategy.name()
    }

    fn list_mut(tuning: &mut Tuning) -> &mut TunedList<Self> {
        &mut tuning.heat
    }
}

/// Tunes square plates of each side and precision, with uniform conductivity and with one value per
/// node. Calls `report` with each outcome. There is no mixed precision.
pub fn tune_heat(
    device: &Device,
    sides: &[usize],
    precisions: &[Precision],
    report: TuneReport<HeatPlateProblem>,
) -> Result<Tuning, MeasureError> {
    let plates = measured_precisions(device, precisions).flat_map(|precision| {
        let plates = sides.iter().flat_map(|&side| [(side, false), (side, true)]);
        plates.map(move |(side, is_variable)| HeatPlateProblem { side, precision, is_variable })
    });
    tune_each(device, plates, report, |plate| match plate.precision {
        Precision::Double => find_for_plate::<f64>(device, plate),
        _ => find_for_plate::<f32>(device, plate),
    })
}

/// Returns those precisions in which a device computes fields: not in mixed precision, and in
/// double precision only with f64.
pub(super) fn measured_precisions(
    device: &Device,
    precisions: &[Precision],
) -> impl Iterator<Item = Precision> {
    let has_f64 = device.properties().has_f64;
    precisions.iter().copied().filter(move |precision| match precision {
        Precision::Single => true,
        Precision::Mixed => false,
        Precision::Double => has_f64,
    })
}

fn find_for_plate<R: Scalar>(
    device: &Device,
    plate: &HeatPlateProblem,
) -> Result<FoundStrategy<HeatDeviceStrategy>, MeasureError> {
    let HeatPlateProblem { side, is_variable, .. } = *plate;
    let candidates = HeatDeviceStrategy::candidates(device, side * side, R::PRECISION, is_variable);
    let problem = bench_problem(side, R::PRECISION, is_variable);
    let dt = problem.max_stable_step();
    // The first candidate is the default.
    let mut heat = DeviceHeat::new(device, Plate::<R>::new(&problem), &bench_state(side), candidates[0])?;
    find_fastest(&candidates, SECONDS_PER_PLATE, |&strategy, repeats| {
        heat.set_strategy(strategy)?;
        Ok(time_steps(&mut heat, dt, Some(repeats))?.median())
    })
}
