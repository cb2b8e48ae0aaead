//! Checks of every kernel and strategy against the reference implementation, on one device. They
//! run in `orrery selftest` and in the tests.

mod target_range;

use orrery_device::check::Check;
use orrery_device::{Device, DeviceKind};
use orrery_model::rng::Draws;
use orrery_model::{Precision, Vec3s};

use super::device::{Columns, DeviceDirect, DirectDeviceStrategy, DirectKernel, JerkRequest};
use crate::accuracy::{ForceErrors, largest_relative_error};
use crate::solver::{ForceProblem, jerk, reference};

/// Numbers of bodies: small and odd ones, and 1024, which is a multiple of every block size.
const SIZES: [usize; 8] = [1, 2, 31, 33, 257, 1000, 1024, 2053];

/// Returns all checks of this module.
pub fn checks() -> Vec<Check> {
    let check = |name: &str, run| Check { name: format!("direct: {name}"), run };
    vec![
        check("tiled, single", |device| check_tiled(device, Precision::Single)),
        check("tiled, mixed", |device| check_tiled(device, Precision::Mixed)),
        check("tiled, double", |device| check_tiled(device, Precision::Double)),
        check("every pair once, single", |device| check_pairs_once(device, Precision::Single)),
        check("every pair once, mixed", |device| check_pairs_once(device, Precision::Mixed)),
        check("unequal masses and massless bodies", check_unequal_masses),
        check("without softening", check_without_softening),
        check("a close pair keeps its digits in mixed precision", check_close_pair),
        check("scales of metres and parsecs", check_scales),
        check("far bodies and heavy ones", check_far_body),
        check("potentials", check_potentials),
        check("jerks", check_jerks),
        check("forces on a range of targets", target_range::check_target_ranges),
        check("the same bits twice", check_same_bits),
    ]
}

/// Bodies for the checks.
struct DirectTestSystem {
    position: Vec3s,
    mass: Vec<f64>,
    eps: f64,
}

impl DirectTestSystem {
    /// Returns a cluster that is dense towards the centre, with equal masses.
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

    /// Returns a cluster with masses over four decades. Every seventh body has no mass.
    fn with_unequal_masses(n: usize) -> Self {
        let mut system = Self::cluster(n);
        for (i, mass) in system.mass.iter_mut().enumerate() {
            let draw = Draws::new(n as u64, 2, i as u64).uniform();
            *mass = if i % 7 == 3 { 0.0 } else { *mass * 10f64.powf(4.0 * draw - 2.0) };
        }
        system
    }

    fn problem(&self) -> ForceProblem<'_> {
        let Self { position, mass, eps } = self;
        ForceProblem { position, mass, g: 1.5, eps: *eps, with_potential: false }
    }

    /// Computes accelerations on the device, and potentials if requested (else zeros).
    fn compute_on(
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
            let ForceProblem { g, eps, .. } = self.problem();
            let requested = with_potential.then_some(&potential);
            direct.forces(columns(&position), &mass, g, eps, columns(&found), requested)?;
            let acceleration = Vec3s { x: found[0].to_vec()?, y: found[1].to_vec()?, z: found[2].to_vec()? };
            Ok((acceleration, potential.to_vec()?))
        };
        run().map_err(|error: orrery_device::DeviceError| error.to_string())
    }

    /// Returns accelerations and potentials of the reference implementation.
    fn expected(&self) -> (Vec3s, Vec<f64>) {
        reference::forces_on(&self.problem(), &(0..self.mass.len()).collect::<Vec<_>>())
    }

    fn force_errors(&self, found: &Vec3s) -> ForceErrors {
        ForceErrors::measure(found, &(0..self.mass.len()).collect::<Vec<_>>(), &self.expected().0)
    }

    /// Compares the accelerations of `strategy` with the reference implementation.
    fn check(
        &self,
        device: &Device,
        strategy: &DirectDeviceStrategy,
        limits: DirectErrorLimits,
    ) -> Result<(), String> {
        let found = self.compute_on(device, strategy, false)?.0;
        self.compare(&found, limits).map_err(|message| format!("{}, {message}", strategy.describe()))
    }

    /// Compares accelerations with the reference implementation.
    fn compare(&self, found: &Vec3s, limits: DirectErrorLimits) -> Result<(), String> {
        let (n, errors) = (self.mass.len(), self.force_errors(found));
        // A force that should be zero has no relative error, so it is checked here.
        for (i, expected) in self.expected().0.iter().enumerate() {
            if expected == [0.0; 3] && found.get(i) != [0.0; 3] {
                let found = found.get(i);
                return Err(format!("n = {n}: acceleration of body {i} is {found:?}, expected 0"));
            }
        }
        if errors.median <= limits.median && errors.max <= limits.max {
            return Ok(());
        }
        let ForceErrors { median, max, .. } = errors;
        let DirectErrorLimits { median: median_limit, max: max_limit } = limits;
        Err(format!(
            "n = {n}: relative error {median:.1e} (median) and {max:.1e} (largest), \
             expected at most {median_limit:.1e} and {max_limit:.1e}"
        ))
    }
}

fn columns(buffers: &[orrery_device::Buffer<f64>; 3]) -> Columns<'_> {
    Columns { x: &buffers[0], y: &buffers[1], z: &buffers[2] }
}

/// Upper limits of the relative force errors.
#[derive(Clone, Copy)]
struct DirectErrorLimits {
    median: f64,
    max: f64,
}

impl DirectErrorLimits {
    /// Returns the limits of a precision.
    ///
    /// Single: coordinates are rounded to 2^-24 of their size, and the softening is a hundredth of
    /// it. The error of a near pair is therefore about 1e-5. The reciprocal square root is within 2
    /// ulp. Mixed: errors of products and reciprocal square roots only. Double: errors of summation
    /// order.
    fn for_precision(precision: Precision) -> Self {
        match precision {
            Precision::Single => Self { median: 2e-6, max: 2e-4 },
            Precision::Mixed => Self { median: 5e-7, max: 1e-5 },
            Precision::Double => Self { median: 1e-14, max: 1e-11 },
        }
    }
}

/// Returns whether the device is slow, such as OpenCL on a CPU. Fewer combinations are tested
/// there.
pub(crate) fn is_slow(device: &Device) -> bool {
    device.properties().kind != DeviceKind::Gpu
}

/// Returns a strategy for each (block, targets, unroll, splits).
fn with_shapes(
    kernel: DirectKernel,
    precision: Precision,
    shapes: &[(u32, u32, u32, u32)],
) -> Vec<DirectDeviceStrategy> {
    let strategy = |&(block, targets, unroll, splits): &(u32, u32, u32, u32)| DirectDeviceStrategy {
        kernel,
        precision,
        block,
        targets,
        unroll,
        splits,
    };
    shapes.iter().map(strategy).collect()
}

/// Returns the strategies of the tiled kernel that the checks run.
pub(crate) fn tiled_strategies(device: &Device, precision: Precision) -> Vec<DirectDeviceStrategy> {
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
    with_shapes(DirectKernel::Tiled, precision, shapes)
}

fn check_tiled(device: &Device, precision: Precision) -> Result<(), String> {
    for strategy in tiled_strategies(device, precision) {
        for n in SIZES {
            DirectTestSystem::cluster(n).check(
                device,
                &strategy,
                DirectErrorLimits::for_precision(precision),
            )?;
        }
    }
    Ok(())
}

/// Returns the strategies of the kernel with every pair once that the checks run: odd and even
/// numbers of body blocks, a single one, several rounds, several offsets per chunk.
pub(crate) fn pairs_once_strategies(device: &Device, precision: Precision) -> Vec<DirectDeviceStrategy> {
    let shapes: &[(u32, u32, u32, u32)] = if is_slow(device) {
        &[(32, 1, 4, 3), (64, 2, 1, 0)]
    } else {
        &[(32, 1, 4, 3), (64, 2, 1, 0), (64, 3, 8, 2), (128, 8, 4, 0), (256, 8, 4, 2), (256, 4, 32, 0)]
    };
    with_shapes(DirectKernel::PairsOnce, precision, shapes)
}

fn check_pairs_once(device: &Device, precision: Precision) -> Result<(), String> {
    for strategy in pairs_once_strategies(device, precision) {
        for n in if is_slow(device) { &SIZES[..6] } else { &SIZES[..] } {
            DirectTestSystem::cluster(*n).check(
                device,
                &strategy,
                DirectErrorLimits::for_precision(precision),
            )?;
        }
    }
    if !is_slow(device) {
        // Many small body blocks: one round does not have memory for all offsets.
        let strategy = DirectDeviceStrategy {
            kernel: DirectKernel::PairsOnce,
            precision,
            block: 32,
            targets: 1,
            unroll: 4,
            splits: 1,
        };
        DirectTestSystem::cluster(20_011).check(
            device,
            &strategy,
            DirectErrorLimits::for_precision(precision),
        )?;
    }
    Ok(())
}

/// Returns all kernels, in all precisions that fit the device.
pub(crate) fn production_strategies(device: &Device) -> Vec<DirectDeviceStrategy> {
    let mut strategies = Vec::new();
    for kernel in [DirectKernel::Tiled, DirectKernel::PairsOnce] {
        for precision in [Precision::Single, Precision::Mixed, Precision::Double] {
            let (block, targets, unroll, splits) = (64, 2, 4, 0);
            strategies.push(DirectDeviceStrategy { kernel, precision, block, targets, unroll, splits });
        }
    }
    // `PairsOnce` has no f64 version.
    strategies.retain(|strategy| strategy.fits(device));
    strategies
}

fn check_unequal_masses(device: &Device) -> Result<(), String> {
    for strategy in production_strategies(device) {
        for n in [33, 517] {
            // Forces of light bodies count as much as those of heavy ones, and have larger errors.
            let DirectErrorLimits { median, max } = DirectErrorLimits::for_precision(strategy.precision);
            let limits = DirectErrorLimits { median, max: 3.0 * max };
            DirectTestSystem::with_unequal_masses(n).check(device, &strategy, limits)?;
        }
    }
    Ok(())
}

fn check_without_softening(device: &Device) -> Result<(), String> {
    for strategy in production_strategies(device) {
        let system = DirectTestSystem { eps: 0.0, ..DirectTestSystem::cluster(517) };
        let limits = match strategy.precision {
            // Without softening, rounded coordinates of near pairs give large errors.
            Precision::Single => DirectErrorLimits { median: 1e-5, max: 0.1 },
            precision => DirectErrorLimits::for_precision(precision),
        };
        system.check(device, &strategy, limits)?;
    }
    Ok(())
}

/// Two bodies at a distance of 1e-6 far from the origin: in f32 that distance has only a few
/// digits.
fn check_close_pair(device: &Device) -> Result<(), String> {
    for strategy in production_strategies(device).into_iter().filter(|s| s.precision != Precision::Single) {
        for n in [200, 517] {
            let mut system = DirectTestSystem { eps: 0.0, ..DirectTestSystem::cluster(n) };
            system.position.set(0, [0.7, -0.3, 0.4]);
            // In another body block, and in the same.
            for partner in [n - 1, 1] {
                system.position.set(partner, [0.7 + 1e-6, -0.3 + 3e-7, 0.4]);
                system.check(device, &strategy, DirectErrorLimits::for_precision(strategy.precision))?;
                system.position.set(partner, [-0.5, 0.1 + partner as f64 * 1e-3, 0.2]);
            }
        }
    }
    Ok(())
}

fn check_scales(device: &Device) -> Result<(), String> {
    for strategy in production_strategies(device) {
        for (length, mass) in [(1e20, 1e36), (1e-15, 1e-20), (3e60, 1e-90)] {
            let mut system = DirectTestSystem::cluster(300);
            for i in 0..300 {
                let position = system.position.get(i);
                // Also shifted from the origin, by the size of the cluster.
                system.position.set(i, position.map(|c| (c + 1.0) * length));
            }
            system.mass.iter_mut().for_each(|m| *m *= mass);
            system.eps *= length;
            let DirectErrorLimits { median, max } = DirectErrorLimits::for_precision(strategy.precision);
            let limits = DirectErrorLimits { median: 3.0 * median, max: 3.0 * max };
            system.check(device, &strategy, limits)?;
        }
    }
    Ok(())
}

/// A body a million times as far out as the others must not change their accuracy.
fn check_far_body(device: &Device) -> Result<(), String> {
    for strategy in production_strategies(device) {
        // Body 0 is in the sample of the frame, body 17 is not.
        for (i, distance) in [(17, 1e6), (0, 1e6), (0, 1e10), (17, 1e10)] {
            let mut system = DirectTestSystem::cluster(300);
            system.position.set(i, [distance, 2.0 * distance, -distance]);
            system.check(device, &strategy, DirectErrorLimits::for_precision(strategy.precision))?;
        }
        // So far out that f32 cannot represent its force or its position. The others must be
        // unaffected.
        for (i, distance) in [(0, 1e13), (17, 1e20), (0, 1e60), (17, 1e60)] {
            let mut system = DirectTestSystem::cluster(300);
            system.position.set(i, [distance, 0.0, 0.0]);
            let mut found = system.compute_on(device, &strategy, false)?.0;
            found.set(i, system.expected().0.get(i));
            let (error, limit) =
                (system.force_errors(&found).max, DirectErrorLimits::for_precision(strategy.precision).max);
            if error.is_nan() || error > limit {
                let strategy = strategy.describe();
                return Err(format!(
                    "{strategy}: error {error:.1e} with a body at {distance:e}, expected at most {limit:.1e}"
                ));
            }
        }
    }
    // One heavy body among massless ones.
    for strategy in production_strategies(device) {
        let mut system = DirectTestSystem { mass: vec![0.0; 100], ..DirectTestSystem::cluster(100) };
        system.mass[1] = 1e41;
        system.check(device, &strategy, DirectErrorLimits::for_precision(strategy.precision))?;
    }
    Ok(())
}

fn check_potentials(device: &Device) -> Result<(), String> {
    for precision in [Precision::Single, Precision::Mixed, Precision::Double] {
        for n in [1, 33, 1000] {
            let system = DirectTestSystem::with_unequal_masses(n);
            let strategy = DirectDeviceStrategy::default_for(device, n, precision);
            let (found, expected) = (system.compute_on(device, &strategy, true)?.1, system.expected().1);
            compare_potentials(&found, &expected, DirectErrorLimits::for_precision(precision).max)
                .map_err(|message| format!("{precision:?}, n = {n}: {message}"))?;
        }
    }
    Ok(())
}

fn compare_potentials(found: &[f64], expected: &[f64], limit: f64) -> Result<(), String> {
    let largest = largest_relative_error(found, expected);
    if largest <= limit {
        return Ok(());
    }
    Err(format!("relative error of the potential {largest:.1e}, expected at most {limit:.1e}"))
}

fn check_jerks(device: &Device) -> Result<(), String> {
    for n in [1, 33, 300] {
        let (system, moving) = (DirectTestSystem::with_unequal_masses(n), DirectTestSystem::cluster(n + 1));
        let take = |column: &[f64]| column[..n].to_vec();
        let Vec3s { x, y, z } = &moving.position;
        let velocity = Vec3s { x: take(x), y: take(y), z: take(z) };
        let expected = jerk::accelerations_and_jerks(&system.problem(), &velocity);
        let run = || {
            let upload = |v: &Vec3s| Ok([device.upload(&v.x)?, device.upload(&v.y)?, device.upload(&v.z)?]);
            let (position, velocity, mass) =
                (upload(&system.position)?, upload(&velocity)?, device.upload(&system.mass)?);
            let (a, j) = (upload(&Vec3s::zeros(n))?, upload(&Vec3s::zeros(n))?);
            let strategy = DirectDeviceStrategy::default_for(device, n, Precision::Double);
            let mut direct = DeviceDirect::new(device, n, &strategy)?;
            direct.forces_and_jerks(&JerkRequest {
                position: columns(&position),
                velocity: columns(&velocity),
                mass: &mass,
                g: 1.5,
                eps: system.eps,
                acceleration: columns(&a),
                jerk: columns(&j),
            })?;
            let read = |v: [orrery_device::Buffer<f64>; 3]| {
                Ok(Vec3s { x: v[0].to_vec()?, y: v[1].to_vec()?, z: v[2].to_vec()? })
            };
            Ok((read(a)?, read(j)?))
        };
        let found = run().map_err(|error: orrery_device::DeviceError| error.to_string())?;
        compare_jerks(&found, &expected).map_err(|message| format!("n = {n}: {message}"))?;
    }
    Ok(())
}

/// Compares accelerations and jerks with those of the reference implementation.
fn compare_jerks(found: &(Vec3s, Vec3s), expected: &(Vec3s, Vec3s)) -> Result<(), String> {
    for (found, expected, quantity) in
        [(&found.0, &expected.0, "acceleration"), (&found.1, &expected.1, "jerk")]
    {
        for (i, expected) in expected.iter().enumerate() {
            if expected == [0.0; 3] && found.get(i) != [0.0; 3] {
                return Err(format!("{quantity} of body {i} is {:?}, expected 0", found.get(i)));
            }
        }
        let all: Vec<usize> = (0..expected.len()).collect();
        let error = ForceErrors::measure(found, &all, expected).max;
        if error.is_nan() || error > 1e-10 {
            return Err(format!("relative error of the {quantity} {error:.1e}, expected at most 1e-10"));
        }
    }
    Ok(())
}

fn check_same_bits(device: &Device) -> Result<(), String> {
    for strategy in production_strategies(device) {
        let system = DirectTestSystem::with_unequal_masses(1000);
        let (first, second) =
            (system.compute_on(device, &strategy, false)?.0, system.compute_on(device, &strategy, false)?.0);
        if first != second {
            return Err(format!("{}: two evaluations differ", strategy.describe()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accuracy::{column_with_one_nan, with_one_nan};

    #[test]
    fn a_nan_in_any_column_fails_the_checks() {
        let limits = DirectErrorLimits { median: f64::MAX, max: f64::MAX };
        // The acceleration of a single body is 0, which has no relative error.
        for n in [1, 33] {
            let system = DirectTestSystem::with_unequal_masses(n);
            let (acceleration, potential) = system.expected();
            assert_eq!(system.compare(&acceleration, limits), Ok(()));
            for with_nan in with_one_nan(&acceleration) {
                system.compare(&with_nan, limits).unwrap_err();
            }
            assert_eq!(compare_potentials(&potential, &potential, f64::MAX), Ok(()));
            for with_nan in column_with_one_nan(&potential) {
                compare_potentials(&with_nan, &potential, f64::MAX).unwrap_err();
            }
            let velocity = DirectTestSystem::cluster(n).position;
            let expected = jerk::accelerations_and_jerks(&system.problem(), &velocity);
            assert_eq!(compare_jerks(&expected, &expected), Ok(()));
            for with_nan in with_one_nan(&expected.0) {
                compare_jerks(&(with_nan, expected.1.clone()), &expected).unwrap_err();
            }
            for with_nan in with_one_nan(&expected.1) {
                compare_jerks(&(expected.0.clone(), with_nan), &expected).unwrap_err();
            }
        }
    }
}
