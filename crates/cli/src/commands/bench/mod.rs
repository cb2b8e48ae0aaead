//! `bench`: how fast the solvers are here, against what the machine could do; and what a checkpoint costs.

mod checkpoint;

use std::time::Instant;

use orrery_engine::case::{BYTES_PER_BODY, available_memory};
use orrery_engine::provenance;
use orrery_io::{show_bytes, write_whole};
use orrery_model::Vec3s;
use orrery_model::ic::Plummer;
use orrery_model::rng::Draws;
use orrery_particles::accuracy::ForceErrors;
use orrery_particles::settings::{Acceptance, Precision};
use orrery_particles::simd::{InstructionSet, peak};
use orrery_particles::solver::tree::Report;
use orrery_particles::solver::{Problem, direct, tree, twin};
use serde_json::{Value, json};

use super::accuracy::spread;
use crate::args::{Bench, BenchBodies, BenchCase, PrecisionFlag};
use crate::failure::{Failure, check_output};
use crate::say::say;

/// By the usual count, for a body-body term.
const FLOPS_A_PAIR: f64 = 20.0;
/// A cell-body term with quadrupoles: 3 for the difference, 6 for ρ², 1 root, 18 for M d and d M d, 15 for the
/// weights, 12 for the sums.
const FLOPS_A_CELL: f64 = 55.0;
/// Bodies whose forces are compared with the sum over all pairs.
const SAMPLE: usize = 1000;

/// One line of the table.
struct Measurement {
    case: &'static str,
    n: usize,
    precision: PrecisionFlag,
    strategy: Value,
    seconds: Vec<f64>,
    /// Work a second, at the median.
    rate: f64,
    unit: &'static str,
    flops: f64,
    peak: f64,
    errors: ForceErrors,
    report: Option<Report>,
}

impl Measurement {
    fn median(&self) -> f64 {
        self.seconds[self.seconds.len() / 2]
    }
}

/// Measures and prints.
pub fn bench(arguments: &Bench) -> Result<(), Failure> {
    if arguments.n.contains(&0) {
        return Err(Failure::Usage("-n 0 is outside n >= 1".to_owned()));
    }
    arguments.theta.map_or(Ok(()), super::check_theta)?;
    if !(arguments.rms > 1e-6 && arguments.rms < 0.1) {
        return Err(Failure::Usage(format!("--rms {} is outside 1e-6 < rms < 0.1", arguments.rms)));
    }
    if let Some(path) = &arguments.json {
        check_output(path)?;
    }
    check_memory(&arguments.n)?;
    super::use_threads(arguments.threads)?;
    let set = arguments.simd.map_or_else(InstructionSet::best, Into::into).min(InstructionSet::best());
    let results = match arguments.what {
        BenchCase::Direct => to_json(&solvers(arguments, set, direct_bench)),
        BenchCase::Tree => to_json(&solvers(arguments, set, tree_bench)),
        BenchCase::Crossover => to_json(&solvers(arguments, set, crossover)),
        BenchCase::Checkpoint => checkpoint::bench(arguments)?,
    };
    write_json(arguments, &about(set, results))
}

/// A measurement of solvers, under its heading.
fn solvers(
    arguments: &Bench,
    set: InstructionSet,
    measure: fn(&Bench, InstructionSet) -> Vec<Measurement>,
) -> Vec<Measurement> {
    say!("{}, {}, threads: {}", cpu_name(), set.name(), rayon::current_num_threads());
    say!(
        "median of {} (fastest to slowest); {FLOPS_A_PAIR} flops a pair, {FLOPS_A_CELL} a cell",
        arguments.repeats
    );
    measure(arguments, set)
}

fn write_json(arguments: &Bench, results: &Value) -> Result<(), Failure> {
    let Some(path) = &arguments.json else { return Ok(()) };
    write_whole(path, format!("{results:#}\n").as_bytes()).map_err(Failure::Output)
}

fn check_memory(counts: &[usize]) -> Result<(), Failure> {
    let (Some(&n), Some(available)) = (counts.iter().max(), available_memory()) else { return Ok(()) };
    let needed = (n as u64).saturating_mul(BYTES_PER_BODY);
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (show_bytes(needed), show_bytes(available));
    Err(Failure::Usage(format!("-n {n}: {n} bodies need {needed} of memory, {available} are available")))
}

fn precisions(arguments: &Bench, default: &[PrecisionFlag]) -> Vec<PrecisionFlag> {
    arguments.precision.map_or_else(|| default.to_vec(), |precision| vec![precision])
}

fn sizes(arguments: &Bench, default: &[usize]) -> Vec<usize> {
    if arguments.n.is_empty() { default.to_vec() } else { arguments.n.clone() }
}

fn direct_bench(arguments: &Bench, set: InstructionSet) -> Vec<Measurement> {
    let all = [PrecisionFlag::Single, PrecisionFlag::Mixed, PrecisionFlag::Double];
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
        let (position, mass) = bodies(n, BenchBodies::Plummer);
        for precision in precisions(arguments, &all) {
            let measured = measure_direct(arguments, set, precision, &position, &mass);
            say!(
                "{:>9} {:>9} {:>9.3e} {:>10} {:>8} {:>10.3e} {:>7.0}% {:>9.1e}",
                n,
                precision.name(),
                measured.median(),
                format!("({:.2e}", measured.seconds[0]),
                format!("{:.2e})", measured.seconds[measured.seconds.len() - 1]),
                measured.rate,
                100.0 * measured.flops / measured.peak,
                measured.errors.median
            );
            results.push(measured);
        }
    }
    results
}

fn measure_direct(
    arguments: &Bench,
    set: InstructionSet,
    precision: PrecisionFlag,
    position: &Vec3s,
    mass: &[f64],
) -> Measurement {
    let n = mass.len();
    let problem = Problem { position, mass, g: 1.0, eps: 0.01, with_potential: false };
    let strategy = direct::Strategy::new(precision.into(), set);
    let forces = direct::forces(&problem, &strategy);
    let seconds = timed(arguments.repeats, || drop(direct::forces(&problem, &strategy)));
    let rate = (n as f64).powi(2) / seconds[seconds.len() / 2];
    Measurement {
        case: "direct",
        n,
        precision,
        strategy: json!({ "name": "direct", "block": strategy.block, "tile": strategy.tile, "instruction_set": set.name() }),
        rate,
        unit: "interactions/s",
        flops: FLOPS_A_PAIR * rate,
        peak: peak::flops(set, precision.into()),
        errors: errors(&problem, &forces.acceleration),
        report: None,
        seconds,
    }
}

fn tree_bench(arguments: &Bench, set: InstructionSet) -> Vec<Measurement> {
    let mut results = Vec::new();
    for n in sizes(arguments, &[100_000, 1_000_000]) {
        let (position, mass) = bodies(n, arguments.bodies);
        for precision in precisions(arguments, &[PrecisionFlag::Mixed]) {
            let problem =
                Problem { position: &position, mass: &mass, g: 1.0, eps: 0.001, with_potential: false };
            let acceptance = match arguments.theta {
                Some(theta) => Acceptance::Geometric { theta },
                None => tuned(&problem, precision.into(), set, arguments.rms),
            };
            let measured = measure_tree(arguments, set, precision, acceptance, &problem);
            print_tree(&measured, &describe(&acceptance));
            results.push(measured);
        }
    }
    results
}

fn print_tree(measured: &Measurement, acceptance: &str) {
    let (n, report) = (measured.n as f64, measured.report.unwrap_or_default());
    let [fastest, slowest] = [measured.seconds[0], measured.seconds[measured.seconds.len() - 1]];
    say!("");
    say!("{} bodies, {} precision, {acceptance}", measured.n, measured.precision.name());
    say!(
        "  time    {:.4} s ({fastest:.4} to {slowest:.4}): {:.3e} bodies/s, {:.0}% of peak",
        measured.median(),
        measured.rate,
        100.0 * measured.flops / measured.peak
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

fn describe(acceptance: &Acceptance) -> String {
    match acceptance {
        Acceptance::Geometric { theta } => format!("theta {theta}"),
        Acceptance::Relative { alpha, .. } => format!("relative {alpha:.4}"),
    }
}

fn measure_tree(
    arguments: &Bench,
    set: InstructionSet,
    precision: PrecisionFlag,
    acceptance: Acceptance,
    problem: &Problem,
) -> Measurement {
    let n = problem.mass.len();
    let strategy = tree::Strategy { acceptance, ..tree::Strategy::new(precision.into(), set) };
    // As in a run: the relative acceptance knows the accelerations of the step before.
    let previous = tree::forces(problem, &strategy, None).0.acceleration;
    let (forces, mut report) = tree::forces(problem, &strategy, Some(&previous));
    let seconds = timed(arguments.repeats, || report = tree::forces(problem, &strategy, Some(&previous)).1);
    let median = seconds[seconds.len() / 2];
    let flops = FLOPS_A_PAIR * report.body_terms as f64 + FLOPS_A_CELL * report.cell_terms as f64;
    Measurement {
        case: "tree",
        n,
        precision,
        strategy: json!({
            "name": "tree", "acceptance": describe(&acceptance), "leaf_size": strategy.leaf_size,
            "group_size": strategy.group_size, "instruction_set": set.name(),
            "bodies": match arguments.bodies { BenchBodies::Plummer => "plummer", BenchBodies::Cube => "cube" },
        }),
        rate: n as f64 / median,
        unit: "bodies/s",
        flops: flops / median,
        peak: peak::flops(set, precision.into()),
        errors: errors(problem, &forces.acceleration),
        report: Some(report),
        seconds,
    }
}

/// The largest tolerance of the relative acceptance whose rms error stays below `target`, to 5%.
fn tuned(problem: &Problem, precision: Precision, set: InstructionSet, target: f64) -> Acceptance {
    let with = |alpha| tree::Strategy {
        acceptance: Acceptance::Relative { alpha, theta: 0.6 },
        ..tree::Strategy::new(precision, set)
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

/// Direct and tree side by side, with equal settings, from few to many bodies.
fn crossover(arguments: &Bench, set: InstructionSet) -> Vec<Measurement> {
    let mut results = Vec::new();
    say!("");
    say!("{:>9} {:>9} {:>12} {:>12}  faster", "bodies", "precision", "direct s", "tree s (0.6)");
    for n in sizes(arguments, &[1000, 2000, 3000, 4000, 6000, 8000, 12_000, 16_000, 24_000]) {
        let (position, mass) = bodies(n, BenchBodies::Plummer);
        let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: false };
        for precision in precisions(arguments, &[PrecisionFlag::Mixed]) {
            let all_pairs = measure_direct(arguments, set, precision, &position, &mass);
            let acceptance = Acceptance::Geometric { theta: 0.6 };
            let tree = measure_tree(arguments, set, precision, acceptance, &problem);
            let (a, b) = (all_pairs.median(), tree.median());
            say!(
                "{n:>9} {:>9} {a:>12.4e} {b:>12.4e}  {}",
                precision.name(),
                if a < b { "direct" } else { "tree" }
            );
            results.extend([all_pairs, tree]);
        }
    }
    results
}

/// Sorted wall times, after one run that is not counted.
fn timed(repeats: u32, mut work: impl FnMut()) -> Vec<f64> {
    work();
    let mut seconds: Vec<f64> = (0..repeats)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

/// Total mass 1 in a Plummer sphere or a unit cube.
fn bodies(n: usize, kind: BenchBodies) -> (Vec3s, Vec<f64>) {
    let mass = vec![1.0 / n as f64; n];
    let position = match kind {
        BenchBodies::Plummer => {
            let model = Plummer { n, seed: 1, ..Plummer::default() };
            model.generate(1.0).map(|particles| particles.position).unwrap_or_default()
        }
        BenchBodies::Cube => {
            let mut position = Vec3s::default();
            for i in 0..n as u64 {
                let mut draws = Draws::new(1, 0, i);
                position.push([draws.uniform(), draws.uniform(), draws.uniform()]);
            }
            position
        }
    };
    (position, mass)
}

/// The right accelerations of a sample.
struct Reference {
    sample: Vec<usize>,
    right: Vec3s,
}

impl Reference {
    fn of(problem: &Problem) -> Self {
        let sample = spread(problem.mass.len(), SAMPLE);
        let right = twin::some(problem, &sample).0;
        Self { sample, right }
    }

    fn errors(&self, found: &Vec3s) -> ForceErrors {
        ForceErrors::of(found, &self.sample, &self.right)
    }
}

fn errors(problem: &Problem, found: &Vec3s) -> ForceErrors {
    Reference::of(problem).errors(found)
}

fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    name.unwrap_or("unknown processor").to_owned()
}

fn to_json(measurements: &[Measurement]) -> Value {
    measurements
        .iter()
        .map(|m| {
            let tree = m.report.map(|r| {
                json!({
                    "build_seconds": r.build_secs, "walk_seconds": r.walk_secs, "body_terms": r.body_terms,
                    "cell_terms": r.cell_terms, "bytes": r.bytes,
                })
            });
            json!({
                "case": m.case, "n": m.n, "precision": m.precision.name(), "strategy": m.strategy,
                "seconds": m.median(), "fastest": m.seconds[0], "slowest": m.seconds[m.seconds.len() - 1],
                "repeats": m.seconds.len(), "rate": m.rate, "unit": m.unit, "flops": m.flops,
                "peak_flops": m.peak, "share_of_peak": m.flops / m.peak,
                "error": { "median": m.errors.median, "p99": m.errors.p99, "max": m.errors.max, "rms": m.errors.rms },
                "tree": tree,
            })
        })
        .collect()
}

/// The results, and where they were measured.
fn about(set: InstructionSet, results: Value) -> Value {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({
        "program": format!("orrery {}", provenance::VERSION),
        "commit": provenance::COMMIT,
        "machine": { "cpu": cpu_name(), "cores": cores },
        "device": { "kind": "cpu", "threads": rayon::current_num_threads(), "instruction_set": set.name() },
        "flops_a_pair": FLOPS_A_PAIR,
        "flops_a_cell": FLOPS_A_CELL,
        "results": results,
    })
}
