//! Benchmarks of the solvers on the CPU.

use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::{CpuMemory, ForceProblem, Forces, direct, tree};
use orrery_model::{Precision, Vec3s};
use orrery_simd::InstructionSet;
use serde_json::json;

use super::{FLOPS_PER_CELL, ForceMeasurement, TreeFigures};
use crate::sample::{ReferenceForces, Shape};
use crate::timing::time_on_host;
use crate::{FLOPS_PER_PAIR, cpu_peak};

/// Measures the direct solver.
pub fn bench_direct(
    set: InstructionSet,
    precision: Precision,
    position: &Vec3s,
    mass: &[f64],
    repeats: usize,
) -> ForceMeasurement {
    let n = mass.len();
    let problem = ForceProblem { position, mass, g: 1.0, eps: 0.01, with_potential: false };
    let strategy = direct::DirectCpuStrategy::new(precision, set);
    let forces = direct::forces(&problem, &strategy);
    let times = time_on_host(repeats, || drop(direct::forces(&problem, &strategy)));
    let rate = (n as f64).powi(2) / times.median();
    ForceMeasurement {
        case: "direct",
        n,
        precision,
        strategy: json!({
            "name": "direct", "block": strategy.block, "tile": strategy.tile, "instruction_set": set.name(),
        }),
        rate,
        unit: "interactions/s",
        flops: FLOPS_PER_PAIR * rate,
        measured_peak: cpu_peak::flops_per_second(set, precision),
        theoretical_peak: None,
        errors: ReferenceForces::compute(&problem).errors(&forces.acceleration),
        tree: None,
        times,
    }
}

/// Measures the tree solver, including the tree build.
pub fn bench_tree(
    set: InstructionSet,
    precision: Precision,
    acceptance: Acceptance,
    problem: &ForceProblem,
    shape: Shape,
    repeats: usize,
) -> ForceMeasurement {
    let n = problem.mass.len();
    let strategy = tree::TreeCpuStrategy { acceptance, ..tree::TreeCpuStrategy::new(precision, set) };
    // As in a run, the relative criterion uses the accelerations of the previous step.
    let previous = tree::forces(problem, &strategy, None).0.acceleration;
    // As in a run, evaluations reuse their memory.
    let (mut memory, mut forces) = (CpuMemory::default(), Forces::default());
    let mut evaluate = || tree::forces_into(problem, &strategy, Some(&previous), &mut memory, &mut forces);
    let mut report = evaluate();
    let times = time_on_host(repeats, || report = evaluate());
    let flop_count = FLOPS_PER_PAIR * report.body_terms as f64 + FLOPS_PER_CELL * report.cell_terms as f64;
    ForceMeasurement {
        case: "tree",
        n,
        precision,
        strategy: json!({
            "name": "tree", "acceptance": describe_acceptance(&acceptance), "leaf_size": strategy.leaf_size,
            "group_size": strategy.group_size, "instruction_set": set.name(), "bodies": shape.name(),
        }),
        rate: n as f64 / times.median(),
        unit: "bodies/s",
        flops: flop_count / times.median(),
        measured_peak: cpu_peak::flops_per_second(set, precision),
        theoretical_peak: None,
        errors: ReferenceForces::compute(problem).errors(&forces.acceleration),
        tree: Some(TreeFigures {
            build_secs: report.build_secs,
            walk_secs: report.walk_secs,
            body_terms: report.body_terms,
            cell_terms: report.cell_terms,
            bytes: report.bytes as u64,
            ..TreeFigures::default()
        }),
        times,
    }
}

/// Describes an acceptance criterion, for example as `theta 0.5`.
pub fn describe_acceptance(acceptance: &Acceptance) -> String {
    match acceptance {
        Acceptance::Geometric { theta } => format!("theta {theta}"),
        Acceptance::Relative { alpha, .. } => format!("relative {alpha:.4}"),
    }
}

/// Finds the largest tolerance of the relative criterion, to 5%, whose rms force error is at most
/// `target_rms`.
pub fn acceptance_for_rms(
    problem: &ForceProblem,
    precision: Precision,
    set: InstructionSet,
    target_rms: f64,
) -> Acceptance {
    let strategy_for = |alpha| tree::TreeCpuStrategy {
        acceptance: Acceptance::Relative { alpha, theta: 0.6 },
        ..tree::TreeCpuStrategy::new(precision, set)
    };
    let previous = tree::forces(problem, &strategy_for(0.01), None).0.acceleration;
    let reference = ReferenceForces::compute(problem);
    let (mut low, mut high) = (1e-5f64, 0.3f64);
    while high / low > 1.05 {
        let middle = (low * high).sqrt();
        let accelerations = tree::forces(problem, &strategy_for(middle), Some(&previous)).0.acceleration;
        if reference.errors(&accelerations).rms <= target_rms { low = middle } else { high = middle }
    }
    Acceptance::Relative { alpha: low, theta: 0.6 }
}
