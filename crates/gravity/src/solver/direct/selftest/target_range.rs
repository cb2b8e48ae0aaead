//! Check of the forces on a range of targets.

use std::ops::Range;

use orrery_device::{Device, DeviceError};
use orrery_model::{Precision, Vec3s};

use super::{DirectErrorLimits, DirectTestSystem, columns, with_shapes};
use crate::accuracy::ForceErrors;
use crate::solver::direct::device::{DeviceTargetSum, DirectDeviceStrategy, DirectKernel};
use crate::solver::{ForceProblem, reference};

/// Value of the accelerations before the sum, which those of other bodies keep.
const BEFORE: f64 = 7.0;

/// Compares the forces on the first, the last, some, all and none of the bodies with the reference.
pub fn check_target_ranges(device: &Device) -> Result<(), String> {
    for (precision, shape) in [(Precision::Single, (64, 4, 4, 0)), (Precision::Double, (96, 3, 8, 5))] {
        for strategy in with_shapes(DirectKernel::Tiled, precision, &[shape]) {
            for n in [1, 33, 1000] {
                let system = DirectTestSystem::with_unequal_masses(n);
                for targets in [0..n, 0..1, n - 1..n, n / 3..n, n / 4..n / 2] {
                    check_range(device, &strategy, &system, targets.clone())
                        .map_err(|message| format!("targets {targets:?} of {n}: {message}"))?;
                }
            }
        }
    }
    Ok(())
}

fn check_range(
    device: &Device,
    strategy: &DirectDeviceStrategy,
    system: &DirectTestSystem,
    targets: Range<usize>,
) -> Result<(), String> {
    let found = compute(device, strategy, system, &targets).map_err(|error| error.to_string())?;
    for body in (0..system.mass.len()).filter(|body| !targets.contains(body)) {
        if found.get(body) != [BEFORE; 3] {
            return Err(format!("acceleration of body {body} is {:?}, expected {BEFORE}", found.get(body)));
        }
    }
    let targets: Vec<usize> = targets.collect();
    let expected = reference::forces_on(&system.problem(), &targets).0;
    let errors = ForceErrors::measure(&found, &targets, &expected);
    let limit = DirectErrorLimits::for_precision(strategy.precision).max;
    if targets.is_empty() || errors.max <= limit {
        return Ok(());
    }
    Err(format!("largest relative error {:.1e}, expected at most {limit:.1e}", errors.max))
}

fn compute(
    device: &Device,
    strategy: &DirectDeviceStrategy,
    system: &DirectTestSystem,
    targets: &Range<usize>,
) -> Result<Vec3s, DeviceError> {
    let ForceProblem { position, mass, g, eps, .. } = system.problem();
    let before = vec![BEFORE; mass.len()];
    let from = [device.upload(&position.x)?, device.upload(&position.y)?, device.upload(&position.z)?];
    let to = [device.upload(&before)?, device.upload(&before)?, device.upload(&before)?];
    let mut sum = DeviceTargetSum::new(device, mass, targets.clone(), strategy)?;
    sum.queue_forces(columns(&from), &device.upload(mass)?, g, eps, columns(&to))?;
    Ok(Vec3s { x: to[0].to_vec()?, y: to[1].to_vec()?, z: to[2].to_vec()? })
}
