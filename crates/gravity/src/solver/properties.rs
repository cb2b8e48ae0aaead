//! Properties that the forces of every solver have, tested with random bodies and strategies.
//!
//! Newton's third law makes the total force vanish. Forces do not depend on the origin, on the
//! units or on the numbering of the bodies. Exact forces have these properties exactly, so a
//! computed force breaks them by at most its error ([`ErrorBounds`]). Many solvers promise more:
//! the same bits. [`ForcePath`] says which.
//!
//! Coordinates are multiples of 2^-33 below 2. Sums and differences of them and of the translations
//! are exact in f64 and not in f32.

use std::collections::HashSet;

use orrery_device::Device;
use orrery_device::testing::{SplitMix64, test_devices_with_f64};
use orrery_model::Vec3s;

use super::direct::device::DirectDeviceStrategy;
use super::direct::selftest::{is_slow, pairs_once_strategies, production_strategies, tiled_strategies};
use super::direct::{DirectCpuStrategy, MIXED_MIN_BODIES};
use super::tree::TreeCpuStrategy;
use super::tree::device::{Order, TreeDeviceStrategy};
use super::tree::selftest::LEAF_AND_GROUP_SIZES;
use super::tree::test_systems::{TestSystem, truncation_error};
use super::*;
use crate::accuracy::ErrorBounds;
use crate::bodies::{DeviceSetup, forces_on_device};
use crate::settings::MAX_THETA;
use crate::tree::Cube;

/// Seed of all draws. The tests draw the same strategies and bodies in every run. Another seed
/// draws others.
const SEED: u64 = 12;
/// Systems per strategy.
const SYSTEMS: u64 = 8;
const MAX_BODIES: usize = 600;
/// Factor of `truncation_error` for groups of one body and cells of a few. A single body may be
/// just outside the opening distance, and errors of few cells do not average out. The largest
/// factor of 10,800 random trees of the CPU was 2.8.
const FEW_BODIES_FACTOR: f64 = 4.0;
/// Number of grid steps per unit of length.
const GRID_STEPS_PER_UNIT: f64 = (1u64 << 33) as f64;

/// A solver with its strategy.
#[derive(Clone, Debug)]
enum ForcePath {
    Cpu(GravityCpuStrategy),
    DeviceDirect(Device, DirectDeviceStrategy),
    DeviceTree(Device, TreeDeviceStrategy, Acceptance),
}

impl ForcePath {
    /// Returns the accelerations. `previous` is for the relative acceptance.
    fn accelerations(&self, system: &TestSystem, previous: &Vec3s) -> Vec3s {
        let problem = ForceProblem { with_potential: false, ..system.problem() };
        match self {
            Self::Cpu(strategy) => strategy.forces(&problem, Some(previous)).acceleration,
            Self::DeviceDirect(device, strategy) => {
                let setup = DeviceSetup { device: device.clone(), strategy: (*strategy).into() };
                forces_on_device(&setup, &problem, Acceptance::default()).unwrap().acceleration
            }
            Self::DeviceTree(device, strategy, acceptance) => {
                let found = system.forces_on(device, strategy, *acceptance, false, Some(previous));
                found.unwrap().0.acceleration
            }
        }
    }

    fn precision(&self) -> Precision {
        match self {
            Self::Cpu(GravityCpuStrategy::Direct(direct)) => direct.precision,
            Self::Cpu(GravityCpuStrategy::Tree(tree)) => tree.precision,
            Self::DeviceDirect(_, direct) => direct.precision,
            Self::DeviceTree(_, tree, _) => tree.precision,
        }
    }

    /// Returns the highest moment and the acceptance of a tree.
    fn tree_parameters(&self) -> Option<(Order, Acceptance)> {
        match self {
            Self::Cpu(GravityCpuStrategy::Tree(tree)) => Some((Order::Quadrupole, tree.acceptance)),
            Self::DeviceTree(_, tree, acceptance) => Some((tree.order, *acceptance)),
            _ => None,
        }
    }

    /// Returns bounds of the errors of one evaluation.
    fn error_bounds(&self, system: &TestSystem) -> ErrorBounds {
        let truncation = self.tree_parameters().map_or(0.0, |(order, acceptance)| match acceptance {
            Acceptance::Geometric { theta } => truncation_error(order, theta),
            Acceptance::Relative { .. } => truncation_error(order, MAX_THETA),
        });
        let mut bounds =
            ErrorBounds::new(&system.problem(), self.precision(), FEW_BODIES_FACTOR * truncation);
        if self.has_sampled_origin() {
            // Bodies are up to L from this origin, not L / 2, so their rounding errors double.
            bounds.of_body.iter_mut().for_each(|bound| *bound *= 2.0);
        }
        bounds
    }

    /// Returns whether the origin of the coordinates is the median of a sample of the bodies.
    fn has_sampled_origin(&self) -> bool {
        matches!(self, Self::DeviceDirect(..))
    }

    /// Returns whether the two forces of a pair have the same coordinate differences, with opposite
    /// signs. On the CPU, mixed precision has another origin for each block of targets.
    fn has_opposite_pair_forces(&self) -> bool {
        match self {
            Self::Cpu(GravityCpuStrategy::Direct(direct)) => direct.precision != Precision::Mixed,
            Self::DeviceDirect(..) => true,
            _ => false,
        }
    }

    /// Returns the smallest number of bodies for which the strategy computes in its precision. With
    /// fewer bodies `Mixed` is `Double`, except in direct sums on devices.
    fn min_bodies(&self) -> usize {
        let is_device_direct = matches!(self, Self::DeviceDirect(..));
        if self.precision() == Precision::Mixed && !is_device_direct { MIXED_MIN_BODIES } else { 1 }
    }

    /// Returns whether bodies that are translated without rounding have forces with the same
    /// bits.
    ///
    /// Direct sums and f32 trees on devices subtract an origin that moves with the bodies, or take
    /// differences of unrounded coordinates. Other trees round centres of mass, relative to the
    /// user's origin.
    fn is_exact_under_translation(&self) -> bool {
        match self {
            Self::Cpu(strategy) => matches!(strategy, GravityCpuStrategy::Direct(_)),
            Self::DeviceDirect(..) => true,
            Self::DeviceTree(_, tree, _) => match tree.precision {
                Precision::Single | Precision::Mixed => true,
                Precision::Double => false,
            },
        }
    }

    /// Returns whether scaling lengths or masses by powers of two changes no digit.
    ///
    /// All solvers divide by powers of two first. Only the relative acceptance on the CPU compares
    /// (M l³)^(2/5) in the user's units.
    fn is_exact_under_scaling(&self) -> bool {
        let is_cpu = matches!(self, Self::Cpu(_));
        !(is_cpu && matches!(self.tree_parameters(), Some((_, Acceptance::Relative { .. }))))
    }

    /// Returns whether bodies in another order have forces with the same bits, if no two of
    /// them have the same key. This is so where they are sorted by their keys first.
    fn is_exact_under_permutation(&self) -> bool {
        match self {
            Self::Cpu(GravityCpuStrategy::Direct(direct)) => direct.precision == Precision::Mixed,
            Self::Cpu(GravityCpuStrategy::Tree(_)) => true,
            Self::DeviceDirect(..) => false,
            Self::DeviceTree(..) => true,
        }
    }
}

fn choose<T: Copy>(draws: &mut SplitMix64, from: &[T]) -> T {
    from[draws.below(from.len())]
}

/// Draws a number in [0, 1).
fn uniform(draws: &mut SplitMix64) -> f64 {
    draws.below(1 << 53) as f64 / (1u64 << 53) as f64
}

/// Draws a multiple of 2^-33 in [-half_range, half_range).
fn coordinate(draws: &mut SplitMix64, half_range: f64) -> f64 {
    ((2.0 * uniform(draws) - 1.0) * half_range * GRID_STEPS_PER_UNIT).floor() / GRID_STEPS_PER_UNIT
}

fn draw_theta(draws: &mut SplitMix64) -> f64 {
    choose(draws, &[0.3, 0.5, 0.7, 0.9])
}

fn draw_acceptance(draws: &mut SplitMix64) -> Acceptance {
    let theta = draw_theta(draws);
    let alpha = choose(draws, &[1e-2, 1e-3]);
    choose(draws, &[Acceptance::Geometric { theta }, Acceptance::Relative { alpha, theta }])
}

/// Returns a direct sum and a tree for every precision and instruction set.
fn cpu_paths(draws: &mut SplitMix64) -> Vec<ForcePath> {
    let mut paths = Vec::new();
    for set in InstructionSet::available() {
        for precision in Precision::ALL {
            let (block, tile) = (choose(draws, &[8, 48, 128]), choose(draws, &[16, 100, 2048]));
            paths.push(GravityCpuStrategy::Direct(DirectCpuStrategy { precision, set, block, tile }));
            let (leaf_size, group_size) = choose(draws, &[(16, 48), (1, 1), (24, 31), (200, 16)]);
            let acceptance = draw_acceptance(draws);
            paths.push(GravityCpuStrategy::Tree(TreeCpuStrategy {
                precision,
                set,
                acceptance,
                leaf_size,
                group_size,
            }));
        }
    }
    paths.into_iter().map(ForcePath::Cpu).collect()
}

/// Draws strategies of the direct sum from the lists of the tuner and of the self-test. A kernel
/// takes seconds to build with PoCL, so there only those of the self-test are drawn, which are in
/// the cache of compiled kernels after it.
fn device_direct_paths(device: &Device, draws: &mut SplitMix64) -> Vec<ForcePath> {
    let mut strategies = Vec::new();
    for precision in Precision::ALL {
        let mut candidates = tiled_strategies(device, precision);
        if !is_slow(device) {
            candidates.extend(DirectDeviceStrategy::candidates(device, MAX_BODIES, precision));
            candidates.extend(pairs_once_strategies(device, precision));
        }
        candidates.retain(|strategy| strategy.fits(device));
        strategies.push(choose(draws, &candidates));
    }
    strategies.extend(production_strategies(device));
    strategies.into_iter().map(|strategy| ForcePath::DeviceDirect(device.clone(), strategy)).collect()
}

/// Draws a tree for every precision from the lists of the self-test.
fn device_tree_paths(device: &Device, draws: &mut SplitMix64) -> Vec<ForcePath> {
    let mut paths = Vec::new();
    for precision in Precision::ALL {
        let default = TreeDeviceStrategy::default_for(device, precision);
        let mut candidates = vec![default];
        // With PoCL, as in `device_direct_paths`: only kernels that other tests build as well.
        if !is_slow(device) || precision == Precision::Mixed {
            candidates.extend(Order::ALL.map(|order| TreeDeviceStrategy { order, ..default }));
            let with_sizes =
                |(leaf_size, group_size)| TreeDeviceStrategy { leaf_size, group_size, ..default };
            candidates.extend(LEAF_AND_GROUP_SIZES.map(with_sizes));
        }
        let strategy = choose(draws, &candidates);
        let acceptance = if !is_slow(device) || strategy == default {
            draw_acceptance(draws)
        } else {
            Acceptance::Geometric { theta: draw_theta(draws) }
        };
        paths.push(ForcePath::DeviceTree(device.clone(), strategy, acceptance));
    }
    paths
}

/// Draws at least `min_bodies` bodies. Some systems have a single body, coincident bodies or
/// massless ones. The softening is 0 only if no two bodies coincide.
fn draw_system(draws: &mut SplitMix64, min_bodies: usize) -> TestSystem {
    let n = match draws.below(8) {
        0 => 1,
        1 => 2,
        2 | 3 => 3 + draws.below(60),
        _ => 1 + draws.below(MAX_BODIES),
    };
    let n = if n < min_bodies { min_bodies + draws.below(MAX_BODIES - min_bodies) } else { n };
    let shape = draws.below(6);
    let points = n / 3 + 1;
    let mut position = Vec3s::default();
    for i in 0..n {
        let [x, y, z] = [0; 3].map(|_| coordinate(draws, 2.0));
        position.push(match shape {
            0 => [x, y, z],
            // Dense at the centre.
            1 => {
                let scale = 2f64.powi(-(draws.below(8) as i32));
                [x, y, z].map(|c| (c * scale * GRID_STEPS_PER_UNIT).round() / GRID_STEPS_PER_UNIT)
            }
            // On a line, in a plane, at a few points, at one point.
            2 => [x, -x, 0.5],
            3 => [x, 1.0, z],
            4 if i >= points => position.get(draws.below(points)),
            5 if i > 0 => position.get(0),
            _ => [x, y, z],
        });
    }
    // Equal masses, masses over four decades, every third body massless, all bodies massless.
    let masses = draws.below(if n < 100 { 5 } else { 4 });
    let mass = (0..n)
        .map(|i| match masses {
            0 | 1 => 1.0 / n as f64,
            2 => 10f64.powf(4.0 * uniform(draws) - 2.0) / n as f64,
            3 => [uniform(draws), 0.0][usize::from(i % 3 == 1)],
            _ => 0.0,
        })
        .collect();
    let is_unsoftened = shape < 2 && draws.below(3) == 0;
    let eps = if is_unsoftened { 0.0 } else { 0.01 + 0.1 * uniform(draws) };
    TestSystem { position, mass, eps }
}

/// A solver, bodies, and draws for the property under test.
struct Case {
    path: ForcePath,
    system: TestSystem,
    /// Accelerations of the reference. They are also those of the previous step.
    reference: Vec3s,
    found: Vec3s,
    draws: SplitMix64,
}

impl Case {
    fn describe(&self, path: u64, system: u64) -> String {
        let TestSystem { mass, eps, .. } = &self.system;
        format!("{:?}, n = {}, eps = {eps}, path {path}, system {system}, seed {SEED}", self.path, mass.len())
    }
}

/// Calls `check` for every force path and several systems each. It returns an error message.
fn for_all_cases(mut check: impl FnMut(&mut Case) -> Result<(), String>) {
    let mut draws = SplitMix64::new(SEED);
    let mut paths = cpu_paths(&mut draws);
    for device in test_devices_with_f64() {
        paths.extend(device_direct_paths(&device, &mut draws));
        paths.extend(device_tree_paths(&device, &mut draws));
    }
    for (path_index, path) in (0..).zip(paths) {
        for system_index in 0..SYSTEMS {
            let mut draws = SplitMix64::new(SEED ^ (path_index << 32 | system_index << 16));
            let system = draw_system(&mut draws, path.min_bodies());
            let reference = system.reference_forces().acceleration;
            let found = path.accelerations(&system, &reference);
            let mut case = Case { path: path.clone(), system, reference, found, draws };
            if let Err(message) = check(&mut case) {
                panic!("{}: {message}", case.describe(path_index, system_index));
            }
        }
    }
}

/// Compares two evaluations of the same forces, which both have errors within the bounds.
fn compare(case: &Case, must_be_exact: bool, second: &Vec3s) -> Result<(), String> {
    if must_be_exact {
        return match (0..case.found.len()).find(|&i| second.get(i) != case.found.get(i)) {
            None => Ok(()),
            Some(i) => {
                Err(format!("body {i}: {:?}, expected exactly {:?}", second.get(i), case.found.get(i)))
            }
        };
    }
    let largest = case.path.error_bounds(&case.system).largest_error(second, &case.found);
    if largest <= 2.0 {
        Ok(())
    } else {
        Err(format!("difference {largest} of the bound, expected at most 2"))
    }
}

/// Invariance alone would also hold for forces that are all zero.
#[test]
fn forces_are_those_of_the_reference() {
    for_all_cases(|case| {
        let largest = case.path.error_bounds(&case.system).largest_error(&case.found, &case.reference);
        if largest <= 1.0 {
            return Ok(());
        }
        Err(format!("error {largest} of the bound, expected at most 1"))
    });
}

/// The sum of m a has at most the errors of its terms, Σ m b with the bounds b.
///
/// A direct sum with one origin rounds coordinates before it takes differences. The forces of a
/// pair are then opposite except for the rounding of products and sums, (n + 16) u S_i as in
/// [`ErrorBounds::new`], where S_i is the sum of the pair forces on body i without their signs.
#[test]
fn total_force_vanishes() {
    for_all_cases(|case| {
        let Case { path, system, found, .. } = case;
        let n = system.mass.len() as f64;
        let unit_roundoff =
            if path.precision() == Precision::Double { 2f64.powi(-53) } else { 2f64.powi(-24) };
        let bounds = if path.has_opposite_pair_forces() {
            pair_force_sums(system).iter().map(|sum| (n + 16.0) * unit_roundoff * sum).collect()
        } else {
            path.error_bounds(system).of_body
        };
        let (mut total, mut limit) = ([0.0; 3], 0.0);
        for ((a, m), bound) in found.iter().zip(&system.mass).zip(&bounds) {
            limit += m * bound;
            for c in 0..3 {
                total[c] += m * a[c];
                // Rounding of the sum of this test.
                limit += n * f64::EPSILON * (m * a[c]).abs();
            }
        }
        if total.iter().all(|c| c.abs() <= limit) {
            return Ok(());
        }
        Err(format!("total force {total:?}, expected at most {limit:e}"))
    });
}

/// Returns Σ_j G m_j r / ρ³ for every body.
fn pair_force_sums(system: &TestSystem) -> Vec<f64> {
    let ForceProblem { position, mass, g, eps, .. } = system.problem();
    let pair_force = |xi: [f64; 3], xj: [f64; 3], m: f64| {
        let r2: f64 = (0..3).map(|c| (xj[c] - xi[c]).powi(2)).sum();
        if r2 > 0.0 { g * m * r2.sqrt() / (r2 + eps * eps).powf(1.5) } else { 0.0 }
    };
    position.iter().map(|xi| position.iter().zip(mass).map(|(xj, &m)| pair_force(xi, xj, m)).sum()).collect()
}

#[test]
fn translation_does_not_change_forces() {
    for_all_cases(|case| {
        let shift = [0; 3].map(|_| coordinate(&mut case.draws, 256.0));
        let mut moved = TestSystem {
            position: case.system.position.clone(),
            mass: case.system.mass.clone(),
            ..case.system
        };
        moved.position.translate(shift);
        let second = case.path.accelerations(&moved, &case.reference);
        let is_exact = case.path.is_exact_under_translation();
        compare(case, is_exact, &second).map_err(|message| format!("moved by {shift:?}: {message}"))
    });
}

/// a = G m d / ρ³ is proportional to mass / length².
#[test]
fn forces_scale_with_mass_and_inverse_length_squared() {
    for_all_cases(|case| {
        let [mut length, mass] = [0; 2].map(|_| 2f64.powi(case.draws.below(161) as i32 - 80));
        if case.system.position.iter().all(|x| x == case.system.position.get(0)) {
            // Bodies at one point have no size. The CPU then computes in the user's units of
            // length, and eps² must be in the range of f32.
            length = length.max(1.0);
        }
        let unit = mass / (length * length);
        let scale = |vectors: &Vec3s, factor: f64| {
            let by = |column: &[f64]| column.iter().map(|x| factor * x).collect();
            Vec3s { x: by(&vectors.x), y: by(&vectors.y), z: by(&vectors.z) }
        };
        let scaled = TestSystem {
            position: scale(&case.system.position, length),
            mass: case.system.mass.iter().map(|m| m * mass).collect(),
            eps: case.system.eps * length,
        };
        let second = case.path.accelerations(&scaled, &scale(&case.reference, unit));
        compare(case, case.path.is_exact_under_scaling(), &scale(&second, 1.0 / unit))
            .map_err(|message| format!("lengths times {length:e}, masses times {mass:e}: {message}"))
    });
}

#[test]
fn permutation_of_bodies_permutes_forces() {
    for_all_cases(|case| {
        let n = case.system.mass.len();
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).for_each(|i| order.swap(i, case.draws.below(i + 1)));
        let permute = |vectors: &Vec3s| {
            let mut permuted = Vec3s::default();
            order.iter().for_each(|&i| permuted.push(vectors.get(i)));
            permuted
        };
        let TestSystem { position, mass, eps } = &case.system;
        let permuted = TestSystem {
            position: permute(position),
            mass: order.iter().map(|&i| mass[i]).collect(),
            eps: *eps,
        };
        let found = case.path.accelerations(&permuted, &permute(&case.reference));
        let mut second = Vec3s::zeros(n);
        order.iter().zip(found.iter()).for_each(|(&i, a)| second.set(i, a));
        let cube = Cube::around(position);
        let keys: HashSet<u64> = position.iter().map(|x| cube.key(x)).collect();
        let is_exact = keys.len() == n && case.path.is_exact_under_permutation();
        compare(case, is_exact, &second)
    });
}
