//! The tree on a device: what is printed of it.

use orrery_device::{Device, DeviceKind};
use orrery_lab::bench::device as direct;
use orrery_lab::bench::tree::{self as lab, flops_per_cell};
use orrery_lab::bench::{Measurement, TreeFigures};
use orrery_lab::sample::Shape;
use orrery_lab::{FLOPS_A_PAIR, precision_name, show};
use orrery_particles::accuracy::ForceErrors;
use orrery_particles::settings::Precision;
use orrery_particles::solver::direct::device::DirectDeviceStrategy;
use orrery_particles::solver::tree::device::{Order, TreeDeviceStrategy};
use serde_json::{Value, json};

use super::{precisions, sizes};
use crate::args::BenchArgs;
use crate::failure::Failure;
use crate::say::say;

/// The opening angles, unless told otherwise; the second is what a case has by default.
const THETA: f64 = 0.5;
const CROSSOVER_THETA: f64 = 0.6;

/// Measures and prints. Gives the device with its roofs, and the results.
pub fn bench(arguments: &BenchArgs, device: &Device) -> Result<(Value, Value), Failure> {
    let bench = lab::TreeBench::new(device)?;
    let theta = arguments.theta.unwrap_or(THETA);
    let order = arguments.order.map_or(Order::Quadrupole, Into::into);
    say!("{}", device.title());
    say!("theta {theta}, geometric; from unsorted positions on, tree build included");
    say!(
        "{FLOPS_A_PAIR} flops a body, {} a cell; shares of the theoretical and measured peak",
        flops_per_cell(order)
    );
    let shapes = arguments.bodies.map_or_else(|| vec![Shape::Cube, Shape::Plummer], |flag| vec![flag.into()]);
    let mut results = Vec::new();
    for n in sizes(arguments, &lab::sizes(device)) {
        for &shape in &shapes {
            let workload = bench.workload(shape, n, theta)?;
            for precision in precisions(arguments, &lab::PRECISIONS) {
                let default = TreeDeviceStrategy::default_for(device, precision);
                let strategy = TreeDeviceStrategy {
                    order,
                    leaf_size: arguments.leaf.unwrap_or(default.leaf_size),
                    group_size: arguments.group.unwrap_or(default.group_size),
                    ..default
                };
                let measured = bench.tree(&workload, &strategy, arguments.repeats.map(|k| k as usize))?;
                print(&measured, shape, &strategy);
                results.push(measured.json());
            }
        }
    }
    Ok((bench.about(), json!(results)))
}

/// All pairs and the tree side by side, from few to many bodies: where `solver = "auto"` should change over on a device.
pub fn crossover(arguments: &BenchArgs, device: &Device) -> Result<(Value, Value), Failure> {
    let (trees, mut pairs) = (lab::TreeBench::new(device)?, direct::DirectBench::new(device)?);
    let default: Vec<usize> = match device.properties().kind {
        DeviceKind::Gpu => (14..=19).map(|power| 1 << power).collect(),
        DeviceKind::Cpu | DeviceKind::Other => (10..=14).map(|power| 1 << power).collect(),
    };
    let repeats = arguments.repeats.map(|k| k as usize);
    let mut results = Vec::new();
    say!("{}", device.title());
    say!("{:>9} {:>9} {:>9} {:>9}  faster", "bodies", "precision", "direct", "tree");
    for n in sizes(arguments, &default) {
        let workload = trees.workload(Shape::Plummer, n, arguments.theta.unwrap_or(CROSSOVER_THETA))?;
        for precision in precisions(arguments, &[Precision::Mixed]) {
            let all_pairs = DirectDeviceStrategy::default_for(device, n, precision);
            let all_pairs = pairs.all_pairs(n, &all_pairs, repeats)?;
            let tree = trees.tree(&workload, &TreeDeviceStrategy::default_for(device, precision), repeats)?;
            let (a, b) = (all_pairs.times.median(), tree.times.median());
            let faster = if a < b { "direct" } else { "tree" };
            let (shown, name) = ([a, b].map(show::seconds), precision_name(precision));
            say!("{n:>9} {name:>9} {:>9} {:>9}  {faster}", shown[0], shown[1]);
            results.extend([all_pairs.json(), tree.json()]);
        }
    }
    Ok((trees.about(), json!(results)))
}

fn print(measured: &Measurement, shape: Shape, strategy: &TreeDeviceStrategy) {
    let (n, times) = (measured.n as f64, &measured.times);
    let tree = measured.tree.unwrap_or_default();
    let TreeFigures { body_terms, cell_terms, .. } = tree;
    let terms = |all: u64| show::digits(all as f64 / n);
    let all = |value: Option<u64>| show::count(value.unwrap_or_default() as usize);
    say!("");
    say!(
        "{} bodies, {}, {}: {}",
        show::count(measured.n),
        shape.name(),
        precision_name(measured.precision),
        strategy.describe()
    );
    say!(
        "  time    {} ({} to {} in {}): {:.2e} bodies/s",
        show::seconds(times.median()),
        show::seconds(times.fastest()),
        show::seconds(times.slowest()),
        times.count(),
        measured.rate
    );
    say!(
        "  stages  build {}, moments {}, walk {}",
        show::seconds(tree.build_secs),
        show::seconds(tree.moments_secs.unwrap_or_default()),
        show::seconds(tree.walk_secs)
    );
    say!(
        "  summed  {} bodies and {} cells a body; {} terms at most",
        terms(body_terms),
        terms(cell_terms),
        all(tree.most_terms)
    );
    say!(
        "  speed   {}: {} of peak, {} of the measured one",
        show::rate_of(measured.flops, "FLOP/s"),
        show::share(measured.theoretical_peak.map(|peak| measured.flops / peak)),
        show::share(Some(measured.flops / measured.measured_peak))
    );
    say!(
        "  tree    {} cells, {} groups; {} bytes a body beyond the bodies",
        all(tree.cells),
        all(tree.groups),
        show::digits(tree.bytes as f64 / n)
    );
    let ForceErrors { median, p99, rms, .. } = measured.errors;
    say!("  error   rms {rms:.2e}, median {median:.2e}, 99% {p99:.2e}");
}
