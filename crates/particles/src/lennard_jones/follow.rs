//! Followers: ranks that compute their parts of the fluids of rank 0.

use std::collections::HashMap;

use orrery_cluster::{ClusterError, Team, Transport};
use orrery_model::Vec3s;
use orrery_model::fluid::FluidParticles;

use super::DeviceFluidError;
use super::command::{Command, Operation};
use super::slab::SlabFluid;

/// Executes the commands of a [`FluidTeam`](super::FluidTeam) on rank 0 until it is dropped.
///
/// After an error the caller must end the group, for example with
/// [`Transport::abort`](orrery_cluster::Transport::abort). The other ranks wait for that.
pub fn follow(team: &Team) -> Result<(), DeviceFluidError> {
    let mut fluids = HashMap::new();
    loop {
        match team.next_command()? {
            Command::End => return Ok(()),
            Command::TakePart { fluid, operation } => {
                match take_part(team.transport(), &mut fluids, fluid, operation) {
                    // Rank 0 has the same error and decides how to continue.
                    Err(DeviceFluidError::Exploded(_)) => {}
                    result => result?,
                }
            }
        }
    }
}

/// Executes an operation on the fluid with this number.
fn take_part(
    transport: &Transport,
    fluids: &mut HashMap<u64, SlabFluid>,
    number: u64,
    operation: Operation,
) -> Result<(), DeviceFluidError> {
    if let Operation::Create { settings, bounds, total } = &operation {
        let none = FluidParticles::at_rest(*bounds, &Vec3s::default());
        fluids.insert(number, SlabFluid::new(transport, none, settings, *total)?);
        return Ok(());
    }
    let message = || format!("there is no fluid with number {number}");
    let fluid = fluids.get_mut(&number).ok_or_else(|| ClusterError::Command { message: message() })?;
    match operation {
        Operation::Create { .. } => {}
        Operation::CopyTo { copy } => {
            let copied = fluid.clone();
            fluids.insert(copy, copied);
        }
        Operation::Drop => {
            fluids.remove(&number);
        }
        Operation::Advance { dt, first, steps } => fluid.advance(dt, first, steps)?,
        Operation::Measure => fluid.measure().map(|_| ())?,
        Operation::SendParticles => fluid.particles().map(|_| ())?,
    }
    Ok(())
}
