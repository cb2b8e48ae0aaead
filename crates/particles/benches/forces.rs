//! `cargo bench -p orrery-particles`: the solvers at sizes that a change of a kernel shows in. Figures for the
//! record come from `orrery bench`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use orrery_model::ic::Plummer;
use orrery_particles::settings::Precision;
use orrery_particles::simd::InstructionSet;
use orrery_particles::solver::{Problem, direct, tree};
use orrery_particles::tree::Octree;

const PRECISIONS: [Precision; 3] = [Precision::Single, Precision::Mixed, Precision::Double];

fn plummer(n: usize) -> orrery_model::Particles {
    Plummer { n, seed: 1, ..Plummer::default() }.generate(1.0).expect("valid parameters")
}

fn forces(criterion: &mut Criterion) {
    let set = InstructionSet::best();
    let bodies = plummer(8192);
    let problem =
        Problem { position: &bodies.position, mass: &bodies.mass, g: 1.0, eps: 0.01, with_potential: false };
    let mut group = criterion.benchmark_group("direct, pairs");
    group.sample_size(20).throughput(Throughput::Elements(8192 * 8192));
    for precision in PRECISIONS {
        let strategy = direct::Strategy::new(precision, set);
        group.bench_function(BenchmarkId::from_parameter(format!("{precision:?}")), |b| {
            b.iter(|| direct::forces(&problem, &strategy));
        });
    }
    group.finish();

    let bodies = plummer(100_000);
    let problem =
        Problem { position: &bodies.position, mass: &bodies.mass, g: 1.0, eps: 0.001, with_potential: false };
    let mut group = criterion.benchmark_group("tree, bodies");
    group.sample_size(20).throughput(Throughput::Elements(100_000));
    for precision in PRECISIONS {
        let strategy = tree::Strategy::new(precision, set);
        group.bench_function(BenchmarkId::from_parameter(format!("{precision:?}")), |b| {
            b.iter(|| tree::forces(&problem, &strategy, None));
        });
    }
    group.bench_function("build", |b| b.iter(|| Octree::build(&bodies.position, &bodies.mass, 16)));
    group.finish();
}

criterion_group!(benches, forces);
criterion_main!(benches);
