//! The tree on a device: from unsorted positions to accelerations, and where the time of that goes.

use orrery_device::{Device, DeviceError, DeviceKind, ceiling};
use orrery_particles::settings::{Acceptance, Precision};
use orrery_particles::solver::device::DeviceSolver;
use orrery_particles::solver::tree::device::{DeviceTree, Order, Report, Stages, TreeDeviceStrategy};
use serde_json::json;

use super::cpu::describe;
use super::device::{about, peaks, repeats};
use super::{FLOPS_A_CELL, Measurement, TreeFigures};
use crate::sample::{Reference, Shape};
use crate::stage::DeviceWorkload;
use crate::{FLOPS_A_PAIR, LabError};

/// Evaluations that are waited for stage by stage.
const STAGED: usize = 5;

/// Sizes that show what the device can do.
pub fn sizes(device: &Device) -> Vec<usize> {
    match device.properties().kind {
        DeviceKind::Gpu => vec![1_048_576, 8_388_608],
        DeviceKind::Cpu | DeviceKind::Other => vec![4096, 16_384],
    }
}

/// Operations of a cell-body term by the usual counts: a cell of a monopole is as good as a body, and third moments add 6 for
/// products of differences, 30 and 5 for the contractions, 4 for weights.
pub fn flops_per_cell(order: Order) -> f64 {
    match order {
        Order::Monopole => FLOPS_A_PAIR,
        Order::Quadrupole => FLOPS_A_CELL,
        Order::Octupole => FLOPS_A_CELL + 45.0,
    }
}

/// Operations of an evaluation.
pub fn flops(order: Order, body_terms: u64, cell_terms: u64) -> f64 {
    FLOPS_A_PAIR * body_terms as f64 + flops_per_cell(order) * cell_terms as f64
}

/// Bodies on a device, with the right forces on some of them.
pub struct TreeBench<'a> {
    device: &'a Device,
    measured: ceiling::Ceilings,
}

/// The bodies of some lines.
pub struct TreeWorkload {
    stage: DeviceWorkload,
    shape: Shape,
    theta: f64,
    reference: Reference,
}

impl<'a> TreeBench<'a> {
    /// Measures the device's roofs first.
    pub fn new(device: &'a Device) -> Result<Self, LabError> {
        Ok(Self { device, measured: ceiling::measure(device)? })
    }

    /// The bodies, and the right forces on some of them.
    pub fn workload(&self, shape: Shape, n: usize, theta: f64) -> Result<TreeWorkload, LabError> {
        let stage = DeviceWorkload::for_tree(self.device, shape, n, theta)?;
        let reference = Reference::of(&stage.problem());
        Ok(TreeWorkload { stage, shape, theta, reference })
    }

    /// One strategy. As many timed evaluations as `times` says, else as many as there is time for.
    pub fn tree(
        &self,
        workload: &TreeWorkload,
        strategy: &TreeDeviceStrategy,
        times: Option<usize>,
    ) -> Result<Measurement, LabError> {
        let TreeWorkload { stage, shape, theta, reference } = workload;
        let (n, order) = (stage.len(), strategy.order);
        let mut tree = DeviceTree::new(self.device, n, strategy)?;
        let mut staged = (0..=STAGED).map(|_| tree.stages(&stage.evaluation()));
        // The first builds the kernels.
        staged.next().transpose()?;
        let stages = median_stages(staged.collect::<Result<_, DeviceError>>()?);
        let mut solver = DeviceSolver::Tree(tree.into());
        let once = stage.once(&mut solver)?;
        let times = stage.times(&mut solver, times.unwrap_or_else(|| repeats(once)), once)?;
        let DeviceSolver::Tree(tree) = solver else { unreachable!("it was made a tree above") };
        let Report { cells, groups, body_terms, cell_terms, most_terms } = tree.report()?;
        let (measured_peak, theoretical_peak) = peaks(self.device, &self.measured, strategy.precision);
        let mut how = serde_json::to_value(strategy).expect("plain data always serialises");
        how["name"] = json!("tree");
        how["acceptance"] = json!(describe(&Acceptance::Geometric { theta: *theta }));
        how["theta"] = json!(theta);
        how["bodies"] = json!(shape.name());
        Ok(Measurement {
            case: "tree",
            n,
            precision: strategy.precision,
            strategy: how,
            rate: n as f64 / times.median(),
            unit: "bodies/s",
            flops: flops(order, body_terms, cell_terms) / times.median(),
            measured_peak,
            theoretical_peak,
            errors: reference.errors(&stage.accelerations()?),
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

    /// The device and its roofs, for files.
    pub fn about(&self) -> serde_json::Value {
        about(self.device, &self.measured)
    }
}

/// Each stage's own median.
fn median_stages(all: Vec<Stages>) -> Stages {
    let median = |stage: fn(&Stages) -> f64| {
        let mut seconds: Vec<f64> = all.iter().map(stage).collect();
        seconds.sort_by(f64::total_cmp);
        seconds.get(seconds.len() / 2).copied().unwrap_or_default()
    };
    Stages {
        build: median(|stages| stages.build),
        moments: median(|stages| stages.moments),
        walk: median(|stages| stages.walk),
    }
}

/// The precisions that are measured unless one is asked for.
pub const PRECISIONS: [Precision; 2] = [Precision::Single, Precision::Mixed];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_has_its_own_median() {
        let stages = |build, moments, walk| Stages { build, moments, walk };
        let all = vec![stages(1.0, 9.0, 4.0), stages(2.0, 7.0, 6.0), stages(3.0, 8.0, 5.0)];
        assert_eq!(median_stages(all), stages(2.0, 8.0, 5.0));
        assert_eq!(median_stages(Vec::new()), Stages::default());
    }

    #[test]
    fn a_cell_of_a_monopole_counts_as_a_body() {
        assert_eq!(flops(Order::Monopole, 3, 4), 7.0 * FLOPS_A_PAIR);
        assert_eq!(flops(Order::Quadrupole, 1, 2), FLOPS_A_PAIR + 2.0 * FLOPS_A_CELL);
    }
}
