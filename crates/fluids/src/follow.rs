//! Followers: ranks that compute their parts of the fluids of rank 0.

use std::collections::HashMap;

use orrery_cluster::{ClusterError, Team};
use orrery_device::Device;

use super::DeviceFluidError;
use super::command::{FluidCommand, FluidOperation};
use super::rank::RankFluid;

/// Executes the commands of a [`FluidTeam`](super::FluidTeam) on rank 0 until it is dropped.
/// `device` is the device of this rank. It is used if the fluid of rank 0 is on a device.
///
/// After an error the caller must end the group, for example with
/// [`Transport::abort`](orrery_cluster::Transport::abort). The other ranks wait for that.
pub fn follow(team: &Team, device: Option<&Device>) -> Result<(), DeviceFluidError> {
    let device = device.map(|device| device.for_rank(team.transport().local_rank())).transpose()?;
    let mut follower = Follower { team, device, fluids: HashMap::new() };
    loop {
        match team.next_command()? {
            FluidCommand::End => return Ok(()),
            FluidCommand::TakePart { fluid, operation } => match follower.take_part(fluid, operation) {
                // Rank 0 has the same error and decides how to continue.
                Err(DeviceFluidError::Exploded(_)) => {}
                result => result?,
            },
        }
    }
}

struct Follower<'a> {
    team: &'a Team,
    device: Option<Device>,
    /// Fluids by their number.
    fluids: HashMap<u64, RankFluid>,
}

impl Follower<'_> {
    /// Executes an operation on the fluid with this number.
    fn take_part(&mut self, number: u64, operation: FluidOperation) -> Result<(), DeviceFluidError> {
        match operation {
            FluidOperation::Create(shared) => {
                let fluid = RankFluid::new(self.team.transport(), &shared, None, self.device.as_ref())?;
                self.fluids.insert(number, fluid);
            }
            FluidOperation::CopyTo { copy } => {
                let copied = self.fluid(number)?.try_clone()?;
                self.fluids.insert(copy, copied);
            }
            FluidOperation::Drop => {
                self.fluids.remove(&number);
            }
            FluidOperation::Advance { dt, first, steps } => {
                let team = self.team;
                let fluid = self.fluid(number)?;
                team.time_steps(|| fluid.advance(dt, first, steps))?;
            }
            FluidOperation::Measure => self.fluid(number)?.measure().map(|_| ())?,
            FluidOperation::SendParticles => self.fluid(number)?.particles().map(|_| ())?,
        }
        Ok(())
    }

    fn fluid(&mut self, number: u64) -> Result<&mut RankFluid, ClusterError> {
        let message = || format!("there is no fluid with number {number}");
        self.fluids.get_mut(&number).ok_or_else(|| ClusterError::Command { message: message() })
    }
}
