//! Tests of every CPU strategy against the reference implementation.

use orrery_model::Vec3s;
use orrery_model::rng::Draws;

use super::*;
use crate::accuracy::{ErrorBounds, ForceErrors, largest_relative_error};
use crate::settings::MAX_THETA;
use crate::solver::tree::device::Order;
use crate::solver::tree::test_systems::truncation_error;

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

/// Errors against the reference.
#[derive(Debug)]
struct MeasuredErrors {
    /// Relative errors of the accelerations.
    relative: ForceErrors,
    /// Largest error of an acceleration, in units of its bound.
    in_bounds: f64,
    /// Largest relative error of the potentials.
    potential: f64,
}

/// Forces of the reference on all bodies. They are computed once per problem, because that takes
/// longer than the forces of most strategies.
struct ReferenceForces {
    acceleration: Vec3s,
    potential: Vec<f64>,
}

impl ReferenceForces {
    fn of(problem: &ForceProblem) -> Self {
        let all: Vec<usize> = (0..problem.mass.len()).collect();
        let (acceleration, potential) = reference::forces_on(problem, &all);
        Self { acceleration, potential }
    }

    /// Compares forces with these. Bodies without a force must have zero acceleration.
    fn measure_errors(&self, forces: &Forces, bounds: &ErrorBounds) -> MeasuredErrors {
        for (found, expected) in forces.acceleration.iter().zip(self.acceleration.iter()) {
            assert!(expected != [0.0; 3] || found == [0.0; 3], "{found:?}, expected 0");
        }
        let all: Vec<usize> = (0..self.potential.len()).collect();
        let potential = forces.potential.as_ref();
        MeasuredErrors {
            relative: ForceErrors::measure(&forces.acceleration, &all, &self.acceleration),
            in_bounds: bounds.largest_error(&forces.acceleration, &self.acceleration),
            potential: potential.map_or(0.0, |found| largest_relative_error(found, &self.potential)),
        }
    }
}

/// The direct sum and the tree with default parameters.
fn both_strategies(precision: Precision) -> [GravityCpuStrategy; 2] {
    let set = InstructionSet::best();
    [
        GravityCpuStrategy::Direct(direct::DirectCpuStrategy::new(precision, set)),
        GravityCpuStrategy::Tree(tree::TreeCpuStrategy::new(precision, set)),
    ]
}

/// Bounds of the median and the 99th percentile of the relative error:
///
/// - single: f32 coordinates about the centre of a system 40 across have errors of 40 × 2⁻²⁵ =
///   1e-6, on distances of 0.1
/// - mixed: frames of blocks of bodies remove that error
/// - double: f64 sums of n terms have errors of √n 2⁻⁵³
///
/// Every single error is within the rounding bound of `ErrorBounds`.
#[test]
fn direct_sum_agrees_with_the_reference() {
    let limits =
        [(Precision::Single, 1e-5, 3e-4), (Precision::Mixed, 3e-7, 1e-5), (Precision::Double, 3e-15, 3e-14)];
    for n in [1, 2, 3, 31, 257, 1000, 2049] {
        let (position, mass) = cluster(n, n as u64);
        for (eps, with_potential) in [(0.0, true), (0.01, true), (0.01, false)] {
            let problem = ForceProblem { position: &position, mass: &mass, g: 2.0, eps, with_potential };
            let reference = ReferenceForces::of(&problem);
            for (precision, median, p99) in limits {
                let bounds = ErrorBounds::new(&problem, precision, 0.0);
                for set in InstructionSet::available() {
                    let forces = direct::forces(&problem, &direct::DirectCpuStrategy::new(precision, set));
                    let errors = reference.measure_errors(&forces, &bounds);
                    let ForceErrors { median: found_median, p99: found_p99, .. } = errors.relative;
                    assert!(
                        found_median < median
                            && found_p99 < p99
                            && errors.in_bounds <= 1.0
                            && errors.potential < p99,
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
    let problem = ForceProblem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: true };
    let reference = ReferenceForces::of(&problem);
    for (theta, rms) in [(0.7, 1e-3), (0.6, 5e-4), (0.55, 4e-4), (0.4, 1e-4)] {
        for precision in Precision::ALL {
            let bounds = ErrorBounds::new(&problem, precision, truncation_error(Order::Quadrupole, theta));
            for set in InstructionSet::available() {
                let strategy = tree::TreeCpuStrategy {
                    acceptance: Acceptance::Geometric { theta },
                    ..tree::TreeCpuStrategy::new(precision, set)
                };
                let forces = tree::forces(&problem, &strategy, None).0;
                let errors = reference.measure_errors(&forces, &bounds);
                assert!(
                    errors.relative.rms < rms && errors.in_bounds <= 1.0 && errors.potential < 10.0 * rms,
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
    let problem = ForceProblem { position: &position, mass: &mass, g: 1.0, eps: 0.0, with_potential: true };
    let strategy = tree::TreeCpuStrategy {
        acceptance: Acceptance::Geometric { theta: 1e-9 },
        ..tree::TreeCpuStrategy::new(Precision::Double, InstructionSet::best())
    };
    let (forces, report) = tree::forces(&problem, &strategy, None);
    assert_eq!(report.cell_terms, 0);
    assert_eq!(report.body_terms, 1500 * 1499);
    let bounds = ErrorBounds::new(&problem, Precision::Double, 0.0);
    let errors = ReferenceForces::of(&problem).measure_errors(&forces, &bounds);
    assert!(errors.relative.p99 < 3e-14 && errors.in_bounds <= 1.0 && errors.potential < 3e-14, "{errors:?}");
}

/// The error of each cell is at most alpha |a|, and the errors of many cells have random signs.
/// The largest error of a body was 0.56 alpha.
#[test]
fn relative_criterion_bounds_the_error_by_the_acceleration() {
    let (position, mass) = cluster(5000, 4);
    let problem = ForceProblem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: false };
    let reference = ReferenceForces::of(&problem);
    let truncation = truncation_error(Order::Quadrupole, MAX_THETA);
    let bounds = ErrorBounds::new(&problem, Precision::Double, truncation);
    let mut last_rms = f64::INFINITY;
    for alpha in [0.02, 0.005, 0.00125] {
        let acceptance = Acceptance::Relative { alpha, theta: 0.6 };
        let strategy = tree::TreeCpuStrategy {
            acceptance,
            ..tree::TreeCpuStrategy::new(Precision::Double, InstructionSet::best())
        };
        let first = tree::forces(&problem, &strategy, None).0;
        let forces = tree::forces(&problem, &strategy, Some(&first.acceleration)).0;
        let errors = reference.measure_errors(&forces, &bounds);
        let ForceErrors { max, rms, .. } = errors.relative;
        assert!(
            max < alpha && rms < 0.6 * last_rms && errors.in_bounds <= 1.0,
            "alpha = {alpha}: {errors:?}"
        );
        last_rms = rms;
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
    let problem = ForceProblem {
        position: &scaled,
        mass: &heavy,
        g: 6.67e-11,
        eps: 0.01 * metres,
        with_potential: true,
    };
    let reference = ReferenceForces::of(&problem);
    let bounds = ErrorBounds::new(&problem, Precision::Single, truncation_error(Order::Quadrupole, 0.6));
    for strategy in Precision::ALL.into_iter().flat_map(both_strategies) {
        let forces = strategy.forces(&problem, None);
        let errors = reference.measure_errors(&forces, &bounds);
        assert!(errors.relative.rms < 5e-4 && errors.in_bounds <= 1.0, "{strategy:?}: {errors:?}");
    }
}

/// Far from the origin, differences of coordinates must keep their digits.
#[test]
fn mixed_precision_does_not_depend_on_the_origin() {
    let (mut position, mass) = cluster(1000, 7);
    position.translate([1e6, -2e6, 3e6]);
    let problem = ForceProblem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential: true };
    for precision in [Precision::Mixed, Precision::Double] {
        let strategy = direct::DirectCpuStrategy::new(precision, InstructionSet::best());
        let bounds = ErrorBounds::new(&problem, precision, 0.0);
        let errors =
            ReferenceForces::of(&problem).measure_errors(&direct::forces(&problem, &strategy), &bounds);
        assert!(errors.relative.median < 3e-7 && errors.in_bounds <= 1.0, "{precision:?}: {errors:?}");
    }
}

/// All bodies at one point: there is no force, and every pair is at distance `eps`.
fn check_forces_at_one_point(forces: &Forces, masses: &[f64], eps: f64, strategy: &GravityCpuStrategy) {
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
                    ForceProblem { position: &position, mass: masses, g: 1.0, eps, with_potential: true };
                for strategy in Precision::ALL.into_iter().flat_map(both_strategies) {
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

/// The number of threads affects only which thread computes a target. The memory of an earlier
/// evaluation of other bodies has no effect either.
#[test]
fn bits_depend_neither_on_the_number_of_threads_nor_on_the_memory() {
    let relative = Acceptance::Relative { alpha: 0.01, theta: 0.6 };
    for n in [0, 1, 2, 1000, 5000] {
        let (clustered, mass) = cluster(n, 1);
        let mut with_equal = clustered.clone();
        (0..n).step_by(2).for_each(|i| with_equal.set(i, clustered.get(i % 7)));
        for (position, strategy) in [&clustered, &with_equal].into_iter().flat_map(|position| {
            let strategies = Precision::ALL.into_iter().flat_map(both_strategies);
            strategies.map(move |strategy| (position, strategy))
        }) {
            let strategy = match strategy {
                GravityCpuStrategy::Tree(tree) if n == 5000 => {
                    GravityCpuStrategy::Tree(tree::TreeCpuStrategy { acceptance: relative, ..tree })
                }
                other => other,
            };
            let problem = ForceProblem { position, mass: &mass, g: 1.0, eps: 0.01, with_potential: true };
            let mut memory = CpuMemory::default();
            let mut forces_on = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let mut second = Forces::default();
                pool.install(|| {
                    let first = strategy.forces(&problem, None);
                    let previous = Some(&first.acceleration);
                    strategy.forces_into(&problem, previous, &mut memory, &mut second);
                    // Other bodies leave their values in the memory.
                    let others =
                        ForceProblem { position: &clustered, eps: 0.5, with_potential: false, ..problem };
                    strategy.forces_into(&others, previous, &mut memory, &mut Forces::default());
                    (first, second)
                })
            };
            let one = forces_on(1);
            for threads in [2, 3, 7, 16] {
                assert!(forces_on(threads) == one, "{n} bodies, {threads} threads, {strategy:?}");
            }
        }
    }
}

/// Another program can compute the forces on the other targets, for example a device.
#[test]
fn forces_on_a_range_of_targets_have_the_bits_of_those_on_all() {
    let n = 700;
    let (position, mass) = cluster(n, 5);
    for (precision, with_potential) in [(Precision::Single, false), (Precision::Double, true)] {
        let strategy = direct::DirectCpuStrategy::new(precision, InstructionSet::best());
        let problem = ForceProblem { position: &position, mass: &mass, g: 1.0, eps: 0.01, with_potential };
        let (all, mut memory) = (direct::forces(&problem, &strategy), CpuMemory::default());
        for targets in [0..n, 0..1, n - 1..n, 300..301, 17..555, 40..40] {
            let mut found = Forces::default();
            direct::forces_on_range(&problem, &strategy, targets.clone(), &mut memory, &mut found);
            assert_eq!(found.acceleration.len(), targets.len());
            for (k, target) in targets.clone().enumerate() {
                assert_eq!(found.acceleration.get(k), all.acceleration.get(target), "{targets:?}");
            }
            let potential = all.potential.as_ref().map(|potential| potential[targets].to_vec());
            assert_eq!(found.potential, potential);
        }
    }
}

/// Accelerations do not depend on whether potentials are computed as well.
#[test]
fn potentials_do_not_change_the_bits_of_accelerations() {
    for n in [3, 700, 3000] {
        let (position, mass) = cluster(n, 4);
        for set in InstructionSet::available() {
            for precision in Precision::ALL {
                let acceptance = Acceptance::Relative { alpha: 0.01, theta: 0.6 };
                let tree = tree::TreeCpuStrategy::new(precision, set);
                let strategies = [
                    GravityCpuStrategy::Direct(direct::DirectCpuStrategy::new(precision, set)),
                    GravityCpuStrategy::Tree(tree),
                    GravityCpuStrategy::Tree(tree::TreeCpuStrategy { acceptance, ..tree }),
                ];
                for strategy in strategies {
                    let problem = ForceProblem {
                        position: &position,
                        mass: &mass,
                        g: 1.0,
                        eps: 0.01,
                        with_potential: true,
                    };
                    let first = strategy.forces(&problem, None);
                    let with = strategy.forces(&problem, Some(&first.acceleration));
                    let problem = ForceProblem { with_potential: false, ..problem };
                    let without = strategy.forces(&problem, Some(&first.acceleration));
                    assert!(with.potential.is_some() && without.potential.is_none());
                    assert!(with.acceleration == without.acceleration, "{n} bodies, {strategy:?}");
                }
            }
        }
    }
}
