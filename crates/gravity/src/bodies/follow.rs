//! Followers: ranks that repeat the operations of rank 0 on their copies of the bodies.

use std::collections::HashMap;
use std::sync::Arc;

use orrery_cluster::{ClusterError, Team};
use orrery_device::Device;
use orrery_model::{Particles, Vec3s};
use orrery_simd::InstructionSet;

use super::command::{
    BodiesCommand, BodiesOperation, DeviceCommand, SentVectors, broadcast_state, broadcast_vectors,
    hardware_text,
};
use super::{Bodies, BodiesError, CheckStamp, DeviceSetup};
use crate::settings::GravitySettings;
use crate::share::TargetShare;

/// Executes the commands of a [`BodiesTeam`](super::BodiesTeam) on rank 0 until it is dropped.
/// `device` is the device of this rank. It is used if the bodies of rank 0 are on a device.
///
/// After an error the caller must end the group, for example with
/// [`Transport::abort`](orrery_cluster::Transport::abort). The other ranks wait for that.
pub fn follow(team: &Team, device: Option<&Device>) -> Result<(), BodiesError> {
    let transport = team.transport();
    let device = device.map(|device| device.for_rank(transport.local_rank())).transpose()?;
    let share = Arc::new(TargetShare::new(transport));
    let mut follower = Follower { team, device, share, replicas: HashMap::new() };
    loop {
        match team.next_command()? {
            BodiesCommand::End => return Ok(()),
            BodiesCommand::Repeat { bodies, operation } => match follower.execute(bodies, operation) {
                // Rank 0 failed and decides how to continue. If it has ended the group, the next
                // command is an error.
                Err(BodiesError::Cluster(ClusterError::Aborted { rank: 0, .. })) => {}
                result => result?,
            },
        }
    }
}

struct Follower<'a> {
    team: &'a Team,
    device: Option<Device>,
    share: Arc<TargetShare>,
    /// Bodies by their number.
    replicas: HashMap<u64, Replica>,
}

struct Replica {
    bodies: Bodies,
    /// Name of the instruction set of rank 0.
    instruction_set: String,
}

impl Follower<'_> {
    fn execute(&mut self, number: u64, operation: BodiesOperation) -> Result<(), BodiesError> {
        match operation {
            BodiesOperation::Restore { settings, instruction_set, has } => {
                let bodies = self.receive_bodies(&settings, has)?;
                self.replicas.insert(number, Replica { bodies, instruction_set });
                Ok(())
            }
            BodiesOperation::Drop => {
                self.replicas.remove(&number);
                Ok(())
            }
            BodiesOperation::CopyTo { copy } => {
                let Replica { bodies, instruction_set } = self.replica(number)?;
                let replica =
                    Replica { bodies: bodies.try_clone()?, instruction_set: instruction_set.clone() };
                self.replicas.insert(copy, replica);
                Ok(())
            }
            BodiesOperation::Start { device } => {
                let setup = device.map(|device| self.setup(&device)).transpose()?;
                let replica = self.replica(number)?;
                if setup.is_none() {
                    replica.expect_same_set()?;
                }
                replica.bodies.start(setup.as_ref())
            }
            BodiesOperation::MoveTo { device } => {
                let setup = self.setup(&device)?;
                self.replica(number)?.bodies.move_to(&setup)
            }
            BodiesOperation::SetPhaseSpace => {
                let (transport, none) = (self.team.transport(), Vec3s::default());
                let position = broadcast_vectors(transport, &none)?;
                let velocity = broadcast_vectors(transport, &none)?;
                self.replica(number)?.bodies.set_phase_space(position, velocity)
            }
            operation => {
                let team = self.team;
                let replica = self.replica(number)?;
                team.time_steps(|| replica.execute(operation))
            }
        }
    }

    fn replica(&mut self, number: u64) -> Result<&mut Replica, ClusterError> {
        let message = || format!("there are no bodies with number {number}");
        self.replicas.get_mut(&number).ok_or_else(|| ClusterError::Command { message: message() })
    }

    fn receive_bodies(&self, settings: &GravitySettings, has: SentVectors) -> Result<Bodies, ClusterError> {
        let (particles, none) = (Particles::default(), Vec3s::default());
        let (particles, acceleration, jerk) =
            broadcast_state(self.team.transport(), has, &particles, &none, None)?;
        let bodies = Bodies::restore(particles, acceleration, jerk, settings);
        Ok(Bodies { share: Arc::clone(&self.share), ..bodies })
    }

    /// Returns the setup of this rank. Its device must be of the same kind as that of rank 0.
    fn setup(&self, leader: &DeviceCommand) -> Result<DeviceSetup, BodiesError> {
        match &self.device {
            Some(device) if hardware_text(device) == leader.hardware => {
                Ok(DeviceSetup { device: device.clone(), strategy: leader.strategy })
            }
            device => Err(BodiesError::Hardware {
                found: device.as_ref().map_or_else(|| "the CPU".to_owned(), hardware_text),
                expected: leader.hardware.clone(),
            }),
        }
    }
}

impl Replica {
    fn execute(&mut self, operation: BodiesOperation) -> Result<(), BodiesError> {
        let is_on_host = self.bodies.device().is_none();
        if is_on_host && operation.evaluates() {
            self.expect_same_set()?;
        }
        let bodies = &mut self.bodies;
        match operation {
            BodiesOperation::Kick { dt } => bodies.kick(dt.into()),
            BodiesOperation::Drift { dt } => bodies.drift(dt.into()),
            BodiesOperation::KickAndDrift { kick_dt, drift_dt } => {
                bodies.kick_and_drift(kick_dt.into(), drift_dt.into())
            }
            BodiesOperation::UpdateForces => bodies.update_forces(),
            BodiesOperation::RequestPotential { evaluation } => bodies.request_potential(evaluation),
            BodiesOperation::UpdateForcesAndJerks => bodies.update_forces_and_jerks(),
            BodiesOperation::MarkStart => bodies.mark_start(),
            BodiesOperation::SetFromStart { field, terms } => {
                let terms: Vec<_> = terms.into_iter().map(|(weight, term)| (weight.into(), term)).collect();
                bodies.set_from_start(field, &terms)
            }
            BodiesOperation::PotentialEnergy => bodies.potential_energy().map(drop),
            BodiesOperation::ShortestPairTime => bodies.shortest_pair_time2().map(drop),
            BodiesOperation::CheckStep { step, time } => {
                match bodies.check_step(CheckStamp { step, time: time.into() }) {
                    // Rank 0 finds the same value in its bodies and reports it.
                    Err(BodiesError::NotFinite { .. }) => Ok(()),
                    result => result,
                }
            }
            BodiesOperation::Restore { .. }
            | BodiesOperation::Start { .. }
            | BodiesOperation::MoveTo { .. }
            | BodiesOperation::CopyTo { .. }
            | BodiesOperation::Drop
            | BodiesOperation::SetPhaseSpace => unreachable!("operations of the follower"),
        }
    }

    /// Fails if this rank has another instruction set than rank 0, because its forces would have
    /// other bits.
    fn expect_same_set(&self) -> Result<(), BodiesError> {
        let found = InstructionSet::best().name();
        if found == self.instruction_set {
            return Ok(());
        }
        Err(BodiesError::Hardware { found: found.to_owned(), expected: self.instruction_set.clone() })
    }
}
