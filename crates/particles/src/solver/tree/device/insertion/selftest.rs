//! Insertion against the plain sum, and its tree against what a tree must be: `orrery selftest`, and the tests.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceError, DeviceKind};
use orrery_model::Vec3s;
use orrery_model::rng::Draws;

use super::Insertion;
use crate::accuracy::ForceErrors;
use crate::settings::{Acceptance, Precision};
use crate::solver::Problem;
use crate::solver::tree::device::{ForceRequest, Order, Report, TreeAlgorithm, TreeDeviceStrategy};
use crate::solver::tree::test_systems::{TestSystem, columns};

/// All of them.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("tree: insertion, {name}"), run };
    vec![
        check("against the plain sum", against_the_plain_sum),
        check("every body in one cell", tree_is_a_tree),
        check("all cells opened", all_opened),
        check("planes, lines and points", degenerate),
        check("bodies that share places", shared_places),
        check("far bodies", far_body),
        check("unequal masses and massless bodies", unequal_masses),
        check("its variants agree", variants_agree),
        check("the same bits twice", same_bits),
    ]
}

/// What may be sorted, voted on and throttled.
fn variants() -> [TreeAlgorithm; 8] {
    std::array::from_fn(|k| TreeAlgorithm::Insertion {
        sorted: k & 1 != 0,
        vote: k & 2 != 0,
        throttled: k & 4 != 0,
    })
}

const ALL: TreeAlgorithm = TreeAlgorithm::Insertion { sorted: true, vote: true, throttled: true };
const NONE: TreeAlgorithm = TreeAlgorithm::Insertion { sorted: false, vote: false, throttled: false };

impl TestSystem {
    /// What was found, and the tree with which.
    fn inserted(
        &self,
        device: &Device,
        form: TreeAlgorithm,
        theta: f64,
    ) -> Result<(Vec3s, Insertion), String> {
        let mut insertion = Insertion::new(device, self.mass.len(), &strategy(form)).map_err(in_words)?;
        let found = self.with(&mut insertion, theta, Insertion::queue).map_err(in_words)?;
        Ok((found, insertion))
    }

    /// By a tree that may have been used before, through `queue` or `stages`.
    fn with<T>(
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
        let evaluation = ForceRequest {
            position: columns(&position),
            mass: &mass,
            g,
            eps,
            acceptance: Acceptance::Geometric { theta },
            previous: None,
            acceleration: columns(&found),
            potential: None,
        };
        call(insertion, &evaluation)?;
        Ok(Vec3s { x: found[0].to_vec()?, y: found[1].to_vec()?, z: found[2].to_vec()? })
    }

    /// Holds a variant against the plain sum.
    fn hold(&self, device: &Device, form: TreeAlgorithm, theta: f64, limits: Limits) -> Result<(), String> {
        let (found, right) = (self.inserted(device, form, theta)?.0, self.right().acceleration);
        let n = self.mass.len();
        let said = |what: String| Err(format!("{form:?}, n = {n}, theta = {theta}: {what}"));
        for (i, right) in right.iter().enumerate() {
            if right == [0.0; 3] && found.get(i) != [0.0; 3] {
                return said(format!("body {i} should feel nothing, found {:?}", found.get(i)));
            }
        }
        let ForceErrors { median, p99, max, .. } =
            ForceErrors::measure(&found, &(0..n).collect::<Vec<_>>(), &right);
        if median <= limits.median && p99 <= limits.p99 && max <= limits.max {
            return Ok(());
        }
        said(format!(
            "relative error: median {median:.1e}, p99 {p99:.1e}, max {max:.1e}, expected {limits:?}"
        ))
    }
}

fn strategy(form: TreeAlgorithm) -> TreeDeviceStrategy {
    TreeDeviceStrategy {
        form,
        precision: Precision::Single,
        order: Order::Monopole,
        leaf_size: 1,
        group_size: 32,
    }
}

fn in_words(error: DeviceError) -> String {
    error.to_string()
}

/// The largest errors that a variant may have.
#[derive(Clone, Copy, Debug)]
struct Limits {
    median: f64,
    p99: f64,
    max: f64,
}

impl Limits {
    /// A cell without its quadrupole errs by some (l / r)² of its pull. Measured on clusters of 33 to 5,000 bodies at theta from
    /// 0.3 to 0.9: 0.008, 0.045 and 0.08 theta² at most.
    fn of(theta: f64) -> Self {
        let theta2 = theta * theta;
        Self { median: 0.016 * theta2, p99: 0.09 * theta2, max: 0.16 * theta2 }
    }

    /// In a plane, or of a few heavy places: fewer partners whose errors even out.
    fn of_few(theta: f64) -> Self {
        let theta2 = theta * theta;
        Self { median: 0.05 * theta2, p99: 0.25 * theta2, max: 0.4 * theta2 }
    }

    /// On a line the pulls from both sides cancel, and somewhere they do so entirely.
    fn on_a_line(theta: f64) -> Self {
        Self { median: 0.15 * theta * theta, p99: f64::INFINITY, max: f64::INFINITY }
    }

    /// As for the direct sum: coordinates rounded to 2^-24 of their size, a softening of a hundredth.
    const ROUNDING: Self = Self { median: 2e-6, p99: 2e-5, max: 2e-4 };
}

/// A processor's OpenCL takes its time; there, few combinations stand for all.
fn is_slow(device: &Device) -> bool {
    device.properties().kind != DeviceKind::Gpu
}

fn against_the_plain_sum(device: &Device) -> Result<(), String> {
    for n in [1, 2, 33, 1000, 5000] {
        let system = TestSystem::cluster(n);
        for theta in [0.3, 0.5, 0.7, 0.9] {
            let forms = if n == 5000 && is_slow(device) { &[ALL][..] } else { &[ALL, NONE] };
            for form in forms {
                system.hold(device, *form, theta, Limits::of(theta))?;
            }
        }
    }
    // Nothing hides the rounding of a near pair's coordinates.
    let hard = TestSystem { eps: 0.0, ..TestSystem::cluster(1000) };
    hard.hold(device, ALL, 0.5, Limits { max: 0.4, ..Limits::of(0.5) })
}

/// The tree as it lies on the device.
struct Read {
    n: usize,
    node: Vec<[f32; 4]>,
    child: Vec<u32>,
    count: Vec<u32>,
    /// Bodies in the order in which a walk meets them.
    met: Vec<u32>,
    cells: u64,
}

impl Read {
    /// Mass and first moments of the bodies in a cell, summed anew.
    fn visit(&mut self, cell: usize) -> Result<[f64; 4], String> {
        let (mut sum, first) = ([0.0; 4], self.met.len());
        let children: Vec<u32> =
            self.child[8 * cell..][..8].iter().copied().take_while(|&node| node as i32 >= 0).collect();
        if cell > 0 && children.len() < 2 {
            return Err(format!("cell {cell} has {} children, expected 2 or more", children.len()));
        }
        self.cells += 1;
        for node in children {
            let part = match (node as usize).checked_sub(self.n) {
                Some(below) => self.visit(below)?,
                None => {
                    self.met.push(node);
                    let [x, y, z, m] = self.node[node as usize].map(f64::from);
                    [m * x, m * y, m * z, m]
                }
            };
            sum = std::array::from_fn(|c| sum[c] + part[c]);
        }
        let [x, y, z, mass] = self.node[self.n + cell].map(f64::from);
        let bodies = self.met.len() - first;
        // Each level rounds to 2^-24 of a place in a box two units across or less.
        let off =
            [x, y, z].iter().zip(&sum).map(|(c, moment)| (c * sum[3] - moment).abs()).fold(0.0, f64::max);
        if (mass - sum[3]).abs() > 2e-6 * sum[3] || off > 2e-6 * sum[3] || bodies != self.count[cell] as usize
        {
            let found = format!("mass {mass}, centre {:?}, {} bodies", [x, y, z], self.count[cell]);
            return Err(format!("cell {cell}: found {found}, expected moments {sum:?} of {bodies} bodies"));
        }
        Ok(sum)
    }
}

fn tree_is_a_tree(device: &Device) -> Result<(), String> {
    for system in
        [TestSystem::cluster(1), TestSystem::cluster(2), TestSystem::cluster(1000), on_few_places(1000)]
    {
        let n = system.mass.len();
        let tree = system.inserted(device, ALL, 0.5)?.1;
        let read = || {
            let (node, child) = (tree.node.to_vec()?, tree.child.to_vec()?);
            let read = Read { n, node, child, count: tree.count.to_vec()?, met: Vec::new(), cells: 0 };
            Ok((read, tree.order.to_vec()?, tree.report()?))
        };
        let (mut read, order, report) = read().map_err(in_words)?;
        read.visit(0)?;
        let Report { cells, .. } = report;
        if read.cells != cells || cells > n as u64 {
            return Err(format!("{cells} cells of {n} bodies, {} met", read.cells));
        }
        if read.met != order {
            return Err(format!("n = {n}: bodies are not in the order of the tree"));
        }
        read.met.sort_unstable();
        if !read.met.iter().copied().eq(0..n as u32) {
            return Err(format!("n = {n}: some body is not met just once"));
        }
    }
    Ok(())
}

/// An opening angle so small that nothing is accepted leaves the plain sum, in every variant.
fn all_opened(device: &Device) -> Result<(), String> {
    for form in variants() {
        for n in if is_slow(device) { [33, 300] } else { [33, 2000] } {
            TestSystem::cluster(n).hold(device, form, 1e-9, Limits::ROUNDING)?;
        }
    }
    Ok(())
}

fn degenerate(device: &Device) -> Result<(), String> {
    let flat = |_, [x, y, _]: [f64; 3]| [x, y, 0.3];
    let line = |_, [x, ..]: [f64; 3]| [1.0 + x, 1.0 + 2.0 * x, 1.0 - x];
    let axis = |_, [x, ..]: [f64; 3]| [0.0, x, 0.0];
    let point = |_, _| [0.4, -0.7, 12.3];
    for form in [ALL, NONE] {
        for n in [2, 33, 1000] {
            // Nothing accepted: the plain sum, but for places that lie off the origin, where f32 has fewer digits.
            let limits = Limits { p99: 1e-3, max: 1e-1, ..Limits::ROUNDING };
            TestSystem::cluster(n).moved(line).hold(device, form, 1e-9, limits)?;
            for theta in [0.3, 0.7] {
                TestSystem::cluster(n).moved(flat).hold(device, form, theta, Limits::of_few(theta))?;
                TestSystem::cluster(n).moved(line).hold(device, form, theta, Limits::on_a_line(theta))?;
                TestSystem::cluster(n).moved(axis).hold(device, form, theta, Limits::on_a_line(theta))?;
                for eps in [0.01, 0.0] {
                    let system = TestSystem { eps, ..TestSystem::cluster(n).moved(point) };
                    // The sum without softening is no number.
                    let right = vec![0.0; n];
                    let found = system.inserted(device, form, theta)?.0;
                    if [found.x, found.y, found.z].iter().any(|column| *column != right) {
                        return Err(format!("{form:?}, n = {n}, eps = {eps}: a point pulls itself"));
                    }
                }
            }
        }
    }
    Ok(())
}

/// All bodies on a few places.
fn on_few_places(n: usize) -> TestSystem {
    let places = TestSystem::cluster(11).position;
    TestSystem::cluster(n).moved(|i, _| places.get(i * i % 11))
}

fn shared_places(device: &Device) -> Result<(), String> {
    for form in [ALL, NONE] {
        for n in [2, 33, 1000] {
            on_few_places(n).hold(device, form, 0.5, Limits::of_few(0.5))?;
            // Pairs so near that they part only far down, and pairs that share their point of the grid and no more.
            for distance in [1e-7, 1e-12] {
                let pairs = TestSystem::cluster(n).position;
                let beside = |i: usize, p: [f64; 3]| match i % 2 {
                    0 => p,
                    _ => pairs.get(i - 1).map(|c| c + distance),
                };
                TestSystem::cluster(n).moved(beside).hold(device, form, 0.5, Limits::of_few(0.5))?;
            }
        }
    }
    Ok(())
}

/// One body so far out that the others share few cells, few points of the grid, or one.
fn far_body(device: &Device) -> Result<(), String> {
    for form in [ALL, NONE] {
        for distance in [1e6, 1e9, 1e10] {
            for i in [0, 17] {
                let far = |k, p: [f64; 3]| if k == i { [distance, -2.0 * distance, distance] } else { p };
                TestSystem::cluster(300).moved(far).hold(device, form, 0.5, Limits::of(0.5))?;
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
        for form in [ALL, NONE] {
            system.hold(device, form, 0.5, Limits::of_few(0.5))?;
        }
        let massless = TestSystem { mass: vec![0.0; n], ..system };
        massless.hold(device, ALL, 0.5, Limits::ROUNDING)?;
    }
    Ok(())
}

/// Throttling changes no bit. Nor does the order where bodies walk alone: with a vote it changes who votes together.
fn variants_agree(device: &Device) -> Result<(), String> {
    let system = TestSystem::cluster(if is_slow(device) { 1000 } else { 20_000 });
    let found = |sorted, vote, throttled| {
        let form = TreeAlgorithm::Insertion { sorted, vote, throttled };
        system.inserted(device, form, 0.6).map(|(found, _)| found)
    };
    let alone = found(false, false, false)?;
    for (sorted, throttled) in [(false, true), (true, false), (true, true)] {
        if found(sorted, false, throttled)? != alone {
            return Err(format!("sorted {sorted}, throttled {throttled}: other bits than without"));
        }
    }
    for sorted in [false, true] {
        let votes = found(sorted, true, false)?;
        if found(sorted, true, true)? != votes {
            return Err(format!("vote, sorted {sorted}: other bits when throttled"));
        }
        // More cells are opened, none fewer.
        let all: Vec<usize> = (0..system.mass.len()).collect();
        let error = ForceErrors::measure(&votes, &all, &alone).p99;
        if error > Limits::of(0.6).p99 {
            return Err(format!("vote, sorted {sorted}: {error:.1e} from the walk without"));
        }
    }
    Ok(())
}

/// Whichever thread won which race, and whatever the tree held before.
fn same_bits(device: &Device) -> Result<(), String> {
    let n = 3000;
    for system in [TestSystem::cluster(n), on_few_places(n)] {
        for form in [ALL, NONE] {
            let (first, mut insertion) = system.inserted(device, form, 0.7)?;
            let other =
                TestSystem { eps: 1.0, ..TestSystem::cluster(n).moved(|_, [x, y, z]| [9.0 * y, z, -x]) };
            for _ in 0..3 {
                other.with(&mut insertion, 0.3, Insertion::queue).map_err(in_words)?;
                if system.with(&mut insertion, 0.7, Insertion::stages).map_err(in_words)? != first {
                    return Err(format!("{form:?}: two evaluations differ"));
                }
            }
        }
    }
    Ok(())
}
