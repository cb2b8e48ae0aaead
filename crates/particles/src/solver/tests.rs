//! Tests of every CPU strategy against the reference implementation.

use orrery_model::Vec3s;
use orrery_model::rng::Draws;

use super::*;

/// A Plummer-like sphere with unequal masses.
pub(crate) fn cluster(n: usize, seed: u64) -> (Vec3s, Vec<f64>) {
    let (mut position, mut mass) = (Vec3s::default(), Vec::new());
    for i in 0..n as u64 {
        let mut draws = Draws::new(seed, 0, i);
        let r = 1.0 / (draws.uniform().powf(-2.0 / 3.0) - 1.0).sqrt();
        position.push(draws.direction().map(|c| r.min(20.0) * c));
        mass.push(draws.uniform_in(0.5, 1.5) / n as f64);
    }
    (position, mass)
}

const PRECISIONS: [Precision; 3] = [Precision::Single, Precision::Mixed, Precision::Double];

/// Relative errors against the reference.
#[derive(Debug)]
struct RelativeErrors {
    /// Median of |a − a'| / |a|.
    median: f64,
    /// 99th percentile of the same.
    p99: f64,
    /// Root mean square of the same.
    rms: f64,
    /// Largest error of φ.
    potential: f64,
}

fn relative_errors(forces: &Forces, problem: &Problem) -> RelativeErrors {
    let all: Vec<usize> = (0..problem.mass.len()).collect();
    let (acceleration, potential) = reference::forces_on(problem, &all);
    let norm = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
    let mut errors: Vec<f64> = all
        .iter()
        .map(|&i| {
            let (found, expected) = (forces.acceleration.get(i), acceleration.get(i));
            norm([0, 1, 2].map(|c| found[c] - expected[c])) / norm(expected).max(f64::MIN_POSITIVE)
        })
        .collect();
    let rms = (errors.iter().map(|e| e * e).sum::<f64>() / all.len() as f64).sqrt();
    errors.sort_by(f64::total_cmp);
    let of_potential = forces.potential.as_ref().map_or(0.0, |found| {
        all.iter()
            .map(|&i| ((found[i] - potential[i]) / potential[i].min(-f64::MIN_POSITIVE)).abs())
            .fold(0.0, f64::max)
    });
    RelativeErrors {
        median: errors[all.len() / 2],
        p99: errors[all.len() * 99 / 100],
        rms,
        potential: of_potential,
    }
}

/// The direct sum and the tree with default parameters.
fn both_strategies(precision: Precision) -> [CpuStrategy; 2] {
    let set = InstructionSet::best();
    [
        CpuStrategy::Direct(direct::DirectCpuStrategy::new(precision, set)),
        CpuStrategy::Tree(tree::TreeCpuStrategy::new(precision, set)),
    ]
}

/// Bounds of the median and the 99th percentile of the relative error:
///
/// - single: f32 coordinates about the centre of a system 40 across have errors of 40 × 2⁻²⁵ =
///   1e-6, on distances of 0.1
/// - mixed: frames of blocks of bodies remove that error
/// - double: f64 sums of n terms have errors of √n 2⁻⁵³
#[test]
fn direct_sum_agrees_with_the_reference() {
    for (precision, median, p99) in
        [(Precision::Single, 1e-5, 3e-4), (Precision::Mixed, 3e-7, 1e-5), (Precision::Double, 3e-15, 3e-14)]
    {
        for set in InstructionSet::available() {
            for n in [1, 2, 3, 31, 257, 1000, 2049] {
                let (position, mass) = cluster(n, n as u64);
                for (eps, with_potential) in [(0.0, true), (0.01, true), (0.01, false)] {
                    let problem = Problem { position: &position, mass: &mass, g: 2.0, eps, with_potential };
                    let forces = direct::forces(&problem, &direct::DirectCpuStrategy::new(precision, set));
                    let errors = relative_errors(&forces, &problem);
                    assert!(
                        errors.median < median && errors.p99 < p99 && errors.potential < p99,
                        "{precision:?} {set:?} n = {n} eps = {eps}: {errors:?}"
                    );
                }
            }
        }
    }
}

/// The error falls at least with the fourth power of theta (octupole terms with random signs).
/// validation/ compares larger systems with published errors.
#[test]
fn tree_agrees_with_the_reference() {
    let (position, mass) = cluster(5000, 3);
    for (theta, rms) in [(0.7, 1e-3), (0.6, 5e-4), (0.55, 4e-4), (0.4, 1e-4)] {
        for set in InstructionSet::available() {
            for precision in PRECISIONS {
                let strategy = tree::TreeCpuStrategy {
                    acceptance: Acceptance::Geometric { theta },
                    ..tree::TreeCpuStrategy::new(precision, set)
                };
                let problem =
                    Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: true };
                let errors = relative_errors(&tree::forces(&problem, &strategy, None).0, &problem);
                assert!(
                    errors.rms < rms && errors.potential < 10.0 * rms,
                    "theta = {theta} {precision:?} {set:?}: {errors:?}"
                );
            }
        }
    }
}

/// With an opening angle near zero no cell is accepted.
#[test]
fn tree_with_all_cells_open_is_the_direct_sum() {
    let (position, mass) = cluster(1500, 9);
    let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.0, with_potential: true };
    let strategy = tree::TreeCpuStrategy {
        acceptance: Acceptance::Geometric { theta: 1e-9 },
        ..tree::TreeCpuStrategy::new(Precision::Double, InstructionSet::best())
    };
    let (forces, report) = tree::forces(&problem, &strategy, None);
    assert_eq!(report.cell_terms, 0);
    assert_eq!(report.body_terms, 1500 * 1499);
    let errors = relative_errors(&forces, &problem);
    assert!(errors.p99 < 3e-14 && errors.potential < 3e-14, "{errors:?}");
}

#[test]
fn relative_criterion_bounds_the_error_by_the_acceleration() {
    let (position, mass) = cluster(5000, 4);
    let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: false };
    let mut last_rms = f64::INFINITY;
    for alpha in [0.02, 0.005, 0.00125] {
        let acceptance = Acceptance::Relative { alpha, theta: 0.6 };
        let strategy = tree::TreeCpuStrategy {
            acceptance,
            ..tree::TreeCpuStrategy::new(Precision::Double, InstructionSet::best())
        };
        let first = tree::forces(&problem, &strategy, None).0;
        let forces = tree::forces(&problem, &strategy, Some(&first.acceleration)).0;
        let errors = relative_errors(&forces, &problem);
        assert!(errors.p99 < alpha && errors.rms < 0.6 * last_rms, "alpha = {alpha}: {errors:?}");
        last_rms = errors.rms;
    }
}

/// Results must not depend on units. In metres and kilograms the same system overflows f32 unless
/// it is scaled.
#[test]
fn f32_forces_are_correct_in_si_units() {
    let (position, mass) = cluster(1000, 6);
    let (metres, kilograms) = (3.1e19, 2.0e41);
    let scaled = Vec3s {
        x: position.x.iter().map(|x| x * metres).collect(),
        y: position.y.iter().map(|x| x * metres).collect(),
        z: position.z.iter().map(|x| x * metres).collect(),
    };
    let heavy: Vec<f64> = mass.iter().map(|m| m * kilograms).collect();
    let problem =
        Problem { position: &scaled, mass: &heavy, g: 6.67e-11, eps: 0.01 * metres, with_potential: true };
    for strategy in PRECISIONS.into_iter().flat_map(both_strategies) {
        let errors = relative_errors(&strategy.forces(&problem, None), &problem);
        assert!(errors.rms < 5e-4, "{strategy:?}: {errors:?}");
    }
}

/// Far from the origin, differences of coordinates must keep their digits.
#[test]
fn mixed_precision_does_not_depend_on_the_origin() {
    let (mut position, mass) = cluster(1000, 7);
    position.translate([1e6, -2e6, 3e6]);
    let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: true };
    for precision in [Precision::Mixed, Precision::Double] {
        let strategy = direct::DirectCpuStrategy::new(precision, InstructionSet::best());
        let errors = relative_errors(&direct::forces(&problem, &strategy), &problem);
        assert!(errors.median < 3e-7, "{precision:?}: {errors:?}");
    }
}

/// All bodies at one point: there is no force, and every pair is at distance `eps`.
fn check_forces_at_one_point(forces: &Forces, masses: &[f64], eps: f64, strategy: &CpuStrategy) {
    let potential = forces.potential.as_ref().unwrap();
    let total: f64 = masses.iter().sum();
    for i in 0..masses.len() {
        let expected = -(total - masses[i]) / eps;
        assert!(
            (potential[i] - expected).abs() <= 1e-5 * expected.abs() + 1e-300,
            "{strategy:?}: potential {}, expected {expected}",
            potential[i]
        );
        assert!(forces.acceleration.get(i).iter().all(|a| a.abs() < 1e-3 * total + 1e-300));
    }
}

#[test]
fn degenerate_bodies_give_finite_forces() {
    let eps = 0.05;
    for n in [1, 2, 33, 700] {
        let (random, mass) = cluster(n, 8);
        let zero = vec![0.0; n];
        let plane = Vec3s { z: zero.clone(), ..random.clone() };
        let line = Vec3s { y: zero.clone(), ..plane.clone() };
        let point = Vec3s::zeros(n);
        let mut outlier = random.clone();
        outlier.x[0] = 1e9;
        for position in [plane, line, point, outlier] {
            for masses in [&mass, &zero] {
                let problem =
                    Problem { position: &position, mass: masses, g: 1.0, eps, with_potential: true };
                for strategy in PRECISIONS.into_iter().flat_map(both_strategies) {
                    let forces = strategy.forces(&problem, None);
                    let potential = forces.potential.iter().flatten().copied();
                    assert!(forces.acceleration.iter().flatten().chain(potential).all(f64::is_finite));
                    if position.x.iter().chain(&position.y).all(|&x| x == 0.0) {
                        check_forces_at_one_point(&forces, masses, eps, &strategy);
                    }
                }
            }
        }
    }
}

/// The number of threads affects only which thread computes a target.
#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let (position, mass) = cluster(3000, 1);
    let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: true };
    for strategy in PRECISIONS.into_iter().flat_map(both_strategies) {
        let forces_on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| strategy.forces(&problem, None))
        };
        let one = forces_on(1);
        assert!(one == forces_on(2) && one == forces_on(7), "{strategy:?}");
    }
}
