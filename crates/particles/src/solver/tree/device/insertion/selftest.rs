//! Checks of the insertion against direct summation, and of its tree, for `orrery selftest` and the
//! tests.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, DeviceKind, KernelBuilder};
use orrery_model::analysis::max_or_nan;
use orrery_model::rng::Draws;
use orrery_model::{Precision, Vec3s};

use super::Insertion;
use crate::accuracy::{ErrorBounds, ForceErrors};
use crate::settings::Acceptance;
use crate::solver::Problem;
use crate::solver::tree::device::{ForceRequest, Order, TreeAlgorithm, TreeDeviceStrategy};
use crate::solver::tree::test_systems::{TestSystem, columns, truncation_error};

/// Returns all checks of the insertion.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("tree: insertion, {name}"), run };
    vec![
        check("against direct summation", against_direct_summation),
        check("every body in one cell", check_tree),
        check("all cells opened", all_cells_opened),
        check("planes, lines and points", degenerate_systems),
        check("bodies that share positions", shared_positions),
        check("far bodies", far_bodies),
        check("unequal masses and massless bodies", unequal_masses),
        check("variants agree", variants_agree),
        check("the same bits twice", same_bits_twice),
    ]
}

/// Returns all combinations of the flags.
pub(crate) fn all_variants() -> [TreeAlgorithm; 8] {
    std::array::from_fn(|k| TreeAlgorithm::Insertion {
        sorted: k & 1 != 0,
        vote: k & 2 != 0,
        throttled: k & 4 != 0,
    })
}

const ALL: TreeAlgorithm = TreeAlgorithm::Insertion { sorted: true, vote: true, throttled: true };
const NONE: TreeAlgorithm = TreeAlgorithm::Insertion { sorted: false, vote: false, throttled: false };

impl TestSystem {
    /// Returns the accelerations computed by insertion, and the tree that computed them.
    fn insertion_forces(
        &self,
        device: &Device,
        algorithm: TreeAlgorithm,
        theta: f64,
    ) -> Result<(Vec3s, Insertion), String> {
        let mut insertion =
            Insertion::new(&mut KernelBuilder::new(device), self.mass.len(), &strategy_for(algorithm))
                .map_err(error_message)?;
        let found = self.evaluate(&mut insertion, theta, Insertion::queue).map_err(error_message)?;
        Ok((found, insertion))
    }

    /// Returns the accelerations computed by a tree that may have been used before. `call` is
    /// [`Insertion::queue`] or [`Insertion::time_stages`].
    fn evaluate<T>(
        &self,
        insertion: &mut Insertion,
        theta: f64,
        call: impl FnOnce(&mut Insertion, &ForceRequest) -> Result<T, DeviceError>,
    ) -> Result<Vec3s, DeviceError> {
        let (device, n) = (insertion.device.clone(), self.mass.len());
        let Vec3s { x, y, z } = &self.position;
        let position = [device.upload(x)?, device.upload(y)?, device.upload(z)?];
        let found = [device.zeros(n)?, device.zeros(n)?, device.zeros(n)?];
        let mass = device.upload(&self.mass)?;
        let Problem { g, eps, .. } = self.problem();
        let request = ForceRequest {
            position: columns(&position),
            mass: &mass,
            g,
            eps,
            acceptance: Acceptance::Geometric { theta },
            previous: None,
            acceleration: columns(&found),
            potential: None,
        };
        call(insertion, &request)?;
        Ok(Vec3s { x: found[0].to_vec()?, y: found[1].to_vec()?, z: found[2].to_vec()? })
    }

    /// Checks the errors of a variant against direct summation.
    fn check_errors(
        &self,
        device: &Device,
        algorithm: TreeAlgorithm,
        theta: f64,
        limits: Limits,
    ) -> Result<(), String> {
        let found = self.insertion_forces(device, algorithm, theta)?.0;
        let n = self.mass.len();
        self.compare(&found, theta, limits)
            .map_err(|message| format!("{algorithm:?}, n = {n}, theta = {theta}: {message}"))
    }

    /// Compares the result of a walk with direct summation.
    fn compare(&self, found: &Vec3s, theta: f64, limits: Limits) -> Result<(), String> {
        let (expected, n) = (self.reference_forces().acceleration, self.mass.len());
        for (i, expected) in expected.iter().enumerate() {
            if expected == [0.0; 3] && found.get(i) != [0.0; 3] {
                return Err(format!("acceleration of body {i} is {:?}, expected 0", found.get(i)));
            }
        }
        let bounds = self.error_bounds(Order::Monopole, Precision::Single, theta);
        let largest = bounds.largest_error(found, &expected);
        if largest.is_nan() || largest > 1.0 {
            return Err(format!("largest error {largest:.1e} of its bound"));
        }
        let ForceErrors { median, p99, max, .. } =
            ForceErrors::measure(found, &(0..n).collect::<Vec<_>>(), &expected);
        if median <= limits.median && p99 <= limits.p99 && max <= limits.max {
            return Ok(());
        }
        Err(format!(
            "relative error: median {median:.1e}, p99 {p99:.1e}, max {max:.1e}, expected at most {limits:?}"
        ))
    }
}

fn strategy_for(algorithm: TreeAlgorithm) -> TreeDeviceStrategy {
    TreeDeviceStrategy {
        algorithm,
        precision: Precision::Single,
        order: Order::Monopole,
        leaf_size: 1,
        group_size: 32,
    }
}

fn error_message(error: DeviceError) -> String {
    error.to_string()
}

/// Largest relative errors that a variant may have.
#[derive(Clone, Copy, Debug)]
struct Limits {
    median: f64,
    p99: f64,
    max: f64,
}

impl Limits {
    /// Returns the limits for clusters. The relative error of a cell without its quadrupole is
    /// about (l / r)². Measured on clusters of 33 to 5,000 bodies at theta from 0.3 to 0.9: at most
    /// 0.008, 0.045 and 0.08 theta².
    fn for_clusters(theta: f64) -> Self {
        let theta2 = theta * theta;
        Self { median: 0.016 * theta2, p99: 0.09 * theta2, max: 0.16 * theta2 }
    }

    /// Returns the limits for bodies in a plane or at a few positions: errors of few terms average
    /// out less.
    fn for_few_terms(theta: f64) -> Self {
        let theta2 = theta * theta;
        Self { median: 0.05 * theta2, p99: 0.25 * theta2, max: 0.4 * theta2 }
    }

    /// Returns the limits for bodies on a line. Forces from both sides cancel there, in places
    /// completely.
    fn for_lines(theta: f64) -> Self {
        Self { median: 0.15 * theta * theta, p99: f64::INFINITY, max: f64::INFINITY }
    }

    /// As for the direct sum: coordinates rounded to 2^-24 of their size, and a softening of 0.01.
    const ROUNDING: Self = Self { median: 2e-6, p99: 2e-5, max: 2e-4 };
}

/// Whether to check fewer combinations, because OpenCL on a CPU is slow.
fn is_slow(device: &Device) -> bool {
    device.properties().kind != DeviceKind::Gpu
}

fn against_direct_summation(device: &Device) -> Result<(), String> {
    for n in [1, 2, 33, 1000, 5000] {
        let system = TestSystem::cluster(n);
        for theta in [0.3, 0.5, 0.7, 0.9] {
            let algorithms = if n == 5000 && is_slow(device) { &[ALL][..] } else { &[ALL, NONE] };
            for algorithm in algorithms {
                system.check_errors(device, *algorithm, theta, Limits::for_clusters(theta))?;
            }
        }
    }
    // Without softening, rounded coordinates of a close pair have their full effect.
    let hard = TestSystem { eps: 0.0, ..TestSystem::cluster(1000) };
    hard.check_errors(device, ALL, 0.5, Limits { max: 0.4, ..Limits::for_clusters(0.5) })
}

/// Tree as read back from the device.
struct HostTree {
    n: usize,
    node: Vec<[f32; 4]>,
    child: Vec<u32>,
    body_count: Vec<u32>,
    /// Bodies in the order of the tree, as far as it has been visited.
    visited_bodies: Vec<u32>,
    visited_cells: u64,
}

impl HostTree {
    /// Checks a cell and all cells below it. Returns the sums of m x, m y, m z and m over its
    /// bodies.
    fn visit(&mut self, cell: usize) -> Result<[f64; 4], String> {
        let (mut sum, first) = ([0.0; 4], self.visited_bodies.len());
        let children: Vec<u32> =
            self.child[8 * cell..][..8].iter().copied().take_while(|&node| node as i32 >= 0).collect();
        if cell > 0 && children.len() < 2 {
            return Err(format!("cell {cell} has {} children, expected 2 or more", children.len()));
        }
        self.visited_cells += 1;
        for node in children {
            let part = match (node as usize).checked_sub(self.n) {
                Some(below) => self.visit(below)?,
                None => {
                    self.visited_bodies.push(node);
                    let [x, y, z, m] = self.node[node as usize].map(f64::from);
                    [m * x, m * y, m * z, m]
                }
            };
            sum = std::array::from_fn(|c| sum[c] + part[c]);
        }
        let [x, y, z, mass] = self.node[self.n + cell].map(f64::from);
        let bodies = self.visited_bodies.len() - first;
        // Each level rounds to 2^-24 of a coordinate, and the box is at most two units wide.
        let moments = [x * sum[3], y * sum[3], z * sum[3], mass];
        let error = moments.iter().zip(&sum).map(|(a, b)| (a - b).abs()).fold(0.0, max_or_nan);
        if error.is_nan() || error > 2e-6 * sum[3] || bodies != self.body_count[cell] as usize {
            let found = format!("mass {mass}, centre {:?}, {} bodies", [x, y, z], self.body_count[cell]);
            return Err(format!("cell {cell}: found {found}, expected moments {sum:?} of {bodies} bodies"));
        }
        Ok(sum)
    }
}

fn check_tree(device: &Device) -> Result<(), String> {
    for system in
        [TestSystem::cluster(1), TestSystem::cluster(2), TestSystem::cluster(1000), on_few_positions(1000)]
    {
        let n = system.mass.len();
        let tree = system.insertion_forces(device, ALL, 0.5)?.1;
        let read = || {
            let (node, child) = (tree.node.to_vec()?, tree.child.to_vec()?);
            let host = HostTree {
                n,
                node,
                child,
                body_count: tree.body_count.to_vec()?,
                visited_bodies: Vec::new(),
                visited_cells: 0,
            };
            Ok((host, tree.order.to_vec()?, tree.report()?.cells))
        };
        let (mut host, order, cells) = read().map_err(error_message)?;
        host.visit(0)?;
        if host.visited_cells != cells || cells > n as u64 {
            let visited = host.visited_cells;
            return Err(format!("{cells} cells of {n} bodies, {visited} reached from the root"));
        }
        if host.visited_bodies != order {
            return Err(format!("n = {n}: bodies are not in the order of the tree"));
        }
        host.visited_bodies.sort_unstable();
        if !host.visited_bodies.iter().copied().eq(0..n as u32) {
            return Err(format!("n = {n}: a body is not in exactly one cell"));
        }
    }
    Ok(())
}

/// With an opening angle so small that no cell is accepted, every variant computes the direct sum.
fn all_cells_opened(device: &Device) -> Result<(), String> {
    for algorithm in all_variants() {
        for n in if is_slow(device) { [33, 300] } else { [33, 2000] } {
            TestSystem::cluster(n).check_errors(device, algorithm, 1e-9, Limits::ROUNDING)?;
        }
    }
    Ok(())
}

fn degenerate_systems(device: &Device) -> Result<(), String> {
    let flat = |_, [x, y, _]: [f64; 3]| [x, y, 0.3];
    let line = |_, [x, ..]: [f64; 3]| [1.0 + x, 1.0 + 2.0 * x, 1.0 - x];
    let axis = |_, [x, ..]: [f64; 3]| [0.0, x, 0.0];
    let point = |_, _| [0.4, -0.7, 12.3];
    for algorithm in [ALL, NONE] {
        for n in [2, 33, 1000] {
            // No cell is accepted. Positions are away from the origin, where f32 has fewer digits.
            let limits = Limits { p99: 1e-3, max: 1e-1, ..Limits::ROUNDING };
            TestSystem::cluster(n).moved(line).check_errors(device, algorithm, 1e-9, limits)?;
            for theta in [0.3, 0.7] {
                TestSystem::cluster(n).moved(flat).check_errors(
                    device,
                    algorithm,
                    theta,
                    Limits::for_few_terms(theta),
                )?;
                TestSystem::cluster(n).moved(line).check_errors(
                    device,
                    algorithm,
                    theta,
                    Limits::for_lines(theta),
                )?;
                TestSystem::cluster(n).moved(axis).check_errors(
                    device,
                    algorithm,
                    theta,
                    Limits::for_lines(theta),
                )?;
                for eps in [0.01, 0.0] {
                    let system = TestSystem { eps, ..TestSystem::cluster(n).moved(point) };
                    // The direct sum without softening is NaN.
                    let zeros = vec![0.0; n];
                    let found = system.insertion_forces(device, algorithm, theta)?.0;
                    if [found.x, found.y, found.z].iter().any(|column| *column != zeros) {
                        return Err(format!(
                            "{algorithm:?}, n = {n}, eps = {eps}: bodies at one position have accelerations"
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns a system with all bodies at 11 positions.
fn on_few_positions(n: usize) -> TestSystem {
    let positions = TestSystem::cluster(11).position;
    TestSystem::cluster(n).moved(|i, _| positions.get(i * i % 11))
}

fn shared_positions(device: &Device) -> Result<(), String> {
    for algorithm in [ALL, NONE] {
        for n in [2, 33, 1000] {
            on_few_positions(n).check_errors(device, algorithm, 0.5, Limits::for_few_terms(0.5))?;
            // Pairs so close that they are separated only at deep levels, and pairs that share a
            // grid point.
            for distance in [1e-7, 1e-12] {
                let pairs = TestSystem::cluster(n).position;
                let beside = |i: usize, p: [f64; 3]| match i % 2 {
                    0 => p,
                    _ => pairs.get(i - 1).map(|c| c + distance),
                };
                TestSystem::cluster(n).moved(beside).check_errors(
                    device,
                    algorithm,
                    0.5,
                    Limits::for_few_terms(0.5),
                )?;
            }
        }
    }
    Ok(())
}

/// One body is so far away that the others share few cells, few grid points, or one grid point.
fn far_bodies(device: &Device) -> Result<(), String> {
    for algorithm in [ALL, NONE] {
        for distance in [1e6, 1e9, 1e10] {
            for i in [0, 17] {
                let far = |k, p: [f64; 3]| if k == i { [distance, -2.0 * distance, distance] } else { p };
                TestSystem::cluster(300).moved(far).check_errors(
                    device,
                    algorithm,
                    0.5,
                    Limits::for_clusters(0.5),
                )?;
            }
        }
    }
    Ok(())
}

fn unequal_masses(device: &Device) -> Result<(), String> {
    for n in [33, 1000] {
        let mut system = TestSystem::cluster(n);
        for (i, mass) in system.mass.iter_mut().enumerate() {
            let draw = Draws::new(n as u64, 4, i as u64).uniform();
            *mass = if i % 7 == 3 { 0.0 } else { *mass * 10f64.powf(4.0 * draw - 2.0) };
        }
        for algorithm in [ALL, NONE] {
            system.check_errors(device, algorithm, 0.5, Limits::for_few_terms(0.5))?;
        }
        let massless = TestSystem { mass: vec![0.0; n], ..system };
        massless.check_errors(device, ALL, 0.5, Limits::ROUNDING)?;
    }
    Ok(())
}

/// Throttling does not change a bit. Neither does sorting if bodies walk alone. With votes, sorting
/// changes which bodies vote together.
fn variants_agree(device: &Device) -> Result<(), String> {
    let system = TestSystem::cluster(if is_slow(device) { 1000 } else { 20_000 });
    let found = |sorted, vote, throttled| {
        let algorithm = TreeAlgorithm::Insertion { sorted, vote, throttled };
        system.insertion_forces(device, algorithm, 0.6).map(|(found, _)| found)
    };
    let alone = found(false, false, false)?;
    for (sorted, throttled) in [(false, true), (true, false), (true, true)] {
        if found(sorted, false, throttled)? != alone {
            return Err(format!("sorted {sorted}, throttled {throttled}: results differ from those without"));
        }
    }
    // Each of the two walks may have the largest error.
    let truncation = 2.0 * truncation_error(Order::Monopole, 0.6);
    let bounds = ErrorBounds::new(&system.problem(), Precision::Single, truncation);
    for sorted in [false, true] {
        let votes = found(sorted, true, false)?;
        if found(sorted, true, true)? != votes {
            return Err(format!("vote, sorted {sorted}: results differ when throttled"));
        }
        // Votes can only open more cells.
        let all: Vec<usize> = (0..system.mass.len()).collect();
        let p99 = ForceErrors::measure(&votes, &all, &alone).p99;
        let largest = bounds.largest_error(&votes, &alone);
        if p99 > Limits::for_clusters(0.6).p99 || largest.is_nan() || largest > 1.0 {
            return Err(format!(
                "vote, sorted {sorted}: relative difference {p99:.1e} from the walk without votes (99th \
                 percentile), largest difference {largest:.1e} of its bound"
            ));
        }
    }
    Ok(())
}

/// Results must not depend on races between threads or on a previous evaluation.
fn same_bits_twice(device: &Device) -> Result<(), String> {
    let n = 3000;
    for system in [TestSystem::cluster(n), on_few_positions(n)] {
        for algorithm in [ALL, NONE] {
            let (first, mut insertion) = system.insertion_forces(device, algorithm, 0.7)?;
            let other =
                TestSystem { eps: 1.0, ..TestSystem::cluster(n).moved(|_, [x, y, z]| [9.0 * y, z, -x]) };
            for _ in 0..3 {
                other.evaluate(&mut insertion, 0.3, Insertion::queue).map_err(error_message)?;
                if system.evaluate(&mut insertion, 0.7, Insertion::time_stages).map_err(error_message)?
                    != first
                {
                    return Err(format!("{algorithm:?}: two evaluations differ"));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::with_one_nan;

    /// Bodies on a line have no limits of their relative errors.
    #[test]
    fn a_nan_in_any_column_fails_the_check() {
        for n in [1, 33] {
            let system = TestSystem::cluster(n);
            let expected = system.reference_forces().acceleration;
            assert_eq!(system.compare(&expected, 0.9, Limits::for_lines(0.9)), Ok(()));
            for with_nan in with_one_nan(&expected) {
                system.compare(&with_nan, 0.9, Limits::for_lines(0.9)).unwrap_err();
            }
        }
    }
}
