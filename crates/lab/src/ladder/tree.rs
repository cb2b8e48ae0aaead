//! Ladder of the Barnes-Hut tree.

use orrery_particles::solver::device::DeviceStrategy;
use orrery_particles::solver::tree::device::{Order, TreeDeviceStrategy};
use orrery_particles::solver::tree::rungs::{THETA, rungs};

use super::gravity::{BYTES_PER_BODY, ERROR_REMARK, EvaluatedStrategy, Evaluation, GravityLadder};
use super::{Counted, DefaultSizes, Ladder, LadderEntry, LadderRequest, Work};
use crate::LabError;
use crate::bench::tree::evaluation_flops;
use crate::sample::Shape;
use crate::workload::Workload;

pub static LADDER: LadderEntry = LadderEntry {
    name: "tree",
    description: "Gravity by the Barnes-Hut tree, including the tree build",
    title: "Barnes-Hut, Plummer sphere",
    size_unit: "bodies",
    host_bytes: |n| (n as u64).saturating_mul(BYTES_PER_BODY),
    sizes: DefaultSizes { gpu: 1_048_576, opencl_cpu: 16_384, host: 131_072 },
    counted: Counted {
        item: "body",
        rate_unit: "bodies/s",
        heading: "Mbody/s",
        to_column: |rate| rate / 1e6,
    },
    measure,
};

const REMARKS: [&str; 3] = [
    "all rungs: theta = 0.5, geometric",
    "flops per term: body 20, cell 20 (monopole), 55 (quadrupole), 100 (octupole)",
    ERROR_REMARK,
];

fn measure(request: &mut LadderRequest, ladder: &mut Ladder) -> Result<(), LabError> {
    ladder.remarks = REMARKS.map(str::to_owned).to_vec();
    let gravity = GravityLadder {
        rungs,
        new_workload: |n| Workload::for_tree(Shape::Plummer, n, THETA),
        default_strategy: |device, _, precision, _| TreeDeviceStrategy::default_for(device, precision).into(),
        count_work,
    };
    gravity.measure(request, ladder)
}

/// Counts bodies. Their operations follow from the terms of this evaluation.
fn count_work(evaluation: &Evaluation) -> (f64, Work) {
    let order = match evaluation.strategy {
        EvaluatedStrategy::Device(DeviceStrategy::Tree(strategy)) => strategy.order,
        _ => Order::Quadrupole,
    };
    let bodies = evaluation.n as f64;
    let flops = evaluation_flops(order, evaluation.body_terms, evaluation.cell_terms) / bodies;
    (bodies, Work { flops: Some(flops), bytes: None })
}
