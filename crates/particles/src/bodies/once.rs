//! Forces of bodies that do not move, from a device.

use orrery_device::DeviceError;
use orrery_model::Vec3s;

use super::device::{Vectors, columns};
use super::device_setup::DeviceSetup;
use crate::settings::Acceptance;
use crate::solver::device::{DeviceSolver, ForceRequest};
use crate::solver::{Forces, Problem};

/// Computes forces on a device, from and to the host; `acceptance` is the tree's.
pub fn forces_on_device(
    setup: &DeviceSetup,
    problem: &Problem,
    acceptance: Acceptance,
) -> Result<Forces, DeviceError> {
    let (device, n) = (&setup.device, problem.mass.len());
    if n == 0 {
        return Ok(Forces { potential: problem.with_potential.then(Vec::new), ..Forces::default() });
    }
    let Vec3s { x, y, z } = problem.position;
    let position: Vectors = [device.upload(x)?, device.upload(y)?, device.upload(z)?];
    let acceleration: Vectors = [device.zeros(n)?, device.zeros(n)?, device.zeros(n)?];
    let potential = problem.with_potential.then(|| device.zeros(n)).transpose()?;
    let mass = device.upload(problem.mass)?;
    DeviceSolver::new(device, n, &setup.strategy)?.forces(&ForceRequest {
        position: columns(&position),
        mass: &mass,
        g: problem.g,
        eps: problem.eps,
        acceptance,
        previous: None,
        acceleration: columns(&acceleration),
        potential: potential.as_ref(),
    })?;
    let [x, y, z] = &acceleration;
    Ok(Forces {
        acceleration: Vec3s { x: x.to_vec()?, y: y.to_vec()?, z: z.to_vec()? },
        potential: potential.map(|potential| potential.to_vec()).transpose()?,
    })
}
