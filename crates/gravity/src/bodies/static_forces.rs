//! Forces of bodies that do not move, computed on a device.

use orrery_device::DeviceError;

use super::device::{BodyVectors, columns, download, upload, zeros};
use super::device_setup::DeviceSetup;
use crate::settings::Acceptance;
use crate::solver::device::{DeviceSolver, ForceRequest};
use crate::solver::{ForceProblem, Forces};

/// Copies the bodies to a device, computes their forces there and copies these back.
///
/// Only the tree uses `acceptance`.
pub fn forces_on_device(
    setup: &DeviceSetup,
    problem: &ForceProblem,
    acceptance: Acceptance,
) -> Result<Forces, DeviceError> {
    let (device, n) = (&setup.device, problem.mass.len());
    if n == 0 {
        return Ok(Forces { potential: problem.with_potential.then(Vec::new), ..Forces::default() });
    }
    let position: BodyVectors = upload(device, problem.position)?;
    let acceleration: BodyVectors = zeros(device, n)?;
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
    Ok(Forces {
        acceleration: download(&acceleration)?,
        potential: potential.map(|potential| potential.to_vec()).transpose()?,
    })
}
