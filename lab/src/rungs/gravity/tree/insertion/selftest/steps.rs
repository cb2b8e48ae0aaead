//! Checks of whole steps and of their numbers of blocks.

use orrery_device::{Device, KernelBuilder};
use orrery_model::Vec3s;

use super::{ALL, BLOCKS_PER_SM, Insertion, error_message, geometric, is_slow};
use crate::rungs::gravity::test_system::LectureSystem;
use crate::rungs::gravity::tree::insertion::InsertionSteps;

/// Numbers of blocks that do not divide the bodies evenly, down to one per SM, do not change a bit.
pub(super) fn block_counts(device: &Device) -> Result<(), String> {
    let system = LectureSystem::cluster(if is_slow(device) { 3000 } else { 200_000 });
    let expected = system.insertion_forces(device, ALL, 0.6)?.0;
    for blocks_per_sm in [[1; 6], [3, 1, 2, 1, 5, 1]] {
        let mut steps = InsertionSteps::new(device, ALL, blocks_per_sm, &system.problem(), 0.6, 0.0)
            .map_err(error_message)?;
        let found = steps.queue_step().and_then(|()| steps.accelerations()).map_err(error_message)?;
        if found != expected {
            return Err(format!("blocks per SM {blocks_per_sm:?}: results differ"));
        }
    }
    Ok(())
}

/// Checks that each step computes the accelerations of the bodies where they are, and then moves
/// them by v += a dt, x += v dt.
pub(super) fn check_steps(device: &Device) -> Result<(), String> {
    let dt = 1e-3;
    for n in [1, 33, 1000] {
        let mut system = LectureSystem::cluster(n);
        let mut steps = InsertionSteps::new(device, ALL, BLOCKS_PER_SM, &system.problem(), 0.5, dt)
            .map_err(error_message)?;
        let mut forces =
            Insertion::new(&mut KernelBuilder::new(device), n, ALL, BLOCKS_PER_SM).map_err(error_message)?;
        let mut velocity = Vec3s::zeros(n);
        for step in 0..3 {
            let times = steps.time_kernels().map_err(error_message)?;
            let are_valid = times.iter().all(|time| *time >= 0.0) && times.iter().sum::<f64>() > 0.0;
            if !are_valid {
                return Err(format!("n = {n}: times {times:?} of the kernels"));
            }
            let acceleration = steps.accelerations().map_err(error_message)?;
            let expected = system.evaluate(device, &mut forces, geometric(0.5)).map_err(error_message)?;
            if acceleration != expected {
                return Err(format!("n = {n}, step {step}: accelerations differ from those without steps"));
            }
            let found = steps.positions().map_err(error_message)?;
            for i in 0..n {
                let (v, a, x) = (velocity.get(i), acceleration.get(i), system.position.get(i));
                let v: [f64; 3] = std::array::from_fn(|c| v[c] + a[c] * dt);
                let expected: [f64; 3] = std::array::from_fn(|c| x[c] + v[c] * dt);
                velocity.set(i, v);
                // A device may fuse the products and sums. Both results are rounded to 2^-53, for
                // coordinates below 2. Errors of velocities are smaller by dt.
                let is_close = (0..3).all(|c| (found.get(i)[c] - expected[c]).abs() <= 3e-16);
                if !is_close {
                    let found = found.get(i);
                    return Err(format!(
                        "n = {n}, step {step}: body {i} is at {found:?}, expected {expected:?}"
                    ));
                }
            }
            system.position = found;
        }
    }
    Ok(())
}
