//! Tests of mixed precision for pairs that f32 coordinates do not resolve, on every path.
//!
//! The measure is the error of the force on a body relative to the largest pair term P of that
//! body. Pair terms have errors of up to 6e-6 (`near`), usually 1e-7, and rounding errors of sums
//! are smaller, so the limit is 1e-5. The terms of a body far outside of all others are equal in
//! f32, and so are their rounding errors, which do not average out. In systems with such bodies,
//! the limit is in units of the sum of all pair terms without their signs, if that is larger.

use orrery_device::testing::test_devices_with_f64;
use orrery_model::analysis::max_or_nan;
use orrery_model::rng::Draws;
use orrery_model::{Precision, Vec3s};
use orrery_simd::InstructionSet;
use rayon::prelude::*;

use super::direct::device::DirectDeviceStrategy;
use super::direct::selftest::pairs_once_strategies;
use super::tree::device::{Order, TreeDeviceStrategy};
use super::tree::test_systems::TestSystem;
use super::{ForceProblem, GravityCpuStrategy, direct, tree};
use crate::bodies::{DeviceSetup, forces_on_device};
use crate::settings::Acceptance;

/// Largest error of the force on a body, in units of its largest pair term.
const MAX_ERROR: f64 = 1e-5;
/// Largest error in units of the sum of all pair terms, for systems with bodies far outside. A lane
/// adds 125 of 1,000 equal terms, with errors of half a unit of 2⁻²⁴ of the sum each.
const MAX_ERROR_OF_EQUAL_TERMS: f64 = 4e-6;

fn system(n: usize, draw_position: impl Fn(usize, &mut Draws) -> [f64; 3]) -> TestSystem {
    let mut position = Vec3s::default();
    (0..n).for_each(|i| position.push(draw_position(i, &mut Draws::new(11, 0, i as u64))));
    TestSystem { position, mass: vec![1.0 / n as f64; n], eps: 0.0 }
}

fn in_cube(draws: &mut Draws, side: f64) -> [f64; 3] {
    [0; 3].map(|_| draws.uniform_in(-0.5 * side, 0.5 * side))
}

/// Moves every body i from `pairs` on to a position at distance `r` from the body i - `pairs`.
fn with_pairs(mut system: TestSystem, pairs: usize, r: f64) -> TestSystem {
    let n = system.mass.len();
    for i in n - pairs..n {
        let direction = Draws::new(12, 0, i as u64).direction();
        let x = system.position.get(i + pairs - n);
        system.position.set(i, [0, 1, 2].map(|k| x[k] + r * direction[k]));
    }
    system
}

/// Returns systems with their names, and whether bodies are far outside.
fn systems() -> Vec<(&'static str, TestSystem, bool)> {
    let cube = |n| system(n, |_, draws| in_cube(draws, 2.0));
    let mut unequal = with_pairs(cube(1000), 30, 1e-7);
    unequal.mass.iter_mut().step_by(2).for_each(|mass| *mass *= 1e-8);
    let in_cusp = |draws: &mut Draws, smallest: f64| {
        let radius = 10f64.powf(draws.uniform_in(smallest.log10(), 3.0));
        draws.direction().map(|c| radius * c)
    };
    let two_clusters = system(1000, |i, draws| {
        let [x, y, z] = in_cube(draws, 1.0);
        [x + if i % 2 == 0 { 1e6 } else { 0.0 }, y, z]
    });
    // Relative to the system the pair is at 1e-15, where 1 / r³ is above the range of f32.
    let outlier = system(1000, |i, draws| if i == 500 { [1e6, 0.0, 0.0] } else { in_cube(draws, 1.0) });
    let filament =
        system(1000, |_, draws| [1000.0, 1.0, 1.0].map(|side| draws.uniform_in(-0.5 * side, 0.5 * side)));
    let moved_cusp = system(1000, |_, draws| in_cusp(draws, 1e-6).map(|c| c + 5.0));
    vec![
        ("1,000 in a cube, pair at 1e-6 of its side", with_pairs(cube(1000), 1, 2e-6), false),
        ("1,000 in a cube, pair at 1e-8 of its side", with_pairs(cube(1000), 1, 2e-8), false),
        ("5,000 in a cube, pair at 1e-6 of its side", with_pairs(cube(5000), 1, 2e-6), false),
        ("5,000 in a cube, pair at 1e-8 of its side", with_pairs(cube(5000), 1, 2e-8), false),
        ("filament", filament, false),
        ("cusp", system(1000, |_, draws| in_cusp(draws, 1e-9)), true),
        ("cusp away from the origin", moved_cusp, true),
        ("two clusters 1e6 apart", two_clusters, false),
        ("pairs at 1e-9", with_pairs(cube(1000), 500, 1e-9), false),
        ("mass ratio of 1e8", unequal, false),
        ("a pair at 1e-9 and a body at 1e6", with_pairs(outlier, 1, 1e-9), true),
    ]
}

/// Accelerations of the direct sum in f64, and the largest error of every body.
struct PairTerms {
    acceleration: Vec3s,
    limits: Vec<f64>,
}

impl PairTerms {
    fn of(problem: &ForceProblem, has_equal_terms: bool) -> Self {
        let ForceProblem { position, mass, g, .. } = *problem;
        let body = |i: usize| {
            let (mut sum, mut largest, mut total) = ([0.0; 3], 0.0, 0.0);
            let x = position.get(i);
            for j in (0..mass.len()).filter(|&j| j != i) {
                let d = [position.x[j] - x[0], position.y[j] - x[1], position.z[j] - x[2]];
                let r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                let weight = g * mass[j] / (r2 * r2.sqrt());
                (0..3).for_each(|k| sum[k] += weight * d[k]);
                largest = max_or_nan(largest, g * mass[j] / r2);
                total += g * mass[j] / r2;
            }
            let of_equal_terms = if has_equal_terms { MAX_ERROR_OF_EQUAL_TERMS * total } else { 0.0 };
            (sum, max_or_nan(of_equal_terms, MAX_ERROR * largest))
        };
        let bodies: Vec<_> = (0..mass.len()).into_par_iter().map(body).collect();
        let mut terms = Self { acceleration: Vec3s::default(), limits: Vec::new() };
        for (acceleration, limit) in bodies {
            terms.acceleration.push(acceleration);
            terms.limits.push(limit);
        }
        terms
    }

    /// Checks the errors of all bodies. A NaN in any component fails.
    fn check(&self, label: &str, found: &Vec3s, expected: &Vec3s) {
        let errors = found.iter().zip(expected.iter()).zip(&self.limits).map(|((a, expected), limit)| {
            let error = [0, 1, 2].map(|k| a[k] - expected[k]);
            error.iter().map(|c| c * c).sum::<f64>().sqrt() / limit
        });
        let largest = errors.fold(0.0, max_or_nan);
        assert!(largest <= 1.0, "{label}: error {largest:.1e} of the limit");
    }
}

/// Both solvers of the CPU, with and without potentials. The tree is compared with the tree in
/// `double`, which has the same cells, and with all cells opened it is the direct sum.
#[test]
fn cpu_resolves_close_pairs() {
    for (name, system, has_equal_terms) in systems() {
        let problem = ForceProblem { with_potential: false, ..system.problem() };
        let terms = PairTerms::of(&problem, has_equal_terms);
        for set in InstructionSet::available() {
            let tree = |precision, theta| {
                let acceptance = Acceptance::Geometric { theta };
                GravityCpuStrategy::Tree(tree::TreeCpuStrategy {
                    acceptance,
                    ..tree::TreeCpuStrategy::new(precision, set)
                })
            };
            let direct = GravityCpuStrategy::Direct(direct::DirectCpuStrategy::new(Precision::Mixed, set));
            let expected_tree = tree(Precision::Double, 0.6).forces(&problem, None).acceleration;
            let mut strategies =
                vec![(direct, &terms.acceleration), (tree(Precision::Mixed, 0.6), &expected_tree)];
            if problem.mass.len() == 1000 {
                strategies.push((tree(Precision::Mixed, 1e-9), &terms.acceleration));
            }
            for (strategy, expected) in strategies {
                let label = format!("{name}, {}, {}", strategy.name(), set.name());
                let found = strategy.forces(&problem, None);
                terms.check(&label, &found.acceleration, expected);
                let with_potential = ForceProblem { with_potential: true, ..problem };
                let found_with = strategy.forces(&with_potential, None);
                assert!(found_with.acceleration == found.acceleration, "{label}, with potentials");
                let potential = found_with.potential.unwrap();
                assert!(potential.iter().all(|phi| phi.is_finite() && *phi < 0.0), "{label}: potential");
            }
        }
    }
}

/// Tiles and blocks of any size have the same near and far sources.
#[test]
fn cpu_resolves_close_pairs_with_other_blocks_and_tiles() {
    let (name, system, has_equal_terms) = systems().swap_remove(1);
    let problem = ForceProblem { with_potential: false, ..system.problem() };
    let terms = PairTerms::of(&problem, has_equal_terms);
    for (block, tile) in [(8, 16), (1, 100), (128, 7), (600, 2048)] {
        let strategy = direct::DirectCpuStrategy {
            block,
            tile,
            ..direct::DirectCpuStrategy::new(Precision::Mixed, InstructionSet::best())
        };
        let found = direct::forces(&problem, &strategy).acceleration;
        terms.check(&format!("{name}, block {block}, tile {tile}"), &found, &terms.acceleration);
    }
}

#[test]
fn direct_sum_on_devices_resolves_close_pairs() {
    for device in test_devices_with_f64() {
        let default = DirectDeviceStrategy::default_for(&device, 1000, Precision::Mixed);
        let pairs_once = pairs_once_strategies(&device, Precision::Mixed);
        for strategy in [default].into_iter().chain(pairs_once.into_iter().take(1)) {
            for (name, system, has_equal_terms) in systems() {
                let problem = ForceProblem { with_potential: false, ..system.problem() };
                let terms = PairTerms::of(&problem, has_equal_terms);
                let setup = DeviceSetup { device: device.clone(), strategy: strategy.into() };
                let found = forces_on_device(&setup, &problem, Acceptance::default()).unwrap();
                let label = format!("{name}, {}, {}", strategy.describe(), device.title());
                terms.check(&label, &found.acceleration, &terms.acceleration);
            }
        }
    }
}

#[test]
fn tree_on_devices_resolves_close_pairs() {
    for device in test_devices_with_f64() {
        let strategies = Precision::ALL.map(|precision| TreeDeviceStrategy::default_for(&device, precision));
        for (name, system, has_equal_terms) in systems() {
            let problem = ForceProblem { with_potential: false, ..system.problem() };
            let terms = PairTerms::of(&problem, has_equal_terms);
            let forces = |precision, order, theta| {
                let strategy = strategies.iter().find(|strategy| strategy.precision == precision).unwrap();
                let strategy = TreeDeviceStrategy { order, ..*strategy };
                let acceptance = Acceptance::Geometric { theta };
                system.forces_on(&device, &strategy, acceptance, false, None).unwrap().0.acceleration
            };
            let order = Order::Quadrupole;
            let opened = forces(Precision::Mixed, order, 0.0);
            terms.check(&format!("{name}, all cells opened"), &opened, &terms.acceleration);
            let (found, expected) =
                (forces(Precision::Mixed, order, 0.6), forces(Precision::Double, order, 0.6));
            terms.check(&format!("{name}, tree"), &found, &expected);
        }
    }
}
