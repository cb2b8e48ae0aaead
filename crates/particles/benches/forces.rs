//! `cargo bench -p orrery-particles`: solvers at sizes where a change of a kernel is visible.
//!
//! Figures for the record come from `orrery bench`. Each step is measured next to its check for
//! non-finite values, because the check must take less than 1% of the step.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use orrery_model::ic::{Plummer, SolarSystem};
use orrery_particles::bodies::Bodies;
use orrery_particles::integrator::leapfrog_step;
use orrery_particles::settings::{Acceptance, GravitySettings, Precision, SolverChoice};
use orrery_particles::simd::InstructionSet;
use orrery_particles::solver::{Problem, direct, tree};
use orrery_particles::tree::Octree;

const PRECISIONS: [Precision; 3] = [Precision::Single, Precision::Mixed, Precision::Double];

fn plummer(n: usize) -> orrery_model::Particles {
    Plummer { n, seed: 1, ..Plummer::default() }.generate(1.0).expect("valid parameters")
}

fn bench_forces(criterion: &mut Criterion) {
    let set = InstructionSet::best();
    let bodies = plummer(8192);
    let problem =
        Problem { position: &bodies.position, mass: &bodies.mass, g: 1.0, eps: 0.01, with_potential: false };
    let mut group = criterion.benchmark_group("direct, pairs");
    group.sample_size(20).throughput(Throughput::Elements(8192 * 8192));
    for precision in PRECISIONS {
        let strategy = direct::DirectCpuStrategy::new(precision, set);
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
        let strategy = tree::TreeCpuStrategy::new(precision, set);
        group.bench_function(BenchmarkId::from_parameter(format!("{precision:?}")), |b| {
            b.iter(|| tree::forces(&problem, &strategy, None));
        });
    }
    group.bench_function("build", |b| b.iter(|| Octree::build(&bodies.position, &bodies.mass, 16)));
    group.finish();
}

/// Measures `count` calls of `task` on a thread of the pool, as in a simulation. Calls from another
/// thread would each wake the pool.
fn time_on_pool(count: u64, mut task: impl FnMut() + Send) -> Duration {
    rayon::scope(|_| {
        let start = Instant::now();
        (0..count).for_each(|_| task());
        start.elapsed()
    })
}

fn bench_steps_and_checks(criterion: &mut Criterion) {
    let settings = GravitySettings {
        g: 1.0,
        eps: 0.01,
        solver: SolverChoice::Auto,
        acceptance: Acceptance::default(),
        precision: Precision::default(),
    };
    let planets = SolarSystem::default().generate(1.0).expect("valid parameters");
    for start in [planets, plummer(1000), plummer(30_000), plummer(1_000_000)] {
        let n = start.len();
        let mut bodies = Bodies::new(start, &settings, None).expect("the host does not fail");
        let mut group = criterion.benchmark_group(format!("{n} bodies, {}", bodies.solver_name()));
        group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_secs(1));
        group.bench_function("step", |b| {
            b.iter_custom(|count| {
                time_on_pool(count, || leapfrog_step(&mut bodies, 1e-6).expect("the host does not fail"))
            });
        });
        group.bench_function("check_finite", |b| {
            b.iter_custom(|count| {
                time_on_pool(count, || black_box(&bodies).check_finite().expect("finite numbers"))
            });
        });
        group.finish();
    }
}

criterion_group!(benches, bench_forces, bench_steps_and_checks);
criterion_main!(benches);
