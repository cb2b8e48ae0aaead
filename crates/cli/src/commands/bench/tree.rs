//! Benchmarks of the tree on a device.

use orrery_device::{Device, DeviceKind};
use orrery_gravity::accuracy::ForceErrors;
use orrery_gravity::solver::direct::device::DirectDeviceStrategy;
use orrery_gravity::solver::tree::device::{Order, TreeDeviceStrategy};
use orrery_measure::FLOPS_PER_PAIR;
use orrery_measure::bench::direct;
use orrery_measure::bench::tree::{self as measure, flops_per_cell};
use orrery_measure::bench::{ForceMeasurement, TreeFigures};
use orrery_measure::format::{format_number, format_percent, format_rate, format_seconds, format_thousands};
use orrery_measure::sample::Shape;
use orrery_measure::tuning::Tuning;
use orrery_model::Precision;
use serde_json::{Value, json};

use super::{selected_precisions, selected_sizes};
use crate::args::BenchArgs;
use crate::commands::tune::load_tuning;
use crate::failure::Failure;
use crate::print::print_line;

/// Default opening angle of `bench tree`.
const DEFAULT_THETA: f64 = 0.5;
/// Default opening angle of `bench crossover`. It is also the default of a case.
const CROSSOVER_THETA: f64 = 0.6;

/// Measures and prints. Returns the device with its measured peaks, and the results.
pub fn bench_tree(arguments: &BenchArgs, device: &Device) -> Result<(Value, Value), Failure> {
    let bench = measure::TreeBench::new(device)?;
    let tuning = load_tuning(device, arguments.no_tuned);
    let theta = arguments.theta.unwrap_or(DEFAULT_THETA);
    let order = selected_order(arguments);
    print_line!("{}", device.title());
    print_line!("theta {theta}, geometric; time from unsorted positions, tree build included");
    print_line!(
        "{FLOPS_PER_PAIR} flops per body, {} per cell; shares of theoretical and measured peak",
        flops_per_cell(order)
    );
    let shapes = arguments.bodies.map_or_else(|| vec![Shape::Cube, Shape::Plummer], |flag| vec![flag.into()]);
    let mut results = Vec::new();
    for n in selected_sizes(arguments, &measure::default_sizes(device)) {
        for &shape in &shapes {
            let workload = bench.prepare_workload(shape, n, theta)?;
            for precision in selected_precisions(arguments, &measure::DEFAULT_PRECISIONS) {
                let tuned = tuned_strategy(arguments, tuning.as_ref(), n, precision);
                let strategy = tuned.unwrap_or_else(|| default_strategy(arguments, device, precision));
                let measured =
                    bench.measure_strategy(&workload, &strategy, arguments.repeats.map(|k| k as usize))?;
                print_measurement(&measured, shape, &strategy, tuned.is_some());
                let mut line = measured.to_json();
                line["tuned"] = json!(tuned.is_some());
                results.push(line);
            }
        }
    }
    Ok((bench.device_json(), json!(results)))
}

fn selected_order(arguments: &BenchArgs) -> Order {
    arguments.order.map_or(Order::Quadrupole, Into::into)
}

/// Returns the strategy that the tuner found, unless a flag selects another one.
fn tuned_strategy(
    arguments: &BenchArgs,
    tuning: Option<&Tuning>,
    n: usize,
    precision: Precision,
) -> Option<TreeDeviceStrategy> {
    let strategy = tuning?.nearest_tree_entry(n, precision)?.strategy;
    let is_selected =
        strategy.order == selected_order(arguments) && arguments.leaf.is_none() && arguments.group.is_none();
    is_selected.then_some(strategy)
}

/// Returns the default strategy with the changes of the flags.
fn default_strategy(arguments: &BenchArgs, device: &Device, precision: Precision) -> TreeDeviceStrategy {
    let default = TreeDeviceStrategy::default_for(device, precision);
    TreeDeviceStrategy {
        order: selected_order(arguments),
        leaf_size: arguments.leaf.unwrap_or(default.leaf_size),
        group_size: arguments.group.unwrap_or(default.group_size),
        ..default
    }
}

/// Measures direct and tree from few to many bodies, to find where `solver = "auto"` should switch
/// on a device.
pub fn bench_crossover(arguments: &BenchArgs, device: &Device) -> Result<(Value, Value), Failure> {
    let (trees, mut pairs) = (measure::TreeBench::new(device)?, direct::DirectBench::new(device)?);
    let default: Vec<usize> = match device.properties().kind {
        DeviceKind::Gpu => (14..=19).map(|power| 1 << power).collect(),
        DeviceKind::Cpu | DeviceKind::Other => (10..=14).map(|power| 1 << power).collect(),
    };
    let repeats = arguments.repeats.map(|k| k as usize);
    let mut results = Vec::new();
    print_line!("{}", device.title());
    print_line!("{:>9} {:>9} {:>9} {:>9}  faster", "bodies", "precision", "direct", "tree");
    for n in selected_sizes(arguments, &default) {
        let workload =
            trees.prepare_workload(Shape::Plummer, n, arguments.theta.unwrap_or(CROSSOVER_THETA))?;
        for precision in selected_precisions(arguments, &[Precision::Mixed]) {
            let all_pairs = DirectDeviceStrategy::default_for(device, n, precision);
            let all_pairs = pairs.measure_strategy(n, &all_pairs, repeats)?;
            let tree = trees.measure_strategy(
                &workload,
                &TreeDeviceStrategy::default_for(device, precision),
                repeats,
            )?;
            let (direct_secs, tree_secs) = (all_pairs.times.median(), tree.times.median());
            let faster = if direct_secs < tree_secs { "direct" } else { "tree" };
            let (shown, name) = ([direct_secs, tree_secs].map(format_seconds), precision.as_str());
            print_line!("{n:>9} {name:>9} {:>9} {:>9}  {faster}", shown[0], shown[1]);
            results.extend([all_pairs.to_json(), tree.to_json()]);
        }
    }
    Ok((trees.device_json(), json!(results)))
}

fn print_measurement(
    measured: &ForceMeasurement,
    shape: Shape,
    strategy: &TreeDeviceStrategy,
    is_tuned: bool,
) {
    let (n, times) = (measured.n as f64, &measured.times);
    let tree = measured.tree.unwrap_or_default();
    let TreeFigures { body_terms, cell_terms, .. } = tree;
    let terms = |all: u64| format_number(all as f64 / n);
    let all = |value: Option<u64>| format_thousands(value.unwrap_or_default() as usize);
    print_line!("");
    print_line!(
        "{} {}, {}, {}: {}{}",
        format_thousands(measured.n),
        if measured.n == 1 { "body" } else { "bodies" },
        shape.name(),
        measured.precision.as_str(),
        if is_tuned { "tuned: " } else { "" },
        strategy.describe()
    );
    print_line!(
        "  time    {} ({} to {} in {}): {:.2e} bodies/s",
        format_seconds(times.median()),
        format_seconds(times.fastest()),
        format_seconds(times.slowest()),
        times.count(),
        measured.rate
    );
    print_line!(
        "  stages  build {}, moments {}, walk {}",
        format_seconds(tree.build_secs),
        format_seconds(tree.moments_secs.unwrap_or_default()),
        format_seconds(tree.walk_secs)
    );
    print_line!(
        "  terms   {} body and {} cell terms per body, at most {}",
        terms(body_terms),
        terms(cell_terms),
        all(tree.most_terms)
    );
    print_line!(
        "  speed   {}: {} of theoretical peak, {} of measured peak",
        format_rate(measured.flops, "FLOP/s"),
        format_percent(measured.theoretical_peak.map(|peak| measured.flops / peak)),
        format_percent(Some(measured.flops / measured.measured_peak))
    );
    print_line!(
        "  tree    {} cells, {} groups; {} bytes per body for the tree",
        all(tree.cells),
        all(tree.groups),
        format_number(tree.bytes as f64 / n)
    );
    let ForceErrors { median, p99, rms, .. } = measured.errors;
    print_line!("  error   rms {rms:.2e}, median {median:.2e}, 99% {p99:.2e}");
}
