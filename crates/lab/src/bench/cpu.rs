//! The solvers on the processor.

use orrery_model::Vec3s;
use orrery_particles::settings::{Acceptance, Precision};
use orrery_particles::simd::{InstructionSet, peak};
use orrery_particles::solver::{Problem, direct, tree};
use serde_json::json;

use super::{FLOPS_A_CELL, Measurement, TreeFigures};
use crate::FLOPS_A_PAIR;
use crate::sample::{Reference, Shape};
use crate::timing::on_host;

/// All pairs.
pub fn all_pairs(
    set: InstructionSet,
    precision: Precision,
    position: &Vec3s,
    mass: &[f64],
    repeats: usize,
) -> Measurement {
    let n = mass.len();
    let problem = Problem { position, mass, g: 1.0, eps: 0.01, with_potential: false };
    let strategy = direct::DirectCpuStrategy::new(precision, set);
    let forces = direct::forces(&problem, &strategy);
    let times = on_host(repeats, || drop(direct::forces(&problem, &strategy)));
    let rate = (n as f64).powi(2) / times.median();
    Measurement {
        case: "direct",
        n,
        precision,
        strategy: json!({
            "name": "direct", "block": strategy.block, "tile": strategy.tile, "instruction_set": set.name(),
        }),
        rate,
        unit: "interactions/s",
        flops: FLOPS_A_PAIR * rate,
        measured_peak: peak::flops_per_second(set, precision),
        theoretical_peak: None,
        errors: Reference::of(&problem).errors(&forces.acceleration),
        tree: None,
        times,
    }
}

/// The tree, its build included.
pub fn barnes_hut(
    set: InstructionSet,
    precision: Precision,
    acceptance: Acceptance,
    problem: &Problem,
    shape: Shape,
    repeats: usize,
) -> Measurement {
    let n = problem.mass.len();
    let strategy = tree::TreeCpuStrategy { acceptance, ..tree::TreeCpuStrategy::new(precision, set) };
    // As in a run: the relative acceptance knows the accelerations of the step before.
    let previous = tree::forces(problem, &strategy, None).0.acceleration;
    let (forces, mut report) = tree::forces(problem, &strategy, Some(&previous));
    let times = on_host(repeats, || report = tree::forces(problem, &strategy, Some(&previous)).1);
    let flops = FLOPS_A_PAIR * report.body_terms as f64 + FLOPS_A_CELL * report.cell_terms as f64;
    Measurement {
        case: "tree",
        n,
        precision,
        strategy: json!({
            "name": "tree", "acceptance": describe(&acceptance), "leaf_size": strategy.leaf_size,
            "group_size": strategy.group_size, "instruction_set": set.name(), "bodies": shape.name(),
        }),
        rate: n as f64 / times.median(),
        unit: "bodies/s",
        flops: flops / times.median(),
        measured_peak: peak::flops_per_second(set, precision),
        theoretical_peak: None,
        errors: Reference::of(problem).errors(&forces.acceleration),
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

/// An acceptance in words.
pub fn describe(acceptance: &Acceptance) -> String {
    match acceptance {
        Acceptance::Geometric { theta } => format!("theta {theta}"),
        Acceptance::Relative { alpha, .. } => format!("relative {alpha:.4}"),
    }
}

/// The largest tolerance of the relative acceptance whose rms error stays below `target`, to 5%.
pub fn acceptance_for(
    problem: &Problem,
    precision: Precision,
    set: InstructionSet,
    target: f64,
) -> Acceptance {
    let with = |alpha| tree::TreeCpuStrategy {
        acceptance: Acceptance::Relative { alpha, theta: 0.6 },
        ..tree::TreeCpuStrategy::new(precision, set)
    };
    let previous = tree::forces(problem, &with(0.01), None).0.acceleration;
    let right = Reference::of(problem);
    let (mut low, mut high) = (1e-5f64, 0.3f64);
    while high / low > 1.05 {
        let middle = (low * high).sqrt();
        let found = tree::forces(problem, &with(middle), Some(&previous)).0.acceleration;
        if right.errors(&found).rms <= target { low = middle } else { high = middle }
    }
    Acceptance::Relative { alpha: low, theta: 0.6 }
}
