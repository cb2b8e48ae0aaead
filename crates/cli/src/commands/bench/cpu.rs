//! The solvers on the processor: what is printed of them.

use orrery_lab::bench::Measurement;
use orrery_lab::bench::cpu::{acceptance_for_rms, bench_direct, bench_tree, describe_acceptance};
use orrery_lab::sample::Shape;
use orrery_lab::{PRECISIONS, precision_name};
use orrery_particles::accuracy::ForceErrors;
use orrery_particles::settings::{Acceptance, Precision};
use orrery_particles::simd::InstructionSet;
use orrery_particles::solver::Problem;

use super::{precisions, repeats, sizes};
use crate::args::BenchArgs;
use crate::say::say;

/// The force error that the relative acceptance is tuned to, unless told otherwise.
const RMS: f64 = 1e-3;

/// All pairs.
pub fn direct(arguments: &BenchArgs, set: InstructionSet) -> Vec<Measurement> {
    let mut results = Vec::new();
    say!("");
    say!(
        "{:>9} {:>9} {:>9} {:>19} {:>10} {:>8} {:>9}",
        "bodies",
        "precision",
        "seconds",
        "(from to)",
        "pairs/s",
        "of peak",
        "error"
    );
    for n in sizes(arguments, &[32_768]) {
        let (position, mass) = Shape::Plummer.bodies(n);
        for precision in precisions(arguments, &PRECISIONS) {
            let measured = bench_direct(set, precision, &position, &mass, repeats(arguments) as usize);
            say!(
                "{:>9} {:>9} {:>9.3e} {:>10} {:>8} {:>10.3e} {:>7.0}% {:>9.1e}",
                n,
                precision_name(precision),
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

/// The tree.
pub fn tree(arguments: &BenchArgs, set: InstructionSet) -> Vec<Measurement> {
    let shape = arguments.bodies.map_or(Shape::Plummer, Into::into);
    let mut results = Vec::new();
    for n in sizes(arguments, &[100_000, 1_000_000]) {
        let (position, mass) = shape.bodies(n);
        for precision in precisions(arguments, &[Precision::Mixed]) {
            let problem =
                Problem { position: &position, mass: &mass, g: 1.0, eps: 0.001, with_potential: false };
            let acceptance = match arguments.theta {
                Some(theta) => Acceptance::Geometric { theta },
                None => acceptance_for_rms(&problem, precision, set, arguments.rms.unwrap_or(RMS)),
            };
            let repeats = repeats(arguments) as usize;
            let measured = bench_tree(set, precision, acceptance, &problem, shape, repeats);
            print_tree(&measured, &describe_acceptance(&acceptance));
            results.push(measured);
        }
    }
    results
}

fn print_tree(measured: &Measurement, acceptance: &str) {
    let (n, report) = (measured.n as f64, measured.tree.unwrap_or_default());
    let times = &measured.times;
    say!("");
    say!("{} bodies, {} precision, {acceptance}", measured.n, precision_name(measured.precision));
    say!(
        "  time    {:.4} s ({:.4} to {:.4}): {:.3e} bodies/s, {:.0}% of peak",
        times.median(),
        times.fastest(),
        times.slowest(),
        measured.rate,
        100.0 * measured.flops / measured.peak()
    );
    say!(
        "  build   {:.1}% of it; then {:.0} bodies and {:.0} cells summed a body",
        100.0 * report.build_secs / (report.build_secs + report.walk_secs),
        report.body_terms as f64 / n,
        report.cell_terms as f64 / n
    );
    let ForceErrors { median, p99, rms, .. } = measured.errors;
    say!("  error   rms {rms:.2e}, median {median:.2e}, 99% {p99:.2e}");
    say!("  memory  {:.0} bytes a body beyond the bodies", report.bytes as f64 / n);
}

/// Direct and tree side by side, with equal settings, from few to many bodies.
pub fn crossover(arguments: &BenchArgs, set: InstructionSet) -> Vec<Measurement> {
    let mut results = Vec::new();
    let repeats = repeats(arguments) as usize;
    say!("");
    say!("{:>9} {:>9} {:>12} {:>12}  faster", "bodies", "precision", "direct s", "tree s (0.6)");
    for n in sizes(arguments, &[1000, 2000, 3000, 4000, 6000, 8000, 12_000, 16_000, 24_000]) {
        let (position, mass) = Shape::Plummer.bodies(n);
        let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: false };
        for precision in precisions(arguments, &[Precision::Mixed]) {
            let pairs = bench_direct(set, precision, &position, &mass, repeats);
            let acceptance = Acceptance::Geometric { theta: 0.6 };
            let tree = bench_tree(set, precision, acceptance, &problem, Shape::Plummer, repeats);
            let (a, b) = (pairs.times.median(), tree.times.median());
            let faster = if a < b { "direct" } else { "tree" };
            say!("{n:>9} {:>9} {a:>12.4e} {b:>12.4e}  {faster}", precision_name(precision));
            results.extend([pairs, tree]);
        }
    }
    results
}
