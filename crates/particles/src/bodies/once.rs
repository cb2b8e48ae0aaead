//! Forces of bodies that do not move, from a device.

use orrery_device::DeviceError;
use orrery_model::Vec3s;

use super::device::{Place, Vectors, columns};
use crate::solver::direct::device::DeviceDirect;
use crate::solver::{Forces, Problem};

/// Sums all pairs on a device, from and to the host.
pub fn forces_on(place: &Place, problem: &Problem) -> Result<Forces, DeviceError> {
    let (device, n) = (&place.device, problem.mass.len());
    if n == 0 {
        return Ok(Forces { potential: problem.with_potential.then(Vec::new), ..Forces::default() });
    }
    let Vec3s { x, y, z } = problem.position;
    let position: Vectors = [device.upload(x)?, device.upload(y)?, device.upload(z)?];
    let acceleration: Vectors = [device.zeros(n)?, device.zeros(n)?, device.zeros(n)?];
    let potential = problem.with_potential.then(|| device.zeros(n)).transpose()?;
    let mass = device.upload(problem.mass)?;
    DeviceDirect::new(device, n, &place.strategy)?.forces(
        columns(&position),
        &mass,
        problem.g,
        problem.eps,
        columns(&acceleration),
        potential.as_ref(),
    )?;
    let [x, y, z] = &acceleration;
    Ok(Forces {
        acceleration: Vec3s { x: x.to_vec()?, y: y.to_vec()?, z: z.to_vec()? },
        potential: potential.map(|potential| potential.to_vec()).transpose()?,
    })
}
