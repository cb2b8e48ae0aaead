//! A follower: it computes its share of the systems of the leader.

use std::fmt::Display;

use orrery_cluster::Team;
use orrery_device::{Device, DeviceChoice};
use orrery_fields::{heat, wave};
use orrery_formats::Limits;
use orrery_gravity::bodies;

use super::planned_failure::fail_for_test;
use super::{Command, FAREWELL, SentBackend, SharedSystem, gather_devices};
use crate::case::{Case, Physics};
use crate::compute_device::{ComputeDevice, DeviceRequest};
use crate::error::EngineError;
use crate::input_files::{InputFiles, find_difference};
use crate::{heat as heat_system, wave as wave_system};

/// Settings of a follower.
#[derive(Clone, Copy, Debug, Default)]
pub struct FollowerSettings {
    /// Device of this rank. `Auto` is a device of the same kind as that of rank 0.
    pub device: DeviceRequest,
    /// Limits for reading input files.
    pub limits: Limits,
}

/// Takes part in the runs of rank 0 until it dismisses the followers
/// ([`Ranks::dismiss`](super::Ranks::dismiss)).
///
/// After an error the caller must end the group, for example with
/// [`Transport::abort`](orrery_cluster::Transport::abort). The other ranks wait for that.
pub fn follow(team: &Team, settings: &FollowerSettings) -> Result<(), EngineError> {
    // Parallel loops are started from a thread of the pool, as in a run of one rank.
    rayon::scope(|_| {
        loop {
            match team.next_command()? {
                Command::Start { backend, system } => follow_system(team, backend, &system, settings)?,
                Command::End => {
                    let farewell = [0u8; 0];
                    return Ok(team
                        .transport()
                        .exchange(|exchange| exchange.send(0, FAREWELL, &farewell))?);
                }
            }
        }
    })
}

fn follow_system(
    team: &Team,
    backend: Option<SentBackend>,
    system: &SharedSystem,
    settings: &FollowerSettings,
) -> Result<(), EngineError> {
    let device = match backend {
        Some(backend) => open_device(team, backend, settings.device.choice)?,
        // `Auto` can select the CPU, for example because the device of rank 0 has too little
        // memory.
        None => None,
    };
    let selected = ComputeDevice { device, reason: None };
    gather_devices(team, &selected)?;
    fail_for_test(team)?;
    let device = selected.device.as_ref();
    match system {
        SharedSystem::Bodies => bodies::follow(team, device).map_err(rank_error),
        SharedSystem::Fluid => orrery_fluids::follow(team, device).map_err(rank_error),
        SharedSystem::Field { case } => follow_field(team, case, device, settings),
    }
}

fn open_device(
    team: &Team,
    backend: SentBackend,
    choice: DeviceChoice,
) -> Result<Option<Device>, EngineError> {
    let choice = match choice {
        DeviceChoice::Auto => DeviceChoice::of_backend(backend.into(), None),
        choice => choice,
    };
    Ok(Device::open_for_rank(choice, team.transport().local_rank())?)
}

/// Computes the field of `case` with the other ranks. If the ranks have read different files, the
/// leader reports it, and this rank waits for its next command.
fn follow_field(
    team: &Team,
    case: &str,
    device: Option<&Device>,
    settings: &FollowerSettings,
) -> Result<(), EngineError> {
    let (files, tuned) = (InputFiles::new(&settings.limits), settings.device.tuned);
    let case = Case::load_from_checkpoint(case, "case", &[])?;
    match &case.physics {
        Physics::Heat(heat) => {
            let problem = heat_system::build_problem(&case, heat, &files)?;
            if find_difference(team, &files.into_hashes())?.is_some() {
                return Ok(());
            }
            let setup = device.map(|device| heat_system::device_setup(device, &problem, tuned));
            heat::follow(team, &problem, setup.as_ref()).map_err(rank_error)
        }
        Physics::Wave(wave) => {
            let problem = wave_system::build_problem(&case, wave, &files)?;
            if find_difference(team, &files.into_hashes())?.is_some() {
                return Ok(());
            }
            let setup = device.map(|device| wave_system::device_setup(device, &problem, tuned));
            wave::follow(team, &problem, setup.as_ref()).map_err(rank_error)
        }
        Physics::Gravity(_) | Physics::LennardJones(_) => {
            unreachable!("the leader sends the cases of fields")
        }
    }
}

fn rank_error(error: impl Display) -> EngineError {
    EngineError::Ranks { message: error.to_string() }
}
