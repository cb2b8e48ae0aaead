//! Every kernel and strategy against the plain sum, on the device at hand: `orrery selftest`, and the tests.

use orrery_device::check::Check;
use orrery_device::{Device, DeviceKind};
use orrery_model::Vec3s;
use orrery_model::rng::Draws;

use super::device::{Columns, DeviceDirect, DirectDeviceStrategy, DirectKernel};
use super::rungs::{RungKind, rungs};
use crate::accuracy::ForceErrors;
use crate::settings::Precision;
use crate::solver::{Problem, jerk, reference};

/// Sizes that are no multiple of anything, and one that is of all.
const SIZES: [usize; 8] = [1, 2, 31, 33, 257, 1000, 1024, 2053];

/// All of them.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("direct: {name}"), run };
    vec![
        check("tiled, single", |device| tiled(device, Precision::Single)),
        check("tiled, mixed", |device| tiled(device, Precision::Mixed)),
        check("tiled, double", |device| tiled(device, Precision::Double)),
        check("every pair once, single", |device| pairs_once(device, Precision::Single)),
        check("every pair once, mixed", |device| pairs_once(device, Precision::Mixed)),
        check("the ladder's rungs", ladder),
        check("unequal masses and massless bodies", unequal_masses),
        check("without softening", without_softening),
        check("a close pair keeps its digits in mixed precision", close_pair),
        check("scales of metres and parsecs", scales),
        check("far bodies and heavy ones", far_body),
        check("potentials", potentials),
        check("jerks", jerks),
        check("the same bits twice", same_bits),
    ]
}

/// Bodies for the checks.
struct TestSystem {
    position: Vec3s,
    mass: Vec<f64>,
    eps: f64,
}

impl TestSystem {
    /// Dense towards the middle, masses equal.
    fn cluster(n: usize) -> Self {
        let mut position = Vec3s::default();
        for i in 0..n as u64 {
            let mut draws = Draws::new(n as u64, 1, i);
            let direction = [draws.normal(), draws.normal(), draws.normal()];
            let radius = draws.uniform().powi(2) + 1e-3;
            let norm = direction.iter().map(|c| c * c).sum::<f64>().sqrt();
            position.push(direction.map(|c| c * radius / norm));
        }
        Self { position, mass: vec![1.0 / n as f64; n], eps: 0.01 }
    }

    fn with_unequal_masses(n: usize) -> Self {
        let mut system = Self::cluster(n);
        for (i, mass) in system.mass.iter_mut().enumerate() {
            let draw = Draws::new(n as u64, 2, i as u64).uniform();
            *mass = if i % 7 == 3 { 0.0 } else { *mass * 10f64.powf(4.0 * draw - 2.0) };
        }
        system
    }

    fn problem(&self) -> Problem<'_> {
        let Self { position, mass, eps } = self;
        Problem { position, mass, g: 1.5, eps: *eps, with_potential: false }
    }

    /// Accelerations, and potentials if they are asked for, by `strategy`.
    fn on(
        &self,
        device: &Device,
        strategy: &DirectDeviceStrategy,
        with_potential: bool,
    ) -> Result<(Vec3s, Vec<f64>), String> {
        let n = self.mass.len();
        let run = || {
            let Vec3s { x, y, z } = &self.position;
            let position = [device.upload(x)?, device.upload(y)?, device.upload(z)?];
            let found = [device.zeros(n)?, device.zeros(n)?, device.zeros(n)?];
            let (mass, potential) = (device.upload(&self.mass)?, device.zeros(n)?);
            let mut direct = DeviceDirect::new(device, n, strategy)?;
            let Problem { g, eps, .. } = self.problem();
            let wanted = with_potential.then_some(&potential);
            direct.forces(columns(&position), &mass, g, eps, columns(&found), wanted)?;
            let acceleration = Vec3s { x: found[0].to_vec()?, y: found[1].to_vec()?, z: found[2].to_vec()? };
            Ok((acceleration, potential.to_vec()?))
        };
        run().map_err(|error: orrery_device::DeviceError| error.to_string())
    }

    fn right(&self) -> (Vec3s, Vec<f64>) {
        reference::forces_on(&self.problem(), &(0..self.mass.len()).collect::<Vec<_>>())
    }

    fn errors(&self, found: &Vec3s) -> ForceErrors {
        ForceErrors::measure(found, &(0..self.mass.len()).collect::<Vec<_>>(), &self.right().0)
    }

    /// Holds `strategy` against the plain sum.
    fn hold(&self, device: &Device, strategy: &DirectDeviceStrategy, limits: Limits) -> Result<(), String> {
        let found = self.on(device, strategy, false)?.0;
        let errors = self.errors(&found);
        // A relative error has nothing to say of a body that should feel nothing.
        for (i, right) in self.right().0.iter().enumerate() {
            if right == [0.0; 3] && found.get(i) != [0.0; 3] {
                let (found, words) = (found.get(i), strategy.describe());
                return Err(format!("{words}: body {i} should feel nothing, found {found:?}"));
            }
        }
        if errors.median <= limits.median && errors.max <= limits.max {
            return Ok(());
        }
        let (n, words) = (self.mass.len(), strategy.describe());
        let ForceErrors { median, max, .. } = errors;
        let Limits { median: most, max: at_most } = limits;
        Err(format!(
            "{words}, n = {n}: relative error {median:.1e} (median) and {max:.1e} (largest), expected at most {most:.1e} and {at_most:.1e}"
        ))
    }
}

fn columns(buffers: &[orrery_device::Buffer<f64>; 3]) -> Columns<'_> {
    Columns { x: &buffers[0], y: &buffers[1], z: &buffers[2] }
}

/// The largest errors that a strategy may have.
#[derive(Clone, Copy)]
struct Limits {
    median: f64,
    max: f64,
}

impl Limits {
    /// Single: coordinates are rounded by 2^-24 of their size, and the softening is a hundredth of it, so that a near pair may
    /// err by some 1e-5; the root has two ulp. Mixed: products and roots only. Double: the order of the sum.
    fn of(precision: Precision) -> Self {
        match precision {
            Precision::Single => Self { median: 2e-6, max: 2e-4 },
            Precision::Mixed => Self { median: 5e-7, max: 1e-5 },
            Precision::Double => Self { median: 1e-14, max: 1e-11 },
        }
    }
}

/// A processor's OpenCL takes its time; there, few combinations stand for all.
fn is_slow(device: &Device) -> bool {
    device.properties().kind != DeviceKind::Gpu
}

fn tiled(device: &Device, precision: Precision) -> Result<(), String> {
    let shapes: &[(u32, u32, u32, u32)] = if is_slow(device) {
        &[(32, 1, 1, 1), (64, 2, 4, 0), (96, 3, 8, 5)]
    } else {
        &[
            (32, 1, 1, 1),
            (64, 2, 4, 0),
            (96, 3, 8, 5),
            (128, 1, 8, 0),
            (256, 4, 32, 7),
            (256, 2, 2, 0),
            (512, 1, 4, 3),
        ]
    };
    for &(block, targets, unroll, splits) in shapes {
        let strategy =
            DirectDeviceStrategy { form: DirectKernel::Tiled, precision, block, targets, unroll, splits };
        for n in SIZES {
            TestSystem::cluster(n).hold(device, &strategy, Limits::of(precision))?;
        }
    }
    Ok(())
}

fn pairs_once(device: &Device, precision: Precision) -> Result<(), String> {
    // Odd and even numbers of blocks, one block alone, several rounds, groups that meet several blocks.
    let shapes: &[(u32, u32, u32, u32)] = if is_slow(device) {
        &[(32, 1, 4, 3), (64, 2, 1, 0)]
    } else {
        &[(32, 1, 4, 3), (64, 2, 1, 0), (64, 3, 8, 2), (128, 8, 4, 0), (256, 8, 4, 2), (256, 4, 32, 0)]
    };
    for &(block, targets, unroll, splits) in shapes {
        let strategy =
            DirectDeviceStrategy { form: DirectKernel::PairsOnce, precision, block, targets, unroll, splits };
        for n in if is_slow(device) { &SIZES[..6] } else { &SIZES[..] } {
            TestSystem::cluster(*n).hold(device, &strategy, Limits::of(precision))?;
        }
    }
    if !is_slow(device) {
        // So many small blocks that one round does not hold all distances.
        let strategy = DirectDeviceStrategy {
            form: DirectKernel::PairsOnce,
            precision,
            block: 32,
            targets: 1,
            unroll: 4,
            splits: 1,
        };
        TestSystem::cluster(20_011).hold(device, &strategy, Limits::of(precision))?;
    }
    Ok(())
}

fn ladder(device: &Device) -> Result<(), String> {
    for rung in rungs(Some(device)) {
        let strategy = match rung.kind {
            RungKind::Cpu(..) => continue,
            RungKind::Device(strategy) => strategy,
            RungKind::Default => DirectDeviceStrategy::default_for(device, 1000, rung.precision),
        };
        for n in if is_slow(device) { [1, 33, 500] } else { [1, 257, 4099] } {
            let held = TestSystem::cluster(n).hold(device, &strategy, Limits::of(rung.precision));
            held.map_err(|message| format!("{}: {message}", rung.name))?;
        }
    }
    Ok(())
}

/// The forms that a run may take.
fn production(device: &Device) -> Vec<DirectDeviceStrategy> {
    let mut strategies = Vec::new();
    for precision in [Precision::Single, Precision::Mixed, Precision::Double] {
        strategies.push(DirectDeviceStrategy {
            form: DirectKernel::Tiled,
            precision,
            block: 64,
            targets: 2,
            unroll: 4,
            splits: 0,
        });
        if precision != Precision::Double {
            let (form, splits) = (DirectKernel::PairsOnce, 0);
            strategies.push(DirectDeviceStrategy {
                form,
                precision,
                block: 64,
                targets: 2,
                unroll: 4,
                splits,
            });
        }
    }
    strategies.retain(|strategy| strategy.fits(device));
    strategies
}

fn unequal_masses(device: &Device) -> Result<(), String> {
    for strategy in production(device) {
        for n in [33, 517] {
            // A light body's pull counts as much in its own terms as a heavy one's, and errs as much.
            let Limits { median, max } = Limits::of(strategy.precision);
            let limits = Limits { median, max: 3.0 * max };
            TestSystem::with_unequal_masses(n).hold(device, &strategy, limits)?;
        }
    }
    Ok(())
}

fn without_softening(device: &Device) -> Result<(), String> {
    for strategy in production(device) {
        let system = TestSystem { eps: 0.0, ..TestSystem::cluster(517) };
        let limits = match strategy.precision {
            // Nothing hides the rounding of a near pair's coordinates.
            Precision::Single => Limits { median: 1e-5, max: 0.1 },
            precision => Limits::of(precision),
        };
        system.hold(device, &strategy, limits)?;
    }
    Ok(())
}

/// Two bodies a millionth apart far from the origin: in f32 their distance is but a few digits.
fn close_pair(device: &Device) -> Result<(), String> {
    for strategy in production(device).into_iter().filter(|s| s.precision != Precision::Single) {
        for n in [200, 517] {
            let mut system = TestSystem { eps: 0.0, ..TestSystem::cluster(n) };
            system.position.set(0, [0.7, -0.3, 0.4]);
            // In another block, and in the same.
            for partner in [n - 1, 1] {
                system.position.set(partner, [0.7 + 1e-6, -0.3 + 3e-7, 0.4]);
                system.hold(device, &strategy, Limits::of(strategy.precision))?;
                system.position.set(partner, [-0.5, 0.1 + partner as f64 * 1e-3, 0.2]);
            }
        }
    }
    Ok(())
}

fn scales(device: &Device) -> Result<(), String> {
    for strategy in production(device) {
        for (length, mass) in [(1e20, 1e36), (1e-15, 1e-20), (3e60, 1e-90)] {
            let mut system = TestSystem::cluster(300);
            for i in 0..300 {
                let place = system.position.get(i);
                // Off the origin as well, by as much as the bodies are apart.
                system.position.set(i, place.map(|c| (c + 1.0) * length));
            }
            system.mass.iter_mut().for_each(|m| *m *= mass);
            system.eps *= length;
            let Limits { median, max } = Limits::of(strategy.precision);
            let limits = Limits { median: 3.0 * median, max: 3.0 * max };
            system.hold(device, &strategy, limits)?;
        }
    }
    Ok(())
}

/// One body a million times as far out as the others must not cost them their digits.
fn far_body(device: &Device) -> Result<(), String> {
    for strategy in production(device) {
        // In the frame's sample and not, farther and farther.
        for (i, distance) in [(17, 1e6), (0, 1e6), (0, 1e10), (17, 1e10)] {
            let mut system = TestSystem::cluster(300);
            system.position.set(i, [distance, 2.0 * distance, -distance]);
            system.hold(device, &strategy, Limits::of(strategy.precision))?;
        }
        // So far that f32 has no number for its force, nor for its place: the others must not notice.
        for (i, distance) in [(0, 1e13), (17, 1e20), (0, 1e60), (17, 1e60)] {
            let mut system = TestSystem::cluster(300);
            system.position.set(i, [distance, 0.0, 0.0]);
            let mut found = system.on(device, &strategy, false)?.0;
            found.set(i, system.right().0.get(i));
            let errors = system.errors(&found);
            if errors.max > Limits::of(strategy.precision).max {
                let words = strategy.describe();
                return Err(format!("{words}: error {:.1e} with a body at {distance:e}", errors.max));
            }
        }
    }
    // One heavy body among massless ones.
    for strategy in production(device) {
        let mut system = TestSystem { mass: vec![0.0; 100], ..TestSystem::cluster(100) };
        system.mass[1] = 1e41;
        system.hold(device, &strategy, Limits::of(strategy.precision))?;
    }
    Ok(())
}

fn potentials(device: &Device) -> Result<(), String> {
    for precision in [Precision::Single, Precision::Mixed, Precision::Double] {
        for n in [1, 33, 1000] {
            let system = TestSystem::with_unequal_masses(n);
            let strategy = DirectDeviceStrategy::default_for(device, n, precision);
            let (found, right) = (system.on(device, &strategy, true)?.1, system.right().1);
            let error = |(a, b): (&f64, &f64)| if *b == 0.0 { a.abs() } else { ((a - b) / b).abs() };
            let largest = found.iter().zip(&right).map(error).fold(0.0, f64::max);
            let limit = Limits::of(precision).max;
            if largest.is_nan() || largest > limit {
                return Err(format!(
                    "{precision:?}, n = {n}: error {largest:.1e}, expected at most {limit:.1e}"
                ));
            }
        }
    }
    Ok(())
}

fn jerks(device: &Device) -> Result<(), String> {
    for n in [1, 33, 300] {
        let (system, moving) = (TestSystem::with_unequal_masses(n), TestSystem::cluster(n + 1));
        let take = |column: &[f64]| column[..n].to_vec();
        let Vec3s { x, y, z } = &moving.position;
        let velocity = Vec3s { x: take(x), y: take(y), z: take(z) };
        let right = jerk::accelerations_and_jerks(&system.problem(), &velocity);
        let run = || {
            let upload = |v: &Vec3s| Ok([device.upload(&v.x)?, device.upload(&v.y)?, device.upload(&v.z)?]);
            let (position, velocity, mass) =
                (upload(&system.position)?, upload(&velocity)?, device.upload(&system.mass)?);
            let (a, j) = (upload(&Vec3s::zeros(n))?, upload(&Vec3s::zeros(n))?);
            let strategy = DirectDeviceStrategy::default_for(device, n, Precision::Double);
            let mut direct = DeviceDirect::new(device, n, &strategy)?;
            let (position, velocity) = (columns(&position), columns(&velocity));
            direct.forces_and_jerks(position, velocity, &mass, 1.5, system.eps, columns(&a), columns(&j))?;
            let read = |v: [orrery_device::Buffer<f64>; 3]| {
                Ok(Vec3s { x: v[0].to_vec()?, y: v[1].to_vec()?, z: v[2].to_vec()? })
            };
            Ok((read(a)?, read(j)?))
        };
        let found = run().map_err(|error: orrery_device::DeviceError| error.to_string())?;
        let all: Vec<usize> = (0..n).collect();
        for (found, right, what) in [(found.0, right.0, "acceleration"), (found.1, right.1, "jerk")] {
            let error = ForceErrors::measure(&found, &all, &right).max;
            if error > 1e-10 {
                return Err(format!("{what}, n = {n}: error {error:.1e}, expected at most 1e-10"));
            }
        }
    }
    Ok(())
}

fn same_bits(device: &Device) -> Result<(), String> {
    for strategy in production(device) {
        let system = TestSystem::with_unequal_masses(1000);
        let (first, second) =
            (system.on(device, &strategy, false)?.0, system.on(device, &strategy, false)?.0);
        if first != second {
            return Err(format!("{}: two evaluations differ", strategy.describe()));
        }
    }
    Ok(())
}
