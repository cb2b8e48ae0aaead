//! Benchmarks of the tree on a device: from unsorted positions to accelerations, with the time of
//! each stage.

use orrery_device::{Device, DeviceError, DeviceKind, ceiling};
use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::device::DeviceSolver;
use orrery_gravity::solver::tree::device::{
    DeviceTree, DeviceTreeReport, Order, TreeDeviceStrategy, TreeStageTimes,
};
use orrery_model::Precision;
use serde_json::json;

use super::cpu::describe_acceptance;
use super::direct::{device_json, peak_flops};
use super::place::time_runs;
use super::{FLOPS_PER_CELL, ForceMeasurement, TreeFigures};
use crate::sample::{ReferenceForces, Shape};
use crate::tuning::Tuning;
use crate::workload::DeviceWorkload;
use crate::{FLOPS_PER_PAIR, MeasureError};

/// Precisions that are measured unless one is requested.
pub const DEFAULT_PRECISIONS: [Precision; 2] = [Precision::Single, Precision::Mixed];

/// Number of evaluations whose stages are timed one by one.
const STAGED_EVALUATIONS: usize = 5;

/// Returns the default problem sizes for a device.
pub fn default_sizes(device: &Device) -> Vec<usize> {
    match device.properties().kind {
        DeviceKind::Gpu => vec![1_048_576, 8_388_608],
        DeviceKind::Cpu | DeviceKind::Other => vec![4096, 16_384],
    }
}

/// Returns the floating-point operations of a cell-body term. A monopole cell costs as much as a
/// body. Octupoles add 6 for products of differences, 30 and 5 for the contractions, and 4 for the
/// weights.
pub fn flops_per_cell(order: Order) -> f64 {
    match order {
        Order::Monopole => FLOPS_PER_PAIR,
        Order::Quadrupole => FLOPS_PER_CELL,
        Order::Octupole => FLOPS_PER_CELL + 45.0,
    }
}

/// Returns the floating-point operations of a force evaluation.
pub fn evaluation_flops(order: Order, body_terms: u64, cell_terms: u64) -> f64 {
    FLOPS_PER_PAIR * body_terms as f64 + flops_per_cell(order) * cell_terms as f64
}

/// Returns the strategy that a run of `n` bodies uses: the tuned one if there is one.
pub fn production_strategy(
    device: &Device,
    tuning: Option<&Tuning>,
    n: usize,
    precision: Precision,
) -> TreeDeviceStrategy {
    let tuned = tuning.and_then(|tuning| tuning.nearest_tree_entry(n, precision));
    tuned.map_or_else(|| TreeDeviceStrategy::default_for(device, precision), |entry| entry.strategy)
}

/// Benchmark of the tree on one device.
pub struct TreeBench<'a> {
    device: &'a Device,
    peaks: ceiling::Ceilings,
}

/// Bodies on a device, with reference forces on a sample of them.
pub struct TreeWorkload {
    bodies: DeviceWorkload,
    shape: Shape,
    theta: f64,
    reference: ReferenceForces,
}

impl<'a> TreeBench<'a> {
    /// Measures the device's peak rates.
    pub fn new(device: &'a Device) -> Result<Self, MeasureError> {
        Ok(Self { device, peaks: ceiling::measure(device)? })
    }

    /// Uploads `n` bodies and computes the reference forces.
    pub fn prepare_workload(&self, shape: Shape, n: usize, theta: f64) -> Result<TreeWorkload, MeasureError> {
        let bodies = DeviceWorkload::for_tree(self.device, shape, n, theta)?;
        let reference = ReferenceForces::compute(&bodies.problem());
        Ok(TreeWorkload { bodies, shape, theta, reference })
    }

    /// Measures one strategy. Without `repeats`, the number of timed evaluations depends on the
    /// time of one.
    pub fn measure_strategy(
        &self,
        workload: &TreeWorkload,
        strategy: &TreeDeviceStrategy,
        repeats: Option<usize>,
    ) -> Result<ForceMeasurement, MeasureError> {
        let TreeWorkload { bodies, shape, theta, reference } = workload;
        let (n, order) = (bodies.body_count(), strategy.order);
        let mut tree = DeviceTree::new(self.device, n, strategy)?;
        let stages = time_stages(&mut tree, bodies)?;
        let mut solver = DeviceSolver::Tree(tree.into());
        let times = time_runs(self.device, repeats, || bodies.queue_forces(&mut solver))?;
        let DeviceSolver::Tree(tree) = solver else { unreachable!("created as a tree above") };
        let DeviceTreeReport { cells, groups, body_terms, cell_terms, most_terms } = tree.report()?;
        let (measured_peak, theoretical_peak) = peak_flops(self.device, &self.peaks, strategy.precision);
        let mut strategy_json = serde_json::to_value(strategy).expect("plain data always serialises");
        strategy_json["name"] = json!("tree");
        strategy_json["acceptance"] = json!(describe_acceptance(&Acceptance::Geometric { theta: *theta }));
        strategy_json["theta"] = json!(theta);
        strategy_json["bodies"] = json!(shape.name());
        Ok(ForceMeasurement {
            case: "tree",
            n,
            precision: strategy.precision,
            strategy: strategy_json,
            rate: n as f64 / times.median(),
            unit: "bodies/s",
            flops: evaluation_flops(order, body_terms, cell_terms) / times.median(),
            measured_peak,
            theoretical_peak,
            errors: reference.errors(&bodies.accelerations()?),
            tree: Some(TreeFigures {
                build_secs: stages.build,
                moments_secs: Some(stages.moments),
                walk_secs: stages.walk,
                cells: Some(cells),
                groups: Some(groups),
                body_terms,
                cell_terms,
                most_terms: Some(most_terms),
                bytes: DeviceTree::scratch_bytes(self.device, n, strategy),
            }),
            times,
        })
    }

    /// Returns the device's properties and peak rates as a JSON object.
    pub fn device_json(&self) -> serde_json::Value {
        device_json(self.device, &self.peaks)
    }
}

/// Returns the median time of each stage.
fn time_stages(tree: &mut DeviceTree, bodies: &DeviceWorkload) -> Result<TreeStageTimes, DeviceError> {
    // The first evaluation builds the kernels and is not counted.
    tree.time_stages(&bodies.force_request())?;
    let evaluations = (0..STAGED_EVALUATIONS).map(|_| tree.time_stages(&bodies.force_request()));
    Ok(median_stages(evaluations.collect::<Result<_, _>>()?))
}

/// Computes the median of each stage separately.
fn median_stages(evaluations: Vec<TreeStageTimes>) -> TreeStageTimes {
    let median = |stage: fn(&TreeStageTimes) -> f64| {
        let mut seconds: Vec<f64> = evaluations.iter().map(stage).collect();
        seconds.sort_by(f64::total_cmp);
        seconds.get(seconds.len() / 2).copied().unwrap_or_default()
    };
    TreeStageTimes {
        build: median(|stages| stages.build),
        moments: median(|stages| stages.moments),
        walk: median(|stages| stages.walk),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_a_separate_median() {
        let stages = |build, moments, walk| TreeStageTimes { build, moments, walk };
        let evaluations = vec![stages(1.0, 9.0, 4.0), stages(2.0, 7.0, 6.0), stages(3.0, 8.0, 5.0)];
        assert_eq!(median_stages(evaluations), stages(2.0, 8.0, 5.0));
        assert_eq!(median_stages(Vec::new()), TreeStageTimes::default());
    }

    #[test]
    fn monopole_cells_cost_as_much_as_bodies() {
        assert_eq!(evaluation_flops(Order::Monopole, 3, 4), 7.0 * FLOPS_PER_PAIR);
        assert_eq!(evaluation_flops(Order::Quadrupole, 1, 2), FLOPS_PER_PAIR + 2.0 * FLOPS_PER_CELL);
    }
}
