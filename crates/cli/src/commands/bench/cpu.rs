//! Benchmarks of the solvers on the CPU.

use orrery_gravity::accuracy::ForceErrors;
use orrery_gravity::settings::Acceptance;
use orrery_gravity::solver::ForceProblem;
use orrery_measure::bench::ForceMeasurement;
use orrery_measure::bench::cpu::{self as measure, acceptance_for_rms, describe_acceptance};
use orrery_measure::sample::Shape;
use orrery_model::{Precision, format_count};
use orrery_simd::InstructionSet;

use super::{repeat_count, selected_precisions, selected_sizes};
use crate::args::BenchArgs;
use crate::print::print_line;

/// Default rms force error to which the relative acceptance is tuned.
const DEFAULT_RMS: f64 = 1e-3;

/// Measures the sum over all pairs.
pub fn bench_direct(arguments: &BenchArgs, set: InstructionSet) -> Vec<ForceMeasurement> {
    let mut results = Vec::new();
    print_line!("");
    print_line!(
        "{:>9} {:>9} {:>9} {:>19} {:>10} {:>8} {:>9}",
        "bodies",
        "precision",
        "seconds",
        "(fastest slowest)",
        "pairs/s",
        "of peak",
        "error"
    );
    for n in selected_sizes(arguments, &[32_768]) {
        let (position, mass) = Shape::Plummer.bodies(n);
        for precision in selected_precisions(arguments, &Precision::ALL) {
            let measured =
                measure::bench_direct(set, precision, &position, &mass, repeat_count(arguments) as usize);
            print_line!(
                "{:>9} {:>9} {:>9.3e} {:>10} {:>8} {:>10.3e} {:>7.0}% {:>9.1e}",
                n,
                precision.as_str(),
                measured.times.median(),
                format!("({:.2e}", measured.times.fastest()),
                format!("{:.2e})", measured.times.slowest()),
                measured.rate,
                100.0 * measured.flops / measured.peak(),
                measured.errors.median
            );
            results.push(measured);
        }
    }
    results
}

/// Measures the tree.
pub fn bench_tree(arguments: &BenchArgs, set: InstructionSet) -> Vec<ForceMeasurement> {
    let shape = arguments.bodies.map_or(Shape::Plummer, Into::into);
    let mut results = Vec::new();
    for n in selected_sizes(arguments, &[100_000, 1_000_000]) {
        let (position, mass) = shape.bodies(n);
        for precision in selected_precisions(arguments, &[Precision::Mixed]) {
            let problem =
                ForceProblem { position: &position, mass: &mass, g: 1.0, eps: 0.001, with_potential: false };
            let acceptance = match arguments.theta {
                Some(theta) => Acceptance::Geometric { theta },
                None => acceptance_for_rms(&problem, precision, set, arguments.rms.unwrap_or(DEFAULT_RMS)),
            };
            let repeats = repeat_count(arguments) as usize;
            let measured = measure::bench_tree(set, precision, acceptance, &problem, shape, repeats);
            print_tree(&measured, &describe_acceptance(&acceptance));
            results.push(measured);
        }
    }
    results
}

fn print_tree(measured: &ForceMeasurement, acceptance: &str) {
    let (n, report) = (measured.n as f64, measured.tree.unwrap_or_default());
    let times = &measured.times;
    print_line!("");
    let bodies = format_count(measured.n as u64, "body", "bodies");
    print_line!("{bodies}, {} precision, {acceptance}", measured.precision.as_str());
    print_line!(
        "  time    {:.4} s ({:.4} to {:.4}): {:.3e} bodies/s, {:.0}% of peak",
        times.median(),
        times.fastest(),
        times.slowest(),
        measured.rate,
        100.0 * measured.flops / measured.peak()
    );
    print_line!(
        "  build   {:.1}% of the time; {:.0} body and {:.0} cell terms per body",
        100.0 * report.build_secs / (report.build_secs + report.walk_secs),
        report.body_terms as f64 / n,
        report.cell_terms as f64 / n
    );
    let ForceErrors { median, p99, rms, .. } = measured.errors;
    print_line!("  error   rms {rms:.2e}, median {median:.2e}, 99% {p99:.2e}");
    print_line!("  memory  {:.0} bytes per body for the tree", report.bytes as f64 / n);
}

/// Measures direct and tree with equal settings, from few to many bodies.
pub fn bench_crossover(arguments: &BenchArgs, set: InstructionSet) -> Vec<ForceMeasurement> {
    let mut results = Vec::new();
    let repeats = repeat_count(arguments) as usize;
    print_line!("");
    print_line!("{:>9} {:>9} {:>12} {:>12}  faster", "bodies", "precision", "direct, s", "tree, s");
    for n in selected_sizes(arguments, &[1000, 2000, 3000, 4000, 6000, 8000, 12_000, 16_000, 24_000]) {
        let (position, mass) = Shape::Plummer.bodies(n);
        let problem =
            ForceProblem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: false };
        for precision in selected_precisions(arguments, &[Precision::Mixed]) {
            let pairs = measure::bench_direct(set, precision, &position, &mass, repeats);
            let acceptance = Acceptance::Geometric { theta: 0.6 };
            let tree = measure::bench_tree(set, precision, acceptance, &problem, Shape::Plummer, repeats);
            let (direct_secs, tree_secs) = (pairs.times.median(), tree.times.median());
            let faster = if direct_secs < tree_secs { "direct" } else { "tree" };
            print_line!("{n:>9} {:>9} {direct_secs:>12.4e} {tree_secs:>12.4e}  {faster}", precision.as_str());
            results.extend([pairs, tree]);
        }
    }
    results
}
