//! Every strategy against the reference.

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

/// Relative errors against the reference: (median, 99th percentile, rms) of |a − a'| / |a|, and the largest of φ.
fn errors(forces: &Forces, problem: &Problem) -> (f64, f64, f64, f64) {
    let all: Vec<usize> = (0..problem.mass.len()).collect();
    let (acceleration, potential) = reference::forces_on(problem, &all);
    let norm = |v: [f64; 3]| v.iter().map(|c| c * c).sum::<f64>().sqrt();
    let mut relative: Vec<f64> = all
        .iter()
        .map(|&i| {
            let (found, right) = (forces.acceleration.get(i), acceleration.get(i));
            norm([0, 1, 2].map(|c| found[c] - right[c])) / norm(right).max(f64::MIN_POSITIVE)
        })
        .collect();
    let rms = (relative.iter().map(|e| e * e).sum::<f64>() / all.len() as f64).sqrt();
    relative.sort_by(f64::total_cmp);
    let of_potential = forces.potential.as_ref().map_or(0.0, |found| {
        all.iter()
            .map(|&i| ((found[i] - potential[i]) / potential[i].min(-f64::MIN_POSITIVE)).abs())
            .fold(0.0, f64::max)
    });
    (relative[all.len() / 2], relative[all.len() * 99 / 100], rms, of_potential)
}

#[test]
fn direct_agrees_with_the_twin() {
    // Median and 99th percentile of the relative error. f32 coordinates about the middle of a system 40 across:
    // 40 × 2⁻²⁵ = 1e-6 on distances of 0.1; frames of blocks remove that; f64 sums of n terms: n^½ 2⁻⁵³.
    for (precision, median, p99) in
        [(Precision::Single, 1e-5, 3e-4), (Precision::Mixed, 3e-7, 1e-5), (Precision::Double, 3e-15, 3e-14)]
    {
        for set in InstructionSet::available() {
            for n in [1, 2, 3, 31, 257, 1000, 2049] {
                let (position, mass) = cluster(n, n as u64);
                for (eps, with_potential) in [(0.0, true), (0.01, true), (0.01, false)] {
                    let problem = Problem { position: &position, mass: &mass, g: 2.0, eps, with_potential };
                    let forces = direct::forces(&problem, &direct::DirectCpuStrategy::new(precision, set));
                    let found = errors(&forces, &problem);
                    assert!(
                        found.0 < median && found.1 < p99,
                        "{precision:?} {set:?} n = {n} eps = {eps}: {found:?}"
                    );
                    assert!(found.3 < p99, "{precision:?} {set:?} n = {n} eps = {eps}: {found:?}");
                }
            }
        }
    }
}

#[test]
fn tree_agrees_with_the_twin() {
    let (position, mass) = cluster(5000, 3);
    // The error falls with the fourth power of theta and more (octupole terms, their signs at random);
    // validation/ holds larger systems to published errors.
    for (theta, rms) in [(0.7, 1e-3), (0.6, 5e-4), (0.55, 4e-4), (0.4, 1e-4)] {
        for set in InstructionSet::available() {
            for precision in [Precision::Single, Precision::Mixed, Precision::Double] {
                let strategy = tree::TreeCpuStrategy {
                    acceptance: Acceptance::Geometric { theta },
                    ..tree::TreeCpuStrategy::new(precision, set)
                };
                let problem =
                    Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: true };
                let found = errors(&tree::forces(&problem, &strategy, None).0, &problem);
                assert!(
                    found.2 < rms && found.3 < 10.0 * rms,
                    "theta = {theta} {precision:?} {set:?}: {found:?}"
                );
            }
        }
    }
}

/// With an opening angle near zero the tree is the direct sum.
#[test]
fn a_closed_tree_is_the_direct_sum() {
    let (position, mass) = cluster(1500, 9);
    let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.0, with_potential: true };
    let strategy = tree::TreeCpuStrategy {
        acceptance: Acceptance::Geometric { theta: 1e-9 },
        ..tree::TreeCpuStrategy::new(Precision::Double, InstructionSet::best())
    };
    let (forces, report) = tree::forces(&problem, &strategy, None);
    assert_eq!(report.cell_terms, 0);
    assert_eq!(report.body_terms, 1500 * 1499);
    let found = errors(&forces, &problem);
    assert!(found.1 < 3e-14 && found.3 < 3e-14, "{found:?}");
}

#[test]
fn the_relative_criterion_bounds_the_error_by_the_acceleration() {
    let (position, mass) = cluster(5000, 4);
    let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: false };
    let mut last = f64::INFINITY;
    for alpha in [0.02, 0.005, 0.00125] {
        let acceptance = Acceptance::Relative { alpha, theta: 0.6 };
        let strategy = tree::TreeCpuStrategy {
            acceptance,
            ..tree::TreeCpuStrategy::new(Precision::Double, InstructionSet::best())
        };
        let first = tree::forces(&problem, &strategy, None).0;
        let (median, p99, rms, _) =
            errors(&tree::forces(&problem, &strategy, Some(&first.acceleration)).0, &problem);
        assert!(p99 < alpha && rms < 0.6 * last, "alpha = {alpha}: median {median}, 99% {p99}, rms {rms}");
        last = rms;
    }
}

/// Units must not matter: the same system in metres and kilograms overflows f32 unless it is scaled.
#[test]
fn f32_survives_si_units() {
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
    for precision in [Precision::Single, Precision::Mixed, Precision::Double] {
        for strategy in [
            CpuStrategy::Direct(direct::DirectCpuStrategy::new(precision, InstructionSet::best())),
            CpuStrategy::Tree(tree::TreeCpuStrategy::new(precision, InstructionSet::best())),
        ] {
            let found = errors(&strategy.forces(&problem, None), &problem);
            assert!(found.2 < 5e-4, "{strategy:?}: {found:?}");
        }
    }
}

/// Far from the origin the differences still hold their digits.
#[test]
fn a_distant_origin_costs_mixed_nothing() {
    let (mut position, mass) = cluster(1000, 7);
    position.translate([1e6, -2e6, 3e6]);
    let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: true };
    for precision in [Precision::Mixed, Precision::Double] {
        let found = errors(
            &CpuStrategy::Direct(direct::DirectCpuStrategy::new(precision, InstructionSet::best()))
                .forces(&problem, None),
            &problem,
        );
        assert!(found.0 < 3e-7, "{precision:?}: {found:?}");
    }
}

#[test]
fn degenerate_bodies_give_finite_forces() {
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
                for precision in [Precision::Single, Precision::Mixed, Precision::Double] {
                    let problem = Problem {
                        position: &position,
                        mass: masses,
                        g: 1.0,
                        eps: 0.05,
                        with_potential: true,
                    };
                    for strategy in [
                        CpuStrategy::Direct(direct::DirectCpuStrategy::new(
                            precision,
                            InstructionSet::best(),
                        )),
                        CpuStrategy::Tree(tree::TreeCpuStrategy::new(precision, InstructionSet::best())),
                    ] {
                        let forces = strategy.forces(&problem, None);
                        let potential = forces.potential.as_ref().unwrap();
                        assert!(
                            forces
                                .acceleration
                                .iter()
                                .flatten()
                                .chain(potential.iter().copied())
                                .all(f64::is_finite)
                        );
                        // All at one point: no force, and every pair at distance eps.
                        if position.x.iter().chain(&position.y).all(|&x| x == 0.0) {
                            let total: f64 = masses.iter().sum();
                            for i in 0..n {
                                let expected = -(total - masses[i]) / 0.05;
                                assert!(
                                    (potential[i] - expected).abs() <= 1e-5 * expected.abs() + 1e-300,
                                    "{strategy:?} n = {n}: {} {expected}",
                                    potential[i]
                                );
                                assert!(
                                    forces
                                        .acceleration
                                        .get(i)
                                        .iter()
                                        .all(|a| a.abs() < 1e-3 * total + 1e-300)
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Threads decide who computes, never what: equal bits for 1, 2 and 7 of them.
#[test]
fn bits_do_not_depend_on_threads() {
    let (position, mass) = cluster(3000, 1);
    let problem = Problem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: true };
    for precision in [Precision::Single, Precision::Mixed, Precision::Double] {
        for strategy in [
            CpuStrategy::Direct(direct::DirectCpuStrategy::new(precision, InstructionSet::best())),
            CpuStrategy::Tree(tree::TreeCpuStrategy::new(precision, InstructionSet::best())),
        ] {
            let on = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| strategy.forces(&problem, None))
            };
            let one = on(1);
            assert!(one == on(2) && one == on(7), "{strategy:?}");
        }
    }
}
